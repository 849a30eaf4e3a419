//! The HTTP client, with every wait and every size bounded.
//!
//! A client is built for the first request and reused. For a URL without TLS, it is built without certificate
//! authorities, because loading those takes longer than everything else in a short run. Redirects are not followed,
//! because they would send the key elsewhere. Only [`TransportSettings::proxy`] configures proxies, because this crate does
//! not read the environment; the binary passes on the user's settings. (`rustls-native-certs` itself reads
//! `SSL_CERT_FILE` and `SSL_CERT_DIR` on some platforms, as every TLS client does.)

use super::classify::{ErrorResponse, classify, classify_object};
use super::failure::{self, Route};
use super::proxy::ProxySettings;
use super::retry_after::retry_after;
use crate::decode::MAX_EVENT_BYTES;
use crate::decode::json::is_blank;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use jiff::Timestamp;
use pinion_protocol::ProviderError;
use pinion_protocol::text::with_causes;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Proxy, RequestBuilder, Response, Url, redirect};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::{BuilderVerifierExt, Verifier};
use serde_json::Value;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::timeout;

/// The limit on the body of a response that is not a reply: 64 KiB.
const MAX_ERROR_BODY: usize = 64 << 10;

/// Timeouts and proxy.
#[derive(Debug, Clone)]
pub struct TransportSettings {
    /// The timeout for connecting, including TLS. Defaults to 10 s.
    pub connect_timeout: Duration,
    /// The timeout from the start of the request to the head of the response. Defaults to 300 s, because local servers
    /// load a model before they respond.
    pub header_timeout: Duration,
    /// The timeout between two packets of the response. Defaults to 120 s.
    pub idle_timeout: Duration,
    /// The proxies. Defaults to no proxies.
    pub proxy: ProxySettings,
}

impl Default for TransportSettings {
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
pub(crate) struct HttpTransport {
    shared: Arc<Clients>,
}

#[derive(Debug)]
struct Clients {
    settings: TransportSettings,
    /// Certificate authorities besides the platform's.
    roots: Vec<CertificateDer<'static>>,
    /// The client for URLs with TLS.
    secure: OnceLock<Result<Client, String>>,
    plain: OnceLock<Result<Client, String>>,
    /// A response has arrived.
    was_reached: AtomicBool,
}

impl HttpTransport {
    /// Cheap: the client is built for the first request. `certificates` is PEM and may be empty.
    ///
    /// # Errors
    /// The certificates are not PEM.
    pub(crate) fn new(settings: TransportSettings, certificates: &[u8]) -> Result<Self, pem::Error> {
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
        let Outgoing { url, headers, body } = request;
        self.send(url, |client, url| client.post(url).headers(headers).body(body)).await
    }

    /// Gets a document of at most `max` bytes without credentials. A longer one is cut.
    ///
    /// # Errors
    /// The same as for [`Self::fetch`].
    pub(crate) async fn get(&self, url: Url, max: usize) -> Result<Vec<u8>, ProviderError> {
        self.get_with(url, HeaderMap::new(), max).await
    }

    /// Does the same with headers; secret values are marked as sensitive.
    ///
    /// # Errors
    /// The same as for [`Self::fetch`].
    pub(crate) async fn get_with(&self, url: Url, headers: HeaderMap, max: usize) -> Result<Vec<u8>, ProviderError> {
        let answer = self.send(url, |client, url| client.get(url).headers(headers)).await?;
        match answer.status {
            200..=299 => Ok(beginning(answer.packets, max, self.idle_timeout()).await),
            _ => Err(error_of(answer, self.idle_timeout()).await),
        }
    }

    async fn send(
        &self,
        url: Url,
        request: impl FnOnce(&Client, Url) -> RequestBuilder,
    ) -> Result<RawAnswer, ProviderError> {
        let Clients { settings, was_reached, .. } = &*self.shared;
        let proxy = settings.proxy.choose(&url);
        let proxy = proxy.map_err(|error| ProviderError::Api { status: None, message: error.to_string() })?;
        let route = Route::new(&url, proxy);
        let sent = request(self.client(&url)?, url).send();
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
            200..=299 => Ok(beginning(answer.packets, MAX_ERROR_BODY, self.idle_timeout()).await),
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

/// Returns the packets of a response that is a reply. `accept` is the content type that was asked for.
///
/// # Errors
/// The vendor's error response.
pub(crate) async fn reply(answer: RawAnswer, accept: &HeaderValue, idle: Duration) -> Result<Packets, ProviderError> {
    let is_empty = answer.headers.get(CONTENT_LENGTH).is_some_and(|length| length.as_bytes() == b"0");
    match answer.status {
        204 | 205 => Err(ProviderError::Malformed { message: format!("HTTP {} has no content", answer.status) }),
        200..=299 if is_empty => Err(ProviderError::Malformed { message: "the response is empty".to_owned() }),
        200..=299 if has_type(&answer.headers, "application/json") => document(answer, accept, idle).await,
        200..=299 if !has_type(&answer.headers, "text/html") => Ok(answer.packets),
        _ => Err(error_of(answer, idle).await),
    }
}

/// Returns whether a response has this content type. Others are not told apart, because not every server declares its own
/// correctly.
fn has_type(headers: &HeaderMap, kind: &str) -> bool {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| value.starts_with(kind))
}

/// Fields that the reply of a server has that does not stream, in one of the formats.
const REPLY_FIELDS: &[&str] = &["choices", "output", "content", "candidates", "done", "object"];

/// Returns the packets of a response that is a JSON document: the reply of a server that does not stream, which becomes the
/// only event.
///
/// # Errors
/// The document is an error, which some servers send with status 200, or something else.
async fn document(answer: RawAnswer, accept: &HeaderValue, idle: Duration) -> Result<Packets, ProviderError> {
    let body = beginning(answer.packets, MAX_EVENT_BYTES, idle).await;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    let first = value.get(0).unwrap_or(&value);
    if let Some(error) = first.get("error").filter(|error| !is_blank(error)) {
        return Err(classify_object(error));
    }
    let is_reply = REPLY_FIELDS.iter().any(|field| first.get(field).is_some());
    let event = match accept.as_bytes() {
        b"text/event-stream" if is_reply => format!("data: {value}\n\n").into_bytes(),
        b"application/x-ndjson" if is_reply => body,
        _ => return Err(not_events(&answer.headers)),
    };
    Ok(stream::iter([Ok(Bytes::from(event))]).boxed())
}

/// The error that an answer means.
async fn error_of(answer: RawAnswer, idle: Duration) -> ProviderError {
    let RawAnswer { status, headers, packets } = answer;
    if (200..=299).contains(&status) {
        return not_events(&headers);
    }
    let body = beginning(packets, MAX_ERROR_BODY, idle).await;
    let text = |name: &&str| headers.get(*name)?.to_str().ok();
    let request_id = ["request-id", "x-request-id", "x-amzn-requestid", "apim-request-id"].iter().find_map(text);
    let retry_after = retry_after(&with_headers_of_body(&headers, &body), Timestamp::now());
    let error =
        classify(&ErrorResponse { status, body: &body, code: text(&"x-amzn-errortype"), retry_after, request_id });
    with_status(decided_by_server(error, text(&"x-should-retry"), status, retry_after), status)
}

/// Adds the headers that OpenRouter gives in the body of its errors.
fn with_headers_of_body(headers: &HeaderMap, body: &[u8]) -> HeaderMap {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let inner = body.pointer("/error/metadata/headers").and_then(Value::as_object).into_iter().flatten();
    let inner = inner.filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(value.as_str()?).ok()?))
    });
    let mut all: HeaderMap = inner.collect();
    headers.iter().for_each(|(name, value)| drop(all.insert(name.clone(), value.clone())));
    all
}

/// Applies the header `x-should-retry`, which OpenAI and Anthropic use to tell their own clients whether to retry.
fn decided_by_server(
    error: ProviderError,
    should_retry: Option<&str>,
    status: u16,
    retry_after: Option<Duration>,
) -> ProviderError {
    match (should_retry, error) {
        (Some("true"), ProviderError::Api { message, .. }) => ProviderError::Overloaded { message, retry_after },
        (Some("false"), ProviderError::RateLimited { message, .. } | ProviderError::Overloaded { message, .. }) => {
            ProviderError::Api { status: Some(status), message }
        }
        (_, error) => error,
    }
}

/// Adds the status to the errors that do not show it.
fn with_status(error: ProviderError, status: u16) -> ProviderError {
    let with = |message: String| format!("HTTP {status}: {message}");
    match error {
        ProviderError::Overloaded { message, retry_after } => {
            ProviderError::Overloaded { message: with(message), retry_after }
        }
        ProviderError::RateLimited { message, retry_after } => {
            ProviderError::RateLimited { message: with(message), retry_after }
        }
        ProviderError::Auth { message } => ProviderError::Auth { message: with(message) },
        error => error,
    }
}

/// Reads a body until it pauses for `idle` or reaches `max` bytes.
async fn beginning(mut packets: Packets, max: usize, idle: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(Ok(packet))) = timeout(idle, packets.next()).await {
        let room = max - body.len();
        body.extend_from_slice(&packet[..packet.len().min(room)]);
        if body.len() == max {
            break;
        }
    }
    body
}

fn not_events(headers: &HeaderMap) -> ProviderError {
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
