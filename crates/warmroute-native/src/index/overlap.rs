//! How much of a prompt one worker holds, as Python sees it.

use prefix_index::Tier;
use pyo3::prelude::*;

/// The leading blocks of a prompt that one worker holds, each counted once under its best source.
#[pyclass(frozen, eq, hash, get_all, module = "warmroute._native")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Overlap {
    device: u32,
    host: u32,
    disk: u32,
    remote: u32,
    predicted: u32,
}

#[pymethods]
impl Overlap {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str, &'static str, &'static str) {
        ("device", "host", "disk", "remote", "predicted")
    }

    #[new]
    #[pyo3(signature = (device=0, host=0, disk=0, remote=0, predicted=0))]
    fn new(device: u32, host: u32, disk: u32, remote: u32, predicted: u32) -> Self {
        Self {
            device,
            host,
            disk,
            remote,
            predicted,
        }
    }

    #[getter]
    fn blocks(&self) -> u32 {
        self.device + self.host + self.disk + self.remote + self.predicted
    }

    fn __repr__(&self) -> String {
        format!(
            "Overlap(device={}, host={}, disk={}, remote={}, predicted={})",
            self.device, self.host, self.disk, self.remote, self.predicted
        )
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, (u32, u32, u32, u32, u32)) {
        let class = py.get_type::<Self>().into_any();
        (class, (self.device, self.host, self.disk, self.remote, self.predicted))
    }
}

impl From<prefix_index::Overlap> for Overlap {
    fn from(overlap: prefix_index::Overlap) -> Self {
        let in_tier = |tier: Tier| overlap.tiers[tier as usize];
        Self {
            device: in_tier(Tier::Device),
            host: in_tier(Tier::Host),
            disk: in_tier(Tier::Disk),
            remote: in_tier(Tier::Remote),
            predicted: overlap.predicted,
        }
    }
}
