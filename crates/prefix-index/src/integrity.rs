//! A check that both sides of every lane and the block table agree, for tests after every step and for a live router.
//!
//! While other threads write, a lane is checked under its locks and the table afterwards, so a live check may blame the
//! table for what changed in between; lanes that change are to be checked again.

use std::collections::BTreeMap;

use crate::hash::BlockHash;
use crate::holes::{Hole, Holes};
use crate::index::PrefixIndex;
use crate::lane::{AnnouncedBlocks, HeldBlocks, Lane, LaneNumber};
use crate::shard::Link;
use crate::tier::{Names, Tier};

/// What the table should say of a lane: its blocks and the engine hashes for each.
type Expected = BTreeMap<BlockHash, (Link, Names)>;

impl PrefixIndex {
    /// Compares what the blocks' holders say with what the lanes say, and each lane's parts among themselves.
    ///
    /// # Errors
    /// The first disagreement, in words.
    pub fn check_integrity(&self) -> Result<(), String> {
        let mut expected: BTreeMap<(LaneNumber, BlockHash), (Names, u32)> = BTreeMap::new();
        for lane in self.lanes.read().iter() {
            let held = self
                .check_lane(lane)
                .map_err(|fault| format!("{:?}: {fault}", lane.key))?;
            expected.extend(held.into_iter().map(|(block, holder)| ((lane.number, block), holder)));
        }
        for shard in self.blocks.shards() {
            shard.check()?;
            for (link, holders) in shard.iter() {
                for holder in holders {
                    let told = expected.remove(&(holder.lane, link.hash));
                    if told != Some((holder.names, holder.children)) {
                        return Err(format!("{link:?} has {holder:?}, the lane says {told:?}"));
                    }
                }
            }
        }
        expected
            .first_key_value()
            .map_or(Ok(()), |missing| Err(format!("not among the holders: {missing:?}")))
    }

    /// The lane's blocks with their names and children, once its own parts agree.
    fn check_lane(&self, lane: &Lane) -> Result<BTreeMap<BlockHash, (Names, u32)>, String> {
        let announced = lane.announced.lock();
        let held = lane.held.lock();
        let mut expected = self.confirmed(&announced);
        check_counters(&expected, &held)?;
        announced.names.check()?;
        announced.orphans.check(|hash| announced.names.contains(hash))?;
        held.predictions.check(lane.limits.predictions())?;
        for (block, live) in held.predictions.iter() {
            let link = self.blocks.find(block).map(|place| place.shard.link(place.slot));
            let Some(link) = link.filter(|link| link.depth == live.depth) else {
                return Err(format!(
                    "predicted {block:?} is not in the table at depth {}",
                    live.depth
                ));
            };
            if expected.insert(block, (link, Names::default())).is_some() {
                return Err(format!("{block:?} is both confirmed and predicted"));
            }
        }
        check_holes(&expected, &held)
    }

    /// Each announced block with the number of engine hashes that stand for it, by tier.
    fn confirmed(&self, announced: &AnnouncedBlocks) -> Expected {
        let mut confirmed = Expected::new();
        for known in announced.names.iter() {
            let link = self.blocks.link(known.slot());
            let (_, names) = confirmed.entry(link.hash).or_insert((link, Names::default()));
            for tier in known.tiers() {
                names[tier as usize] += 1;
            }
        }
        confirmed
    }
}

fn check_counters(confirmed: &Expected, held: &HeldBlocks) -> Result<(), String> {
    let in_tier = |tier: Tier| confirmed.values().filter(|(_, names)| names[tier as usize] > 0).count();
    let off_device = confirmed.len() - in_tier(Tier::Device);
    let counted = (held.confirmed, held.off_device, held.by_tier);
    let found = (confirmed.len(), off_device, Tier::ALL.map(in_tier));
    if confirmed.values().any(|(_, names)| *names == Names::default()) {
        return Err("an engine hash without a copy".to_owned());
    }
    if counted != found {
        return Err(format!(
            "confirmed, off the device and by tier: counted {counted:?}, found {found:?}"
        ));
    }
    Ok(())
}

/// Every block's held children, once those of missing blocks agree with the lane's holes.
fn check_holes(expected: &Expected, held: &HeldBlocks) -> Result<BTreeMap<BlockHash, (Names, u32)>, String> {
    let mut children: BTreeMap<BlockHash, Hole> = BTreeMap::new();
    for (link, _) in expected.values().filter(|(link, _)| link.depth > 0) {
        let depth = link.depth - 1;
        children
            .entry(link.parent)
            .or_insert(Hole { depth, children: 0 })
            .children += 1;
    }
    let with_children = expected.iter().map(|(block, (_, names))| {
        let followers = children.remove(block).map_or(0, |hole| hole.children);
        (*block, (*names, followers))
    });
    let with_children: BTreeMap<_, _> = with_children.collect();
    let missing: Holes = children.into_iter().collect();
    if missing != held.holes {
        return Err(format!("holes {:?}, found {missing:?}", held.holes));
    }
    Ok(with_children)
}
