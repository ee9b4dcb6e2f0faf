//! Conversations that grow: every round repeats all before and adds an answer and a question.
//!
//! Both sides can write any round of any conversation, so the worker knows a prompt's text without reading its body.

use crate::answer;
use crate::tag::{Session, seed_of_round};

pub const MODEL: &str = "warmroute-tiny";

/// Bytes by which a round grows at most: a short tool result.
const LONGEST_TURN: usize = 2_000;
/// Below this a conversation has no system prompt.
const WITH_SYSTEM_PROMPT: usize = 1_000;
const WORDS: [&str; 64] = [
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "was", "with", "be", "by", "on", "not", "this", "are",
    "from", "at", "which", "have", "an", "they", "you", "were", "all", "one", "there", "would", "their", "we", "been",
    "has", "when", "who", "will", "more", "no", "if", "out", "so", "said", "what", "up", "its", "about", "into",
    "than", "them", "can", "only", "other", "new", "some", "time", "could", "these", "two", "may", "then", "first",
    "any", "my", "now",
];

/// A body's mean size in bytes, from which everything else follows: rounds begin at half of it and end at one and a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    pub size: usize,
}

impl Plan {
    fn turn(self) -> usize {
        if self.size < WITH_SYSTEM_PROMPT {
            80
        } else {
            (self.size / 8).min(LONGEST_TURN)
        }
    }

    fn first(self) -> usize {
        if self.size < WITH_SYSTEM_PROMPT {
            self.size.saturating_sub(40)
        } else {
            self.size / 2
        }
    }

    /// Rounds of a whole conversation.
    pub fn rounds(self) -> u32 {
        if self.size < WITH_SYSTEM_PROMPT {
            return 2;
        }
        u32::try_from(self.size / self.turn() + 1).unwrap_or(u32::MAX)
    }

    fn body_bytes(self, round: u32) -> usize {
        self.first() + round as usize * self.turn()
    }

    fn system_prompt_bytes(self) -> Option<usize> {
        (self.size >= WITH_SYSTEM_PROMPT).then_some(self.size / 4)
    }
}

/// A message: who says what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub role: &'static str,
    pub content: String,
}

/// A conversation, told round by round.
pub struct Conversation {
    pub session: Session,
    pub round: u32,
    chunks: u32,
    /// The messages so far, as they stand in the body.
    messages: Vec<u8>,
}

impl Conversation {
    /// At its first round; each answer is one of `chunks` chunks.
    pub fn begin(session: Session, chunks: u32) -> Self {
        let mut begun = Self {
            session,
            round: 0,
            chunks,
            messages: Vec::with_capacity(session.plan.size * 2),
        };
        begun.write(&opening(session));
        begun
    }

    /// The next round; false where the conversation has ended.
    pub fn go_on(&mut self) -> bool {
        if self.round + 1 >= self.session.plan.rounds() {
            return false;
        }
        self.round += 1;
        self.write(&turn(self.session, self.round, self.chunks));
        true
    }

    /// The body of this round, as the Python SDK orders it.
    pub fn body(&self, stream: bool) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.messages.len() + 200);
        body.extend_from_slice(b"{\"messages\":[");
        body.extend_from_slice(&self.messages);
        let (chunks, seed) = (self.chunks, seed_of_round(self.session, self.round));
        let mut tail = format!("],\"model\":\"{MODEL}\",\"max_tokens\":{chunks},\"seed\":{seed}");
        if stream {
            tail.push_str(",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
        }
        tail.push('}');
        body.extend_from_slice(tail.as_bytes());
        body
    }

    fn write(&mut self, messages: &[Message]) {
        for message in messages {
            if !self.messages.is_empty() {
                self.messages.push(b',');
            }
            let content = message.content.replace('\n', "\\n");
            let written = format!("{{\"role\":\"{}\",\"content\":\"{content}\"}}", message.role);
            self.messages.extend_from_slice(written.as_bytes());
        }
    }
}

/// The messages of the first round. The system prompt is that of everybody who talks at this size.
pub fn opening(session: Session) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut left = session.plan.body_bytes(0).saturating_sub(140);
    if let Some(bytes) = session.plan.system_prompt_bytes() {
        messages.push(Message {
            role: "system",
            content: text(session.plan.size as u64, bytes),
        });
        left = left.saturating_sub(bytes + 34);
    }
    messages.push(Message {
        role: "user",
        content: text(seed_of(session, 0), left),
    });
    messages
}

/// What a later round adds: the answer before it, and a question.
pub fn turn(session: Session, round: u32, chunks: u32) -> Vec<Message> {
    let said = answer::content(chunks);
    // Both messages' frames are in the turn as well.
    let left = session.plan.turn().saturating_sub(said.len() + 68);
    vec![
        Message {
            role: "assistant",
            content: said,
        },
        Message {
            role: "user",
            content: text(seed_of(session, round), left),
        },
    ]
}

fn seed_of(session: Session, round: u32) -> u64 {
    let place = (u64::from(session.connection) << 40) | (u64::from(session.number) << 16) | u64::from(round);
    (place << 8) ^ session.plan.size as u64 ^ (1 << 63)
}

/// Words in lines, about `bytes` of them as JSON writes them and at least two words.
fn text(seed: u64, bytes: usize) -> String {
    let mut written = String::with_capacity(bytes + 16);
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let (mut words, mut lines) = (0_usize, 0_usize);
    loop {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        written.push_str(WORDS[(state >> 58) as usize]);
        words += 1;
        if words >= 2 && written.len() + lines >= bytes {
            return written;
        }
        if words % 12 == 0 {
            written.push_str(".\n");
            lines += 1;
        } else {
            written.push(' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(size: usize) -> Session {
        Session {
            plan: Plan { size },
            connection: 3,
            number: 1,
        }
    }

    #[test]
    fn a_conversation_grows_around_the_planned_size() {
        for size in [200, 8_000, 64_000, 200_000] {
            let mut conversation = Conversation::begin(session(size), 16);
            let mut sizes = vec![conversation.body(false).len()];
            while conversation.go_on() {
                sizes.push(conversation.body(false).len());
            }
            assert_eq!(sizes.len(), session(size).plan.rounds() as usize);
            assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]));
            let mean = sizes.iter().sum::<usize>() / sizes.len();
            assert!(mean.abs_diff(size) <= size / 10, "{size}: {mean}");
        }
    }

    #[test]
    fn every_round_repeats_all_before() {
        let mut conversation = Conversation::begin(session(8_000), 16);
        let before = conversation.messages.clone();
        assert!(conversation.go_on());
        assert!(conversation.messages.starts_with(&before));
        let body: serde_json::Value = serde_json::from_slice(&conversation.body(true)).unwrap();
        assert_eq!(body["messages"].as_array().unwrap().len(), 4);
        assert_eq!(body["messages"][1]["content"], opening(session(8_000))[1].content);
    }

    #[test]
    fn connections_share_the_system_prompt_alone() {
        let other = Session {
            connection: 4,
            ..session(8_000)
        };
        let (ours, theirs) = (opening(session(8_000)), opening(other));
        assert_eq!(ours[0], theirs[0]);
        assert_ne!(ours[1], theirs[1]);
    }
}
