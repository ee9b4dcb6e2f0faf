//! What one lane has announced: engine hash -> block, and how many copies of it each tier holds.

use hashbrown::HashTable;
use rustc_hash::FxHashMap;

use crate::blocks::Slot;
use crate::engine_hash::EngineHash;
use crate::tier::{Copies, Tier};

/// A block as the lane has announced it under one engine hash, in 12 bytes: the halves of the hash, the slot, and in its
/// highest bits the tiers that hold a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    hash: [u32; 2],
    slot_and_tiers: u32,
}

impl Announced {
    fn new(hash: EngineHash, slot: Slot, tiers: u32) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let halves = [(hash.0 >> 32) as u32, hash.0 as u32];
        Self {
            hash: halves,
            slot_and_tiers: slot.0 | tiers << Slot::BITS,
        }
    }

    pub fn hash(&self) -> EngineHash {
        EngineHash(u64::from(self.hash[0]) << 32 | u64::from(self.hash[1]))
    }

    pub fn slot(&self) -> Slot {
        Slot(self.slot_and_tiers & Slot::MASK)
    }

    /// The tiers in which it has copies.
    pub fn tiers(self) -> impl Iterator<Item = Tier> {
        Tier::ALL.into_iter().filter(move |tier| self.is_in(*tier))
    }

    pub fn is_in(&self, tier: Tier) -> bool {
        self.slot_and_tiers & bit(tier) != 0
    }
}

fn bit(tier: Tier) -> u32 {
    1 << (Slot::BITS + tier as u32)
}

/// The engine hashes of one lane.
#[derive(Debug, Default)]
pub(crate) struct EngineNames {
    table: HashTable<Announced>,
    /// Copies beyond the first in a tier: equal prompts in one batch, the last block of a prompt that hits in full.
    surplus: FxHashMap<(EngineHash, Tier), u32>,
}

impl EngineNames {
    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn get(&self, hash: EngineHash) -> Option<Announced> {
        self.table.find(scattered(hash), |known| known.hash() == hash).copied()
    }

    pub fn contains(&self, hash: EngineHash) -> bool {
        self.get(hash).is_some()
    }

    /// A hash that is not known yet, with one copy.
    pub fn insert(&mut self, hash: EngineHash, slot: Slot, tier: Tier) {
        let announced = Announced::new(hash, slot, 1 << tier as u32);
        self.table
            .insert_unique(scattered(hash), announced, |known| scattered(known.hash()));
    }

    /// A known hash stands for another block from now on; its copies stay.
    pub fn move_to(&mut self, hash: EngineHash, slot: Slot) {
        if let Some(known) = self.find_mut(hash) {
            known.slot_and_tiers = known.slot_and_tiers & !Slot::MASK | slot.0;
        }
    }

    /// One more copy of a known hash; whether it is the first in that tier.
    pub fn add_copy(&mut self, hash: EngineHash, tier: Tier) -> bool {
        let Some(known) = self.find_mut(hash) else {
            return false;
        };
        let is_first = !known.is_in(tier);
        known.slot_and_tiers |= bit(tier);
        if !is_first {
            self.add_surplus(hash, tier, 1);
        }
        is_first
    }

    /// Further copies of a hash that has one in that tier.
    pub fn add_surplus(&mut self, hash: EngineHash, tier: Tier, copies: u32) {
        if copies > 0 {
            let surplus = self.surplus.entry((hash, tier)).or_default();
            *surplus = surplus.saturating_add(copies);
        }
    }

    /// One copy less; None where there was none, otherwise the block and whether it was the last in that tier.
    pub fn take_copy(&mut self, hash: EngineHash, tier: Tier) -> Option<(Slot, bool)> {
        if self.take_surplus(hash, tier) {
            return self.get(hash).map(|known| (known.slot(), false));
        }
        let found = self.table.find_entry(scattered(hash), |known| known.hash() == hash);
        let mut known = found.ok().filter(|known| known.get().is_in(tier))?;
        let slot = known.get().slot();
        known.get_mut().slot_and_tiers &= !bit(tier);
        if known.get().slot_and_tiers == slot.0 {
            known.remove();
        }
        Some((slot, true))
    }

    fn take_surplus(&mut self, hash: EngineHash, tier: Tier) -> bool {
        if self.surplus.is_empty() {
            return false;
        }
        let Some(surplus) = self.surplus.get_mut(&(hash, tier)) else {
            return false;
        };
        *surplus -= 1;
        if *surplus == 0 {
            self.surplus.remove(&(hash, tier));
        }
        true
    }

    fn find_mut(&mut self, hash: EngineHash) -> Option<&mut Announced> {
        self.table.find_mut(scattered(hash), |known| known.hash() == hash)
    }

    pub fn copies(&self, known: Announced) -> Copies {
        Tier::ALL.map(|tier| {
            let surplus = self.surplus.get(&(known.hash(), tier)).copied().unwrap_or_default();
            u32::from(known.is_in(tier)).saturating_add(surplus)
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = Announced> {
        self.table.iter().copied()
    }

    /// Gives memory back once the table is mostly empty.
    pub fn release_slack(&mut self) {
        const SMALL: usize = 1_024;
        if self.table.capacity() > SMALL && self.table.len() < self.table.capacity() / 8 {
            self.table
                .shrink_to(2 * self.table.len(), |known| scattered(known.hash()));
        }
    }

    /// Whether every surplus belongs to a copy.
    pub fn check(&self) -> Result<(), String> {
        let lost = self
            .surplus
            .iter()
            .find(|((hash, tier), surplus)| **surplus == 0 || !self.get(*hash).is_some_and(|known| known.is_in(*tier)));
        lost.map_or(Ok(()), |lost| Err(format!("surplus copies of nothing: {lost:?}")))
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

    const SLOT: Slot = Slot(3);

    #[test]
    fn copies_are_counted_however_many_there_are() {
        let mut names = EngineNames::default();
        let hash = EngineHash(u64::MAX - 7);
        names.insert(hash, SLOT, Tier::Device);
        for _ in 1..1_000 {
            assert!(!names.add_copy(hash, Tier::Device));
        }
        assert!(names.add_copy(hash, Tier::Remote));
        assert_eq!(names.copies(names.get(hash).unwrap()), [1_000, 0, 0, 1]);
        for left in (0..1_000).rev() {
            assert_eq!(names.take_copy(hash, Tier::Device), Some((SLOT, left == 0)));
            assert_eq!(names.check(), Ok(()));
        }
        assert_eq!(names.take_copy(hash, Tier::Device), None);
        assert_eq!(names.take_copy(hash, Tier::Remote), Some((SLOT, true)));
        assert_eq!((names.get(hash), names.len()), (None, 0));
    }

    #[test]
    fn a_name_that_moves_keeps_its_copies() {
        let mut names = EngineNames::default();
        names.insert(EngineHash(1), Slot(Slot::MASK), Tier::Host);
        names.move_to(EngineHash(1), SLOT);
        let known = names.get(EngineHash(1)).unwrap();
        assert_eq!(
            (known.slot(), known.hash(), names.copies(known)),
            (SLOT, EngineHash(1), [0, 1, 0, 0])
        );
    }

    #[test]
    fn an_entry_takes_twelve_bytes() {
        assert_eq!(size_of::<Announced>(), 12);
    }
}
