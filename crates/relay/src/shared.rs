//! What all threads of a relay share.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::sync::{mpsc, watch};

use crate::header::Overrides;
use crate::held_bytes::HeldBytes;
use crate::listener::Listeners;
use crate::mailbox::Mailbox;
use crate::options::Options;
use crate::pool::Pool;
use crate::tls::ServerTls;

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
    pub tls: ServerTls,
    pub held_bytes: Arc<HeldBytes>,
    /// How far a close has come.
    pub stage: watch::Sender<Stage>,
    /// The same as the last stage, to be asked for each piece of an answer.
    grace_is_over: AtomicBool,
    next_id: AtomicU64,
    in_flight: AtomicUsize,
    commands: Mutex<HashMap<u64, mpsc::UnboundedSender<Command>>>,
    connections: Mutex<Connections>,
    connection_closed: Condvar,
}

#[derive(Default)]
struct Connections {
    open: usize,
    /// Until when a close waits for them.
    deadline: Option<Instant>,
}

/// How far a close has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Stage {
    Serving,
    /// No further connections are taken.
    Stopping,
    /// The grace is over: what is still open ends at once.
    Ending,
}

impl Shared {
    pub fn new(options: Options) -> io::Result<Self> {
        Ok(Self {
            options,
            mailbox: Mailbox::new()?,
            pool: Pool::new(options),
            listeners: Listeners::default(),
            tls: ServerTls::default(),
            held_bytes: HeldBytes::new(options.max_held_bytes),
            stage: watch::Sender::new(Stage::Serving),
            grace_is_over: AtomicBool::new(false),
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
        lock(&self.connections).open += 1;
    }

    pub fn connection_closed(&self) {
        lock(&self.connections).open -= 1;
        self.connection_closed.notify_all();
    }

    pub fn is_stopping(&self) -> bool {
        *self.stage.borrow() >= Stage::Stopping
    }

    pub fn stop(&self) {
        self.stage.send_if_modified(|stage| {
            let serving = *stage == Stage::Serving;
            if serving {
                *stage = Stage::Stopping;
            }
            serving
        });
    }

    pub fn end_grace(&self) {
        self.grace_is_over.store(true, Ordering::Release);
        self.stage.send_replace(Stage::Ending);
    }

    pub fn grace_is_over(&self) -> bool {
        self.grace_is_over.load(Ordering::Acquire)
    }

    /// What `future` gives, or None once the grace is over. The task is woken for that by its connection.
    pub async fn within_grace<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if self.grace_is_over() {
                return Poll::Ready(None);
            }
            future.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Wait until the last client connection is closed, at most until `deadline` or that of another call.
    pub fn wait_for_connections(&self, deadline: Instant) {
        let mut connections = lock(&self.connections);
        let earliest = connections.deadline.map_or(deadline, |other| other.min(deadline));
        connections.deadline = Some(earliest);
        // Another call may wait for longer.
        self.connection_closed.notify_all();
        while connections.open > 0 {
            let deadline = connections.deadline.unwrap_or(earliest);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.connection_closed.wait_timeout(connections, left);
            connections = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Wait until the last client connection is closed, at most `patience` longer than the grace.
    pub fn wait_for_last_words(&self, patience: Duration) {
        lock(&self.connections).deadline = None;
        self.wait_for_connections(Instant::now() + patience);
    }
}

/// Nothing panics while holding one of these locks, so a poisoned one is as good as any.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
