//! Clients that leave: what was opened for them is closed at once, and their outcome tells it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on fails

mod support;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use relay::{End, Forwarding, Options};
use support::{Client, Owned, STREAM_HEAD, Worker, answer, forward_to, on_arrival, options, wait_until};

/// Closing the upstream may take no longer than this.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A worker that sends `start` of an answer, then reports whether its connection was closed in time.
fn silent_after(start: &'static str) -> (Worker, mpsc::Receiver<bool>, mpsc::Receiver<()>) {
    let ((closed, closed_in_time), (started, has_started)) = (mpsc::channel(), mpsc::channel());
    let worker = Worker::new(move |mut wire, _| {
        wire.read_request();
        wire.send(start);
        started.send(()).unwrap();
        closed.send(wire.sees_close_within(support::SOON)).unwrap();
    });
    (worker, closed_in_time, has_started)
}

fn leaving_closes_upstream(start: &'static str, read_past: &str, leave: fn(Client)) {
    leaving_with_more_behind(start, read_past, "", leave);
}

fn leaving_with_more_behind(start: &'static str, read_past: &str, behind: &str, leave: fn(Client)) {
    let (worker, closed, started) = silent_after(start);
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.post("/v1/completions", "{}");
    client.send(behind);
    started.recv_timeout(support::SOON).unwrap();
    client.read_past(read_past);
    leave(client);
    assert_eq!(
        closed.recv_timeout(AT_ONCE),
        Ok(true),
        "the worker's connection is closed"
    );
    let outcome = owned.await_outcome();
    assert_eq!((outcome.end, outcome.forwarded), (End::ClientGone, true));
    assert!(outcome.started_at.is_some());
    assert_eq!(owned.relay.in_flight(), 0);
}

#[test]
fn before_the_worker_has_answered() {
    leaving_closes_upstream("", "", Client::finish);
    leaving_closes_upstream("", "", Client::reset);
}

#[test]
fn after_the_head_and_before_the_first_byte() {
    leaving_closes_upstream(STREAM_HEAD, "\r\n\r\n", Client::finish);
}

#[test]
fn with_more_behind_the_request() {
    // A line end too many, as some clients send; the beginning of a next request; some requests.
    let next = "POST /next HTTP/1.1\r\nHost: r\r\nContent-Length: 2\r\n\r\n{}";
    for behind in ["\r\n", "G", next, &next.repeat(500)] {
        leaving_with_more_behind("", "", behind, Client::finish);
        leaving_with_more_behind("", "", behind, Client::reset);
        leaving_with_more_behind(STREAM_HEAD, "\r\n\r\n", behind, Client::finish);
    }
}

#[test]
fn within_a_stream_whose_worker_is_silent() {
    let started = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
                   9\r\ndata: 1\n\n\r\n";
    leaving_closes_upstream(started, "data: 1\n\n", Client::finish);
    leaving_closes_upstream(started, "data: 1\n\n", Client::reset);
}

#[test]
fn while_the_worker_still_reads_the_request() {
    let ((closed, has_closed), (started, has_started)) = (mpsc::channel(), mpsc::channel());
    let worker = Worker::new(move |mut wire, _| {
        wire.read_past("\r\n\r\n");
        started.send(()).unwrap();
        // It reads no further until the client has left; then what is in the buffers, and the end.
        thread::sleep(Duration::from_millis(300));
        while wire.fill() {}
        closed.send(()).unwrap();
    });
    let large = Options {
        max_body_bytes: 64 << 20,
        ..options()
    };
    let owned = Owned::new(large, forward_to(vec![worker.url()]));
    let mut client = owned.client();
    client.post("/v1/completions", &"x".repeat(32 << 20));
    has_started.recv_timeout(support::SOON).unwrap();
    client.finish();
    let outcome = owned.await_outcome();
    assert_eq!((outcome.end, outcome.forwarded), (End::ClientGone, true));
    has_closed.recv_timeout(AT_ONCE).unwrap();
}

#[test]
fn while_the_owner_is_deciding() {
    let worker = Worker::answering(answer("", "late"));
    let url = worker.url();
    let owned = Owned::new(options(), on_arrival(|_, _| {}));
    let mut client = owned.client();
    client.post("/", "{}");
    wait_until("arrival", || owned.arrivals() == 1);
    client.finish();
    let outcome = owned.await_outcome();
    assert_eq!(
        (outcome.end, outcome.status, outcome.forwarded),
        (End::ClientGone, None, false)
    );
    owned.relay.forward(outcome.request_id, &Forwarding::to(&url)).unwrap();
    owned.relay.respond(outcome.request_id, 200, &[], "x".into()).unwrap();
    thread::sleep(Duration::from_millis(50));
    assert_eq!((worker.connections(), owned.outcomes().len()), (0, 1));
}

#[test]
fn within_the_upload() {
    let owned = Owned::new(
        options(),
        on_arrival(|_, _| panic!("an incomplete request must not arrive")),
    );
    for begun in ["POS", "POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 10\r\n\r\nhalf"] {
        let mut client = owned.client();
        client.send(begun);
        thread::sleep(Duration::from_millis(30));
        client.finish();
    }
    thread::sleep(Duration::from_millis(50));
    let outcome = owned.await_outcome();
    assert_eq!((outcome.end, outcome.forwarded), (End::ClientGone, false));
    assert_eq!((owned.relay.in_flight(), owned.arrivals()), (0, 0));
}

#[test]
fn a_slow_client_is_given_up() {
    let patience = Duration::from_millis(200);
    let owned = Owned::new(
        Options {
            head_timeout: patience,
            ..options()
        },
        on_arrival(|_, _| {}),
    );
    let mut half_head = owned.client();
    half_head.send("POST /v1/comp");
    assert!(
        half_head
            .try_read_response()
            .is_none_or(|response| response.status() == 408)
    );
    let mut half_body = owned.client();
    half_body.send("POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 10\r\n\r\nhalf");
    assert_eq!(half_body.read_response().status(), 408);
    assert!(half_body.sees_close_within(AT_ONCE));
    let outcome = owned.await_outcome();
    assert_eq!(
        (outcome.end, outcome.status, owned.arrivals()),
        (End::RefusedByRelay, Some(408), 0)
    );
}

/// Pseudo-random numbers from a fixed seed, so that a failure can be seen again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[test]
fn a_hundred_departures_at_random_points_leave_nothing_behind() {
    let worker = Worker::new(|mut wire, _| {
        while wire.read_request().is_some() {
            thread::sleep(Duration::from_millis(5));
            wire.send(STREAM_HEAD);
            for _ in 0..4 {
                wire.chunk(b"data: 1\n\n");
                thread::sleep(Duration::from_millis(3));
            }
            wire.send("0\r\n\r\n");
        }
    });
    let owned = Owned::new(options(), forward_to(vec![worker.url()]));
    let request =
        "POST /v1/completions HTTP/1.1\r\nHost: r\r\nContent-Length: 300\r\n\r\n".to_owned() + &"x".repeat(300);
    let mut dice = Dice(7);
    for _ in 0..100 {
        let mut client = owned.client();
        let sent = if dice.roll(4) == 0 {
            usize::try_from(dice.roll(350)).unwrap()
        } else {
            request.len()
        };
        client.send(&request[..sent.min(request.len())]);
        thread::sleep(Duration::from_micros(dice.roll(25_000)));
        if dice.roll(2) == 0 {
            client.finish();
        } else {
            client.reset();
        }
    }
    let mut arrived = Vec::new();
    wait_until("an outcome for each arrival", || {
        arrived = owned.arrived();
        let ended: Vec<u64> = owned.outcomes().iter().map(|outcome| outcome.request_id).collect();
        owned.relay.in_flight() == 0 && arrived.iter().all(|id| ended.contains(id))
    });
    assert!(arrived.len() > 50, "{} requests were whole", arrived.len());
    let gone = owned
        .outcomes()
        .iter()
        .filter(|outcome| outcome.end == End::ClientGone)
        .count();
    assert!(gone > 20, "{gone} of 100 left early enough to count");
    let mut ids: Vec<u64> = owned.outcomes().iter().map(|outcome| outcome.request_id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), owned.outcomes().len(), "one outcome each");
}
