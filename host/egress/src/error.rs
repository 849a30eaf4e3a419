//! Failures of requests. Each says whether the request may have reached a server.

use crate::policy::Denial;
use std::fmt;
use std::time::Duration;

/// A request failed. No message contains a path, a query, a header or a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The policy refuses the request, or a redirect of it.
    #[error("{denial}")]
    Denied {
        /// The reason.
        denial: Denial,
        /// The request may have reached a server, which then redirected it.
        request_sent: bool,
    },
    /// The request is malformed, or sets a field that the client sets itself. It was not sent.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// The request or the response exceeds a limit.
    #[error("{limit}")]
    TooLarge {
        /// The limit.
        limit: Limit,
        /// The request may have reached the server.
        request_sent: bool,
    },
    /// The time is over.
    #[error("no complete response within {} s", .after.as_secs_f32())]
    TimedOut {
        /// The limit that was reached: [`connect`](crate::RequestLimits::connect) or [`total`](crate::RequestLimits::total).
        after: Duration,
        /// The request may have reached the server.
        request_sent: bool,
    },
    /// The caller cancelled the request.
    #[error("the request was cancelled")]
    Cancelled {
        /// The request may have reached the server.
        request_sent: bool,
    },
    /// The network or the server failed.
    #[error("{message}")]
    Failed {
        /// The failure, with host and port.
        message: String,
        /// The request may have reached the server.
        request_sent: bool,
    },
}

impl SendError {
    /// Returns whether the request may have reached a server: `true` from the first byte that was passed to a
    /// connection. If it returns `false`, sending the request again cannot repeat its effects.
    pub fn request_sent(&self) -> bool {
        match self {
            Self::InvalidRequest(_) => false,
            Self::Denied { request_sent, .. }
            | Self::TooLarge { request_sent, .. }
            | Self::TimedOut { request_sent, .. }
            | Self::Cancelled { request_sent }
            | Self::Failed { request_sent, .. } => *request_sent,
        }
    }
}

/// A limit on the size of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Bytes of the request's body.
    RequestBody(u64),
    /// Bytes of the request's header fields.
    RequestHeaders(u64),
    /// Number or bytes of the response's header fields.
    ResponseHeaders(u64),
    /// Bytes of the response's body, decompressed.
    ResponseBody(u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestBody(bytes) => write!(f, "the body of the request exceeds {bytes} bytes"),
            Self::RequestHeaders(bytes) => write!(f, "the header fields of the request exceed {bytes} bytes"),
            Self::ResponseHeaders(bytes) => write!(f, "the header of the response exceeds {bytes} bytes or 100 fields"),
            Self::ResponseBody(bytes) => write!(f, "the body of the response exceeds {bytes} bytes"),
        }
    }
}

/// A failure of one exchange, before it is known whether the request was sent.
#[derive(Debug, Clone)]
pub(crate) enum ExchangeFailure {
    Denied(Denial),
    Invalid(String),
    TooLarge(Limit),
    TimedOut(Duration),
    Cancelled,
    Failed(String),
}

impl ExchangeFailure {
    pub(crate) fn sent(self, request_sent: bool) -> SendError {
        match self {
            Self::Denied(denial) => SendError::Denied { denial, request_sent },
            // The request was valid; the server redirected it to something that is not.
            Self::Invalid(message) if request_sent => SendError::Failed { message, request_sent },
            Self::Invalid(problem) => SendError::InvalidRequest(problem),
            Self::TooLarge(limit) => SendError::TooLarge { limit, request_sent },
            Self::TimedOut(after) => SendError::TimedOut { after, request_sent },
            Self::Cancelled => SendError::Cancelled { request_sent },
            Self::Failed(message) => SendError::Failed { message, request_sent },
        }
    }
}

/// Shows the message of the [`SendError`].
impl fmt::Display for ExchangeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clone().sent(false).fmt(f)
    }
}

impl From<Denial> for ExchangeFailure {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}
