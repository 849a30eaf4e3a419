//! The check of a key without a request to a model: the vendor's list of models, which most vendors show only to holders
//! of a key.

use crate::auth::Authenticator;
use crate::formats::WireFormat;
use crate::provider::{ProviderConfig, ProviderContext};
use crate::transport::HttpTransport;
use crate::vendors::{Endpoint, ProviderInfo, RegistryError, UrlVariables};
use bytes::Bytes;
use pinion_protocol::ProviderError;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;

/// Bytes of the list that are read.
const MAX_LIST_BYTES: usize = 64 << 10;

/// A key and the list of models that tells whether the vendor accepts it.
#[derive(Debug)]
pub struct KeyCheck {
    list: Url,
    /// Headers without the key.
    headers: HeaderMap,
    authenticator: Authenticator,
    key: SecretString,
    transport: HttpTransport,
}

impl KeyCheck {
    /// The check of a configuration's key. `None` for a vendor whose list of models is elsewhere, and without a key. Sends
    /// nothing.
    ///
    /// # Errors
    /// The base URL, the proxy or the certificates are invalid.
    pub fn from_config(
        info: &'static ProviderInfo,
        config: ProviderConfig,
        context: &ProviderContext,
    ) -> Result<Option<Self>, RegistryError> {
        let base = config.base_url.as_deref();
        let mut headers = HeaderMap::new();
        match info.format_at(base) {
            Some(WireFormat::OpenAiChat(_) | WireFormat::OpenAiResponses(_) | WireFormat::Gemini) => {}
            Some(WireFormat::Anthropic(_)) => {
                let version = HeaderValue::from_static("2023-06-01");
                headers.insert(HeaderName::from_static("anthropic-version"), version);
            }
            _ => return Ok(None),
        }
        let Some(key) = config.api_key else { return Ok(None) };
        let place = UrlVariables { region: context.region.as_deref(), project: context.project.as_deref() };
        let list = Endpoint::new(info, base, place)?.beside("models");
        config.http.proxy.check(&list)?;
        context.secrets.for_server().add(&key);
        let transport = HttpTransport::new(config.http, &context.certificates)
            .map_err(|source| RegistryError::Certificates { provider: info.name, source })?;
        let authenticator = Authenticator::new(info.auth, context.region.clone(), transport.clone());
        Ok(Some(Self { list, headers, authenticator, key, transport }))
    }

    /// Asks for the list with the key. Returns false if the list says nothing about it, because the server shows it without
    /// a key, too.
    ///
    /// # Errors
    /// [`ProviderError::Auth`] if the key is refused; any other error leaves the question open.
    pub async fn ask(&self) -> Result<bool, ProviderError> {
        let credentials = self.authenticator.credentials(&self.key, &self.list, &Bytes::new()).await?;
        let mut headers = self.headers.clone();
        headers.extend(credentials.headers);
        self.transport.get_with(self.list.clone(), headers, MAX_LIST_BYTES).await?;
        Ok(self.transport.get_with(self.list.clone(), self.headers.clone(), MAX_LIST_BYTES).await.is_err())
    }
}
