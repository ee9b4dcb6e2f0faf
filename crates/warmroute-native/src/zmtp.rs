//! A publisher's stream as Python sees it: bytes in, messages out.

use kv_event::Subscriber;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ZmtpSubscriber>()
}

/// The subscriber's end of one connection to a publisher.
#[pyclass(module = "warmroute._native")]
struct ZmtpSubscriber {
    subscriber: Subscriber,
}

#[pymethods]
impl ZmtpSubscriber {
    #[new]
    fn new(topic: &[u8]) -> Self {
        Self {
            subscriber: Subscriber::new(topic),
        }
    }

    #[getter]
    fn subscribed(&self) -> bool {
        self.subscriber.is_subscribed()
    }

    #[getter]
    fn waiting(&self) -> usize {
        self.subscriber.waiting()
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.subscriber.feed(bytes);
    }

    fn answers<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.subscriber.take_answers())
    }

    /// What was read before the peer became unintelligible is handed out first; the next call says so.
    fn messages<'py>(&mut self, py: Python<'py>, count: usize, size: usize) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let mut messages = Vec::new();
        let mut taken = 0;
        while messages.len() < count && taken < size {
            match self.subscriber.next_message() {
                Ok(Some(message)) => {
                    let frames = message.frames().map(|frame| PyBytes::new(py, frame));
                    taken += message.frames().map(<[u8]>::len).sum::<usize>();
                    messages.push(PyTuple::new(py, frames)?);
                }
                Err(error) if messages.is_empty() => return Err(PyValueError::new_err(error.0)),
                Ok(None) | Err(_) => break,
            }
        }
        Ok(messages)
    }
}
