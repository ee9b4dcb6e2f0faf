//! Block -> the workers that hold it. One entry per worker and block, ascending by worker, never empty.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::hash::BlockHash;
use crate::tier::{Copies, Tier, WorkerId};

/// How a worker holds a block. A prediction is never kept beside what is confirmed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Holding {
    /// Announced by the worker: copies per tier, at least one.
    Confirmed(Copies),
    /// Assumed until this time.
    Predicted(f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Holder {
    pub worker: WorkerId,
    pub holding: Holding,
}

/// Most blocks are held by one worker; those that more hold are few and shared.
type HolderList = SmallVec<[Holder; 1]>;

#[derive(Debug, Default)]
pub(crate) struct Holders {
    blocks: FxHashMap<BlockHash, HolderList>,
}

impl Holders {
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    pub fn of(&self, block: BlockHash) -> Option<&[Holder]> {
        self.blocks.get(&block).map(SmallVec::as_slice)
    }

    pub fn iter(&self) -> impl Iterator<Item = (BlockHash, &[Holder])> {
        self.blocks.iter().map(|(block, holders)| (*block, holders.as_slice()))
    }

    /// Adds copies, which ends a prediction; how the worker held the block before.
    pub fn add_copies(&mut self, block: BlockHash, worker: WorkerId, added: &Copies) -> Option<Holding> {
        let holders = self.blocks.entry(block).or_default();
        match position(holders, worker) {
            Err(place) => {
                holders.insert(
                    place,
                    Holder {
                        worker,
                        holding: Holding::Confirmed(*added),
                    },
                );
                None
            }
            Ok(place) => Some(holders[place].holding.add(added)),
        }
    }

    /// Takes confirmed copies away; whether the worker holds the block no longer.
    pub fn take_copies(&mut self, block: BlockHash, worker: WorkerId, taken: &Copies) -> bool {
        let Some(holders) = self.blocks.get_mut(&block) else {
            return false;
        };
        let Ok(place) = position(holders, worker) else {
            return false;
        };
        let Holding::Confirmed(copies) = &mut holders[place].holding else {
            return false;
        };
        for tier in Tier::ALL {
            copies[tier as usize] = copies[tier as usize].saturating_sub(taken[tier as usize]);
        }
        let gone = *copies == Copies::default();
        if gone {
            self.drop_holder(block, worker);
        }
        gone
    }

    /// Records or renews a prediction; false where the worker is known to hold the block anyway.
    pub fn predict(&mut self, block: BlockHash, worker: WorkerId, until: f64) -> bool {
        let holders = self.blocks.entry(block).or_default();
        match position(holders, worker) {
            Err(place) => holders.insert(
                place,
                Holder {
                    worker,
                    holding: Holding::Predicted(until),
                },
            ),
            Ok(place) => match &mut holders[place].holding {
                Holding::Confirmed(_) => return false,
                Holding::Predicted(time) => *time = until,
            },
        }
        true
    }

    /// Drops all that a worker holds of a block; unknown is a no-op.
    pub fn drop_holder(&mut self, block: BlockHash, worker: WorkerId) {
        let Some(holders) = self.blocks.get_mut(&block) else {
            return;
        };
        if let Ok(place) = position(holders, worker) {
            holders.remove(place);
        }
        if holders.is_empty() {
            self.blocks.remove(&block);
        }
    }

    pub fn release_slack(&mut self) {
        release_slack(&mut self.blocks);
    }
}

impl Holding {
    fn add(&mut self, added: &Copies) -> Self {
        let before = *self;
        match self {
            Self::Predicted(_) => *self = Self::Confirmed(*added),
            Self::Confirmed(copies) => {
                for tier in Tier::ALL {
                    copies[tier as usize] = copies[tier as usize].saturating_add(added[tier as usize]);
                }
            }
        }
        before
    }
}

fn position(holders: &[Holder], worker: WorkerId) -> Result<usize, usize> {
    holders.binary_search_by_key(&worker, |holder| holder.worker)
}

/// Gives memory back once a map is mostly empty; a map that has been large keeps its table otherwise.
pub(crate) fn release_slack<K: Eq + std::hash::Hash, V>(map: &mut FxHashMap<K, V>) {
    const SMALL: usize = 1_024;
    if map.capacity() > SMALL && map.len() < map.capacity() / 8 {
        map.shrink_to(map.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_has_emptied_gives_its_memory_back() {
        let worker = WorkerId(1);
        let mut holders = Holders::default();
        for block in (0..100_000).map(BlockHash) {
            holders.add_copies(block, worker, &[1, 0, 0, 0]);
        }
        let full = holders.blocks.capacity();
        for block in (0..100_000).map(BlockHash) {
            assert!(holders.take_copies(block, worker, &[1, 0, 0, 0]));
            holders.release_slack();
        }
        assert_eq!(holders.len(), 0);
        assert!(full >= 100_000 && holders.blocks.capacity() <= 2_048);
    }
}
