//! The variants of [`ProviderError`] by name, for scripts and the proxy protocol.

use pinion_protocol::ProviderError;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The variants of [`ProviderError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "they mean what the variants of `ProviderError` mean")]
pub enum ErrorKind {
    Api,
    Auth,
    RateLimited,
    Overloaded,
    Network,
    ContextOverflow,
    ImageRefused,
    Malformed,
    Cancelled,
}

impl ErrorKind {
    pub(crate) fn from_error(error: &ProviderError) -> Self {
        match error {
            ProviderError::Api { .. } => Self::Api,
            ProviderError::Auth { .. } => Self::Auth,
            ProviderError::RateLimited { .. } => Self::RateLimited,
            ProviderError::Overloaded { .. } => Self::Overloaded,
            ProviderError::Network { .. } | ProviderError::Unreachable { .. } => Self::Network,
            ProviderError::ContextOverflow { .. } => Self::ContextOverflow,
            ProviderError::ImageRefused { .. } => Self::ImageRefused,
            ProviderError::Malformed { .. } => Self::Malformed,
            ProviderError::Cancelled => Self::Cancelled,
        }
    }

    /// Builds an error of this kind. `status`, `message` and `retry_after` are dropped where the kind does not store
    /// them.
    pub(crate) fn error(self, status: Option<u16>, message: String, retry_after: Option<Duration>) -> ProviderError {
        match self {
            Self::Api => ProviderError::Api { status, message },
            Self::Auth => ProviderError::Auth { message },
            Self::RateLimited => ProviderError::RateLimited { message, retry_after },
            Self::Overloaded => ProviderError::Overloaded { message, retry_after },
            Self::Network => ProviderError::Network { message },
            Self::ContextOverflow => ProviderError::ContextOverflow { message },
            Self::ImageRefused => ProviderError::ImageRefused { message },
            Self::Malformed => ProviderError::Malformed { message },
            Self::Cancelled => ProviderError::Cancelled,
        }
    }
}

/// Returns the message of an error without the prefix of its `Display`.
pub(crate) fn message_of(error: &ProviderError) -> &str {
    match error {
        ProviderError::Api { message, .. }
        | ProviderError::Auth { message }
        | ProviderError::RateLimited { message, .. }
        | ProviderError::Overloaded { message, .. }
        | ProviderError::Network { message }
        | ProviderError::Unreachable { message }
        | ProviderError::ContextOverflow { message }
        | ProviderError::ImageRefused { message }
        | ProviderError::Malformed { message } => message,
        ProviderError::Cancelled => "cancelled",
    }
}
