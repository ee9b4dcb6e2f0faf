//! HTTP/2 with prior knowledge, on the port on which HTTP/1.1 is served too.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on fails

mod support;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use relay::{End, Options};
use support::{Owned, STREAM_HEAD, Worker, answer, forward_to, on_arrival, options, recording, wait_until};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

type Sender = SendRequest<Full<Bytes>>;

async fn connect(address: SocketAddr) -> (Sender, JoinHandle<hyper::Result<()>>) {
    let socket = TcpStream::connect(address).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(64 * 1024);
    let (sender, connection) = builder.handshake(TokioIo::new(socket)).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn post(path: &str, body: &str) -> Request<Full<Bytes>> {
    let request = Request::post(format!("http://router.example{path}"));
    request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_and_its_answer_pass() {
    let (worker, seen) = recording();
    let owned = Owned::forwarding(options(), &worker);
    let (mut sender, _connection) = connect(owned.address).await;
    let mut request = post("/v1/x%20y?a=1", "{\"odd\" : 1}");
    let headers = request.headers_mut();
    headers.insert("authorization", "Bearer k".parse().unwrap());
    headers.append("cookie", "a=1".parse().unwrap());
    headers.append("cookie", "b=2".parse().unwrap());
    headers.insert("te", "trailers".parse().unwrap());
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(
        (response.status(), response.headers()["content-length"].as_bytes()),
        (StatusCode::OK, &b"2"[..])
    );
    assert_eq!(text(response).await, "ok");
    let request = seen.lock().unwrap().remove(0);
    assert_eq!(request.start, "POST /v1/x%20y?a=1 HTTP/1.1");
    assert_eq!(request.text(), "{\"odd\" : 1}");
    assert_eq!(request.all("host"), [worker.address.to_string()]);
    assert_eq!(request.all("x-forwarded-host"), ["router.example"]);
    assert_eq!(request.all("cookie"), ["a=1; b=2"]);
    assert_eq!(request.all("content-length"), ["11"]);
    assert_eq!(request.all("authorization"), ["Bearer k"]);
    assert_eq!(
        (request.header("te"), request.header("transfer-encoding")),
        (None, None)
    );
    let outcome = owned.await_outcome();
    assert_eq!(
        (outcome.end, outcome.status, outcome.response_bytes),
        (End::Completed, Some(200), 2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_share_the_port() {
    let owned = Owned::forwarding(options(), &Worker::answering(answer("", "ok")));
    let (mut sender, _connection) = connect(owned.address).await;
    assert_eq!(text(sender.send_request(post("/", "")).await.unwrap()).await, "ok");
    let mut client = owned.client();
    client.post("/", "");
    assert_eq!(client.read_response().text(), "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_at_once_on_one_connection() {
    let worker = Worker::answering(format!("{STREAM_HEAD}9\r\ndata: 1\n\n\r\n0\r\n\r\n"));
    let owned = Owned::forwarding(options(), &worker);
    let (sender, _connection) = connect(owned.address).await;
    let asking = (0..50).map(|_| {
        let mut sender = sender.clone();
        tokio::spawn(async move { text(sender.send_request(post("/", "{}")).await.unwrap()).await })
    });
    for answer in asking.collect::<Vec<_>>() {
        assert_eq!(answer.await.unwrap(), "data: 1\n\n");
    }
    let outcomes = owned.await_outcomes(50);
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.end == End::Completed && outcome.events == 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_chunk_leaves_as_it_comes() {
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let worker = Worker::new(move |mut wire, _| {
        wire.read_request();
        wire.send(STREAM_HEAD);
        for part in ["data: 1\n\n", "data: 2\n\n"] {
            wire.chunk(part.as_bytes());
            wait.lock().unwrap().recv().unwrap();
        }
        wire.send("0\r\n\r\n");
        wire.read_request();
    });
    let owned = Owned::forwarding(options(), &worker);
    let (mut sender, _connection) = connect(owned.address).await;
    let mut body = sender.send_request(post("/", "{}")).await.unwrap().into_body();
    for part in ["data: 1\n\n", "data: 2\n\n"] {
        let frame = tokio::time::timeout(support::SOON, body.frame()).await.unwrap();
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), part);
        go_on.send(()).unwrap();
    }
    assert!(body.collect().await.unwrap().to_bytes().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_reset_is_a_departure_and_the_others_go_on() {
    let worker = Worker::new(|mut wire, _| {
        while let Some(request) = wire.read_request() {
            if request.start.contains("/silent") {
                wire.read_request();
                return;
            }
            wire.send(answer("", "ok"));
        }
    });
    let owned = Owned::forwarding(options(), &worker);
    let (mut sender, _connection) = connect(owned.address).await;
    let waiting = tokio::spawn(sender.send_request(post("/silent", "")));
    while owned.arrivals() == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    waiting.abort();
    assert_eq!(owned.await_outcome().end, End::ClientGone);
    assert_eq!(text(sender.send_request(post("/", "")).await.unwrap()).await, "ok");
    assert_eq!(owned.relay.in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_come_as_answers() {
    let limits = Options {
        max_body_bytes: 10,
        ..options()
    };
    let owned = Owned::new(limits, on_arrival(|_, arrival| panic!("{arrival:?}")));
    let (mut sender, _connection) = connect(owned.address).await;
    let response = sender
        .send_request(post("/v1/messages", &"x".repeat(11)))
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let error: serde_json::Value = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!(error["type"], "error");
    assert_eq!(owned.await_outcome().reason.as_deref(), Some("body_too_large"));
    let connect = Request::connect("http://w:80").body(Full::default()).unwrap();
    assert_eq!(
        sender.send_request(connect).await.unwrap().status(),
        StatusCode::METHOD_NOT_ALLOWED
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_relay_ends_streams_with_an_event_and_says_goodbye() {
    let worker = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.send(STREAM_HEAD);
        wire.chunk(b"data: 1\n\n");
        wire.read_request();
    });
    let owned = Owned::forwarding(options(), &worker);
    let (mut sender, connection) = connect(owned.address).await;
    let mut body = sender.send_request(post("/", "{}")).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "data: 1\n\n");
    let relay = owned.relay.clone();
    let closing = tokio::task::spawn_blocking(move || relay.close(Duration::from_millis(200)));
    let last = body.collect().await.unwrap().to_bytes();
    assert!(last.ends_with(b"\"code\":\"router_stopping\"}}\n\n"), "{last:?}");
    assert_eq!(owned.await_outcome().end, End::Shutdown);
    closing.await.unwrap();
    assert!(connection.await.unwrap().is_ok(), "GOAWAY, not a reset");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_of_its_answers_is_cut_off() {
    let worker = Worker::answering(answer("", &"x".repeat(4 << 20)));
    let limits = Options {
        client_write_timeout: Duration::from_millis(300),
        ..options()
    };
    let owned = Owned::new(limits, forward_to(vec![worker.url()]));
    let (mut sender, _connection) = connect(owned.address).await;
    // Its window is full after 64 KiB, and it opens none.
    let _unread = sender.send_request(post("/", "")).await.unwrap();
    let outcome = owned.await_outcome();
    assert!(
        outcome.response_bytes < 2 << 20,
        "{} bytes were taken from the worker",
        outcome.response_bytes
    );
    assert_eq!((outcome.end, owned.relay.in_flight()), (End::ClientGone, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_requests_is_closed_after_its_rest() {
    let limits = Options {
        client_idle: Duration::from_millis(300),
        head_timeout: Duration::from_millis(200),
        ..options()
    };
    let owned = Owned::new(limits, forward_to(vec![Worker::answering(answer("", "ok")).url()]));
    let (mut sender, connection) = connect(owned.address).await;
    assert_eq!(text(sender.send_request(post("/", "")).await.unwrap()).await, "ok");
    tokio::time::timeout(support::SOON, connection)
        .await
        .unwrap()
        .unwrap()
        .unwrap_or_default();
}

/// A connection of bare frames.
fn raw(owned: &Owned) -> std::net::TcpStream {
    let mut socket = std::net::TcpStream::connect(owned.address).unwrap();
    socket.set_read_timeout(Some(support::SOON)).unwrap();
    socket
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    socket
}

fn closes(mut socket: std::net::TcpStream) -> bool {
    let mut sink = vec![0; 65536];
    loop {
        match socket.read(&mut sink) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// HEADERS of `GET /` that end stream `id`.
fn get_frame(id: u32) -> Vec<u8> {
    let block = [0x82, 0x86, 0x84, 0x41, 1, b'r'];
    [&[0, 0, 6, 1, 5][..], &id.to_be_bytes(), &block].concat()
}

#[test]
fn a_flood_of_resets_ends_the_connection() {
    let owned = Owned::new(options(), on_arrival(|_, _| {}));
    let mut socket = raw(&owned);
    for id in (1..20_000).step_by(2) {
        let reset = [&[0, 0, 4, 3, 0][..], &u32::to_be_bytes(id), &[0, 0, 0, 8]].concat();
        if socket
            .write_all(&get_frame(id))
            .and_then(|()| socket.write_all(&reset))
            .is_err()
        {
            break;
        }
    }
    assert!(closes(socket));
    wait_until("outcomes", || {
        owned.outcomes().len() == owned.arrivals() && owned.relay.in_flight() == 0
    });
}

#[test]
fn a_head_without_end_ends_the_connection() {
    let owned = Owned::new(options(), on_arrival(|_, arrival| panic!("{arrival:?}")));
    let mut socket = raw(&owned);
    // HEADERS without END_HEADERS, then CONTINUATION for ever: each a new literal header.
    socket
        .write_all(&[0, 0, 6, 1, 1, 0, 0, 0, 1, 0x82, 0x86, 0x84, 0x41, 1, b'r'])
        .unwrap();
    let header = [&[0x00, 1, b'x', 0x7f, 0x81, 0x3e][..], &[b'y'; 8000]].concat();
    let length = u32::try_from(header.len()).unwrap().to_be_bytes();
    let frame = [&length[1..], &[9, 0, 0, 0, 0, 1], &header].concat();
    for _ in 0..2000 {
        if socket.write_all(&frame).is_err() {
            break;
        }
    }
    assert!(closes(socket));
    assert_eq!(owned.arrivals(), 0);
}

#[test]
fn a_silent_connection_is_asked_for_a_sign_of_life() {
    let limits = Options {
        h2_ping: Duration::from_millis(100),
        ..options()
    };
    let owned = Owned::new(limits, on_arrival(|_, _| {}));
    let mut socket = raw(&owned);
    socket.write_all(&get_frame(1)).unwrap();
    assert!(closes(socket), "it answers no ping");
    assert_eq!(owned.await_outcome().end, End::ClientGone);
}

#[test]
fn no_more_streams_than_agreed() {
    let limits = Options {
        h2_streams: 3,
        ..options()
    };
    let owned = Owned::new(limits, on_arrival(|_, _| {}));
    let mut socket = raw(&owned);
    for id in [1, 3, 5, 7, 9] {
        socket.write_all(&get_frame(id)).unwrap();
    }
    wait_until("arrivals", || owned.arrivals() == 3);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!((owned.arrivals(), owned.relay.in_flight()), (3, 3));
}
