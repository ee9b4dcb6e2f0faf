//! The head of a request: what is refused for it alone, and what the relay adds of its own.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{COOKIE, HOST, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};

use crate::header;
use crate::listener::Origin;
use crate::refusal::Refusal;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// What asks for something other than an answer, or whose body would not survive.
pub fn refused(head: &Parts) -> Option<Refusal> {
    if head.method == Method::CONNECT {
        let message = "the router opens no tunnels";
        return Some(Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "tunnel_unsupported",
            message,
        ));
    }
    if !head.uri.path().starts_with('/') {
        // `*`, or a bare authority, of which only a tunnel could be made.
        let message = "the target of a request is a path";
        return Some(Refusal::new(StatusCode::BAD_REQUEST, "target_unsupported", message));
    }
    // Other protocols are offered, not demanded: some clients offer h2c with each request (RFC 9110, 7.8).
    if head.headers.get_all(UPGRADE).iter().any(names_websocket) {
        let message = "the router does not speak WebSocket";
        return Some(Refusal::new(StatusCode::BAD_REQUEST, "upgrade_unsupported", message));
    }
    if head.headers.get_all(HOST).iter().nth(1).is_some() {
        // Two readers may take two of them (RFC 9112, 3.2).
        let message = "a request has one Host";
        return Some(Refusal::new(StatusCode::BAD_REQUEST, "host_ambiguous", message));
    }
    if header::has_foreign_coding(&head.headers) {
        let message = "no transfer coding but chunked is understood; use Content-Encoding";
        let status = StatusCode::NOT_IMPLEMENTED;
        return Some(Refusal::new(status, "transfer_coding_unsupported", message));
    }
    None
}

fn names_websocket(value: &HeaderValue) -> bool {
    let mut names = value.as_bytes().split(|&byte| byte == b',');
    names.any(|name| name.trim_ascii().to_ascii_lowercase().starts_with(b"websocket"))
}

/// Add where the request comes from, and a trace for those who follow it through the fleet.
pub fn complete(head: &mut Parts, origin: &Origin) {
    if head.version == Version::HTTP_2 {
        join_cookies(&mut head.headers);
    }
    let client = origin.client.ip().to_canonical().to_string();
    let before = head.headers.get_all(&X_FORWARDED_FOR).iter().map(HeaderValue::as_bytes);
    let chain: Vec<&[u8]> = before.chain([client.as_bytes()]).collect();
    // Made of values and an address, so it is a value; if not, the chain begins with this client.
    let chain = HeaderValue::from_bytes(&chain.join(&b", "[..]));
    let host = head.headers.get(HOST).cloned();
    let host = host.or_else(|| head.uri.authority()?.as_str().parse().ok());
    let headers = &mut head.headers;
    if let Ok(chain) = chain {
        headers.insert(X_FORWARDED_FOR, chain);
    }
    if !headers.contains_key(&X_FORWARDED_PROTO) {
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(origin.scheme));
    }
    if let Some(host) = host.filter(|_| !headers.contains_key(&X_FORWARDED_HOST)) {
        headers.insert(X_FORWARDED_HOST, host);
    }
    trace(headers);
}

/// HTTP/2 may send a cookie in crumbs, which HTTP/1.1 must not (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() > 1
        && let Ok(whole) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]))
    {
        headers.insert(COOKIE, whole);
    }
}

/// Keep a valid trace and its state; else begin one (W3C Trace Context, 3.2 and 4).
fn trace(headers: &mut HeaderMap) {
    let mut given = headers.get_all(&TRACEPARENT).iter();
    if given.next().is_some_and(|parent| is_trace(parent.as_bytes())) && given.next().is_none() {
        return;
    }
    headers.remove(&TRACESTATE);
    headers.insert(TRACEPARENT, new_trace());
}

/// `version-trace-parent-flags`, in lower case hex; no part but the flags is all zeros, the version is not ff.
fn is_trace(value: &[u8]) -> bool {
    let Some((value, rest)) = value.split_at_checked(55) else {
        return false;
    };
    let hex = |from: usize, to: usize| value[from..to].iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let nonzero = |from: usize, to: usize| hex(from, to) && value[from..to].iter().any(|&b| b != b'0');
    let dashes = [2, 35, 52].iter().all(|&at| value[at] == b'-');
    let version = &value[..2];
    let ends = rest.is_empty() || (version != b"00" && rest[0] == b'-');
    dashes && hex(0, 2) && version != b"ff" && nonzero(3, 35) && nonzero(36, 52) && hex(53, 55) && ends
}

/// A trace of random numbers. Marked as sampled: unmarked it would keep workers from recording what they record of
/// requests without a trace.
fn new_trace() -> HeaderValue {
    static RANDOM: OnceLock<RandomState> = OnceLock::new();
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    let random = RANDOM.get_or_init(RandomState::new);
    let trace = BEGUN.fetch_add(1, Ordering::Relaxed);
    let part = |number: u8| random.hash_one((trace, number)) | 1;
    let text = format!("00-{:016x}{:016x}-{:016x}-01", part(0), part(1), part(2));
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert!(is_trace(good.as_bytes()));
        assert!(is_trace(format!("cc{}-more", &good[2..]).as_bytes()));
        assert!(is_trace(new_trace().as_bytes()));
        assert_ne!(new_trace(), new_trace());
        for bad in [
            "",
            "00",
            &good[..54],
            &format!("{good}-more"),
            &format!("ff{}", &good[2..]),
            &format!("ccx{}", &good[2..]),
            &good.to_uppercase(),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        ] {
            assert!(!is_trace(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn cookies_are_joined() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=1"));
        headers.append(COOKIE, HeaderValue::from_static("b=2"));
        join_cookies(&mut headers);
        assert_eq!(headers.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2"]);
    }
}
