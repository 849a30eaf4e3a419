//! The configuration of a provider.

use crate::keys::KeySource;
use crate::recording::{Playback, Recorder};
use crate::transport::TransportSettings;
use pinion_redact::Secrets;
use secrecy::SecretString;
use std::sync::Arc;

/// The user's configuration of a provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderConfig {
    /// Its name in [`PROVIDERS`](crate::PROVIDERS).
    pub name: String,
    /// The base URL that replaces the usual one. A URL without a path gets the version, such as `/v1`; it may have a
    /// query.
    pub base_url: Option<String>,
    /// The key. The user's own servers may need no key.
    pub api_key: Option<SecretString>,
    /// Headers for every request, which replace the provider's own of the same name. Their values are treated as
    /// secrets.
    pub headers: Vec<(String, SecretString)>,
    /// Timeouts and proxy.
    pub http: TransportSettings,
}

/// The environment of a provider, which most providers can do without.
#[derive(Debug, Clone, Default)]
pub struct ProviderContext {
    /// The region or location, for `bedrock` and `vertex`.
    pub region: Option<String>,
    /// The project that is billed, for `vertex`. Without one, requests use the express mode, which takes an API key.
    pub project: Option<String>,
    /// The source of keys when [`ProviderConfig::api_key`] is `None`. Queried before every request.
    pub keys: Option<Arc<dyn KeySource>>,
    /// Additional certificate authorities as PEM, such as the authority of a company's gateway.
    pub certificates: Vec<u8>,
    /// Records all exchanges.
    pub recorder: Option<Arc<Recorder>>,
    /// Answers from a recording instead of the network; no key is needed then.
    pub playback: Option<Arc<Playback>>,
    /// Secrets that replies must not repeat. The provider adds every credential that it uses. Share one value among
    /// providers and tools, so that they never repeat a secret of another.
    pub secrets: Secrets,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_contains_no_key() {
        let config = ProviderConfig {
            name: "openai-chat".to_owned(),
            api_key: Some(SecretString::from("sk-secret-1")),
            headers: vec![("x-extra".to_owned(), SecretString::from("sk-secret-2"))],
            ..ProviderConfig::default()
        };
        assert!(!format!("{config:?}").contains("sk-secret"));
    }
}
