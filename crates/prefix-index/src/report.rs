//! What can be read of the index beside lookups: sizes and counts.

use crate::counts::Stats;
use crate::index::PrefixIndex;
use crate::lane::Lane;
use crate::tier::{Tier, WorkerId};

/// One worker's part of the index. Blocks are distinct ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// With a confirmed copy in this tier, indexed by `Tier as usize`.
    pub by_tier: [usize; Tier::ALL.len()],
    /// Announced, in any tier.
    pub confirmed: usize,
    /// Assumed only.
    pub predicted: usize,
    /// Announced without a known parent.
    pub orphans: usize,
    /// Missing although blocks that follow them are held.
    pub holes: usize,
    /// Tokens per block, with the number of blocks stored so since the worker was last cleared.
    pub block_sizes: Vec<(u32, u64)>,
}

impl PrefixIndex {
    /// The known workers, ascending.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerId> {
        let mut workers: Vec<WorkerId> = self.lanes.read().iter().map(|lane| lane.key).collect();
        workers.sort_unstable();
        workers
    }

    /// Distinct blocks that a worker holds or is predicted to hold.
    #[must_use]
    pub fn blocks(&self, worker: WorkerId) -> usize {
        self.lane(worker).map_or(0, |lane| lane.held.lock().len())
    }

    /// One worker's part; None where it is not known.
    #[must_use]
    pub fn worker_stats(&self, worker: WorkerId) -> Option<WorkerStats> {
        let lane = self.lane(worker)?;
        let announced = lane.announced.lock();
        let held = lane.held.lock();
        Some(WorkerStats {
            by_tier: held.by_tier,
            confirmed: held.confirmed,
            predicted: held.predictions.len(),
            orphans: announced.orphans.len(),
            holes: held.holes.len(),
            block_sizes: announced.sizes.iter().collect(),
        })
    }

    /// Tokens per block that a worker has announced, with the number of blocks stored so since it was last cleared.
    #[must_use]
    pub fn block_sizes(&self, worker: WorkerId) -> Vec<(u32, u64)> {
        self.lane(worker)
            .map_or_else(Vec::new, |lane| lane.announced.lock().sizes.iter().collect())
    }

    /// Distinct blocks over all workers.
    #[must_use]
    pub fn size(&self) -> usize {
        self.blocks.len()
    }

    /// Orphans over all workers.
    #[must_use]
    pub fn orphans(&self) -> usize {
        self.sum(|lane| lane.announced.lock().orphans.len())
    }

    /// Predicted blocks over all workers, expired ones included until `expire` is called.
    #[must_use]
    pub fn predictions(&self) -> usize {
        self.sum(|lane| lane.held.lock().predictions.len())
    }

    /// Engine hashes that stand for a block, over all workers.
    #[must_use]
    pub fn engine_hashes(&self) -> usize {
        self.sum(|lane| lane.announced.lock().names.len())
    }

    /// Pairs of a block and a worker that holds or is predicted to hold it.
    #[must_use]
    pub fn holdings(&self) -> usize {
        self.sum(|lane| lane.held.lock().len())
    }

    /// Bytes that the block table and the engines' names have reserved; predictions, orphans and holes come on top.
    #[must_use]
    pub fn memory(&self) -> usize {
        let names = self.sum(|lane| {
            let announced = lane.announced.lock();
            announced.names.memory() + announced.order.memory()
        });
        self.blocks.memory() + names
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.counts()
    }

    fn sum(&self, part: impl Fn(&Lane) -> usize) -> usize {
        self.lanes.read().iter().map(part).sum()
    }
}
