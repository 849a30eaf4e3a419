//! What a provider is built from.

use crate::keys::KeySource;
use crate::recording::{Playback, Recorder};
use crate::transport::HttpSettings;
use pinion_protocol::Secrets;
use secrecy::SecretString;
use std::sync::Arc;

/// What the user says of a provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderConfig {
    /// Its name in [`PROVIDERS`].
    pub name: String,
    /// Where it is, instead of its usual place. With or without `/v1`: a URL without a path gets one. May have a query.
    pub base_url: Option<String>,
    /// Its key. Servers at a base URL of the user's may do without.
    pub api_key: Option<SecretString>,
    /// Headers for every request, besides or instead of its own. Their values are kept as secret as the key.
    pub headers: Vec<(String, SecretString)>,
    /// Time limits and proxy.
    pub http: HttpSettings,
}

/// What a provider needs besides, and most do not.
#[derive(Debug, Clone, Default)]
pub struct ProviderContext {
    /// The region or location, where a provider has several: `bedrock`, `vertex`.
    pub region: Option<String>,
    /// The project that pays: `vertex`. Without one it is asked in express mode, which takes an API key.
    pub project: Option<String>,
    /// Where the key comes from when [`ProviderConfig::api_key`] holds none. Asked before every request.
    pub keys: Option<Arc<dyn KeySource>>,
    /// Certificate authorities besides the platform's, as PEM: for a gateway of the user's own.
    pub certificates: Vec<u8>,
    /// Writes the exchanges down.
    pub recorder: Option<Arc<Recorder>>,
    /// Answers from what was written down, instead of the network. No key is needed then.
    pub playback: Option<Arc<Playback>>,
    /// Secrets that replies must not repeat. Every credential that the provider uses is added. Share them among providers
    /// and tools, so that none repeats what another one was given.
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
