//! Limits, addresses and the end of a relay.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on fails

mod support;

use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use relay::{End, Forwarding, Options, Relay};
use support::{Owned, STREAM_HEAD, Worker, answer, forward_to, on_arrival, options, wait_until};

fn small() -> Owned {
    let reject = on_arrival(|_, arrival| panic!("{} bytes must not arrive", arrival.body.len()));
    Owned::new(
        Options {
            max_body_bytes: 1000,
            ..options()
        },
        reject,
    )
}

fn refused(owned: &Owned) {
    let outcome = owned.await_outcome();
    assert_eq!((outcome.end, outcome.status), (End::RefusedByRelay, Some(413)));
    assert_eq!(outcome.reason.as_deref(), Some("body_too_large"));
    assert_eq!((owned.arrivals(), owned.relay.in_flight()), (0, 0));
}

#[test]
fn a_body_declared_too_large_is_refused() {
    let owned = small();
    let mut client = owned.client();
    // More than the buffers of the sockets hold: the client writes on while it is refused.
    client.post("/v1/completions", &"x".repeat(20 << 20));
    assert!(!client.broken);
    let response = client.read_response();
    assert_eq!((response.status(), response.complete), (413, true));
    assert!(response.text().contains("1000 bytes"), "{}", response.text());
    refused(&owned);
}

#[test]
fn a_body_that_grows_too_large_is_refused() {
    let owned = small();
    let mut client = owned.client();
    client.send("POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..20 {
        client.chunk(&[b'x'; 100]);
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.read_response().status(), 413);
    refused(&owned);
}

#[test]
fn one_who_asks_first_is_told_no() {
    let owned = small();
    let mut client = owned.client();
    client.send("POST / HTTP/1.1\r\nHost: r\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n");
    let asked = Instant::now();
    assert_eq!(client.read_response().status(), 413, "and not 100");
    assert!(asked.elapsed() < Duration::from_millis(500));
    refused(&owned);
}

#[test]
fn a_body_that_makes_no_sense_is_refused() {
    let owned = small();
    let mut client = owned.client();
    client.send("POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n");
    assert_eq!(client.read_response().status(), 400);
    let outcome = owned.await_outcome();
    assert_eq!((outcome.end, outcome.status), (End::RefusedByRelay, Some(400)));
}

#[test]
fn a_body_of_exactly_the_limit_passes() {
    let worker = Worker::answering(answer("", "ok"));
    let owned = Owned::new(
        Options {
            max_body_bytes: 1000,
            ..options()
        },
        forward_to(vec![worker.url()]),
    );
    let mut client = owned.client();
    client.post("/", &"x".repeat(1000));
    assert_eq!(client.read_response().text(), "ok");
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let owned = small();
    let mut client = owned.client();
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: r\r\nX-Long: {}\r\n\r\n",
        "x".repeat(1 << 20)
    ));
    assert!(
        client
            .try_read_response()
            .is_none_or(|response| response.status() == 431)
    );
    assert_eq!(owned.arrivals(), 0);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let owned = Owned::new(
        options(),
        on_arrival(|relay, arrival| {
            relay
                .respond(arrival.request_id, 200, &[], arrival.path.clone().into())
                .unwrap();
        }),
    );
    let mut client = owned.client();
    client
        .send("GET /1 HTTP/1.1\r\nHost: r\r\n\r\nGET /2 HTTP/1.1\r\nHost: r\r\n\r\nGET /3 HTTP/1.1\r\nHost: r\r\n\r\n");
    for path in ["/1", "/2", "/3"] {
        assert_eq!(client.read_response().text(), path);
    }
}

#[test]
fn a_long_pipeline_comes_whole() {
    // More than is read ahead while the first request is answered, with bodies that differ.
    let worker = Worker::new(|mut wire, _| {
        while let Some(request) = wire.read_request() {
            if request.start.contains("/0 ") {
                std::thread::sleep(Duration::from_millis(100));
            }
            wire.send(answer("", &format!("{} {}", request.start, request.text())));
        }
    });
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    let body = |number: usize| format!("{number}").repeat(if number.is_multiple_of(10) { 20_000 } else { 10 });
    let requests = (0_usize..40).map(|number| {
        let body = body(number);
        format!(
            "POST /{number} HTTP/1.1\r\nHost: r\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    client.send(requests.collect::<String>());
    for number in 0..40 {
        assert_eq!(
            client.read_response().text(),
            format!("POST /{number} HTTP/1.1 {}", body(number))
        );
    }
}

#[test]
fn a_taken_address_is_told_as_such() {
    let owned = small();
    let error = owned.relay.listen("127.0.0.1", owned.address.port(), "b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(owned.relay.listen("192.0.2.1", 0, "b").is_err(), "none of this machine");
}

#[test]
fn names_and_ipv6_literals() {
    let owned = small();
    assert!(owned.relay.listen("localhost", 0, "b").unwrap().is_ipv4());
    for host in ["::1", "[::1]"] {
        let address = owned.relay.listen(host, 0, "b").unwrap();
        assert!(address.is_ipv6());
        TcpStream::connect(address).unwrap();
    }
}

#[test]
fn what_is_in_flight_ends_before_a_close() {
    let (go_on, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let worker = Worker::new(move |mut wire, _| {
        wire.read_request();
        wire.send(STREAM_HEAD);
        wire.chunk(b"data: 1\n\n");
        wait.lock().unwrap().recv().unwrap();
        wire.chunk(b"data: 2\n\n");
        wire.send("0\r\n\r\n");
    });
    let owned = Owned::forwarding(options(), &worker);
    let mut busy = owned.client();
    let mut fresh = owned.client();
    busy.post("/", "");
    busy.read_past("data: 1\n\n");
    let relay = owned.relay.clone();
    let closing = thread::spawn(move || relay.close(Duration::from_secs(10)));
    wait_until("refusal of new connections", || {
        TcpStream::connect(owned.address).is_err()
    });
    assert!(
        fresh.sees_close_within(Duration::from_secs(1)),
        "a connection without a request is closed"
    );
    assert!(!closing.is_finished());
    go_on.send(()).unwrap();
    busy.read_past("0\r\n\r\n");
    closing.join().unwrap();
    assert_eq!(owned.await_outcome().end, End::Completed);
}

#[test]
fn a_request_that_was_on_its_way_when_connections_were_refused_is_answered_as_the_last() {
    let owned = Owned::forwarding(options(), &Worker::answering(answer("", "ok")));
    let mut kept = owned.client();
    let mut fresh = owned.client();
    kept.post("/", "");
    assert_eq!(kept.read_response().header("connection"), None);
    owned.relay.stop_accepting();
    thread::sleep(Duration::from_millis(20)); // every connection has heard of it
    for client in [&mut kept, &mut fresh] {
        client.post("/", "");
        assert_eq!(client.read_response().header("connection"), Some("close"));
        assert!(client.sees_close_within(Duration::from_secs(1)));
    }
}

#[test]
fn idle_connections_do_not_delay_a_close() {
    let owned = Owned::forwarding(options(), &Worker::answering(answer("", "ok")));
    let mut idle = owned.client();
    idle.post("/", "");
    idle.read_response();
    let _fresh = owned.client();
    let began = Instant::now();
    owned.relay.close(Duration::from_secs(10));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn what_outlasts_the_grace_is_aborted_and_told() {
    let worker = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.send(STREAM_HEAD);
        wire.chunk(b"data: 1\n\n");
        wire.read_request();
    });
    let owned = Owned::new(
        options(),
        on_arrival({
            let url = worker.url();
            move |relay, arrival| {
                if arrival.path == "/carried" {
                    relay.forward(arrival.request_id, &Forwarding::to(&url)).unwrap();
                }
            }
        }),
    );
    let (mut carried, mut undecided) = (owned.client(), owned.client());
    carried.post("/carried", "");
    carried.read_past("data: 1\n\n");
    undecided.post("/undecided", "");
    wait_until("arrivals", || owned.arrivals() == 2);
    owned.relay.close(Duration::from_millis(100));
    let outcomes = owned.await_outcomes(2);
    assert!(
        outcomes.iter().all(|outcome| outcome.end == End::Shutdown),
        "{outcomes:?}"
    );
    assert_eq!(owned.relay.in_flight(), 0);
    assert!(owned.relay.listen("127.0.0.1", 0, "b").is_err());
}

#[test]
fn headers_and_statuses_that_cannot_be_sent_are_errors() {
    let relay = Relay::new(options()).unwrap();
    let header = |name: &str, value: &str| [support::pair(name, value)];
    for bad in [header("bad name", "x"), header("x", "line\r\nbreak"), header("", "x")] {
        let to = Forwarding::to("http://w");
        let (request_headers, response_headers) = (bad.as_slice(), bad.as_slice());
        assert!(relay.forward(1, &Forwarding { request_headers, ..to }).is_err());
        assert!(relay.forward(1, &Forwarding { response_headers, ..to }).is_err());
        assert!(relay.respond(1, 200, &bad, "".into()).is_err());
    }
    for status in [0, 99, 100, 101, 1000] {
        assert!(relay.respond(1, status, &[], "".into()).is_err(), "{status}");
    }
    assert!(
        relay.respond(1, 200, &[], "".into()).is_ok(),
        "an unknown request is one that has ended"
    );
}

#[test]
fn many_clients_at_once_share_few_connections() {
    let worker = Worker::answering(answer("", "ok"));
    let owned = Owned::forwarding(options(), &worker);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = owned.client();
                for _ in 0..25 {
                    client.post("/", "x");
                    assert_eq!(client.read_response().text(), "ok");
                }
            });
        }
    });
    let outcomes = owned.await_outcomes(200);
    assert!(outcomes.iter().all(|outcome| outcome.end == End::Completed));
    assert!(
        worker.connections() <= 40,
        "{} connections for 8 clients",
        worker.connections()
    );
}

#[test]
fn no_tunnel_is_opened() {
    let owned = small();
    let mut client = owned.client();
    client.send("CONNECT worker:80 HTTP/1.1\r\nHost: worker:80\r\n\r\n");
    assert_eq!(client.read_response().status(), 405);
    assert_eq!((owned.await_outcome().end, owned.arrivals()), (End::RefusedByRelay, 0));
}

#[test]
fn a_client_may_rest_between_requests_but_not_within_one() {
    let worker = Worker::answering(answer("", "ok"));
    let patience = Duration::from_millis(200);
    let limits = Options {
        head_timeout: patience,
        client_idle: 8 * patience,
        ..options()
    };
    let owned = Owned::new(limits, forward_to(vec![worker.url()]));
    let mut client = owned.client();
    for _ in 0..2 {
        client.post("/", "");
        assert_eq!(client.read_response().text(), "ok");
        thread::sleep(3 * patience);
    }
    client.send("POST /half");
    assert!(client.sees_close_within(3 * patience), "too slow");
    let mut resting = owned.client();
    resting.post("/", "");
    assert_eq!(resting.read_response().text(), "ok");
    assert!(!resting.sees_close_within(4 * patience), "may rest");
    assert!(
        resting.sees_close_within(12 * patience),
        "not for ever, and without a word"
    );
    let mut mute = owned.client();
    assert!(mute.sees_close_within(3 * patience), "not before the first request");
}
