//! Reads beside the stream what a worker's answer says of tokens.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::sse::SseReader;
use crate::usage::{Usage, usage_of};

/// A larger JSON answer is relayed but not read.
const LARGEST_JSON: usize = 1024 * 1024;

/// Sees every chunk on its way and never holds one up.
pub enum SideReader {
    /// Compressed, or of a type that reports no tokens.
    Blind,
    Events(SseReader),
    /// One JSON document; None once it has grown too large.
    Json(Option<Vec<u8>>),
}

impl SideReader {
    pub fn for_answer(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        if text(CONTENT_ENCODING).is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
            return Self::Blind;
        }
        let media_type = text(CONTENT_TYPE)
            .unwrap_or("")
            .split(';')
            .next()
            .unwrap_or("")
            .trim()
            .to_ascii_lowercase();
        match media_type.as_str() {
            "text/event-stream" => Self::Events(SseReader::default()),
            json if json == "application/json" || json.ends_with("+json") => Self::Json(Some(Vec::new())),
            _ => Self::Blind,
        }
    }

    pub fn push(&mut self, chunk: &[u8]) {
        match self {
            Self::Blind | Self::Json(None) => {}
            Self::Events(reader) => reader.push(chunk),
            Self::Json(buffer) => match buffer {
                Some(bytes) if bytes.len() + chunk.len() <= LARGEST_JSON => {
                    bytes.extend_from_slice(chunk);
                }
                _ => *buffer = None,
            },
        }
    }

    /// The answer has ended as it should.
    pub fn finish(&mut self) {
        if let Self::Events(reader) = self {
            reader.finish();
        }
    }

    pub fn usage(&self) -> Usage {
        match self {
            Self::Events(reader) => reader.usage(),
            Self::Json(Some(bytes)) => usage_of(bytes),
            Self::Blind | Self::Json(None) => Usage::default(),
        }
    }

    pub fn events(&self) -> u64 {
        match self {
            Self::Events(reader) => reader.events(),
            Self::Blind | Self::Json(_) => 0,
        }
    }

    /// As `closing`, where the line that was cut has not gone on.
    pub fn closing_of_lines(&self) -> Option<&'static str> {
        match self {
            Self::Events(reader) => Some(reader.closing_of_lines()),
            Self::Blind | Self::Json(_) => None,
        }
    }

    /// What closes an event that was cut, if the answer is a stream of events.
    pub fn closing(&self) -> Option<&'static str> {
        match self {
            Self::Events(reader) => Some(reader.closing()),
            Self::Blind | Self::Json(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn reader(content_type: &'static str, coding: Option<&'static str>) -> SideReader {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(coding) = coding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        SideReader::for_answer(&headers)
    }

    #[test]
    fn the_kind_follows_from_the_headers() {
        assert!(matches!(
            reader("Text/Event-Stream; charset=utf-8", None),
            SideReader::Events(_)
        ));
        assert!(matches!(
            reader("application/problem+json", Some("identity")),
            SideReader::Json(_)
        ));
        assert!(matches!(reader("application/json", Some("gzip")), SideReader::Blind));
        assert!(matches!(reader("text/html", None), SideReader::Blind));
    }

    #[test]
    fn a_large_document_is_given_up() {
        let mut json = reader("application/json", None);
        json.push(br#"{"usage":{"prompt_tokens":1},"text":""#);
        assert_eq!(json.usage(), Usage::default());
        json.push(&vec![b'x'; LARGEST_JSON]);
        json.push(b"\"}");
        assert_eq!(json.usage(), Usage::default());
        assert!(matches!(json, SideReader::Json(None)));
    }
}
