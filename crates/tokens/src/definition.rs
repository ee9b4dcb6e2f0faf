//! A tokenizer's definition: what of it counts for cutting, and how it reads for what does not begin its text.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

/// What of a definition counts here. The merges are most of a file and are left out.
#[derive(Deserialize)]
struct Outline {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    #[serde(default, rename = "merges")]
    _merges: IgnoredAny,
    #[serde(flatten)]
    facts: Map<String, Value>,
}

/// The definition in `bytes`, a `tokenizer.json`, without its merges and its added tokens.
pub fn outline(bytes: &[u8]) -> serde_json::Result<Value> {
    let outline: Outline = serde_json::from_slice(bytes)?;
    Ok(json!({
        "normalizer": outline.normalizer,
        "pre_tokenizer": outline.pre_tokenizer,
        "model": outline.model.facts,
    }))
}

/// The steps before the model, where they differ from the definition's.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    pub normalizer: Value,
    pub pre_tokenizer: Value,
}

impl Steps {
    fn of(definition: &Value) -> Self {
        Self {
            normalizer: definition["normalizer"].clone(),
            pre_tokenizer: definition["pre_tokenizer"].clone(),
        }
    }
}

/// The steps for a piece that is not the first of its text; None where they are the same.
pub fn after_a_token(definition: &Value) -> Option<Steps> {
    let mut changed = Steps::of(definition);
    change_each(&mut changed.pre_tokenizer, &|step| {
        (kind(step) == "Metaspace" && step["prepend_scheme"] == "first").then(|| without_prefix(step))
    });
    (changed != Steps::of(definition)).then_some(changed)
}

/// The steps for a segment that follows a seam; None where they are the same.
///
/// A `Metaspace` that puts its mark before every piece stays as it is: what follows a seam begins with a space, so it
/// puts none there, and pieces further on get theirs.
pub fn after_a_seam(definition: &Value) -> Option<Steps> {
    let mut changed = after_a_token(definition).unwrap_or_else(|| Steps::of(definition));
    let normalizers = steps(&definition["normalizer"], "normalizers");
    let kept: Vec<&Value> = normalizers
        .iter()
        .copied()
        .filter(|step| kind(step) != "Prepend")
        .collect();
    if kept.len() < normalizers.len() {
        changed.normalizer = json!({"type": "Sequence", "normalizers": kept});
    }
    (changed != Steps::of(definition)).then_some(changed)
}

fn change_each(pre_tokenizer: &mut Value, change: &impl Fn(&Value) -> Option<Value>) {
    if let Some(members) = pre_tokenizer.get_mut("pretokenizers").and_then(Value::as_array_mut) {
        for member in members {
            change_each(member, change);
        }
    } else if let Some(new) = change(pre_tokenizer) {
        *pre_tokenizer = new;
    }
}

fn without_prefix(metaspace: &Value) -> Value {
    json!({
        "type": "Metaspace",
        "replacement": metaspace["replacement"],
        "prepend_scheme": "never",
        "split": splits(metaspace),
    })
}

/// Whether a `Metaspace` splits at its marks.
pub fn splits(metaspace: &Value) -> bool {
    metaspace["split"] != false
}

/// The type of a step, of a model; empty for none.
pub fn kind(step: &Value) -> &str {
    step["type"].as_str().unwrap_or_default()
}

/// The members of a sequence, the sequences in it flattened; a step alone; or none.
pub fn steps<'a>(step: &'a Value, members: &str) -> Vec<&'a Value> {
    if step.is_null() {
        return Vec::new();
    }
    match step[members].as_array() {
        Some(found) if kind(step) == "Sequence" => found.iter().flat_map(|member| steps(member, members)).collect(),
        _ => vec![step],
    }
}
