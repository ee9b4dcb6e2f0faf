//! A lane begins and ceases to hold blocks: holders, child counts and holes change together.
//!
//! Each holder counts the held blocks that follow its own; where a block is missing, the lane's holes count them.

use crate::blocks::{Blocks, Slot};
use crate::hash::BlockHash;
use crate::lane::{HeldBlocks, LaneNumber};
use crate::shard::{Holder, Link};
use crate::tier::{Names, Tier};

/// The held side of one lane while it changes.
pub(crate) struct Holding<'a> {
    pub blocks: &'a Blocks,
    pub lane: LaneNumber,
    pub held: &'a mut HeldBlocks,
}

/// What one more engine hash for a block in a tier did.
pub(crate) struct Confirmed {
    pub slot: Slot,
    /// The tier held the block already.
    pub duplicate: bool,
}

impl Holding<'_> {
    /// One more engine hash stands for a block in a tier; it is held from now on, and a prediction of it ends.
    ///
    /// `parent` is the slot of the block before, where the lane has announced it. None where the block has 255 names there
    /// already (no engine needs two), or the table is full.
    pub fn confirm(&mut self, link: Link, parent: Option<Slot>, tier: Tier) -> Option<Confirmed> {
        let mut shard = self.blocks.lock(link.hash);
        let place = shard.slot_of(link)?;
        let slot = Blocks::slot(link.hash, place);
        let before = shard.holder_mut(place, self.lane).map(|holder| {
            let before = holder.names;
            holder.names[tier as usize] = before[tier as usize].saturating_add(1);
            before
        });
        let Some(before) = before else {
            let mut names = Names::default();
            names[tier as usize] = 1;
            let children = self.held.holes.fill(link.hash);
            shard.add(
                place,
                Holder {
                    lane: self.lane,
                    children,
                    names,
                },
            );
            drop(shard);
            match parent {
                Some(parent) => self.attach_to(parent),
                None => self.attach(&link),
            }
            self.count_first(tier);
            return Some(Confirmed { slot, duplicate: false });
        };
        if before == Names::default() {
            self.held.predictions.end(link.hash);
            self.count_first(tier);
        } else if before[tier as usize] == 0 {
            self.held.by_tier[tier as usize] += 1;
            self.held.off_device -= usize::from(tier == Tier::Device);
        }
        let duplicate = before[tier as usize] > 0;
        (before[tier as usize] < u8::MAX).then_some(Confirmed { slot, duplicate })
    }

    /// The first copy of a block that was not confirmed.
    fn count_first(&mut self, tier: Tier) {
        self.held.confirmed += 1;
        self.held.by_tier[tier as usize] += 1;
        self.held.off_device += usize::from(tier != Tier::Device);
    }

    /// One engine hash less stands for a block in a tier; with the last one in any tier the lane no longer holds it.
    pub fn withdraw(&mut self, slot: Slot, tier: Tier) {
        let mut place = self.blocks.at(slot);
        let Some(holder) = place.shard.holder_mut(place.slot, self.lane) else {
            return;
        };
        let names = &mut holder.names[tier as usize];
        *names = names.saturating_sub(1);
        if *names > 0 {
            return;
        }
        let gone = holder.is_predicted();
        self.held.by_tier[tier as usize] -= 1;
        if gone {
            self.held.confirmed -= 1;
            self.held.off_device -= usize::from(tier != Tier::Device);
            let link = place.shard.link(place.slot);
            let taken = place.shard.take(place.slot, self.lane);
            drop(place);
            self.dropped(&link, taken);
        } else {
            self.held.off_device += usize::from(tier == Tier::Device);
        }
    }

    /// Assumes that a block is held; false where that is known anyway.
    pub fn predict(&mut self, link: Link) -> bool {
        let mut shard = self.blocks.lock(link.hash);
        let Some(place) = shard.slot_of(link) else {
            return false;
        };
        if let Some(holder) = shard.holder(place, self.lane) {
            return holder.is_predicted();
        }
        let holder = Holder {
            lane: self.lane,
            children: self.held.holes.fill(link.hash),
            names: Names::default(),
        };
        shard.add(place, holder);
        drop(shard);
        self.attach(&link);
        true
    }

    /// A prediction has ended: the block is held no longer.
    pub fn forget_predicted(&mut self, block: BlockHash) {
        let Some(mut place) = self.blocks.find(block) else {
            return;
        };
        let link = place.shard.link(place.slot);
        let taken = place.shard.take(place.slot, self.lane);
        drop(place);
        self.dropped(&link, taken);
    }

    /// Whether the lane holds a block that follows this one.
    pub fn has_children(&self, slot: Slot) -> bool {
        let place = self.blocks.at(slot);
        place
            .shard
            .holder(place.slot, self.lane)
            .is_some_and(|holder| holder.children > 0)
    }

    fn dropped(&mut self, link: &Link, taken: Option<Holder>) {
        let Some(holder) = taken else { return };
        self.held.holes.open(link.hash, link.depth, holder.children);
        self.detach(link);
    }

    fn attach_to(&mut self, parent: Slot) {
        let mut place = self.blocks.at(parent);
        let slot = place.slot;
        if let Some(parent) = place.shard.holder_mut(slot, self.lane) {
            parent.children += 1;
        }
    }

    fn attach(&mut self, link: &Link) {
        if link.depth == 0 {
            return;
        }
        let mut place = self.blocks.find(link.parent);
        let parent = place
            .as_mut()
            .and_then(|place| place.shard.holder_mut(place.slot, self.lane));
        match parent {
            Some(parent) => parent.children += 1,
            None => self.held.holes.add_child(link.parent, link.depth - 1),
        }
    }

    fn detach(&mut self, link: &Link) {
        if link.depth == 0 {
            return;
        }
        let mut place = self.blocks.find(link.parent);
        let parent = place
            .as_mut()
            .and_then(|place| place.shard.holder_mut(place.slot, self.lane));
        match parent {
            Some(parent) => parent.children -= 1,
            None => self.held.holes.take_child(link.parent),
        }
    }
}
