//! How a request says which round of which conversation it is, so that worker and client need not send each other texts.
//!
//! All of it is in the body's `seed`, because some routers write bodies anew and leave out what they do not know.

use memchr::memmem;

use crate::conversation::Plan;

const SEED: &[u8] = b"\"seed\":";
/// Some routers write the older name, some the newer one.
const LIMITS: [&[u8]; 2] = [b"\"max_tokens\":", b"\"max_completion_tokens\":"];

/// Sizes are told in steps of so many bytes.
const SIZE_STEP: usize = 100;
const ROUND_BITS: u32 = 10;
const NUMBER_BITS: u32 = 24;
const CONNECTION_BITS: u32 = 13;
const SIZE_BITS: u32 = 12;
/// Without a size, the number is milliseconds between two chunks, or this.
const HOLD: u64 = (1 << NUMBER_BITS) - 1;

/// Who talks, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    pub plan: Plan,
    pub connection: u32,
    pub number: u32,
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
    /// None for a stream that is no conversation.
    pub session: Option<Session>,
    pub pace: Pace,
    pub round: u32,
    pub chunks: u32,
    pub stream: bool,
}

impl Tag {
    /// Found by search, from the end, because a whole parse of long bodies would be the generator's main work.
    pub fn of(body: &[u8]) -> Self {
        let seed = number_after(body, SEED).unwrap_or(0);
        let chunks = LIMITS.iter().find_map(|name| number_after(body, name)).unwrap_or(16);
        let mut fields = Fields(seed);
        let round = fields.next(ROUND_BITS);
        let number = fields.next(NUMBER_BITS);
        let connection = fields.next(CONNECTION_BITS);
        let size = fields.next(SIZE_BITS) as usize * SIZE_STEP;
        let session = Session {
            plan: Plan { size },
            connection,
            number,
        };
        Self {
            session: (size > 0).then_some(session),
            pace: match u64::from(number) {
                HOLD if size == 0 => Pace::Hold,
                ms if size == 0 && ms > 0 => Pace::Every(ms),
                _ => Pace::AtOnce,
            },
            round,
            chunks: u32::try_from(chunks).unwrap_or(u32::MAX).max(1),
            stream: memmem::rfind(body, b"\"stream\":true").is_some(),
        }
    }
}

/// The `seed` of a conversation's round.
pub fn seed_of_round(session: Session, round: u32) -> u64 {
    let size = (session.plan.size / SIZE_STEP) as u64;
    let place = (size << CONNECTION_BITS) | u64::from(session.connection);
    (((place << NUMBER_BITS) | u64::from(session.number)) << ROUND_BITS) | u64::from(round)
}

/// The `seed` of a stream that is no conversation.
pub fn seed_of_pace(pace: Pace) -> u64 {
    let told = match pace {
        Pace::AtOnce => 0,
        Pace::Every(ms) => ms.min(HOLD - 1),
        Pace::Hold => HOLD,
    };
    told << ROUND_BITS
}

/// Bit fields, taken from the lowest on.
struct Fields(u64);

impl Fields {
    fn next(&mut self, bits: u32) -> u32 {
        let field = self.0 & ((1 << bits) - 1);
        self.0 >>= bits;
        u32::try_from(field).unwrap_or(u32::MAX)
    }
}

fn number_after(body: &[u8], name: &[u8]) -> Option<u64> {
    let rest = &body[memmem::rfind(body, name)? + name.len()..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_read_back_from_its_seed_wherever_the_fields_stand() {
        let session = Session {
            plan: Plan { size: 200_000 },
            connection: 255,
            number: 5,
        };
        let seed = seed_of_round(session, 100);
        let body = format!("{{\"messages\":[],\"max_tokens\":16,\"seed\":{seed},\"stream\":true}}");
        let tag = Tag::of(body.as_bytes());
        assert_eq!(tag.session, Some(session));
        assert_eq!(
            (tag.round, tag.chunks, tag.stream, tag.pace),
            (100, 16, true, Pace::AtOnce)
        );
    }

    #[test]
    fn a_pace_is_read_back_under_the_newer_name_of_the_limit_too() {
        for pace in [Pace::Every(50), Pace::Hold] {
            let seed = seed_of_pace(pace);
            let body = format!("{{\"max_completion_tokens\":7,\"seed\":{seed},\"messages\":[]}}");
            let tag = Tag::of(body.as_bytes());
            assert_eq!((tag.session, tag.pace, tag.chunks, tag.stream), (None, pace, 7, false));
        }
    }
}
