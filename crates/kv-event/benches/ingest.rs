//! Blocks per second on one thread, from a payload's bytes to the index: vLLM's map events of 32 blocks of 16 tokens.
//!
//! `cargo bench -p kv-event`; each line is the best and the median of several rounds over fresh blocks.

#![expect(clippy::expect_used, reason = "a measurement that goes wrong should stop")]

use std::time::{Duration, Instant};

use kv_event::{BlockSink, Ingest};
use prefix_index::{EngineHash, PrefixIndex, Store, StoreResult, Tier, WorkerId};

const ROUNDS: usize = 9;
const EVENTS: usize = 4_000;
const BLOCKS: usize = 32;
const TOKENS: usize = 16;

/// Takes everything and keeps nothing: what remains is the decoding.
struct Nowhere;

impl BlockSink for Nowhere {
    fn store(&self, _tier: Tier, store: &Store<'_>) -> StoreResult {
        StoreResult {
            stored: store.engine_hashes.len(),
            ..StoreResult::default()
        }
    }

    fn store_known(&self, _tier: Tier, hashes: &[EngineHash]) -> usize {
        hashes.len()
    }

    fn remove(&self, _tier: Tier, hashes: &[EngineHash]) -> usize {
        hashes.len()
    }

    fn clear(&self) {}
}

struct Lane(PrefixIndex);

impl BlockSink for Lane {
    fn store(&self, tier: Tier, store: &Store<'_>) -> StoreResult {
        self.0.store(WorkerId(1), tier, store)
    }

    fn store_known(&self, tier: Tier, hashes: &[EngineHash]) -> usize {
        self.0.store_known(WorkerId(1), tier, hashes)
    }

    fn remove(&self, tier: Tier, hashes: &[EngineHash]) -> usize {
        self.0.remove(WorkerId(1), tier, hashes)
    }

    fn clear(&self) {
        self.0.clear(WorkerId(1));
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.push(0xA0 | u8::try_from(text.len()).expect("short"));
    out.extend(text.as_bytes());
}

/// A batch of one event; tokens as of a vocabulary of 128k, hashes of 64 bits.
fn payload(random: &mut impl FnMut() -> u64) -> Vec<u8> {
    let mut out = vec![0x93, 0xCB, 0x41, 0xD9, 0x54, 0xFC, 0x40, 0x20, 0, 0, 0x91, 0x88];
    text(&mut out, "type");
    text(&mut out, "BlockStored");
    text(&mut out, "block_hashes");
    out.extend([0xDC, 0, u8::try_from(BLOCKS).expect("few")]);
    for _ in 0..BLOCKS {
        out.push(0xCF);
        out.extend((random() | 1 << 63).to_be_bytes());
    }
    text(&mut out, "parent_block_hash");
    out.push(0xC0);
    text(&mut out, "token_ids");
    out.push(0xDC);
    out.extend(u16::try_from(BLOCKS * TOKENS).expect("few").to_be_bytes());
    for _ in 0..BLOCKS * TOKENS {
        let [high, low, ..] = random().to_be_bytes();
        if high & 1 == 0 {
            out.extend([0xCD, high | 1, low]);
        } else {
            out.extend([0xCE, 0, 1, high, low]);
        }
    }
    text(&mut out, "block_size");
    out.push(u8::try_from(TOKENS).expect("few"));
    text(&mut out, "lora_id");
    out.push(0xC0);
    text(&mut out, "medium");
    text(&mut out, "GPU");
    text(&mut out, "lora_name");
    out.extend([0xC0, 0x00]);
    out
}

fn round(sink: &impl BlockSink, payloads: &[Vec<u8>]) -> Duration {
    let mut ingest = Ingest::default();
    let start = Instant::now();
    let mut stored = 0;
    for payload in payloads {
        stored += ingest.apply(payload, sink).expect("a batch").stored;
    }
    let took = start.elapsed();
    assert_eq!(stored, payloads.len() * BLOCKS);
    took
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let blocks = u32::try_from(EVENTS * BLOCKS).expect("few");
    let millions = |time: Duration| f64::from(blocks) / time.as_secs_f64() / 1e6;
    println!(
        "{name}: {:.2} M blocks/s best, {:.2} median, {ROUNDS} rounds of {blocks} blocks",
        millions(times[0]),
        millions(times[ROUNDS / 2])
    );
}

fn main() {
    let mut state = 1_u64;
    let mut random = || {
        // SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    };
    let payloads: Vec<Vec<u8>> = (0..EVENTS).map(|_| payload(&mut random)).collect();
    report("decode", (0..ROUNDS).map(|_| round(&Nowhere, &payloads)).collect());
    let stores = (0..ROUNDS).map(|_| {
        let index = PrefixIndex::new(0);
        index.add_worker(WorkerId(1), 0);
        let lane = Lane(index);
        round(&lane, &payloads)
    });
    report("decode and store", stores.collect());
}
