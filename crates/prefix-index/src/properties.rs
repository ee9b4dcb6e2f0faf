//! The index against its oracle: any sequence of operations, compared and checked after each.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::oracle::{Chain, Oracle, Path};
use crate::{BlockHash, EngineHash, PrefixIndex, Store, StoreResult, Tier, WorkerId, hash_blocks};

const BLOCK_SIZE: usize = 2;
const ORPHAN_LIMIT: usize = 6;

/// Few workers, hashes and contents, so that they meet often.
#[derive(Clone, Debug)]
enum Operation {
    AddWorker(WorkerId, usize),
    Forget(WorkerId),
    Clear(WorkerId),
    Store(WorkerId, Tier, Chain),
    StoreKnown(WorkerId, Tier, Vec<EngineHash>),
    Remove(WorkerId, Tier, Vec<EngineHash>),
    Predict(WorkerId, Path, f64),
    Truncate(WorkerId, Path, usize),
    DumpAndRestore(WorkerId),
    Expire(f64),
}

fn worker() -> impl Strategy<Value = WorkerId> {
    (0..3_u32).prop_map(WorkerId)
}

fn tier() -> impl Strategy<Value = Tier> {
    prop_oneof![4 => Just(Tier::Device), 1 => Just(Tier::Host), 1 => Just(Tier::Remote)]
}

fn engine_hash() -> impl Strategy<Value = EngineHash> {
    (0..9_u64).prop_map(|name| match name {
        8 => EngineHash::from_bytes(b"name"),
        _ => EngineHash::from(name),
    })
}

fn tokens() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![5 => Just(vec![0, 0]), 1 => Just(vec![0, 1])]
}

fn path() -> impl Strategy<Value = Path> {
    (0..2_u64, vec(tokens(), 0..7))
}

/// Mostly a chain that an honest engine could send (names follow from depth), else anything.
fn chain() -> impl Strategy<Value = Chain> {
    let honest = (0..5_u64, 1..5_u64, 0..2_u64).prop_map(|(start, len, root)| Chain {
        parent: (start > 0).then(|| EngineHash::from(start - 1)),
        root,
        blocks: (start..start + len)
            .map(|name| (EngineHash::from(name), vec![0, 0]))
            .collect(),
    });
    let any = (
        option::of(engine_hash()),
        0..2_u64,
        vec((engine_hash(), tokens()), 0..5),
    )
        .prop_map(|(parent, root, blocks)| Chain { parent, root, blocks });
    prop_oneof![2 => honest, 1 => any]
}

fn time() -> impl Strategy<Value = f64> {
    prop_oneof![5 => (0..20_u8).prop_map(f64::from), 1 => Just(f64::INFINITY)]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        1 => (worker(), 0..8_usize).prop_map(|(id, limit)| Operation::AddWorker(id, limit)),
        1 => worker().prop_map(Operation::Forget),
        1 => worker().prop_map(Operation::Clear),
        8 => (worker(), tier(), chain()).prop_map(|(id, tier, chain)| Operation::Store(id, tier, chain)),
        1 => (worker(), tier(), vec(engine_hash(), 0..4))
            .prop_map(|(id, tier, hashes)| Operation::StoreKnown(id, tier, hashes)),
        6 => (worker(), tier(), vec(engine_hash(), 0..4))
            .prop_map(|(id, tier, hashes)| Operation::Remove(id, tier, hashes)),
        4 => (worker(), path(), time()).prop_map(|(id, path, until)| Operation::Predict(id, path, until)),
        1 => (worker(), path(), 0..4_usize).prop_map(|(id, path, keep)| Operation::Truncate(id, path, keep)),
        1 => worker().prop_map(Operation::DumpAndRestore),
        2 => (0..20_u8).prop_map(|now| Operation::Expire(f64::from(now))),
    ]
}

fn hashes((root, blocks): &Path) -> Vec<BlockHash> {
    let keys: [Option<Vec<u8>>; 0] = [];
    hash_blocks(&blocks.concat(), BLOCK_SIZE, BlockHash(*root), &keys)
}

fn store(index: &PrefixIndex, worker: WorkerId, tier: Tier, chain: &Chain) -> StoreResult {
    let engine_hashes: Vec<EngineHash> = chain.blocks.iter().map(|(hash, _)| *hash).collect();
    let token_ids: Vec<u32> = chain.blocks.iter().flat_map(|(_, tokens)| tokens.clone()).collect();
    let store = Store {
        parent: chain.parent,
        engine_hashes: &engine_hashes,
        token_ids: &token_ids,
        block_size: BLOCK_SIZE,
        root: BlockHash(chain.root),
        keys: &[],
    };
    index.store(worker, tier, &store)
}

fn apply(index: &PrefixIndex, oracle: &mut Oracle, operation: &Operation) {
    match operation {
        Operation::AddWorker(id, limit) => {
            index.add_worker(*id, *limit);
            oracle.add_worker(*id, *limit);
        }
        Operation::Forget(id) => {
            assert_eq!(index.forget(*id), oracle.blocks(*id));
            oracle.forget(*id);
        }
        Operation::Clear(id) => {
            assert_eq!(index.clear(*id), oracle.blocks(*id));
            oracle.clear(*id);
        }
        Operation::Store(id, tier, chain) => {
            let result = store(index, *id, *tier, chain);
            let told = result.stored + result.duplicate + result.orphaned;
            assert_eq!(
                told + result.rejected + result.ignored,
                chain.blocks.len(),
                "{result:?}"
            );
            oracle.store(*id, *tier, chain);
        }
        Operation::StoreKnown(id, tier, hashes) => {
            index.store_known(*id, *tier, hashes);
            oracle.store_known(*id, *tier, hashes);
        }
        Operation::Remove(id, tier, hashes) => {
            index.remove(*id, *tier, hashes);
            oracle.remove(*id, *tier, hashes);
        }
        Operation::Predict(id, path, until) => {
            index.predict(*id, &hashes(path), *until);
            oracle.predict(*id, path, *until);
        }
        Operation::Truncate(id, path, keep) => {
            index.truncate(*id, &hashes(path), *keep);
            oracle.truncate(*id, path, *keep);
        }
        Operation::DumpAndRestore(id) => {
            if let Some(dump) = index.dump(*id) {
                assert_eq!(PrefixIndex::check_dump(&dump), index.restore(*id, &dump));
                assert_eq!(index.dump(*id).map(|again| again.len()), Some(dump.len()));
            }
            oracle.restore(*id);
        }
        Operation::Expire(now) => {
            index.expire(*now);
            oracle.expire(*now);
        }
    }
}

fn compare(index: &PrefixIndex, oracle: &Oracle, queries: &[Path]) {
    for path in queries {
        for now in [0.0, 10.0] {
            assert_eq!(
                index.match_prefix(&hashes(path), now),
                oracle.match_prefix(path, now),
                "{path:?} at {now}"
            );
        }
    }
    for id in [0, 1, 2, 3].map(WorkerId) {
        assert_eq!(index.blocks(id), oracle.blocks(id), "{id:?}");
    }
    assert_eq!(index.size(), oracle.size());
    assert_eq!(index.orphans(), oracle.orphans());
    assert_eq!(index.check_integrity(), Ok(()));
}

/// `PROPTEST_CASES` asks for more, as fuzzing does.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES");
    let cases = asked.map_or(Ok(384), |cases| cases.parse()).unwrap();
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_index_answers_like_its_oracle(operations in vec(operation(), 0..60), extra in vec(path(), 3)) {
        let index = PrefixIndex::new(ORPHAN_LIMIT);
        let mut oracle = Oracle::new(ORPHAN_LIMIT);
        let mut queries = extra;
        queries.extend((0..2).map(|root| (root, vec![vec![0, 0]; 9])));
        for id in [0, 1].map(WorkerId) {
            index.add_worker(id, 5);
            oracle.add_worker(id, 5);
        }
        for operation in &operations {
            apply(&index, &mut oracle, operation);
            compare(&index, &oracle, &queries);
        }
    }
}
