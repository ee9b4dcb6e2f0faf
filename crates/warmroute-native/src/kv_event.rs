//! KV events as Python sees them: payloads in, reports out, with the interpreter released in between.

use std::sync::{Arc, Mutex, PoisonError};

use kv_event::{BlockSink, Ingest, REJECTIONS_KEPT, Report, Undecodable};
use prefix_index::{EngineHash, Store, StoreResult, Tier, WorkerId};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::index::PrefixIndex;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ApplyReport>()?;
    module.add_class::<EventLane>()
}

/// What a payload did.
#[pyclass(eq, get_all, set_all, module = "warmroute._native")]
#[derive(Debug, PartialEq)]
struct ApplyReport {
    stored: usize,
    duplicate: usize,
    orphaned: usize,
    linked: usize,
    removed: usize,
    unindexed: usize,
    cleared: usize,
    reloaded: usize,
    rejected: usize,
    rejections: Vec<String>,
}

#[pymethods]
impl ApplyReport {
    #[new]
    #[pyo3(signature = (
        *, stored=0, duplicate=0, orphaned=0, linked=0, removed=0, unindexed=0, cleared=0, reloaded=0, rejected=0,
        rejections=vec![]
    ))]
    #[expect(clippy::too_many_arguments, reason = "the counts of a report")]
    fn new(
        stored: usize,
        duplicate: usize,
        orphaned: usize,
        linked: usize,
        removed: usize,
        unindexed: usize,
        cleared: usize,
        reloaded: usize,
        rejected: usize,
        rejections: Vec<String>,
    ) -> Self {
        Self {
            stored,
            duplicate,
            orphaned,
            linked,
            removed,
            unindexed,
            cleared,
            reloaded,
            rejected,
            rejections,
        }
    }

    fn reject(&mut self, reason: String) {
        self.rejected += 1;
        if self.rejections.len() < REJECTIONS_KEPT {
            self.rejections.push(reason);
        }
    }

    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

impl From<Report> for ApplyReport {
    fn from(report: Report) -> Self {
        Self {
            stored: report.stored,
            duplicate: report.duplicate,
            orphaned: report.orphaned,
            linked: report.linked,
            removed: report.removed,
            unindexed: report.unindexed,
            cleared: report.cleared,
            reloaded: report.reloaded,
            rejected: report.rejected,
            rejections: report.rejections.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// A report, or the reason why a payload has none.
#[derive(IntoPyObject)]
enum Applied {
    Report(ApplyReport),
    Reason(String),
}

/// What a number of payloads in a row did.
type Stretch = (usize, Result<Report, Undecodable>);

/// Adds a payload's result: to those before it where both are plain, as nearly all are.
fn append(stretches: &mut Vec<Stretch>, applied: Result<Report, Undecodable>) {
    match (stretches.last_mut(), applied) {
        (Some((count, Ok(before))), Ok(report)) if before.is_plain() && report.is_plain() => {
            *count += 1;
            before.merge(report);
        }
        (_, applied) => stretches.push((1, applied)),
    }
}

/// The way of one lane's payloads into an index.
#[pyclass(frozen, module = "warmroute._native")]
struct EventLane {
    sink: LaneSink,
    ingest: Mutex<Ingest>,
}

impl EventLane {
    /// The lock is only ever waited for with the interpreter released, so a thread that holds it is never kept waiting.
    fn locked<R>(&self, work: impl FnOnce(&mut Ingest) -> R) -> R {
        work(&mut self.ingest.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl EventLane {
    #[new]
    fn new(index: &PrefixIndex, lane: u32) -> Self {
        Self {
            sink: LaneSink {
                index: index.shared(),
                lane: WorkerId(lane),
            },
            ingest: Mutex::default(),
        }
    }

    fn apply(&self, py: Python<'_>, payload: &[u8]) -> PyResult<ApplyReport> {
        let applied = py.detach(|| self.locked(|ingest| ingest.apply(payload, &self.sink)));
        match applied {
            Ok(report) => Ok(report.into()),
            Err(reason) => Err(PyValueError::new_err(reason.to_string())),
        }
    }

    fn apply_many(&self, py: Python<'_>, payloads: Vec<Bound<'_, PyBytes>>) -> Vec<(usize, Applied)> {
        let payloads: Vec<&[u8]> = payloads.iter().map(PyBytesMethods::as_bytes).collect();
        let stretches = py.detach(|| {
            self.locked(|ingest| {
                let mut stretches = Vec::new();
                for payload in payloads {
                    append(&mut stretches, ingest.apply(payload, &self.sink));
                }
                stretches
            })
        });
        let told = stretches.into_iter().map(|(count, applied)| match applied {
            Ok(report) => (count, Applied::Report(report.into())),
            Err(reason) => (count, Applied::Reason(reason.to_string())),
        });
        told.collect()
    }

    fn reset(&self, py: Python<'_>) {
        py.detach(|| self.locked(Ingest::reset));
    }
}

/// One lane of the index.
struct LaneSink {
    index: Arc<prefix_index::PrefixIndex>,
    lane: WorkerId,
}

impl BlockSink for LaneSink {
    fn store(&self, tier: Tier, store: &Store<'_>) -> StoreResult {
        self.index.store(self.lane, tier, store)
    }

    fn store_known(&self, tier: Tier, hashes: &[EngineHash]) -> usize {
        self.index.store_known(self.lane, tier, hashes)
    }

    fn remove(&self, tier: Tier, hashes: &[EngineHash]) -> usize {
        self.index.remove(self.lane, tier, hashes)
    }

    fn clear(&self) {
        self.index.clear(self.lane);
    }
}
