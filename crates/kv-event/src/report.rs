//! What a payload did.

use std::fmt;

use prefix_index::StoreResult;

use crate::msgpack::Malformed;

/// Reasons that a report carries; a broken publisher would give the same one for every event.
pub const REJECTIONS_KEPT: usize = 4;

/// Numbers of blocks, but for `cleared`, `reloaded` and `rejected`, which count events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Now held in a tier that did not hold them before.
    pub stored: usize,
    /// Further copies of what a tier held already.
    pub duplicate: usize,
    /// Held back: the parent is unknown.
    pub orphaned: usize,
    /// Earlier orphans that found their parent.
    pub linked: usize,
    /// Copies that left a tier.
    pub removed: usize,
    /// Left out on purpose: their tokens are not told, or their cache group serves no prefixes.
    pub unindexed: usize,
    /// The engine dropped its whole prefix cache.
    pub cleared: usize,
    /// An adapter came back under its name with other weights, and everything known was dropped for it.
    pub reloaded: usize,
    /// Could not be read, or contradict themselves.
    pub rejected: usize,
    /// Why, for the first few.
    pub rejections: Vec<&'static str>,
}

impl Report {
    pub(crate) fn reject(&mut self, reason: Reason) {
        self.rejected += 1;
        if self.rejections.len() < REJECTIONS_KEPT {
            self.rejections.push(reason.0);
        }
    }

    /// Whether it changes nothing that was said before: no clear, and no reload.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.cleared == 0 && self.reloaded == 0
    }

    /// Adds another payload's report.
    pub fn merge(&mut self, other: Self) {
        self.stored += other.stored;
        self.duplicate += other.duplicate;
        self.orphaned += other.orphaned;
        self.linked += other.linked;
        self.removed += other.removed;
        self.unindexed += other.unindexed;
        self.cleared += other.cleared;
        self.reloaded += other.reloaded;
        self.rejected += other.rejected;
        let room = REJECTIONS_KEPT - self.rejections.len();
        self.rejections.extend(other.rejections.into_iter().take(room));
    }

    pub(crate) fn add(&mut self, result: StoreResult) {
        self.stored += result.stored;
        self.duplicate += result.duplicate;
        self.orphaned += result.orphaned;
        self.linked += result.linked;
        if result.rejected > 0 {
            self.reject(Reason(
                "a store repeats a hash or names one of its own blocks as parent",
            ));
        }
    }
}

/// Why an event is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reason(pub &'static str);

/// Bytes that were checked before cannot be malformed; if they were, it would cost their event.
impl From<Malformed> for Reason {
    fn from(_: Malformed) -> Self {
        Self("the event is not MessagePack")
    }
}

/// A payload that is no batch of KV events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecodable(pub(crate) &'static str);

impl fmt::Display for Undecodable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "not a batch of KV events: {}", self.0)
    }
}

impl std::error::Error for Undecodable {}

impl From<Malformed> for Undecodable {
    fn from(malformed: Malformed) -> Self {
        Self(match malformed {
            Malformed::Truncated => "the bytes end within a value",
            Malformed::NoValue => "the bytes are not MessagePack",
        })
    }
}
