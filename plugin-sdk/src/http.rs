//! Requests to the servers that the user granted. Needs the capability `http` and, in tools, [`Tool::network`].
//!
//! ```no_run
//! use pinion_plugin_sdk::http::{self, Request};
//! use pinion_plugin_sdk::prelude::*;
//!
//! #[derive(Deserialize)]
//! struct Issue {
//!     title: String,
//! }
//!
//! # fn example() -> Result<()> {
//! let issue: Issue = http::get("https://api.github.com/repos/rust-lang/rust/issues/1")?.success()?.json()?;
//! Request::post("https://api.github.com/repos/me/notes/issues")
//!     .credential("github")
//!     .json(&json!({ "title": issue.title }))?
//!     .send()?
//!     .success()?;
//! # Ok(())
//! # }
//! ```
//!
//! The manifest asks for the servers: `export!(…, asks = { "http": ["https://api.github.com"] })`, or `"http": true` if
//! the user chooses them. `?` converts an [`HttpError`] into an [`Error`] of the same kind; one that is
//! [`Error::Failed`] is retryable if the server cannot have received the request.
//!
//! [`Tool::network`]: crate::Tool::network

pub use crate::bindings::imports::pinion::plugin::http::{Failure, HttpError, Request, Response};

use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::time::Duration;

/// Sends a GET request.
///
/// # Errors
/// See [`Request::send`].
pub fn get(url: impl Into<String>) -> Result<Response, HttpError> {
    Request::get(url).send()
}

impl Request {
    /// Creates a request; `method` is in upper case.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            credential: None,
            timeout_ms: None,
            max_redirects: None,
            max_body: None,
            extra: None,
        }
    }

    /// Creates a GET request.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    /// Creates a POST request.
    pub fn post(url: impl Into<String>) -> Self {
        Self::new("POST", url)
    }

    /// Adds a header field. The host sets `host`, `content-length` and the fields of the connection itself.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body, at most 16 MiB.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the body to a value as JSON, and `content-type`.
    ///
    /// # Errors
    /// The value cannot be represented in JSON.
    pub fn json(self, value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let body = serde_json::to_vec(value)?;
        Ok(self.header("content-type", "application/json").body(body))
    }

    /// Names a secret that the host inserts where the user configured it. The plugin never sees its value.
    #[must_use]
    pub fn credential(mut self, secret: impl Into<String>) -> Self {
        self.credential = Some(secret.into());
        self
    }

    /// Sets the time after which the host gives up; 30 s by default, and never later than the call's deadline.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout_ms = Some(u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
        self
    }

    /// Sets the most redirects to follow: 0 to 10, by default 10. With 0, a redirect is returned like any response.
    #[must_use]
    pub fn max_redirects(mut self, count: u32) -> Self {
        self.max_redirects = Some(count);
        self
    }

    /// Sets the size of the largest body to accept in bytes: 4 MiB by default, at most 16 MiB.
    #[must_use]
    pub fn max_body(mut self, bytes: u32) -> Self {
        self.max_body = Some(bytes);
        self
    }

    /// Sends the request and waits for the whole response. Every status is a success; see [`Response::success`].
    ///
    /// # Errors
    /// The user did not grant the request, it is malformed, or there is no complete response.
    pub fn send(&self) -> Result<Response, HttpError> {
        host::send(self)
    }
}

impl Response {
    /// Returns the response if its status is 200 to 299.
    ///
    /// # Errors
    /// [`Error::NotFound`] for the status 404, [`Error::Failed`] for any other, which is retryable from 500 on and for 429.
    pub fn success(self) -> Result<Self> {
        let Self { status, .. } = self;
        let message = || {
            let url = self.url.split(['?', '#']).next().unwrap_or_default();
            format!("`{url}` answered with status {status}")
        };
        match status {
            200..=299 => Ok(self),
            404 => Err(Error::NotFound(message())),
            _ => Err(Error::Failed { message: message(), retryable: status >= 500 || status == 429 }),
        }
    }

    /// Returns the first value of a header field, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the body as text; bytes that are not UTF-8 become `U+FFFD`.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// The body is not JSON, or does not match `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }
}

/// Converts an error of the host; called by `?`.
pub(crate) fn convert(error: &HttpError) -> Error {
    let failed =
        |failure: &Failure| Error::Failed { message: failure.message.clone(), retryable: !failure.request_sent };
    match error {
        HttpError::Denied(text) => Error::Denied(text.clone()),
        HttpError::Invalid(text) => Error::InvalidInput(text.clone()),
        HttpError::TooLarge(limit) => Error::failed(format!("the body of the response exceeds {limit} bytes")),
        HttpError::TimedOut(failure) | HttpError::Failed(failure) => failed(failure),
        HttpError::Cancelled(_) => Error::Cancelled,
    }
}

#[cfg(target_arch = "wasm32")]
mod host {
    pub(super) use crate::bindings::imports::pinion::plugin::http::send;
}

#[cfg(not(target_arch = "wasm32"))]
mod host {
    pub(super) use crate::testing::respond as send;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use serde_json::{Value, json};

    fn response(status: u16, body: &str) -> Response {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Response { status, headers, body: body.into(), url: "https://a.example/x?key=1".to_owned() }
    }

    #[test]
    fn request_is_built_and_answered_in_a_native_test() {
        testing::respond_with(|request| {
            assert_eq!((request.method.as_str(), request.credential.as_deref()), ("POST", Some("key")));
            assert_eq!(request.headers, [("content-type".to_owned(), "application/json".to_owned())]);
            Ok(response(200, std::str::from_utf8(&request.body).unwrap()))
        });
        let request = Request::post("https://a.example").credential("key").json(&json!({ "a": 1 })).unwrap();
        let response = request.send().unwrap().success().unwrap();
        assert_eq!(response.header("Content-Type"), Some("application/json"));
        assert_eq!(response.json::<Value>().unwrap(), json!({ "a": 1 }));
    }

    #[test]
    fn status_outside_200_is_an_error_without_the_query() {
        let error = response(404, "").success().unwrap_err();
        assert_eq!(error, Error::NotFound("`https://a.example/x` answered with status 404".to_owned()));
        for (status, is_retryable) in [(302, false), (403, false), (429, true), (503, true)] {
            let Err(Error::Failed { retryable, .. }) = response(status, "").success() else { panic!("{status}") };
            assert_eq!(retryable, is_retryable, "{status}");
        }
    }

    #[test]
    fn host_errors_keep_their_kind() {
        let failure = |request_sent| Failure { message: "m".to_owned(), request_sent };
        let failed = |retryable| Error::Failed { message: "m".to_owned(), retryable };
        for (error, expected) in [
            (HttpError::Denied("d".to_owned()), Error::Denied("d".to_owned())),
            (HttpError::Invalid("i".to_owned()), Error::InvalidInput("i".to_owned())),
            (HttpError::TimedOut(failure(true)), failed(false)),
            (HttpError::Failed(failure(false)), failed(true)),
            (HttpError::Cancelled(failure(false)), Error::Cancelled),
        ] {
            assert_eq!(Error::from(error), expected);
        }
    }
}
