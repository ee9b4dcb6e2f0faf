//! Reading a request's body whole, within limits.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::EXPECT;
use http::{HeaderMap, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::held_bytes::Share;
use crate::options::Options;
use crate::refusal::Refusal;
use crate::upstream::whole;

/// A body of unknown truthfulness is not given more memory than this before its bytes are here.
const FIRST_RESERVATION: usize = 1024 * 1024;
/// How long a body that is too large is read on: a client that still writes would not see the answer before the
/// connection is reset.
const DRAIN: Duration = Duration::from_secs(1);

/// Why a body was not read.
#[derive(Debug)]
pub enum Unread {
    /// The client is to be told.
    Refused(Refusal),
    /// There is nobody to be told.
    ClientGone,
}

/// Read `body` to its end; `share` grows with it.
pub async fn read(body: Incoming, headers: &HeaderMap, options: &Options, share: &mut Share) -> Result<Bytes, Unread> {
    let limit = options.max_body_bytes;
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > limit {
        // One who asks first has not begun to write, and is told at once.
        if !headers.contains_key(EXPECT) {
            drain(body).await;
        }
        return Err(too_large(limit));
    }
    collect(body, declared, options, share).await
}

async fn collect(mut body: Incoming, declared: usize, options: &Options, share: &mut Share) -> Result<Bytes, Unread> {
    let mut whole = Collected::new(declared);
    let began = Instant::now();
    loop {
        let patience = patience(options, whole.len(), began.elapsed());
        let frame = match timeout(patience, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(unreadable(&error)),
            Ok(None) => return Ok(whole.finish()),
            Err(_) => return Err(too_slow(whole.len())),
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if whole.len() + data.len() > options.max_body_bytes {
            drain(body).await;
            return Err(too_large(options.max_body_bytes));
        }
        if !share.grow(data.len()) {
            drain(body).await;
            return Err(busy());
        }
        whole.push(data);
    }
}

/// The bytes so far; a body that came in one piece is not copied.
struct Collected {
    first: Bytes,
    rest: BytesMut,
    declared: usize,
}

impl Collected {
    fn new(declared: usize) -> Self {
        Self {
            first: Bytes::new(),
            rest: BytesMut::new(),
            declared,
        }
    }

    fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    fn push(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        if self.rest.is_empty() {
            self.rest.reserve(
                self.declared
                    .clamp(self.len() + data.len(), FIRST_RESERVATION.max(self.len() + data.len())),
            );
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.rest.extend_from_slice(&data);
    }

    fn finish(self) -> Bytes {
        if self.rest.is_empty() {
            self.first
        } else {
            self.rest.freeze()
        }
    }
}

async fn drain(mut body: Incoming) {
    let reading = async { while let Some(Ok(_)) = body.frame().await {} };
    // Whether it ended or not, the answer is the same.
    let _ = timeout(DRAIN, reading).await;
}

fn too_large(limit: usize) -> Unread {
    let message = format!("the request body is larger than {limit} bytes");
    Unread::Refused(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message))
}

/// How long the next piece may take: a body comes without long pauses, and as a whole at some rate, so that a byte now
/// and then does not hold a connection for hours.
fn patience(options: &Options, received: usize, elapsed: Duration) -> Duration {
    let at_the_rate =
        Duration::from_secs(received as u64) / u32::try_from(options.min_body_rate.max(1)).unwrap_or(u32::MAX);
    let whole = options.head_timeout.saturating_add(at_the_rate);
    options.head_timeout.min(whole.saturating_sub(elapsed))
}

fn busy() -> Unread {
    let message = "the router holds as many request bodies as it may";
    Unread::Refused(Refusal {
        retry_after: Some(1),
        ..Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "router_busy", message)
    })
}

fn too_slow(received: usize) -> Unread {
    let message = format!("the request body came too slowly: {received} bytes so far");
    Unread::Refused(Refusal::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message))
}

fn unreadable(error: &hyper::Error) -> Unread {
    if client_left(error) {
        return Unread::ClientGone;
    }
    let message = format!("the request body cannot be read: {}", whole(error));
    Unread::Refused(Refusal::new(StatusCode::BAD_REQUEST, "body_unreadable", message))
}

/// The connection ended within the body, unlike a body whose bytes make no sense.
fn client_left(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    // Without such a cause it is HTTP/2's: the stream has been reset, so nobody can be told.
    let ended = cause.is_none_or(|cause| {
        matches!(
            cause.kind(),
            ErrorKind::UnexpectedEof
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
        )
    });
    ended || error.is_incomplete_message()
}
