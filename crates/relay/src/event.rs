//! What the relay tells its owner.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::usage::Usage;

/// Something that happened to a request, in the order it happened.
#[derive(Debug)]
pub enum Event {
    /// A request waits for a decision.
    Arrival(Box<Arrival>),
    /// The first byte of a worker's answer.
    FirstByte(FirstByte),
    /// A worker failed before the head of its answer; the client still waits.
    AttemptFailed(AttemptFailed),
    /// A request has ended.
    Outcome(Box<Outcome>),
}

/// A request whose head and body have been read. Times are seconds of `CLOCK_MONOTONIC`, here and below.
#[derive(Debug)]
pub struct Arrival {
    /// Names the request in every later call and event; never reused.
    pub request_id: u64,
    /// The method.
    pub method: Method,
    /// The path, always with its leading slash.
    pub path: String,
    /// The query without the question mark; empty if there is none.
    pub query: String,
    /// The headers as received.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// Address of the peer.
    pub client: SocketAddr,
    /// When the head had been read.
    pub received_at: f64,
    /// Name of the listener on which it came.
    pub listener: Arc<str>,
}

/// The first byte of the body of a worker's answer.
#[derive(Clone, Copy, Debug)]
pub struct FirstByte {
    /// The request.
    pub request_id: u64,
    /// Status of the answer.
    pub status: u16,
    /// When it came.
    pub at: f64,
}

/// An attempt that failed before the head of an answer, or whose answer is held back.
#[derive(Clone, Debug)]
pub struct AttemptFailed {
    /// The request.
    pub request_id: u64,
    /// How it failed.
    pub failure: Failure,
    /// The same for people.
    pub message: String,
    /// Status of an answer that is held back.
    pub status: Option<u16>,
    /// Seconds for which such an answer asks to be left alone.
    pub retry_after_s: Option<f64>,
    /// When.
    pub at: f64,
}

/// How an attempt failed before the head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection: refused, unreachable, or the name or URL of the worker does not lead anywhere.
    Refused,
    /// No connection in time.
    ConnectTimeout,
    /// The connection ended without an answer.
    Reset,
    /// Connected, but no answer in time.
    FirstByteTimeout,
    /// What came is not HTTP.
    BadResponse,
    /// Not the worker's fault: this process has no descriptor or port left.
    NoSocket,
    /// Not a failure of the connection: an answer came whose status is among those to hold back. It waits for
    /// `pass_on`, and is dropped by anything else.
    Held,
}

impl Failure {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::ConnectTimeout => "connect-timeout",
            Self::Reset => "reset",
            Self::FirstByteTimeout => "first-byte-timeout",
            Self::BadResponse => "bad-response",
            Self::NoSocket => "no-socket",
            Self::Held => "held",
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The whole answer was handed to the client's connection.
    Completed,
    /// The client left first.
    ClientGone,
    /// The worker failed within its answer.
    WorkerFailed,
    /// The relay refused the request by itself: body too large, too slow or broken. Such a request never arrived.
    RefusedByRelay,
    /// The relay was closed first.
    Shutdown,
}

impl End {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::ClientGone => "client-gone",
            Self::WorkerFailed => "worker-failed",
            Self::RefusedByRelay => "refused-by-relay",
            Self::Shutdown => "shutdown",
        }
    }
}

/// The end of a request; exactly one for each arrival, and one for each request that the relay refused or whose client
/// left before its body was whole.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The request.
    pub request_id: u64,
    /// Status of the answer, if its head was handed to the client's connection.
    pub status: Option<u16>,
    /// How it ended.
    pub end: End,
    /// The word of a refusal by the relay itself.
    pub reason: Option<Cow<'static, str>>,
    /// A worker was answering, or had been asked and had not failed.
    pub forwarded: bool,
    /// When that worker was asked.
    pub started_at: Option<f64>,
    /// When the first byte of its answer's body came.
    pub first_byte_at: Option<f64>,
    /// When the request ended.
    pub ended_at: f64,
    /// Bytes of the request's body.
    pub request_bytes: u64,
    /// Bytes of the answer's body handed to the client's connection.
    pub response_bytes: u64,
    /// What the worker reported of tokens.
    pub usage: Usage,
    /// Server-sent events with data.
    pub events: u64,
}
