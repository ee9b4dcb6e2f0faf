//! What all threads of a relay share.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::sync::{mpsc, watch};

use crate::header::Overrides;
use crate::listener::Listeners;
use crate::mailbox::Mailbox;
use crate::options::Options;
use crate::pool::Pool;

/// What the owner decided about a request.
pub enum Command {
    Forward(Forward),
    /// Send the answer that is held back to the client.
    PassOn,
    Respond(OwnAnswer),
}

/// Ask the worker at `base_url`.
pub struct Forward {
    pub base_url: String,
    pub request_headers: Overrides,
    pub response_headers: Overrides,
    /// Statuses of answers to hold back.
    pub hold: Vec<u16>,
    pub tell_first_byte: bool,
}

/// An answer of the owner's own.
pub struct OwnAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Options, queue, pool and the requests that are open.
pub struct Shared {
    pub options: Options,
    pub mailbox: Mailbox,
    pub pool: Pool,
    pub listeners: Listeners,
    /// True once no further connections are taken.
    pub stopping: watch::Sender<bool>,
    /// True once what is still open is being aborted.
    pub aborting: AtomicBool,
    next_id: AtomicU64,
    in_flight: AtomicUsize,
    commands: Mutex<HashMap<u64, mpsc::UnboundedSender<Command>>>,
    connections: Mutex<usize>,
    connection_closed: Condvar,
}

impl Shared {
    pub fn new(options: Options) -> io::Result<Self> {
        Ok(Self {
            options,
            mailbox: Mailbox::new()?,
            pool: Pool::new(options),
            listeners: Listeners::default(),
            stopping: watch::Sender::new(false),
            aborting: AtomicBool::new(false),
            next_id: AtomicU64::new(1),
            in_flight: AtomicUsize::new(0),
            commands: Mutex::default(),
            connections: Mutex::default(),
            connection_closed: Condvar::new(),
        })
    }

    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Open a request for commands; it stays open until [`Shared::end`].
    pub fn begin(&self, request_id: u64) -> mpsc::UnboundedReceiver<Command> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        lock(&self.commands).insert(request_id, sender);
        receiver
    }

    pub fn end(&self, request_id: u64) {
        if lock(&self.commands).remove(&request_id).is_some() {
            self.in_flight.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Hand a decision to its request; one that has ended needs none.
    pub fn command(&self, request_id: u64, command: Command) {
        if let Some(sender) = lock(&self.commands).get(&request_id) {
            // The receiver may be gone already while its outcome is on the way.
            let _ = sender.send(command);
        }
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    pub fn connection_opened(&self) {
        *lock(&self.connections) += 1;
    }

    pub fn connection_closed(&self) {
        *lock(&self.connections) -= 1;
        self.connection_closed.notify_all();
    }

    /// Wait until the last client connection is closed, at most `grace`.
    pub fn wait_for_connections(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        let mut open = lock(&self.connections);
        while *open > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            open = self
                .connection_closed
                .wait_timeout(open, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

/// Nothing panics while holding one of these locks, so a poisoned one is as good as any.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
