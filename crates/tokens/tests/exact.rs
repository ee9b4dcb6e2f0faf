//! With cuts and cache or without: the same ids, whatever the text.

mod definitions;

use definitions::{CACHE_BYTES, TINY, encoders};
use proptest::prelude::*;
use tokens::{AddedToken, Encoder, Seam};

/// Parts that fall on both sides of a cut, long enough together that there are cuts.
fn part() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "the word ",
        "the 12th router, ",
        "a\n",
        "word",
        " word",
        "  ",
        "tool name ",
        "路由器的，",
        "路由器。的",
        "it's ",
        "x",
    ]);
    let marks = prop::sample::select(vec![
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|end|>",
        "<|left|>",
        "<s>",
        "</s>",
        "<unk>",
        "<|im_",
        "|>",
        "▁",
        "Ġ",
    ]);
    prop_oneof![
        4 => (words, 1..80_usize).prop_map(|(word, count)| word.repeat(count)),
        2 => marks.prop_map(String::from),
        1 => "\\PC{0,20}",
        1 => "[ \t\r\n\u{a0}\u{3000}\u{301}\u{200d}]{0,6}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(part(), 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn ids_are_those_of_the_whole_text(texts in prop::collection::vec(text(), 1..4), special: bool) {
        for (name, encoder) in encoders() {
            for text in texts.iter().chain(&texts) {
                let whole = encoder.encode_whole(text, special).expect(name);
                prop_assert_eq!(encoder.encode(text, special).expect(name), whole, "{}: {:?}", name, text);
            }
        }
    }

    #[test]
    fn a_beginning_is_encoded_as_far_as_nothing_can_change_it(head in text(), tail in text(), special: bool) {
        for (name, encoder) in encoders() {
            let known = encoder.encode_prefix(&head, special).expect(name);
            let whole = encoder.encode_whole(&format!("{head}{tail}"), special).expect(name);
            prop_assert!(whole.starts_with(&known), "{}: {:?} then {:?}", name, head, tail);
        }
    }
}

#[test]
fn what_was_encoded_is_found_again() {
    let filler = "and more ".repeat(30);
    let turns: Vec<String> = (0..40)
        .map(|turn| format!("<|im_start|>user\nthe word {turn}, {filler}<|im_end|>\n"))
        .collect();
    let conversation = turns.concat();
    let encoder = Encoder::new(TINY, Vec::new(), Vec::new(), CACHE_BYTES).expect("the packaged model is whole");
    let first = encoder.encode(&conversation, false).expect("plain text");
    let before = encoder.cache_stats();
    assert_eq!(encoder.encode(&conversation, false).expect("plain text"), first);
    let after = encoder.cache_stats();
    assert!(after.found_bytes - before.found_bytes > (after.asked_bytes - before.asked_bytes) / 2);
    assert!(after.bytes <= CACHE_BYTES, "{after:?}");
}

#[test]
fn long_beginnings_are_told_nearly_to_their_end() {
    let head = "the word and the router, ".repeat(400);
    for (name, encoder) in encoders() {
        let whole = encoder.encode_whole(&head, false).expect(name).len();
        let known = encoder.encode_prefix(&head, false).expect(name).len();
        let least = if encoder.seams().contains(&Seam::Space) {
            whole * 3 / 4
        } else {
            0
        };
        assert!(known >= least && known <= whole, "{name}: {known} of {whole}");
    }
}

#[test]
fn only_tokens_that_are_words_forbid_cuts() {
    for (name, encoder) in encoders() {
        assert_eq!(encoder.seams().is_empty(), *name == "tokens that are words", "{name}");
    }
}

#[test]
fn truncation_in_the_file_cuts_no_prompt() {
    let (name, encoder) = &encoders()[3];
    assert!(
        encoder
            .encode("the word the word the word the word", true)
            .expect(name)
            .len()
            > 8
    );
}

#[test]
fn what_is_no_tokenizer_is_refused_with_a_reason() {
    for bytes in [&b"{"[..], b"{}", b"[]", b"\xff"] {
        assert!(
            !Encoder::new(bytes, Vec::new(), Vec::new(), 0)
                .err()
                .expect("refused")
                .0
                .is_empty()
        );
    }
}

#[test]
fn tokens_declared_elsewhere_get_the_next_ids_and_flags_are_taken_over() {
    let new = AddedToken::from("<new>", true);
    let greedy = AddedToken::from("<|im_end|>", true).rstrip(true);
    // Known by now, so the flags stay.
    let named = vec![
        AddedToken::from("<|im_end|>", true),
        AddedToken::from("<new>", true).lstrip(true),
    ];
    let encoder = Encoder::new(TINY, vec![greedy, new], named, CACHE_BYTES).expect("the packaged model is whole");
    let ids = encoder.encode("<new><|im_end|>  \n<new>", false).expect("plain text");
    let next = u32::try_from(encoder.vocab_size() - 1).expect("small");
    assert_eq!(ids, [next, 2, next]);
    assert_eq!(
        encoder
            .encode_whole("<new><|im_end|>  \n<new>", false)
            .expect("plain text"),
        ids
    );
}
