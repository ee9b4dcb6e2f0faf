//! What keeps the index small: nothing stays after removal, orphans and predictions give way at their limits.

use prefix_index::{BlockHash, EngineHash, PrefixIndex, Store, Tier, WorkerId, hash_blocks, root_hash};

const WORKER: WorkerId = WorkerId(7);
const ROOT_SIZE: u32 = 2;
const BLOCK_SIZE: usize = ROOT_SIZE as usize;
const BLOCKS: usize = 4;

fn index(orphan_limit: usize, prediction_limit: usize) -> PrefixIndex {
    let index = PrefixIndex::new(orphan_limit);
    index.add_worker(WORKER, prediction_limit);
    index
}

/// A prompt of its own for each number.
fn prompt(number: u32) -> Vec<u32> {
    vec![number; BLOCKS * BLOCK_SIZE]
}

fn hashes(number: u32) -> Vec<BlockHash> {
    let keys: [Option<Vec<u8>>; 0] = [];
    hash_blocks(&prompt(number), BLOCK_SIZE, root_hash(ROOT_SIZE, None, None), &keys)
}

fn names(number: u32) -> Vec<EngineHash> {
    (0..BLOCKS as u64)
        .map(|block| EngineHash::from(u64::from(number) << 8 | block))
        .collect()
}

fn store(index: &PrefixIndex, number: u32, parent: Option<EngineHash>) {
    let store = Store {
        parent,
        engine_hashes: &names(number),
        token_ids: &prompt(number),
        block_size: BLOCK_SIZE,
        root: root_hash(ROOT_SIZE, None, None),
        keys: &[],
    };
    index.store(WORKER, Tier::Device, &store);
}

fn matched(index: &PrefixIndex, number: u32) -> u32 {
    index
        .match_prefix(&hashes(number), 0.0)
        .iter()
        .map(|(_, overlap)| overlap.blocks())
        .sum()
}

#[test]
fn nothing_is_left_of_a_hundred_thousand_chains_after_their_removal() {
    let index = index(10, 0);
    for number in 0..100_000 {
        store(&index, number, None);
        if number >= 10 {
            assert_eq!(index.remove(WORKER, Tier::Device, &names(number - 10)), BLOCKS);
        }
        assert!(index.size() <= 11 * BLOCKS);
    }
    for number in 99_990..100_000 {
        index.remove(WORKER, Tier::Device, &names(number));
    }
    assert_eq!(
        (
            index.size(),
            index.blocks(WORKER),
            index.engine_hashes(),
            index.orphans()
        ),
        (0, 0, 0, 0)
    );
    assert_eq!(index.check_integrity(), Ok(()));
}

#[test]
fn orphans_are_dropped_oldest_first_and_counted() {
    let index = index(3 * BLOCKS, 0);
    for number in 1..=5 {
        store(&index, number, Some(EngineHash::from(0_u64)));
    }
    assert_eq!(index.orphans(), 3 * BLOCKS);
    assert_eq!(index.stats().orphans_dropped, 2 * BLOCKS);
    assert_eq!(index.size(), 0);
    store(&index, 0, None);
    assert_eq!((index.orphans(), index.stats().linked), (0, 3 * BLOCKS));
    assert_eq!(index.blocks(WORKER), 4 * BLOCKS);
}

#[test]
fn an_index_that_may_keep_no_orphans_keeps_none() {
    let index = index(0, 0);
    store(&index, 1, Some(EngineHash::from(9_u64)));
    assert_eq!((index.orphans(), index.stats().orphans_dropped), (0, BLOCKS));
}

#[test]
fn the_tail_of_the_least_recently_predicted_prompt_goes_first() {
    let index = index(0, 2 * BLOCKS);
    index.predict(WORKER, &hashes(1), f64::INFINITY);
    index.predict(WORKER, &hashes(2), f64::INFINITY);
    index.predict(WORKER, &hashes(1), f64::INFINITY);
    index.predict(WORKER, &hashes(3)[..1], f64::INFINITY);
    assert_eq!([1, 2, 3].map(|number| matched(&index, number)), [4, 3, 1]);
    index.predict(WORKER, &hashes(3), f64::INFINITY);
    assert_eq!([1, 2, 3].map(|number| matched(&index, number)), [4, 0, 4]);
    assert_eq!(index.stats().predictions_evicted, BLOCKS);
}

#[test]
fn a_prompt_longer_than_the_limit_keeps_its_head() {
    let index = index(0, 3);
    index.predict(WORKER, &hashes(1), f64::INFINITY);
    assert_eq!((matched(&index, 1), index.blocks(WORKER)), (3, 3));
}

#[test]
fn a_lower_limit_counts_at_once() {
    let index = index(0, 10);
    index.predict(WORKER, &hashes(1), f64::INFINITY);
    index.add_worker(WORKER, 1);
    assert_eq!((matched(&index, 1), index.predictions()), (1, 1));
    assert_eq!(index.check_integrity(), Ok(()));
}

/// Renewals and evictions leave stale entries behind; a hundred thousand of each must neither show nor slow down.
#[test]
fn predictions_stay_exact_however_often_they_are_renewed() {
    let index = index(0, 3 * BLOCKS);
    for round in 0..100_000_u32 {
        index.predict(WORKER, &hashes(round % 5), f64::from(round) + 2.0);
        assert!(index.predictions() <= 3 * BLOCKS);
        if round % 1_000 == 0 {
            assert_eq!(index.check_integrity(), Ok(()));
        }
    }
    assert_eq!(index.expire(99_999.0), BLOCKS);
    assert_eq!(index.expire(100_001.0), 2 * BLOCKS);
    assert_eq!((index.size(), index.expire(f64::MAX)), (0, 0));
}

#[test]
fn a_thousand_workers_share_a_block_and_leave_it_one_by_one() {
    let index = PrefixIndex::new(0);
    for worker in (0..1_000).map(WorkerId) {
        index.add_worker(worker, BLOCKS);
        index.predict(worker, &hashes(1), f64::INFINITY);
    }
    assert_eq!(index.match_prefix(&hashes(1), 0.0).len(), 1_000);
    for worker in (0..1_000).step_by(3).map(WorkerId) {
        assert_eq!(index.forget(worker), BLOCKS);
    }
    assert_eq!(index.match_prefix(&hashes(1), 0.0).len(), 666);
    assert_eq!(index.check_integrity(), Ok(()));
}

fn matched_tokens_of(index: &PrefixIndex, number: u32) -> [u32; 4] {
    index
        .match_prefix(&hashes(number), 0.0)
        .first()
        .map_or([0; 4], |(_, overlap)| overlap.tiers)
}

#[test]
fn a_tier_above_its_limit_gives_up_its_oldest_tails_and_keeps_what_prompts_share() {
    let index = index(0, 0);
    index.set_limits(WORKER, [Some(100 * BLOCKS), None, None, None]);
    for number in 0..10_000 {
        store(&index, number, None);
        // A further block of prompt 0 each time, so that its head never stands last.
        let follower = Store {
            parent: Some(names(0)[BLOCKS - 1]),
            engine_hashes: &[EngineHash::from(1_u64 << 40 | u64::from(number))],
            token_ids: &[number; BLOCK_SIZE],
            block_size: BLOCK_SIZE,
            root: root_hash(ROOT_SIZE, None, None),
            keys: &[],
        };
        index.store(WORKER, Tier::Device, &follower);
        assert!(index.size() <= 100 * BLOCKS, "{number}: {}", index.size());
    }
    assert_eq!(matched(&index, 0), 4);
    assert_eq!(matched(&index, 9_999), 4);
    assert_eq!(index.worker_stats(WORKER).map(|stats| stats.holes), Some(0));
    assert_eq!(index.stats().capped, 50_000 - 100 * BLOCKS);
    assert_eq!(index.check_integrity(), Ok(()));
}

#[test]
fn a_lower_tier_limit_counts_at_once_and_each_tier_has_its_own() {
    let index = index(0, 0);
    for number in 0..100 {
        store(&index, number, None);
        index.store_known(WORKER, Tier::Host, &names(number));
    }
    index.set_limits(WORKER, [None, Some(10 * BLOCKS), None, None]);
    let stats = index.worker_stats(WORKER).unwrap();
    assert_eq!(stats.by_tier, [100 * BLOCKS, 10 * BLOCKS, 0, 0]);
    index.set_limits(WORKER, [Some(20 * BLOCKS), None, None, None]);
    assert_eq!(index.worker_stats(WORKER).unwrap().by_tier[0], 20 * BLOCKS);
    // What entered before the tier had a limit goes in any order, but tails first.
    assert_eq!(index.worker_stats(WORKER).unwrap().holes, 0);
    let held: u32 = (0..100)
        .map(|number| matched_tokens_of(&index, number).iter().sum::<u32>())
        .sum();
    assert_eq!(held as usize, index.blocks(WORKER));
    assert_eq!(index.check_integrity(), Ok(()));
}

#[test]
fn an_engine_may_give_a_block_many_names_but_not_without_bound() {
    let index = index(0, 0);
    let one = |name: u64| Store {
        parent: None,
        engine_hashes: std::slice::from_ref(Box::leak(Box::new(EngineHash::from(name)))),
        token_ids: &[7; BLOCK_SIZE],
        block_size: BLOCK_SIZE,
        root: root_hash(ROOT_SIZE, None, None),
        keys: &[],
    };
    let rejected: usize = (0..300)
        .map(|name| index.store(WORKER, Tier::Device, &one(name)).rejected)
        .sum();
    assert_eq!((rejected, index.size(), index.engine_hashes()), (45, 1, 255));
    assert_eq!(index.check_integrity(), Ok(()));
    for name in 0..300_u64 {
        index.remove(WORKER, Tier::Device, &[EngineHash::from(name)]);
    }
    assert_eq!((index.size(), index.engine_hashes()), (0, 0));
}
