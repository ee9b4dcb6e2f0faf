//! Chat bodies that hold texts and nothing that changes how they are rendered.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Who says a message. Others, such as tools, have more than a role and a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Who sets the stage.
    System,
    /// Who asks.
    User,
    /// Who answers.
    Assistant,
}

impl Role {
    /// The role's letter in a signature.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::System => 's',
            Self::User => 'u',
            Self::Assistant => 'a',
        }
    }
}

/// A body of `/v1/chat/completions` with no more than messages of a role and a text, a model, a bound on the answer, and
/// fields that do not touch the prompt.
#[derive(Debug, PartialEq, Eq)]
pub struct PlainChat {
    /// The model asked for.
    pub model: Option<String>,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// Tokens that the answer may have.
    pub max_tokens: Option<u64>,
    /// One letter for each message's role.
    pub signature: String,
    /// Where the content of each message stands in the body, as a JSON string with its quotes.
    contents: Vec<std::ops::Range<usize>>,
}

/// Fields that the prompt does not depend on are named, so that one that is not known here is never passed over; nor is
/// one that comes twice.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // what is named only to be allowed
struct Body<'a> {
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    max_completion_tokens: Option<u32>,
    #[serde(default)]
    max_tokens: Option<u32>,
    #[serde(default)]
    best_of: IgnoredAny,
    #[serde(default)]
    conversation_id: IgnoredAny,
    #[serde(default)]
    frequency_penalty: IgnoredAny,
    #[serde(default)]
    guided_choice: IgnoredAny,
    #[serde(default)]
    guided_json: IgnoredAny,
    #[serde(default)]
    guided_regex: IgnoredAny,
    #[serde(default)]
    ignore_eos: IgnoredAny,
    #[serde(default)]
    include_stop_str_in_output: IgnoredAny,
    #[serde(default)]
    length_penalty: IgnoredAny,
    #[serde(default)]
    logit_bias: IgnoredAny,
    #[serde(default)]
    logprobs: IgnoredAny,
    #[serde(default)]
    metadata: IgnoredAny,
    #[serde(default)]
    min_p: IgnoredAny,
    #[serde(default)]
    min_tokens: IgnoredAny,
    #[serde(default)]
    modalities: IgnoredAny,
    #[serde(default)]
    n: IgnoredAny,
    #[serde(default)]
    parallel_tool_calls: IgnoredAny,
    #[serde(default)]
    prediction: IgnoredAny,
    #[serde(default)]
    presence_penalty: IgnoredAny,
    #[serde(default)]
    priority: IgnoredAny,
    #[serde(default)]
    prompt_cache_key: IgnoredAny,
    #[serde(default)]
    prompt_cache_retention: IgnoredAny,
    #[serde(default)]
    repetition_penalty: IgnoredAny,
    #[serde(default)]
    response_format: IgnoredAny,
    #[serde(default)]
    return_token_ids: IgnoredAny,
    #[serde(default)]
    safety_identifier: IgnoredAny,
    #[serde(default)]
    seed: IgnoredAny,
    #[serde(default)]
    service_tier: IgnoredAny,
    #[serde(default)]
    session_id: IgnoredAny,
    #[serde(default)]
    skip_special_tokens: IgnoredAny,
    #[serde(default)]
    spaces_between_special_tokens: IgnoredAny,
    #[serde(default)]
    stop: IgnoredAny,
    #[serde(default)]
    stop_token_ids: IgnoredAny,
    #[serde(default)]
    store: IgnoredAny,
    #[serde(default)]
    stream_options: IgnoredAny,
    #[serde(default)]
    temperature: IgnoredAny,
    #[serde(default)]
    top_k: IgnoredAny,
    #[serde(default)]
    top_logprobs: IgnoredAny,
    #[serde(default)]
    top_p: IgnoredAny,
    #[serde(default)]
    use_beam_search: IgnoredAny,
    #[serde(default)]
    user: IgnoredAny,
    #[serde(default)]
    verbosity: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message<'a> {
    role: Role,
    #[serde(borrow)]
    content: &'a RawValue,
}

impl PlainChat {
    /// None for a body that is more than plain, or none at all: it has to be read with more care.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let read: Body<'_> = serde_json::from_slice(body).ok()?;
        let contents: Option<Vec<_>> = read
            .messages
            .iter()
            .map(|message| place(body, message.content))
            .collect();
        Some(Self {
            model: read.model.map(Cow::into_owned),
            stream: read.stream.unwrap_or(false),
            max_tokens: read.max_completion_tokens.or(read.max_tokens).map(u64::from),
            signature: read.messages.iter().map(|message| message.role.letter()).collect(),
            contents: contents.filter(|contents| !contents.is_empty())?,
        })
    }

    /// Messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contents.len()
    }

    /// Never: a conversation has a message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.contents.is_empty()
    }

    /// The content of a message as it stands in `body`, between its quotes.
    #[must_use]
    pub fn written<'a>(&self, body: &'a [u8], message: usize) -> &'a [u8] {
        let place = &self.contents[message];
        &body[place.start + 1..place.end - 1]
    }

    /// The content of a message as text; None where it holds half of a surrogate pair.
    #[must_use]
    pub fn text<'a>(&self, body: &'a [u8], message: usize) -> Option<Cow<'a, str>> {
        serde_json::from_slice::<Text<'a>>(&body[self.contents[message].clone()])
            .ok()
            .map(|text| text.0)
    }
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Where a text stands; None for what is no text.
fn place(body: &[u8], value: &RawValue) -> Option<std::ops::Range<usize>> {
    let written = value.get();
    let start = (written.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
    written.starts_with('"').then(|| start..start + written.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Option<PlainChat> {
        PlainChat::read(body.as_bytes())
    }

    #[test]
    fn a_plain_body_is_read() {
        let body = r#" {"model": "m\u0031", "messages": [{"role": "system", "content": "a\n\"b\" \ud83d\ude00"},
            {"content": "", "role":"user"}], "stream": true, "max_tokens": 5, "temperature": 0.5, "stop": ["x", null]} "#;
        let chat = read(body).expect("plain");
        assert_eq!(
            (chat.model.as_deref(), chat.stream, chat.max_tokens),
            (Some("m1"), true, Some(5))
        );
        assert_eq!((chat.signature.as_str(), chat.len()), ("su", 2));
        assert_eq!(chat.text(body.as_bytes(), 0).as_deref(), Some("a\n\"b\" \u{1f600}"));
        assert_eq!(chat.written(body.as_bytes(), 1), b"");
    }

    #[test]
    fn what_may_touch_the_prompt_is_left_to_a_careful_reader() {
        for more in [
            r#""tools":[]"#,
            r#""chat_template":"x""#,
            r#""add_generation_prompt":true"#,
            r#""cache_salt":"x""#,
            r#""truncate_prompt_tokens":1"#,
            r#""unknown":1"#,
            r#""stream":1"#,
            r#""max_tokens":-1"#,
            r#""max_tokens":1.5"#,
            r#""model":1"#,
            r#""messages":[]"#,
        ] {
            let body = format!(r#"{{"messages":[{{"role":"user","content":"x"}}],{more}}}"#);
            assert_eq!(read(&body), None, "{more}");
        }
        assert!(
            read(r#"{"messages":[{"role":"user","content":"x"}],"n":null,"model":null,"max_tokens":null}"#).is_some()
        );
    }

    #[test]
    fn messages_of_more_than_a_role_and_a_text_are_not_plain() {
        for message in [
            r#"{"role":"tool","content":"x"}"#,
            r#"{"role":"user","content":[]}"#,
            r#"{"role":"user","content":null}"#,
            r#"{"role":"user"}"#,
            r#"{"role":"user","content":"x","name":"n"}"#,
            r#"{"role":"developer","content":"x"}"#,
            r#"{"role":"user","content":"x","content":"y"}"#,
            r#""x""#,
        ] {
            assert_eq!(read(&format!(r#"{{"messages":[{message}]}}"#)), None, "{message}");
        }
        assert_eq!(read(r#"{"messages":[]}"#), None);
        assert_eq!(read(r#"{"messages":[{"role":"user","content":"x"}]} x"#), None);
    }

    #[test]
    fn half_of_a_surrogate_pair_is_no_text() {
        let body = r#"{"messages":[{"role":"user","content":"\ud83d"}]}"#;
        assert_eq!(
            read(body).and_then(|chat| chat.text(body.as_bytes(), 0).map(Cow::into_owned)),
            None
        );
    }
}
