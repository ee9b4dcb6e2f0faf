//! Python's values as the core's: hashes, token ids, tiers, times.

use prefix_index::{EngineHash, Tier};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyList, PyString};

/// Strings that JSON let through with half a surrogate pair are names too.
pub fn to_bytes(name: &Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    name.call_method1("encode", ("utf-8", "surrogatepass"))?.extract()
}

pub fn to_block_size(block_size: i64) -> PyResult<usize> {
    match usize::try_from(block_size) {
        Ok(positive) if positive > 0 => Ok(positive),
        _ => Err(PyValueError::new_err("block_size must be positive")),
    }
}

pub fn finite(now: f64) -> PyResult<()> {
    if !now.is_finite() {
        return Err(PyValueError::new_err(format!("now is {now}, not a time")));
    }
    Ok(())
}

pub fn to_tier(tier: u32) -> PyResult<Tier> {
    let known = usize::try_from(tier).ok().and_then(|tier| Tier::ALL.get(tier));
    known
        .copied()
        .ok_or_else(|| PyValueError::new_err(format!("there is no tier {tier}")))
}

/// A list is read item by item, a one-dimensional buffer of uint64 or int64 copied whole, any other sequence iterated.
pub fn to_engine_hashes(value: &Bound<'_, PyAny>) -> PyResult<Vec<EngineHash>> {
    if let Ok(list) = value.cast::<PyList>() {
        return list.iter().map(|item| to_engine_hash(&item)).collect();
    }
    if let Ok(buffer) = PyBuffer::<u64>::get(value)
        && buffer.dimensions() == 1
    {
        return Ok(buffer.to_vec(value.py())?.into_iter().map(EngineHash::from).collect());
    }
    if let Ok(buffer) = PyBuffer::<i64>::get(value)
        && buffer.dimensions() == 1
    {
        return Ok(buffer.to_vec(value.py())?.into_iter().map(EngineHash::from).collect());
    }
    value.try_iter()?.map(|item| to_engine_hash(&item?)).collect()
}

pub fn to_engine_hash(value: &Bound<'_, PyAny>) -> PyResult<EngineHash> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(EngineHash::from_bytes(bytes.as_bytes()));
    }
    if !value.is_instance_of::<PyInt>() || value.is_instance_of::<PyBool>() {
        let kind = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "an engine hash is an int or bytes, not {kind}"
        )));
    }
    if let Ok(unsigned) = value.extract::<u64>() {
        return Ok(unsigned.into());
    }
    let signed = value
        .extract::<i64>()
        .map_err(|_| PyValueError::new_err(format!("engine hash {value} does not fit in 64 bits")))?;
    Ok(signed.into())
}

/// A list is read item by item, a one-dimensional buffer of uint32 copied whole, any other sequence iterated.
pub fn to_token_ids(value: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    if let Ok(list) = value.cast::<PyList>() {
        return list.iter().map(|item| to_token_id(&item)).collect();
    }
    if let Ok(buffer) = PyBuffer::<u32>::get(value)
        && buffer.dimensions() == 1
    {
        return buffer.to_vec(value.py());
    }
    value.try_iter()?.map(|item| to_token_id(&item?)).collect()
}

fn to_token_id(item: &Bound<'_, PyAny>) -> PyResult<u32> {
    item.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(item.py()) {
            PyValueError::new_err(format!("token id {item} is not between 0 and 2**32 - 1"))
        } else {
            error
        }
    })
}
