//! Block hashes and the prefix index, as Python sees them.
//!
//! The index's locks are only ever held in Rust code that does not need the interpreter, so waiting for one cannot
//! deadlock, whether or not the interpreter is released meanwhile.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use prefix_index::{BlockHash, Store, WorkerId};
use pyo3::exceptions::{PyAssertionError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use block_hashes::BlockHashes;
use conversion::{finite, to_block_size, to_bytes, to_engine_hash, to_engine_hashes, to_tier};
use overlap::Overlap;

use crate::detach::detached_if;

mod block_hashes;
mod conversion;
mod overlap;

pub(crate) use conversion::to_token_ids;

/// Calls over more blocks than this let other Python threads run. Shorter ones do not: hashing or storing this many takes
/// less than a millisecond (`bench/prefix_index.py`), while getting the interpreter back from a busy thread can take its
/// whole switch interval, 5 ms.
const LONG: usize = 2_048;

/// Measurements must say which build they are of: one without optimisation is ten times slower.
const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__build__", BUILD)?;
    module.add_class::<BlockHashes>()?;
    module.add_class::<Overlap>()?;
    module.add_class::<StoreResult>()?;
    module.add_class::<PrefixIndex>()?;
    module.add_function(wrap_pyfunction!(root_hash, module)?)?;
    module.add_function(wrap_pyfunction!(hash_blocks, module)?)
}

fn detached_if_long<R: Send>(py: Python<'_>, blocks: usize, work: impl FnOnce() -> R + Send) -> R {
    detached_if(py, blocks > LONG, work)
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
pub struct PrefixIndex {
    pub index: Arc<prefix_index::PrefixIndex>,
}

impl PrefixIndex {
    /// The index itself, for what else works on it.
    pub fn shared(&self) -> Arc<prefix_index::PrefixIndex> {
        Arc::clone(&self.index)
    }
}

impl PrefixIndex {
    fn found(
        &self,
        py: Python<'_>,
        hashes: &BlockHashes,
        now: f64,
    ) -> PyResult<Vec<(WorkerId, prefix_index::Overlap)>> {
        finite(now)?;
        Ok(detached_if_long(py, hashes.as_slice().len(), || {
            self.index.match_prefix(hashes.as_slice(), now)
        }))
    }
}

#[pymethods]
impl PrefixIndex {
    #[new]
    #[pyo3(signature = (orphan_limit=65_536))]
    fn new(orphan_limit: usize) -> Self {
        Self {
            index: Arc::new(prefix_index::PrefixIndex::new(orphan_limit)),
        }
    }

    fn add_worker(&self, worker: u32, prediction_limit: usize) {
        self.index.add_worker(WorkerId(worker), prediction_limit);
    }

    #[pyo3(signature = (worker, device=None, host=None, disk=None, remote=None))]
    fn set_limits(
        &self,
        py: Python<'_>,
        worker: u32,
        device: Option<usize>,
        host: Option<usize>,
        disk: Option<usize>,
        remote: Option<usize>,
    ) {
        py.detach(|| self.index.set_limits(WorkerId(worker), [device, host, disk, remote]));
    }

    fn forget(&self, py: Python<'_>, worker: u32) -> usize {
        py.detach(|| self.index.forget(WorkerId(worker)))
    }

    fn clear(&self, py: Python<'_>, worker: u32) -> usize {
        py.detach(|| self.index.clear(WorkerId(worker)))
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
        let stored = detached_if_long(py, hashes.len(), || self.index.store(WorkerId(worker), tier, &store));
        Ok(stored.into())
    }

    fn store_known(&self, worker: u32, tier: u32, engine_hashes: &Bound<'_, PyAny>) -> PyResult<usize> {
        let (tier, hashes) = (to_tier(tier)?, to_engine_hashes(engine_hashes)?);
        Ok(self.index.store_known(WorkerId(worker), tier, &hashes))
    }

    fn remove(&self, py: Python<'_>, worker: u32, tier: u32, engine_hashes: &Bound<'_, PyAny>) -> PyResult<usize> {
        let (tier, hashes) = (to_tier(tier)?, to_engine_hashes(engine_hashes)?);
        Ok(detached_if_long(py, hashes.len(), || {
            self.index.remove(WorkerId(worker), tier, &hashes)
        }))
    }

    fn predict(&self, py: Python<'_>, worker: u32, hashes: &BlockHashes, expires_at: f64) -> PyResult<()> {
        if expires_at.is_nan() {
            return Err(PyValueError::new_err("expires_at is not a time"));
        }
        detached_if_long(py, hashes.as_slice().len(), || {
            self.index.predict(WorkerId(worker), hashes.as_slice(), expires_at);
        });
        Ok(())
    }

    fn truncate(&self, worker: u32, hashes: &BlockHashes, keep: usize) -> usize {
        self.index.truncate(WorkerId(worker), hashes.as_slice(), keep)
    }

    fn expire(&self, py: Python<'_>, now: f64) -> PyResult<usize> {
        finite(now)?;
        Ok(py.detach(|| self.index.expire(now)))
    }

    #[pyo3(name = "match", signature = (hashes, now, among=None))]
    fn match_prefix<'py>(
        &self,
        py: Python<'py>,
        hashes: &BlockHashes,
        now: f64,
        among: Option<HashSet<u32>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let overlaps = PyDict::new(py);
        for (worker, overlap) in self.found(py, hashes, now)? {
            if among.as_ref().is_none_or(|among| among.contains(&worker.0)) {
                overlaps.set_item(worker.0, Overlap::from(overlap))?;
            }
        }
        Ok(overlaps)
    }

    fn holders(&self, py: Python<'_>, hashes: &BlockHashes, now: f64, most: usize) -> PyResult<Vec<u32>> {
        let mut found = self.found(py, hashes, now)?;
        let blocks = |(_, overlap): &(WorkerId, prefix_index::Overlap)| Reverse(overlap.blocks());
        if most < found.len() {
            found.select_nth_unstable_by_key(most, blocks);
            found.truncate(most);
        }
        found.sort_by_key(blocks);
        Ok(found.iter().map(|(worker, _)| worker.0).collect())
    }

    fn dump<'py>(&self, py: Python<'py>, worker: u32) -> PyResult<Bound<'py, PyBytes>> {
        let dump = py.detach(|| self.index.dump(WorkerId(worker)));
        let dump = dump.ok_or_else(|| PyKeyError::new_err(worker))?;
        Ok(PyBytes::new(py, &dump))
    }

    fn restore(&self, py: Python<'_>, worker: u32, dump: &[u8]) -> PyResult<usize> {
        if !self.index.workers().contains(&WorkerId(worker)) {
            return Err(PyKeyError::new_err(worker));
        }
        py.detach(|| self.index.restore(WorkerId(worker), dump))
            .map_err(corrupt)
    }

    #[staticmethod]
    fn check_dump(py: Python<'_>, dump: &[u8]) -> PyResult<usize> {
        py.detach(|| prefix_index::PrefixIndex::check_dump(dump))
            .map_err(corrupt)
    }

    fn workers(&self) -> Vec<u32> {
        self.index.workers().iter().map(|worker| worker.0).collect()
    }

    fn blocks(&self, worker: u32) -> usize {
        self.index.blocks(WorkerId(worker))
    }

    fn block_sizes(&self, worker: u32) -> BTreeMap<u32, u64> {
        self.index.block_sizes(WorkerId(worker)).into_iter().collect()
    }

    fn worker_stats(&self, worker: u32) -> PyResult<BTreeMap<&'static str, usize>> {
        let stats = self.index.worker_stats(WorkerId(worker));
        let stats = stats.ok_or_else(|| PyKeyError::new_err(worker))?;
        let [device, host, disk, remote] = stats.by_tier;
        Ok(BTreeMap::from([
            ("confirmed", stats.confirmed),
            ("device", device),
            ("host", host),
            ("disk", disk),
            ("remote", remote),
            ("predicted", stats.predicted),
            ("orphans", stats.orphans),
            ("holes", stats.holes),
        ]))
    }

    fn size(&self) -> usize {
        self.index.size()
    }

    fn stats(&self) -> BTreeMap<&'static str, usize> {
        let counts = self.index.stats();
        BTreeMap::from([
            ("workers", self.index.workers().len()),
            ("blocks", self.index.size()),
            ("holdings", self.index.holdings()),
            ("engine_hashes", self.index.engine_hashes()),
            ("orphans", self.index.orphans()),
            ("predictions", self.index.predictions()),
            ("memory_bytes", self.index.memory()),
            ("rejected", counts.rejected),
            ("ignored", counts.ignored),
            ("replaced", counts.replaced),
            ("linked", counts.linked),
            ("orphans_dropped", counts.orphans_dropped),
            ("orphans_contradicted", counts.orphans_contradicted),
            ("predictions_evicted", counts.predictions_evicted),
            ("capped", counts.capped),
        ])
    }

    fn check_integrity(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.index.check_integrity())
            .map_err(PyAssertionError::new_err)
    }
}

fn corrupt(dump: prefix_index::CorruptDump) -> PyErr {
    PyValueError::new_err(format!("not a dump of a lane: {}", dump.0))
}
