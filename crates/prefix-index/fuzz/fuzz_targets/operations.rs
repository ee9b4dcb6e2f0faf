//! Any operations on the index: it contradicts itself never, and its oracle in nothing.
//!
//! From the first cap on the oracle, which has none, is left out.

#![no_main]

use input::{Operation, Prompt};
use libfuzzer_sys::fuzz_target;
use oracle::{Chain, Oracle, Path};
use prefix_index::{BlockHash, EngineHash, Overlap, PrefixIndex, Store, Tier, WorkerId, hash_blocks};

#[path = "operations/input.rs"]
mod input;
#[path = "../../src/oracle.rs"]
mod oracle;

// What the oracle knows of the index, under the names it has there.
mod engine_hash {
    pub use prefix_index::EngineHash;
}
mod matching {
    pub use prefix_index::Overlap;
}
mod tier {
    pub use prefix_index::{Tier, WorkerId};
    pub type Copies = [u32; Tier::ALL.len()];
}

const ORPHAN_LIMIT: usize = 6;
const WORKERS: u8 = 3;
/// Enough for jumps over many blocks and for holes between them.
const LONGEST_CHAIN: u8 = 40;
const MOST_OPERATIONS: usize = 60;
/// A check goes through all of the index and costs more than hundred operations.
const CHECKED_STEPS: usize = 16;

fn hashes((root, blocks): &Path) -> Vec<BlockHash> {
    let keys: [Option<Vec<u8>>; 0] = [];
    hash_blocks(&blocks.concat(), 1, BlockHash(*root), &keys)
}

fn worker(number: u8) -> WorkerId {
    WorkerId(u32::from(number % WORKERS))
}

fn tier(number: u8) -> Tier {
    Tier::ALL[usize::from(number) % Tier::ALL.len()]
}

fn names(numbers: &[u8]) -> Vec<EngineHash> {
    numbers.iter().map(|number| name(*number)).collect()
}

fn name(number: u8) -> EngineHash {
    EngineHash::from(u64::from(number % LONGEST_CHAIN))
}

fn range(start: u8, blocks: u8) -> std::ops::Range<u8> {
    let start = start % LONGEST_CHAIN;
    start..start.saturating_add(blocks % (LONGEST_CHAIN + 1)).min(LONGEST_CHAIN)
}

fn honest(start: u8, blocks: u8, root: bool) -> Chain {
    let range = range(start, blocks);
    Chain {
        parent: range.start.checked_sub(1).map(name),
        root: u64::from(root),
        blocks: range.map(|depth| (name(depth), vec![0])).collect(),
    }
}

struct Twins {
    index: PrefixIndex,
    /// None once an operation was done that the oracle does not know.
    oracle: Option<Oracle>,
    caps: [[Option<usize>; Tier::ALL.len()]; WORKERS as usize],
}

impl Twins {
    fn new() -> Self {
        let mut twins = Self {
            index: PrefixIndex::new(ORPHAN_LIMIT),
            oracle: Some(Oracle::new(ORPHAN_LIMIT)),
            caps: Default::default(),
        };
        twins.add_worker(WorkerId(0), 50);
        twins.add_worker(WorkerId(1), 5);
        twins
    }

    fn add_worker(&mut self, id: WorkerId, limit: usize) {
        self.index.add_worker(id, limit);
        self.told(|oracle| oracle.add_worker(id, limit));
    }

    fn told(&mut self, operation: impl FnOnce(&mut Oracle)) {
        self.oracle.as_mut().map_or((), operation);
    }

    fn store(&mut self, id: WorkerId, tier: Tier, chain: &Chain) {
        let engine_hashes: Vec<EngineHash> = chain.blocks.iter().map(|(hash, _)| *hash).collect();
        let token_ids: Vec<u32> = chain.blocks.iter().flat_map(|(_, tokens)| tokens.clone()).collect();
        let result = self.index.store(
            id,
            tier,
            &Store {
                parent: chain.parent,
                engine_hashes: &engine_hashes,
                token_ids: &token_ids,
                block_size: 1,
                root: BlockHash(chain.root),
                keys: &[],
            },
        );
        let told = result.stored + result.duplicate + result.orphaned + result.rejected + result.ignored;
        assert_eq!(told, chain.blocks.len(), "{result:?}");
        self.told(|oracle| oracle.store(id, tier, chain));
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::AddWorker { worker: w, limit } => self.add_worker(worker(*w), usize::from(*limit)),
            Operation::Forget { worker: w } => {
                let id = worker(*w);
                assert_eq!(self.index.blocks(id), self.index.forget(id));
                self.caps[id.0 as usize] = Default::default();
                self.told(|oracle| oracle.forget(id));
            }
            Operation::Clear { worker: w } => {
                let id = worker(*w);
                assert_eq!(self.index.blocks(id), self.index.clear(id));
                self.told(|oracle| oracle.clear(id));
            }
            Operation::Extend {
                worker: w,
                tier: t,
                start,
                blocks,
                root,
            } => {
                self.store(worker(*w), tier(*t), &honest(*start, *blocks, *root));
            }
            Operation::Store {
                worker: w,
                tier: t,
                parent,
                root,
                blocks,
            } => {
                let chain = Chain {
                    parent: parent.map(name),
                    root: u64::from(*root),
                    blocks: blocks
                        .iter()
                        .map(|(hash, odd)| (name(*hash), vec![u32::from(*odd)]))
                        .collect(),
                };
                self.store(worker(*w), tier(*t), &chain);
            }
            Operation::StoreKnown {
                worker: w,
                tier: t,
                names: numbers,
            } => {
                let (id, tier, named) = (worker(*w), tier(*t), names(numbers));
                self.index.store_known(id, tier, &named);
                self.told(|oracle| oracle.store_known(id, tier, &named));
            }
            Operation::Remove {
                worker: w,
                tier: t,
                names: numbers,
            } => self.remove(worker(*w), tier(*t), &names(numbers)),
            Operation::RemoveRange {
                worker: w,
                tier: t,
                start,
                blocks,
            } => {
                let named: Vec<EngineHash> = range(*start, *blocks).map(name).collect();
                self.remove(worker(*w), tier(*t), &named);
            }
            other => self.apply_to_predictions(other),
        }
    }

    fn apply_to_predictions(&mut self, operation: &Operation) {
        match operation {
            Operation::Predict {
                worker: w,
                prompt,
                until,
            } => {
                let (id, path) = (worker(*w), prompt.path());
                let until = if *until == u8::MAX {
                    f64::INFINITY
                } else {
                    f64::from(*until)
                };
                self.index.predict(id, &hashes(&path), until);
                self.told(|oracle| oracle.predict(id, &path, until));
            }
            Operation::Truncate {
                worker: w,
                prompt,
                keep,
            } => {
                let (id, path, keep) = (worker(*w), prompt.path(), usize::from(*keep));
                let before = self.index.blocks(id);
                assert_eq!(
                    self.index.truncate(id, &hashes(&path), keep),
                    before - self.index.blocks(id)
                );
                self.told(|oracle| oracle.truncate(id, &path, keep));
            }
            Operation::Expire { now } => {
                self.index.expire(f64::from(*now));
                self.told(|oracle| oracle.expire(f64::from(*now)));
            }
            Operation::DumpAndRestore { worker: w } => {
                let id = worker(*w);
                if let Some(dump) = self.index.dump(id) {
                    assert_eq!(PrefixIndex::check_dump(&dump), self.index.restore(id, &dump));
                    self.told(|oracle| oracle.restore(id));
                }
            }
            Operation::Cap {
                worker: w,
                tier: t,
                blocks,
            } => {
                let id = worker(*w);
                if self.index.workers().contains(&id) {
                    self.oracle = None;
                    self.caps[id.0 as usize][tier(*t) as usize] = blocks.map(usize::from);
                    self.index.set_limits(id, self.caps[id.0 as usize]);
                }
            }
            _ => unreachable!("done by apply"),
        }
    }

    fn remove(&mut self, id: WorkerId, tier: Tier, named: &[EngineHash]) {
        assert!(self.index.remove(id, tier, named) <= named.len());
        self.told(|oracle| oracle.remove(id, tier, named));
    }

    fn check(&self) {
        assert_eq!(self.index.check_integrity(), Ok(()));
        for root in [false, true] {
            for odd_one in [None, Some(3)] {
                self.check_lookups(
                    &Prompt {
                        root,
                        blocks: LONGEST_CHAIN + 3,
                        odd_one,
                    }
                    .path(),
                );
            }
        }
        for number in 0..=WORKERS {
            let id = WorkerId(u32::from(number));
            if let Some(oracle) = &self.oracle {
                assert_eq!(self.index.blocks(id), oracle.blocks(id));
            }
            self.check_caps(id);
        }
        if let Some(oracle) = &self.oracle {
            assert_eq!(
                (self.index.size(), self.index.orphans()),
                (oracle.size(), oracle.orphans())
            );
        }
    }

    fn check_lookups(&self, path: &Path) {
        let hashes = hashes(path);
        let found = self.index.match_prefix(&hashes, 10.0);
        if let Some(oracle) = &self.oracle {
            assert_eq!(found, oracle.match_prefix(path, 10.0));
        }
        // However it jumps: of a shorter prompt a worker holds as much as there is of it, up to where its prefix ends.
        for (id, overlap) in &found {
            let held = overlap.blocks() as usize;
            for asked in [1, held / 2, held, held + 1] {
                let shorter = self.index.match_prefix(&hashes[..asked.min(hashes.len())], 10.0);
                let blocks = shorter
                    .iter()
                    .find(|(other, _)| other == id)
                    .map(|(_, found)| Overlap::blocks(found));
                assert_eq!(
                    blocks.unwrap_or(0) as usize,
                    asked.min(held),
                    "{id:?}, {asked} of {overlap:?}"
                );
            }
        }
    }

    fn check_caps(&self, id: WorkerId) {
        let Some(stats) = self.index.worker_stats(id) else {
            return;
        };
        for (held, cap) in stats.by_tier.iter().zip(self.caps[id.0 as usize]) {
            assert!(cap.is_none_or(|cap| *held <= cap), "{stats:?} beyond {cap:?}");
        }
    }
}

fuzz_target!(|operations: Vec<Operation>| {
    let mut twins = Twins::new();
    for (step, operation) in operations.iter().take(MOST_OPERATIONS).enumerate() {
        twins.apply(operation);
        if step % CHECKED_STEPS == 0 {
            twins.check();
        }
    }
    twins.check();
});
