//! The outcome of a request, sent exactly once.

use std::borrow::Cow;
use std::sync::Arc;

use crate::activity::Busy;
use crate::clock::monotonic_s;
use crate::event::{AttemptFailed, End, Event, Failure, FirstByte, Outcome};
use crate::held_bytes::Share;
use crate::shared::Shared;
use crate::usage::Usage;

/// Collects a request's outcome and sends it when dropped, wherever that happens: whoever holds it last, the future
/// that waits for a decision or the body of the answer, is dropped when the client leaves and when the relay closes.
pub struct Settlement {
    shared: Arc<Shared>,
    outcome: Outcome,
    /// None until the request has ended by its own means.
    end: Option<End>,
    /// Somebody waits for the event of the first byte.
    tell_first_byte: bool,
    /// The client's connection is busy until then.
    busy: Busy,
    /// The body may be kept by the owner until then.
    share: Option<Share>,
}

impl Settlement {
    pub fn new(shared: Arc<Shared>, request_id: u64, busy: Busy) -> Self {
        let outcome = Outcome {
            request_id,
            status: None,
            end: End::ClientGone,
            reason: None,
            forwarded: false,
            started_at: None,
            first_byte_at: None,
            ended_at: 0.0,
            request_bytes: 0,
            response_bytes: 0,
            usage: Usage::default(),
            events: 0,
        };
        Self {
            shared,
            outcome,
            end: None,
            tell_first_byte: false,
            busy,
            share: None,
        }
    }

    /// The body is whole; its share of the memory is kept until the request has ended.
    pub fn body_read(&mut self, bytes: usize, share: Share) {
        self.outcome.request_bytes = bytes as u64;
        self.share = Some(share);
    }

    pub fn attempt_started(&mut self, tell_first_byte: bool) {
        self.outcome.forwarded = true;
        self.outcome.started_at = Some(monotonic_s());
        self.tell_first_byte = tell_first_byte;
    }

    /// Gives back when the attempt had started.
    pub fn attempt_failed(&mut self, failure: Failure, message: String) -> Option<f64> {
        self.tell_attempt_failed(failure, message, None, None)
    }

    /// As a failed attempt, of which an answer is left that may still be passed on.
    pub fn held(&mut self, status: u16, retry_after_s: Option<f64>) -> Option<f64> {
        let message = format!("the worker answered with status {status}");
        self.tell_attempt_failed(Failure::Held, message, Some(status), retry_after_s)
    }

    /// The answer that was held back goes to the client after all.
    pub fn resumed(&mut self, started_at: Option<f64>) {
        self.outcome.forwarded = true;
        self.outcome.started_at = started_at;
        self.tell_first_byte = false;
    }

    fn tell_attempt_failed(
        &mut self,
        failure: Failure,
        message: String,
        status: Option<u16>,
        retry_after_s: Option<f64>,
    ) -> Option<f64> {
        self.outcome.forwarded = false;
        let failed = AttemptFailed {
            request_id: self.outcome.request_id,
            failure,
            message,
            status,
            retry_after_s,
            at: monotonic_s(),
        };
        self.shared.mailbox.push(Event::AttemptFailed(failed));
        self.outcome.started_at.take()
    }

    /// The relay refuses the request by itself, with this word.
    pub fn refused(&mut self, reason: &'static str) {
        self.outcome.reason = Some(Cow::Borrowed(reason));
    }

    pub fn head_sent(&mut self, status: u16) {
        self.outcome.status = Some(status);
    }

    /// The client's connection asks for the next piece.
    pub fn asked(&mut self) {
        self.busy.delivered();
    }

    /// A piece of the answer's body goes to the client; the first one of a worker's answer is an event.
    pub fn carried(&mut self, bytes: usize) {
        self.busy.handed_over();
        self.outcome.response_bytes += bytes as u64;
        if self.outcome.first_byte_at.is_none() && self.outcome.forwarded && bytes > 0 {
            let at = monotonic_s();
            self.outcome.first_byte_at = Some(at);
            if !self.tell_first_byte {
                return;
            }
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
        let cut_off = if self.shared.grace_is_over() {
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
