//! Limits and times of a relay.

use std::time::Duration;

/// Limits and times of a relay; the defaults live with the one who declares the options to people.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads that carry the bytes.
    pub threads: usize,
    /// Largest request body; a larger one is refused with 413.
    pub max_body_bytes: usize,
    /// Bytes of request bodies held at once by all open requests; what would exceed them is refused with 503.
    pub max_held_bytes: usize,
    /// Time to connect to a worker.
    pub connect_timeout: Duration,
    /// Time a worker may take from the request to the head of its answer.
    pub first_byte_timeout: Duration,
    /// Time a worker may be silent within the body of its answer.
    pub idle_timeout: Duration,
    /// Time an idle connection to a worker is kept.
    pub pool_idle: Duration,
    /// Time a client may take to send a request head, and between two pieces of a request body.
    pub head_timeout: Duration,
    /// Bytes per second that a request body must come at, after the time for a head.
    pub min_body_rate: usize,
    /// Time a client may rest between two requests.
    pub client_idle: Duration,
    /// Time a client may take nothing of its answer.
    pub client_write_timeout: Duration,
    /// Serve clients that end their sending side with the request. That they left is then noticed only when writing.
    pub half_close: bool,
    /// Requests that an HTTP/2 connection may have open.
    pub h2_streams: u32,
    /// Time after which a silent HTTP/2 connection is asked for a sign of life, and within which it must give one.
    pub h2_ping: Duration,
}
