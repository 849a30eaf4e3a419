//! HTTP: one request out, the bytes of the answer back, everything bounded in time and size.
//!
//! The client is built when the first request is sent, and kept. For a base URL without TLS it is built without
//! certificate authorities, because reading those takes longer than everything else that a short run does. Redirects are
//! not followed: they would carry the key elsewhere. No proxy is used unless [`HttpSettings::proxy`] names one, because
//! nothing in this crate reads the environment; the binary passes on what the user set. (Where the platform keeps its
//! authorities, `rustls-native-certs` asks `SSL_CERT_FILE` and `SSL_CERT_DIR` itself, as every TLS client does.)

use crate::classify::{Answer, classify, classify_object};
use crate::redact::Redactor;
use crate::retry_after::retry_after;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use jiff::Timestamp;
use pinion_agent::ProviderError;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, NoProxy, Proxy, Response, Url, redirect};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use secrecy::{ExposeSecret, SecretString};
use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::timeout;

/// What is read of an answer that is not a reply: 64 KiB.
const MAX_ERROR_BODY: usize = 64 << 10;

/// Time limits and the way out.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// To connect, TLS included. 15 s unless said otherwise.
    pub connect_timeout: Duration,
    /// From the start of the request to the head of the answer. 300 s unless said otherwise: local servers load a model
    /// before they answer.
    pub header_timeout: Duration,
    /// Between two packets of the answer. 120 s unless said otherwise.
    pub idle_timeout: Duration,
    /// A proxy for all requests; none unless said otherwise.
    pub proxy: Option<ProxySettings>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(15),
            header_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(120),
            proxy: None,
        }
    }
}

/// An HTTP proxy.
#[derive(Debug, Clone)]
pub struct ProxySettings {
    /// Its URL, which may hold a password.
    pub url: SecretString,
    /// Hosts to reach without it, separated by commas, as in `NO_PROXY`.
    pub except: Option<String>,
}

/// One request.
pub(crate) struct Outgoing {
    pub(crate) url: Url,
    /// Those that hold a secret are marked so.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) redactor: Redactor,
}

/// Packets of an answer. Ends with the answer, or with the error that broke it off.
pub(crate) type Packets = BoxStream<'static, Result<Bytes, ProviderError>>;

/// Sends requests, over connections that are kept.
#[derive(Debug)]
pub(crate) struct Transport {
    settings: HttpSettings,
    client: OnceLock<Result<Client, String>>,
}

impl Transport {
    /// Costs nothing: the client is built with the first request.
    pub(crate) fn new(settings: HttpSettings) -> Self {
        Self { settings, client: OnceLock::new() }
    }

    /// How long an answer may be silent.
    pub(crate) fn idle_timeout(&self) -> Duration {
        self.settings.idle_timeout
    }

    /// Sends a request and waits for the head of its answer. Dropping the future, or the packets, ends the request.
    ///
    /// # Errors
    /// The server was not reached, was too slow, or answered with anything but a stream of events.
    pub(crate) async fn send(&self, request: Outgoing) -> Result<Packets, ProviderError> {
        let client = self.client(&request.url)?;
        let sent = client.post(request.url).headers(request.headers).body(request.body).send();
        let response = match timeout(self.settings.header_timeout, sent).await {
            Ok(answer) => answer.map_err(network)?,
            Err(_) => {
                let message = format!("no answer within {} s", self.settings.header_timeout.as_secs());
                return Err(ProviderError::Network { message });
            }
        };
        match response.status().as_u16() {
            200..=299 if !is_other_than_events(&response) => Ok(packets(response)),
            _ => Err(self.refused(response).await),
        }
    }

    fn client(&self, url: &Url) -> Result<&Client, ProviderError> {
        let client = self.client.get_or_init(|| build(&self.settings, url).map_err(|error| chain(&*error)));
        client
            .as_ref()
            .map_err(|error| ProviderError::Api { status: None, message: format!("could not set up HTTP: {error}") })
    }

    /// The error that an answer means.
    async fn refused(&self, response: Response) -> ProviderError {
        let status = response.status();
        let headers = response.headers().clone();
        let body = self.beginning(response).await;
        if status.is_success() {
            return not_events(&body, &headers);
        }
        let request_id = ["request-id", "x-request-id"].iter().find_map(|name| headers.get(*name)?.to_str().ok());
        let retry_after = retry_after(&headers, Timestamp::now());
        classify(&Answer { status: status.as_u16(), body: &body, retry_after, request_id })
    }

    /// As much of a body as comes in time, up to [`MAX_ERROR_BODY`].
    async fn beginning(&self, response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        let mut packets = packets(response);
        while let Ok(Some(Ok(packet))) = timeout(self.settings.idle_timeout, packets.next()).await {
            let room = MAX_ERROR_BODY - body.len();
            body.extend_from_slice(&packet[..packet.len().min(room)]);
            if body.len() == MAX_ERROR_BODY {
                break;
            }
        }
        body
    }
}

/// Some servers answer with status 200 and an error in JSON, or a proxy's web page. Whatever else the type may be is read
/// as events, because not every server says it right.
fn is_other_than_events(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
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

fn packets(response: Response) -> Packets {
    stream::unfold(Some(response), |response| async {
        let mut response = response?;
        match response.chunk().await {
            Ok(Some(packet)) => Some((Ok(packet), Some(response))),
            Ok(None) => None,
            Err(error) => Some((Err(network(error)), None)),
        }
    })
    .boxed()
}

/// Without the URL, which may hold a secret.
fn network(error: reqwest::Error) -> ProviderError {
    let what = if error.is_timeout() && error.is_connect() {
        "could not connect in time"
    } else if error.is_connect() {
        "could not connect"
    } else if error.is_decode() {
        "could not decompress the answer"
    } else {
        "the connection broke off"
    };
    let cause = root_cause(&error.without_url());
    ProviderError::Network { message: format!("{what}: {cause}") }
}

fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(_) => format!("{error}: {}", root_cause(error)),
        None => error.to_string(),
    }
}

fn build(settings: &HttpSettings, url: &Url) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let proxy_url = settings.proxy.as_ref().map(|proxy| proxy.url.expose_secret());
    let secure = url.scheme() == "https" || proxy_url.is_some_and(|url| url.starts_with("https"));
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls(secure)?)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        .connect_timeout(settings.connect_timeout)
        .user_agent(concat!("pinion/", env!("CARGO_PKG_VERSION")));
    if let Some(proxy) = &settings.proxy {
        let except = proxy.except.as_deref().and_then(NoProxy::from_string);
        builder = builder.proxy(Proxy::all(proxy.url.expose_secret())?.no_proxy(except));
    }
    Ok(builder.build()?)
}

/// TLS by ring, with the platform's certificate authorities or, where there will be no TLS, none.
fn tls(secure: bool) -> Result<ClientConfig, rustls::Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    let mut config = match secure {
        true => config.with_platform_verifier()?.with_no_client_auth(),
        false => config.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
