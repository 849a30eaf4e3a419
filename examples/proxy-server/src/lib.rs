//! A reference server for the proxy protocol, `pinion_providers::proxy`.
//!
//! Clients have a token of this server and no vendor keys; the server has the keys. One request is one HTTP exchange:
//! `POST /v1/stream` with the token as bearer, and the reply as server-sent events, each forwarded when it arrives. If
//! a client disconnects, the vendor's request ends too. A vendor's refusal is an event in the stream, with its class
//! and delay, so that the client's loop retries as if it had made the request itself.
//!
//! Scope of this reference: one token, no accounts, no TLS (put it behind a server that has it), no storage.

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use pinion_agent::Provider;
use pinion_agent::provider::EventStream;
use pinion_providers::proxy::{forwarded, read_request, write_event};
use pinion_providers::{
    KeySources, ModelTable, ProviderConfig, ProviderContext, ProviderInfo, RegistryError, build_with, resolve,
};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Size limit of a request: 64 MiB, a long conversation with images.
const MAX_REQUEST: usize = 64 << 20;

/// Maximum number of concurrent replies; further clients are asked to retry.
const MAX_REPLIES: usize = 256;

/// Time limit for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A lookup by name.
pub type Lookup = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Settings of the server.
pub struct Settings {
    /// The token that clients must send.
    pub token: SecretString,
    /// Limits, prices and abilities of models.
    pub models: Arc<ModelTable>,
    /// Base URLs by provider, instead of the vendors' own.
    pub base_urls: BTreeMap<String, String>,
    /// Reads an environment variable: keys, `AWS_REGION`, `GOOGLE_CLOUD_PROJECT`.
    pub variable: Lookup,
}

/// State shared by all connections.
struct Server {
    settings: Settings,
    /// Providers in use, by name; their connections are reused.
    providers: Mutex<BTreeMap<&'static str, Arc<dyn Provider>>>,
    replies: Arc<Semaphore>,
}

/// Serves until `token` is cancelled, then drops all connections.
pub async fn serve(listener: TcpListener, settings: Settings, token: CancellationToken) {
    let server =
        Arc::new(Server { settings, providers: Mutex::default(), replies: Arc::new(Semaphore::new(MAX_REPLIES)) });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = token.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(converse(stream, server.clone()))),
                // Out of file descriptors, or the client is gone: both are temporary.
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(stream: TcpStream, server: Arc<Server>) {
    let service = service_fn(|request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
}

/// The reason why a request is not forwarded.
enum Refused {
    Token,
    Place,
    TooLarge,
    Malformed(String),
    TooMany,
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        match self.begin(request).await {
            Ok((events, permit)) => streamed(events, permit),
            Err(refused) => refusal(refused),
        }
    }

    async fn begin(&self, request: Request<Incoming>) -> Result<(EventStream, OwnedSemaphorePermit), Refused> {
        if !self.is_authorized(&request) {
            return Err(Refused::Token);
        }
        if request.method() != Method::POST || request.uri().path() != "/v1/stream" {
            return Err(Refused::Place);
        }
        let permit = self.replies.clone().try_acquire_owned().map_err(|_| Refused::TooMany)?;
        let body = read_body(request.into_body()).await?;
        let request = read_request(&body).map_err(|error| Refused::Malformed(error.to_string()))?;
        let malformed = |error: RegistryError| Refused::Malformed(error.to_string());
        let (info, model) = resolve(None, &request.model, &self.settings.models).map_err(malformed)?;
        let provider = self.provider(info).map_err(malformed)?;
        tracing::info!(provider = info.name, model, messages = request.messages.len(), "asked");
        // Dropping the stream ends the request.
        let events = provider.stream(forwarded(request, info.name, &model), CancellationToken::new());
        Ok((events, permit))
    }

    /// Compares the token in constant time, except for its length.
    fn is_authorized<B>(&self, request: &Request<B>) -> bool {
        let said = request.headers().get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        let token = self.settings.token.expose_secret().as_bytes();
        said.is_some_and(|said| {
            said.len() == token.len() && said.iter().zip(token).fold(0, |all, (a, b)| all | (a ^ b)) == 0
        })
    }

    fn provider(&self, info: &'static ProviderInfo) -> Result<Arc<dyn Provider>, RegistryError> {
        let mut providers = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(provider) = providers.get(info.name) {
            return Ok(provider.clone());
        }
        let Settings { models, base_urls, variable, .. } = &self.settings;
        let config = ProviderConfig {
            name: info.name.to_owned(),
            base_url: base_urls.get(info.name).cloned(),
            ..ProviderConfig::default()
        };
        let context = ProviderContext {
            region: variable(if info.name == "vertex" { "GOOGLE_CLOUD_LOCATION" } else { "AWS_REGION" }),
            project: variable("GOOGLE_CLOUD_PROJECT"),
            keys: Some(Arc::new(KeySources::new(info).environment(variable))),
            ..ProviderContext::default()
        };
        let provider = build_with(config, context, models.clone())?;
        providers.insert(info.name, provider.clone());
        Ok(provider)
    }
}

async fn read_body(body: Incoming) -> Result<Bytes, Refused> {
    // Rejects a body of declared excessive size without reading it.
    if body.size_hint().lower() > MAX_REQUEST as u64 {
        return Err(Refused::TooLarge);
    }
    match Limited::new(body, MAX_REQUEST).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refused::TooLarge),
        Err(error) => Err(Refused::Malformed(error.to_string())),
    }
}

/// Streams the events of a reply. `permit` is held until the last one.
fn streamed(events: EventStream, permit: OwnedSemaphorePermit) -> Reply {
    let frames = until_error(events).map(move |event| {
        let _held = &permit;
        Ok(Frame::data(Bytes::from(write_event(&event))))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// Ends a stream after its first error.
fn until_error<T, E>(
    items: impl Stream<Item = Result<T, E>> + Send + Unpin + 'static,
) -> impl Stream<Item = Result<T, E>> + Send {
    stream::unfold(Some(items), async |items| {
        let mut items = items?;
        let item = items.next().await?;
        let rest = item.is_ok().then_some(items);
        Some((item, rest))
    })
}

fn refusal(refused: Refused) -> Reply {
    let (status, message) = match refused {
        Refused::Token => (StatusCode::UNAUTHORIZED, "the token is missing or wrong".to_owned()),
        Refused::Place => (StatusCode::NOT_FOUND, "there is nothing but `POST /v1/stream`".to_owned()),
        Refused::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the request is too large".to_owned()),
        Refused::Malformed(reason) => (StatusCode::BAD_REQUEST, reason),
        Refused::TooMany => (StatusCode::TOO_MANY_REQUESTS, "too many replies at once".to_owned()),
    };
    let error = serde_json::json!({ "error": { "message": message } });
    let body = Full::new(Bytes::from(error.to_string())).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
