//! Requests as a plugin writes them, and their validation.

use crate::error::{ExchangeFailure, Limit};
use crate::limits::{MAX_HEADERS, RequestLimits};
use crate::policy::is_method;
use crate::target::RequestTarget;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use std::fmt;

/// Maximum number of redirects of a request.
const MAX_REDIRECTS: u8 = 10;

/// Fields that the client sets itself, or that concern only the connection. Those in [`CHANGING`] and `proxy-*` are
/// forbidden, too.
const FORBIDDEN: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Fields that make servers use another method or path than the one that was checked.
const CHANGING: &[&str] =
    &["x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url"];

/// A request of a plugin; nothing in it was checked.
///
/// `Debug` shows no values, because they may be secret.
#[derive(Clone, Default)]
pub struct Request {
    /// The method, in upper case.
    pub method: String,
    /// The absolute URL. A fragment is not sent.
    pub url: String,
    /// Names and values of the header fields. `accept-encoding` is ignored: the client asks for gzip and decodes it.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Bytes,
    /// The handle of a credential to insert.
    pub credential: Option<String>,
    /// The treatment of redirects.
    pub redirects: Redirects,
}

/// The treatment of redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redirects {
    /// Follows up to 10 redirects, each with the same checks as the request.
    #[default]
    Follow,
    /// Follows up to this many redirects, and at most 10. One more is an error.
    AtMost(u8),
    /// Returns redirects as responses.
    Return,
}

impl Redirects {
    /// Returns the number of redirects to follow; `None` if they are not followed.
    pub(crate) fn limit(self) -> Option<u8> {
        match self {
            Self::Follow => Some(MAX_REDIRECTS),
            Self::AtMost(limit) => Some(limit.min(MAX_REDIRECTS)),
            Self::Return => None,
        }
    }
}

impl Request {
    /// Creates a request without header fields and body that follows redirects.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self { method: method.into(), url: url.into(), ..Self::default() }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({}, {} bytes)", self.method.escape_debug(), self.body.len())
    }
}

/// A valid request, which redirects change.
pub(crate) struct Outgoing {
    pub(crate) method: String,
    pub(crate) target: RequestTarget,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Outgoing {
    /// Checks everything about a request that does not depend on the policy.
    pub(crate) fn check(request: &Request, limits: &RequestLimits) -> Result<Self, ExchangeFailure> {
        if !is_method(&request.method) {
            let method: String = request.method.chars().take(40).collect();
            return Err(ExchangeFailure::Invalid(format!(
                "`{}` is not a method that may be sent",
                method.escape_debug()
            )));
        }
        let target = RequestTarget::parse(&request.url).map_err(|error| ExchangeFailure::Invalid(error.to_string()))?;
        if request.body.len() as u64 > limits.request_body {
            return Err(ExchangeFailure::TooLarge(Limit::RequestBody(limits.request_body)));
        }
        let headers = headers(&request.headers, limits.headers)?;
        Ok(Self { method: request.method.clone(), target, headers, body: request.body.clone() })
    }
}

fn headers(fields: &[(String, Vec<u8>)], limit: u64) -> Result<HeaderMap, ExchangeFailure> {
    let size: u64 = fields.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum();
    if size > limit || fields.len() > MAX_HEADERS {
        return Err(ExchangeFailure::TooLarge(Limit::RequestHeaders(limit)));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let Ok(valid) = name.parse::<HeaderName>() else {
            let name: String = name.chars().take(40).collect();
            return Err(ExchangeFailure::Invalid(format!("`{}` is not a header name", name.escape_debug())));
        };
        if is_forbidden(&valid) {
            return Err(ExchangeFailure::Invalid(format!("the header `{valid}` must not be set")));
        }
        let value = HeaderValue::from_bytes(value)
            .map_err(|_| ExchangeFailure::Invalid(format!("the header `{valid}` contains a control character")))?;
        if valid != ACCEPT_ENCODING {
            headers.append(valid, value);
        }
    }
    Ok(headers)
}

/// Returns whether plugins and credentials must not set a header.
pub(crate) fn is_forbidden(name: &HeaderName) -> bool {
    changes_request(name) || {
        let name = unified(name);
        FORBIDDEN.contains(&name.as_str()) || name.starts_with("proxy-")
    }
}

/// Returns whether a header makes servers use another method or path.
pub(crate) fn changes_request(name: &HeaderName) -> bool {
    CHANGING.contains(&unified(name).as_str())
}

/// Some servers read `_` as `-`.
fn unified(name: &HeaderName) -> String {
    name.as_str().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(change: impl FnOnce(&mut Request)) -> Result<(), String> {
        let mut request = Request::new("GET", "https://a.example/");
        change(&mut request);
        Outgoing::check(&request, &RequestLimits::default())
            .map(drop)
            .map_err(|failure| failure.sent(false).to_string())
    }

    #[test]
    fn connection_headers_and_control_characters_are_refused() {
        for name in FORBIDDEN.iter().chain(CHANGING).copied().chain([
            "Host",
            "Proxy-Authorization",
            "X_HTTP_Method_Override",
            "TE",
        ]) {
            let error = checked(|request| request.headers.push((name.to_owned(), b"x".to_vec()))).unwrap_err();
            assert!(error.contains("must not be set"), "{error}");
        }
        for (name, value) in
            [("x\r\nhost", "a"), ("x y", "a"), ("", "a"), ("x", "a\r\nhost: b"), ("x", "a\0"), ("é", "a")]
        {
            let error = checked(|request| request.headers.push((name.into(), value.into()))).unwrap_err();
            assert!(error.starts_with("invalid request: ") && !error.contains(['\r', '\n', '\0']), "{error}");
        }
        assert_eq!(checked(|request| request.headers.push(("x-api-key".into(), b"caf\xc3\xa9".to_vec()))), Ok(()));
    }

    #[test]
    fn only_plain_methods_are_sent() {
        for method in ["get", "CONNECT", "TRACE", "TRACK", "GET /x HTTP/1.1\r\nhost: evil\r\n\r\n", "", "-"] {
            assert!(checked(|request| request.method = method.to_owned()).is_err(), "{method}");
        }
        for method in ["POST", "PATCH", "PROPFIND", "M-SEARCH"] {
            assert_eq!(checked(|request| request.method = method.to_owned()), Ok(()));
        }
    }

    #[test]
    fn size_of_a_request_is_limited() {
        let fields = |count: usize, length: usize| {
            checked(|request| request.headers = (0..count).map(|n| (format!("x-{n}"), vec![b'x'; length])).collect())
        };
        assert!(fields(101, 1).is_err() && fields(2, 40_000).is_err());
        assert_eq!(fields(100, 600), Ok(()));
        let error = checked(|request| request.body = vec![0; (10 << 20) + 1].into()).unwrap_err();
        assert_eq!(error, "the body of the request exceeds 10485760 bytes");
    }
}
