//! Which headers pass, and which are set.

use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

/// Headers to set on a message, replacing those of the same name.
pub type Overrides = Vec<(HeaderName, HeaderValue)>;

/// What the relay makes or adds to. It is for every hop behind: a client that names it in `Connection` could otherwise hide
/// where a request comes from.
const MADE_HERE: [&str; 4] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "traceparent",
];

/// Remove what concerns one connection only (RFC 9110, 7.6.1), with everything that `Connection` names.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    for name in named_by_connection(headers) {
        headers.remove(name);
    }
    for name in [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    let proxy: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("proxy-"))
        .cloned()
        .collect();
    for name in proxy {
        headers.remove(name);
    }
}

/// Whether a body has another transfer coding than chunks. Its reader takes the chunks off and leaves what is in them:
/// without its label that is another body.
pub fn has_foreign_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let chunked = |coding: &HeaderValue| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    codings.next().is_some_and(|coding| !chunked(coding)) || codings.next().is_some()
}

/// A length beside a transfer coding is not the body's (RFC 9112, 6.3): kept, it would cut the answer short.
pub fn drop_overruled_length(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
}

fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers
        .get_all(CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name: &HeaderName| !MADE_HERE.contains(&name.as_str()))
        .collect()
}

/// Set `overrides`; a name given twice is sent twice, one given without a value is taken out.
pub fn set(headers: &mut HeaderMap, overrides: &Overrides) {
    for (name, _) in overrides {
        headers.remove(name);
    }
    for (name, value) in overrides {
        if !value.is_empty() {
            headers.append(name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|&(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
            .collect()
    }

    #[test]
    fn hop_by_hop_headers_and_those_named_go() {
        let mut headers = map(&[
            ("connection", "close, X-Hop"),
            ("connection", "x-second, X-Forwarded-For, traceparent"),
            ("x-hop", "1"),
            ("x-second", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "secret"),
            ("te", "trailers"),
            ("trailer", "x-sum"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("authorization", "Bearer kept"),
            ("x-forwarded-for", "10.0.0.1"),
            ("traceparent", "00"),
        ]);
        strip_hop_by_hop(&mut headers);
        let kept = [
            ("authorization", "Bearer kept"),
            ("x-forwarded-for", "10.0.0.1"),
            ("traceparent", "00"),
        ];
        assert_eq!(headers, map(&kept));
    }

    #[test]
    fn set_replaces_all_of_a_name_and_keeps_repeats() {
        let mut headers = HeaderMap::new();
        headers.append("x-a", HeaderValue::from_static("old"));
        headers.append("x-a", HeaderValue::from_static("older"));
        let x_a = HeaderName::from_static("x-a");
        let value = HeaderValue::from_static;
        set(&mut headers, &vec![(x_a.clone(), value("1")), (x_a, value("2"))]);
        assert_eq!(headers.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        set(
            &mut headers,
            &vec![(HeaderName::from_static("x-a"), HeaderValue::from_static(""))],
        );
        assert!(headers.is_empty());
    }
}
