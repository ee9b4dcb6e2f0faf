//! One request from its head to the head of its answer: read, arrive, ask, answer.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use tokio::sync::mpsc;

use crate::activity::Busy;
use crate::answer::{Answer, Carried, Dialect, OwnBody};
use crate::clock::monotonic_s;
use crate::event::{Arrival, End, Event};
use crate::header::{self, Overrides};
use crate::request_body::{self, Unread};
use crate::settlement::Settlement;
use crate::shared::{Command, Forward, OwnAnswer, Shared};
use crate::upstream::{self, Answered, AttemptError};

/// Serve one request. Dropped by the server when the client leaves: the settlement then tells so, and a connection
/// to a worker that is waited for is closed.
pub async fn serve(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    client: SocketAddr,
    busy: Busy,
) -> Response<Answer> {
    let received_at = monotonic_s();
    let request_id = shared.next_id();
    let (head, body) = request.into_parts();
    match read_body(&shared, &head, body).await {
        Ok(body) => {
            let commands = shared.begin(request_id);
            let settlement = Settlement::new(shared.clone(), request_id, body.len() as u64, busy);
            shared
                .mailbox
                .push(arrival(request_id, &head, &body, client, received_at));
            Exchange {
                shared,
                head,
                body,
                settlement,
            }
            .run(commands)
            .await
        }
        Err(unread) => {
            let settlement = Settlement::new(shared, request_id, 0, busy);
            refuse(settlement, &head.method, unread)
        }
    }
}

async fn read_body(shared: &Shared, head: &Parts, body: Incoming) -> Result<Bytes, Unread> {
    if head.method == Method::CONNECT {
        // It asks for a tunnel, not for an answer.
        let message = "the router opens no tunnels".to_owned();
        return Err(Unread::Refused {
            status: StatusCode::METHOD_NOT_ALLOWED,
            message,
        });
    }
    request_body::read(body, &head.headers, &shared.options).await
}

/// A request that waits for decisions.
struct Exchange {
    shared: Arc<Shared>,
    head: Parts,
    body: Bytes,
    settlement: Settlement,
}

impl Exchange {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) -> Response<Answer> {
        loop {
            match commands.recv().await {
                Some(Command::Respond(answer)) => {
                    return respond(self.settlement, &self.head.method, answer, End::Completed);
                }
                Some(Command::Forward(forward)) => match self.ask(&forward).await {
                    Ok(answered) => return self.carry(answered, &forward.response_headers),
                    Err(error) => self.settlement.attempt_failed(error.failure, error.message),
                },
                // The sender is kept until the settlement, which is here, is dropped.
                None => unreachable!("a request lost its owner"),
            }
        }
    }

    async fn ask(&mut self, forward: &Forward) -> Result<Answered, AttemptError> {
        self.settlement.attempt_started();
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

fn arrival(request_id: u64, head: &Parts, body: &Bytes, client: SocketAddr, received_at: f64) -> Event {
    Event::Arrival(Box::new(Arrival {
        request_id,
        method: head.method.clone(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or("").to_owned(),
        headers: head.headers.clone(),
        body: body.clone(),
        client,
        received_at,
    }))
}

fn respond(mut settlement: Settlement, method: &Method, answer: OwnAnswer, end: End) -> Response<Answer> {
    settlement.head_sent(answer.status.as_u16());
    let bodiless = method == Method::HEAD || matches!(answer.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let mut headers = answer.headers;
    header::strip_hop_by_hop(&mut headers);
    // Written anew from the body.
    headers.remove(CONTENT_LENGTH);
    let mut response = Response::new(Answer::Own(OwnBody::new(answer.body, settlement, end, bodiless)));
    *response.status_mut() = answer.status;
    *response.headers_mut() = headers;
    response
}

fn refuse(mut settlement: Settlement, method: &Method, unread: Unread) -> Response<Answer> {
    let (status, message) = match unread {
        Unread::Refused { status, message } => (status, message),
        Unread::ClientGone => {
            settlement.ended(End::ClientGone);
            (StatusCode::BAD_REQUEST, String::new())
        }
    };
    let error = serde_json::json!({"error": {
        "message": message, "type": "invalid_request_error", "code": status.as_u16(),
    }});
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let answer = OwnAnswer {
        status,
        headers,
        body: error.to_string().into(),
    };
    let mut response = respond(settlement, method, answer, End::RefusedByRelay);
    // What is left of the body would be taken for the next request.
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
