//! A text as the pipeline takes it apart first: into added tokens, and the pieces between them.
//!
//! Only the tokens that are looked for in the raw text, before it is normalized. They are found as `tokenizers` 0.23
//! finds them (`AddedVocabulary::find_matches`): the leftmost, of these the longest, with the white space that a token
//! takes along. What stands between them never meets again, so each piece may be encoded by itself.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::AddedToken;

/// A part of a text, as byte offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// An added token and the white space it took along.
    Token(u32, Range<usize>),
    Text(Range<usize>),
}

impl Piece {
    pub fn end(&self) -> usize {
        match self {
            Self::Token(_, range) | Self::Text(range) => range.end,
        }
    }
}

#[derive(Clone, Copy)]
struct Found {
    id: u32,
    takes_left: bool,
    takes_right: bool,
}

/// Finds the added tokens of one tokenizer.
pub struct Pieces {
    tokens: Vec<Found>,
    finder: Option<AhoCorasick>,
    /// Bytes of the longest token.
    pub longest: usize,
}

impl Pieces {
    /// None where texts cannot be taken apart: a token that counts only as a word of its own depends on its neighbours,
    /// and one that begins with white space on the token before it.
    pub fn new<'a>(added: impl IntoIterator<Item = (u32, &'a AddedToken)>) -> Option<Self> {
        let raw: Vec<(u32, &AddedToken)> = added.into_iter().filter(|(_, token)| !token.normalized).collect();
        let takes_right = raw.iter().any(|(_, token)| token.rstrip);
        let entangled =
            |token: &AddedToken| token.single_word || (takes_right && token.content.starts_with(char::is_whitespace));
        if raw.iter().any(|(_, token)| entangled(token)) {
            return None;
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(raw.iter().map(|(_, token)| &token.content))
            .ok()?;
        Some(Self {
            longest: raw.iter().map(|(_, token)| token.content.len()).max().unwrap_or(0),
            finder: (!raw.is_empty()).then_some(finder),
            tokens: raw.into_iter().map(|(id, token)| found(id, token)).collect(),
        })
    }

    /// The parts of `text`, in order, none empty.
    pub fn of(&self, text: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut begun = 0;
        for hit in self.finder.iter().flat_map(|finder| finder.find_iter(text)) {
            let token = self.tokens[hit.pattern().as_usize()];
            let start = if token.takes_left {
                begun.max(text[..hit.start()].trim_end().len())
            } else {
                hit.start()
            };
            let rest = &text[hit.end()..];
            let end = if token.takes_right {
                text.len() - rest.trim_start().len()
            } else {
                hit.end()
            };
            if begun < start {
                pieces.push(Piece::Text(begun..start));
            }
            pieces.push(Piece::Token(token.id, start..end));
            begun = end;
        }
        if begun < text.len() {
            pieces.push(Piece::Text(begun..text.len()));
        }
        pieces
    }
}

fn found(id: u32, token: &AddedToken) -> Found {
    Found {
        id,
        takes_left: token.lstrip,
        takes_right: token.rstrip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(content: &str) -> AddedToken {
        AddedToken::from(content, true)
    }

    fn pieces(tokens: &[AddedToken]) -> Option<Pieces> {
        Pieces::new((0..).zip(tokens))
    }

    #[test]
    fn the_leftmost_and_longest_token_counts() {
        let found = pieces(&[token("<a>"), token("<a><b>"), token("b>")])
            .expect("plain")
            .of("x<a><b>y<a>");
        assert_eq!(
            found,
            [
                Piece::Text(0..1),
                Piece::Token(1, 1..7),
                Piece::Text(7..8),
                Piece::Token(0, 8..11)
            ]
        );
    }

    #[test]
    fn a_token_takes_the_white_space_that_it_is_declared_to() {
        let both = pieces(&[token("<a>").lstrip(true).rstrip(true)])
            .expect("plain")
            .of("x  <a>\n\u{a0}y");
        assert_eq!(both, [Piece::Text(0..1), Piece::Token(0, 1..9), Piece::Text(9..10)]);
        let twice = pieces(&[token("<a>").lstrip(true).rstrip(true)])
            .expect("plain")
            .of("<a>  <a>");
        assert_eq!(twice, [Piece::Token(0, 0..5), Piece::Token(0, 5..8)]);
    }

    #[test]
    fn words_of_their_own_and_tokens_of_white_space_after_greedy_ones_cannot_be_told_apart() {
        assert!(pieces(&[token("word").single_word(true)]).is_none());
        assert!(pieces(&[token("\n"), token("<a>").rstrip(true)]).is_none());
        assert!(pieces(&[token("\n"), token("<a>")]).is_some());
    }

    #[test]
    fn a_tokenizer_without_added_tokens_has_whole_texts() {
        let none = pieces(&[]).expect("plain");
        assert_eq!(none.of("text"), [Piece::Text(0..4)]);
        assert!(none.of("").is_empty());
    }
}
