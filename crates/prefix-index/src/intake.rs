//! What a worker announces, on its way into both sides of its lane.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use crate::blocks::Slot;
use crate::counts::Counts;
use crate::engine_hash::EngineHash;
use crate::hash::{BlockHash, contents};
use crate::holding::{Confirmed, Holding};
use crate::lane::{AnnouncedBlocks, Limits};
use crate::names::Announced;
use crate::orphans::Orphan;
use crate::shard::Link;
use crate::tier::Tier;

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
        /// Up to here it is faster to compare all with all.
        const FEW: usize = 48;
        let hashes = self.engine_hashes;
        if hashes.len() <= FEW {
            let repeats = |place: usize| hashes[..place].contains(&hashes[place]) || self.parent == Some(hashes[place]);
            return !(0..hashes.len()).any(repeats);
        }
        let mut seen: FxHashSet<EngineHash> = self.parent.into_iter().collect();
        seen.reserve(hashes.len());
        hashes.iter().all(|hash| seen.insert(*hash))
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

/// One lane's announcement on its way in.
pub(crate) struct Intake<'a> {
    pub holding: Holding<'a>,
    pub announced: &'a mut AnnouncedBlocks,
    pub limits: &'a Limits,
    pub counts: &'a Counts,
}

impl StoreResult {
    fn count(&mut self, put: Option<&Put>) {
        match put {
            Some(put) if put.duplicate => self.duplicate += 1,
            Some(_) => self.stored += 1,
            None => self.rejected += 1,
        }
    }
}

/// What putting one block did.
struct Put {
    slot: Slot,
    duplicate: bool,
    /// The engine hash stood for nothing before.
    newly_known: bool,
}

impl Intake<'_> {
    /// Takes in a sound chain.
    pub fn take_chain(&mut self, tier: Tier, store: &Store<'_>) -> StoreResult {
        let mut result = StoreResult::default();
        let mut newly_known = VecDeque::new();
        let may_link = self.announced.orphans.len() > 0;
        let mut parent_hash = store.parent;
        let mut above = match store.parent {
            None => Some((Link::root(store.root), None)),
            Some(parent) => self.known(parent),
        };
        let contents = contents(store.token_ids, store.block_size, store.keys);
        for (&hash, content) in store.engine_hashes.iter().zip(contents) {
            if let Some((parent, slot)) = above {
                let link = parent.then(content);
                let put = self.put(hash, link, slot, tier);
                result.count(put.as_ref());
                if may_link && put.as_ref().is_some_and(|put| put.newly_known) {
                    newly_known.push_back(hash);
                }
                // A block that could not be put is not held, and what follows waits for it.
                above = put.map(|put| (link, Some(put.slot)));
            } else {
                self.orphan(hash, parent_hash, content, tier);
                result.orphaned += 1;
                above = self.known(hash);
            }
            parent_hash = Some(hash);
        }
        self.count_size(store.block_size, result.stored + result.duplicate);
        self.counts.rejected.add(result.rejected);
        result.linked = self.link(newly_known);
        self.evict(tier);
        result
    }

    fn count_size(&mut self, block_size: usize, blocks: usize) {
        if let Ok(size) = u32::try_from(block_size) {
            self.announced.sizes.count(size, blocks);
        }
    }

    fn orphan(&mut self, hash: EngineHash, parent: Option<EngineHash>, content: u64, tier: Tier) {
        if let Some(parent) = parent {
            let orphan = Orphan {
                hash,
                parent,
                content,
                tier,
            };
            self.counts.orphans_dropped.add(self.announced.orphans.keep(orphan));
        }
    }

    /// Puts the orphans that wait for these hashes, then those that wait for them, oldest first; how many.
    ///
    /// Each orphan is taken out when its parent becomes known, so this ends whatever the parents say.
    fn link(&mut self, mut newly_known: VecDeque<EngineHash>) -> usize {
        let mut linked = 0;
        while let Some(parent) = newly_known.pop_front() {
            let Some((above, slot)) = self.known(parent) else {
                continue;
            };
            for orphan in self.announced.orphans.take_children(parent) {
                let link = above.then(orphan.content);
                if self
                    .known(orphan.hash)
                    .is_some_and(|(known, _)| known.hash != link.hash)
                {
                    self.counts.orphans_contradicted.add(1);
                } else if let Some(put) = self.put(orphan.hash, link, slot, orphan.tier) {
                    newly_known.extend(put.newly_known.then_some(orphan.hash));
                    linked += 1;
                }
            }
        }
        self.counts.linked.add(linked);
        linked
    }

    /// One more copy of a block under a hash that is known; whether it is.
    pub fn put_known(&mut self, hash: EngineHash, tier: Tier) -> bool {
        self.known(hash)
            .is_some_and(|(link, _)| self.put(hash, link, None, tier).is_some())
    }

    /// Adds one copy of a block under an engine hash; another block it stood for hands over its copies.
    fn put(&mut self, hash: EngineHash, link: Link, parent: Option<Slot>, tier: Tier) -> Option<Put> {
        let Some(known) = self.announced.names.get(hash) else {
            let Confirmed { slot, duplicate } = self.holding.confirm(link, parent, tier)?;
            self.announced.names.insert(hash, slot, tier);
            self.enter(tier, hash);
            return Some(Put {
                slot,
                duplicate,
                newly_known: true,
            });
        };
        let confirmed = if self.holding.blocks.link(known.slot()).hash == link.hash {
            self.add_copy(known, link, tier)?
        } else {
            self.replace(known, link, tier)?
        };
        Some(Put {
            slot: confirmed.slot,
            duplicate: confirmed.duplicate,
            newly_known: false,
        })
    }

    /// Another copy under a known hash.
    fn add_copy(&mut self, known: Announced, link: Link, tier: Tier) -> Option<Confirmed> {
        let hash = known.hash();
        let confirmed = if known.is_in(tier) {
            let slot = known.slot();
            Confirmed { slot, duplicate: true }
        } else {
            self.holding.confirm(link, None, tier)?
        };
        if self.announced.names.add_copy(hash, tier) {
            self.enter(tier, hash);
        }
        Some(confirmed)
    }

    /// The hash stands for another block from now on, in every tier in which it has copies.
    fn replace(&mut self, known: Announced, link: Link, tier: Tier) -> Option<Confirmed> {
        let hash = known.hash();
        let confirmed = self.holding.confirm(link, None, tier)?;
        let mut refused = vec![];
        for held in known.tiers() {
            if held != tier && self.holding.confirm(link, None, held).is_none() {
                refused.push(held);
            }
            self.holding.withdraw(known.slot(), held);
        }
        self.announced.names.move_to(hash, confirmed.slot);
        if self.announced.names.add_copy(hash, tier) {
            self.enter(tier, hash);
        }
        for lost in refused {
            while self.announced.names.take_copy(hash, lost).is_some() {}
        }
        self.counts.replaced.add(1);
        Some(confirmed)
    }

    /// Takes one copy out of a tier; whether there was one. An orphan goes too, but does not count.
    pub fn take_copy(&mut self, hash: EngineHash, tier: Tier) -> bool {
        let Some((slot, last)) = self.announced.names.take_copy(hash, tier) else {
            self.announced.orphans.take_copy(hash, tier);
            return false;
        };
        if last {
            self.holding.withdraw(slot, tier);
        }
        true
    }

    /// Enters a known number of copies under a hash that is not known yet.
    pub fn restore(&mut self, hash: EngineHash, link: Link, copies: &[(Tier, u32)]) {
        for &(tier, count) in copies {
            if self.put(hash, link, None, tier).is_some() {
                self.announced.names.add_surplus(hash, tier, count - 1);
            }
        }
    }

    /// The block that a hash stands for.
    fn known(&self, hash: EngineHash) -> Option<(Link, Option<Slot>)> {
        let slot = self.announced.names.get(hash)?.slot();
        Some((self.holding.blocks.link(slot), Some(slot)))
    }

    fn enter(&mut self, tier: Tier, hash: EngineHash) {
        if self.announced.order.is_kept(tier) {
            let names = &self.announced.names;
            let is_live = |hash| names.get(hash).is_some_and(|known| known.is_in(tier));
            self.announced.order.enter(tier, hash, names.len(), is_live);
        }
    }

    /// Begins to keep the order of a tier that is more than half full, and ends it well below.
    fn keep_order(&mut self, tier: Tier, limit: usize) {
        let blocks = self.holding.held.by_tier[tier as usize];
        let order = &mut self.announced.order;
        if order.is_kept(tier) {
            if blocks < limit / 4 {
                order.end(tier);
            }
        } else if blocks > limit / 2 {
            let known = self.announced.names.iter().filter(|known| known.is_in(tier));
            order.begin(tier, known.map(|known| known.hash()).collect());
        }
    }

    /// Where a tier holds more blocks than it may, the oldest go of those that nothing follows.
    ///
    /// One that something follows is passed over; a chain is stored head first, so its tail comes up soon after. After a
    /// whole round without a leaf (they are all in other tiers) the oldest goes anyway.
    pub fn evict(&mut self, tier: Tier) {
        let Some(limit) = self.limits.tier(tier) else {
            return self.announced.order.end(tier);
        };
        self.keep_order(tier, limit);
        let mut passed_over = 0;
        while self.holding.held.by_tier[tier as usize] > limit {
            let Some(hash) = self.announced.order.next(tier) else {
                return;
            };
            let Some(known) = self.announced.names.get(hash) else {
                continue;
            };
            let is_last = passed_over > self.announced.order.len(tier);
            if !is_last && self.holding.has_children(known.slot()) {
                self.announced.order.defer(tier, hash);
                passed_over += 1;
                continue;
            }
            passed_over = 0;
            self.counts.capped.add(1);
            while self.take_copy(hash, tier) && self.announced.names.contains(hash) {}
        }
    }
}
