//! The end of the grace of a close: everybody is told in the way that is left.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on fails

mod support;

use std::thread;
use std::time::{Duration, Instant};

use relay::{End, Event, Forwarding};
use support::{Owned, STREAM_HEAD, Wire, Worker, on_arrival, options, wait_until};

/// A worker that begins `head` and a chunk, and falls silent.
fn beginning(head: &'static str) -> Worker {
    Worker::new(move |mut wire: Wire, _| {
        wire.read_request();
        wire.send(head);
        wire.chunk(b"data: 1\n\n");
        wire.read_request();
    })
}

#[test]
fn a_stream_ends_with_an_error_event_of_its_dialect() {
    let worker = beginning(STREAM_HEAD);
    for (path, event) in [
        ("/v1/completions", r#""code":"router_stopping""#),
        ("/v1/messages", "event: error"),
    ] {
        let owned = Owned::forwarding(options(), &worker);
        let mut client = owned.client();
        client.post(path, "{}");
        wait_until("first byte", || {
            let log = owned.log.lock().unwrap();
            log.iter().any(|event| matches!(event, Event::FirstByte(_)))
        });
        owned.relay.close(Duration::from_millis(50));
        let response = client.read_response();
        assert!(response.complete, "the stream ends cleanly");
        let (_, error) = response.text().split_once("data: 1\n\n").unwrap();
        assert!(error.contains(event) && error.ends_with("\n\n"), "{error}");
        assert!(error.contains("the router stops"), "{error}");
        let outcome = owned.await_outcome();
        assert_eq!((outcome.end, outcome.status), (End::Shutdown, Some(200)));
        assert_eq!(outcome.response_bytes, response.body.len() as u64);
    }
}

#[test]
fn other_answers_are_broken_off() {
    let worker = beginning("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.post("/", "");
    client.read_past("data: 1\n\n");
    owned.relay.close(Duration::from_millis(50));
    assert!(client.sees_close_within(Duration::from_secs(1)));
    assert_eq!(owned.await_outcome().end, End::Shutdown);
}

#[test]
fn requests_without_an_answer_get_one() {
    let silent = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.read_request();
    });
    let url = silent.url();
    let owned = Owned::new(
        options(),
        on_arrival(move |relay, arrival| {
            if arrival.path == "/asked" {
                relay.forward(arrival.request_id, &Forwarding::to(&url)).unwrap();
            }
        }),
    );
    let (mut asked, mut undecided, mut unread) = (owned.client(), owned.client(), owned.client());
    asked.post("/asked", "");
    undecided.post("/undecided", "");
    unread.send("POST /unread HTTP/1.1\r\nHost: r\r\nContent-Length: 10\r\n\r\nhalf");
    wait_until("arrivals", || owned.arrivals() == 2 && silent.connections() == 1);
    owned.relay.close(Duration::from_millis(50));
    for client in [&mut asked, &mut undecided, &mut unread] {
        let response = client.read_response();
        assert_eq!((response.status(), response.header("retry-after")), (503, Some("1")));
        assert_eq!(response.header("connection"), Some("close"));
        assert!(response.text().contains("router_stopping"), "{}", response.text());
    }
    let ends: Vec<End> = owned.await_outcomes(3).iter().map(|outcome| outcome.end).collect();
    assert_eq!(ends.iter().filter(|&&end| end == End::Shutdown).count(), 2, "{ends:?}");
    assert_eq!(owned.relay.in_flight(), 0);
}

#[test]
fn a_second_close_cuts_the_grace_short() {
    let worker = beginning(STREAM_HEAD);
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.post("/", "");
    client.read_past("data: 1\n\n");
    let relay = owned.relay.clone();
    let began = Instant::now();
    let patient = thread::spawn(move || relay.close(Duration::from_secs(60)));
    wait_until("a close that waits", || owned.relay.listeners().unwrap().is_empty());
    thread::sleep(Duration::from_millis(50));
    assert!(!patient.is_finished());
    owned.relay.close(Duration::ZERO);
    assert_eq!(owned.await_outcome().end, End::Shutdown);
    patient.join().unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
