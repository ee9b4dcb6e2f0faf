//! A prompt's hashes as a Python sequence.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use prefix_index::BlockHash;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// An immutable sequence of chained block hashes; prefixes share its memory.
#[pyclass(frozen, module = "warmroute._native")]
pub struct BlockHashes {
    hashes: Arc<[BlockHash]>,
    len: usize,
}

impl BlockHashes {
    pub fn new(hashes: Vec<BlockHash>) -> Self {
        Self {
            len: hashes.len(),
            hashes: hashes.into(),
        }
    }

    pub fn as_slice(&self) -> &[BlockHash] {
        &self.hashes[..self.len]
    }
}

#[pymethods]
impl BlockHashes {
    #[staticmethod]
    fn from_list(hashes: Vec<u64>) -> Self {
        Self::new(hashes.into_iter().map(BlockHash).collect())
    }

    /// The bytes of `to_bytes`, or any buffer of them.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let (hashes, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(PyValueError::new_err("hashes take 8 bytes each"));
        }
        Ok(Self::new(
            hashes.iter().map(|hash| BlockHash(u64::from_le_bytes(*hash))).collect(),
        ))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes: Vec<u8> = self.as_slice().iter().flat_map(|hash| hash.0.to_le_bytes()).collect();
        PyBytes::new(py, &bytes)
    }

    /// Continued by `count` blocks whose content nobody knows: hashes that follow from `seed` only.
    fn extend(&self, count: usize, seed: u64) -> Self {
        let mut hashes = Vec::with_capacity(self.len + count);
        hashes.extend_from_slice(self.as_slice());
        let mut last = hashes.last().copied().unwrap_or(BlockHash(0));
        for _ in 0..count {
            last = last.then(!seed);
            hashes.push(last);
        }
        Self::new(hashes)
    }

    fn prefix(&self, blocks: usize) -> Self {
        Self {
            hashes: Arc::clone(&self.hashes),
            len: self.len.min(blocks),
        }
    }

    fn to_list(&self) -> Vec<u64> {
        self.as_slice().iter().map(|hash| hash.0).collect()
    }

    fn __len__(&self) -> usize {
        self.len
    }

    fn __getitem__(&self, index: isize) -> PyResult<u64> {
        let position = if index < 0 {
            self.len.checked_add_signed(index)
        } else {
            usize::try_from(index).ok()
        };
        let hash = position.and_then(|position| self.as_slice().get(position));
        hash.map(|hash| hash.0)
            .ok_or_else(|| PyIndexError::new_err("block out of range"))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PyList::new(py, self.to_list())?.call_method0("__iter__")
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }

    /// The last hash covers all before it.
    fn __hash__(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        (self.len, self.as_slice().last()).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        match self.as_slice().last() {
            Some(last) => format!("<BlockHashes: {} blocks, last {:#018x}>", self.len, last.0),
            None => "<BlockHashes: no blocks>".to_owned(),
        }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Vec<u64>,))> {
        let from_list = py.get_type::<Self>().getattr("from_list")?;
        Ok((from_list, (self.to_list(),)))
    }
}
