//! The same answer as `matching`, block by block: for lanes whose blocks lie in several tiers or are mostly predicted,
//! and as what the search is compared with.

use smallvec::SmallVec;

use crate::blocks::Blocks;
use crate::hash::BlockHash;
use crate::lane::Lane;
use crate::matching::Overlap;
use crate::shard::Holder;
use crate::tier::WorkerId;

/// The lanes' overlaps, empty ones left out. `lanes` ascend by number.
///
/// Lanes and holders both ascend, so each step is one merge. Time is one lookup per block plus the lanes and holders of
/// the blocks walked.
pub(crate) fn walk(blocks: &Blocks, lanes: &[&Lane], prompt: &[BlockHash], now: f64) -> Vec<(WorkerId, Overlap)> {
    let held: SmallVec<[_; 4]> = lanes.iter().map(|lane| lane.held.lock()).collect();
    let mut overlaps = vec![Overlap::default(); lanes.len()];
    let mut walking: SmallVec<[usize; 16]> = (0..lanes.len()).collect();
    for &block in prompt {
        let Some(place) = blocks.find(block) else { break };
        let mut holders = place.shard.holders(place.slot);
        walking.retain(|lane| {
            let lives = || held[*lane].predictions.until(block).is_some_and(|until| until > now);
            next_of(&mut holders, lanes[*lane]).is_some_and(|holder| overlaps[*lane].extend(holder, lives))
        });
        if walking.is_empty() {
            break;
        }
    }
    let found = lanes.iter().zip(overlaps).map(|(lane, overlap)| (lane.key, overlap));
    found.filter(|(_, overlap)| overlap.blocks() > 0).collect()
}

/// The holder of this lane, with those before it passed over.
fn next_of<'a>(holders: &mut &'a [Holder], lane: &Lane) -> Option<&'a Holder> {
    let passed = holders.partition_point(|holder| holder.lane < lane.number);
    *holders = &holders[passed..];
    holders.first().filter(|holder| holder.lane == lane.number)
}
