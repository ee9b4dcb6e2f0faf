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
//! | `slab`, `shard`, `blocks` | block -> lanes that hold it |
//! | `lane` | one worker's cache: the announced side, the held side, limits |
//! | `names`, `orphans` | engine hashes announced, with their copies; those whose parent is unknown |
//! | `predictions` | blocks a lane is assumed to hold, by age and deadline |
//! | `holes` | blocks missing from a lane before others that it holds |
//! | `holding` | a lane begins or ceases to hold a block |
//! | `intake`, `eviction` | an announcement on its way into both sides; what leaves a tier above its limit |
//! | `matching`, `walk` | the leading blocks of a prompt per worker: by search, and block by block |
//! | `dump` | a lane as bytes and back |
//! | `index`, `report` | the operations and the figures, in terms of the above |
//! | `integrity` | that all sides agree |
//!
//! No tree: chained hashes make the block map flat, so there is nothing to split, merge or walk in circles, and removing
//! a block costs one lookup wherever in a prefix it stands.

mod block_sizes;
mod blocks;
mod counts;
mod dump;
mod engine_hash;
mod eviction;
mod hash;
mod holding;
mod holes;
mod index;
mod intake;
mod integrity;
mod lane;
mod matching;
mod names;
#[cfg(test)]
mod oracle;
mod orphans;
mod predictions;
#[cfg(test)]
mod properties;
mod report;
mod shard;
mod slab;
mod slack;
mod tier;
mod walk;

pub use counts::Stats;
pub use dump::CorruptDump;
pub use engine_hash::EngineHash;
pub use hash::{BlockHash, content_hash, hash_blocks, root_hash};
pub use index::PrefixIndex;
pub use intake::{Store, StoreResult};
pub use matching::Overlap;
pub use report::WorkerStats;
pub use tier::{Tier, WorkerId};
