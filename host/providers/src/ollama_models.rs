//! The models that an Ollama server has: <https://docs.ollama.com/api/tags>.

use crate::provider::{ProviderConfig, ProviderContext};
use crate::transport::HttpTransport;
use crate::vendors::{Endpoint, ProviderInfo, RegistryError, UrlVariables, provider};
use pinion_protocol::ProviderError;
use reqwest::Url;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// The time that the server has for its list. It reads a directory.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a list, of about 500 for each model.
const MAX_LIST_BYTES: usize = 4 << 20;
/// The tag of a model that is named without one.
const DEFAULT_TAG: &str = "latest";

/// An Ollama server, which lists its models.
#[derive(Debug)]
pub struct OllamaModels {
    url: Url,
    transport: HttpTransport,
}

#[derive(Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

impl OllamaModels {
    /// The provider of these models.
    ///
    /// # Errors
    /// None: the provider is built in.
    pub fn provider() -> Result<&'static ProviderInfo, RegistryError> {
        provider("ollama")
    }

    /// The server of a configuration; only the base URL, the proxy and the certificates count. Sends nothing.
    ///
    /// # Errors
    /// The base URL, the proxy or the certificates are invalid.
    pub fn from_config(config: ProviderConfig, context: &ProviderContext) -> Result<Self, RegistryError> {
        let info = Self::provider()?;
        let url = Endpoint::new(info, config.base_url.as_deref(), UrlVariables::default())?.beside("api/tags");
        config.http.proxy.check(&url)?;
        let transport = HttpTransport::new(config.http, &context.certificates)
            .map_err(|source| RegistryError::Certificates { provider: info.name, source })?;
        Ok(Self { url, transport })
    }

    /// The address of the server for people, without a path.
    pub fn address(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Returns the full name of the model that a user means, such as `qwen3:latest` for `qwen3`; `None` if the server
    /// does not have it. Asks for the whole list, so that the name is not sent, and sends neither key nor headers.
    /// Takes 2 s at most.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer in time, or does not answer with a list.
    pub async fn find(&self, model: &str) -> Result<Option<String>, ProviderError> {
        let late = || ProviderError::Network { message: format!("no answer within {} s", PATIENCE.as_secs()) };
        let list =
            timeout(PATIENCE, self.transport.get(self.url.clone(), MAX_LIST_BYTES)).await.map_err(|_| late())??;
        let tags: Tags = serde_json::from_slice(&list).map_err(|error| ProviderError::Malformed {
            message: format!("the answer is no list of models: {error}"),
        })?;
        let is_meant = |tag: &Tag| {
            let rest = tag.name.strip_prefix(model);
            rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':') == Some(DEFAULT_TAG))
        };
        Ok(tags.models.into_iter().find(is_meant).map(|tag| tag.name))
    }
}
