//! The events of the relay, as Python sees them. Each can be made from Python too, for tests of who reads them.

use std::borrow::Cow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use relay::bytes::Bytes;
use relay::http::Method;
use relay::{End, Event, Failure, Usage};

use crate::chat::{LONG_BODY, PlainChat};
use crate::detach::detached_if;

use super::header::{Headers, header_map, latin1};

/// A request that waits for `Relay.forward` or `Relay.respond`.
#[pyclass(frozen, module = "warmroute._native")]
pub struct Arrival {
    inner: relay::Arrival,
    body: PyOnceLock<Py<PyBytes>>,
}

#[pymethods]
impl Arrival {
    #[new]
    #[pyo3(
        signature = (request_id, method, path, query, headers, body, client, received_at, listener = "traffic"),
        text_signature = "(request_id, method, path, query, headers, body, client, received_at, listener='traffic')"
    )]
    #[allow(clippy::too_many_arguments)]
    fn new(
        request_id: u64,
        method: &str,
        path: String,
        query: String,
        headers: Headers,
        body: Vec<u8>,
        client: &str,
        received_at: f64,
        listener: &str,
    ) -> PyResult<Self> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let client = client
            .parse()
            .map_err(|_| PyValueError::new_err("client is not address:port"))?;
        let (headers, body) = (header_map(&headers)?, Bytes::from(body));
        let inner = relay::Arrival {
            request_id,
            method,
            path,
            query,
            headers,
            body,
            client,
            received_at,
            listener: listener.into(),
        };
        Ok(Self::from(inner))
    }

    #[getter]
    fn request_id(&self) -> u64 {
        self.inner.request_id
    }

    #[getter]
    fn method(&self) -> &str {
        self.inner.method.as_str()
    }

    #[getter]
    fn path(&self) -> &str {
        &self.inner.path
    }

    #[getter]
    fn query(&self) -> &str {
        &self.inner.query
    }

    #[getter]
    fn headers(&self) -> Headers {
        let pairs = self.inner.headers.iter();
        pairs
            .map(|(name, value)| (name.as_str().to_owned(), latin1(value.as_bytes())))
            .collect()
    }

    fn header(&self, name: &str) -> Option<String> {
        self.inner.headers.get(name).map(|value| latin1(value.as_bytes()))
    }

    #[getter]
    fn body(&self, py: Python<'_>) -> Py<PyBytes> {
        self.body
            .get_or_init(py, || PyBytes::new(py, &self.inner.body).unbind())
            .clone_ref(py)
    }

    /// The body as a plain chat, if it is one; it is not copied.
    fn plain_chat(&self, py: Python<'_>) -> Option<PlainChat> {
        let body = &self.inner.body;
        detached_if(py, body.len() > LONG_BODY, || PlainChat::of(body))
    }

    #[getter]
    fn body_bytes(&self) -> usize {
        self.inner.body.len()
    }

    #[getter]
    fn client(&self) -> String {
        self.inner.client.to_string()
    }

    #[getter]
    fn received_at(&self) -> f64 {
        self.inner.received_at
    }

    #[getter]
    fn listener(&self) -> &str {
        &self.inner.listener
    }

    fn __repr__(&self) -> String {
        format!(
            "Arrival({}, {} {})",
            self.inner.request_id, self.inner.method, self.inner.path
        )
    }
}

impl From<relay::Arrival> for Arrival {
    fn from(inner: relay::Arrival) -> Self {
        Self {
            inner,
            body: PyOnceLock::new(),
        }
    }
}

/// The first byte of the answer's body came from the worker.
#[pyclass(frozen, get_all, module = "warmroute._native")]
pub struct FirstByte {
    request_id: u64,
    status: u16,
    at: f64,
}

#[pymethods]
impl FirstByte {
    #[new]
    fn new(request_id: u64, status: u16, at: f64) -> Self {
        Self { request_id, status, at }
    }

    fn __repr__(&self) -> String {
        format!("FirstByte({}, status={}, at={})", self.request_id, self.status, self.at)
    }
}

impl From<relay::FirstByte> for FirstByte {
    fn from(event: relay::FirstByte) -> Self {
        Self {
            request_id: event.request_id,
            status: event.status,
            at: event.at,
        }
    }
}

/// The worker failed before the head of its answer.
#[pyclass(frozen, module = "warmroute._native")]
pub struct AttemptFailed(relay::AttemptFailed);

const FAILURES: [Failure; 7] = [
    Failure::Refused,
    Failure::ConnectTimeout,
    Failure::Reset,
    Failure::FirstByteTimeout,
    Failure::BadResponse,
    Failure::NoSocket,
    Failure::Held,
];

#[pymethods]
impl AttemptFailed {
    #[new]
    #[pyo3(
        signature = (request_id, kind, message, at, status = None, retry_after_s = None),
        text_signature = "(request_id, kind, message, at, status=None, retry_after_s=None)"
    )]
    fn new(
        request_id: u64,
        kind: &str,
        message: String,
        at: f64,
        status: Option<u16>,
        retry_after_s: Option<f64>,
    ) -> PyResult<Self> {
        let failure = FAILURES.into_iter().find(|failure| failure.as_str() == kind);
        let failure = failure.ok_or_else(|| PyValueError::new_err(format!("no kind of failure: {kind}")))?;
        Ok(Self(relay::AttemptFailed {
            request_id,
            failure,
            message,
            status,
            retry_after_s,
            at,
        }))
    }

    #[getter]
    fn request_id(&self) -> u64 {
        self.0.request_id
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.0.failure.as_str()
    }

    #[getter]
    fn message(&self) -> &str {
        &self.0.message
    }

    #[getter]
    fn status(&self) -> Option<u16> {
        self.0.status
    }

    #[getter]
    fn retry_after_s(&self) -> Option<f64> {
        self.0.retry_after_s
    }

    #[getter]
    fn at(&self) -> f64 {
        self.0.at
    }

    fn __repr__(&self) -> String {
        format!(
            "AttemptFailed({}, {:?}, {:?})",
            self.0.request_id,
            self.kind(),
            self.0.message
        )
    }
}

/// How a request ended.
#[pyclass(frozen, module = "warmroute._native")]
pub struct Outcome(relay::Outcome);

const ENDS: [End; 5] = [
    End::Completed,
    End::ClientGone,
    End::WorkerFailed,
    End::RefusedByRelay,
    End::Shutdown,
];

#[pymethods]
impl Outcome {
    #[new]
    #[pyo3(
        signature = (request_id, end = "completed", status = Some(200), forwarded = true, started_at = None,
            first_byte_at = None, ended_at = 0.0, request_bytes = 0, response_bytes = 0, prompt_tokens = None,
            completion_tokens = None, cached_tokens = None, events = 0, reason = None),
        text_signature = "(request_id, end='completed', status=200, forwarded=True, started_at=None, \
            first_byte_at=None, ended_at=0.0, request_bytes=0, response_bytes=0, prompt_tokens=None, \
            completion_tokens=None, cached_tokens=None, events=0, reason=None)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn new(
        request_id: u64,
        end: &str,
        status: Option<u16>,
        forwarded: bool,
        started_at: Option<f64>,
        first_byte_at: Option<f64>,
        ended_at: f64,
        request_bytes: u64,
        response_bytes: u64,
        prompt_tokens: Option<u64>,
        completion_tokens: Option<u64>,
        cached_tokens: Option<u64>,
        events: u64,
        reason: Option<&str>,
    ) -> PyResult<Self> {
        let known = ENDS.into_iter().find(|known| known.as_str() == end);
        let end = known.ok_or_else(|| PyValueError::new_err(format!("no kind of end: {end}")))?;
        Ok(Self(relay::Outcome {
            request_id,
            status,
            end,
            reason: reason.map(|reason| Cow::Owned(reason.to_owned())),
            forwarded,
            started_at,
            first_byte_at,
            ended_at,
            request_bytes,
            response_bytes,
            usage: Usage {
                prompt_tokens,
                completion_tokens,
                cached_tokens,
            },
            events,
        }))
    }

    #[getter]
    fn request_id(&self) -> u64 {
        self.0.request_id
    }

    #[getter]
    fn status(&self) -> Option<u16> {
        self.0.status
    }

    #[getter]
    fn end(&self) -> &'static str {
        self.0.end.as_str()
    }

    #[getter]
    fn reason(&self) -> Option<&str> {
        self.0.reason.as_deref()
    }

    #[getter]
    fn forwarded(&self) -> bool {
        self.0.forwarded
    }

    #[getter]
    fn started_at(&self) -> Option<f64> {
        self.0.started_at
    }

    #[getter]
    fn first_byte_at(&self) -> Option<f64> {
        self.0.first_byte_at
    }

    #[getter]
    fn ended_at(&self) -> f64 {
        self.0.ended_at
    }

    #[getter]
    fn request_bytes(&self) -> u64 {
        self.0.request_bytes
    }

    #[getter]
    fn response_bytes(&self) -> u64 {
        self.0.response_bytes
    }

    #[getter]
    fn prompt_tokens(&self) -> Option<u64> {
        self.0.usage.prompt_tokens
    }

    #[getter]
    fn completion_tokens(&self) -> Option<u64> {
        self.0.usage.completion_tokens
    }

    #[getter]
    fn cached_tokens(&self) -> Option<u64> {
        self.0.usage.cached_tokens
    }

    #[getter]
    fn events(&self) -> u64 {
        self.0.events
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

pub fn into_python(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyAny>> {
    Ok(match event {
        Event::Arrival(arrival) => Bound::new(py, Arrival::from(*arrival))?.into_any(),
        Event::FirstByte(first_byte) => Bound::new(py, FirstByte::from(first_byte))?.into_any(),
        Event::AttemptFailed(failed) => Bound::new(py, AttemptFailed(failed))?.into_any(),
        Event::Outcome(outcome) => Bound::new(py, Outcome(*outcome))?.into_any(),
    })
}
