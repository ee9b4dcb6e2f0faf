//! The tokens that a post-processor puts before and after a text.

use tokenizers::Tokenizer;

/// Found by looking at what happens to two texts, as definitions say it in several ways.
const PROBES: [&str; 2] = ["a", "b, c"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    pub before: Vec<u32>,
    pub after: Vec<u32>,
}

impl Ends {
    /// None where the tokens of the text do not stand between the same others each time.
    pub fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let [one, other] = PROBES.map(|probe| around(tokenizer, probe));
        (one == other).then_some(one)?
    }
}

fn around(tokenizer: &Tokenizer, probe: &str) -> Option<Ends> {
    let bare = tokenizer.encode_fast(probe, false).ok()?;
    let full = tokenizer.encode_fast(probe, true).ok()?;
    let (bare, full) = (bare.get_ids(), full.get_ids());
    if bare.is_empty() {
        return None;
    }
    let mut places = full
        .windows(bare.len())
        .enumerate()
        .filter(|(_, window)| *window == bare);
    let (at, _) = places.next()?;
    places.next().is_none().then(|| Ends {
        before: full[..at].to_vec(),
        after: full[at + bare.len()..].to_vec(),
    })
}
