//! The HTTP client, with every wait and every size bounded.
//!
//! A client is built for the first request and reused. For a URL without TLS, it is built without certificate
//! authorities, because loading those takes longer than everything else in a short run. Redirects are not followed,
//! because they would send the key elsewhere. Only [`HttpSettings::proxy`] configures proxies, because this crate does
//! not read the environment; the binary passes on the user's settings. (`rustls-native-certs` itself reads
//! `SSL_CERT_FILE` and `SSL_CERT_DIR` on some platforms, as every TLS client does.)

use super::classify::{Answer, classify, classify_object};
use super::failure::{self, Route};
use super::proxy::ProxySettings;
use super::retry_after::retry_after;
use crate::causes::with_causes;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use jiff::Timestamp;
use pinion_protocol::ProviderError;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Proxy, Response, Url, redirect};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::{BuilderVerifierExt, Verifier};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::timeout;

/// The limit on the body of a response that is not a reply: 64 KiB.
const MAX_ERROR_BODY: usize = 64 << 10;

/// Timeouts and proxy.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// The timeout for connecting, including TLS. Defaults to 10 s.
    pub connect_timeout: Duration,
    /// The timeout from the start of the request to the head of the response. Defaults to 300 s, because local servers
    /// load a model before they respond.
    pub header_timeout: Duration,
    /// The timeout between two packets of the response. Defaults to 120 s.
    pub idle_timeout: Duration,
    /// The proxies. Defaults to none.
    pub proxy: ProxySettings,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(120),
            proxy: ProxySettings::default(),
        }
    }
}

/// A request to send.
pub(crate) struct Outgoing {
    pub(crate) url: Url,
    /// The headers; secret values are marked as sensitive.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The packets of a response. The stream ends with the response, or with the error that interrupted it.
pub(crate) type Packets = BoxStream<'static, Result<Bytes, ProviderError>>;

/// A response of any status.
pub(crate) struct RawAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) packets: Packets,
}

/// Sends requests over pooled connections, which clones share.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    shared: Arc<Clients>,
}

#[derive(Debug)]
struct Clients {
    settings: HttpSettings,
    /// Certificate authorities besides the platform's.
    roots: Vec<CertificateDer<'static>>,
    /// The client for URLs with TLS.
    secure: OnceLock<Result<Client, String>>,
    plain: OnceLock<Result<Client, String>>,
    /// A response has arrived.
    was_reached: AtomicBool,
}

impl Transport {
    /// Cheap: the client is built for the first request. `certificates` is PEM and may be empty.
    ///
    /// # Errors
    /// The certificates are not PEM.
    pub(crate) fn new(settings: HttpSettings, certificates: &[u8]) -> Result<Self, pem::Error> {
        let roots = CertificateDer::pem_slice_iter(certificates).collect::<Result<Vec<_>, _>>();
        let roots = roots?;
        if roots.is_empty() && !certificates.trim_ascii().is_empty() {
            return Err(pem::Error::NoItemsFound);
        }
        let shared = Clients {
            settings,
            roots,
            secure: OnceLock::new(),
            plain: OnceLock::new(),
            was_reached: AtomicBool::new(false),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The timeout between two packets.
    pub(crate) fn idle_timeout(&self) -> Duration {
        self.shared.settings.idle_timeout
    }

    /// Sends a request and waits for the head of its response. Dropping the future or the packets aborts the request.
    ///
    /// # Errors
    /// [`ProviderError::Network`] when the server is unreachable or too slow, and [`ProviderError::Api`] when the
    /// connection can never succeed.
    pub(crate) async fn request(&self, request: Outgoing) -> Result<RawAnswer, ProviderError> {
        let Clients { settings, was_reached, .. } = &*self.shared;
        let proxy = settings.proxy.choose(&request.url);
        let proxy = proxy.map_err(|error| ProviderError::Api { status: None, message: error.to_string() })?;
        let route = Route::new(&request.url, proxy);
        let client = self.client(&request.url)?;
        let sent = client.post(request.url).headers(request.headers).body(request.body).send();
        let response = match timeout(settings.header_timeout, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let was_reached = was_reached.load(Ordering::Relaxed);
                return Err(failure::of_request(error.without_url(), &route, was_reached).await);
            }
            Err(_) => return Err(failure::late(&route, settings.header_timeout)),
        };
        was_reached.store(true, Ordering::Relaxed);
        let status = response.status().as_u16();
        Ok(RawAnswer { status, headers: response.headers().clone(), packets: packets(response, route.to_string()) })
    }

    /// Sends a request and reads a small response, up to [`MAX_ERROR_BODY`].
    ///
    /// # Errors
    /// The same as for [`Self::request`], and the error that the server responds with.
    pub(crate) async fn fetch(&self, request: Outgoing) -> Result<Vec<u8>, ProviderError> {
        let answer = self.request(request).await?;
        match answer.status {
            200..=299 => Ok(beginning(answer.packets, self.idle_timeout()).await),
            _ => Err(error_of(answer, self.idle_timeout()).await),
        }
    }

    fn client(&self, url: &Url) -> Result<&Client, ProviderError> {
        let is_secure = url.scheme() == "https";
        let slot = if is_secure { &self.shared.secure } else { &self.shared.plain };
        let client = slot.get_or_init(|| build(&self.shared, is_secure).map_err(|error| with_causes(&*error)));
        client
            .as_ref()
            .map_err(|error| ProviderError::Api { status: None, message: format!("could not set up HTTP: {error}") })
    }
}

/// Returns the packets of a response that is a reply.
///
/// # Errors
/// The vendor's error response.
pub(crate) async fn reply(answer: RawAnswer, idle: Duration) -> Result<Packets, ProviderError> {
    let is_empty = answer.headers.get(CONTENT_LENGTH).is_some_and(|length| length.as_bytes() == b"0");
    match answer.status {
        204 | 205 => Err(ProviderError::Malformed { message: format!("HTTP {} has no content", answer.status) }),
        200..=299 if is_empty => Err(ProviderError::Malformed { message: "the response is empty".to_owned() }),
        200..=299 if !is_not_events(&answer.headers) => Ok(answer.packets),
        _ => Err(error_of(answer, idle).await),
    }
}

/// The error that an answer means.
async fn error_of(answer: RawAnswer, idle: Duration) -> ProviderError {
    let RawAnswer { status, headers, packets } = answer;
    let body = beginning(packets, idle).await;
    if (200..=299).contains(&status) {
        return not_events(&body, &headers);
    }
    let text = |name: &&str| headers.get(*name)?.to_str().ok();
    let request_id = ["request-id", "x-request-id", "x-amzn-requestid", "apim-request-id"].iter().find_map(text);
    let retry_after = retry_after(&headers, Timestamp::now());
    match classify(&Answer { status, body: &body, code: text(&"x-amzn-errortype"), retry_after, request_id }) {
        ProviderError::Overloaded { message, retry_after } => {
            ProviderError::Overloaded { message: format!("HTTP {status}: {message}"), retry_after }
        }
        ProviderError::Auth { message } => ProviderError::Auth { message: format!("HTTP {status}: {message}") },
        error => error,
    }
}

/// Reads a body until it pauses for `idle` or reaches [`MAX_ERROR_BODY`].
async fn beginning(mut packets: Packets, idle: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(Ok(packet))) = timeout(idle, packets.next()).await {
        let room = MAX_ERROR_BODY - body.len();
        body.extend_from_slice(&packet[..packet.len().min(room)]);
        if body.len() == MAX_ERROR_BODY {
            break;
        }
    }
    body
}

/// Returns whether the content type rules out events: some servers send JSON errors with status 200, and proxies send
/// web pages. Any other type is read as events, because not every server declares it correctly.
fn is_not_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.starts_with("application/json") || kind.starts_with("text/html")
}

fn not_events(body: &[u8], headers: &HeaderMap) -> ProviderError {
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(body)
        && let Some(error) = value.get("error").filter(|error| !error.is_null())
    {
        return classify_object(error);
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ProviderError::Malformed { message: format!("expected a stream of events, got `{kind}`") }
}

fn packets(response: Response, route: String) -> Packets {
    stream::unfold(Some((response, route)), |reading| async {
        let (mut response, route) = reading?;
        match response.chunk().await {
            Ok(Some(packet)) => Some((Ok(packet), Some((response, route)))),
            Ok(None) => None,
            Err(error) => Some((Err(failure::of_response(error, &route)), None)),
        }
    })
    .boxed()
}

fn build(shared: &Clients, is_secure: bool) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let settings = &shared.settings;
    let needs_roots = is_secure || settings.proxy.has_tls();
    let proxies = settings.proxy.clone();
    let client = Client::builder()
        .tls_backend_preconfigured(tls(needs_roots, &shared.roots)?)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        .connect_timeout(settings.connect_timeout)
        .user_agent(concat!("pinion/", env!("CARGO_PKG_VERSION")))
        // Errors were reported before the request.
        .proxy(Proxy::custom(move |url| proxies.choose(url).ok().flatten().map(|proxy| proxy.url)));
    Ok(client.build()?)
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
