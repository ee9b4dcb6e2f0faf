//! The outcome of a request, sent exactly once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::activity::Busy;
use crate::clock::monotonic_s;
use crate::event::{AttemptFailed, End, Event, Failure, FirstByte, Outcome};
use crate::shared::Shared;
use crate::usage::Usage;

/// Collects a request's outcome and sends it when dropped, wherever that happens: whoever holds it last, the future
/// that waits for a decision or the body of the answer, is dropped when the client leaves and when the relay closes.
pub struct Settlement {
    shared: Arc<Shared>,
    outcome: Outcome,
    /// None until the request has ended by its own means.
    end: Option<End>,
    /// The client's connection is busy until then.
    _busy: Busy,
}

impl Settlement {
    pub fn new(shared: Arc<Shared>, request_id: u64, request_bytes: u64, busy: Busy) -> Self {
        let outcome = Outcome {
            request_id,
            status: None,
            end: End::ClientGone,
            forwarded: false,
            started_at: None,
            first_byte_at: None,
            ended_at: 0.0,
            request_bytes,
            response_bytes: 0,
            usage: Usage::default(),
            events: 0,
        };
        Self {
            shared,
            outcome,
            end: None,
            _busy: busy,
        }
    }

    pub fn attempt_started(&mut self) {
        self.outcome.forwarded = true;
        self.outcome.started_at = Some(monotonic_s());
    }

    pub fn attempt_failed(&mut self, failure: Failure, message: String) {
        self.outcome.forwarded = false;
        self.outcome.started_at = None;
        let request_id = self.outcome.request_id;
        let failed = AttemptFailed {
            request_id,
            failure,
            message,
            at: monotonic_s(),
        };
        self.shared.mailbox.push(Event::AttemptFailed(failed));
    }

    pub fn head_sent(&mut self, status: u16) {
        self.outcome.status = Some(status);
    }

    /// A piece of the answer's body goes to the client; the first one of a worker's answer is an event.
    pub fn carried(&mut self, bytes: usize) {
        self.outcome.response_bytes += bytes as u64;
        if self.outcome.first_byte_at.is_none() && self.outcome.forwarded && bytes > 0 {
            let at = monotonic_s();
            self.outcome.first_byte_at = Some(at);
            let status = self.outcome.status.unwrap_or(0);
            let first_byte = FirstByte {
                request_id: self.outcome.request_id,
                status,
                at,
            };
            self.shared.mailbox.push(Event::FirstByte(first_byte));
        }
    }

    pub fn tokens(&mut self, usage: Usage, events: u64) {
        self.outcome.usage = usage;
        self.outcome.events = events;
    }

    pub fn ended(&mut self, end: End) {
        self.end.get_or_insert(end);
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        let cut_off = if self.shared.aborting.load(Ordering::Acquire) {
            End::Shutdown
        } else {
            End::ClientGone
        };
        self.outcome.end = self.end.unwrap_or(cut_off);
        self.outcome.ended_at = monotonic_s();
        // Ended before told: one who has seen the outcome no longer finds the request in flight.
        self.shared.end(self.outcome.request_id);
        self.shared.mailbox.push(Event::Outcome(Box::new(self.outcome.clone())));
    }
}
