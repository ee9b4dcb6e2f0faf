//! What a client's connection is doing.
//!
//! The server's own timer cannot tell a client that rests between two requests from one that is slow to send a head.
//! The former may be a load balancer, which keeps connections for minutes and must not find them closed; the latter
//! must not hold a connection for long.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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

/// What one connection is doing.
pub struct Activity(Mutex<Phase>);

/// Held while a request is read and answered.
pub struct Busy(Arc<Activity>);

impl Activity {
    pub fn new() -> Arc<Self> {
        let since = Instant::now();
        Arc::new(Self(Mutex::new(Phase::Head { since })))
    }

    /// A request has been read up to its body.
    pub fn begin(self: &Arc<Self>) -> Busy {
        *lock(&self.0) = Phase::Busy;
        Busy(Arc::clone(self))
    }

    /// Something has come from the client.
    pub fn heard(&self) {
        let mut phase = lock(&self.0);
        if matches!(*phase, Phase::Resting { .. }) {
            let since = Instant::now();
            *phase = Phase::Head { since };
        }
    }

    /// Return once a head has been on its way for longer than `patience`, or up to a quarter later.
    pub async fn too_slow(&self, patience: Duration) {
        loop {
            tokio::time::sleep(patience / 4).await;
            if matches!(*lock(&self.0), Phase::Head { since } if since.elapsed() > patience) {
                return;
            }
        }
    }

    /// Return once no request has been read or answered for longer than `patience`; at the earliest after a quarter.
    pub async fn unused(&self, patience: Duration) {
        loop {
            tokio::time::sleep(patience / 4).await;
            match *lock(&self.0) {
                Phase::Resting { since } | Phase::Head { since } if since.elapsed() > patience => return,
                _ => {}
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let since = Instant::now();
        *lock(&self.0.0) = Phase::Resting { since };
    }
}
