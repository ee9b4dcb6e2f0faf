//! Tokenizers of the shapes that matter for cutting, each small.

#![allow(
    clippy::expect_used,
    reason = "a tokenizer of the tests that cannot be made fails the tests"
)]

use std::sync::LazyLock;

use serde_json::{Value, json};
use tokens::Encoder;

/// The packaged model's.
pub const TINY: &[u8] = include_bytes!("../../../../python/warmroute/models/warmroute-tiny/tokenizer.json");

static ENCODERS: LazyLock<Vec<(&'static str, Encoder)>> = LazyLock::new(|| {
    definitions()
        .into_iter()
        .map(|(name, definition)| {
            (
                name,
                Encoder::new(definition.to_string().as_bytes(), Vec::new(), Vec::new(), CACHE_BYTES).expect(name),
            )
        })
        .collect()
});

/// So few that segments are dropped all the time.
pub const CACHE_BYTES: u64 = 20_000;

/// Every tokenizer, by name.
pub fn encoders() -> &'static [(&'static str, Encoder)] {
    &ENCODERS
}

fn definitions() -> Vec<(&'static str, Value)> {
    let byte_level: Value = serde_json::from_slice(TINY).expect("the packaged model is whole");
    let greedy = with_tokens(
        byte_level.clone(),
        &[
            json!({"id": 4_200, "content": "<|end|>", "special": true, "normalized": false, "lstrip": false, "rstrip": true}),
            json!({"id": 4_201, "content": "<|left|>", "special": false, "normalized": false, "lstrip": true, "rstrip": false}),
            json!({"id": 4_202, "content": "tool name", "special": false, "normalized": true}),
        ],
    );
    let words = with_tokens(
        byte_level.clone(),
        &[json!({"id": 4_200, "content": "word", "special": false, "normalized": false, "single_word": true})],
    );
    vec![
        ("byte level", byte_level),
        ("tokens that take white space", greedy),
        ("tokens that are words", words),
        ("piece by piece", sentence_piece(&json!(null), true)),
        ("at the start only", sentence_piece(&metaspace("first", false), false)),
        ("split at each mark", sentence_piece(&metaspace("always", true), false)),
    ]
}

fn with_tokens(mut definition: Value, tokens: &[Value]) -> Value {
    let added = definition["added_tokens"].as_array_mut().expect("a list");
    for token in tokens {
        let mut token = token.clone();
        for flag in ["lstrip", "rstrip", "single_word"] {
            if token[flag].is_null() {
                token[flag] = json!(false);
            }
        }
        added.push(token);
    }
    definition
}

fn metaspace(scheme: &str, split: bool) -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split})
}

/// In the manner of Llama 2, Mistral and Gemma: one piece, spaces written as marks, bytes for what is unknown.
fn sentence_piece(pre_tokenizer: &Value, prepends: bool) -> Value {
    let mut vocabulary: Vec<String> = vec!["<unk>".into(), "<s>".into(), "</s>".into()];
    vocabulary.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    let characters = "▁abcdefghijklmnopqrstuvwxyzT.,:;!?'\"()0123456789的路由器。，\n";
    vocabulary.extend(characters.chars().map(String::from));
    let merges = [
        ("t", "h"),
        ("th", "e"),
        ("▁", "the"),
        ("▁", "a"),
        ("i", "n"),
        ("▁▁", "▁▁"),
        ("▁", "▁"),
        ("o", "r"),
        ("w", "or"),
        ("wor", "d"),
        ("▁", "word"),
        ("路", "由"),
        ("路由", "器"),
        ("\n", "\n"),
        ("e", "r"),
        (".", "."),
        ("1", "2"),
        ("▁", "t"),
        ("的", "路由器"),
    ];
    vocabulary.extend(merges.iter().map(|(left, right)| format!("{left}{right}")));
    let vocabulary: serde_json::Map<String, Value> = (0..)
        .zip(vocabulary)
        .map(|(id, token): (u32, String)| (token, json!(id)))
        .collect();
    let mut normalizers = vec![json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})];
    if prepends {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
    }
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "special": true, "normalized": false,
               "lstrip": false, "rstrip": false, "single_word": false})
    };
    json!({
        "version": "1.0", "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}, "padding": null,
        "added_tokens": [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")],
        "normalizer": if prepends { json!({"type": "Sequence", "normalizers": normalizers}) } else { json!(null) },
        "pre_tokenizer": pre_tokenizer,
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": null,
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
                  "vocab": vocabulary,
                  "merges": merges.iter().map(|(left, right)| json!([left, right])).collect::<Vec<_>>()},
    })
}
