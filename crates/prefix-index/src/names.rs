//! What one lane has announced: engine hash -> block, and how many copies of it each tier holds.

use hashbrown::HashTable;
use rustc_hash::FxHashMap;

use crate::blocks::Slot;
use crate::engine_hash::EngineHash;
use crate::tier::{Copies, Tier};

/// A block as the lane has announced it under one engine hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    pub hash: EngineHash,
    pub slot: Slot,
    /// By tier; what does not fit is in `Names::surplus`.
    copies: [u8; Tier::ALL.len()],
}

impl Announced {
    /// The tiers in which it has copies.
    pub fn tiers(&self) -> impl Iterator<Item = Tier> + use<> {
        let copies = self.copies;
        Tier::ALL.into_iter().filter(move |tier| copies[*tier as usize] > 0)
    }
}

/// The engine hashes of one lane.
#[derive(Debug, Default)]
pub(crate) struct EngineNames {
    table: HashTable<Announced>,
    /// Copies beyond 255: a batch of a thousand equal prompts computes their blocks a thousand times.
    surplus: FxHashMap<(EngineHash, Tier), u32>,
}

impl EngineNames {
    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn get(&self, hash: EngineHash) -> Option<Announced> {
        self.table.find(scattered(hash), |known| known.hash == hash).copied()
    }

    pub fn contains(&self, hash: EngineHash) -> bool {
        self.get(hash).is_some()
    }

    /// A hash that is not known yet, with one copy.
    pub fn insert(&mut self, hash: EngineHash, slot: Slot, tier: Tier) {
        let mut copies = [0; Tier::ALL.len()];
        copies[tier as usize] = 1;
        let announced = Announced { hash, slot, copies };
        self.table
            .insert_unique(scattered(hash), announced, |known| scattered(known.hash));
    }

    /// A known hash stands for another block from now on; its copies stay.
    pub fn move_to(&mut self, hash: EngineHash, slot: Slot) {
        if let Some(known) = self.find_mut(hash) {
            known.slot = slot;
        }
    }

    /// One more copy of a known hash; whether it is the first in that tier.
    pub fn add_copy(&mut self, hash: EngineHash, tier: Tier) -> bool {
        let Some(known) = self.find_mut(hash) else {
            return false;
        };
        let is_first = known.copies[tier as usize] == 0;
        self.add_copies(hash, tier, 1);
        is_first
    }

    /// Further copies of a hash that has one in that tier.
    pub fn add_copies(&mut self, hash: EngineHash, tier: Tier, more: u32) {
        let Some(known) = self.find_mut(hash) else { return };
        let copies = &mut known.copies[tier as usize];
        let fitting = more.min(u32::from(u8::MAX - *copies));
        *copies += u8::try_from(fitting).unwrap_or_default();
        if more > fitting {
            *self.surplus.entry((hash, tier)).or_default() += more - fitting;
        }
    }

    /// One copy less; None where there was none, otherwise the block and whether it was the last in that tier.
    pub fn take_copy(&mut self, hash: EngineHash, tier: Tier) -> Option<(Slot, bool)> {
        if let Some(surplus) = self.surplus.get_mut(&(hash, tier)) {
            *surplus -= 1;
            if *surplus == 0 {
                self.surplus.remove(&(hash, tier));
            }
            return self.get(hash).map(|known| (known.slot, false));
        }
        let known = self.find_mut(hash)?;
        let copies = &mut known.copies[tier as usize];
        *copies = copies.checked_sub(1)?;
        let last = *copies == 0;
        let (slot, gone) = (known.slot, known.copies == [0; Tier::ALL.len()]);
        if gone {
            self.remove(hash);
        }
        Some((slot, last))
    }

    fn remove(&mut self, hash: EngineHash) {
        if let Ok(known) = self.table.find_entry(scattered(hash), |known| known.hash == hash) {
            known.remove();
        }
    }

    fn find_mut(&mut self, hash: EngineHash) -> Option<&mut Announced> {
        self.table.find_mut(scattered(hash), |known| known.hash == hash)
    }

    pub fn copies(&self, known: &Announced) -> Copies {
        Tier::ALL.map(|tier| {
            let surplus = self.surplus.get(&(known.hash, tier)).copied().unwrap_or_default();
            u32::from(known.copies[tier as usize]) + surplus
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = &Announced> {
        self.table.iter()
    }

    /// Gives memory back once the table is mostly empty.
    pub fn release_slack(&mut self) {
        const SMALL: usize = 1_024;
        if self.table.capacity() > SMALL && self.table.len() < self.table.capacity() / 8 {
            self.table
                .shrink_to(2 * self.table.len(), |known| scattered(known.hash));
        }
    }

    /// Bytes of memory that are reserved.
    pub fn memory(&self) -> usize {
        self.table.capacity() * 8 / 7 * (size_of::<Announced>() + 1) + self.surplus.capacity() * 24
    }
}

/// hashbrown takes the bucket from the lowest bits and the tag from the highest; engines' hashes may be small numbers.
fn scattered(hash: EngineHash) -> u64 {
    let product = hash.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    product ^ (product >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Blocks;
    use crate::hash::BlockHash;

    #[test]
    fn copies_are_counted_beyond_what_a_byte_holds() {
        let mut names = EngineNames::default();
        let (hash, slot) = (EngineHash(7), Blocks::slot(BlockHash(1), 3));
        names.insert(hash, slot, Tier::Device);
        for _ in 1..1_000 {
            assert!(!names.add_copy(hash, Tier::Device));
        }
        assert_eq!(names.copies(&names.get(hash).unwrap())[0], 1_000);
        for left in (0..1_000).rev() {
            assert_eq!(names.take_copy(hash, Tier::Device), Some((slot, left == 0)));
        }
        assert_eq!((names.get(hash), names.take_copy(hash, Tier::Device)), (None, None));
    }

    #[test]
    fn an_entry_takes_sixteen_bytes() {
        assert_eq!(size_of::<Announced>(), 16);
    }
}
