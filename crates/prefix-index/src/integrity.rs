//! A check that both directions of the index agree, for tests after every step and for a live router when idle.

use std::collections::BTreeMap;

use crate::hash::BlockHash;
use crate::holders::{Holder, Holding};
use crate::index::PrefixIndex;
use crate::tier::{Copies, Tier, WorkerId};
use crate::worker_blocks::WorkerBlocks;

impl PrefixIndex {
    /// Compares what the blocks' holders say with what the workers' maps say, and each worker's parts among themselves.
    ///
    /// # Errors
    /// The first disagreement, in words.
    pub fn check_integrity(&self) -> Result<(), String> {
        let mut expected = BTreeMap::new();
        for (&worker, known) in &self.workers {
            let held = holdings(known).map_err(|fault| format!("{worker:?}: {fault}"))?;
            expected.extend(held.into_iter().map(|(block, holding)| ((block, worker), holding)));
        }
        for (block, holders) in self.holders.iter() {
            if holders.is_empty() || !holders.is_sorted_by(|left, right| left.worker < right.worker) {
                return Err(format!("holders of {block:?} are empty or out of order: {holders:?}"));
            }
            holders
                .iter()
                .try_for_each(|holder| check_holder(&mut expected, block, holder))?;
        }
        match expected.first_key_value() {
            Some(missing) => Err(format!("not among the holders: {missing:?}")),
            None => Ok(()),
        }
    }
}

fn check_holder(
    expected: &mut BTreeMap<(BlockHash, WorkerId), Holding>,
    block: BlockHash,
    holder: &Holder,
) -> Result<(), String> {
    match expected.remove(&(block, holder.worker)) {
        Some(holding) if holding == holder.holding => Ok(()),
        other => Err(format!("{block:?} has {holder:?}, the worker's map says {other:?}")),
    }
}

/// A worker's blocks as its own maps tell them.
fn holdings(known: &WorkerBlocks) -> Result<BTreeMap<BlockHash, Holding>, String> {
    let mut confirmed: BTreeMap<BlockHash, Copies> = BTreeMap::new();
    for announced in known.announced.values() {
        if announced.copies == Copies::default() {
            return Err(format!("no copies left of {announced:?}"));
        }
        let copies = confirmed.entry(announced.block).or_default();
        for tier in Tier::ALL {
            copies[tier as usize] += announced.copies[tier as usize];
        }
    }
    if confirmed.len() != known.confirmed {
        return Err(format!(
            "{} confirmed blocks counted, {} found",
            known.confirmed,
            confirmed.len()
        ));
    }
    known.orphans.check(|hash| known.announced.contains_key(&hash))?;
    known.predictions.check()?;
    let mut held: BTreeMap<_, _> = confirmed
        .into_iter()
        .map(|(block, copies)| (block, Holding::Confirmed(copies)))
        .collect();
    for block in known.predictions.blocks() {
        let until = known.predictions.until(block).unwrap_or(f64::NAN);
        if held.insert(block, Holding::Predicted(until)).is_some() {
            return Err(format!("{block:?} is both confirmed and predicted"));
        }
    }
    Ok(held)
}
