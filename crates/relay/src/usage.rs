//! Token counts as the engines report them, from the JSON of an answer.
//!
//! Three dialects: `OpenAI` completions and chat (`usage.prompt_tokens`, `completion_tokens`,
//! `prompt_tokens_details.cached_tokens`), `OpenAI` responses (`response.usage` or `usage`: `input_tokens`, `output_tokens`,
//! `input_tokens_details.cached_tokens`) and Anthropic messages (`message.usage` or `usage`: `input_tokens`,
//! `output_tokens`, `cache_read_input_tokens`, `cache_creation_input_tokens`, where the prompt is the sum of the three
//! inputs). Whatever is missing, null or of another type is unknown.

use std::fmt;
use std::marker::PhantomData;

use memchr::memmem;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// What a worker reported of tokens; None is "not reported", never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the whole prompt, cached ones among them.
    pub prompt_tokens: Option<u64>,
    /// Tokens made.
    pub completion_tokens: Option<u64>,
    /// Tokens of the prompt whose KV the worker already held.
    pub cached_tokens: Option<u64>,
}

/// The usage in one whole JSON document.
#[must_use]
pub fn usage_of(json: &[u8]) -> Usage {
    let mut counts = Counts::default();
    counts.read(json);
    counts.usage()
}

/// The counts under their wire names, merged over the events of a stream: a later count replaces an earlier one.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct Counts {
    prompt_tokens: Count,
    completion_tokens: Count,
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    prompt_tokens_details: Object<Details>,
    input_tokens_details: Object<Details>,
}

#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Count,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Envelope {
    usage: Object<Counts>,
    response: Object<Nested>,
    message: Object<Nested>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Nested {
    usage: Object<Counts>,
}

impl Counts {
    /// Take the counts of one JSON document; anything else leaves them as they are.
    pub fn read(&mut self, json: &[u8]) {
        // Most chunks of a stream have no usage; within a JSON string the quotes of this key would be escaped.
        if memmem::find(json, b"\"usage\"").is_none() {
            return;
        }
        let Ok(envelope) = serde_json::from_slice::<Envelope>(json) else {
            return;
        };
        let nested = [envelope.response, envelope.message]
            .into_iter()
            .filter_map(|object| object.0);
        let found = nested
            .map(|nested| nested.usage)
            .chain([envelope.usage])
            .filter_map(|object| object.0);
        found.for_each(|counts| self.merge(&counts));
    }

    pub fn usage(&self) -> Usage {
        let cached = self
            .prompt_tokens_details
            .cached()
            .or(self.input_tokens_details.cached());
        Usage {
            prompt_tokens: self.prompt_tokens.0.or_else(|| self.input()),
            completion_tokens: self.completion_tokens.0.or(self.output_tokens.0),
            cached_tokens: cached.or(self.cache_read_input_tokens.0),
        }
    }

    /// Anthropic counts cached tokens beside `input_tokens`, the responses API within; only the former has these keys.
    fn input(&self) -> Option<u64> {
        let beside = self.cache_read_input_tokens.0.unwrap_or(0) + self.cache_creation_input_tokens.0.unwrap_or(0);
        self.input_tokens.0.map(|input| input + beside)
    }

    fn merge(&mut self, later: &Self) {
        self.prompt_tokens.merge(later.prompt_tokens);
        self.completion_tokens.merge(later.completion_tokens);
        self.input_tokens.merge(later.input_tokens);
        self.output_tokens.merge(later.output_tokens);
        self.cache_read_input_tokens.merge(later.cache_read_input_tokens);
        self.cache_creation_input_tokens
            .merge(later.cache_creation_input_tokens);
        self.prompt_tokens_details.merge(&later.prompt_tokens_details);
        self.input_tokens_details.merge(&later.input_tokens_details);
    }
}

/// A whole number that fits 32 bits, so that no sum overflows; anything else is unknown.
#[derive(Clone, Copy, Debug, Default)]
struct Count(Option<u64>);

impl Count {
    fn merge(&mut self, later: Self) {
        self.0 = later.0.or(self.0);
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(Self(value.as_u64().filter(|&count| u32::try_from(count).is_ok())))
    }
}

/// An object of a known shape; anything but an object is None, so that one odd field does not hide the others.
#[derive(Clone, Copy, Debug)]
struct Object<T>(Option<T>);

impl Object<Details> {
    fn cached(&self) -> Option<u64> {
        self.0.and_then(|details| details.cached_tokens.0)
    }

    fn merge(&mut self, later: &Self) {
        if later.cached().is_some() {
            *self = *later;
        }
    }
}

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| Object(Some(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Object(None))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Object(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Object(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Object(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Object(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Object(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Object(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(prompt: Option<u64>, completion: Option<u64>, cached: Option<u64>) -> Usage {
        Usage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            cached_tokens: cached,
        }
    }

    #[test]
    fn each_dialect() {
        let chat =
            br#"{"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}"#;
        assert_eq!(usage_of(chat), usage(Some(7), Some(3), Some(4)));
        let responses = br#"{"type":"response.completed","response":{"id":"r","usage":
            {"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":8}}}}"#;
        assert_eq!(usage_of(responses), usage(Some(9), Some(2), Some(8)));
        let messages = br#"{"type":"message","usage":{"input_tokens":5,"output_tokens":1,
            "cache_read_input_tokens":16,"cache_creation_input_tokens":2}}"#;
        assert_eq!(usage_of(messages), usage(Some(23), Some(1), Some(16)));
    }

    #[test]
    fn missing_null_and_odd_are_unknown_never_zero() {
        assert_eq!(usage_of(br#"{"usage":null}"#), Usage::default());
        assert_eq!(usage_of(br#"{"usage":[1,{"a":2}]}"#), Usage::default());
        assert_eq!(usage_of(br#"["usage"]"#), Usage::default());
        assert_eq!(usage_of(br#"{"usage":{"prompt_tokens":7"#), Usage::default());
        let odd = br#"{"message":"text","response":1.5,"usage":{"prompt_tokens":7,"completion_tokens":"3",
            "prompt_tokens_details":null,"input_tokens_details":[]}}"#;
        assert_eq!(usage_of(odd), usage(Some(7), None, None));
        assert_eq!(
            usage_of(br#"{"usage":{"prompt_tokens":-1,"completion_tokens":99999999999}}"#),
            Usage::default()
        );
    }

    #[test]
    fn zero_is_zero() {
        let cold =
            br#"{"usage":{"prompt_tokens":7,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}}"#;
        assert_eq!(usage_of(cold), usage(Some(7), Some(0), Some(0)));
    }

    #[test]
    fn a_later_count_replaces_an_earlier_one_and_a_missing_one_does_not() {
        let mut counts = Counts::default();
        counts.read(br#"{"message":{"usage":{"input_tokens":5,"cache_read_input_tokens":16,"output_tokens":1}}}"#);
        counts.read(br#"{"usage":{"output_tokens":12,"input_tokens":null}}"#);
        assert_eq!(counts.usage(), usage(Some(21), Some(12), Some(16)));
    }

    #[test]
    fn usage_within_a_text_is_text() {
        assert_eq!(
            usage_of(br#"{"text":"{\"usage\":{\"prompt_tokens\":1}}"}"#),
            Usage::default()
        );
    }
}
