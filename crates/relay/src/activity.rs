//! What a client's connection is doing.
//!
//! The server's own timer cannot tell a client that rests between two requests from one that is slow to send a head.
//! The former may be a load balancer, which keeps connections for minutes and must not find them closed; the latter
//! must not hold a connection for long.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::options::Options;
use crate::shared::lock;

#[derive(Clone, Copy)]
enum Phase {
    /// Between two requests.
    Resting { since: Instant },
    /// Within the head of a request, or before the first one.
    Head { since: Instant },
    /// A request is being read or answered.
    Busy,
}

struct State {
    phase: Phase,
    /// Requests being read or answered; more than one only where they are multiplexed.
    open: usize,
    multiplexed: bool,
    /// Answers of which a piece has been handed over that has not gone yet, where requests are multiplexed.
    undelivered: usize,
    /// When a piece last went.
    delivered_at: Instant,
}

/// What one connection is doing.
pub struct Activity(Mutex<State>);

/// Held while a request is read and answered.
pub struct Busy {
    activity: Arc<Activity>,
    multiplexed: bool,
    undelivered: bool,
}

impl Activity {
    pub fn new() -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self(Mutex::new(State {
            phase: Phase::Head { since: now },
            open: 0,
            multiplexed: false,
            undelivered: 0,
            delivered_at: now,
        })))
    }

    /// A request has been read up to its body.
    pub fn begin(self: &Arc<Self>, multiplexed: bool) -> Busy {
        let mut state = lock(&self.0);
        state.phase = Phase::Busy;
        state.open += 1;
        state.multiplexed = multiplexed;
        Busy {
            activity: Arc::clone(self),
            multiplexed,
            undelivered: false,
        }
    }

    /// Something has come from the client. Between multiplexed requests that need not be a head.
    pub fn heard(&self) {
        let mut state = lock(&self.0);
        if matches!(state.phase, Phase::Resting { .. }) && !state.multiplexed {
            let since = Instant::now();
            state.phase = Phase::Head { since };
        }
    }

    /// Return once the client has let the relay wait for too long, or up to a quarter of the head's time later.
    pub async fn too_slow(&self, options: &Options) {
        let tick = options.head_timeout.min(options.client_write_timeout) / 4;
        loop {
            tokio::time::sleep(tick).await;
            if lock(&self.0).is_too_slow(options) {
                return;
            }
        }
    }

    /// Return once no request has been read or answered for longer than `patience`; at the earliest after a quarter.
    /// At once where requests are multiplexed: that client is told which of its requests are still answered.
    pub async fn unused(&self, patience: Duration) {
        while !lock(&self.0).multiplexed {
            tokio::time::sleep(patience / 4).await;
            match lock(&self.0).phase {
                Phase::Resting { since } | Phase::Head { since } if since.elapsed() > patience => return,
                _ => {}
            }
        }
    }
}

impl State {
    fn is_too_slow(&self, options: &Options) -> bool {
        match self.phase {
            Phase::Head { since } => since.elapsed() > options.head_timeout,
            // The server itself sees to the others.
            Phase::Resting { since } => self.multiplexed && since.elapsed() > options.client_idle,
            Phase::Busy => self.undelivered > 0 && self.delivered_at.elapsed() > options.client_write_timeout,
        }
    }
}

impl Busy {
    /// A piece of the answer has been handed over. Its way over a connection of its own is watched by the socket.
    pub fn handed_over(&mut self) {
        if self.multiplexed && !self.undelivered {
            self.undelivered = true;
            let mut state = lock(&self.activity.0);
            if state.undelivered == 0 {
                state.delivered_at = Instant::now();
            }
            state.undelivered += 1;
        }
    }

    /// The next piece is asked for.
    pub fn delivered(&mut self) {
        if std::mem::take(&mut self.undelivered) {
            let mut state = lock(&self.activity.0);
            state.undelivered -= 1;
            state.delivered_at = Instant::now();
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.delivered();
        let mut state = lock(&self.activity.0);
        state.open -= 1;
        if state.open == 0 {
            let since = Instant::now();
            state.phase = Phase::Resting { since };
        }
    }
}
