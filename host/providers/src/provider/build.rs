//! The configuration of providers, and building them from it.

use super::caller::Caller;
use super::http_provider::HttpProvider;
use crate::auth::Authenticator;
use crate::keys::KeySource;
use crate::models::ModelTable;
use crate::recording::{Playback, Recorder};
use crate::transport::{HttpTransport, TransportSettings};
use crate::vendors::{Endpoint, ProviderInfo, RegistryError, UrlVariables, provider};
use pinion_protocol::Provider;
use pinion_redact::{RedactedProvider, Secrets};
use reqwest::header::HeaderName;
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

/// Builds a provider. Cheap: nothing is read or sent before the first request.
///
/// # Errors
/// The provider does not exist, or its configuration is invalid.
pub fn build(config: ProviderConfig, models: Arc<ModelTable>) -> Result<Arc<dyn Provider>, RegistryError> {
    build_with(config, ProviderContext::default(), models)
}

/// Builds a provider like [`build`], with a context.
///
/// # Errors
/// The provider does not exist, or its configuration is invalid.
pub fn build_with(
    config: ProviderConfig,
    context: ProviderContext,
    models: Arc<ModelTable>,
) -> Result<Arc<dyn Provider>, RegistryError> {
    build_info(provider(&config.name)?, config, context, models)
}

/// Builds a provider like [`build_with`] from its row, which need not be one of [`PROVIDERS`](crate::PROVIDERS).
/// The name in `config` is not used.
///
/// # Errors
/// Its configuration is invalid.
pub fn build_info(
    info: &'static ProviderInfo,
    config: ProviderConfig,
    context: ProviderContext,
    models: Arc<ModelTable>,
) -> Result<Arc<dyn Provider>, RegistryError> {
    let base = config.base_url.as_deref();
    let format = info.format_at(base).ok_or(RegistryError::NeedsScript)?;
    // Playback sends nothing, so any region will do.
    let region = context.region.as_deref().or(context.playback.as_ref().map(|_| "nowhere"));
    let place = UrlVariables { region, project: context.project.as_deref() };
    let endpoint = Endpoint::new(info, base, place)?;
    let headers = config.headers.into_iter().map(|(name, value)| match HeaderName::from_bytes(name.as_bytes()) {
        Ok(name) => Ok((name, value)),
        Err(_) => Err(RegistryError::Header { name }),
    });
    let secrets = context.secrets.for_server();
    let headers: Vec<(HeaderName, SecretString)> = headers.collect::<Result<_, _>>()?;
    headers.iter().for_each(|(name, value)| secrets.add_header(name.as_str(), value));
    config.api_key.iter().chain(&config.http.proxy.credentials()).for_each(|value| secrets.add(value));
    if context.playback.is_none() {
        config.http.proxy.check(&endpoint.url(""))?;
    }
    let transport = HttpTransport::new(config.http, &context.certificates)
        .map_err(|source| RegistryError::Certificates { provider: info.name, source })?;
    let missing = |variable| format!("no key for `{}`: set the environment variable `{variable}`", info.name);
    let caller = Caller {
        name: info.name,
        base_url: base.map(|base| base.split(['?', '#']).next().unwrap_or_default().to_owned()),
        authenticator: Authenticator::new(info.auth, context.region, transport.clone()),
        key: config.api_key,
        keys: context.keys,
        without_key: info.key_variable.filter(|_| info.needs_key(base)).map(missing),
        headers,
        transport,
        recorder: context.recorder,
        playback: context.playback,
        secrets,
    };
    let provider = HttpProvider {
        name: info.name,
        format,
        endpoint,
        models,
        caller: Arc::new(caller),
        refused_images: Arc::default(),
    };
    Ok(Arc::new(RedactedProvider::new(Arc::new(provider), context.secrets)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeySources;
    use crate::vendors::{ACME, PROVIDERS};
    use secrecy::ExposeSecret as _;

    #[test]
    fn every_provider_except_replay_can_be_built() {
        for info in PROVIDERS {
            let base_url = info.base_url.is_empty().then(|| "http://127.0.0.1:1".to_owned());
            let config = ProviderConfig { name: info.name.to_owned(), base_url, ..ProviderConfig::default() };
            let context = ProviderContext { region: Some("us-east-1".to_owned()), ..ProviderContext::default() };
            match build_with(config, context, ModelTable::builtin()) {
                Ok(provider) => assert_eq!(provider.name(), info.name),
                Err(error) => assert_eq!((info.name, error.to_string().contains("script")), ("replay", true)),
            }
        }
    }

    /// `docs/vendors.md` refers to this test: the row of `ACME` is all that its vendor needs.
    #[tokio::test]
    async fn vendor_needs_only_its_row() {
        let variable = |name: &str| match name {
            "ACME_KEY" => Some("sk-acme".to_owned()),
            "ACME_URL" => Some("https://me.acme.example/api".to_owned()),
            _ => None,
        };
        let base_url = ACME.base_url_from(variable);
        assert_eq!(base_url.as_deref(), Some("https://me.acme.example/api"));
        assert!(ACME.needs_key(None) && !ACME.needs_key(base_url.as_deref()));
        let key = KeySources::new(&ACME).environment(variable).key().await.unwrap();
        assert_eq!(key.unwrap().secret.expose_secret(), "sk-acme");
        let url =
            |base: Option<&str>| Endpoint::new(&ACME, base, UrlVariables::default()).unwrap().url("m").to_string();
        assert_eq!(url(None), "https://eu.acme.example/v1/chat/completions");
        assert_eq!(url(base_url.as_deref()), "https://me.acme.example/api/chat/completions");
        let config = ProviderConfig::default();
        let provider = build_info(&ACME, config, ProviderContext::default(), ModelTable::builtin()).unwrap();
        assert_eq!(provider.name(), "acme");
    }

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
