//! Any bytes as a dump: they are refused and nothing changes, or what is restored is sound and gives the same dump again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prefix_index::{BlockHash, EngineHash, PrefixIndex, Store, Tier, WorkerId};

const WORKER: WorkerId = WorkerId(1);

fn index() -> PrefixIndex {
    let index = PrefixIndex::new(100);
    index.add_worker(WORKER, 0);
    let engine_hashes = [1_u64, 2].map(EngineHash::from);
    let store = Store {
        parent: None,
        engine_hashes: &engine_hashes,
        token_ids: &[7, 7],
        block_size: 1,
        root: BlockHash(1),
        keys: &[],
    };
    index.store(WORKER, Tier::Device, &store);
    index
}

fuzz_target!(|bytes: &[u8]| {
    let index = index();
    let expected = PrefixIndex::check_dump(bytes);
    let restored = index.restore(WORKER, bytes);
    assert_eq!(restored, expected);
    assert_eq!(index.check_integrity(), Ok(()));
    match restored {
        Err(_) => assert_eq!(index.blocks(WORKER), 2, "a refusal changes nothing"),
        Ok(blocks) => {
            assert_eq!(index.blocks(WORKER), blocks);
            let again = index.dump(WORKER).expect("the worker is known");
            assert_eq!(index.restore(WORKER, &again), Ok(blocks));
            assert_eq!(index.check_integrity(), Ok(()));
        }
    }
    index.clear(WORKER);
    assert_eq!((index.size(), index.orphans()), (0, 0));
});
