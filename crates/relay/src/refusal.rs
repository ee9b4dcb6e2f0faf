//! What the relay refuses by itself. The words are stable: clients and dashboards compare them.

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::dialect::Dialect;
use crate::shared::OwnAnswer;

/// A request that goes to nobody.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    /// A word for programs: the answer's `code` and the outcome's `reason`.
    pub code: &'static str,
    /// The same for people.
    pub message: String,
    /// Seconds after which another try may do better.
    pub retry_after: Option<u32>,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            retry_after: None,
        }
    }

    /// The answer in the dialect of `path`.
    pub fn answer(&self, path: &str) -> OwnAnswer {
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        let body = Dialect::of_path(path).error(self.status, self.code, &self.message);
        OwnAnswer {
            status: self.status,
            headers,
            body: body.into(),
        }
    }
}
