//! What events mean for the index, in the order in which the engine said them.

use prefix_index::{BlockHash, EngineHash, Store, StoreResult, Tier, root_hash};

use crate::event::{Event, Lists, Stored};
use crate::memory::{AdapterLoads, CacheGroups};
use crate::msgpack::{Cursor, Value};
use crate::report::{Report, Undecodable};

/// The index, as far as the events of one lane change it.
pub trait BlockSink {
    /// Takes in a chain of blocks.
    fn store(&self, tier: Tier, store: &Store<'_>) -> StoreResult;
    /// One more copy of each block known by these hashes; how many were known.
    fn store_known(&self, tier: Tier, hashes: &[EngineHash]) -> usize;
    /// Takes one copy of each block out of a tier; how many were there.
    fn remove(&self, tier: Tier, hashes: &[EngineHash]) -> usize;
    /// Drops all blocks of the lane.
    fn clear(&self);
}

/// The way of one lane's payloads into the index.
#[derive(Debug, Default)]
pub struct Ingest {
    groups: CacheGroups,
    adapters: AdapterLoads,
    lists: Lists,
}

impl Ingest {
    /// Applies one batch, `[timestamp, events, ...]`.
    ///
    /// # Errors
    ///
    /// Where the payload is no batch; nothing is changed then.
    pub fn apply(&mut self, payload: &[u8], sink: &impl BlockSink) -> Result<Report, Undecodable> {
        self.lists.clear();
        let mut report = Report::default();
        for event in read_batch(payload, &mut self.lists, &mut report)? {
            self.apply_event(&event, sink, &mut report);
        }
        Ok(report)
    }

    /// Another engine process: forgets what the last one taught. Clears no blocks.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    fn apply_event(&mut self, event: &Event<'_>, sink: &impl BlockSink, report: &mut Report) {
        match event {
            Event::Stored(stored) => self.store(stored, sink, report),
            Event::Removed(removed) => {
                if self.groups.is_indexed(removed.group) {
                    report.removed += sink.remove(removed.tier, &self.lists.hashes[removed.hashes.clone()]);
                }
            }
            Event::Cleared => {
                sink.clear();
                report.cleared += 1;
            }
        }
    }

    fn store(&mut self, stored: &Stored<'_>, sink: &impl BlockSink, report: &mut Report) {
        self.drop_earlier_load(stored, sink, report);
        let hashes = &self.lists.hashes[stored.hashes.clone()];
        let tokens = &self.lists.tokens[stored.tokens.clone()];
        let blocks = hashes.len();
        if !self.groups.admits(stored.group, stored.kind) {
            report.unindexed += blocks;
        } else if tokens.is_empty() {
            // vLLM's offloading connector names blocks without their tokens.
            let known = sink.store_known(stored.tier, hashes);
            report.duplicate += known;
            report.unindexed += blocks - known;
        } else if let Some(root) = root_of(stored) {
            let store = Store {
                parent: stored.parent,
                engine_hashes: hashes,
                token_ids: tokens,
                block_size: stored.block_size,
                root,
                keys: &stored.keys,
            };
            report.add(sink.store(stored.tier, &store));
        } else {
            report.unindexed += blocks;
        }
    }

    /// Blocks of an adapter's earlier loading are computed with other weights. Which they are is not recorded, so all
    /// blocks of the lane go: a miss, never credit for the wrong weights.
    fn drop_earlier_load(&mut self, stored: &Stored<'_>, sink: &impl BlockSink, report: &mut Report) {
        if let (Some(name), Some(load)) = (&stored.adapter, stored.adapter_load)
            && self.adapters.is_reloaded(name, load)
        {
            sink.clear();
            report.reloaded += 1;
        }
    }
}

/// Where the chain of a store starts; nothing where the tokens of its blocks are not all told, as in sparse stores.
fn root_of(stored: &Stored<'_>) -> Option<BlockHash> {
    let tokens = stored.hashes.len().checked_mul(stored.block_size)?;
    let block_size = u32::try_from(stored.block_size).ok().filter(|size| *size > 0)?;
    if tokens != stored.tokens.len() {
        return None;
    }
    if stored.parent.is_some() {
        // Children are in their parent's namespace.
        return Some(BlockHash(0));
    }
    let adapter = stored.adapter.as_ref().map(|name| name.as_bytes());
    Some(root_hash(block_size, adapter, stored.salt.map(str::as_bytes)))
}

/// Reads a batch to its end, so that bytes which are cut off change nothing. Rejected events go into the report.
fn read_batch<'a>(payload: &'a [u8], lists: &mut Lists, report: &mut Report) -> Result<Vec<Event<'a>>, Undecodable> {
    let mut cursor = Cursor::new(payload);
    let members = match cursor.read()? {
        Value::Array(members) if members >= 2 => members,
        _ => return Err(Undecodable("it is not an array of a timestamp and events")),
    };
    match cursor.read()? {
        Value::Float(_) | Value::Unsigned(_) | Value::Negative(_) => {}
        _ => return Err(Undecodable("the timestamp is not a number")),
    }
    let Value::Array(count) = cursor.read()? else {
        return Err(Undecodable("the events are not an array"));
    };
    let mut events = Vec::new();
    for _ in 0..count {
        match Event::read(&mut cursor, lists)? {
            Ok(event) => events.push(event),
            Err(reason) => report.reject(reason),
        }
    }
    // The rank, and whatever may come to follow it.
    for _ in 2..members {
        cursor.skip()?;
    }
    if cursor.is_at_end() {
        Ok(events)
    } else {
        Err(Undecodable("bytes follow the batch"))
    }
}
