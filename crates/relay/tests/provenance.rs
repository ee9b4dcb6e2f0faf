//! What the relay adds to a request: where it comes from, and a trace.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on fails

mod support;

use relay::Event;
use support::{Message, Owned, forward_to, nobody, options, recording};

/// The request as the worker gets it when the client sends these header lines.
fn passed(lines: &str) -> Message {
    let (worker, seen) = recording();
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.send(format!("GET /x HTTP/1.1\r\nHost: router.example:80\r\n{lines}\r\n"));
    assert_eq!(client.read_response().text(), "ok");
    let request = seen.lock().unwrap().remove(0);
    assert_eq!(request.all("host"), [worker.address.to_string()]);
    request
}

#[test]
fn made_where_missing() {
    let request = passed("Authorization: Bearer secret\r\n");
    assert_eq!(request.all("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(request.all("x-forwarded-proto"), ["http"]);
    assert_eq!(request.all("x-forwarded-host"), ["router.example:80"]);
    assert_eq!(request.all("authorization"), ["Bearer secret"]);
    let trace = request.header("traceparent").unwrap();
    assert!(
        trace.len() == 55 && trace.starts_with("00-") && trace.ends_with("-01"),
        "{trace}"
    );
    assert_ne!(trace, passed("").header("traceparent").unwrap());
}

#[test]
fn kept_or_appended_to() {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let request = passed(&format!(
        "X-Forwarded-For: 203.0.113.9, 10.0.0.1\r\nX-Forwarded-For: 10.0.0.2\r\nX-Forwarded-Proto: https\r\n\
         X-Forwarded-Host: public.example\r\nTraceparent: {trace}\r\nTracestate: a=1\r\nTracestate: b=2\r\n"
    ));
    assert_eq!(
        request.all("x-forwarded-for"),
        ["203.0.113.9, 10.0.0.1, 10.0.0.2, 127.0.0.1"]
    );
    assert_eq!(request.all("x-forwarded-proto"), ["https"]);
    assert_eq!(request.all("x-forwarded-host"), ["public.example"]);
    assert_eq!(request.all("traceparent"), [trace]);
    assert_eq!(request.all("tracestate"), ["a=1", "b=2"]);
}

#[test]
fn a_client_cannot_take_out_what_the_router_adds() {
    let request = passed(
        "Connection: X-Forwarded-For, x-forwarded-proto\r\nConnection: x-forwarded-host,traceparent, x-own, Host\r\n\
         X-Forwarded-For: 203.0.113.9\r\nX-Own: 1\r\n",
    );
    assert_eq!(request.all("x-forwarded-for"), ["203.0.113.9, 127.0.0.1"]);
    assert_eq!(request.all("x-forwarded-proto"), ["http"]);
    assert_eq!(request.all("x-forwarded-host"), ["router.example:80"]);
    assert_eq!(request.all("traceparent").len(), 1);
    assert_eq!(request.header("x-own"), None, "what is the client's own it may name");
}

#[test]
fn a_trace_that_makes_no_sense_is_replaced_with_its_state() {
    let twice = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nTraceparent: \
                 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    for bad in ["nonsense", twice] {
        let request = passed(&format!("Traceparent: {bad}\r\nTracestate: a=1\r\n"));
        let traces = request.all("traceparent");
        assert!(
            traces.len() == 1 && traces[0].len() == 55 && !traces[0].contains("4bf92f"),
            "{traces:?}"
        );
        assert_eq!(request.header("tracestate"), None);
    }
}

#[test]
fn one_trace_for_all_attempts_and_for_the_owner() {
    let (worker, seen) = recording();
    let owned = Owned::new(options(), forward_to(vec![nobody(), worker.url()]));
    let mut client = owned.client();
    client.post("/", "");
    assert_eq!(client.read_response().text(), "ok");
    owned.await_outcome();
    let log = owned.log.lock().unwrap();
    let Event::Arrival(arrival) = &log[0] else {
        panic!("{log:?}")
    };
    let told = arrival.headers.get("traceparent").unwrap().to_str().unwrap();
    assert_eq!(seen.lock().unwrap()[0].header("traceparent"), Some(told));
}
