//! The ids of words that were seen: new text is mostly made of old words.
//!
//! Where texts may be cut at spaces (see `seam`), the ids of a segment are those of its words put together. Looking a word
//! up takes 60 ns; the library takes 1 us for each, and 4 us for a text however short (`bench/tokenize.py`).

use std::hash::RandomState;

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};
use smallvec::SmallVec;

use crate::cache::Place;

/// Longer ones are seldom seen again.
const LONGEST: usize = 32;
/// A segment with more unknown words than one in this many, and than [`FEW`], is encoded as a whole: one call of the
/// library costs as much as four words.
const ONE_IN: usize = 4;
const FEW: usize = 4;
/// Of the unknown words of such a segment so many are learned, so that the next one has fewer.
const LEARNED: usize = 8;
/// What an entry takes beside its text.
const ENTRY_BYTES: usize = 96;

type Ids = SmallVec<[u32; 4]>;

pub struct Words {
    kept: Option<Cache<Word, Ids, Weight, RandomState>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Word {
    place: Place,
    text: SmallVec<[u8; LONGEST]>,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Word, Ids> for Weight {
    fn weight(&self, word: &Word, ids: &Ids) -> u64 {
        (ENTRY_BYTES + word.text.len() + size_of::<u32>() * ids.len()) as u64
    }
}

impl Words {
    /// At most about `bytes`; 0 keeps nothing.
    pub fn new(bytes: u64) -> Self {
        let expected = usize::try_from(bytes).unwrap_or(usize::MAX) / (ENTRY_BYTES + 16);
        let cache = || Cache::with(expected, bytes, Weight, RandomState::new(), DefaultLifecycle::default());
        Self {
            kept: (expected > 0).then(cache),
        }
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, Cache::weight)
    }

    /// The ids of `words`, which follow each other from a place of the kind `place` on; `encode` tells those of a text
    /// at such a place, and `whole` is all of them.
    pub fn encode<E>(
        &self,
        place: Place,
        words: &[&str],
        whole: &str,
        encode: impl Fn(Place, &str) -> Result<Vec<u32>, E>,
    ) -> Result<Vec<u32>, E> {
        let Some(kept) = &self.kept else {
            return encode(place, whole);
        };
        let places = std::iter::once(place).chain(std::iter::repeat(Place::AfterSeam));
        let asked: Vec<(Place, &str)> = places.zip(words.iter().copied()).collect();
        let found: Vec<Option<Ids>> = asked.iter().map(|&(place, text)| find(kept, place, text)).collect();
        let unknown = found.iter().filter(|ids| ids.is_none()).count();
        let learn = |place, text: &str| -> Result<Vec<u32>, E> {
            let ids = encode(place, text)?;
            if text.len() <= LONGEST {
                kept.insert(word(place, text), Ids::from_slice(&ids));
            }
            Ok(ids)
        };
        let missing = asked.iter().zip(&found).filter(|(_, ids)| ids.is_none());
        if unknown > FEW.max(words.len() / ONE_IN) {
            for (&(place, text), _) in missing.take(LEARNED) {
                learn(place, text)?;
            }
            return encode(place, whole);
        }
        let mut ids = Vec::with_capacity(2 * words.len());
        for (&(place, text), known) in asked.iter().zip(&found) {
            match known {
                Some(known) => ids.extend_from_slice(known),
                None => ids.extend(learn(place, text)?),
            }
        }
        Ok(ids)
    }
}

fn find(kept: &Cache<Word, Ids, Weight, RandomState>, place: Place, text: &str) -> Option<Ids> {
    if text.len() > LONGEST {
        return None;
    }
    kept.get(&word(place, text))
}

fn word(place: Place, text: &str) -> Word {
    Word {
        place,
        text: SmallVec::from_slice(text.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::convert::Infallible;

    use super::*;

    /// An encoder of which each character is an id, and that remembers what it was asked.
    fn ids_of(words: &Words, texts: &[&str], asked: &RefCell<Vec<String>>) -> Vec<u32> {
        let encode = |_, text: &str| -> Result<Vec<u32>, Infallible> {
            asked.borrow_mut().push(text.to_owned());
            Ok(text.chars().map(u32::from).collect())
        };
        let Ok(ids) = words.encode(Place::Start, texts, &texts.concat(), encode);
        ids
    }

    #[test]
    fn what_was_seen_is_not_encoded_again() {
        let (words, asked) = (Words::new(1 << 20), RefCell::default());
        let texts = ["one", " two", " three"];
        let ids: Vec<u32> = texts.concat().chars().map(u32::from).collect();
        assert_eq!(ids_of(&words, &texts, &asked), ids);
        assert_eq!(asked.take(), texts);
        assert_eq!(ids_of(&words, &texts, &asked), ids);
        assert!(asked.take().is_empty());
    }

    #[test]
    fn much_that_is_new_is_encoded_whole_and_learned_by_and_by() {
        let (words, asked) = (Words::new(1 << 20), RefCell::default());
        let texts: Vec<String> = (0..40).map(|i| format!(" w{i}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut wholes = 0;
        for _ in 0..8 {
            let ids: Vec<u32> = texts.concat().chars().map(u32::from).collect();
            assert_eq!(ids_of(&words, &texts, &asked), ids);
            wholes += usize::from(asked.take().contains(&texts.concat()));
        }
        assert!((1..8).contains(&wholes), "{wholes}");
    }

    #[test]
    fn a_word_is_another_at_another_place_and_a_long_one_is_not_kept() {
        let (words, asked) = (Words::new(1 << 20), RefCell::default());
        let long = "x".repeat(LONGEST + 1);
        ids_of(&words, &["a", "a", &long], &asked);
        assert_eq!(asked.take().len(), 3);
        ids_of(&words, &["a", "a", &long], &asked);
        assert_eq!(asked.take(), [long]);
    }

    #[test]
    fn without_room_everything_is_encoded() {
        let (words, asked) = (Words::new(0), RefCell::default());
        ids_of(&words, &["a", " b"], &asked);
        assert_eq!(asked.take(), ["a b"]);
    }
}
