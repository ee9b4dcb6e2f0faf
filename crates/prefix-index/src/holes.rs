//! Blocks that a lane does not hold although it holds some that follow them.
//!
//! Engines evict the tail of a prompt before its head, so there are few. As long as none of them lies on a prompt's
//! chain, a lane that holds a block of it holds all before it too, and the end of its prefix can be searched for.

use rustc_hash::FxHashMap;

use crate::hash::BlockHash;
use crate::slack::release_slack;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub depth: u32,
    /// Blocks that follow it directly and are held.
    pub children: u32,
}

/// The holes of one lane.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Holes {
    missing: FxHashMap<BlockHash, Hole>,
}

impl Holes {
    pub fn len(&self) -> usize {
        self.missing.len()
    }

    /// The block is missing from now on; nothing where no block that follows it is held.
    pub fn open(&mut self, block: BlockHash, depth: u32, children: u32) {
        if children > 0 {
            self.missing.insert(block, Hole { depth, children });
        }
    }

    /// The block is held from now on; the number of held blocks that follow it.
    pub fn fill(&mut self, block: BlockHash) -> u32 {
        if self.missing.is_empty() {
            return 0;
        }
        let filled = self.missing.remove(&block).map_or(0, |hole| hole.children);
        release_slack(&mut self.missing);
        filled
    }

    /// One more block is held that follows this missing one.
    pub fn add_child(&mut self, block: BlockHash, depth: u32) {
        self.missing
            .entry(block)
            .or_insert(Hole { depth, children: 0 })
            .children += 1;
    }

    /// One less.
    pub fn take_child(&mut self, block: BlockHash) {
        if let Some(hole) = self.missing.get_mut(&block) {
            hole.children -= 1;
            if hole.children == 0 {
                self.missing.remove(&block);
                release_slack(&mut self.missing);
            }
        }
    }

    /// The places of a prompt's blocks that are holes.
    pub fn on<'a>(&'a self, prompt: &'a [BlockHash]) -> impl Iterator<Item = usize> + 'a {
        let depths = self.missing.iter().map(|(block, hole)| (hole.depth as usize, block));
        depths
            .filter(|(depth, block)| prompt.get(*depth) == Some(*block))
            .map(|(depth, _)| depth)
    }
}

impl FromIterator<(BlockHash, Hole)> for Holes {
    fn from_iter<I: IntoIterator<Item = (BlockHash, Hole)>>(holes: I) -> Self {
        Self {
            missing: holes.into_iter().collect(),
        }
    }
}
