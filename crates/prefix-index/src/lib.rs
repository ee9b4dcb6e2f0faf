//! Chained block hashes and the block-to-worker index.
//!
//! A block is a fixed number of token ids; its [`BlockHash`] covers everything before it, so equal hashes mean equal
//! prefixes. The [`PrefixIndex`] tells for each block which workers hold it, in which [`Tier`], and whether that is
//! confirmed by the worker's events or only predicted by whoever sent it a prompt.
//!
//! | module | is about |
//! | --- | --- |
//! | `hash` | a prompt's blocks and their names |
//! | `engine_hash` | an engine's names for them |
//! | `holders` | block -> workers that hold it |
//! | `worker_blocks` | worker -> engine hashes it has announced, with their copies |
//! | `orphans` | announced blocks whose parent is unknown |
//! | `predictions` | worker -> blocks it is assumed to hold, by age and deadline |
//! | `matching` | the leading blocks of a prompt per worker |
//! | `intake` | a worker's announcement on its way into both directions |
//! | `index` | the operations, in terms of the above |
//! | `integrity` | that both directions of the index agree |
//!
//! No tree: chained hashes make the block map flat, so there is nothing to split, merge or walk in circles, and removing
//! a block costs one lookup wherever in a prefix it stands.

mod engine_hash;
mod hash;
mod holders;
mod index;
mod intake;
mod integrity;
mod matching;
#[cfg(test)]
mod oracle;
mod orphans;
mod predictions;
#[cfg(test)]
mod properties;
mod tier;
mod worker_blocks;

pub use engine_hash::EngineHash;
pub use hash::{BlockHash, content_hash, hash_blocks, root_hash};
pub use index::{PrefixIndex, Stats};
pub use intake::{Store, StoreResult};
pub use matching::Overlap;
pub use tier::{Tier, WorkerId};
