//! Answers that are held back until the owner knows whether another worker does better.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on fails

mod support;

use std::time::Duration;

use relay::{End, Event, Failure, Forwarding, Relay};
use support::{Owned, Policy, Worker, answer, options, pair};

const BUSY: &str = "HTTP/1.1 429 Slow Down\r\nRetry-After: 2\r\nX-Mine: w\r\nContent-Length: 4\r\n\r\nbusy";

/// Holds 429 back at the first of `urls`; what comes then is decided by `then`.
fn holding(url: String, then: impl Fn(&Relay, u64) + Send + 'static) -> Policy {
    let response_headers = [pair("x-mine", "router")];
    Box::new(move |relay, event| match event {
        Event::Arrival(arrival) => {
            let forwarding = Forwarding {
                hold: &[429, 503],
                response_headers: &response_headers,
                ..Forwarding::to(&url)
            };
            relay.forward(arrival.request_id, &forwarding).unwrap();
        }
        Event::AttemptFailed(failed) => then(relay, failed.request_id),
        _ => {}
    })
}

#[test]
fn a_held_answer_tells_its_status_and_passes_on_as_it_is() {
    let worker = Worker::answering(BUSY);
    let owned = Owned::new(options(), holding(worker.url(), Relay::pass_on));
    let mut client = owned.client();
    client.post("/", "");
    let response = client.read_response();
    assert_eq!(
        (response.start.as_str(), response.text()),
        ("HTTP/1.1 429 Slow Down", "busy")
    );
    assert_eq!(
        (response.header("retry-after"), response.header("x-mine")),
        (Some("2"), Some("router"))
    );
    let held = owned.failures().remove(0);
    assert_eq!(
        (held.failure, held.status, held.retry_after_s),
        (Failure::Held, Some(429), Some(2.0))
    );
    let outcome = owned.await_outcome();
    assert_eq!(
        (outcome.end, outcome.status, outcome.forwarded),
        (End::Completed, Some(429), true)
    );
    assert!(outcome.started_at.unwrap() <= held.at, "the attempt that is passed on");
    client.post("/", "");
    assert_eq!(client.read_response().text(), "busy");
    assert_eq!(worker.connections(), 1, "its connection is used again");
}

#[test]
fn another_worker_answers_instead_and_the_connection_of_the_held_one_serves_again() {
    let (busy, free) = (Worker::answering(BUSY), Worker::answering(answer("", "free")));
    let url = free.url();
    let owned = Owned::new(
        options(),
        holding(busy.url(), move |relay, id| {
            relay.forward(id, &Forwarding::to(&url)).unwrap();
        }),
    );
    let mut client = owned.client();
    for _ in 0..5 {
        client.post("/", "");
        assert_eq!(client.read_response().text(), "free");
        // The rest of the dropped answer is read beside the other one.
        std::thread::sleep(Duration::from_millis(20));
    }
    let outcomes = owned.await_outcomes(5);
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.end == End::Completed && outcome.status == Some(200))
    );
    assert_eq!(
        (busy.connections(), free.connections(), owned.failures().len()),
        (1, 1, 5)
    );
}

#[test]
fn the_owner_may_answer_instead() {
    let worker = Worker::answering(BUSY);
    let owned = Owned::new(
        options(),
        holding(worker.url(), |relay, id| {
            relay.respond(id, 503, &[], "full".into()).unwrap();
        }),
    );
    let mut client = owned.client();
    client.post("/", "");
    let response = client.read_response();
    assert_eq!(
        (response.status(), response.text(), response.header("retry-after")),
        (503, "full", None)
    );
    assert!(!owned.await_outcome().forwarded);
}

#[test]
fn other_statuses_are_not_held() {
    let worker = Worker::answering("HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno");
    let owned = Owned::new(options(), holding(worker.url(), |_, _| panic!("held")));
    let mut client = owned.client();
    client.post("/", "");
    assert_eq!(client.read_response().status(), 500);
}

#[test]
fn an_endless_answer_is_dropped_with_its_connection() {
    let worker = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.send("HTTP/1.1 503 Never\r\nTransfer-Encoding: chunked\r\n\r\n");
        while !wire.broken {
            wire.chunk(&[b'x'; 4096]);
        }
    });
    let other = Worker::answering(answer("", "ok"));
    let url = other.url();
    let owned = Owned::new(
        options(),
        holding(worker.url(), move |relay, id| {
            relay.forward(id, &Forwarding::to(&url)).unwrap();
        }),
    );
    let mut client = owned.client();
    for _ in 0..2 {
        client.post("/", "");
        assert_eq!(client.read_response().text(), "ok");
    }
    assert_eq!(worker.connections(), 2, "the first was not kept");
}

#[test]
fn a_client_that_leaves_a_held_answer_has_one_outcome() {
    let worker = Worker::answering(BUSY);
    let owned = Owned::new(options(), holding(worker.url(), |_, _| {}));
    let mut client = owned.client();
    client.post("/", "");
    support::wait_until("held answer", || !owned.failures().is_empty());
    client.finish();
    let outcome = owned.await_outcome();
    assert_eq!(
        (outcome.end, outcome.status, outcome.forwarded),
        (End::ClientGone, None, false)
    );
    owned.relay.pass_on(outcome.request_id);
    assert_eq!((owned.relay.in_flight(), owned.outcomes().len()), (0, 1));
}

#[test]
fn without_a_held_answer_passing_on_has_no_effect() {
    let worker = Worker::answering(answer("", "ok"));
    let url = worker.url();
    let owned = Owned::new(
        options(),
        support::on_arrival(move |relay, arrival| {
            relay.pass_on(arrival.request_id);
            relay.forward(arrival.request_id, &Forwarding::to(&url)).unwrap();
        }),
    );
    let mut client = owned.client();
    client.post("/", "");
    assert_eq!(client.read_response().text(), "ok");
}
