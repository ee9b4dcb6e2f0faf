//! Headers between Python's text and the wire's bytes: latin-1, so that every byte has one character.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relay::http::{HeaderMap, HeaderName, HeaderValue};

/// Name and value.
pub type Headers = Vec<(String, String)>;

pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

pub fn wire(headers: Headers) -> PyResult<Vec<(String, Vec<u8>)>> {
    let pairs = headers.into_iter();
    pairs
        .map(|(name, value)| latin1_bytes(&name, &value).map(|value| (name, value)))
        .collect()
}

pub fn latin1_bytes(name: &str, value: &str) -> PyResult<Vec<u8>> {
    let bytes: Result<_, _> = value.chars().map(u8::try_from).collect();
    bytes.map_err(|_| PyValueError::new_err(format!("the value of header {name:?} is not latin-1")))
}

pub fn header_map(headers: &Headers) -> PyResult<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let value = HeaderValue::from_bytes(&latin1_bytes(name, value)?);
        let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value) else {
            return Err(PyValueError::new_err(format!("header {name:?} cannot be sent")));
        };
        map.append(name, value);
    }
    Ok(map)
}
