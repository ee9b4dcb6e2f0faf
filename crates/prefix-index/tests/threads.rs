//! Lanes are written by a thread each while others look up, predict, clear and dump: nothing deadlocks, and all sides
//! agree in the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use prefix_index::{BlockHash, EngineHash, PrefixIndex, Store, Tier, WorkerId, hash_blocks, root_hash};

const BLOCK_SIZE: usize = 4;
const BLOCKS: usize = 32;
const ROUNDS: u32 = 3_000;
const WRITERS: u32 = 4;

/// Prompts of which all workers hold the same ones, so that they meet in every block.
fn tokens(prompt: u32) -> Vec<u32> {
    (0..BLOCKS * BLOCK_SIZE)
        .map(|place| if place < 64 { 7 } else { prompt })
        .collect()
}

fn hashes(prompt: u32) -> Vec<BlockHash> {
    let keys: [Option<Vec<u8>>; 0] = [];
    hash_blocks(&tokens(prompt), BLOCK_SIZE, root_hash(4, None, None), &keys)
}

fn names(prompt: u32) -> Vec<EngineHash> {
    hashes(prompt).into_iter().map(|hash| EngineHash(hash.0)).collect()
}

fn store(index: &PrefixIndex, worker: WorkerId, prompt: u32) {
    let store = Store {
        parent: None,
        engine_hashes: &names(prompt),
        token_ids: &tokens(prompt),
        block_size: BLOCK_SIZE,
        root: root_hash(4, None, None),
        keys: &[],
    };
    let result = index.store(worker, Tier::Device, &store);
    assert_eq!(result.stored + result.duplicate, BLOCKS);
}

/// An engine with room for some prompts, which sometimes starts anew.
fn write(index: &PrefixIndex, worker: WorkerId) {
    for round in 0..ROUNDS {
        store(index, worker, round % 97);
        if round >= 20 {
            index.remove(worker, Tier::Device, &names((round - 20) % 97));
        }
        if round % 501 == 500 {
            index.clear(worker);
        }
        if round % 300 == 0 {
            let dump = index.dump(worker).unwrap_or_default();
            assert!(index.restore(worker, &dump).is_ok());
        }
    }
}

fn look_up(index: &PrefixIndex, done: &AtomicBool) -> usize {
    let mut found = 0;
    let mut prompt = 0;
    while !done.load(Ordering::Relaxed) {
        prompt = (prompt + 1) % 97;
        let hashes = hashes(prompt);
        for (worker, overlap) in index.match_prefix(&hashes, 0.0) {
            assert!(worker.0 <= WRITERS && overlap.blocks() as usize <= BLOCKS);
            found += 1;
        }
        index.predict(WorkerId(prompt % WRITERS), &hashes, 1.0);
        if prompt == 0 {
            index.expire(2.0);
        }
    }
    found
}

#[test]
fn lanes_are_written_side_by_side_while_prompts_are_looked_up() {
    let index = PrefixIndex::new(1_000);
    for worker in (0..WRITERS).map(WorkerId) {
        index.add_worker(worker, 1_000);
    }
    let done = AtomicBool::new(false);
    let found = thread::scope(|scope| {
        let reader = scope.spawn(|| look_up(&index, &done));
        let writers: Vec<_> = (0..WRITERS)
            .map(|worker| {
                scope.spawn({
                    let index = &index;
                    move || write(index, WorkerId(worker))
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(found > 0);
    assert_eq!(index.check_integrity(), Ok(()));
    for worker in (0..WRITERS).map(WorkerId) {
        index.forget(worker);
    }
    assert_eq!((index.size(), index.holdings()), (0, 0));
}

#[test]
fn a_lane_that_is_cleared_by_others_while_it_is_written_leaves_nothing_behind() {
    let index = PrefixIndex::new(0);
    index.add_worker(WorkerId(0), 100);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..ROUNDS {
                store(&index, WorkerId(0), round % 7);
            }
        });
        while !writer.is_finished() {
            index.clear(WorkerId(0));
            index.predict(WorkerId(0), &hashes(3), 1.0);
        }
        writer.join().unwrap();
    });
    assert_eq!(index.check_integrity(), Ok(()));
    index.clear(WorkerId(0));
    assert_eq!((index.size(), index.engine_hashes()), (0, 0));
}
