//! One attempt at a worker: the request goes out, the head of an answer comes back, or it is clear why not.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT, HOST};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::event::Failure;
use crate::header::{self, Overrides};
use crate::pool::{Connection, Pool};
use crate::shared::Shared;
use crate::target::Target;

/// Of an answer that nobody wants: a refusal is a few hundred bytes.
const LARGEST_DISCARDED: usize = 64 * 1024;
const DISCARD_PATIENCE: Duration = Duration::from_secs(1);

/// Why there is no answer.
#[derive(Debug)]
pub struct AttemptError {
    pub failure: Failure,
    pub message: String,
}

impl AttemptError {
    pub fn reset(error: &hyper::Error) -> Self {
        Self {
            failure: Failure::Reset,
            message: format!("the worker closed the connection: {}", whole(error)),
        }
    }

    fn from_answer(error: &hyper::Error) -> Self {
        if error.is_parse() || error.is_parse_too_large() {
            return Self {
                failure: Failure::BadResponse,
                message: format!("not an HTTP answer: {}", whole(error)),
            };
        }
        Self::reset(error)
    }
}

/// The head of a worker's answer, its body to come, and the connection on which it comes.
pub struct Answered {
    pub response: Response<Incoming>,
    pub connection: Connection,
}

/// Ask the worker at `base_url`.
pub async fn ask(
    shared: &Shared,
    base_url: &str,
    head: &Parts,
    overrides: &Overrides,
    body: &Bytes,
) -> Result<Answered, AttemptError> {
    let refused = |message| AttemptError {
        failure: Failure::Refused,
        message,
    };
    let target = Target::parse(base_url).map_err(refused)?;
    let request = build(&target, head, overrides, body).map_err(refused)?;
    let patience = shared.options.first_byte_timeout;
    match timeout(patience, ask_target(&shared.pool, &target, &request)).await {
        Ok(result) => result.and_then(fit),
        Err(_) => Err(AttemptError {
            failure: Failure::FirstByteTimeout,
            message: format!("it did not begin its answer within {:.1} s", patience.as_secs_f64()),
        }),
    }
}

/// An answer that can be passed on: one of another protocol, or whose coding nobody would hear of, cannot.
fn fit(answered: Answered) -> Result<Answered, AttemptError> {
    let why = if answered.response.status() == StatusCode::SWITCHING_PROTOCOLS {
        "it switched to a protocol that nobody asked for"
    } else if header::has_foreign_coding(answered.response.headers()) {
        "its answer has a transfer coding other than chunked"
    } else {
        return Ok(answered);
    };
    Err(AttemptError {
        failure: Failure::BadResponse,
        message: why.to_owned(),
    })
}

/// Ask on a kept connection, then, if the worker had closed it before anything came back, once on a new one.
async fn ask_target(pool: &Pool, target: &Target, request: &Request<Full<Bytes>>) -> Result<Answered, AttemptError> {
    if let Some(connection) = pool.take(target) {
        match exchange(connection, request.clone()).await {
            Err(Unanswered { silent: true, error }) if !error.is_parse() => {}
            result => {
                return result.map_err(|unanswered| AttemptError::from_answer(&unanswered.error));
            }
        }
    }
    let connection = pool.connect(target).await?;
    exchange(connection, request.clone())
        .await
        .map_err(|unanswered| AttemptError::from_answer(&unanswered.error))
}

/// Read what is left of an answer that nobody wants, so that its connection serves again; a long or slow one is closed.
pub fn discard(shared: &Arc<Shared>, answered: Answered) {
    let Answered { response, connection } = answered;
    let (shared, body) = (shared.clone(), Limited::new(response.into_body(), LARGEST_DISCARDED));
    tokio::spawn(async move {
        if let Ok(Ok(_)) = timeout(DISCARD_PATIENCE, body.collect()).await {
            shared.pool.put(connection);
        }
    });
}

struct Unanswered {
    error: hyper::Error,
    /// Nothing came back: the worker cannot have begun to answer.
    silent: bool,
}

async fn exchange(mut connection: Connection, request: Request<Full<Bytes>>) -> Result<Answered, Unanswered> {
    connection.about_to_ask();
    match connection.sender.send_request(request).await {
        Ok(response) => Ok(Answered { response, connection }),
        Err(error) => Err(Unanswered {
            error,
            silent: !connection.heard_anything(),
        }),
    }
}

/// The client's request as the worker gets it.
fn build(target: &Target, head: &Parts, overrides: &Overrides, body: &Bytes) -> Result<Request<Full<Bytes>>, String> {
    let mut request = Request::new(Full::new(body.clone()));
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = target
        .uri(&head.uri)
        .map_err(|error| format!("no such target on this worker: {error}"))?;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = headers(target, &head.headers, overrides);
    Ok(request)
}

fn headers(target: &Target, original: &HeaderMap, overrides: &Overrides) -> HeaderMap {
    let mut headers = original.clone();
    header::strip_hop_by_hop(&mut headers);
    // The body is here already and is sent at once.
    headers.remove(EXPECT);
    // Written anew from the body, which may have come in chunks.
    headers.remove(CONTENT_LENGTH);
    header::set(&mut headers, overrides);
    headers.insert(HOST, target.authority.clone());
    headers
}

/// An error with its causes.
pub fn whole(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
