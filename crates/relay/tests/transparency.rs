//! The worker gets the client's bytes and the client the worker's.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on fails

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use relay::{End, Event, Forwarding, Options, Usage};
use support::{Owned, STREAM_HEAD, Worker, answer, on_arrival, options, pair, recording, wait_until};

#[test]
fn the_request_passes_with_its_target_headers_and_body() {
    let (worker, seen) = recording();
    let url = format!("{}/east", worker.url());
    let owned = Owned::new(
        options(),
        on_arrival(move |relay, arrival| {
            assert_eq!(
                (arrival.path.as_str(), arrival.query.as_str()),
                ("/v1/x%20y", "a=1&b=%2f")
            );
            assert_eq!(&arrival.body[..], b"{\"odd\" : 1}");
            let headers = [pair("x-request-id", "r-1"), pair("authorization", "Bearer worker")];
            let response_headers = [pair("x-warmroute-worker", "w0")];
            let forwarding = Forwarding {
                request_headers: &headers,
                response_headers: &response_headers,
                ..Forwarding::to(&url)
            };
            relay.forward(arrival.request_id, &forwarding).unwrap();
        }),
    );
    let mut client = owned.client();
    client.send(
        "POST /v1/x%20y?a=1&b=%2f HTTP/1.1\r\nHost: router:80\r\nAuthorization: Bearer client\r\nX-Many: 1\r\nX-Many: 2\r\n\
         Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nContent-Length: 11\r\n\r\n{\"odd\" : 1}",
    );
    let response = client.read_response();
    assert_eq!((response.status(), response.text()), (200, "ok"));
    assert_eq!(response.header("x-warmroute-worker"), Some("w0"));
    let request = seen.lock().unwrap().remove(0);
    assert_eq!(request.start, "POST /east/v1/x%20y?a=1&b=%2f HTTP/1.1");
    assert_eq!(request.header("host"), Some(worker.address.to_string().as_str()));
    assert_eq!(request.all("authorization"), ["Bearer worker"]);
    assert_eq!(request.all("x-many"), ["1", "2"]);
    assert_eq!(request.all("content-length"), ["11"]);
    assert_eq!(request.header("x-request-id"), Some("r-1"));
    for hop in ["connection", "x-hop", "te"] {
        assert_eq!(request.header(hop), None, "{hop}");
    }
    assert_eq!(request.text(), "{\"odd\" : 1}");
}

#[test]
fn a_chunked_request_body_arrives_whole() {
    let (worker, seen) = recording();
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.send("POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n");
    for piece in ["abc", "defg", "h"] {
        client.chunk(piece.as_bytes());
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.read_response().text(), "ok");
    let request = seen.lock().unwrap().remove(0);
    assert_eq!((request.text(), request.all("content-length")), ("abcdefgh", vec!["8"]));
    assert_eq!(request.header("transfer-encoding"), None);
    assert_eq!(owned.await_outcome().request_bytes, 8);
}

#[test]
fn the_answer_passes_with_its_status_headers_and_body() {
    let worker = Worker::answering(
        "HTTP/1.1 418 Short And Stout\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nKeep-Alive: timeout=5\r\nX-Mine: w\r\n\
         Connection: keep-alive\r\nContent-Length: 3\r\n\r\ntea",
    );
    let url = worker.url();
    let owned = Owned::new(
        options(),
        on_arrival(move |relay, arrival| {
            let response_headers = [pair("x-mine", "router")];
            let forwarding = Forwarding {
                response_headers: &response_headers,
                ..Forwarding::to(&url)
            };
            relay.forward(arrival.request_id, &forwarding).unwrap();
        }),
    );
    let mut client = owned.client();
    client.post("/", "");
    let response = client.read_response();
    assert_eq!(response.start, "HTTP/1.1 418 Short And Stout");
    assert_eq!(response.all("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(response.all("x-mine"), ["router"]);
    assert_eq!(response.all("content-length"), ["3"]);
    assert_eq!(
        (response.header("keep-alive"), response.header("connection")),
        (None, None)
    );
    assert_eq!(response.text(), "tea");
}

#[test]
fn a_length_beside_a_transfer_coding_does_not_cut_the_answer() {
    let worker = Worker::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n",
    );
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.post("/", "");
    let response = client.read_response();
    assert_eq!(response.header("content-length"), None);
    assert_eq!((response.text(), response.complete), ("{\"a\":1}", true));
    assert_eq!(owned.await_outcome().end, End::Completed);
}

#[test]
fn a_compressed_answer_is_not_touched() {
    // Bytes that are no valid gzip, so that whoever decompresses them fails.
    let mut bytes = answer(
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
        "12345678",
    )
    .into_bytes();
    let start = bytes.len() - 8;
    bytes[start..].copy_from_slice(&[0x1f, 0x8b, 0xff, 0, 0x80, 13, 10, 0xfe]);
    let expected = bytes[start..].to_vec();
    let owned = Owned::forwarding(options(), &Worker::answering(bytes));
    let mut client = owned.client();
    client.post("/", "");
    let response = client.read_response();
    assert_eq!(response.header("content-encoding"), Some("gzip"));
    assert_eq!(response.body, expected);
    assert_eq!(owned.await_outcome().usage, Usage::default());
}

#[test]
fn answers_without_a_body_leave_the_connection_usable() {
    let worker = Worker::new(|mut wire, _| {
        while let Some(request) = wire.read_request() {
            wire.send(match request.start.split(' ').next().unwrap() {
                "HEAD" => "HTTP/1.1 200 OK\r\nContent-Length: 77\r\nX-Kind: head\r\n\r\n",
                "DELETE" => "HTTP/1.1 204 No Content\r\n\r\n",
                "GET" => "HTTP/1.1 304 Not Modified\r\nContent-Length: 78\r\nETag: \"x\"\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            });
        }
    });
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    // The length of a 304 tells nothing that the client does not have; the server drops it.
    for (method, status, length) in [
        ("HEAD", 200, Some("77")),
        ("DELETE", 204, None),
        ("GET", 304, None),
        ("OPTIONS", 200, Some("0")),
    ] {
        client.send(format!("{method} /v1/models HTTP/1.1\r\nHost: r\r\n\r\n"));
        let response = client.read_bodiless();
        assert_eq!(
            (response.status(), response.header("content-length")),
            (status, length),
            "{method}"
        );
    }
    let outcomes = owned.await_outcomes(4);
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.end == End::Completed && outcome.response_bytes == 0)
    );
    assert!(outcomes.iter().all(|outcome| outcome.first_byte_at.is_none()));
    assert_eq!(worker.connections(), 1, "the worker's connection is used again too");
}

#[test]
fn own_answers_of_every_shape() {
    let owned = Owned::new(
        options(),
        on_arrival(|relay, arrival| {
            let status = arrival.path[1..].parse().unwrap();
            let headers = [pair("x-a", "1"), pair("x-a", "2"), pair("content-length", "999")];
            relay
                .respond(arrival.request_id, status, &headers, "body".into())
                .unwrap();
        }),
    );
    let mut client = owned.client();
    client.send("HEAD /200 HTTP/1.1\r\nHost: r\r\n\r\n");
    assert_eq!(client.read_bodiless().status(), 200);
    client.send("GET /204 HTTP/1.1\r\nHost: r\r\n\r\n");
    assert_eq!(client.read_bodiless().status(), 204);
    client.post("/503", "x");
    let response = client.read_response();
    assert_eq!(
        (response.status(), response.text(), response.all("x-a")),
        (503, "body", vec!["1", "2"])
    );
    let outcomes = owned.await_outcomes(3);
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.end == End::Completed && !outcome.forwarded)
    );
    assert_eq!(
        outcomes
            .iter()
            .map(|outcome| outcome.response_bytes)
            .collect::<Vec<_>>(),
        [0, 0, 4]
    );
}

#[test]
fn each_chunk_leaves_as_it_comes() {
    let (go_on, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let worker = Worker::new(move |mut wire, _| {
        wire.read_request();
        wire.send(STREAM_HEAD);
        for part in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
            wire.chunk(part.as_bytes());
            wait.lock().unwrap().recv().unwrap();
        }
        wire.send("0\r\n\r\n");
        wire.read_request();
    });
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.post("/", "");
    client.read_past("data: 1\n\n");
    wait_until("first byte", || {
        owned
            .log
            .lock()
            .unwrap()
            .iter()
            .any(|event| matches!(event, Event::FirstByte(_)))
    });
    assert_eq!(owned.relay.in_flight(), 1);
    for next in ["data: 2\n\n", "data: 3\n\n", "0\r\n\r\n"] {
        go_on.send(()).unwrap();
        client.read_past(next);
    }
    let outcome = owned.await_outcome();
    assert_eq!(
        (outcome.end, outcome.events, outcome.response_bytes),
        (End::Completed, 3, 27)
    );
    let (started, first) = (outcome.started_at.unwrap(), outcome.first_byte_at.unwrap());
    assert!(started <= first && first <= outcome.ended_at);
}

const RECORDED: &str = concat!(
    ": hello\n\n",
    "data: {\"choices\":[{\"text\":\"\u{fc}\"}],\"usage\":null}\n\n",
    "data:{\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":2,",
    "\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\n",
    "data: [DONE]\n\n",
);

#[test]
fn a_stream_cut_at_every_byte_relays_the_same_bytes_and_counts() {
    for stream in [RECORDED.to_owned(), RECORDED.replace('\n', "\r\n")] {
        let expected = stream.clone();
        let worker = Worker::new(move |mut wire, _| {
            while let Some(request) = wire.read_request() {
                let cut: usize = request.text().parse().unwrap();
                wire.send(STREAM_HEAD);
                let (head, tail) = stream.as_bytes().split_at(cut);
                for part in [head, tail].into_iter().filter(|part| !part.is_empty()) {
                    wire.chunk(part);
                }
                wire.send("0\r\n\r\n");
            }
        });
        let owned = Owned::forwarding(options(), &worker);
        let mut client = owned.client();
        for cut in 0..=expected.len() {
            client.post("/v1/completions", &cut.to_string());
            let response = client.read_response();
            assert_eq!(
                (response.text(), response.complete),
                (expected.as_str(), true),
                "cut at {cut}"
            );
        }
        let usage = Usage {
            prompt_tokens: Some(11),
            completion_tokens: Some(2),
            cached_tokens: Some(8),
        };
        for outcome in owned.await_outcomes(expected.len() + 1) {
            assert_eq!((outcome.events, outcome.usage), (3, usage));
        }
        assert!(
            worker.connections() <= 2,
            "connections are kept: {}",
            worker.connections()
        );
    }
}

#[test]
fn a_stream_without_its_last_blank_line_is_counted_whole() {
    let stream = "data: {}\n\ndata: {\"usage\":{\"prompt_tokens\":9}}\n";
    let chunk = format!("{:x}\r\n{stream}\r\n0\r\n\r\n", stream.len());
    let owned = Owned::forwarding(options(), &Worker::answering(format!("{STREAM_HEAD}{chunk}")));
    let mut client = owned.client();
    client.post("/v1/completions", "{}");
    assert_eq!(client.read_response().text(), stream);
    let outcome = owned.await_outcome();
    assert_eq!((outcome.events, outcome.usage.prompt_tokens), (2, Some(9)));
}

#[test]
fn an_error_body_of_the_worker_is_complete() {
    let body = r#"{"error":{"message":"too long"}}"#;
    let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n";
    let worker = Worker::answering(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()));
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.post("/v1/chat/completions", r#"{"stream":true}"#);
    let response = client.read_response();
    assert_eq!(
        (response.status(), response.text(), response.complete),
        (400, body, true)
    );
    let outcome = owned.await_outcome();
    assert_eq!(
        (outcome.status, outcome.end, outcome.forwarded),
        (Some(400), End::Completed, true)
    );
}

#[test]
fn usage_of_a_json_answer() {
    let body = r#"{"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}}"#;
    let owned = Owned::forwarding(
        options(),
        &Worker::answering(answer("Content-Type: application/json\r\n", body)),
    );
    let mut client = owned.client();
    client.post("/v1/completions", "{}");
    assert_eq!(client.read_response().text(), body);
    let usage = Usage {
        prompt_tokens: Some(7),
        completion_tokens: Some(3),
        cached_tokens: Some(0),
    };
    assert_eq!(owned.await_outcome().usage, usage);
}

#[test]
fn one_who_asks_first_is_told_to_continue() {
    let (worker, seen) = recording();
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.send("POST / HTTP/1.1\r\nHost: r\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    client.read_past("HTTP/1.1 100 Continue\r\n\r\n");
    client.send("body");
    assert_eq!(client.read_response().text(), "ok");
    let request = seen.lock().unwrap().remove(0);
    assert_eq!((request.text(), request.header("expect")), ("body", None));
}

#[test]
fn an_interim_answer_of_the_worker_is_not_the_answer() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    let owned = Owned::forwarding(
        options(),
        &Worker::answering(format!("{interim}{}", answer("", "real"))),
    );
    let mut client = owned.client();
    client.post("/", "");
    let response = client.read_response();
    assert_eq!((response.status(), response.text()), (200, "real"));
}

#[test]
fn an_answer_that_ends_with_its_connection_is_complete() {
    let worker = Worker::new(|mut wire, _| {
        wire.read_request();
        wire.send("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nold style");
        wire.finish();
    });
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.post("/", "");
    let response = client.read_response();
    assert_eq!(
        (response.start.as_str(), response.text(), response.complete),
        ("HTTP/1.1 200 OK", "old style", true)
    );
    assert_eq!(owned.await_outcome().end, End::Completed);
}

#[test]
fn large_bodies_pass_whole_in_both_directions() {
    let worker = Worker::new(|mut wire, _| {
        while let Some(request) = wire.read_request() {
            wire.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                request.body.len()
            ));
            wire.send(request.body);
        }
    });
    let owned = Owned::forwarding(
        Options {
            max_body_bytes: 8 << 20,
            ..options()
        },
        &worker,
    );
    let lines: Vec<String> = (0..400_000).map(|number| format!("{number:09}\n")).collect();
    let body = lines.concat();
    let mut client = owned.client();
    client.post("/", &body);
    assert!(client.read_response().text() == body);
    let outcome = owned.await_outcome();
    assert_eq!((outcome.request_bytes, outcome.response_bytes), (4_000_000, 4_000_000));
}

#[test]
fn a_client_that_does_not_read_holds_up_its_worker_and_fills_no_memory() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let worker = Worker::new(move |mut wire, _| {
        wire.read_request();
        wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while !wire.broken {
            wire.chunk(&vec![b'x'; 64 * 1024]);
            counter.fetch_add(64 * 1024, Ordering::AcqRel);
        }
    });
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.post("/", "");
    let mut before = 0;
    wait_until("a standstill", || {
        std::thread::sleep(Duration::from_millis(100));
        let now = sent.load(Ordering::Acquire);
        std::mem::replace(&mut before, now) == now && now > 0
    });
    // What the buffers of four sockets hold.
    assert!(before < 64 << 20, "{before} bytes were taken from the worker");
    client.finish();
    assert_eq!(owned.await_outcome().end, End::ClientGone);
}

#[test]
fn a_client_of_http_1_0_gets_a_stream_that_ends_with_its_connection() {
    let worker = Worker::answering(format!("{STREAM_HEAD}9\r\ndata: 1\n\n\r\n0\r\n\r\n"));
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.send("GET / HTTP/1.0\r\n\r\n");
    let response = client.read_response();
    assert_eq!(
        (response.header("transfer-encoding"), response.text()),
        (None, "data: 1\n\n")
    );
}
