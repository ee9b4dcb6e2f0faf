//! Where a worker is.

use http::{HeaderValue, Uri};

/// The address of a worker, from its base URL.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Reached over TLS.
    pub secure: bool,
    /// Host without brackets.
    pub host: String,
    pub port: u16,
    /// Value of the `Host` header.
    pub authority: HeaderValue,
    /// Path that goes before the request's; without a slash at its end.
    pub prefix: String,
}

impl Target {
    /// Read `http://host[:port][/prefix]`, or the same with `https`; the error is for people.
    pub fn parse(base_url: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("the worker URL {base_url:?} {why}");
        let uri: Uri = base_url.parse().map_err(|_| wrong("is not a URL"))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("does not start with http:// or https://")),
        };
        let host = uri
            .host()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| wrong("has no host"))?;
        let authority = match uri.port_u16() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        Ok(Self {
            secure,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.parse().map_err(|_| wrong("has no usable host"))?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// What connections to it are kept under.
    pub fn key(&self) -> (bool, HeaderValue) {
        (self.secure, self.authority.clone())
    }

    /// The request's target on this worker: the client's path and query behind the prefix.
    pub fn uri(&self, original: &Uri) -> Result<Uri, http::uri::InvalidUri> {
        let path_and_query = original.path_and_query().map_or("/", |target| target.as_str());
        if self.prefix.is_empty() {
            path_and_query.parse()
        } else {
            format!("{}{path_and_query}", self.prefix).parse()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_base_url() {
        let target = Target::parse("http://[::1]:8001/east/").unwrap();
        assert_eq!(
            (target.host.as_str(), target.port, target.prefix.as_str()),
            ("::1", 8001, "/east")
        );
        assert_eq!(target.authority, "[::1]:8001");
        assert_eq!(
            target.uri(&"/v1/models?a=%20b".parse().unwrap()).unwrap(),
            "/east/v1/models?a=%20b"
        );
    }

    #[test]
    fn defaults_and_absolute_targets() {
        let target = Target::parse("http://worker").unwrap();
        assert_eq!((target.port, target.authority.to_str().unwrap()), (80, "worker"));
        let secure = Target::parse("https://worker/east").unwrap();
        assert_eq!((secure.port, secure.secure, target.secure), (443, true, false));
        assert_ne!(secure.key(), target.key());
        assert_eq!(target.uri(&"http://elsewhere/x?y".parse().unwrap()).unwrap(), "/x?y");
    }

    #[test]
    fn what_is_no_worker_url_is_named() {
        for bad in ["ftp://worker", "worker:80", "", "http://", "http://a b"] {
            assert!(Target::parse(bad).unwrap_err().contains(bad), "{bad}");
        }
    }
}
