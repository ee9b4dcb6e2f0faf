//! Any bytes are read or refused, and the two ways of passing over a value agree.

use prefix_index::{EngineHash, PrefixIndex, Store, StoreResult, Tier, WorkerId};
use proptest::prelude::*;

use crate::msgpack::{Cursor, Malformed, Value};
use crate::{BlockSink, Ingest};

struct Indexed(PrefixIndex);

impl BlockSink for Indexed {
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

fn index() -> Indexed {
    let index = PrefixIndex::new(16);
    index.add_worker(WorkerId(1), 0);
    Indexed(index)
}

/// Two blocks of two tokens as a map, then their removal as an array.
const BATCH: &[u8] = b"\x93\xCB\x41\xD9\x54\xFC\x40\x20\0\0\x92\
    \x89\xA4type\xABBlockStored\xACblock_hashes\x92\x0B\xC4\x02ab\xB1parent_block_hash\xC0\
    \xA9token_ids\x94\x01\xCD\x01\0\xCE\0\x01\0\0\x04\xAAblock_size\x02\xA7lora_id\x03\xA9lora_name\xA3sql\
    \xAAextra_keys\x92\x93\xA3sql\x92\xA3cat\x01\xA4salt\xC0\xA6medium\xA3CPU\
    \x93\xACBlockRemoved\x92\x0B\xC4\x02ab\xA3cpu\x00";

#[test]
fn a_batch_is_applied() {
    let (sink, mut ingest) = (index(), Ingest::default());
    let report = ingest.apply(BATCH, &sink).expect("a batch");
    assert_eq!(
        (report.stored, report.removed, report.rejected),
        (2, 2, 0),
        "{report:?}"
    );
    assert_eq!(sink.0.size(), 0);
}

#[test]
fn a_batch_that_is_cut_off_changes_nothing() {
    for length in 0..BATCH.len() {
        let (sink, mut ingest) = (index(), Ingest::default());
        assert!(ingest.apply(&BATCH[..length], &sink).is_err());
        assert_eq!(sink.0.size(), 0);
    }
}

/// The obvious way over a value.
fn walk(cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
    let mut open = 1_u64;
    while open > 0 {
        open -= 1;
        match cursor.read()? {
            Value::Array(members) => open += u64::from(members),
            Value::Map(pairs) => open += 2 * u64::from(pairs),
            _ => {}
        }
    }
    Ok(())
}

fn apply_soundly(payload: &[u8]) -> Result<(), TestCaseError> {
    let sink = index();
    let _ = Ingest::default().apply(payload, &sink);
    let verdict = sink.0.check_integrity();
    prop_assert_eq!(verdict, Ok(()));
    Ok(())
}

proptest! {
    #[test]
    fn passing_over_a_value_ends_where_reading_it_does(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let (mut skipped, mut walked) = (Cursor::new(&bytes), Cursor::new(&bytes));
        let ways = (skipped.skip(), walk(&mut walked));
        prop_assert_eq!(ways.0.is_ok(), ways.1.is_ok());
        if ways.0.is_ok() {
            prop_assert_eq!(skipped.remaining(), walked.remaining());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        apply_soundly(&bytes)?;
    }

    #[test]
    fn a_damaged_batch_is_read_or_refused(
        changes in proptest::collection::vec((0..BATCH.len(), any::<u8>()), 1..5)
    ) {
        let mut payload = BATCH.to_vec();
        for (place, byte) in changes {
            payload[place] = byte;
        }
        apply_soundly(&payload)?;
    }
}
