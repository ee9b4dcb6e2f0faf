//! One part of the block table: blocks by hash, and for each the lanes that hold it.
//!
//! Blocks lie in a slab of 32-byte entries; a hash table of 4-byte slots points into it. Most blocks are held by one
//! lane, which stands in the entry itself; the holders of the others are lists, ascending by lane.

use hashbrown::HashTable;

use crate::blocks::SHARD_LIMIT;
use crate::hash::BlockHash;
use crate::lane::LaneNumber;
use crate::slab::Slab;
use crate::tier::Names;

/// A block and its place in the chain. Of the first block of a prompt (depth 0) the parent says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub hash: BlockHash,
    pub parent: BlockHash,
    pub depth: u32,
}

impl Link {
    /// What the first block of a prompt follows.
    pub fn root(root: BlockHash) -> Self {
        Self {
            hash: root,
            parent: root,
            depth: u32::MAX,
        }
    }

    /// The block with this content that follows.
    pub fn then(&self, content: u64) -> Self {
        Self {
            hash: self.hash.then(content),
            parent: self.hash,
            depth: self.depth.wrapping_add(1),
        }
    }
}

/// How one lane holds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub lane: LaneNumber,
    /// Blocks that follow this one and that the lane holds as well.
    pub children: u32,
    /// Engine hashes under which the lane has announced the block, by tier; none at all: it is predicted only.
    pub names: Names,
}

impl Holder {
    pub fn is_predicted(&self) -> bool {
        self.names == Names::default()
    }

    /// The nearest tier with a confirmed copy.
    pub fn nearest(&self) -> Option<usize> {
        self.names.iter().position(|names| *names > 0)
    }
}

/// In place of the first holder's lane: nobody holds the block, the entry is free.
const VACANT: LaneNumber = LaneNumber(u32::MAX);
/// The holders are a list; `children` is its number.
const SEVERAL: LaneNumber = LaneNumber(u32::MAX - 1);

/// A link spelled out, so that the holder fits where its padding would be.
#[derive(Debug)]
struct Entry {
    hash: BlockHash,
    parent: BlockHash,
    depth: u32,
    first: Holder,
}

#[derive(Debug, Default)]
pub(crate) struct Shard {
    table: HashTable<u32>,
    entries: Slab<Entry>,
    lists: Vec<Vec<Holder>>,
    free_lists: Vec<u32>,
}

impl Shard {
    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn find(&self, hash: BlockHash) -> Option<u32> {
        let same = |slot: &u32| self.entries.get(*slot).hash == hash;
        self.table.find(hash.0, same).copied()
    }

    pub fn link(&self, slot: u32) -> Link {
        let Entry {
            hash, parent, depth, ..
        } = *self.entries.get(slot);
        Link { hash, parent, depth }
    }

    /// The slot of a block, new and held by nobody where it was not known; then a holder has to be added.
    ///
    /// None where the shard is full.
    pub fn slot_of(&mut self, link: Link) -> Option<u32> {
        if let Some(slot) = self.find(link.hash) {
            return Some(slot);
        }
        let entry = Entry {
            hash: link.hash,
            parent: link.parent,
            depth: link.depth,
            first: Holder {
                lane: VACANT,
                children: 0,
                names: Names::default(),
            },
        };
        let slot = self.entries.insert(entry, SHARD_LIMIT)?;
        let entries = &self.entries;
        self.table
            .insert_unique(link.hash.0, slot, |slot| entries.get(*slot).hash.0);
        Some(slot)
    }

    pub fn holders(&self, slot: u32) -> &[Holder] {
        let first = &self.entries.get(slot).first;
        match first.lane {
            VACANT => &[],
            SEVERAL => &self.lists[first.children as usize],
            _ => std::slice::from_ref(first),
        }
    }

    pub fn holder(&self, slot: u32, lane: LaneNumber) -> Option<&Holder> {
        let holders = self.holders(slot);
        position(holders, lane).ok().map(|place| &holders[place])
    }

    pub fn holder_mut(&mut self, slot: u32, lane: LaneNumber) -> Option<&mut Holder> {
        let first = &mut self.entries.get_mut(slot).first;
        match first.lane {
            SEVERAL => {
                let holders = &mut self.lists[first.children as usize];
                position(holders, lane).ok().map(|place| &mut holders[place])
            }
            only => (only == lane).then_some(first),
        }
    }

    /// Adds a holder whose lane does not hold the block yet.
    pub fn add(&mut self, slot: u32, holder: Holder) {
        let first = self.entries.get(slot).first;
        match first.lane {
            VACANT => self.entries.get_mut(slot).first = holder,
            SEVERAL => {
                let holders = &mut self.lists[first.children as usize];
                let place = position(holders, holder.lane).unwrap_or_else(|place| place);
                holders.insert(place, holder);
            }
            _ => {
                let mut holders = vec![first, holder];
                holders.sort_unstable_by_key(|holder| holder.lane);
                let list = self.place_list(holders);
                let several = &mut self.entries.get_mut(slot).first;
                several.lane = SEVERAL;
                several.children = list;
            }
        }
    }

    fn place_list(&mut self, holders: Vec<Holder>) -> u32 {
        if let Some(list) = self.free_lists.pop() {
            self.lists[list as usize] = holders;
            return list;
        }
        self.lists.push(holders);
        // No more lists than entries, which are numbered in 18 bits.
        u32::try_from(self.lists.len() - 1).unwrap_or(u32::MAX)
    }

    /// Takes a holder out; the block goes with the last one.
    pub fn take(&mut self, slot: u32, lane: LaneNumber) -> Option<Holder> {
        let first = self.entries.get(slot).first;
        if first.lane == SEVERAL {
            return self.take_of_several(slot, first.children, lane);
        }
        if first.lane != lane {
            return None;
        }
        self.release(slot);
        Some(first)
    }

    fn take_of_several(&mut self, slot: u32, list: u32, lane: LaneNumber) -> Option<Holder> {
        let holders = &mut self.lists[list as usize];
        let taken = holders.remove(position(holders, lane).ok()?);
        if let [last] = holders[..] {
            self.lists[list as usize] = Vec::new();
            self.free_lists.push(list);
            self.entries.get_mut(slot).first = last;
        } else if holders.capacity() > 4 * holders.len() {
            holders.shrink_to(2 * holders.len());
        }
        Some(taken)
    }

    fn release(&mut self, slot: u32) {
        let entry = self.entries.get_mut(slot);
        entry.first.lane = VACANT;
        let hash = entry.hash;
        if let Ok(known) = self.table.find_entry(hash.0, |other| *other == slot) {
            known.remove();
        }
        self.entries.release(slot);
        self.release_slack();
    }

    /// Gives memory back once the shard is empty, and the table's once it is mostly so; entries cannot move.
    fn release_slack(&mut self) {
        const SMALL: usize = 64;
        if self.table.is_empty() && self.entries.len() > SMALL {
            *self = Self::default();
        } else if self.table.capacity() > SMALL && self.table.len() < self.table.capacity() / 8 {
            let entries = &self.entries;
            let room = 2 * self.table.len();
            self.table.shrink_to(room, |slot| entries.get(*slot).hash.0);
        }
    }

    /// Every block that somebody holds.
    pub fn iter(&self) -> impl Iterator<Item = (Link, &[Holder])> {
        self.table.iter().map(|&slot| (self.link(slot), self.holders(slot)))
    }

    /// Where entries, free slots and lists do not add up.
    pub fn check(&self) -> Result<(), String> {
        let vacant = self.entries.iter().filter(|entry| entry.first.lane == VACANT).count();
        let several = self.entries.iter().filter(|entry| entry.first.lane == SEVERAL).count();
        if vacant != self.entries.free() || self.entries.len() != self.table.len() + vacant {
            return Err(format!(
                "{} entries, {} free, {} in the table",
                self.entries.len(),
                vacant,
                self.table.len()
            ));
        }
        if several + self.free_lists.len() != self.lists.len() {
            return Err(format!("{} lists, {several} in use", self.lists.len()));
        }
        for (link, holders) in self.iter() {
            if holders.is_empty() || !holders.is_sorted_by(|left, right| left.lane < right.lane) {
                return Err(format!("holders of {link:?} are empty or out of order: {holders:?}"));
            }
        }
        Ok(())
    }

    /// Bytes of memory that are reserved.
    pub fn memory(&self) -> usize {
        let lists: usize = self
            .lists
            .iter()
            .map(|list| list.capacity() * size_of::<Holder>())
            .sum();
        // hashbrown keeps a control byte beside each bucket, and buckets for 8 / 7 of its capacity.
        self.table.capacity() * 8 / 7 * (size_of::<u32>() + 1)
            + self.entries.memory()
            + self.free_lists.capacity() * size_of::<u32>()
            + self.lists.capacity() * size_of::<Vec<Holder>>()
            + lists
    }
}

fn position(holders: &[Holder], lane: LaneNumber) -> Result<usize, usize> {
    holders.binary_search_by_key(&lane, |holder| holder.lane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::Tier;

    fn held_by(lane: u32) -> Holder {
        let mut names = Names::default();
        names[Tier::Device as usize] = 1;
        Holder {
            lane: LaneNumber(lane),
            children: lane,
            names,
        }
    }

    fn link(hash: u64) -> Link {
        Link {
            hash: BlockHash(hash),
            parent: BlockHash(0),
            depth: 0,
        }
    }

    #[test]
    fn an_entry_takes_half_a_cache_line() {
        assert_eq!(size_of::<Entry>(), 32);
    }

    #[test]
    fn holders_come_and_go_in_any_order() {
        let mut shard = Shard::default();
        let slot = shard.slot_of(link(1)).unwrap();
        for lane in [5, 1, 9, 3] {
            shard.add(slot, held_by(lane));
        }
        let lanes = |shard: &Shard| {
            shard
                .holders(slot)
                .iter()
                .map(|holder| holder.lane.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(lanes(&shard), [1, 3, 5, 9]);
        assert_eq!(shard.take(slot, LaneNumber(4)), None);
        for lane in [9, 1, 5] {
            assert_eq!(shard.take(slot, LaneNumber(lane)), Some(held_by(lane)));
            assert_eq!(shard.check(), Ok(()));
        }
        assert_eq!((lanes(&shard), shard.len()), (vec![3], 1));
        assert_eq!(shard.take(slot, LaneNumber(3)), Some(held_by(3)));
        assert_eq!((shard.len(), shard.find(BlockHash(1))), (0, None));
    }

    #[test]
    fn an_emptied_shard_gives_its_memory_back() {
        let mut shard = Shard::default();
        for hash in 0..100_000 {
            let slot = shard.slot_of(link(hash)).unwrap();
            shard.add(slot, held_by(1));
        }
        let full = shard.memory();
        for hash in 0..100_000 {
            let slot = shard.find(BlockHash(hash)).unwrap();
            shard.take(slot, LaneNumber(1));
        }
        assert!(full > 3_200_000 && shard.memory() < 10_000, "{full} {}", shard.memory());
        assert_eq!(shard.check(), Ok(()));
    }
}
