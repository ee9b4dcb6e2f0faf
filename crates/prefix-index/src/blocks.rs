//! The block table in shards, each behind a lock of its own: lanes write side by side, and a growing table is moved in
//! parts, so that no lookup waits for all of it.

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::hash::BlockHash;
use crate::lane::LaneNumber;
use crate::shard::{Holder, Link, Shard};

const SHARD_BITS: u32 = 10;
const PLACE_BITS: u32 = Slot::BITS - SHARD_BITS;

/// Blocks of one shard: 268 million over all, beyond what any fleet's engines hold.
pub(crate) const SHARD_LIMIT: usize = 1 << PLACE_BITS;

/// Where a block lies for as long as somebody holds it: a shard and a place in it, in 28 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot(pub u32);

impl Slot {
    pub const BITS: u32 = 28;
    pub const MASK: u32 = (1 << Self::BITS) - 1;
}

#[derive(Debug)]
pub(crate) struct Blocks {
    shards: Box<[Mutex<Shard>]>,
}

/// A shard under its lock, with the place of one block in it.
pub(crate) struct Place<'a> {
    pub shard: MutexGuard<'a, Shard>,
    pub slot: u32,
}

impl Blocks {
    pub fn new() -> Self {
        Self {
            shards: (0..1 << SHARD_BITS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Which shard; other bits than those by which hashbrown finds bucket (lowest) and tag (highest).
    fn shard_of(hash: BlockHash) -> u32 {
        (hash.0 >> 40) as u32 & ((1 << SHARD_BITS) - 1)
    }

    /// The shard in which a block is or would be.
    pub fn lock(&self, hash: BlockHash) -> MutexGuard<'_, Shard> {
        self.shards[Self::shard_of(hash) as usize].lock()
    }

    /// The place of a known block.
    pub fn at(&self, slot: Slot) -> Place<'_> {
        Place {
            shard: self.shards[(slot.0 >> PLACE_BITS) as usize].lock(),
            slot: slot.0 & ((1 << PLACE_BITS) - 1),
        }
    }

    /// The place of a block by its hash, where somebody holds it.
    pub fn find(&self, hash: BlockHash) -> Option<Place<'_>> {
        let shard = self.lock(hash);
        let slot = shard.find(hash)?;
        Some(Place { shard, slot })
    }

    /// The slot of a place in the shard of `hash`.
    pub fn slot(hash: BlockHash, place: u32) -> Slot {
        Slot(Self::shard_of(hash) << PLACE_BITS | place)
    }

    pub fn link(&self, slot: Slot) -> Link {
        let place = self.at(slot);
        place.shard.link(place.slot)
    }

    pub fn holds(&self, hash: BlockHash, lane: LaneNumber) -> bool {
        self.find(hash)
            .is_some_and(|place| place.shard.holder(place.slot, lane).is_some())
    }

    pub fn holders(&self, hash: BlockHash) -> SmallVec<[Holder; 16]> {
        let found = self.find(hash);
        found.map_or_else(SmallVec::new, |place| place.shard.holders(place.slot).into())
    }

    /// Distinct blocks.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    pub fn memory(&self) -> usize {
        self.shards.len() * size_of::<Mutex<Shard>>()
            + self.shards.iter().map(|shard| shard.lock().memory()).sum::<usize>()
    }

    /// Each shard in turn, for checks.
    pub fn shards(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(Mutex::lock)
    }
}
