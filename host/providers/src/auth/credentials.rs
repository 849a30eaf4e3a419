//! Authentication headers, and the secrets in them.

use pinion_protocol::ProviderError;
use reqwest::header::{HeaderMap, HeaderValue};
use secrecy::SecretString;

/// What a key became.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) headers: HeaderMap,
    /// Whatever must not be seen in an error or a recording, besides the key as it was given.
    pub(crate) secrets: Vec<SecretString>,
}

/// A header's value that nobody prints.
pub(crate) fn secret_value(what: &str, value: &str) -> Result<HeaderValue, ProviderError> {
    let message = || format!("{what} holds a character that no header can carry");
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| ProviderError::Auth { message: message() })?;
    value.set_sensitive(true);
    Ok(value)
}
