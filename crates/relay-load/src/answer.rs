//! What a worker answers, byte for byte; the client writes it again and compares.
//!
//! The fingerprint is a hash of the body that the worker got, so a client also sees whether a router changed its body.

use std::fmt::Write as _;

use memchr::memmem;

use crate::conversation::MODEL;
use crate::tag::Tag;

const FINGERPRINT: &[u8] = b"\"system_fingerprint\":\"";
const PROMPT: &[u8] = b"\"prompt_tokens\":";
const CACHED: &[u8] = b"\"cached_tokens\":";

/// Everything in an answer that is not the same in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub round: u32,
    pub chunks: u32,
    pub body_hash: u64,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
}

impl Answer {
    pub fn to(tag: &Tag, body: &[u8], prompt_tokens: u64, cached_tokens: u64) -> Self {
        Self {
            round: tag.round,
            chunks: tag.chunks,
            body_hash: hash(body),
            prompt_tokens,
            cached_tokens,
        }
    }

    /// What only the worker knew is taken from what it answered. None where that is no answer of a worker's.
    pub fn told_by(bytes: &[u8], round: u32, chunks: u32) -> Option<Self> {
        let hash = &bytes[memmem::find(bytes, FINGERPRINT)? + FINGERPRINT.len()..];
        let hash = std::str::from_utf8(hash.get(..16)?).ok()?;
        Some(Self {
            round,
            chunks,
            body_hash: u64::from_str_radix(hash, 16).ok()?,
            prompt_tokens: number_after(bytes, PROMPT)?,
            cached_tokens: number_after(bytes, CACHED)?,
        })
    }

    /// The answer as one JSON object.
    pub fn whole(&self) -> String {
        let (head, usage, content) = (self.head("chat.completion"), self.usage(), content(self.chunks));
        format!(
            "{{{head},\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":\"{content}\"}},\
             \"finish_reason\":\"length\"}}],{usage}}}"
        )
    }

    /// A chunk of the stream; the last one has the usage and the end.
    pub fn chunk(&self, number: u32, times: Option<Times>) -> String {
        let head = self.head("chat.completion.chunk");
        let word = word(number);
        let mut event = format!(
            "data: {{{head},\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}},\"finish_reason\":null}}]"
        );
        if let Some(Times { due_us, sent_us }) = times {
            let _ = write!(event, ",\"due_us\":{due_us},\"sent_us\":{sent_us}");
        }
        event.push_str("}\n\n");
        if number + 1 == self.chunks {
            let usage = self.usage();
            let _ = write!(event, "data: {{{head},\"choices\":[],{usage}}}\n\ndata: [DONE]\n\n");
        }
        event
    }

    /// All chunks, one after the other.
    pub fn stream(&self) -> String {
        (0..self.chunks).fold(String::new(), |mut all, number| {
            all.push_str(&self.chunk(number, None));
            all
        })
    }

    fn head(&self, object: &str) -> String {
        let (round, hash) = (self.round, self.body_hash);
        format!(
            "\"id\":\"chatcmpl-{round}\",\"object\":\"{object}\",\"created\":1700000000,\"model\":\"{MODEL}\",\
             \"system_fingerprint\":\"{hash:016x}\""
        )
    }

    fn usage(&self) -> String {
        let (prompt, cached, completion) = (self.prompt_tokens, self.cached_tokens, self.chunks);
        format!(
            "\"usage\":{{\"prompt_tokens\":{prompt},\"total_tokens\":{},\"completion_tokens\":{completion},\
             \"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}}}",
            prompt + u64::from(completion)
        )
    }
}

/// When a chunk of a paced stream should have gone, and when it did: microseconds of the system's clock.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub due_us: u64,
    pub sent_us: u64,
}

/// What stands for a body.
pub fn hash(body: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(body)
}

/// The text of an answer of so many chunks.
pub fn content(chunks: u32) -> String {
    (0..chunks).map(word).collect()
}

fn word(number: u32) -> &'static str {
    if number % 8 == 7 { " and" } else { " time" }
}

/// The number behind the last `name`.
pub fn number_after(bytes: &[u8], name: &[u8]) -> Option<u64> {
    let rest = &bytes[memmem::rfind(bytes, name)? + name.len()..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Answer = Answer {
        round: 3,
        chunks: 16,
        body_hash: 0xAB,
        prompt_tokens: 1_000,
        cached_tokens: 960,
    };

    #[test]
    fn an_answer_is_read_back_from_its_bytes() {
        for bytes in [ANSWER.whole(), ANSWER.stream()] {
            assert_eq!(Answer::told_by(bytes.as_bytes(), 3, 16), Some(ANSWER));
        }
        assert_eq!(Answer::told_by(b"{\"error\":{}}", 3, 16), None);
    }

    #[test]
    fn both_forms_are_json_and_say_the_same() {
        let whole: serde_json::Value = serde_json::from_str(&ANSWER.whole()).unwrap();
        let said = whole["choices"][0]["message"]["content"].as_str().unwrap();
        let stream = ANSWER.stream();
        let events: Vec<_> = stream
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("data: "))
            .collect();
        assert_eq!((events.len(), events[17]), (18, "[DONE]"));
        let chunks = events[..16]
            .iter()
            .map(|event| serde_json::from_str::<serde_json::Value>(event).unwrap());
        let streamed: String = chunks
            .map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(streamed, said);
        assert_eq!(content(16), said);
    }
}
