//! How errors are told, by the endpoint's dialect.

use http::StatusCode;
use serde_json::json;

use crate::event::End;

/// The shape in which the clients of an endpoint read errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    OpenAi,
    /// Of `/v1/messages` and what is below it.
    Anthropic,
}

impl Dialect {
    pub fn of_path(path: &str) -> Self {
        if path.trim_end_matches('/').ends_with("/v1/messages") || path.contains("/v1/messages/") {
            Self::Anthropic
        } else {
            Self::OpenAi
        }
    }

    /// The body of an error; `code` is a word for programs, which Anthropic's shape has no place for.
    pub fn error(self, status: StatusCode, code: &str, message: &str) -> String {
        let kind = kind_of(status);
        let error = match self {
            Self::OpenAi => json!({"error": {"message": message, "type": kind, "param": null, "code": code}}),
            Self::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
        };
        format!("{error}\n")
    }

    /// The event that ends a stream: the worker failed within it, or the relay stops.
    pub fn error_event(self, end: End) -> String {
        let (kind, message) = match end {
            End::Shutdown => ("router_stopping", "the router stops; send the request again"),
            _ => ("worker_failed", "the worker failed within its answer"),
        };
        match self {
            Self::OpenAi => {
                format!("data: {{\"error\":{{\"message\":\"{message}\",\"type\":\"{kind}\",\"code\":\"{kind}\"}}}}\n\n")
            }
            Self::Anthropic => format!(
                "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"api_error\",\"message\":\"{message}\"}}}}\n\n"
            ),
        }
    }
}

fn kind_of(status: StatusCode) -> &'static str {
    if status.is_server_error() {
        "api_error"
    } else {
        "invalid_request_error"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_tells_the_dialect() {
        for path in [
            "/v1/messages",
            "/v1/messages/",
            "/east/v1/messages",
            "/v1/messages/count_tokens",
        ] {
            assert_eq!(Dialect::of_path(path), Dialect::Anthropic, "{path}");
        }
        for path in ["/", "/v1/chat/completions", "/v1/messagesx", "/v2/messages"] {
            assert_eq!(Dialect::of_path(path), Dialect::OpenAi, "{path}");
        }
    }
}
