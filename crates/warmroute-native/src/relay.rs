//! The relay, as Python sees it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use relay::bytes::Bytes;
use relay::{ClientFiles, Forwarding, Options, ServerFiles};

use event::{Arrival, AttemptFailed, FirstByte, Outcome};
use header::{Headers, wire};

mod event;
mod header;

/// The sockets.
#[pyclass(frozen, module = "warmroute._native")]
struct Relay(relay::Relay);

#[pymethods]
impl Relay {
    #[new]
    #[pyo3(signature = (*, threads, max_body_bytes, connect_timeout_s, first_byte_timeout_s, idle_timeout_s,
        pool_idle_s, head_timeout_s, client_idle_s, max_held_bytes, min_body_rate, client_write_timeout_s, half_close,
        h2_streams, h2_ping_s))]
    #[allow(clippy::too_many_arguments)] // by keyword only
    fn new(
        threads: usize,
        max_body_bytes: usize,
        connect_timeout_s: f64,
        first_byte_timeout_s: f64,
        idle_timeout_s: f64,
        pool_idle_s: f64,
        head_timeout_s: f64,
        client_idle_s: f64,
        max_held_bytes: usize,
        min_body_rate: usize,
        client_write_timeout_s: f64,
        half_close: bool,
        h2_streams: u32,
        h2_ping_s: f64,
    ) -> PyResult<Self> {
        let options = Options {
            threads,
            max_body_bytes,
            connect_timeout: seconds("connect_timeout_s", connect_timeout_s)?,
            first_byte_timeout: seconds("first_byte_timeout_s", first_byte_timeout_s)?,
            idle_timeout: seconds("idle_timeout_s", idle_timeout_s)?,
            pool_idle: seconds("pool_idle_s", pool_idle_s)?,
            head_timeout: seconds("head_timeout_s", head_timeout_s)?,
            client_idle: seconds("client_idle_s", client_idle_s)?,
            max_held_bytes,
            min_body_rate,
            client_write_timeout: seconds("client_write_timeout_s", client_write_timeout_s)?,
            half_close,
            h2_streams,
            h2_ping: seconds("h2_ping_s", h2_ping_s)?,
        };
        Ok(Self(relay::Relay::new(options)?))
    }

    fn listen(&self, py: Python<'_>, host: String, port: u16, name: String) -> PyResult<(String, u16)> {
        let address = py.detach(|| self.0.listen(&host, port, &name)).map_err(os_error)?;
        Ok((address.ip().to_string(), address.port()))
    }

    fn set_tls(&self, name: &str, certificate: PathBuf, key: PathBuf, client_ca: Option<PathBuf>) -> PyResult<()> {
        let files = ServerFiles {
            certificate,
            key,
            client_authorities: client_ca,
        };
        self.0.set_tls(name, &files).map_err(tls_error)
    }

    fn set_client_tls(&self, ca: Option<PathBuf>, identity: Option<(PathBuf, PathBuf)>) -> PyResult<()> {
        let files = ClientFiles {
            authorities: ca,
            identity,
        };
        self.0.set_client_tls(&files).map_err(tls_error)
    }

    fn listen_on(&self, descriptor: RawFd, name: &str) -> PyResult<(String, u16)> {
        if descriptor < 0 {
            return Err(PyValueError::new_err(format!("{descriptor} is no descriptor")));
        }
        // SAFETY: borrowed for the one call that duplicates it; the kernel says so if it is not open.
        #[allow(unsafe_code)]
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let own = borrowed.try_clone_to_owned().map_err(os_error)?;
        let address = self.0.listen_on(own, name).map_err(os_error)?;
        Ok((address.ip().to_string(), address.port()))
    }

    fn listener_fds(&self) -> PyResult<Vec<(String, RawFd)>> {
        let listeners = self.0.listeners().map_err(os_error)?;
        let raw = listeners.into_iter().map(|(name, own)| (name, own.into_raw_fd()));
        Ok(raw.collect())
    }

    fn fileno(&self) -> i32 {
        self.0.fd().as_raw_fd()
    }

    fn take_events<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.0
            .take_events()
            .into_iter()
            .map(|event| event::into_python(py, event))
            .collect()
    }

    fn forward(
        &self,
        request_id: u64,
        base_url: &str,
        request_headers: Headers,
        response_headers: Headers,
        hold: Vec<u16>,
        tell_first_byte: bool,
    ) -> PyResult<()> {
        let (request_headers, response_headers) = (wire(request_headers)?, wire(response_headers)?);
        let forwarding = Forwarding {
            base_url,
            request_headers: &request_headers,
            response_headers: &response_headers,
            hold: &hold,
            tell_first_byte,
        };
        self.0.forward(request_id, &forwarding).map_err(value_error)
    }

    fn pass_on(&self, request_id: u64) {
        self.0.pass_on(request_id);
    }

    fn respond(&self, request_id: u64, status: u16, headers: Headers, body: &[u8]) -> PyResult<()> {
        let headers = wire(headers)?;
        self.0
            .respond(request_id, status, &headers, Bytes::copy_from_slice(body))
            .map_err(value_error)
    }

    fn stop_accepting(&self) {
        self.0.stop_accepting();
    }

    fn close(&self, py: Python<'_>, grace_s: f64) -> PyResult<()> {
        let grace = seconds("grace_s", grace_s)?;
        py.detach(|| self.0.close(grace));
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
}

fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| PyValueError::new_err(format!("{name} = {value}: {error}")))
}

/// Errors of the system keep their number, so that Python can tell an address in use from the rest.
fn os_error(error: io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string())),
        None => PyOSError::new_err(error.to_string()),
    }
}

fn tls_error(error: relay::TlsError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn value_error(error: relay::InvalidAnswer) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Arrival>()?;
    module.add_class::<FirstByte>()?;
    module.add_class::<AttemptFailed>()?;
    module.add_class::<Outcome>()?;
    module.add_class::<Relay>()
}
