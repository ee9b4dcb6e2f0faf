//! Announced blocks whose parent is unknown: after a late start or a gap, or because the parent was evicted first.
//!
//! Each is kept as a hash of its content, not as its tokens, and waits for the parent's engine hash. There are at most
//! `limit` of them per worker; the oldest give way.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine_hash::EngineHash;
use crate::tier::Tier;

/// One copy of a block that waits for its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub hash: EngineHash,
    pub parent: EngineHash,
    pub content: u64,
    pub tier: Tier,
}

/// The orphans of one worker, by age, by parent and by hash. A serial number tells their ages.
#[derive(Debug)]
pub(crate) struct Orphans {
    limit: usize,
    next: u64,
    by_age: BTreeMap<u64, Orphan>,
    by_parent: BTreeSet<(EngineHash, u64)>,
    by_hash: BTreeSet<(EngineHash, Tier, u64)>,
}

impl Orphans {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            next: 0,
            by_age: BTreeMap::new(),
            by_parent: BTreeSet::new(),
            by_hash: BTreeSet::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Orphan> {
        self.by_age.values()
    }

    /// Keeps an orphan; how many older ones (or itself, where the limit is 0) were dropped for it.
    pub fn keep(&mut self, orphan: Orphan) -> usize {
        let serial = self.next;
        self.next += 1;
        self.by_age.insert(serial, orphan);
        self.by_parent.insert((orphan.parent, serial));
        self.by_hash.insert((orphan.hash, orphan.tier, serial));
        let surplus = self.by_age.len().saturating_sub(self.limit);
        for _ in 0..surplus {
            if let Some((&oldest, _)) = self.by_age.first_key_value() {
                self.take(oldest);
            }
        }
        surplus
    }

    /// Takes out all that wait for `parent`, oldest first.
    pub fn take_children(&mut self, parent: EngineHash) -> Vec<Orphan> {
        let serials: Vec<u64> = self
            .by_parent
            .range((parent, 0)..=(parent, u64::MAX))
            .map(|(_, serial)| *serial)
            .collect();
        serials.into_iter().filter_map(|serial| self.take(serial)).collect()
    }

    /// Takes out one copy, the oldest; whether there was one.
    pub fn take_copy(&mut self, hash: EngineHash, tier: Tier) -> bool {
        let oldest = self.by_hash.range((hash, tier, 0)..=(hash, tier, u64::MAX)).next();
        let serial = oldest.map(|(_, _, serial)| *serial);
        serial.and_then(|serial| self.take(serial)).is_some()
    }

    fn take(&mut self, serial: u64) -> Option<Orphan> {
        let orphan = self.by_age.remove(&serial)?;
        self.by_parent.remove(&(orphan.parent, serial));
        self.by_hash.remove(&(orphan.hash, orphan.tier, serial));
        Some(orphan)
    }

    /// Where the three views disagree, the limit is broken, or an orphan's parent is known.
    pub fn check(&self, is_known: impl Fn(EngineHash) -> bool) -> Result<(), String> {
        if self.len() > self.limit || self.by_parent.len() != self.len() || self.by_hash.len() != self.len() {
            return Err(format!(
                "orphans: {} by age, {} by parent",
                self.len(),
                self.by_parent.len()
            ));
        }
        for (&serial, orphan) in &self.by_age {
            let listed = self.by_parent.contains(&(orphan.parent, serial))
                && self.by_hash.contains(&(orphan.hash, orphan.tier, serial));
            if !listed || is_known(orphan.parent) {
                return Err(format!("orphan {serial} is lost or should be linked: {orphan:?}"));
            }
        }
        Ok(())
    }
}
