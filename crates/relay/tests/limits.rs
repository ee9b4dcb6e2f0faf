//! Clients that take too long or hold too much.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on fails

mod support;

use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use relay::{End, Options};
use support::{Owned, STREAM_HEAD, Worker, answer, forward_to, on_arrival, options, recording, wait_until};

#[test]
fn a_body_that_trickles_is_given_up_as_a_whole() {
    let patience = Duration::from_millis(300);
    let limits = Options {
        head_timeout: patience,
        min_body_rate: 1000,
        ..options()
    };
    let owned = Owned::new(limits, on_arrival(|_, arrival| panic!("{arrival:?}")));
    let mut client = owned.client();
    client.send("POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 100000\r\n\r\n");
    let began = Instant::now();
    while owned.outcomes().is_empty() {
        assert!(
            began.elapsed() < support::SOON,
            "a byte now and then holds the connection"
        );
        client.send("x");
        thread::sleep(patience / 10);
    }
    let outcome = owned.await_outcome();
    assert_eq!((outcome.end, outcome.status), (End::RefusedByRelay, Some(408)));
    assert_eq!(outcome.reason.as_deref(), Some("body_timeout"));
}

#[test]
fn a_slow_body_at_the_rate_is_taken() {
    let limits = Options {
        head_timeout: Duration::from_millis(300),
        min_body_rate: 10,
        ..options()
    };
    let (worker, seen) = recording();
    let owned = Owned::new(limits, forward_to(vec![worker.url()]));
    let mut client = owned.client();
    client.send("POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 40\r\n\r\n");
    for _ in 0..8 {
        thread::sleep(Duration::from_millis(100));
        client.send("xxxxx");
    }
    assert_eq!(client.read_response().text(), "ok");
    assert_eq!(seen.lock().unwrap()[0].body.len(), 40);
}

#[test]
fn bodies_held_at_once_are_bounded() {
    let limits = Options {
        max_held_bytes: 1000,
        ..options()
    };
    let owned = Owned::new(
        limits,
        on_arrival(|relay, arrival| {
            if arrival.path == "/answered" {
                relay.respond(arrival.request_id, 200, &[], "ok".into()).unwrap();
            }
        }),
    );
    let mut holding = owned.client();
    holding.post("/held", &"x".repeat(900));
    wait_until("arrival", || owned.arrivals() == 1);
    let mut other = owned.client();
    other.post("/answered", &"x".repeat(200));
    let response = other.read_response();
    assert_eq!((response.status(), response.header("retry-after")), (503, Some("1")));
    assert!(response.text().contains("router_busy"), "{}", response.text());
    assert_eq!(owned.await_outcome().reason.as_deref(), Some("router_busy"));
    let mut small = owned.client();
    small.post("/answered", &"x".repeat(100));
    assert_eq!(small.read_response().text(), "ok");
    holding.finish();
    owned.await_outcomes(3);
    let mut again = owned.client();
    again.post("/answered", &"x".repeat(1000));
    assert_eq!(again.read_response().text(), "ok", "what was held is given back");
}

#[test]
fn a_client_that_reads_nothing_of_its_answer_is_cut_off() {
    let worker = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while !wire.broken {
            wire.chunk(&vec![b'x'; 64 * 1024]);
        }
    });
    let limits = Options {
        client_write_timeout: Duration::from_millis(300),
        ..options()
    };
    let owned = Owned::new(limits, forward_to(vec![worker.url()]));
    let mut client = owned.client();
    client.post("/", "");
    let outcome = owned.await_outcome();
    assert_eq!((outcome.end, owned.relay.in_flight()), (End::ClientGone, 0));
}

#[test]
fn a_client_that_reads_slowly_is_served() {
    let worker = Worker::answering(answer("", &"x".repeat(20 << 20)));
    let limits = Options {
        client_write_timeout: Duration::from_millis(400),
        ..options()
    };
    let owned = Owned::new(limits, forward_to(vec![worker.url()]));
    let mut client = owned.client();
    client.post("/", "");
    for _ in 0..15 {
        thread::sleep(Duration::from_millis(60));
        // Far more than a segment, so that the window opens.
        (0..128).for_each(|_| assert!(client.fill()));
    }
    assert_eq!(client.read_response().body.len(), 20 << 20);
    assert_eq!(owned.await_outcome().end, End::Completed);
}

/// A worker that answers a while after the request.
fn slow_worker() -> Worker {
    Worker::new(|mut wire, _| {
        wire.read_request();
        thread::sleep(Duration::from_millis(200));
        wire.send(answer("", "late"));
        wire.read_request();
    })
}

#[test]
fn a_client_that_closes_its_sending_side_counts_as_gone() {
    let owned = Owned::forwarding(options(), &slow_worker());
    let mut client = owned.client();
    client.post("/", "");
    wait_until("arrival", || owned.arrivals() == 1);
    client.socket.shutdown(Shutdown::Write).unwrap();
    assert!(client.try_read_response().is_none());
    assert_eq!(owned.await_outcome().end, End::ClientGone);
}

#[test]
fn a_client_that_closes_its_sending_side_is_served_where_that_is_wanted() {
    let limits = Options {
        half_close: true,
        ..options()
    };
    let owned = Owned::forwarding(limits, &slow_worker());
    let mut client = owned.client();
    client.post("/", "");
    client.socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read_response().text(), "late");
    assert_eq!(owned.await_outcome().end, End::Completed);
}

#[test]
fn with_half_close_a_departure_is_noticed_when_writing() {
    let worker = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.send(STREAM_HEAD);
        while !wire.broken {
            wire.chunk(b"data: 1\n\n");
            thread::sleep(Duration::from_millis(10));
        }
    });
    let limits = Options {
        half_close: true,
        ..options()
    };
    let owned = Owned::forwarding(limits, &worker);
    let mut client = owned.client();
    client.post("/", "");
    client.read_past("data: 1\n\n");
    drop(client);
    assert_eq!(owned.await_outcome().end, End::ClientGone);
}
