//! Worker -> the blocks it is assumed to hold, by age and by deadline.
//!
//! Renewing a prediction moves it to the young end. That and the eviction order make this the LRU model of an engine
//! that sends no events, with a limit as its capacity; with a near deadline it bridges the time between a dispatch and
//! the engine's event.
//!
//! Both orders are lazy: an entry is stale once its block has been renewed or dropped, and stale entries go when they
//! come up or when they outnumber the live ones. A renewed block costs one push instead of two tree moves.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use crate::hash::BlockHash;
use crate::slack::release_slack;

/// Stale entries that are tolerated beside as many as there are live ones.
const SLACK: usize = 1_024;

/// One predicted block: until when, and its place in the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    serial: u64,
    pub until: f64,
    pub depth: u32,
}

/// One call's predictions are those numbered `first` to `last`; they end together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Deadline {
    until: f64,
    first: u64,
    last: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Predictions {
    next: u64,
    live: FxHashMap<BlockHash, Live>,
    /// Ascending by serial number.
    ages: VecDeque<(u64, BlockHash)>,
    /// None for what never ends.
    deadlines: BTreeSet<Deadline>,
}

impl Predictions {
    pub fn len(&self) -> usize {
        self.live.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (BlockHash, &Live)> {
        self.live.iter().map(|(block, live)| (*block, live))
    }

    /// Those among a prompt's blocks, each with its place there.
    pub fn on<'a>(&'a self, prompt: &'a [BlockHash]) -> impl Iterator<Item = (usize, &'a Live)> + 'a {
        // Of an empty prompt there are none: a lane of very many predictions is not looked through for them.
        let candidates = if prompt.is_empty() { 0 } else { self.live.len() };
        let live = self.live.iter().take(candidates);
        let live = live.map(|(block, live)| (live.depth as usize, block, live));
        live.filter(|(depth, block, _)| prompt.get(*depth) == Some(*block))
            .map(|(depth, _, live)| (depth, live))
    }

    pub fn until(&self, block: BlockHash) -> Option<f64> {
        self.live.get(&block).map(|live| live.until)
    }

    /// Records or renews predictions; the first given is the oldest, so a prompt's tail comes first.
    pub fn record(&mut self, blocks: impl Iterator<Item = (BlockHash, u32)>, until: f64) {
        let first = self.next;
        for (block, depth) in blocks {
            self.live.insert(
                block,
                Live {
                    serial: self.next,
                    until,
                    depth,
                },
            );
            self.ages.push_back((self.next, block));
            self.next += 1;
        }
        if first < self.next && until < f64::INFINITY {
            self.deadlines.insert(Deadline {
                until,
                first,
                last: self.next - 1,
            });
        }
        self.compact();
    }

    /// Ends a prediction; whether there was one.
    pub fn end(&mut self, block: BlockHash) -> bool {
        self.live.remove(&block).is_some()
    }

    /// Ends the oldest until no more than `limit` are left; which.
    pub fn evict(&mut self, limit: usize) -> Vec<BlockHash> {
        let mut evicted = Vec::new();
        while self.live.len() > limit {
            let Some((serial, block)) = self.ages.pop_front() else {
                break;
            };
            if is_live(&self.live, serial, block) {
                self.live.remove(&block);
                evicted.push(block);
            }
        }
        evicted
    }

    /// Ends those whose time has come; which.
    pub fn expire(&mut self, now: f64) -> Vec<BlockHash> {
        let mut expired = Vec::new();
        while self.deadlines.first().is_some_and(|deadline| deadline.until <= now) {
            let Some(deadline) = self.deadlines.pop_first() else {
                break;
            };
            let start = self.ages.partition_point(|(serial, _)| *serial < deadline.first);
            for &(serial, block) in self
                .ages
                .range(start..)
                .take_while(|(serial, _)| *serial <= deadline.last)
            {
                if is_live(&self.live, serial, block) {
                    self.live.remove(&block);
                    expired.push(block);
                }
            }
        }
        self.compact();
        expired
    }

    fn compact(&mut self) {
        let tolerated = 2 * self.live.len() + SLACK;
        if self.ages.len() <= tolerated && self.deadlines.len() <= tolerated {
            return;
        }
        let (live, ages) = (&self.live, &mut self.ages);
        ages.retain(|&(serial, block)| is_live(live, serial, block));
        self.deadlines.retain(|deadline| {
            let place = ages.partition_point(|(serial, _)| *serial < deadline.first);
            ages.get(place).is_some_and(|(serial, _)| *serial <= deadline.last)
        });
    }

    pub fn release_slack(&mut self) {
        release_slack(&mut self.live);
        if self.ages.capacity() > SLACK && self.ages.len() < self.ages.capacity() / 8 {
            self.ages.shrink_to(2 * self.ages.len());
        }
    }

    /// Where a prediction has no place among the ages, or its deadline is lost.
    pub fn check(&self, limit: usize) -> Result<(), String> {
        let deadlines: BTreeMap<u64, Deadline> = self.deadlines.iter().map(|entry| (entry.first, *entry)).collect();
        for (block, live) in &self.live {
            let place = self.ages.binary_search_by_key(&live.serial, |(serial, _)| *serial);
            let deadline = deadlines.range(..=live.serial).next_back();
            let ends = live.until == f64::INFINITY || deadline.is_some_and(|(_, deadline)| deadline.covers(live));
            if !place.is_ok_and(|place| self.ages[place].1 == *block) || !ends {
                return Err(format!("prediction {live:?} of {block:?} has lost its place"));
            }
        }
        if self.len() > limit {
            Err(format!("{} predictions above the limit", self.len()))
        } else {
            Ok(())
        }
    }
}

impl Deadline {
    fn covers(&self, live: &Live) -> bool {
        self.until.total_cmp(&live.until).is_eq() && live.serial <= self.last
    }
}

impl Eq for Deadline {}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Deadline {
    fn cmp(&self, other: &Self) -> Ordering {
        self.until.total_cmp(&other.until).then(self.first.cmp(&other.first))
    }
}

fn is_live(live: &FxHashMap<BlockHash, Live>, serial: u64, block: BlockHash) -> bool {
    live.get(&block).is_some_and(|live| live.serial == serial)
}
