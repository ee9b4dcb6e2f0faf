//! Where one request ends and the next begins: nothing that two readers may read in two ways reaches a worker as it was.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on fails

mod support;

use relay::{End, Outcome};
use support::{Message, Owned, options, recording};

/// What came of bytes that a client sent: the statuses it got, and the requests that the worker got.
struct Seen {
    statuses: Vec<u16>,
    requests: Vec<Message>,
    outcomes: Vec<Outcome>,
}

impl Seen {
    /// Method, target and body of each request at the worker.
    fn requests(&self) -> Vec<(&str, &str)> {
        let requests = self.requests.iter();
        requests
            .map(|request| (request.start.trim_end_matches(" HTTP/1.1"), request.text()))
            .collect()
    }
}

/// Send `bytes`, end with a request to `/last` on the same connection, and read all that comes.
fn send(bytes: &str) -> Seen {
    let (worker, seen) = recording();
    let owned = Owned::forwarding(options(), &worker);
    let mut client = owned.client();
    client.send(bytes);
    client.send("GET /last HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n");
    let mut statuses = Vec::new();
    while let Some(response) = client.try_read_response() {
        statuses.push(response.status());
    }
    let requests = seen.lock().unwrap().clone();
    for request in &requests {
        // One length, no coding: every reader agrees on the body.
        assert!(request.all("transfer-encoding").is_empty(), "{request:?}");
        assert!(request.all("content-length").len() <= 1, "{request:?}");
        assert!(request.complete || request.body.is_empty(), "{request:?}");
    }
    let outcomes = owned.await_outcomes(statuses.len());
    Seen {
        statuses,
        requests,
        outcomes,
    }
}

fn refused(bytes: &str, status: u16, reason: &str) {
    let seen = send(bytes);
    assert_eq!(
        (seen.statuses.as_slice(), seen.requests().len()),
        ([status].as_slice(), 0),
        "{bytes:?}"
    );
    let outcome = &seen.outcomes[0];
    assert_eq!(
        (outcome.end, outcome.status),
        (End::RefusedByRelay, Some(status)),
        "{bytes:?}"
    );
    assert_eq!(outcome.reason.as_deref(), Some(reason), "{bytes:?}");
}

const CHUNKED: &str = "POST /c HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n";

#[test]
fn a_length_beside_chunks_is_none() {
    // RFC 9112, 6.3: the coding overrides the length, and nothing more is taken from such a client.
    for lines in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    ] {
        let seen = send(&format!(
            "POST /c HTTP/1.1\r\nHost: r\r\n{lines}\r\n3\r\nabc\r\n0\r\n\r\n"
        ));
        assert_eq!(
            seen.requests(),
            [("POST /c", "abc")],
            "{lines:?}: the connection is closed behind it"
        );
        assert_eq!(seen.requests[0].all("content-length"), ["3"]);
    }
}

#[test]
fn lengths_that_differ_or_make_no_sense_are_refused() {
    for lengths in [
        "3\r\nContent-Length: 4",
        "+3",
        "-1",
        "3, 4",
        "3,3",
        "0x3",
        "",
        "3 4",
        "99999999999999999999",
    ] {
        let bytes = format!("POST / HTTP/1.1\r\nHost: r\r\nContent-Length: {lengths}\r\n\r\nabcd");
        let seen = send(&bytes);
        assert_eq!(seen.requests().len(), 0, "{lengths:?}");
        assert!(
            seen.statuses.iter().all(|&status| status == 400),
            "{lengths:?}: {:?}",
            seen.statuses
        );
    }
    let same = send("POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(same.requests(), [("POST /", "abc"), ("GET /last", "")]);
    assert_eq!(same.requests[0].all("content-length"), ["3"]);
}

#[test]
fn no_coding_but_chunks() {
    // The chunks would be taken off and the rest be taken for plain.
    for coding in [
        "gzip, chunked",
        "gzip\r\nTransfer-Encoding: chunked",
        "chunked, chunked",
        "x\x0bchunked, chunked",
    ] {
        let bytes = format!("POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: {coding}\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
        let seen = send(&bytes);
        assert_eq!(seen.requests().len(), 0, "{coding:?}");
        assert!(
            matches!(seen.statuses[..], [400 | 501]),
            "{coding:?}: {:?}",
            seen.statuses
        );
    }
    let gzip = "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    refused(gzip, 501, "transfer_coding_unsupported");
    // Chunks must come last, and HTTP/1.0 knows none: where the body ends is anybody's guess.
    for head in [
        "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ] {
        let seen = send(head);
        assert_eq!(seen.requests().len(), 0, "{head:?}");
    }
    let other_case = send("POST / HTTP/1.1\r\nHost: r\r\ntransfer-encoding:  CHUNKED \r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    assert_eq!(other_case.requests(), [("POST /", "abc"), ("GET /last", "")]);
}

#[test]
fn chunks_of_every_shape() {
    let whole = send(&format!(
        "{CHUNKED}\r\n3;name=value;x=\"y z\"\r\nabc\r\n0001\r\nd\r\n0;last\r\n\r\n"
    ));
    assert_eq!(
        whole.requests(),
        [("POST /c", "abcd"), ("GET /last", "")],
        "extensions say nothing to anybody"
    );
    let trailed = send(&format!(
        "{CHUNKED}Trailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"
    ));
    assert_eq!(
        trailed.requests(),
        [("POST /c", "abc"), ("GET /last", "")],
        "trailers are left out"
    );
    assert_eq!(
        (
            trailed.requests[0].header("trailer"),
            trailed.requests[0].header("x-sum")
        ),
        (None, None)
    );
    let empty = send(&format!("{CHUNKED}\r\n0\r\n\r\n"));
    assert_eq!(empty.requests(), [("POST /c", ""), ("GET /last", "")]);
    for broken in [
        "g\r\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3 3\r\nabc\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        "3;a\nb\r\nabc\r\n0\r\n\r\n",
        "\r\n\r\nabc",
    ] {
        refused(&format!("{CHUNKED}\r\n{broken}"), 400, "body_unreadable");
    }
}

#[test]
fn lines_that_can_be_read_in_two_ways_are_refused() {
    for line in [
        "Content-Length : 3",
        " Content-Length: 3",
        "Transfer-Encoding : chunked",
        "X-Fold: a\r\n b",
        "X-Fold: a\r\n\tContent-Length: 3",
        "no colon at all",
        ": no name",
        "X\0: nul",
        "X: nul\0inside",
        "X: lone\rreturn",
        "X(y): z",
    ] {
        let bytes = format!("POST / HTTP/1.1\r\nHost: r\r\n{line}\r\n\r\nabc");
        refused(&bytes, 400, "head_unreadable");
    }
    for start in [
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 x",
        "GET /",
        "GET / HTTP/9.9",
        "G\0T / HTTP/1.1",
        "GET /\x01 HTTP/1.1",
    ] {
        let seen = send(&format!("{start}\r\nHost: r\r\n\r\n"));
        assert_eq!(seen.requests().len(), 0, "{start:?}");
    }
}

#[test]
fn bare_line_feeds_end_lines_and_are_not_passed_on() {
    // RFC 9112, 2.2 allows to take them for line ends. The worker gets the lines that were read, with proper ends.
    let seen = send("POST /f HTTP/1.1\nHost: r\nX-A: 1\nContent-Length: 3\n\nabc");
    assert_eq!(seen.requests(), [("POST /f", "abc"), ("GET /last", "")]);
    assert_eq!(seen.requests[0].header("x-a"), Some("1"));
}

#[test]
fn targets_pass_as_they_are() {
    for target in [
        "/v1/models/",
        "/a//b",
        "//",
        "/?",
        "/x?y=/../z&y=%2e",
        "/%41%2f",
        "/a/../b",
    ] {
        let seen = send(&format!("GET {target} HTTP/1.1\r\nHost: r\r\n\r\n"));
        assert_eq!(
            seen.requests(),
            [(format!("GET {target}").as_str(), ""), ("GET /last", "")]
        );
    }
    let absolute = send("GET http://elsewhere:1/x?y HTTP/1.1\r\nHost: r\r\n\r\n");
    assert_eq!(absolute.requests()[0], ("GET /x?y", ""));
    assert_ne!(absolute.requests[0].header("host"), Some("elsewhere:1"));
    for no_path in ["OPTIONS *", "GET elsewhere:80", "GET elsewhere"] {
        let seen = send(&format!("{no_path} HTTP/1.1\r\nHost: r\r\n\r\n"));
        assert_eq!(
            (seen.statuses.as_slice(), seen.requests().len()),
            ([400].as_slice(), 0),
            "{no_path}"
        );
        assert_eq!(
            seen.outcomes[0].reason.as_deref(),
            Some("target_unsupported"),
            "{no_path}"
        );
    }
}

#[test]
fn what_asks_for_another_protocol() {
    let websocket = "GET /v1/realtime HTTP/1.1\r\nHost: r\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n";
    refused(websocket, 400, "upgrade_unsupported");
    refused("CONNECT w:80 HTTP/1.1\r\nHost: w\r\n\r\n", 405, "tunnel_unsupported");
    let offered = "GET /h HTTP/1.1\r\nHost: r\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n";
    let seen = send(offered);
    assert_eq!(
        seen.requests(),
        [("GET /h", ""), ("GET /last", "")],
        "an offer need not be taken"
    );
    for name in ["connection", "upgrade", "http2-settings"] {
        assert_eq!(seen.requests[0].header(name), None, "{name}");
    }
}

#[test]
fn one_host_is_named() {
    for other in ["a", "b", ""] {
        refused(
            &format!("GET / HTTP/1.1\r\nHost: a\r\nHost: {other}\r\n\r\n"),
            400,
            "host_ambiguous",
        );
    }
    // RFC 9112, 3.2 wants one; the checks of some load balancers send none.
    let none = send("GET /x HTTP/1.1\r\n\r\n");
    assert_eq!(none.requests(), [("GET /x", ""), ("GET /last", "")]);
    assert_eq!(none.requests[0].header("x-forwarded-host"), None);
}

#[test]
fn heads_that_are_too_large() {
    let many = "X-Many: 1\r\n".repeat(300);
    refused(
        &format!("GET / HTTP/1.1\r\nHost: r\r\n{many}\r\n"),
        431,
        "head_too_large",
    );
    let long = "x".repeat(300 * 1024);
    let seen = send(&format!("GET / HTTP/1.1\r\nHost: r\r\nX-Long: {long}\r\n\r\n"));
    assert_eq!(seen.requests().len(), 0);
    assert_eq!(seen.outcomes.len(), seen.statuses.len());
}

#[test]
fn bodies_of_no_bytes() {
    for (head, length) in [
        ("POST /e HTTP/1.1\r\nHost: r\r\nContent-Length: 0\r\n\r\n", Some("0")),
        ("POST /e HTTP/1.1\r\nHost: r\r\n\r\n", Some("0")),
        ("DELETE /e HTTP/1.1\r\nHost: r\r\n\r\n", None),
    ] {
        let seen = send(head);
        assert_eq!(seen.requests().len(), 2, "{head:?}");
        assert!(
            seen.requests[0]
                .header("content-length")
                .is_none_or(|given| Some(given) == length),
            "{head:?}"
        );
    }
}
