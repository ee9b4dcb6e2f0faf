//! The index again, obvious and slow: lists that are searched from end to end, and prefixes spelled out as tokens
//! instead of hashes. What the real index answers must be what this one answers.

use crate::engine_hash::EngineHash;
use crate::matching::Overlap;
use crate::tier::{Copies, Tier, WorkerId};

/// A prefix in full: where it starts, then the tokens of each block.
pub type Path = (u64, Vec<Vec<u32>>);

/// One copy that waits: its own hash, its parent's, its tokens.
type Waiting = (EngineHash, EngineHash, Vec<u32>, Tier);

#[derive(Default)]
struct Worker {
    prediction_limit: usize,
    announced: Vec<(EngineHash, Path, Copies)>,
    /// Oldest first.
    orphans: Vec<Waiting>,
    /// Oldest first.
    predictions: Vec<(Path, f64)>,
}

pub struct Oracle {
    orphan_limit: usize,
    workers: Vec<(WorkerId, Worker)>,
}

/// A chain as the tests write it.
#[derive(Clone, Debug)]
pub struct Chain {
    pub parent: Option<EngineHash>,
    pub root: u64,
    pub blocks: Vec<(EngineHash, Vec<u32>)>,
}

impl Oracle {
    pub fn new(orphan_limit: usize) -> Self {
        Self {
            orphan_limit,
            workers: Vec::new(),
        }
    }

    pub fn add_worker(&mut self, id: WorkerId, prediction_limit: usize) {
        if self.worker(id).is_none() {
            self.workers.push((id, Worker::default()));
        }
        if let Some(worker) = self.worker(id) {
            worker.prediction_limit = prediction_limit;
            worker.evict();
        }
    }

    pub fn forget(&mut self, id: WorkerId) {
        self.workers.retain(|(worker, _)| *worker != id);
    }

    pub fn clear(&mut self, id: WorkerId) {
        if let Some(worker) = self.worker(id) {
            *worker = Worker {
                prediction_limit: worker.prediction_limit,
                ..Worker::default()
            };
        }
    }

    pub fn store(&mut self, id: WorkerId, tier: Tier, chain: &Chain) {
        let orphan_limit = self.orphan_limit;
        if let Some(worker) = self.worker(id).filter(|_| chain.is_acyclic()) {
            worker.store(tier, chain, orphan_limit);
        }
    }

    pub fn store_known(&mut self, id: WorkerId, tier: Tier, hashes: &[EngineHash]) {
        let Some(worker) = self.worker(id) else {
            return;
        };
        for hash in hashes {
            if let Some(path) = worker.path(*hash) {
                worker.put(*hash, &path, tier);
            }
        }
    }

    pub fn remove(&mut self, id: WorkerId, tier: Tier, hashes: &[EngineHash]) {
        let Some(worker) = self.worker(id) else {
            return;
        };
        for hash in hashes {
            worker.remove(tier, *hash);
        }
    }

    pub fn predict(&mut self, id: WorkerId, path: &Path, until: f64) {
        let Some(worker) = self.worker(id) else {
            return;
        };
        for prefix in prefixes(path).into_iter().rev() {
            if worker.copies(&prefix) == Copies::default() {
                worker.predictions.retain(|(known, _)| *known != prefix);
                worker.predictions.push((prefix, until));
            }
        }
        worker.evict();
    }

    pub fn truncate(&mut self, id: WorkerId, path: &Path, keep: usize) {
        let ended: Vec<Path> = prefixes(path).into_iter().skip(keep).collect();
        if let Some(worker) = self.worker(id) {
            worker.predictions.retain(|(known, _)| !ended.contains(known));
        }
    }

    /// A dump that is restored: all but the predictions.
    pub fn restore(&mut self, id: WorkerId) {
        if let Some(worker) = self.worker(id) {
            worker.predictions.clear();
        }
    }

    pub fn expire(&mut self, now: f64) {
        for (_, worker) in &mut self.workers {
            worker.predictions.retain(|(_, until)| *until > now);
        }
    }

    pub fn match_prefix(&self, path: &Path, now: f64) -> Vec<(WorkerId, Overlap)> {
        let overlaps = self.workers.iter().map(|(id, worker)| (*id, worker.overlap(path, now)));
        let mut found: Vec<_> = overlaps.filter(|(_, overlap)| overlap.blocks() > 0).collect();
        found.sort_by_key(|(id, _)| *id);
        found
    }

    pub fn blocks(&self, id: WorkerId) -> usize {
        let worker = self.workers.iter().find(|(worker, _)| *worker == id);
        worker.map_or(0, |(_, worker)| worker.paths().len())
    }

    pub fn size(&self) -> usize {
        let mut all: Vec<Path> = self.workers.iter().flat_map(|(_, worker)| worker.paths()).collect();
        all.sort();
        all.dedup();
        all.len()
    }

    pub fn orphans(&self) -> usize {
        self.workers.iter().map(|(_, worker)| worker.orphans.len()).sum()
    }

    fn worker(&mut self, id: WorkerId) -> Option<&mut Worker> {
        let found = self.workers.iter_mut().find(|(worker, _)| *worker == id);
        found.map(|(_, worker)| worker)
    }
}

impl Worker {
    fn store(&mut self, tier: Tier, chain: &Chain, orphan_limit: usize) {
        let mut parent = chain.parent;
        let mut newly_known = Vec::new();
        for (hash, tokens) in &chain.blocks {
            let above = parent.map_or(Some((chain.root, Vec::new())), |parent| self.path(parent));
            match (above, parent) {
                (None, Some(parent)) => {
                    self.orphans.push((*hash, parent, tokens.clone(), tier));
                    let surplus = self.orphans.len().saturating_sub(orphan_limit);
                    self.orphans.drain(..surplus);
                }
                (above, _) => {
                    if self.path(*hash).is_none() {
                        newly_known.push(*hash);
                    }
                    self.put(*hash, &extended(above.unwrap(), tokens), tier);
                }
            }
            parent = Some(*hash);
        }
        self.link(newly_known);
    }

    fn link(&mut self, mut newly_known: Vec<EngineHash>) {
        while !newly_known.is_empty() {
            let parent = newly_known.remove(0);
            let all = std::mem::take(&mut self.orphans);
            let (waiting, others) = all.into_iter().partition(|orphan: &Waiting| orphan.1 == parent);
            self.orphans = others;
            for (hash, _, tokens, tier) in waiting {
                let path = extended(self.path(parent).unwrap(), &tokens);
                match self.path(hash) {
                    Some(known) if known != path => continue,
                    None => newly_known.push(hash),
                    _ => {}
                }
                self.put(hash, &path, tier);
            }
        }
    }

    fn put(&mut self, hash: EngineHash, path: &Path, tier: Tier) {
        self.predictions.retain(|(predicted, _)| predicted != path);
        if self.path(hash).is_none() {
            self.announced.push((hash, path.clone(), Copies::default()));
        }
        for (known, stands_for, copies) in &mut self.announced {
            if *known == hash {
                stands_for.clone_from(path);
                copies[tier as usize] += 1;
            }
        }
    }

    fn remove(&mut self, tier: Tier, hash: EngineHash) {
        for (known, _, copies) in &mut self.announced {
            if *known == hash && copies[tier as usize] > 0 {
                copies[tier as usize] -= 1;
                self.announced.retain(|(_, _, copies)| *copies != Copies::default());
                return;
            }
        }
        let waiting = self
            .orphans
            .iter()
            .position(|orphan| orphan.0 == hash && orphan.3 == tier);
        if let Some(oldest) = waiting {
            self.orphans.remove(oldest);
        }
    }

    fn evict(&mut self) {
        let surplus = self.predictions.len().saturating_sub(self.prediction_limit);
        self.predictions.drain(..surplus);
    }

    fn path(&self, hash: EngineHash) -> Option<Path> {
        let found = self.announced.iter().find(|(known, _, _)| *known == hash);
        found.map(|(_, path, _)| path.clone())
    }

    fn copies(&self, path: &Path) -> Copies {
        let mut sum = Copies::default();
        for (_, _, copies) in self.announced.iter().filter(|(_, known, _)| known == path) {
            for tier in Tier::ALL {
                sum[tier as usize] += copies[tier as usize];
            }
        }
        sum
    }

    fn paths(&self) -> Vec<Path> {
        let predicted = self.predictions.iter().map(|(path, _)| path.clone());
        let mut all: Vec<Path> = self
            .announced
            .iter()
            .map(|(_, path, _)| path.clone())
            .chain(predicted)
            .collect();
        all.sort();
        all.dedup();
        all
    }

    fn overlap(&self, path: &Path, now: f64) -> Overlap {
        let mut overlap = Overlap::default();
        for prefix in prefixes(path) {
            let copies = self.copies(&prefix);
            let nearest = Tier::ALL.into_iter().find(|tier| copies[*tier as usize] > 0);
            let predicted = self
                .predictions
                .iter()
                .any(|(known, until)| *known == prefix && *until > now);
            match nearest {
                Some(tier) => overlap.tiers[tier as usize] += 1,
                None if predicted => overlap.predicted += 1,
                None => break,
            }
        }
        overlap
    }
}

impl Chain {
    fn is_acyclic(&self) -> bool {
        let mut names: Vec<EngineHash> = self.blocks.iter().map(|(hash, _)| *hash).collect();
        names.extend(self.parent);
        let all = names.len();
        names.sort();
        names.dedup();
        names.len() == all
    }
}

fn extended((root, blocks): Path, tokens: &[u32]) -> Path {
    (root, [blocks, vec![tokens.to_vec()]].concat())
}

fn prefixes((root, blocks): &Path) -> Vec<Path> {
    (1..=blocks.len()).map(|end| (*root, blocks[..end].to_vec())).collect()
}
