//! The handle of a running relay.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::runtime::{Builder, Runtime};

use crate::event::Event;
use crate::header::Overrides;
use crate::listener;
use crate::options::Options;
use crate::server;
use crate::shared::{Command, Forward, OwnAnswer, Shared, lock};
use crate::tls::{ClientFiles, ServerFiles, TlsError};

/// How long connections may take to send the ends of what is cut off.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long aborted tasks may take to be dropped.
const ABORT_PATIENCE: Duration = Duration::from_secs(2);

/// A header or status of the owner's that cannot be sent.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidAnswer(String);

impl fmt::Display for InvalidAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for InvalidAnswer {}

/// Headers as the owner gives them: a name, and a value as latin-1 bytes.
pub type RawHeaders<'a> = &'a [(String, Vec<u8>)];

/// Where a request goes, and how.
#[derive(Clone, Copy, Debug)]
pub struct Forwarding<'a> {
    /// Base URL of the worker.
    pub base_url: &'a str,
    /// Replace those of the same name in the request.
    pub request_headers: RawHeaders<'a>,
    /// Replace those of the same name in the worker's answer.
    pub response_headers: RawHeaders<'a>,
    /// Statuses of answers to hold back: they come as [`crate::Failure::Held`] and wait for [`Relay::pass_on`].
    pub hold: &'a [u16],
    /// Whether [`crate::FirstByte`] is wanted.
    pub tell_first_byte: bool,
}

impl<'a> Forwarding<'a> {
    /// To the worker at `base_url`, as the request is.
    #[must_use]
    pub fn to(base_url: &'a str) -> Self {
        Self {
            base_url,
            request_headers: &[],
            response_headers: &[],
            hold: &[],
            tell_first_byte: true,
        }
    }
}

/// A running relay: its threads, its connections, its queue of events.
pub struct Relay {
    shared: Arc<Shared>,
    runtime: Mutex<Option<Runtime>>,
}

impl Relay {
    /// Start the threads.
    ///
    /// # Errors
    /// The system gives no threads or descriptors.
    pub fn new(options: Options) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(options)?);
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(options.threads.max(1))
            .thread_name("relay")
            .enable_io()
            .enable_time();
        let runtime = builder.build()?;
        runtime.spawn(sweep(shared.clone()));
        Ok(Self {
            shared,
            runtime: Mutex::new(Some(runtime)),
        })
    }

    /// From now on connections of the listener `name` speak TLS, by these files; open ones go on as they are.
    ///
    /// # Errors
    /// A file cannot be used; then nothing changes.
    pub fn set_tls(&self, name: &str, files: &ServerFiles) -> Result<(), TlsError> {
        self.shared.tls.set(name, files)
    }

    /// From now on connections to workers at `https://` use these files.
    ///
    /// # Errors
    /// A file cannot be used; then nothing changes.
    pub fn set_client_tls(&self, files: &ClientFiles) -> Result<(), TlsError> {
        self.shared.pool.tls.set(files)
    }

    /// Listen on `host`:`port`, a free port if 0, and give the address bound. Its arrivals name the listener `name`.
    ///
    /// # Errors
    /// The address is taken or is none of this machine, the name has no address, or the relay has been closed.
    pub fn listen(&self, host: &str, port: u16, name: &str) -> io::Result<SocketAddr> {
        self.accept_from(listener::open(host, port)?, name)
    }

    /// As [`Relay::listen`], on a TCP socket that listens already.
    ///
    /// # Errors
    /// It is none, or the relay has been closed.
    pub fn listen_on(&self, descriptor: OwnedFd, name: &str) -> io::Result<SocketAddr> {
        self.accept_from(listener::adopt(descriptor)?, name)
    }

    /// Names and duplicates of the sockets that listen, for another process to go on with; none after
    /// [`Relay::stop_accepting`].
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn listeners(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        self.shared.listeners.duplicates()
    }

    fn accept_from(&self, listener: TcpListener, name: &str) -> io::Result<SocketAddr> {
        let (address, name) = (listener.local_addr()?, Arc::from(name));
        let runtime = lock(&self.runtime);
        let runtime = runtime
            .as_ref()
            .filter(|_| !self.shared.is_stopping())
            .ok_or_else(|| io::Error::other("the relay has been closed"))?;
        let _context = runtime.enter();
        self.shared.listeners.add(Arc::clone(&name), &listener)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        runtime.spawn(server::accept(self.shared.clone(), listener, name));
        Ok(address)
    }

    /// A descriptor that is readable while events wait.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.mailbox.fd()
    }

    /// All events that wait, in the order they happened.
    #[must_use]
    pub fn take_events(&self) -> Vec<Event> {
        self.shared.mailbox.take()
    }

    /// Send a request to a worker. No effect once the request has ended. While an attempt is under way this waits for
    /// its failure. An answer that is held back is dropped.
    ///
    /// # Errors
    /// A header cannot be sent.
    pub fn forward(&self, request_id: u64, forwarding: &Forwarding<'_>) -> Result<(), InvalidAnswer> {
        let forward = Forward {
            base_url: forwarding.base_url.to_owned(),
            request_headers: headers(forwarding.request_headers)?,
            response_headers: headers(forwarding.response_headers)?,
            hold: forwarding.hold.to_vec(),
            tell_first_byte: forwarding.tell_first_byte,
        };
        self.shared.command(request_id, Command::Forward(forward));
        Ok(())
    }

    /// Send the answer that is held back to the client, with the headers of the forwarding that it answers. No effect
    /// where none is held.
    pub fn pass_on(&self, request_id: u64) {
        self.shared.command(request_id, Command::PassOn);
    }

    /// Answer a request. No effect once it has ended. While an attempt is under way this waits for its failure.
    ///
    /// # Errors
    /// The status or a header cannot be sent.
    pub fn respond(
        &self,
        request_id: u64,
        status: u16,
        answer_headers: RawHeaders<'_>,
        body: Bytes,
    ) -> Result<(), InvalidAnswer> {
        let status = StatusCode::from_u16(status)
            .ok()
            .filter(|status| status.as_u16() >= 200);
        let status = status.ok_or_else(|| InvalidAnswer("the status of an answer lies in 200..1000".to_owned()))?;
        let mut map = HeaderMap::new();
        for (name, value) in headers(answer_headers)? {
            map.append(name, value);
        }
        self.shared.command(
            request_id,
            Command::Respond(OwnAnswer {
                status,
                headers: map,
                body,
            }),
        );
        Ok(())
    }

    /// Requests that have arrived and not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight()
    }

    /// Take no further connections, close the idle ones; what is in flight goes on.
    pub fn stop_accepting(&self) {
        self.shared.listeners.clear();
        self.shared.stop();
    }

    /// Stop accepting, wait at most `grace` for what is in flight, end the rest: a stream with an error event, a request
    /// without an answer with 503, anything else by breaking it off. All outcomes wait to be taken when this returns. A
    /// call while another one waits may shorten its grace.
    pub fn close(&self, grace: Duration) {
        self.stop_accepting();
        self.shared.wait_for_connections(Instant::now() + grace);
        let mut runtime = lock(&self.runtime);
        if let Some(runtime) = runtime.take() {
            self.shared.end_grace();
            self.shared.wait_for_last_words(LAST_WORDS);
            runtime.shutdown_timeout(ABORT_PATIENCE);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(runtime) = lock(&self.runtime).take() {
            runtime.shutdown_background();
        }
    }
}

async fn sweep(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval((shared.options.pool_idle / 2).max(Duration::from_millis(50)));
    loop {
        ticks.tick().await;
        shared.pool.sweep();
    }
}

fn headers(raw: RawHeaders<'_>) -> Result<Overrides, InvalidAnswer> {
    raw.iter().map(|(name, value)| header(name, value)).collect()
}

fn header(name: &str, value: &[u8]) -> Result<(HeaderName, HeaderValue), InvalidAnswer> {
    let invalid = |what| InvalidAnswer(format!("the {what} of header {name:?} cannot be sent"));
    let value = HeaderValue::from_bytes(value).map_err(|_| invalid("value"))?;
    Ok((name.parse().map_err(|_| invalid("name"))?, value))
}
