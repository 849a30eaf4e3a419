//! Authentication headers, and the secrets in them.

use pinion_protocol::ProviderError;
use reqwest::header::{HeaderMap, HeaderValue};
use secrecy::SecretString;

/// The headers made from a key.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) headers: HeaderMap,
    /// Values besides the key that must not appear in an error or a recording.
    pub(crate) secrets: Vec<SecretString>,
}

/// Builds a header value that is excluded from debug output and recordings.
pub(crate) fn secret_value(what: &str, value: &str) -> Result<HeaderValue, ProviderError> {
    let message = || format!("{what} contains a character that is not allowed in a header");
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| ProviderError::Auth { message: message() })?;
    value.set_sensitive(true);
    Ok(value)
}
