//! The encoder as Python sees it: text in, ids out as bytes of uint32, the interpreter free meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ::tokens::{AddedToken, CacheStats, Encoder as Inner, EncoderError, Seam};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::detach::detached_if;
use crate::index::to_token_ids;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Encoder>()?;
    module.add_class::<SegmentStats>()
}

/// One tokenizer with its segment cache.
#[pyclass(module = "warmroute._native", frozen)]
pub struct Encoder {
    pub inner: Inner,
}

#[pymethods]
impl Encoder {
    #[new]
    fn new(
        py: Python<'_>,
        definition: &[u8],
        declared: Vec<Declared>,
        named: Vec<Declared>,
        cache_bytes: u64,
    ) -> PyResult<Self> {
        let declared = declared.into_iter().map(added_token).collect();
        let named = named.into_iter().map(added_token).collect();
        let inner = guarded(py, || Inner::new(definition, declared, named, cache_bytes))?;
        Ok(Self { inner })
    }

    fn encode<'py>(&self, py: Python<'py>, text: &str, add_special_tokens: bool) -> PyResult<Bound<'py, PyBytes>> {
        let ids = guarded(py, || self.inner.encode(text, add_special_tokens))?;
        Ok(bytes_of(py, &ids))
    }

    fn encode_prefix<'py>(
        &self,
        py: Python<'py>,
        text: &str,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let ids = guarded(py, || self.inner.encode_prefix(text, add_special_tokens))?;
        Ok(bytes_of(py, &ids))
    }

    fn encode_whole<'py>(
        &self,
        py: Python<'py>,
        text: &str,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let ids = guarded(py, || self.inner.encode_whole(text, add_special_tokens))?;
        Ok(bytes_of(py, &ids))
    }

    fn decode(&self, py: Python<'_>, ids: &Bound<'_, PyAny>, skip_special_tokens: bool) -> PyResult<String> {
        let ids = to_token_ids(ids)?;
        guarded(py, || self.inner.decode(&ids, skip_special_tokens))
    }

    #[getter]
    fn vocab_size(&self) -> usize {
        self.inner.vocab_size()
    }

    #[getter]
    fn added_tokens(&self) -> Vec<(u32, String)> {
        self.inner.added_tokens()
    }

    #[getter]
    fn seams(&self) -> Vec<&'static str> {
        self.inner.seams().iter().map(|&seam| Seam::name(seam)).collect()
    }

    fn stats(&self) -> SegmentStats {
        SegmentStats {
            stats: self.inner.cache_stats(),
        }
    }
}

#[pyclass(module = "warmroute._native", frozen)]
struct SegmentStats {
    stats: CacheStats,
}

#[pymethods]
impl SegmentStats {
    #[getter]
    fn segments(&self) -> u64 {
        self.stats.segments
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.stats.bytes
    }

    #[getter]
    fn asked_bytes(&self) -> u64 {
        self.stats.asked_bytes
    }

    #[getter]
    fn found_bytes(&self) -> u64 {
        self.stats.found_bytes
    }
}

/// A content and its flags: special, normalized, lstrip, rstrip, `single_word`.
type Declared = (String, [bool; 5]);

fn added_token((content, flags): Declared) -> AddedToken {
    let [special, normalized, lstrip, rstrip, single_word] = flags;
    AddedToken::from(content, special)
        .normalized(normalized)
        .lstrip(lstrip)
        .rstrip(rstrip)
        .single_word(single_word)
}

/// Work without the interpreter. The library panics on some definitions and texts; that is an error like any other.
pub fn guarded<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, EncoderError> + Send) -> PyResult<T> {
    guarded_if(py, true, work)
}

/// As [`guarded`], without the interpreter only if it is `long`.
pub fn guarded_if<T: Send>(
    py: Python<'_>,
    long: bool,
    work: impl FnOnce() -> Result<T, EncoderError> + Send,
) -> PyResult<T> {
    detached_if(py, long, || catch_unwind(AssertUnwindSafe(work)))
        .map_err(|_| PyValueError::new_err("the tokenizer failed on this"))?
        .map_err(|error| PyValueError::new_err(error.0))
}

pub fn bytes_of<'py>(py: Python<'py>, ids: &[u32]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, bytemuck::cast_slice(ids))
}
