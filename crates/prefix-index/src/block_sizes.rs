//! The block sizes that a lane has announced: of its engine, and of what offloads its cache in larger chunks.

use smallvec::SmallVec;

/// More than any engine and its connectors use; further ones are not remembered.
const LIMIT: usize = 8;

/// Tokens per block, with the number of blocks stored so.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct BlockSizes {
    stored: SmallVec<[(u32, u64); 2]>,
}

impl BlockSizes {
    pub fn count(&mut self, size: u32, blocks: usize) {
        if blocks == 0 {
            return;
        }
        if let Some((_, stored)) = self.stored.iter_mut().find(|(known, _)| *known == size) {
            // A dump may claim any count.
            *stored = stored.saturating_add(blocks as u64);
        } else if self.stored.len() < LIMIT {
            self.stored.push((size, blocks as u64));
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.stored.iter().copied()
    }
}
