//! The `Retry-After` of an answer (RFC 9110, 10.2.3): seconds, or a date.

use std::time::SystemTime;

use http::HeaderMap;
use http::header::RETRY_AFTER;

/// Seconds from `now` on, 0 for a date that has passed; None where the header is missing or makes no sense.
pub fn seconds(headers: &HeaderMap, now: SystemTime) -> Option<f64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        // Some servers send fractions.
        return text.parse().ok().filter(|seconds: &f64| seconds.is_finite());
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).map_or(0.0, |left| left.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::time::{Duration, UNIX_EPOCH};

    fn read(value: &'static str) -> Option<f64> {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(value))]);
        // Sun, 06 Nov 1994 08:49:37 GMT
        seconds(&headers, UNIX_EPOCH + Duration::from_secs(784_111_777))
    }

    #[test]
    fn seconds_and_dates() {
        assert_eq!(read("2"), Some(2.0));
        assert_eq!(read(" 0.5 "), Some(0.5));
        assert_eq!(read("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30.0));
        assert_eq!(read("Sunday, 06-Nov-94 08:50:07 GMT"), Some(30.0));
        assert_eq!(read("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0.0));
    }

    #[test]
    fn what_makes_no_sense() {
        for value in ["", "soon", "-1", "1e999", "Sun, 99 Nov 1994 08:49:37 GMT", "nan", "inf"] {
            assert_eq!(read(value), None, "{value}");
        }
        assert_eq!(seconds(&HeaderMap::new(), UNIX_EPOCH), None);
    }
}
