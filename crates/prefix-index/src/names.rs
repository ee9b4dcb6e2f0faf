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

/// A lane's table in parts: when one has to grow, it takes a moment instead of a lookup's patience (a million names at
/// one go took 50 ms), and what it leaves is of use to the next.
const PARTS: usize = 64;

/// The engine hashes of one lane.
#[derive(Debug)]
pub(crate) struct EngineNames {
    parts: Box<[HashTable<Announced>]>,
    len: usize,
    /// Copies beyond the first in a tier: equal prompts in one batch, the last block of a prompt that hits in full.
    surplus: FxHashMap<(EngineHash, Tier), u32>,
}

impl Default for EngineNames {
    fn default() -> Self {
        Self {
            parts: (0..PARTS).map(|_| HashTable::new()).collect(),
            len: 0,
            surplus: FxHashMap::default(),
        }
    }
}

impl EngineNames {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, hash: EngineHash) -> Option<Announced> {
        let place = scattered(hash);
        let found = self.parts[part(place)].find(place, |known| known.hash() == hash);
        found.copied()
    }

    pub fn contains(&self, hash: EngineHash) -> bool {
        self.get(hash).is_some()
    }

    /// A hash that is not known yet, with one copy.
    pub fn insert(&mut self, hash: EngineHash, slot: Slot, tier: Tier) {
        let announced = Announced::new(hash, slot, 1 << tier as u32);
        let place = scattered(hash);
        self.parts[part(place)].insert_unique(place, announced, |known| scattered(known.hash()));
        self.len += 1;
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
        let place = scattered(hash);
        let found = self.parts[part(place)].find_entry(place, |known| known.hash() == hash);
        let mut known = found.ok().filter(|known| known.get().is_in(tier))?;
        let slot = known.get().slot();
        known.get_mut().slot_and_tiers &= !bit(tier);
        if known.get().slot_and_tiers == slot.0 {
            known.remove();
            self.len -= 1;
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
        let place = scattered(hash);
        self.parts[part(place)].find_mut(place, |known| known.hash() == hash)
    }

    pub fn copies(&self, known: Announced) -> Copies {
        Tier::ALL.map(|tier| {
            let surplus = self.surplus.get(&(known.hash(), tier)).copied().unwrap_or_default();
            u32::from(known.is_in(tier)).saturating_add(surplus)
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = Announced> {
        self.parts.iter().flatten().copied()
    }

    /// Gives memory back where the hash's part of the table is mostly empty.
    pub fn release_slack(&mut self, hash: EngineHash) {
        const SMALL: usize = 64;
        let part = &mut self.parts[part(scattered(hash))];
        if part.capacity() > SMALL && part.len() < part.capacity() / 8 {
            part.shrink_to(2 * part.len(), |known| scattered(known.hash()));
        }
    }

    /// Whether every surplus belongs to a copy.
    pub fn check(&self) -> Result<(), String> {
        let lost = self
            .surplus
            .iter()
            .find(|((hash, tier), surplus)| **surplus == 0 || !self.get(*hash).is_some_and(|known| known.is_in(*tier)));
        if self.len != self.iter().count() {
            return Err(format!("{} names counted, {} found", self.len, self.iter().count()));
        }
        lost.map_or(Ok(()), |lost| Err(format!("surplus copies of nothing: {lost:?}")))
    }

    /// Bytes of memory that are reserved.
    pub fn memory(&self) -> usize {
        let buckets: usize = self.parts.iter().map(|part| part.capacity() * 8 / 7).sum();
        buckets * (size_of::<Announced>() + 1) + self.surplus.capacity() * 24
    }
}

/// Other bits than those by which hashbrown finds bucket and tag.
fn part(scattered: u64) -> usize {
    (scattered >> 40) as usize % PARTS
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
