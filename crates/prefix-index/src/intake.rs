//! What a worker announces, on its way into both directions of the index.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use crate::engine_hash::EngineHash;
use crate::hash::{BlockHash, contents};
use crate::holders::{Holders, Holding};
use crate::index::Stats;
use crate::orphans::Orphan;
use crate::tier::{Copies, Tier, WorkerId, one};
use crate::worker_blocks::{Announced, WorkerBlocks};

/// A chain of blocks as an engine announces it.
#[derive(Clone, Copy, Debug)]
pub struct Store<'a> {
    /// The block that the first one follows; none: it is the first of a prompt.
    pub parent: Option<EngineHash>,
    /// The engine's names of the blocks, in order.
    pub engine_hashes: &'a [EngineHash],
    /// `block_size` ids for each block.
    pub token_ids: &'a [u32],
    /// Tokens per block.
    pub block_size: usize,
    /// Where the chain starts if it has no parent.
    pub root: BlockHash,
    /// One per block, or none at all.
    pub keys: &'a [Option<Vec<u8>>],
}

impl Store<'_> {
    /// Whether the numbers fit and no block is its own ancestor.
    pub(crate) fn is_sound(&self) -> bool {
        let blocks = self.engine_hashes.len();
        let tokens_fit = self.block_size > 0 && blocks.checked_mul(self.block_size) == Some(self.token_ids.len());
        let keys_fit = self.keys.is_empty() || self.keys.len() == blocks;
        tokens_fit && keys_fit && self.is_acyclic()
    }

    fn is_acyclic(&self) -> bool {
        if let [only] = self.engine_hashes {
            return self.parent != Some(*only);
        }
        let mut seen: FxHashSet<EngineHash> = self.parent.into_iter().collect();
        self.engine_hashes.iter().all(|hash| seen.insert(*hash))
    }
}

/// What became of the blocks of a store; all but `linked` add up to their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreResult {
    /// Now held in that tier, and not before.
    pub stored: usize,
    /// Further copies of what the tier held already.
    pub duplicate: usize,
    /// Held back: the parent is unknown.
    pub orphaned: usize,
    /// Of a store that contradicts itself.
    pub rejected: usize,
    /// Of a worker that is not known.
    pub ignored: usize,
    /// Earlier orphans that found their parent through this store.
    pub linked: usize,
}

/// One worker's announcement on its way into both directions of the index.
pub(crate) struct Intake<'a> {
    pub worker: WorkerId,
    pub known: &'a mut WorkerBlocks,
    pub holders: &'a mut Holders,
    pub stats: &'a mut Stats,
}

/// What putting one block did.
pub(crate) struct Put {
    /// The tier held the block already.
    duplicate: bool,
    /// The engine hash stood for nothing before.
    newly_known: bool,
}

impl Intake<'_> {
    /// Puts or orphans each block; also the engine hashes that orphans may be waiting for.
    pub fn take_chain(&mut self, tier: Tier, store: &Store<'_>) -> (StoreResult, VecDeque<EngineHash>) {
        let mut result = StoreResult::default();
        let mut newly_known = VecDeque::new();
        let mut parent_hash = store.parent;
        let mut parent = store.parent.map_or(Some(store.root), |hash| self.known.block(hash));
        let contents = contents(store.token_ids, store.block_size, store.keys);
        for (&hash, content) in store.engine_hashes.iter().zip(contents) {
            if let Some(above) = parent {
                let block = above.then(content);
                let put = self.put(hash, block, tier);
                result.duplicate += usize::from(put.duplicate);
                result.stored += usize::from(!put.duplicate);
                newly_known.extend(put.newly_known.then_some(hash));
                parent = Some(block);
            } else {
                if let Some(parent) = parent_hash {
                    self.stats.orphans_dropped += self.known.orphans.keep(Orphan {
                        hash,
                        parent,
                        content,
                        tier,
                    });
                }
                result.orphaned += 1;
                parent = self.known.block(hash);
            }
            parent_hash = Some(hash);
        }
        (result, newly_known)
    }

    /// Puts the orphans that wait for these hashes, then those that wait for them, oldest first; how many.
    ///
    /// Each orphan is taken out when its parent becomes known, so this ends whatever the parents say.
    pub fn link(&mut self, mut newly_known: VecDeque<EngineHash>) -> usize {
        let mut linked = 0;
        while let Some(parent) = newly_known.pop_front() {
            let Some(above) = self.known.block(parent) else {
                continue;
            };
            for orphan in self.known.orphans.take_children(parent) {
                let block = above.then(orphan.content);
                if self.known.block(orphan.hash).is_some_and(|known| known != block) {
                    self.stats.orphans_contradicted += 1;
                    continue;
                }
                let put = self.put(orphan.hash, block, orphan.tier);
                newly_known.extend(put.newly_known.then_some(orphan.hash));
                linked += 1;
            }
        }
        self.stats.linked += linked;
        linked
    }

    /// Adds one copy of a block under an engine hash; another block it stood for hands over its copies.
    pub fn put(&mut self, hash: EngineHash, block: BlockHash, tier: Tier) -> Put {
        let before = self.known.announced.get(&hash).copied();
        let duplicate = self.add(block, &one(tier));
        let mut copies = before.map_or(Copies::default(), |announced| announced.copies);
        if let Some(replaced) = before.filter(|announced| announced.block != block) {
            self.add(block, &replaced.copies);
            self.known.confirmed -=
                usize::from(self.holders.take_copies(replaced.block, self.worker, &replaced.copies));
            self.stats.replaced += 1;
        }
        copies[tier as usize] = copies[tier as usize].saturating_add(1);
        self.known.announced.insert(hash, Announced { block, copies });
        Put {
            duplicate,
            newly_known: before.is_none(),
        }
    }

    /// Adds copies to the block's holders; whether the first tier among them had some already.
    fn add(&mut self, block: BlockHash, copies: &Copies) -> bool {
        let before = self.holders.add_copies(block, self.worker, copies);
        if let Some(Holding::Confirmed(held)) = before {
            return held.iter().zip(copies).any(|(held, added)| *held > 0 && *added > 0);
        }
        self.known.confirmed += 1;
        self.known.predictions.end(block);
        false
    }
}
