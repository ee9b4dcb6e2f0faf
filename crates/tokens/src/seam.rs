//! Seams: places inside a piece of text at which it may be cut.

use memchr::memchr3_iter;

/// A kind of place, told by the characters on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seam {
    /// Between an ASCII letter, a digit or one of `, . : ;` and a space.
    Space,
    /// Between a Chinese or Japanese character and a full stop, comma or the like of theirs.
    Ideographic,
}

impl Seam {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Space, Self::Ideographic];

    /// A word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Space => "space",
            Self::Ideographic => "ideographic",
        }
    }

    /// The ranges of the characters before it.
    pub(crate) fn before(self) -> &'static [(char, char)] {
        match self {
            // Few vocabularies join one of these to what comes after a space; `>` is joined in Gemma's.
            Self::Space => &[('a', 'z'), ('A', 'Z'), ('0', '9'), (',', ','), ('.', '.'), (':', ';')],
            // Hiragana and Katakana without the marks that combine, and the common Chinese characters.
            Self::Ideographic => &[
                ('\u{3041}', '\u{3096}'),
                ('\u{30a1}', '\u{30fa}'),
                ('\u{4e00}', '\u{9fa5}'),
            ],
        }
    }

    /// The characters after it.
    pub(crate) fn after(self) -> &'static [char] {
        match self {
            Self::Space => &[' '],
            Self::Ideographic => &['。', '，', '、', '；', '：', '？', '！'],
        }
    }

    pub(crate) fn may_precede(self, character: char) -> bool {
        self.before()
            .iter()
            .any(|&(low, high)| (low..=high).contains(&character))
    }

    pub(crate) fn may_follow(self, character: char) -> bool {
        self.after().contains(&character)
    }

    /// Whether it occurs anywhere in `text`.
    pub(crate) fn stands_in(self, text: &str) -> bool {
        text.chars()
            .zip(text.chars().skip(1))
            .any(|(left, right)| self.may_precede(left) && self.may_follow(right))
    }
}

/// A segment is as short as this many bytes only where its piece is: shorter ones cost more to look up than to encode.
const SHORTEST: usize = 256;
/// From here on any seam ends the segment.
const LONG: usize = 2_048;
/// Of the seams in between one in this many ends it: some 500 bytes further, or a hundred tokens.
const ONE_IN: u64 = 64;
/// How many bytes before a seam decide.
const WINDOW: usize = 8;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where the segment that begins at `start` of `piece` ends: a seam of one of `kinds`, or the piece's end.
///
/// What decides are the bytes just before a seam, not how many came before, so that equal texts fall into equal
/// segments soon after a difference.
pub fn segment_end(piece: &str, start: usize, kinds: &[Seam]) -> usize {
    let bytes = piece.as_bytes();
    let first = start + SHORTEST;
    if kinds.is_empty() || first >= bytes.len() {
        return bytes.len();
    }
    // What follows a seam begins with one of these in UTF-8; all other text is passed over.
    memchr3_iter(b' ', 0xe3, 0xef, &bytes[first..])
        .map(|offset| first + offset)
        .find(|&at| (at - start >= LONG || chosen(&bytes[at - WINDOW..at])) && is_seam(piece, at, kinds))
        .unwrap_or(bytes.len())
}

/// The parts of `text` between its seams, in order; each but the first begins with what follows a seam.
pub fn words<'a>(text: &'a str, kinds: &'a [Seam]) -> impl Iterator<Item = &'a str> {
    let bytes = text.as_bytes();
    let inside = bytes.get(1..).unwrap_or_default();
    let seams = memchr3_iter(b' ', 0xe3, 0xef, inside)
        .map(|offset| offset + 1)
        .filter(|&at| is_seam(text, at, kinds))
        .chain(std::iter::once(text.len()));
    seams.scan(0, |start, end| {
        let word = &text[*start..end];
        *start = end;
        Some(word)
    })
}

fn is_seam(piece: &str, at: usize, kinds: &[Seam]) -> bool {
    let bytes = piece.as_bytes();
    if bytes[at] == b' ' {
        return kinds.contains(&Seam::Space) && Seam::Space.may_precede(char::from(bytes[at - 1]));
    }
    kinds.contains(&Seam::Ideographic) && is_ideographic(piece, at)
}

fn is_ideographic(piece: &str, at: usize) -> bool {
    if !piece.is_char_boundary(at) {
        return false;
    }
    let follows = piece[at..]
        .chars()
        .next()
        .is_some_and(|next| Seam::Ideographic.may_follow(next));
    follows
        && piece[..at]
            .chars()
            .next_back()
            .is_some_and(|last| Seam::Ideographic.may_precede(last))
}

fn chosen(window: &[u8]) -> bool {
    let number = window
        .iter()
        .fold(0_u64, |number, &byte| (number << 8) | u64::from(byte));
    number.wrapping_mul(MULTIPLIER) >> (64 - ONE_IN.trailing_zeros()) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments<'a>(piece: &'a str, kinds: &[Seam]) -> Vec<&'a str> {
        let mut start = 0;
        let mut found = Vec::new();
        while start < piece.len() {
            let end = segment_end(piece, start, kinds);
            found.push(&piece[start..end]);
            start = end;
        }
        found
    }

    fn words(count: usize) -> String {
        let words: Vec<String> = (0..count).map(|i| format!("word{} ", i * i % 977)).collect();
        words.concat()
    }

    #[test]
    fn segments_cover_the_piece_and_end_at_seams() {
        let piece = words(2_000);
        let found = segments(&piece, &Seam::ALL);
        assert_eq!(found.concat(), piece);
        assert!(found.len() > 10);
        assert!(found[1..].iter().all(|segment| segment.starts_with(' ')));
        assert!(found[..found.len() - 1].iter().all(|segment| segment.len() >= SHORTEST));
    }

    #[test]
    fn a_text_cut_from_the_front_falls_into_the_same_segments_again() {
        let piece = words(4_000);
        let whole = segments(&piece, &[Seam::Space]);
        let cut = segments(&piece[3_001..], &[Seam::Space]);
        let shared = cut.iter().filter(|segment| whole.contains(segment)).count();
        assert!(shared * 4 > cut.len() * 3, "{shared} of {}", cut.len());
    }

    #[test]
    fn chinese_is_cut_before_its_stops() {
        let piece = "路由器把每个请求发送到已经保存了它的前缀的工作节点。".repeat(100);
        let found = segments(&piece, &Seam::ALL);
        assert!(found.len() > 2);
        assert!(found[1..].iter().all(|segment| segment.starts_with('。')));
        assert_eq!(segments(&piece, &[Seam::Space]).len(), 1);
    }

    #[test]
    fn words_lie_between_seams_and_leave_nothing_out() {
        let found = |text| super::words(text, &Seam::ALL).collect::<Vec<_>>();
        assert_eq!(
            found("One two,  three. 第一，二"),
            ["One", " two,", "  three.", " 第一", "，二"]
        );
        assert_eq!(found(" a b"), [" a", " b"]);
        assert_eq!(found("a"), ["a"]);
        let text = words(500);
        assert_eq!(found(&text).concat(), text);
        assert_eq!(super::words(&text, &[]).collect::<Vec<_>>(), [text.as_str()]);
    }

    #[test]
    fn without_a_seam_a_piece_stays_whole() {
        let piece = "x".repeat(100_000);
        assert_eq!(segments(&piece, &Seam::ALL), [piece.as_str()]);
        assert_eq!(segments(&words(4_000), &[]).len(), 1);
    }
}
