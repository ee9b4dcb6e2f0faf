//! One request from its head to the head of its answer: read, arrive, ask, answer.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use tokio::sync::mpsc;

use crate::activity::Busy;
use crate::answer::{Answer, Carried, OwnBody};
use crate::clock::monotonic_s;
use crate::dialect::Dialect;
use crate::event::{Arrival, End, Event};
use crate::header::{self, Overrides};
use crate::held_bytes::Share;
use crate::listener::Origin;
use crate::refusal::Refusal;
use crate::request_body::{self, Unread};
use crate::request_head;
use crate::retry_after;
use crate::settlement::Settlement;
use crate::shared::{Command, Forward, OwnAnswer, Shared};
use crate::upstream::{self, Answered, AttemptError};

/// Serve one request. Dropped by the server when the client leaves: the settlement then tells so, and a connection
/// to a worker that is waited for is closed.
pub async fn serve(shared: Arc<Shared>, request: Request<Incoming>, origin: Origin, busy: Busy) -> Response<Answer> {
    let received_at = monotonic_s();
    let request_id = shared.next_id();
    let (mut head, body) = request.into_parts();
    // Made before the body is read: the client may leave, or its connection break, at any moment from here on.
    let mut settlement = Settlement::new(shared.clone(), request_id, busy);
    let mut share = shared.held_bytes.share();
    match read_body(&shared, &head, body, &mut share).await {
        Ok(body) => {
            let commands = shared.begin(request_id);
            settlement.body_read(body.len(), share);
            request_head::complete(&mut head, &origin);
            shared
                .mailbox
                .push(arrival(request_id, &head, &body, origin, received_at));
            Exchange {
                shared,
                head,
                body,
                settlement,
                held: None,
            }
            .run(commands)
            .await
        }
        Err(unread) => {
            drop(share);
            refuse(settlement, &head, unread)
        }
    }
}

async fn read_body(shared: &Shared, head: &Parts, body: Incoming, share: &mut Share) -> Result<Bytes, Unread> {
    if let Some(refusal) = request_head::refused(head) {
        return Err(Unread::Refused(refusal));
    }
    let reading = request_body::read(body, &head.headers, &shared.options, share);
    shared
        .within_grace(reading)
        .await
        .unwrap_or_else(|| Err(Unread::Refused(stopping())))
}

fn stopping() -> Refusal {
    let message = "the router stops; send the request again";
    Refusal {
        retry_after: Some(1),
        ..Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "router_stopping", message)
    }
}

/// A request that waits for decisions.
struct Exchange {
    shared: Arc<Shared>,
    head: Parts,
    body: Bytes,
    settlement: Settlement,
    held: Option<Held>,
}

/// An answer of a worker's that waits until the owner knows whether another worker does better.
struct Held {
    answered: Answered,
    response_headers: Overrides,
    started_at: Option<f64>,
}

impl Exchange {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) -> Response<Answer> {
        let shared = self.shared.clone();
        loop {
            let Some(command) = shared.within_grace(commands.recv()).await else {
                return self.stop();
            };
            let held = self.held.take();
            // The sender is kept until the settlement, which is here, is dropped.
            match (
                command.unwrap_or_else(|| unreachable!("a request lost its owner")),
                held,
            ) {
                (Command::PassOn, Some(held)) => {
                    self.settlement.resumed(held.started_at);
                    return self.carry(held.answered, &held.response_headers);
                }
                (Command::PassOn, None) => {}
                (Command::Respond(answer), held) => {
                    self.discard(held);
                    return respond(self.settlement, &self.head.method, answer, End::Completed);
                }
                (Command::Forward(forward), held) => {
                    self.discard(held);
                    match shared.within_grace(self.ask(&forward)).await {
                        Some(Ok(answered)) if forward.hold.contains(&answered.response.status().as_u16()) => {
                            self.hold(answered, forward.response_headers);
                        }
                        Some(Ok(answered)) => return self.carry(answered, &forward.response_headers),
                        Some(Err(error)) => drop(self.settlement.attempt_failed(error.failure, error.message)),
                        None => return self.stop(),
                    }
                }
            }
        }
    }

    /// The grace of a close is over before there is an answer.
    fn stop(self) -> Response<Answer> {
        let answer = stopping().answer(self.head.uri.path());
        closing(respond(self.settlement, &self.head.method, answer, End::Shutdown))
    }

    fn hold(&mut self, answered: Answered, response_headers: Overrides) {
        let retry_after_s = retry_after::seconds(answered.response.headers(), SystemTime::now());
        let started_at = self.settlement.held(answered.response.status().as_u16(), retry_after_s);
        self.held = Some(Held {
            answered,
            response_headers,
            started_at,
        });
    }

    fn discard(&self, held: Option<Held>) {
        if let Some(held) = held {
            upstream::discard(&self.shared, held.answered);
        }
    }

    async fn ask(&mut self, forward: &Forward) -> Result<Answered, AttemptError> {
        self.settlement.attempt_started(forward.tell_first_byte);
        upstream::ask(
            &self.shared,
            &forward.base_url,
            &self.head,
            &forward.request_headers,
            &self.body,
        )
        .await
    }

    fn carry(mut self, mut answered: Answered, overrides: &Overrides) -> Response<Answer> {
        self.settlement.head_sent(answered.response.status().as_u16());
        let dialect = Dialect::of_path(self.head.uri.path());
        let mut response = Response::new(());
        *response.status_mut() = answered.response.status();
        *response.version_mut() = Version::HTTP_11;
        *response.extensions_mut() = std::mem::take(answered.response.extensions_mut());
        header::drop_overruled_length(answered.response.headers_mut());
        header::strip_hop_by_hop(answered.response.headers_mut());
        let mut headers = answered.response.headers().clone();
        header::set(&mut headers, overrides);
        *response.headers_mut() = headers;
        let body = Carried::new(self.shared, answered, self.settlement, dialect);
        response.map(|()| Answer::Carried(Box::new(body)))
    }
}

fn arrival(request_id: u64, head: &Parts, body: &Bytes, origin: Origin, received_at: f64) -> Event {
    Event::Arrival(Box::new(Arrival {
        request_id,
        method: head.method.clone(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or("").to_owned(),
        headers: head.headers.clone(),
        body: body.clone(),
        client: origin.client,
        received_at,
        listener: origin.listener,
    }))
}

fn respond(mut settlement: Settlement, method: &Method, answer: OwnAnswer, end: End) -> Response<Answer> {
    settlement.head_sent(answer.status.as_u16());
    let bodiless = method == Method::HEAD || matches!(answer.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let mut headers = answer.headers;
    header::strip_hop_by_hop(&mut headers);
    // Written anew from the body.
    headers.remove(CONTENT_LENGTH);
    let mut response = Response::new(Answer::Own(Box::new(OwnBody::new(
        answer.body,
        settlement,
        end,
        bodiless,
    ))));
    *response.status_mut() = answer.status;
    *response.headers_mut() = headers;
    response
}

fn refuse(mut settlement: Settlement, head: &Parts, unread: Unread) -> Response<Answer> {
    let refusal = match unread {
        Unread::Refused(refusal) => {
            settlement.refused(refusal.code);
            refusal
        }
        Unread::ClientGone => {
            settlement.ended(End::ClientGone);
            Refusal::new(StatusCode::BAD_REQUEST, "", "")
        }
    };
    let answer = refusal.answer(head.uri.path());
    // What is left of the body would be taken for the next request.
    closing(respond(settlement, &head.method, answer, End::RefusedByRelay))
}

fn closing(mut response: Response<Answer>) -> Response<Answer> {
    // HTTP/2 has no such header, and its server leaves it out.
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}
