//! What a pre-tokenizer's pattern proves about a seam: whether a match can go across it, and whether one begins at it.
//!
//! A seam stands between a character of `before` and one of `after`. If no expression in the pattern can take the one
//! and then the other, a matcher never looks past the seam from the left, whatever stands there; and as there are no
//! anchors and nothing looks back, what is right of it is matched as if the text began there.

use regex_syntax::hir::{Class, Hir, HirKind};
use regex_syntax::parse;

use crate::seam::Seam;

/// The one assertion that these patterns have: white space, but not the last of it before a word. It looks at the
/// character after white space only, and a seam has none before it.
const LOOKS_AHEAD: &str = r"\s+(?!\S)";
const NEVER: &str = r"[a&&b]";

/// What one pattern proves about one seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// No match takes characters on both sides, nor depends on what stands on the other.
    pub separates: bool,
    /// A match begins at the seam, whatever follows.
    pub begins: bool,
}

const NOTHING: Proof = Proof {
    separates: false,
    begins: false,
};

/// What `pattern` proves about `seam`; nothing where it cannot be read.
pub fn prove(pattern: &str, seam: Seam) -> Proof {
    let Ok(all) = parse(&without_possession(pattern).replace(LOOKS_AHEAD, r"\s+")) else {
        return NOTHING;
    };
    let Ok(certain) = parse(&certain_choices(pattern).replace(LOOKS_AHEAD, NEVER)) else {
        return NOTHING;
    };
    let Some(span) = span(&all, seam) else {
        return NOTHING;
    };
    let separates = !span.crosses && !span.may_be_empty;
    Proof {
        separates,
        begins: separates && seam.after().iter().all(|&next| takes_alone(&certain, next)),
    }
}

/// The choices of `pattern` that match whatever they can match: a possessive repetition may take what was needed after
/// it and not give it back, so that a choice with one may fail where its language has a match.
fn certain_choices(pattern: &str) -> String {
    if without_possession(pattern) == pattern {
        return pattern.to_owned();
    }
    let certain: Vec<&str> = choices(pattern)
        .into_iter()
        .filter(|choice| without_possession(choice) == **choice && !choice.contains("(?"))
        .collect();
    if certain.is_empty() {
        NEVER.to_owned()
    } else {
        certain.join("|")
    }
}

/// The alternatives at the top of `pattern`.
fn choices(pattern: &str) -> Vec<&str> {
    let (mut groups, mut classes, mut escaped, mut begun) = (0_u32, 0_u32, false, 0);
    let mut found = Vec::new();
    for (at, character) in pattern.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => classes += 1,
            ']' => classes = classes.saturating_sub(1),
            '(' if classes == 0 => groups += 1,
            ')' if classes == 0 => groups = groups.saturating_sub(1),
            '|' if classes == 0 && groups == 0 => {
                found.push(&pattern[begun..at]);
                begun = at + 1;
            }
            _ => {}
        }
    }
    found.push(&pattern[begun..]);
    found
}

/// `pattern` without the `+` that makes a repetition possessive: the language can only grow by that.
///
/// That is a `+` right after the first `?`, `*` or `+`; after a counted or a lazy repetition it repeats once more.
fn without_possession(pattern: &str) -> String {
    let mut plain = String::with_capacity(pattern.len());
    let (mut depth, mut escaped, mut signs) = (0_u32, false, 0_u32);
    for character in pattern.chars() {
        let is_sign = depth == 0 && !escaped && matches!(character, '?' | '*' | '+');
        if is_sign && signs == 1 && character == '+' {
            signs = 2;
            continue;
        }
        signs = if is_sign { signs + 1 } else { 0 };
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            // Counted: what follows is no possession.
            '}' => signs = 2,
            _ => {}
        }
        plain.push(character);
    }
    plain
}

/// How an expression lies about a seam.
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts that do not depend on each other"
)]
#[derive(Clone, Copy)]
struct Span {
    /// It can begin with a character that may follow the seam.
    begins_after: bool,
    /// It can end with a character that may precede the seam.
    ends_before: bool,
    may_be_empty: bool,
    /// It can take characters on both sides.
    crosses: bool,
}

const EMPTY: Span = Span {
    begins_after: false,
    ends_before: false,
    may_be_empty: true,
    crosses: false,
};

/// None for an expression that looks around itself.
fn span(expression: &Hir, seam: Seam) -> Option<Span> {
    match expression.kind() {
        HirKind::Empty => Some(EMPTY),
        HirKind::Look(_) => None,
        HirKind::Literal(literal) => Some(of_text(std::str::from_utf8(&literal.0).ok()?, seam)),
        HirKind::Class(class) => Some(of_class(class, seam)),
        HirKind::Capture(group) => span(&group.sub, seam),
        HirKind::Repetition(repetition) => {
            let once = span(&repetition.sub, seam)?;
            let twice = repetition.max.is_none_or(|most| most > 1);
            Some(Span {
                may_be_empty: once.may_be_empty || repetition.min == 0,
                crosses: once.crosses || (twice && once.ends_before && once.begins_after),
                ..once
            })
        }
        HirKind::Concat(parts) => parts
            .iter()
            .try_fold(EMPTY, |left, right| Some(in_a_row(left, span(right, seam)?))),
        HirKind::Alternation(choices) => choices
            .iter()
            .map(|choice| span(choice, seam))
            .reduce(|one, other| Some(either(one?, other?)))?,
    }
}

fn in_a_row(left: Span, right: Span) -> Span {
    Span {
        begins_after: left.begins_after || (left.may_be_empty && right.begins_after),
        ends_before: right.ends_before || (right.may_be_empty && left.ends_before),
        may_be_empty: left.may_be_empty && right.may_be_empty,
        crosses: left.crosses || right.crosses || (left.ends_before && right.begins_after),
    }
}

fn either(one: Span, other: Span) -> Span {
    Span {
        begins_after: one.begins_after || other.begins_after,
        ends_before: one.ends_before || other.ends_before,
        may_be_empty: one.may_be_empty || other.may_be_empty,
        crosses: one.crosses || other.crosses,
    }
}

fn of_text(text: &str, seam: Seam) -> Span {
    Span {
        begins_after: text.chars().next().is_some_and(|first| seam.may_follow(first)),
        ends_before: text.chars().next_back().is_some_and(|last| seam.may_precede(last)),
        may_be_empty: text.is_empty(),
        crosses: seam.stands_in(text),
    }
}

fn of_class(class: &Class, seam: Seam) -> Span {
    Span {
        begins_after: seam.after().iter().any(|&next| holds(class, next)),
        ends_before: seam.before().iter().any(|&(low, high)| meets(class, low, high)),
        may_be_empty: false,
        crosses: false,
    }
}

fn holds(class: &Class, character: char) -> bool {
    meets(class, character, character)
}

fn meets(class: &Class, low: char, high: char) -> bool {
    match class {
        Class::Unicode(ranges) => ranges.iter().any(|range| range.start() <= high && low <= range.end()),
        Class::Bytes(_) => true,
    }
}

/// Whether the one character is a match by itself.
fn takes_alone(expression: &Hir, character: char) -> bool {
    match expression.kind() {
        HirKind::Empty | HirKind::Look(_) => false,
        HirKind::Literal(literal) => literal.0[..] == *character.encode_utf8(&mut [0; 4]).as_bytes(),
        HirKind::Class(class) => matches!(class, Class::Unicode(_)) && holds(class, character),
        HirKind::Capture(group) => takes_alone(&group.sub, character),
        HirKind::Repetition(repetition) => repetition.min <= 1 && takes_alone(&repetition.sub, character),
        HirKind::Concat(parts) => parts.iter().enumerate().any(|(i, part)| {
            takes_alone(part, character) && parts.iter().enumerate().all(|(j, other)| i == j || may_be_empty(other))
        }),
        HirKind::Alternation(choices) => choices.iter().any(|choice| takes_alone(choice, character)),
    }
}

fn may_be_empty(expression: &Hir) -> bool {
    expression.properties().minimum_len() == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    const POSSESSIVE: &str =
        r"[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";
    const BOTH: Proof = Proof {
        separates: true,
        begins: true,
    };

    #[test]
    fn the_patterns_of_the_large_families_prove_both_seams() {
        for pattern in [GPT2, LLAMA3, O200K] {
            assert_eq!(prove(pattern, Seam::Space), BOTH, "{pattern}");
            assert_eq!(prove(pattern, Seam::Ideographic), BOTH, "{pattern}");
        }
    }

    #[test]
    fn digits_alone_separate_but_do_not_begin() {
        let proof = prove(r"\p{N}{1,3}", Seam::Space);
        assert_eq!((proof.separates, proof.begins), (true, false));
    }

    #[test]
    fn a_pattern_that_goes_across_or_looks_around_proves_nothing() {
        for pattern in [
            r"\S+ \S+|\s+",
            r"\w+\s|\s+",
            r"[a-z ]+",
            r"(?:a| )+",
            r"\bword|\s+",
            r"^\s|\s+",
            r"(?=a)a|\s+",
            r"(a)\1|\s",
            r"a*|\s+",
            POSSESSIVE,
            "(",
        ] {
            assert_eq!(prove(pattern, Seam::Space), NOTHING, "{pattern}");
        }
    }

    #[test]
    fn white_space_that_is_matched_only_when_more_follows_does_not_begin() {
        assert!(!prove(r"\S+|\s+(?!\S)", Seam::Space).begins);
    }

    #[test]
    fn a_possessive_choice_may_fail_where_its_language_has_a_match() {
        assert!(!prove(r"\W?+[\p{P}]{1,3}|\s+", Seam::Ideographic).begins);
        assert!(prove(r"\W?[\p{P}]{1,3}|\s+", Seam::Ideographic).begins);
        assert!(prove(r"\p{L}++| ?+\p{N}|[^\s\p{L}]|\s+", Seam::Ideographic).begins);
        assert_eq!(choices(r"a|[|]|(b|c)|\||"), ["a", "[|]", "(b|c)", r"\|", ""]);
    }

    #[test]
    fn possession_is_read_outside_classes_only() {
        assert_eq!(without_possession(r"a?+b++[?+]c*+\+++"), r"a?b+[?+]c*\++");
        for kept in [r"a{1,3}+", r"a??+", r"a+?+", r"\{2\}\?+", r"[a]+"] {
            assert_eq!(without_possession(kept), kept);
        }
        assert!(!prove(r"(?:a ?){1}+|\s+", Seam::Space).separates);
        assert_eq!(
            prove(
                r"[^\r\n\p{L}\p{N}]?+\p{L}++| ?[^\s\p{L}\p{N}]++|\p{N}{1,3}+|\s+",
                Seam::Space
            ),
            BOTH
        );
    }
}
