//! Any bytes as payloads of one engine, one after another: each is refused whole or applied, the index stays sound, and
//! nothing that came before keeps a new engine process from being understood.
//!
//! The input is cut into payloads at each occurrence of `CUT`.

#![no_main]

use std::cell::Cell;

use kv_event::{BlockSink, Ingest};
use libfuzzer_sys::fuzz_target;
use prefix_index::{EngineHash, PrefixIndex, Store, StoreResult, Tier, WorkerId};

const LANE: WorkerId = WorkerId(1);
const CUT: &[u8] = b"CUT!";

/// Two blocks of two tokens: `[1.0, [{"type": "BlockStored", ...}]]`.
const STORE: &[u8] = b"\x92\xCB\x3F\xF0\0\0\0\0\0\0\x91\x85\xA4type\xABBlockStored\xACblock_hashes\x92\x0B\x0C\
    \xB1parent_block_hash\xC0\xA9token_ids\x94\x01\x02\x03\x04\xAAblock_size\x02";

/// The index, and how often it was told anything.
struct Sink {
    index: PrefixIndex,
    calls: Cell<usize>,
}

impl Sink {
    fn index(&self) -> &PrefixIndex {
        self.calls.set(self.calls.get() + 1);
        &self.index
    }
}

impl BlockSink for Sink {
    fn store(&self, tier: Tier, store: &Store<'_>) -> StoreResult {
        self.index().store(LANE, tier, store)
    }

    fn store_known(&self, tier: Tier, hashes: &[EngineHash]) -> usize {
        self.index().store_known(LANE, tier, hashes)
    }

    fn remove(&self, tier: Tier, hashes: &[EngineHash]) -> usize {
        self.index().remove(LANE, tier, hashes)
    }

    fn clear(&self) {
        self.index().clear(LANE);
    }
}

fn payloads(input: &[u8]) -> Vec<&[u8]> {
    let mut rest = input;
    let mut payloads = Vec::new();
    while let Some(at) = rest.windows(CUT.len()).position(|window| window == CUT) {
        payloads.push(&rest[..at]);
        rest = &rest[at + CUT.len()..];
    }
    payloads.push(rest);
    payloads
}

fuzz_target!(|input: &[u8]| {
    let sink = Sink {
        index: PrefixIndex::new(16),
        calls: Cell::new(0),
    };
    sink.index.add_worker(LANE, 0);
    let mut ingest = Ingest::default();
    for payload in payloads(input) {
        let before = sink.calls.get();
        let report = ingest.apply(payload, &sink);
        assert_eq!(sink.index.check_integrity(), Ok(()));
        match report {
            Err(_) => assert_eq!(sink.calls.get(), before, "what is no batch changes nothing"),
            Ok(report) => {
                // Not more events than bytes, whatever the payload claims.
                let told = report.stored + report.duplicate + report.orphaned + report.unindexed + report.rejected;
                assert!(
                    told + report.removed + report.cleared <= 2 * payload.len(),
                    "{report:?}"
                );
                assert!(report.rejections.len() <= report.rejected);
            }
        }
    }
    ingest.reset();
    sink.clear();
    let report = ingest.apply(STORE, &sink).expect("a batch");
    assert_eq!(
        (report.stored, report.rejected, sink.index.blocks(LANE)),
        (2, 0, 2),
        "{report:?}"
    );
});
