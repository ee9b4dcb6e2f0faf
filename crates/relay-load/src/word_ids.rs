//! The ids of the conversations' texts, word by word, because a whole encode of each turn would be the worker's main work.
//!
//! The words of these texts are tokens by themselves for byte-level encoders, wherever they stand; a test compares.

use std::collections::HashMap;

use tokens::Encoder;

/// Ids of pieces that have been seen.
#[derive(Default)]
pub struct WordIds(HashMap<String, Vec<u32>>);

impl WordIds {
    /// Appends the ids of a message as the model's template writes it.
    pub fn append(&mut self, encoder: &Encoder, role: &str, content: &str, ids: &mut Vec<u32>) {
        self.piece(encoder, &format!("<|im_start|>{role}\n"), ids);
        let mut from = 0;
        for cut in cuts(content).chain([content.len()]) {
            self.piece(encoder, &content[from..cut], ids);
            from = cut;
        }
        self.piece(encoder, "<|im_end|>\n", ids);
    }

    fn piece(&mut self, encoder: &Encoder, piece: &str, ids: &mut Vec<u32>) {
        if !self.0.contains_key(piece) {
            let found = encoder.encode(piece, false).unwrap_or_default();
            self.0.insert(piece.to_owned(), found);
        }
        ids.extend_from_slice(&self.0[piece]);
    }
}

/// Before each space and full stop, and behind each end of a line.
fn cuts(content: &str) -> impl Iterator<Item = usize> + '_ {
    let bytes = content.bytes().enumerate();
    bytes.filter_map(|(at, byte)| match byte {
        b' ' | b'.' => Some(at),
        b'\n' => Some(at + 1),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Plan, opening, turn};
    use crate::tag::Session;

    #[test]
    fn the_ids_are_those_of_the_whole_text() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../python/warmroute/models/warmroute-tiny/tokenizer.json"
        );
        let encoder = Encoder::new(&std::fs::read(file).unwrap(), Vec::new(), Vec::new(), 1 << 20).unwrap();
        let session = Session {
            plan: Plan { size: 8_000 },
            connection: 1,
            number: 2,
        };
        let messages = opening(session)
            .into_iter()
            .chain((1..4).flat_map(|round| turn(session, round, 16)));
        let (mut words, mut text, mut ids) = (WordIds::default(), String::new(), Vec::new());
        for message in messages {
            words.append(&encoder, message.role, &message.content, &mut ids);
            let framed = ["<|im_start|>", message.role, "\n", &message.content, "<|im_end|>\n"];
            text.extend(framed);
        }
        assert_eq!(ids, encoder.encode_whole(&text, false).unwrap());
    }
}
