//! Worker -> the engine hashes it has announced, what they stand for, and how many copies of each it keeps.

use rustc_hash::FxHashMap;

use crate::engine_hash::EngineHash;
use crate::hash::BlockHash;
use crate::holders::release_slack;
use crate::orphans::Orphans;
use crate::predictions::Predictions;
use crate::tier::{Copies, Tier};

/// A block as one worker has announced it under one engine hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    pub block: BlockHash,
    pub copies: Copies,
}

/// All that is known of one worker.
#[derive(Debug)]
pub(crate) struct WorkerBlocks {
    pub announced: FxHashMap<EngineHash, Announced>,
    /// Distinct blocks among `announced`: two engine hashes may stand for one block.
    pub confirmed: usize,
    pub orphans: Orphans,
    pub predictions: Predictions,
}

impl WorkerBlocks {
    pub fn new(orphan_limit: usize, prediction_limit: usize) -> Self {
        Self {
            announced: FxHashMap::default(),
            confirmed: 0,
            orphans: Orphans::new(orphan_limit),
            predictions: Predictions::new(prediction_limit),
        }
    }

    pub fn block(&self, hash: EngineHash) -> Option<BlockHash> {
        self.announced.get(&hash).map(|announced| announced.block)
    }

    /// Takes one copy of a known block out of a tier; the block, where there was such a copy.
    pub fn take_copy(&mut self, hash: EngineHash, tier: Tier) -> Option<BlockHash> {
        let announced = self.announced.get_mut(&hash)?;
        let copies = &mut announced.copies[tier as usize];
        *copies = copies.checked_sub(1)?;
        let block = announced.block;
        if announced.copies == Copies::default() {
            self.announced.remove(&hash);
        }
        Some(block)
    }

    pub fn release_slack(&mut self) {
        release_slack(&mut self.announced);
        self.predictions.release_slack();
    }
}
