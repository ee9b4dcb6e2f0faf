//! The operations of the index. All take `&self`: lanes are written side by side, each by one thread at a time.

use std::sync::Arc;

use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use crate::blocks::Blocks;
use crate::counts::{Counts, Stats};
use crate::engine_hash::EngineHash;
use crate::hash::BlockHash;
use crate::holding::Holding;
use crate::intake::{Intake, Store, StoreResult};
use crate::lane::{HeldBlocks, Lane, LaneNumber, Limits};
use crate::matching::{Overlap, match_prefix, reach};
use crate::shard::Link;
use crate::tier::{Tier, WorkerId};

/// The lanes by their owner's key and by the number that holders carry.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    by_key: FxHashMap<WorkerId, Arc<Lane>>,
    by_number: FxHashMap<LaneNumber, Arc<Lane>>,
    next: u32,
}

impl Lanes {
    pub fn numbered(&self, number: LaneNumber) -> Option<&Lane> {
        self.by_number.get(&number).map(Arc::as_ref)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.by_key.values().map(Arc::as_ref)
    }

    /// An empty lane for the key; the one that it replaces.
    fn renew(&mut self, key: WorkerId, limits: Arc<Limits>, orphan_limit: usize) -> Option<Arc<Lane>> {
        let lane = Arc::new(Lane::new(key, LaneNumber(self.next), limits, orphan_limit));
        self.next += 1;
        self.by_number.insert(lane.number, Arc::clone(&lane));
        let replaced = self.by_key.insert(key, lane)?;
        self.by_number.remove(&replaced.number);
        Some(replaced)
    }

    fn remove(&mut self, key: WorkerId) -> Option<Arc<Lane>> {
        let removed = self.by_key.remove(&key)?;
        self.by_number.remove(&removed.number);
        Some(removed)
    }
}

/// Which worker holds which block.
#[derive(Debug)]
pub struct PrefixIndex {
    orphan_limit: usize,
    pub(crate) blocks: Blocks,
    pub(crate) lanes: RwLock<Lanes>,
    counts: Counts,
}

impl PrefixIndex {
    /// An index that keeps at most `orphan_limit` orphans per worker.
    #[must_use]
    pub fn new(orphan_limit: usize) -> Self {
        Self {
            orphan_limit,
            blocks: Blocks::new(),
            lanes: RwLock::default(),
            counts: Counts::default(),
        }
    }

    /// Makes a worker known, with the number of predicted blocks kept for it; again: changes that number.
    pub fn add_worker(&self, worker: WorkerId, prediction_limit: usize) {
        let known = self.lane(worker);
        if let Some(lane) = known {
            lane.limits.set_predictions(prediction_limit);
            self.with_held(&lane, |holding| self.evict_predictions(holding, prediction_limit));
        } else {
            let limits = Arc::new(Limits::new(prediction_limit));
            self.lanes.write().renew(worker, limits, self.orphan_limit);
        }
    }

    /// Limits the distinct blocks with a confirmed copy in each tier; None: no limit. Unknown workers are passed over.
    pub fn set_limits(&self, worker: WorkerId, limits: [Option<usize>; Tier::ALL.len()]) {
        let Some(lane) = self.lane(worker) else { return };
        for tier in Tier::ALL {
            if lane.limits.tier(tier) != limits[tier as usize] {
                lane.limits.set_tier(tier, limits[tier as usize]);
                self.with_intake(worker, |mut intake| intake.evict(tier));
            }
        }
    }

    /// Drops a worker and all that is known of it; the number of blocks it held.
    pub fn forget(&self, worker: WorkerId) -> usize {
        let removed = self.lanes.write().remove(worker);
        removed.map_or(0, |lane| self.retire(&lane))
    }

    /// Drops a worker's blocks, predictions and orphans; the number of blocks it held.
    pub fn clear(&self, worker: WorkerId) -> usize {
        let mut lanes = self.lanes.write();
        let Some(limits) = lanes.by_key.get(&worker).map(|lane| Arc::clone(&lane.limits)) else {
            return 0;
        };
        let replaced = lanes.renew(worker, limits, self.orphan_limit);
        drop(lanes);
        replaced.map_or(0, |lane| self.retire(&lane))
    }

    /// Takes the holders of a lane out that no lookup finds any more; how many blocks it held.
    fn retire(&self, lane: &Lane) -> usize {
        let mut announced = lane.announced.lock();
        announced.retired = true;
        let names = std::mem::take(&mut announced.names);
        drop(announced);
        let mut held = lane.held.lock();
        let dropped = std::mem::replace(
            &mut *held,
            HeldBlocks {
                retired: true,
                ..HeldBlocks::default()
            },
        );
        drop(held);
        for known in names.iter() {
            let mut place = self.blocks.at(known.slot());
            let slot = place.slot;
            place.shard.take(slot, lane.number);
        }
        for (block, _) in dropped.predictions.iter() {
            if let Some(mut place) = self.blocks.find(block) {
                let slot = place.slot;
                place.shard.take(slot, lane.number);
            }
        }
        dropped.len()
    }

    /// Takes in a chain of blocks that a worker has announced for a tier.
    pub fn store(&self, worker: WorkerId, tier: Tier, store: &Store<'_>) -> StoreResult {
        let blocks = store.engine_hashes.len();
        if !store.is_sound() && self.lane(worker).is_some() {
            self.counts.rejected.add(blocks);
            return StoreResult {
                rejected: blocks,
                ..StoreResult::default()
            };
        }
        let taken = self.with_intake(worker, |mut intake| intake.take_chain(tier, store));
        taken.unwrap_or_else(|| {
            self.counts.ignored.add(blocks);
            StoreResult {
                ignored: blocks,
                ..StoreResult::default()
            }
        })
    }

    /// One more copy in a tier of each block that the worker has announced under these hashes; how many were known.
    pub fn store_known(&self, worker: WorkerId, tier: Tier, hashes: &[EngineHash]) -> usize {
        let taken = self.with_intake(worker, |mut intake| {
            let known = hashes.iter().filter(|hash| intake.put_known(**hash, tier)).count();
            intake.evict(tier);
            known
        });
        taken.unwrap_or_else(|| {
            self.counts.ignored.add(hashes.len());
            0
        })
    }

    /// Takes one copy of each block out of a tier; how many of them were there. Orphans go too, but do not count.
    pub fn remove(&self, worker: WorkerId, tier: Tier, hashes: &[EngineHash]) -> usize {
        let removed = self.with_intake(worker, |mut intake| {
            let removed = hashes.iter().filter(|hash| intake.take_copy(**hash, tier)).count();
            for hash in hashes {
                intake.announced.names.release_slack(*hash);
            }
            removed
        });
        removed.unwrap_or(0)
    }

    /// Assumes until a time (not NaN; may be infinite) that a worker holds these blocks. Confirmed ones are left alone.
    pub fn predict(&self, worker: WorkerId, prompt: &[BlockHash], until: f64) {
        let Some(lane) = self.lane(worker) else {
            self.counts.ignored.add(prompt.len());
            return;
        };
        self.with_held(&lane, |holding| {
            let mut predicted = self.assume(holding, prompt);
            // The tail first, so that it is older than the head and evicted before it.
            predicted.reverse();
            holding.held.predictions.record(predicted.into_iter(), until);
            self.evict_predictions(holding, lane.limits.predictions());
        });
    }

    /// The blocks of a prompt that are predicted from now on, with their places; what is held already is passed over
    /// without looking at each block, where that can be told.
    fn assume(&self, holding: &mut Holding<'_>, prompt: &[BlockHash]) -> Vec<(BlockHash, u32)> {
        let reach = reach(&self.blocks, holding.lane, holding.held, prompt, f64::NEG_INFINITY);
        let held = reach.unwrap_or_default();
        let renewed = holding.held.predictions.on(&prompt[..held]);
        let mut predicted: Vec<(BlockHash, u32)> = renewed.map(|(place, live)| (prompt[place], live.depth)).collect();
        predicted.sort_unstable_by_key(|(_, depth)| *depth);
        for link in links(prompt).skip(held) {
            if holding.predict(link) {
                predicted.push((link.hash, link.depth));
            }
        }
        predicted
    }

    /// Ends the predictions of a prompt's blocks from `keep` on; how many there were.
    pub fn truncate(&self, worker: WorkerId, prompt: &[BlockHash], keep: usize) -> usize {
        let Some(lane) = self.lane(worker) else { return 0 };
        let ended = self.with_held(&lane, |holding| {
            let mut ended = 0;
            for &block in prompt.iter().skip(keep).rev() {
                if holding.held.predictions.end(block) {
                    holding.forget_predicted(block);
                    ended += 1;
                }
            }
            ended
        });
        ended.unwrap_or(0)
    }

    fn evict_predictions(&self, holding: &mut Holding<'_>, limit: usize) {
        for block in holding.held.predictions.evict(limit) {
            holding.forget_predicted(block);
            self.counts.predictions_evicted.add(1);
        }
    }

    /// Drops the predictions whose time has come at `now` (finite); how many.
    pub fn expire(&self, now: f64) -> usize {
        let lanes: Vec<Arc<Lane>> = self.lanes.read().by_key.values().map(Arc::clone).collect();
        let expired = lanes.iter().filter_map(|lane| {
            self.with_held(lane, |holding| {
                let expired = holding.held.predictions.expire(now);
                for &block in &expired {
                    holding.forget_predicted(block);
                }
                holding.held.predictions.release_slack();
                expired.len()
            })
        });
        expired.sum()
    }

    /// The leading blocks of a prompt per worker that holds the first one, ascending by worker.
    #[must_use]
    pub fn match_prefix(&self, prompt: &[BlockHash], now: f64) -> Vec<(WorkerId, Overlap)> {
        match_prefix(&self.blocks, &self.lanes.read(), prompt, now)
    }

    pub(crate) fn lane(&self, worker: WorkerId) -> Option<Arc<Lane>> {
        self.lanes.read().by_key.get(&worker).map(Arc::clone)
    }

    /// Works on both sides of a worker's lane; None where the worker is not known. A lane that is cleared while we wait
    /// for it has been replaced: what was meant for it enters the new one.
    pub(crate) fn with_intake<R>(&self, worker: WorkerId, work: impl FnOnce(Intake<'_>) -> R) -> Option<R> {
        loop {
            let lane = self.lane(worker)?;
            let mut announced = lane.announced.lock();
            if announced.retired {
                continue;
            }
            let mut held = lane.held.lock();
            let holding = Holding {
                blocks: &self.blocks,
                lane: lane.number,
                held: &mut held,
            };
            return Some(work(Intake {
                holding,
                announced: &mut announced,
                limits: &lane.limits,
                counts: &self.counts,
            }));
        }
    }

    /// Works on the held side of a lane; None where it has been cleared meanwhile.
    fn with_held<R>(&self, lane: &Lane, work: impl FnOnce(&mut Holding<'_>) -> R) -> Option<R> {
        let mut held = lane.held.lock();
        if held.retired {
            return None;
        }
        let mut holding = Holding {
            blocks: &self.blocks,
            lane: lane.number,
            held: &mut held,
        };
        Some(work(&mut holding))
    }

    pub(crate) fn counts(&self) -> Stats {
        self.counts.stats()
    }
}

fn links(prompt: &[BlockHash]) -> impl Iterator<Item = Link> {
    let mut parent = BlockHash(0);
    (0..).zip(prompt).map(move |(depth, &hash)| {
        let link = Link { hash, parent, depth };
        parent = hash;
        link
    })
}
