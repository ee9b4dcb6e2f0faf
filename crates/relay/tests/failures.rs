//! Workers that fail: before the head of an answer another one may be asked, after it the client is told.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on fails

mod support;

use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use relay::{End, Failure, Options};
use support::{Owned, STREAM_HEAD, Wire, Worker, answer, forward_to, nobody, options};

fn impatient() -> Options {
    // Long enough for a good worker on a busy machine.
    let soon = Duration::from_millis(600);
    Options {
        connect_timeout: soon,
        first_byte_timeout: soon,
        idle_timeout: soon,
        ..options()
    }
}

/// The failure of a first attempt at `url`, after which a good worker answers.
fn failure_of(url: String) -> Failure {
    let good = Worker::answering(answer("", "good"));
    let owned = Owned::new(impatient(), forward_to(vec![url, good.url()]));
    let mut client = owned.client();
    client.post("/v1/completions", "prompt");
    assert_eq!(client.read_response().text(), "good");
    let outcome = owned.await_outcome();
    assert_eq!(
        (outcome.end, outcome.status, outcome.forwarded),
        (End::Completed, Some(200), true)
    );
    let failed = owned.failures().remove(0);
    assert!(!failed.message.is_empty());
    assert!(
        outcome.started_at.unwrap() >= failed.at,
        "the time of the attempt that succeeded"
    );
    failed.failure
}

#[test]
fn refused() {
    assert_eq!(failure_of(nobody()), Failure::Refused);
    assert_eq!(failure_of("https://no-tls-here".to_owned()), Failure::Refused);
}

#[test]
fn no_connection_in_time() {
    // A listener that accepts nobody, its queue full: the kernel drops further attempts without a word.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket
        .bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into())
        .unwrap();
    socket.listen(0).unwrap();
    let listener: TcpListener = socket.into();
    let address = listener.local_addr().unwrap();
    let patience = Duration::from_millis(100);
    let mut queue = Vec::new();
    // On a busy machine one may take that long although there is room.
    let mut too_late = 0;
    while too_late < 3 {
        match std::net::TcpStream::connect_timeout(&address, patience) {
            Ok(waiting) => queue.push(waiting),
            Err(_) => too_late += 1,
        }
    }
    assert_eq!(failure_of(format!("http://{address}")), Failure::ConnectTimeout);
}

#[test]
fn no_answer_in_time() {
    let (done, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let silent = Worker::new(move |mut wire, _| {
        wire.read_request();
        let _ = wait.lock().unwrap().recv();
    });
    assert_eq!(failure_of(silent.url()), Failure::FirstByteTimeout);
    drop(done);
}

#[test]
fn the_connection_ends_without_an_answer() {
    let after_request = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.finish();
    });
    assert_eq!(failure_of(after_request.url()), Failure::Reset);
    let reset = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.reset();
    });
    assert_eq!(failure_of(reset.url()), Failure::Reset);
    let within_head = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.send("HTTP/1.1 200 OK\r\nContent-Le");
        wire.finish();
    });
    assert_eq!(failure_of(within_head.url()), Failure::Reset);
}

#[test]
fn what_comes_is_not_http() {
    let garbage = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.send("SSH-2.0-OpenSSH_9.6\r\n\r\n");
        wire.read_request();
    });
    assert_eq!(failure_of(garbage.url()), Failure::BadResponse);
}

#[test]
fn an_answer_that_nobody_could_read_is_none() {
    for head in [
        "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nxx\r\n0\r\n\r\n",
        "200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n0\r\n\r\n",
        "200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\nxx",
    ] {
        let worker = Worker::answering(format!("HTTP/1.1 {head}"));
        assert_eq!(failure_of(worker.url()), Failure::BadResponse, "{head:?}");
    }
}

#[test]
fn when_all_workers_fail_the_owner_answers() {
    let owned = Owned::new(options(), forward_to(vec![nobody(), nobody(), nobody()]));
    let mut client = owned.client();
    client.post("/", "");
    let response = client.read_response();
    assert_eq!((response.status(), response.text()), (502, "no worker"));
    let outcome = owned.await_outcome();
    assert_eq!(
        (outcome.end, outcome.forwarded, outcome.started_at),
        (End::Completed, false, None)
    );
    assert_eq!(owned.failures().len(), 3);
}

/// A worker that sends three events and `rest`, then ends its connection.
fn dying(rest: &'static str, how: fn(Wire)) -> Worker {
    Worker::new(move |mut wire, _| {
        wire.read_request();
        wire.send(STREAM_HEAD);
        for part in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n", rest] {
            if !part.is_empty() {
                wire.chunk(part.as_bytes());
            }
        }
        how(wire);
    })
}

fn stream_from(worker: &Worker, path: &str) -> String {
    let owned = Owned::forwarding(options(), worker);
    let mut client = owned.client();
    client.post(path, "{}");
    let response = client.read_response();
    assert!(response.complete, "the stream ends cleanly");
    let outcome = owned.await_outcome();
    assert_eq!((outcome.end, outcome.status), (End::WorkerFailed, Some(200)));
    assert_eq!(outcome.response_bytes, response.body.len() as u64);
    assert_eq!(owned.failures().len(), 0, "nothing is tried again after the head");
    response.text().to_owned()
}

const OPENAI_ERROR: &str = concat!(
    r#"data: {"error":{"message":"the worker failed within its answer","type":"worker_failed","code":"worker_failed"}}"#,
    "\n\n"
);

#[test]
fn a_stream_that_dies_gets_one_error_event() {
    let sent = "data: 1\n\ndata: 2\n\ndata: 3\n\n";
    let text = stream_from(&dying("", Wire::finish), "/v1/chat/completions");
    assert_eq!(text, format!("{sent}{OPENAI_ERROR}"));
    let text = stream_from(&dying("data: [DONE]\n\n", Wire::finish), "/v1/chat/completions");
    assert_eq!(text, format!("{sent}data: [DONE]\n\n{OPENAI_ERROR}"));
}

#[test]
fn a_reset_within_a_stream_gets_it_too() {
    // A reset may overtake what was sent before it.
    let text = stream_from(&dying("", Wire::reset), "/v1/chat/completions");
    assert!(text.ends_with(OPENAI_ERROR), "{text:?}");
}

#[test]
fn the_error_event_starts_an_event_of_its_own() {
    let text = stream_from(&dying("data: 4\n", Wire::finish), "/v1/completions");
    assert!(text.ends_with(&format!("data: 4\n\n{OPENAI_ERROR}")), "{text:?}");
}

#[test]
fn a_line_that_was_cut_does_not_stand_before_the_error_event() {
    for torn in ["data: {\"cut\":", "d", "event: x\ndata: {\"cut\""] {
        let text = stream_from(&dying(torn, Wire::finish), "/v1/completions");
        let whole = torn
            .rfind('\n')
            .map_or(String::new(), |at| format!("{}\n\n", &torn[..=at]));
        assert!(
            text.ends_with(&format!("data: 3\n\n{whole}{OPENAI_ERROR}")),
            "{torn:?}: {text:?}"
        );
    }
}

#[test]
fn the_error_event_speaks_the_dialect_of_the_endpoint() {
    let text = stream_from(&dying("", Wire::finish), "/v1/messages");
    let (_, error) = text.split_once("data: 3\n\n").unwrap();
    let data = error
        .strip_prefix("event: error\ndata: ")
        .unwrap()
        .strip_suffix("\n\n")
        .unwrap();
    let error: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(
        (&error["type"], &error["error"]["type"]),
        (&"error".into(), &"api_error".into())
    );
}

#[test]
fn a_stream_that_falls_silent_dies() {
    let (done, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let silent = Worker::new(move |mut wire, _| {
        wire.read_request();
        wire.send(STREAM_HEAD);
        wire.chunk(b"data: 1\n\n");
        let _ = wait.lock().unwrap().recv();
    });
    let owned = Owned::new(impatient(), forward_to(vec![silent.url()]));
    let mut client = owned.client();
    client.post("/v1/completions", "{}");
    assert_eq!(client.read_response().text(), format!("data: 1\n\n{OPENAI_ERROR}"));
    assert_eq!(owned.await_outcome().end, End::WorkerFailed);
    drop(done);
}

#[test]
fn a_slow_stream_is_not_a_silent_one() {
    let slow = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.send(STREAM_HEAD);
        for _ in 0..8 {
            wire.chunk(b"data: 1\n\n");
            std::thread::sleep(Duration::from_millis(150));
        }
        wire.send("0\r\n\r\n");
    });
    let owned = Owned::new(impatient(), forward_to(vec![slow.url()]));
    let mut client = owned.client();
    client.post("/v1/completions", "{}");
    assert_eq!(client.read_response().text(), "data: 1\n\n".repeat(8));
    assert_eq!(owned.await_outcome().end, End::Completed);
}

/// The client must see that the body is incomplete.
fn broken_off(head: &'static str, start_of_body: &'static [u8]) {
    let worker = Worker::new(move |mut wire, _| {
        wire.read_request();
        wire.send(head);
        wire.send(start_of_body);
        wire.finish();
    });
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.post("/v1/completions", "{}");
    assert!(!client.read_response().complete);
    assert_eq!(owned.await_outcome().end, End::WorkerFailed);
}

#[test]
fn other_bodies_are_broken_off() {
    broken_off(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
        b"{\"half\":",
    );
    broken_off(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"4\r\nhalf\r\n",
    );
    // No room for an error event.
    broken_off(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100\r\n\r\n",
        b"data: 1\n\n",
    );
    // Nobody could read one.
    let compressed = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\
                      Transfer-Encoding: chunked\r\n\r\n";
    broken_off(compressed, b"4\r\nhalf\r\n");
}

#[test]
fn a_worker_that_closes_after_each_answer_costs_nothing() {
    let worker = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.send(answer("", "ok"));
        wire.finish();
    });
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    for _ in 0..50 {
        client.post("/", "");
        assert_eq!(client.read_response().text(), "ok");
    }
    assert_eq!(owned.failures().len(), 0);
    assert_eq!(worker.connections(), 50);
}

#[test]
fn a_stale_connection_is_replaced_once() {
    // The first connection answers one request and dies on the second, as when the close crosses the request.
    let worker = Worker::new(|mut wire, number| {
        while wire.read_request().is_some() {
            wire.send(answer("", "ok"));
            if number == 0 {
                wire.read_request();
                return wire.reset();
            }
        }
    });
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    for _ in 0..3 {
        client.post("/", "");
        assert_eq!(client.read_response().text(), "ok");
    }
    assert_eq!((owned.failures().len(), worker.connections()), (0, 2));
}

#[test]
fn a_request_is_not_sent_again_once_anything_came_back() {
    let worker = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.send(answer("", "ok"));
        wire.read_request();
        wire.send("HTTP/1.1 2");
        wire.finish();
    });
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.post("/", "");
    assert_eq!(client.read_response().text(), "ok");
    client.post("/", "");
    assert_eq!(client.read_response().status(), 502);
    assert_eq!(
        (owned.failures().remove(0).failure, worker.connections()),
        (Failure::Reset, 1)
    );
}

#[test]
fn an_idle_connection_is_closed_before_the_worker_would() {
    let (closed, wait) = mpsc::channel();
    let worker = Worker::new(move |mut wire, number| {
        wire.read_request();
        wire.send(answer("", "ok"));
        let began = Instant::now();
        if wire.read_request().is_none() && number == 0 {
            closed.send(began.elapsed()).unwrap();
        }
    });
    let owned = Owned::new(
        Options {
            pool_idle: Duration::from_millis(200),
            ..options()
        },
        forward_to(vec![worker.url()]),
    );
    let mut client = owned.client();
    client.post("/", "");
    assert_eq!(client.read_response().text(), "ok");
    let idle = wait.recv_timeout(support::SOON).unwrap();
    assert!(idle >= Duration::from_millis(150), "{idle:?}");
    client.post("/", "");
    assert_eq!(client.read_response().text(), "ok");
    assert_eq!((owned.failures().len(), worker.connections()), (0, 2));
}
