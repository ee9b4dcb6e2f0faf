//! The ids of segments that were seen, bounded in bytes and shared by all texts. Safe from any thread.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{Equivalent, OptionsBuilder, Weighter};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How a segment is encoded depends on where in its text it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// At the text's start.
    Start,
    AfterToken,
    AfterSeam,
}

/// What a cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Segments kept.
    pub segments: u64,
    /// Bytes that these take: texts, ids and bookkeeping.
    pub bytes: u64,
    /// Bytes of text that were looked up.
    pub asked_bytes: u64,
    /// Bytes of text that were looked up and found.
    pub found_bytes: u64,
}

pub struct SegmentCache {
    kept: Option<Cache<Segment, Arc<[u32]>, Weight, ByHash>>,
    seed: u64,
    asked_bytes: AtomicU64,
    found_bytes: AtomicU64,
}

/// The texts themselves are compared, not only their hashes: a false hit would be a wrong prompt.
#[derive(Clone)]
struct Segment {
    hash: u64,
    place: Place,
    text: Box<str>,
}

struct Asked<'a> {
    hash: u64,
    place: Place,
    text: &'a str,
}

impl Hash for Segment {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for Segment {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place && self.text == other.text
    }
}

impl Eq for Segment {}

impl Hash for Asked<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Equivalent<Segment> for Asked<'_> {
    fn equivalent(&self, key: &Segment) -> bool {
        self.place == key.place && *self.text == *key.text
    }
}

/// Beside text and ids an entry takes about this many bytes (`bench/tokenize.py` measures it).
const ENTRY_BYTES: usize = 144;

#[derive(Clone)]
struct Weight;

impl Weighter<Segment, Arc<[u32]>> for Weight {
    fn weight(&self, key: &Segment, ids: &Arc<[u32]>) -> u64 {
        (ENTRY_BYTES + key.text.len() + size_of::<u32>() * ids.len()) as u64
    }
}

/// Keys bring their hash.
#[derive(Clone, Default)]
struct ByHash;

#[derive(Default)]
struct Brought(u64);

impl BuildHasher for ByHash {
    type Hasher = Brought;

    fn build_hasher(&self) -> Brought {
        Brought::default()
    }
}

impl Hasher for Brought {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 << 8) | u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What a segment weighs that is as long as they usually are, for the number of entries to expect.
const USUAL_BYTES: u64 = 1_024;

impl SegmentCache {
    /// At most about `bytes`; 0 keeps nothing.
    pub fn new(bytes: u64) -> Self {
        let expected = usize::try_from(bytes / USUAL_BYTES).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(expected)
            .weight_capacity(bytes)
            .build();
        Self {
            kept: options
                .ok()
                .filter(|_| bytes > 0)
                .map(|options| Cache::with_options(options, Weight, ByHash, DefaultLifecycle::default())),
            // Not to be guessed: whoever knew it could send texts of one hash.
            seed: RandomState::new().hash_one(0_u64),
            asked_bytes: AtomicU64::new(0),
            found_bytes: AtomicU64::new(0),
        }
    }

    /// The ids of `text`, from here or else made by `encode` and kept.
    pub fn get<E>(
        &self,
        place: Place,
        text: &str,
        encode: impl FnOnce() -> Result<Vec<u32>, E>,
        into: &mut Vec<u32>,
    ) -> Result<(), E> {
        let Some(kept) = &self.kept else {
            into.extend(encode()?);
            return Ok(());
        };
        let hash = xxh3_64_with_seed(text.as_bytes(), self.seed);
        self.asked_bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
        if let Some(ids) = kept.get(&Asked { hash, place, text }) {
            self.found_bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
            into.extend_from_slice(&ids);
            return Ok(());
        }
        let ids = encode()?;
        into.extend_from_slice(&ids);
        let text = Box::from(text);
        kept.insert(Segment { hash, place, text }, ids.into());
        Ok(())
    }

    pub fn stats(&self) -> CacheStats {
        CacheStats {
            segments: self.kept.as_ref().map_or(0, |kept| kept.len() as u64),
            bytes: self.kept.as_ref().map_or(0, Cache::weight),
            asked_bytes: self.asked_bytes.load(Ordering::Relaxed),
            found_bytes: self.found_bytes.load(Ordering::Relaxed),
        }
    }
}
