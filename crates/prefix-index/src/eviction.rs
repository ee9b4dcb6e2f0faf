//! The order in which blocks leave a tier that is above its limit: the oldest first, of those that nothing follows.
//!
//! Engines say what they evict; this is for stores that nobody takes back (most offloading connectors never send a
//! removal) and for removals that were lost.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use crate::engine_hash::EngineHash;
use crate::tier::Tier;

/// Engine hashes by their entry into a tier. Lazy: what has left since is passed over.
///
/// A tier's order is kept only while it is more than half full, so that lanes far from their limits pay nothing for it.
/// What entered before counts as old, in no order.
#[derive(Debug, Default)]
pub(crate) struct Order {
    entered: [Option<VecDeque<EngineHash>>; Tier::ALL.len()],
}

impl Order {
    pub fn is_kept(&self, tier: Tier) -> bool {
        self.entered[tier as usize].is_some()
    }

    /// Begins to keep the order of a tier that holds these.
    pub fn begin(&mut self, tier: Tier, held: VecDeque<EngineHash>) {
        self.entered[tier as usize] = Some(held);
    }

    pub fn end(&mut self, tier: Tier) {
        self.entered[tier as usize] = None;
    }

    /// The hash has entered the tier; `live` hashes are in it at most.
    pub fn enter(&mut self, tier: Tier, hash: EngineHash, live: usize, is_live: impl Fn(EngineHash) -> bool) {
        const SLACK: usize = 1_024;
        let Some(queue) = &mut self.entered[tier as usize] else {
            return;
        };
        queue.push_back(hash);
        if queue.len() > 2 * live + SLACK {
            let mut seen = FxHashSet::default();
            queue.retain(|hash| is_live(*hash) && seen.insert(*hash));
        }
    }

    pub fn next(&mut self, tier: Tier) -> Option<EngineHash> {
        self.entered[tier as usize].as_mut()?.pop_front()
    }

    /// To the young end: something follows it.
    pub fn defer(&mut self, tier: Tier, hash: EngineHash) {
        if let Some(queue) = &mut self.entered[tier as usize] {
            queue.push_back(hash);
        }
    }

    pub fn len(&self, tier: Tier) -> usize {
        self.entered[tier as usize].as_ref().map_or(0, VecDeque::len)
    }

    pub fn memory(&self) -> usize {
        let queues = self.entered.iter().flatten();
        queues.map(|queue| queue.capacity() * size_of::<EngineHash>()).sum()
    }
}
