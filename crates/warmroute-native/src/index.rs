//! Block hashes and the prefix index, as Python sees them.
//!
//! The lock is only ever held in Rust code that does not need the interpreter, so waiting for it cannot deadlock,
//! whether or not the interpreter is released meanwhile.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use prefix_index::{BlockHash, Overlap, Store, WorkerId};
use pyo3::exceptions::{PyAssertionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use block_hashes::BlockHashes;
use conversion::{finite, to_block_size, to_bytes, to_engine_hash, to_engine_hashes, to_tier, to_token_ids};

mod block_hashes;
mod conversion;

/// Calls over more blocks than this let other Python threads run. Shorter ones do not: a match of 1,000 blocks on 8
/// workers takes 55 us, a store 0.5 us a block (`bench/prefix_index_bench.py`, 2 cores), while getting the interpreter
/// back from a busy thread can take its whole switch interval, 5 ms.
const LONG: usize = 2_048;

/// Measurements must say which build they are of: one without optimisation is ten times slower.
const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__build__", BUILD)?;
    module.add_class::<BlockHashes>()?;
    module.add_class::<StoreResult>()?;
    module.add_class::<PrefixIndex>()?;
    module.add_function(wrap_pyfunction!(root_hash, module)?)?;
    module.add_function(wrap_pyfunction!(hash_blocks, module)?)
}

/// The one place where the interpreter is released.
fn detached_if_long<R: Send>(py: Python<'_>, blocks: usize, work: impl FnOnce() -> R + Send) -> R {
    if blocks > LONG { py.detach(work) } else { work() }
}

#[pyfunction]
fn root_hash(
    block_size: i64,
    adapter: Option<&Bound<'_, PyString>>,
    salt: Option<&Bound<'_, PyString>>,
) -> PyResult<u64> {
    let block_size = u32::try_from(to_block_size(block_size)?)
        .map_err(|_| PyValueError::new_err("block_size must be below 2**32"))?;
    let adapter = adapter.map(to_bytes).transpose()?;
    let salt = salt.map(to_bytes).transpose()?;
    Ok(prefix_index::root_hash(block_size, adapter.as_deref(), salt.as_deref()).0)
}

#[pyfunction]
#[pyo3(signature = (token_ids, block_size, root, block_keys=None))]
fn hash_blocks(
    py: Python<'_>,
    token_ids: &Bound<'_, PyAny>,
    block_size: i64,
    root: u64,
    block_keys: Option<Vec<Option<Vec<u8>>>>,
) -> PyResult<BlockHashes> {
    let block_size = to_block_size(block_size)?;
    let tokens = to_token_ids(token_ids)?;
    let blocks = tokens.len() / block_size;
    let keys = block_keys.as_deref();
    if keys.is_some_and(|keys| keys.len() < blocks) {
        return Err(PyValueError::new_err("there are fewer block keys than full blocks"));
    }
    let hashes = detached_if_long(py, blocks, || {
        prefix_index::hash_blocks(&tokens, block_size, BlockHash(root), keys.unwrap_or(&[]))
    });
    Ok(BlockHashes::new(hashes))
}

/// What became of the blocks of one store.
#[pyclass(frozen, get_all, module = "warmroute._native")]
struct StoreResult {
    stored: usize,
    duplicate: usize,
    orphaned: usize,
    rejected: usize,
    ignored: usize,
    linked: usize,
}

#[pymethods]
impl StoreResult {
    fn __repr__(&self) -> String {
        format!(
            "StoreResult(stored={}, duplicate={}, orphaned={}, rejected={}, ignored={}, linked={})",
            self.stored, self.duplicate, self.orphaned, self.rejected, self.ignored, self.linked
        )
    }
}

impl From<prefix_index::StoreResult> for StoreResult {
    fn from(result: prefix_index::StoreResult) -> Self {
        Self {
            stored: result.stored,
            duplicate: result.duplicate,
            orphaned: result.orphaned,
            rejected: result.rejected,
            ignored: result.ignored,
            linked: result.linked,
        }
    }
}

/// Which worker holds which block.
#[pyclass(frozen, module = "warmroute._native")]
struct PrefixIndex {
    index: RwLock<prefix_index::PrefixIndex>,
}

/// (worker, blocks by source: device, host, disk, remote, predicted)
type Match = (u32, (u32, u32, u32, u32, u32));

impl PrefixIndex {
    /// A panic elsewhere must not end routing for good, so a poisoned lock is used on; `check_integrity` tells.
    fn read<R>(&self, work: impl FnOnce(&prefix_index::PrefixIndex) -> R) -> R {
        work(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, work: impl FnOnce(&mut prefix_index::PrefixIndex) -> R) -> R {
        work(&mut self.index.write().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl PrefixIndex {
    #[new]
    #[pyo3(signature = (orphan_limit=65_536))]
    fn new(orphan_limit: usize) -> Self {
        Self {
            index: RwLock::new(prefix_index::PrefixIndex::new(orphan_limit)),
        }
    }

    fn add_worker(&self, worker: u32, prediction_limit: usize) {
        self.write(|index| index.add_worker(WorkerId(worker), prediction_limit));
    }

    fn forget(&self, py: Python<'_>, worker: u32) -> usize {
        py.detach(|| self.write(|index| index.forget(WorkerId(worker))))
    }

    fn clear(&self, py: Python<'_>, worker: u32) -> usize {
        py.detach(|| self.write(|index| index.clear(WorkerId(worker))))
    }

    #[pyo3(signature = (worker, tier, parent, engine_hashes, token_ids, block_size, root, block_keys=None))]
    #[expect(clippy::too_many_arguments, reason = "the fields of an engine's event")]
    fn store(
        &self,
        py: Python<'_>,
        worker: u32,
        tier: u32,
        parent: Option<&Bound<'_, PyAny>>,
        engine_hashes: &Bound<'_, PyAny>,
        token_ids: &Bound<'_, PyAny>,
        block_size: i64,
        root: u64,
        block_keys: Option<Vec<Option<Vec<u8>>>>,
    ) -> PyResult<StoreResult> {
        let tier = to_tier(tier)?;
        let hashes = to_engine_hashes(engine_hashes)?;
        let store = Store {
            parent: parent.map(to_engine_hash).transpose()?,
            engine_hashes: &hashes,
            token_ids: &to_token_ids(token_ids)?,
            block_size: to_block_size(block_size).unwrap_or(0),
            root: BlockHash(root),
            keys: block_keys.as_deref().unwrap_or(&[]),
        };
        let stored = detached_if_long(py, hashes.len(), || {
            self.write(|index| index.store(WorkerId(worker), tier, &store))
        });
        Ok(stored.into())
    }

    fn store_known(&self, worker: u32, tier: u32, engine_hashes: &Bound<'_, PyAny>) -> PyResult<usize> {
        let (tier, hashes) = (to_tier(tier)?, to_engine_hashes(engine_hashes)?);
        Ok(self.write(|index| index.store_known(WorkerId(worker), tier, &hashes)))
    }

    fn remove(&self, py: Python<'_>, worker: u32, tier: u32, engine_hashes: &Bound<'_, PyAny>) -> PyResult<usize> {
        let (tier, hashes) = (to_tier(tier)?, to_engine_hashes(engine_hashes)?);
        Ok(detached_if_long(py, hashes.len(), || {
            self.write(|index| index.remove(WorkerId(worker), tier, &hashes))
        }))
    }

    fn predict(&self, py: Python<'_>, worker: u32, hashes: &BlockHashes, expires_at: f64) -> PyResult<()> {
        if expires_at.is_nan() {
            return Err(PyValueError::new_err("expires_at is not a time"));
        }
        detached_if_long(py, hashes.as_slice().len(), || {
            self.write(|index| index.predict(WorkerId(worker), hashes.as_slice(), expires_at));
        });
        Ok(())
    }

    fn expire(&self, now: f64) -> PyResult<usize> {
        finite(now)?;
        Ok(self.write(|index| index.expire(now)))
    }

    #[pyo3(name = "match")]
    fn match_prefix(&self, py: Python<'_>, hashes: &BlockHashes, now: f64) -> PyResult<Vec<Match>> {
        finite(now)?;
        let found = detached_if_long(py, hashes.as_slice().len(), || {
            self.read(|index| index.match_prefix(hashes.as_slice(), now))
        });
        Ok(found.into_iter().map(to_match).collect())
    }

    fn workers(&self) -> Vec<u32> {
        self.read(|index| index.workers().iter().map(|worker| worker.0).collect())
    }

    fn blocks(&self, worker: u32) -> usize {
        self.read(|index| index.blocks(WorkerId(worker)))
    }

    fn size(&self) -> usize {
        self.read(prefix_index::PrefixIndex::size)
    }

    fn stats(&self) -> BTreeMap<&'static str, usize> {
        self.read(|index| {
            let counts = index.stats();
            BTreeMap::from([
                ("workers", index.workers().len()),
                ("blocks", index.size()),
                ("engine_hashes", index.engine_hashes()),
                ("orphans", index.orphans()),
                ("predictions", index.predictions()),
                ("rejected", counts.rejected),
                ("ignored", counts.ignored),
                ("replaced", counts.replaced),
                ("linked", counts.linked),
                ("orphans_dropped", counts.orphans_dropped),
                ("orphans_contradicted", counts.orphans_contradicted),
                ("predictions_evicted", counts.predictions_evicted),
            ])
        })
    }

    fn check_integrity(&self, py: Python<'_>) -> PyResult<()> {
        let verdict = py.detach(|| self.read(prefix_index::PrefixIndex::check_integrity));
        verdict.map_err(PyAssertionError::new_err)
    }
}

fn to_match((worker, overlap): (WorkerId, Overlap)) -> Match {
    let [device, host, disk, remote] = overlap.tiers;
    (worker.0, (device, host, disk, remote, overlap.predicted))
}
