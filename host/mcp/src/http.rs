//! The HTTP clients, built for the first server over HTTP.
//!
//! Redirects that could carry a header or a message to another origin are not followed. Only [`HttpSettings`]
//! configures proxies; the environment is not read.

use crate::catalogue::cache::read_bytes;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Maximum bytes of a file of certificate authorities.
const MAX_CERTIFICATES: u64 = 16 << 20;

use reqwest::{Client, ClientBuilder, Proxy, StatusCode, redirect};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::{BuilderVerifierExt as _, Verifier};
use url::Url;

use crate::error::causes;

/// Maximum redirects of one request.
const MAX_REDIRECTS: usize = 5;
/// Limit on connecting, including TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that an unused connection is kept. Many servers close theirs after five seconds, and a request that meets its
/// end is lost, so that it must not be longer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Chooses the proxy for an address; `None` connects directly. An error describes a proxy that cannot be used.
pub type ChooseProxy = Arc<dyn Fn(&Url) -> Result<Option<ChosenProxy>, String> + Send + Sync>;

/// The proxy for an address.
#[derive(Clone)]
pub struct ChosenProxy {
    /// Its address, with user and password.
    pub url: Url,
    /// Its name and origin for messages, without user and password.
    pub shown: String,
}

/// Proxy and certificate authorities.
#[derive(Clone, Default)]
pub struct HttpSettings {
    /// Chooses the proxy; `None` connects directly.
    pub proxy: Option<ChooseProxy>,
    /// PEM file of certificate authorities besides the platform's, read for the first server over HTTP.
    pub certificates: Option<PathBuf>,
}

impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { proxy, certificates } = self;
        f.debug_struct("HttpSettings").field("proxy", &proxy.is_some()).field("certificates", certificates).finish()
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

    /// Returns the proxy for an address.
    ///
    /// # Errors
    /// The proxy cannot be used; the text says why.
    pub(crate) fn proxy(&self, url: &Url) -> Result<Option<ChosenProxy>, String> {
        self.settings.proxy.as_ref().map_or(Ok(None), |choose| choose(url))
    }

    /// Returns the client for requests to a server.
    pub(crate) fn client(&self, url: &Url) -> Result<Client, String> {
        let is_secure = url.scheme() == "https" || self.proxy(url)?.is_some_and(|proxy| proxy.url.scheme() == "https");
        let slot = if is_secure { &self.secure } else { &self.plain };
        slot.get_or_init(|| {
            let builder = self.proxied(self.builder(is_secure)?);
            builder.redirect(same_origin()).build().map_err(|error| causes(&error))
        })
        .clone()
    }

    /// Returns a builder with TLS set, which uses no proxy and follows no redirects.
    pub(crate) fn builder(&self, is_secure: bool) -> Result<ClientBuilder, String> {
        let roots = if is_secure { self.roots()? } else { Vec::new() };
        let tls = tls(is_secure, &roots).map_err(|error| causes(&error))?;
        Ok(Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .user_agent(concat!("pinion/", env!("CARGO_PKG_VERSION"))))
    }

    /// Uses the configured proxies.
    pub(crate) fn proxied(&self, builder: ClientBuilder) -> ClientBuilder {
        match self.settings.proxy.clone() {
            // Errors were reported before the request.
            Some(choose) => builder.proxy(Proxy::custom(move |url| choose(url).ok().flatten().map(|proxy| proxy.url))),
            None => builder,
        }
    }

    /// Reads the user's certificate authorities.
    fn roots(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let Some(file) = &self.settings.certificates else { return Ok(Vec::new()) };
        let failed = |problem: String| format!("cannot use the certificates in `{}`: {problem}", file.display());
        let pem = read_bytes(file, MAX_CERTIFICATES).map_err(|error| failed(causes(&error)))?;
        let roots = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        let roots = roots.map_err(|error| failed(causes(&error)))?;
        if roots.is_empty() { Err(failed("it has none".to_owned())) } else { Ok(roots) }
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

/// Configures TLS with the platform's and the user's certificate authorities, or without any if there is no TLS.
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
