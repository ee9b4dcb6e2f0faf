//! What each worker's cache holds, and the events that tell of it.
//!
//! Nothing is ever evicted, and the ids of answers are not stored: events are those of the prompts alone.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use parking_lot::Mutex;
use tokens::Encoder;
use tokio::sync::mpsc::UnboundedSender;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::conversation::{Message, Plan, opening, turn};
use crate::event_wire::{Stored, batch};
use crate::tag::{Session, Tag};
use crate::word_ids::WordIds;
use crate::zmtp;

pub const BLOCK_SIZE: usize = 32;

/// Batches that can be asked for again.
const KEPT_BATCHES: usize = 10_000;

/// All workers' caches, shared by the tasks of one thread.
pub type SharedHoldings = Arc<Mutex<Holdings>>;

/// The caches of all workers, by their addresses.
pub struct Holdings {
    encoder: Encoder,
    words: WordIds,
    talks: HashMap<(Plan, u32), Talk>,
    workers: HashMap<IpAddr, Held>,
}

/// One worker's cache and who is told of it.
#[derive(Default)]
struct Held {
    blocks: HashSet<u64>,
    batches: VecDeque<Bytes>,
    next: u64,
    subscribers: Vec<UnboundedSender<Bytes>>,
}

/// A conversation's ids as far as it has come.
struct Talk {
    session: Session,
    chunks: u32,
    ids: Vec<u32>,
    hashes: Vec<u64>,
    /// Ids at the end of each round.
    ends: Vec<usize>,
    /// Leading blocks that each worker is known to hold.
    held: HashMap<IpAddr, usize>,
}

impl Holdings {
    pub fn new(encoder: Encoder) -> Self {
        Self {
            encoder,
            words: WordIds::default(),
            talks: HashMap::new(),
            workers: HashMap::new(),
        }
    }

    /// A worker gets a prompt: its tokens, and how many of them the worker had. From now on it has all full blocks.
    pub fn take(&mut self, worker: IpAddr, tag: &Tag) -> (u64, u64) {
        let Some(session) = tag.session else {
            return (0, 0);
        };
        let begin = || Talk::new(session, tag.chunks);
        let talk = self
            .talks
            .entry((session.plan, session.connection))
            .or_insert_with(begin);
        if (talk.session, talk.chunks) != (session, tag.chunks) {
            *talk = begin();
        }
        talk.reach(tag.round, &self.encoder, &mut self.words);
        let tokens = talk.ends[tag.round as usize];
        let cached = self
            .workers
            .entry(worker)
            .or_default()
            .store(worker, talk, tokens / BLOCK_SIZE);
        (tokens as u64, (cached * BLOCK_SIZE) as u64)
    }

    /// The ids of a conversation as the model's template writes it.
    pub fn chat_ids<'a>(&self, messages: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<u32> {
        let mut text: String = messages.map(|(role, content)| framed(role, content)).collect();
        text.push_str("<|im_start|>assistant\n");
        self.ids(&text, false)
    }

    pub fn ids(&self, text: &str, special: bool) -> Vec<u32> {
        self.encoder.encode(text, special).unwrap_or_default()
    }

    pub fn subscribe(&mut self, worker: IpAddr, subscriber: UnboundedSender<Bytes>) {
        self.workers.entry(worker).or_default().subscribers.push(subscriber);
    }

    /// Who listens now, over all workers, and the batches that were sent.
    pub fn told(&mut self) -> (usize, u64) {
        for held in self.workers.values_mut() {
            held.subscribers.retain(|subscriber| !subscriber.is_closed());
        }
        let listening = self.workers.values().map(|held| held.subscribers.len()).sum();
        (listening, self.workers.values().map(|held| held.next).sum())
    }

    /// The batches that are still kept from `start` on.
    pub fn kept(&self, worker: IpAddr, start: u64) -> Vec<(u64, Bytes)> {
        let Some(held) = self.workers.get(&worker) else {
            return Vec::new();
        };
        let first = held.next - held.batches.len() as u64;
        (first..)
            .zip(held.batches.iter().cloned())
            .filter(|(number, _)| *number >= start)
            .collect()
    }
}

impl Held {
    /// Stores a talk's leading blocks; how many were there before.
    fn store(&mut self, worker: IpAddr, talk: &mut Talk, blocks: usize) -> usize {
        let known = talk.held.entry(worker).or_insert(0);
        let hashes = &talk.hashes[..blocks];
        let cached = *known.min(&mut { blocks })
            + hashes
                .iter()
                .skip(*known)
                .take_while(|hash| self.blocks.contains(hash))
                .count();
        *known = blocks.max(*known);
        if cached < blocks {
            self.blocks.extend(&hashes[cached..]);
            self.publish(&Stored {
                hashes: &hashes[cached..],
                ids: &talk.ids[cached * BLOCK_SIZE..blocks * BLOCK_SIZE],
                parent: cached.checked_sub(1).map(|last| hashes[last]),
            });
        }
        cached
    }

    fn publish(&mut self, stored: &Stored<'_>) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64());
        let batch = Bytes::from(batch(now, stored));
        let message = zmtp::message(&[b"", &self.next.to_be_bytes(), &batch]);
        self.subscribers
            .retain(|subscriber| subscriber.send(message.clone()).is_ok());
        if self.batches.len() == KEPT_BATCHES {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
        self.next += 1;
    }
}

impl Talk {
    fn new(session: Session, chunks: u32) -> Self {
        Self {
            session,
            chunks,
            ids: Vec::new(),
            hashes: Vec::new(),
            ends: Vec::new(),
            held: HashMap::new(),
        }
    }

    fn reach(&mut self, round: u32, encoder: &Encoder, words: &mut WordIds) {
        while self.ends.len() <= round as usize {
            let next = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
            let added = if next == 0 {
                opening(self.session)
            } else {
                turn(self.session, next, self.chunks)
            };
            for Message { role, content } in added {
                words.append(encoder, role, &content, &mut self.ids);
            }
            self.ends.push(self.ids.len());
        }
        while (self.hashes.len() + 1) * BLOCK_SIZE <= self.ids.len() {
            let start = self.hashes.len() * BLOCK_SIZE;
            let bytes: Vec<u8> = self.ids[start..start + BLOCK_SIZE]
                .iter()
                .flat_map(|id| id.to_le_bytes())
                .collect();
            self.hashes
                .push(xxh3_64_with_seed(&bytes, self.hashes.last().copied().unwrap_or(0)));
        }
    }
}

fn framed(role: &str, content: &str) -> String {
    format!("<|im_start|>{role}\n{content}<|im_end|>\n")
}
