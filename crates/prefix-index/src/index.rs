//! The operations of the index.

use rustc_hash::FxHashMap;

use crate::engine_hash::EngineHash;
use crate::hash::BlockHash;
use crate::holders::Holders;
use crate::intake::{Intake, Store, StoreResult};
use crate::matching::{Overlap, match_prefix};
use crate::tier::{Tier, WorkerId, one};
use crate::worker_blocks::WorkerBlocks;

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
}

/// Which worker holds which block.
#[derive(Debug)]
pub struct PrefixIndex {
    pub(crate) orphan_limit: usize,
    pub(crate) holders: Holders,
    pub(crate) workers: FxHashMap<WorkerId, WorkerBlocks>,
    stats: Stats,
}

impl PrefixIndex {
    /// An index that keeps at most `orphan_limit` orphans per worker.
    #[must_use]
    pub fn new(orphan_limit: usize) -> Self {
        Self {
            orphan_limit,
            holders: Holders::default(),
            workers: FxHashMap::default(),
            stats: Stats::default(),
        }
    }

    /// Makes a worker known, with the number of predicted blocks kept for it; again: changes that number.
    pub fn add_worker(&mut self, worker: WorkerId, prediction_limit: usize) {
        let orphan_limit = self.orphan_limit;
        let known = self
            .workers
            .entry(worker)
            .or_insert_with(|| WorkerBlocks::new(orphan_limit, prediction_limit));
        known.predictions.set_limit(prediction_limit);
        self.evict_predictions(worker);
    }

    /// Drops a worker and all that is known of it; the number of blocks it held.
    pub fn forget(&mut self, worker: WorkerId) -> usize {
        let held = self.clear(worker);
        self.workers.remove(&worker);
        held
    }

    /// Drops a worker's blocks, predictions and orphans; the number of blocks it held.
    pub fn clear(&mut self, worker: WorkerId) -> usize {
        let held = self.blocks(worker);
        let Some(known) = self.workers.get_mut(&worker) else {
            return 0;
        };
        let empty = WorkerBlocks::new(self.orphan_limit, known.predictions.limit());
        let dropped = std::mem::replace(known, empty);
        for announced in dropped.announced.values() {
            self.holders.drop_holder(announced.block, worker);
        }
        for block in dropped.predictions.blocks() {
            self.holders.drop_holder(block, worker);
        }
        self.holders.release_slack();
        held
    }

    /// Takes in a chain of blocks that a worker has announced for a tier.
    pub fn store(&mut self, worker: WorkerId, tier: Tier, store: &Store<'_>) -> StoreResult {
        let blocks = store.engine_hashes.len();
        let Some(known) = self.workers.get_mut(&worker) else {
            self.stats.ignored += blocks;
            return StoreResult {
                ignored: blocks,
                ..StoreResult::default()
            };
        };
        if !store.is_sound() {
            self.stats.rejected += blocks;
            return StoreResult {
                rejected: blocks,
                ..StoreResult::default()
            };
        }
        let mut intake = Intake {
            worker,
            known,
            holders: &mut self.holders,
            stats: &mut self.stats,
        };
        let (mut result, newly_known) = intake.take_chain(tier, store);
        result.linked = intake.link(newly_known);
        result
    }

    /// One more copy in a tier of each block that the worker has announced under these hashes; how many were known.
    pub fn store_known(&mut self, worker: WorkerId, tier: Tier, hashes: &[EngineHash]) -> usize {
        let Some(known) = self.workers.get_mut(&worker) else {
            self.stats.ignored += hashes.len();
            return 0;
        };
        let mut intake = Intake {
            worker,
            known,
            holders: &mut self.holders,
            stats: &mut self.stats,
        };
        let mut copied = 0;
        for &hash in hashes {
            if let Some(block) = intake.known.block(hash) {
                intake.put(hash, block, tier);
                copied += 1;
            }
        }
        copied
    }

    /// Takes one copy of each block out of a tier; how many of them were there. Orphans go too, but do not count.
    pub fn remove(&mut self, worker: WorkerId, tier: Tier, hashes: &[EngineHash]) -> usize {
        let Some(known) = self.workers.get_mut(&worker) else {
            return 0;
        };
        let mut removed = 0;
        for &hash in hashes {
            if let Some(block) = known.take_copy(hash, tier) {
                removed += 1;
                known.confirmed -= usize::from(self.holders.take_copies(block, worker, &one(tier)));
            } else {
                known.orphans.take_copy(hash, tier);
            }
        }
        known.release_slack();
        self.holders.release_slack();
        removed
    }

    /// Assumes until a time (not NaN; may be infinite) that a worker holds these blocks. Confirmed ones are left alone.
    pub fn predict(&mut self, worker: WorkerId, prompt: &[BlockHash], until: f64) {
        let Some(known) = self.workers.get_mut(&worker) else {
            self.stats.ignored += prompt.len();
            return;
        };
        let holders = &mut self.holders;
        // The tail first, so that it is older than the head and evicted before it.
        let predicted = prompt
            .iter()
            .rev()
            .copied()
            .filter(|block| holders.predict(*block, worker, until));
        known.predictions.record(predicted, until);
        self.evict_predictions(worker);
    }

    fn evict_predictions(&mut self, worker: WorkerId) {
        let Some(known) = self.workers.get_mut(&worker) else {
            return;
        };
        for block in known.predictions.evict() {
            self.holders.drop_holder(block, worker);
            self.stats.predictions_evicted += 1;
        }
    }

    /// Drops the predictions whose time has come at `now` (finite); how many.
    pub fn expire(&mut self, now: f64) -> usize {
        let mut count = 0;
        for (&worker, known) in &mut self.workers {
            let expired = known.predictions.expire(now);
            count += expired.len();
            for block in expired {
                self.holders.drop_holder(block, worker);
            }
            known.predictions.release_slack();
        }
        self.holders.release_slack();
        count
    }

    /// The leading blocks of a prompt per worker that holds the first one, ascending by worker.
    #[must_use]
    pub fn match_prefix(&self, prompt: &[BlockHash], now: f64) -> Vec<(WorkerId, Overlap)> {
        match_prefix(&self.holders, prompt, now)
    }

    /// The known workers, ascending.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerId> {
        let mut workers: Vec<WorkerId> = self.workers.keys().copied().collect();
        workers.sort_unstable();
        workers
    }

    /// Distinct blocks that a worker holds or is predicted to hold.
    #[must_use]
    pub fn blocks(&self, worker: WorkerId) -> usize {
        self.workers
            .get(&worker)
            .map_or(0, |known| known.confirmed + known.predictions.len())
    }

    /// Distinct blocks over all workers.
    #[must_use]
    pub fn size(&self) -> usize {
        self.holders.len()
    }

    /// Orphans over all workers.
    #[must_use]
    pub fn orphans(&self) -> usize {
        self.workers.values().map(|known| known.orphans.len()).sum()
    }

    /// Predicted blocks over all workers, expired ones included until `expire` is called.
    #[must_use]
    pub fn predictions(&self) -> usize {
        self.workers.values().map(|known| known.predictions.len()).sum()
    }

    /// Engine hashes that stand for a block, over all workers.
    #[must_use]
    pub fn engine_hashes(&self) -> usize {
        self.workers.values().map(|known| known.announced.len()).sum()
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }
}
