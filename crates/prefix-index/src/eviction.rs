//! The order in which blocks leave a tier that is above its limit: the oldest first, of those that nothing follows.
//!
//! Engines say what they evict; this is for stores that nobody takes back (most offloading connectors never send a
//! removal) and for removals that were lost.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use crate::engine_hash::EngineHash;
use crate::tier::Tier;

/// Engine hashes by their entry into a tier, for tiers with a limit. Lazy: what has left since is passed over.
#[derive(Debug, Default)]
pub(crate) struct Order {
    entered: [VecDeque<EngineHash>; Tier::ALL.len()],
}

impl Order {
    /// The hash has entered the tier; `live` hashes are in it at most.
    pub fn enter(&mut self, tier: Tier, hash: EngineHash, live: usize, is_live: impl Fn(EngineHash) -> bool) {
        const SLACK: usize = 1_024;
        let queue = &mut self.entered[tier as usize];
        queue.push_back(hash);
        if queue.len() > 2 * live + SLACK {
            let mut seen = FxHashSet::default();
            queue.retain(|hash| is_live(*hash) && seen.insert(*hash));
        }
    }

    pub fn next(&mut self, tier: Tier) -> Option<EngineHash> {
        self.entered[tier as usize].pop_front()
    }

    /// To the young end: something follows it.
    pub fn defer(&mut self, tier: Tier, hash: EngineHash) {
        self.entered[tier as usize].push_back(hash);
    }

    pub fn len(&self, tier: Tier) -> usize {
        self.entered[tier as usize].len()
    }

    pub fn clear(&mut self, tier: Tier) {
        self.entered[tier as usize] = VecDeque::new();
    }

    pub fn memory(&self) -> usize {
        self.entered
            .iter()
            .map(|queue| queue.capacity() * size_of::<EngineHash>())
            .sum()
    }
}
