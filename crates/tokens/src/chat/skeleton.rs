//! What a chat template writes around the contents of a conversation whose roles are known.

use memchr::memmem::Finder;
use xxhash_rust::xxh3::Xxh3;

/// White space that is taken off a content, as Python's `strip` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Strip {
    /// From its beginning.
    pub left: bool,
    /// From its end.
    pub right: bool,
}

impl Strip {
    fn apply(self, text: &str) -> &str {
        let text = if self.left {
            text.trim_start_matches(is_space)
        } else {
            text
        };
        if self.right {
            text.trim_end_matches(is_space)
        } else {
            text
        }
    }
}

/// A part of the text that a template writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The same for every conversation of these roles.
    Literal(String),
    /// The content of a message, by its position.
    Content(usize, Strip),
}

/// What a content must be like for the skeleton to hold: else the template goes another way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Texts that it must not hold.
    pub forbidden: Vec<String>,
    /// It must have a character that is no white space.
    pub not_blank: bool,
}

struct Looked {
    finders: Vec<Finder<'static>>,
    not_blank: bool,
}

impl Looked {
    fn new(guard: &Guard) -> Self {
        let finder = |text: &String| Finder::new(text.as_bytes()).into_owned();
        Self {
            finders: guard.forbidden.iter().map(finder).collect(),
            not_blank: guard.not_blank,
        }
    }

    fn holds(&self, text: &str) -> bool {
        let blank = self.not_blank && text.chars().all(is_space);
        !blank && self.finders.iter().all(|finder| finder.find(text.as_bytes()).is_none())
    }
}

/// A content of the text, with the literal before it.
struct Slot {
    literal: String,
    message: usize,
    strip: Strip,
    guard: Looked,
    /// Of all that decides about this part of the text but the content itself.
    print: u128,
}

/// The whole text of a conversation, but for its contents.
pub struct Skeleton {
    slots: Vec<Slot>,
    end: String,
}

impl Skeleton {
    /// From the pieces in their order and a guard for each message. None where a message is not part of the text: what
    /// the template does with it is not known then.
    #[must_use]
    pub fn new(pieces: Vec<Piece>, guards: &[Guard]) -> Option<Self> {
        let mut slots: Vec<Slot> = Vec::with_capacity(guards.len());
        let mut literal = String::new();
        for piece in pieces {
            match piece {
                Piece::Literal(text) => literal.push_str(&text),
                Piece::Content(message, strip) => {
                    let guard = guards.get(message)?;
                    slots.push(Slot::new(std::mem::take(&mut literal), message, strip, guard));
                }
            }
        }
        let shown = |message| slots.iter().any(|slot| slot.message == message);
        (0..guards.len()).all(shown).then_some(Self { slots, end: literal })
    }

    /// Contents in the text; a message may be in it twice.
    pub(crate) fn contents(&self) -> usize {
        self.slots.len()
    }

    /// The message whose content is the `slot`-th.
    pub(crate) fn message(&self, slot: usize) -> usize {
        self.slots[slot].message
    }

    /// A number for the text between the content before the `slot`-th and that, and for what it must be like.
    pub(crate) fn print(&self, slot: usize) -> u128 {
        self.slots[slot].print
    }

    /// What comes before the `slot`-th content.
    pub(crate) fn literal(&self, slot: usize) -> &str {
        &self.slots[slot].literal
    }

    /// Write the `slot`-th content. False, where the skeleton does not hold for it.
    pub(crate) fn write(&self, slot: usize, content: &str, into: &mut String) -> bool {
        let slot = &self.slots[slot];
        into.push_str(slot.strip.apply(content));
        slot.guard.holds(content)
    }

    /// What comes after the last content.
    pub(crate) fn end(&self) -> &str {
        &self.end
    }

    /// Bytes that it takes, about.
    pub(crate) fn size(&self) -> usize {
        let slots = self.slots.iter().map(|slot| slot.literal.len() + size_of::<Slot>());
        slots.sum::<usize>() + self.end.len()
    }
}

impl Slot {
    fn new(literal: String, message: usize, strip: Strip, guard: &Guard) -> Self {
        let mut print = Xxh3::new();
        for text in std::iter::once(&literal).chain(&guard.forbidden) {
            print.update(&text.len().to_le_bytes());
            print.update(text.as_bytes());
        }
        print.update(&[u8::from(strip.left), u8::from(strip.right), u8::from(guard.not_blank)]);
        Self {
            literal,
            message,
            strip,
            guard: Looked::new(guard),
            print: print.digest128(),
        }
    }
}

/// What Python's `str.strip` takes for white space: the four separators of ASCII as well.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Strip = Strip {
        left: true,
        right: true,
    };

    fn skeleton(guard: Guard) -> Skeleton {
        let pieces = vec![
            Piece::Literal("<u>".to_owned()),
            Piece::Content(0, BOTH),
            Piece::Literal("</u>".to_owned()),
        ];
        Skeleton::new(pieces, &[guard]).expect("shown")
    }

    #[test]
    fn contents_are_stripped_as_python_does() {
        let mut text = String::new();
        let skeleton = skeleton(Guard::default());
        assert!(skeleton.write(0, "\u{1f}\u{a0}\n a b \u{3000}\u{85}", &mut text));
        assert_eq!(
            (skeleton.literal(0), text.as_str(), skeleton.end()),
            ("<u>", "a b", "</u>")
        );
    }

    #[test]
    fn a_content_that_the_template_looks_for_does_not_fit() {
        let forbidden = skeleton(Guard {
            forbidden: vec!["</think>".to_owned()],
            not_blank: true,
        });
        let fits = |content: &str| forbidden.write(0, content, &mut String::new());
        assert!(fits("think"));
        assert!(!fits("a</think>b"));
        assert!(!fits(" \n"));
        assert!(!fits(""));
    }

    #[test]
    fn a_message_that_is_not_shown_makes_no_skeleton() {
        let shown = vec![Piece::Content(1, Strip::default())];
        assert!(Skeleton::new(shown.clone(), &[Guard::default(), Guard::default()]).is_none());
        assert!(Skeleton::new(shown, &[Guard::default()]).is_none());
    }

    #[test]
    fn prints_tell_apart_all_that_decides() {
        let one = |literal: &str, strip, forbidden: &[&str]| {
            let pieces = vec![Piece::Literal(literal.to_owned()), Piece::Content(0, strip)];
            let forbidden = forbidden.iter().map(|&text| text.to_owned()).collect();
            let guard = Guard {
                forbidden,
                not_blank: false,
            };
            Skeleton::new(pieces, &[guard]).expect("shown").print(0)
        };
        let prints = [
            one("a", BOTH, &[]),
            one("a", Strip::default(), &[]),
            one("a", BOTH, &["b"]),
            one("ab", BOTH, &[]),
            one("a", BOTH, &["b", "c"]),
            one("a", BOTH, &["bc"]),
        ];
        for (at, print) in prints.iter().enumerate() {
            assert!(!prints[..at].contains(print), "{at}");
        }
        assert_eq!(prints[0], one("a", BOTH, &[]));
    }
}
