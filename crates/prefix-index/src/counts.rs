//! What has been counted since the start, by whichever thread.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks of stores that contradicted themselves.
    pub rejected: usize,
    /// Blocks said of unknown workers.
    pub ignored: usize,
    /// Engine hashes that came to stand for other tokens.
    pub replaced: usize,
    /// Orphans that found their parent.
    pub linked: usize,
    /// Orphans dropped for younger ones.
    pub orphans_dropped: usize,
    /// Orphans dropped because their hash had come to stand for something else.
    pub orphans_contradicted: usize,
    /// Predictions dropped for younger ones.
    pub predictions_evicted: usize,
    /// Blocks dropped because their tier had more than its limit.
    pub capped: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicUsize);

impl Count {
    pub fn add(&self, count: usize) {
        if count > 0 {
            self.0.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub rejected: Count,
    pub ignored: Count,
    pub replaced: Count,
    pub linked: Count,
    pub orphans_dropped: Count,
    pub orphans_contradicted: Count,
    pub predictions_evicted: Count,
    pub capped: Count,
}

impl Counts {
    pub fn stats(&self) -> Stats {
        Stats {
            rejected: self.rejected.get(),
            ignored: self.ignored.get(),
            replaced: self.replaced.get(),
            linked: self.linked.get(),
            orphans_dropped: self.orphans_dropped.get(),
            orphans_contradicted: self.orphans_contradicted.get(),
            predictions_evicted: self.predictions_evicted.get(),
            capped: self.capped.get(),
        }
    }
}
