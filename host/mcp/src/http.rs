//! The HTTP clients, built for the first server over HTTP.
//!
//! Redirects that could carry a header or a message to another origin are not followed. Only [`HttpSettings`]
//! configures proxies; the environment is not read.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Proxy, StatusCode, redirect};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::{BuilderVerifierExt as _, Verifier};
use url::Url;

use crate::error::causes;

/// Maximum redirects of one request.
const MAX_REDIRECTS: usize = 5;
/// Limit on connecting, including TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Chooses the proxy for an address.
pub type ChooseProxy = Arc<dyn Fn(&Url) -> Option<Url> + Send + Sync>;

/// Proxy and certificate authorities.
#[derive(Clone, Default)]
pub struct HttpSettings {
    /// The proxy for an address; none connects directly.
    pub proxy: Option<ChooseProxy>,
    /// Certificate authorities besides the platform's.
    pub roots: Vec<CertificateDer<'static>>,
}

impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSettings").field("proxy", &self.proxy.is_some()).field("roots", &self.roots.len()).finish()
    }
}

/// Clients that are built when they are first needed, because reading certificate authorities takes milliseconds.
#[derive(Debug)]
pub(crate) struct Http {
    settings: HttpSettings,
    secure: OnceLock<Result<Client, String>>,
    plain: OnceLock<Result<Client, String>>,
}

impl Http {
    pub(crate) fn new(settings: HttpSettings) -> Self {
        Self { settings, secure: OnceLock::new(), plain: OnceLock::new() }
    }

    /// Returns the client for requests to a server.
    pub(crate) fn client(&self, url: &Url) -> Result<Client, String> {
        let is_secure = url.scheme() == "https" || self.settings.proxy.is_some();
        let slot = if is_secure { &self.secure } else { &self.plain };
        slot.get_or_init(|| {
            let builder = self.builder(is_secure).map_err(|error| causes(&*error))?;
            builder.redirect(same_origin()).build().map_err(|error| causes(&error))
        })
        .clone()
    }

    /// Returns a builder with TLS and proxy set, which follows no redirects.
    pub(crate) fn builder(&self, is_secure: bool) -> Result<ClientBuilder, Box<dyn Error + Send + Sync>> {
        let builder = Client::builder()
            .tls_backend_preconfigured(tls(is_secure, &self.settings.roots)?)
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            // A pooled connection whose last body was not read to its end stalls the next request.
            .pool_max_idle_per_host(0)
            .user_agent(concat!("pinion/", env!("CARGO_PKG_VERSION")));
        Ok(match self.settings.proxy.clone() {
            Some(choose) => builder.proxy(Proxy::custom(move |url| choose(url))),
            None => builder,
        })
    }
}

/// Follows only redirects that keep method, body and origin: others would lose the message or show the session and the
/// user's headers to a stranger.
fn same_origin() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let keeps_body = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let first = attempt.previous().first().map(Url::origin);
        if !keeps_body || first != Some(attempt.url().origin()) || attempt.previous().len() > MAX_REDIRECTS {
            attempt.stop()
        } else {
            attempt.follow()
        }
    })
}

/// Configures TLS with the platform's and the user's certificate authorities, or with none where there is no TLS.
fn tls(needs_roots: bool, roots: &[CertificateDer<'static>]) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let mut config = match (needs_roots, roots) {
        (false, _) => config.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
        (true, []) => config.with_platform_verifier()?.with_no_client_auth(),
        (true, roots) => {
            let verifier = Verifier::new_with_extra_roots(roots.iter().cloned(), provider)?;
            config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
