//! The leading blocks of a prompt that each worker holds.
//!
//! A block's hash covers all before it, so a lane that holds a block and has no hole on its chain holds the whole
//! prefix: where the prefix ends is found by a search over the prompt instead of a walk (a jump to its end first, as most
//! lanes hold all of it or little). What stands out of a lane, its holes and its predictions, carries its depth, so that
//! one comparison tells whether it lies on this prompt. A lane in which too much stands out is walked, block by block.

use smallvec::SmallVec;

use crate::blocks::Blocks;
use crate::hash::BlockHash;
use crate::index::Lanes;
use crate::lane::{HeldBlocks, Lane, LaneNumber};
use crate::shard::Holder;
use crate::tier::{Tier, WorkerId};
use crate::walk::walk;

/// Leading blocks of one worker by their best source: the tiers nearest first, then predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Blocks whose best copy is in this tier, indexed by `Tier as usize`.
    pub tiers: [u32; Tier::ALL.len()],
    /// Blocks that are predicted only.
    pub predicted: u32,
}

impl Overlap {
    /// All blocks of the overlap, whatever their source.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.tiers.iter().sum::<u32>() + self.predicted
    }
}

/// A lane that is compared with more exceptions than this many per block of the prompt is walked instead: a comparison
/// takes 3 ns, a step of a walk 100.
const EXCEPTIONS_PER_BLOCK: usize = 2;

/// Ascending by worker; workers that do not hold the first block are left out.
pub(crate) fn match_prefix(blocks: &Blocks, lanes: &Lanes, prompt: &[BlockHash], now: f64) -> Vec<(WorkerId, Overlap)> {
    let Some(&first) = prompt.first() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut walked: SmallVec<[&Lane; 4]> = SmallVec::new();
    for holder in &blocks.holders(first) {
        let Some(lane) = lanes.numbered(holder.lane) else {
            continue;
        };
        match search(blocks, lane, prompt, now) {
            Some(overlap) if overlap.blocks() > 0 => found.push((lane.key, overlap)),
            Some(_) => {}
            None => walked.push(lane),
        }
    }
    if !walked.is_empty() {
        found.extend(walk(blocks, &walked, prompt, now));
    }
    found.sort_unstable_by_key(|(worker, _)| *worker);
    found
}

/// The overlap of a lane that holds the first block, where it can be told without a walk.
fn search(blocks: &Blocks, lane: &Lane, prompt: &[BlockHash], now: f64) -> Option<Overlap> {
    let held = lane.held.lock();
    if held.off_device > 0 {
        return None;
    }
    let reach = reach(blocks, lane.number, &held, prompt, now)?;
    let predicted = held.predictions.on(&prompt[..reach]).count();
    let mut overlap = Overlap {
        predicted: blocks_of(predicted),
        ..Overlap::default()
    };
    overlap.tiers[Tier::Device as usize] = blocks_of(reach - predicted);
    Some(overlap)
}

/// The leading blocks of a prompt that a lane holds at `now`; None where a walk is cheaper.
pub(crate) fn reach(
    blocks: &Blocks,
    lane: LaneNumber,
    held: &HeldBlocks,
    prompt: &[BlockHash],
    now: f64,
) -> Option<usize> {
    let exceptions = held.holes.len() + held.predictions.len();
    if exceptions > 64 + EXCEPTIONS_PER_BLOCK * prompt.len() {
        return None;
    }
    let holes = held.holes.on(prompt);
    let expired = held.predictions.on(prompt).filter(|(_, live)| live.until <= now);
    let gaps = holes.chain(expired.map(|(depth, _)| depth));
    let end = gaps.min().unwrap_or(prompt.len());
    Some(longest(&prompt[..end], |block| blocks.holds(block, lane)))
}

/// The number of leading blocks that are held, where holding one means holding all before it.
fn longest(prompt: &[BlockHash], holds: impl Fn(BlockHash) -> bool) -> usize {
    match prompt.last() {
        None => 0,
        Some(&last) if holds(last) => prompt.len(),
        Some(_) => prompt.partition_point(|block| holds(*block)),
    }
}

/// Prompts are shorter than 2^32 tokens.
pub(crate) fn blocks_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Overlap {
    /// Counts one more block; false where the holder has none at this time.
    pub(crate) fn extend(&mut self, holder: &Holder, lives: impl FnOnce() -> bool) -> bool {
        if let Some(tier) = holder.nearest() {
            self.tiers[tier] += 1;
            return true;
        }
        let lives = lives();
        self.predicted += u32::from(lives);
        lives
    }
}
