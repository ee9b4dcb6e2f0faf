//! How a request says which round of which conversation it is, so that worker and client need not send each other texts.

use std::fmt;

use memchr::memmem;

use crate::conversation::Plan;

const USER: &[u8] = b"\"user\":\"";
const SEED: &[u8] = b"\"seed\":";
const LIMIT: &[u8] = b"\"max_tokens\":";

/// The body's field `user`: what is asked for, by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    pub plan: Plan,
    pub connection: u32,
    pub number: u32,
}

impl fmt::Display for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "talk-{}-{}-{}", self.plan.size, self.connection, self.number)
    }
}

/// How the answer is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it goes.
    AtOnce,
    /// A chunk each time so many milliseconds have passed.
    Every(u64),
    /// One chunk, and then nothing for ever.
    Hold,
}

/// All that a worker wants to know of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    pub session: Option<Session>,
    pub pace: Pace,
    pub round: u32,
    pub chunks: u32,
    pub stream: bool,
}

impl Tag {
    /// Found by search, from the end, because a whole parse of long bodies would be the generator's main work.
    pub fn of(body: &[u8]) -> Self {
        let user = text_after(body, USER);
        Self {
            session: session(user),
            pace: pace(user),
            round: number_after(body, SEED).unwrap_or(0),
            chunks: number_after(body, LIMIT).unwrap_or(16).max(1),
            stream: memmem::rfind(body, b"\"stream\":true").is_some(),
        }
    }
}

fn session(user: &str) -> Option<Session> {
    let mut numbers = user.strip_prefix("talk-")?.split('-').map(str::parse::<u32>);
    let (Some(Ok(size)), Some(Ok(connection)), Some(Ok(number))) = (numbers.next(), numbers.next(), numbers.next())
    else {
        return None;
    };
    let plan = Plan { size: size as usize };
    Some(Session {
        plan,
        connection,
        number,
    })
}

fn pace(user: &str) -> Pace {
    if user == "hold" {
        return Pace::Hold;
    }
    let every = user.strip_prefix("every-").and_then(|ms| ms.parse().ok());
    every.map_or(Pace::AtOnce, Pace::Every)
}

fn text_after<'a>(body: &'a [u8], name: &[u8]) -> &'a str {
    let Some(at) = memmem::rfind(body, name) else {
        return "";
    };
    let rest = &body[at + name.len()..];
    let end = memchr::memchr(b'"', rest).unwrap_or(0);
    std::str::from_utf8(&rest[..end]).unwrap_or("")
}

fn number_after(body: &[u8], name: &[u8]) -> Option<u32> {
    let rest = &body[memmem::rfind(body, name)? + name.len()..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_wherever_its_fields_stand() {
        let body = br#"{"messages":[{"role":"user","content":"hi"}],"max_tokens":16,"seed":7,"stream":true,"user":"talk-8000-3-5"}"#;
        let tag = Tag::of(body);
        let session = tag.session.unwrap();
        assert_eq!((session.plan.size, session.connection, session.number), (8000, 3, 5));
        assert_eq!(
            (tag.round, tag.chunks, tag.stream, tag.pace),
            (7, 16, true, Pace::AtOnce)
        );
        let moved = br#"{"max_tokens":1,"user":"every-50","messages":[{"role":"user","content":"hi"}]}"#;
        assert_eq!(Tag::of(moved).pace, Pace::Every(50));
        assert!(Tag::of(moved).session.is_none() && !Tag::of(moved).stream);
    }
}
