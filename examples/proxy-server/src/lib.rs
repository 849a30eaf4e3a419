//! A reference server for the proxy protocol, `pinion_providers::proxy`.
//!
//! Clients hold a token of this server's and no vendor's key; the keys are here. One request is one HTTP exchange:
//! `POST /v1/stream` with the token as a bearer, and the reply as server-sent events, each handed on as it comes. A client
//! that goes away ends the vendor's request too. What a vendor refuses is an event in the stream, with its class and its
//! delay, so that the client's loop tries again as if it had asked itself.
//!
//! It is a reference: one token, no accounts, no TLS (put it behind something that has it), nothing kept.

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use pinion_agent::{EventStream, Provider};
use pinion_providers::proxy::{forwarded, read_request, write_event};
use pinion_providers::{
    Keys, ModelTable, ProviderConfig, ProviderContext, ProviderInfo, RegistryError, build_with, resolve,
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

/// The largest request: 64 MiB, which is a long conversation with pictures.
const MAX_REQUEST: usize = 64 << 20;

/// Replies at once; who comes then is told to try again.
const MAX_REPLIES: usize = 256;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long nothing is accepted after that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Looks something up by its name.
pub type Lookup = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What the server is made of.
pub struct Settings {
    /// What clients must send.
    pub token: SecretString,
    /// The models' figures.
    pub models: Arc<ModelTable>,
    /// Where providers are, instead of their usual places, by name.
    pub base_urls: BTreeMap<String, String>,
    /// Looks up a variable of the environment: keys, `AWS_REGION`, `GOOGLE_CLOUD_PROJECT`.
    pub variable: Lookup,
}

/// The server's state, shared by all its connections.
struct Server {
    settings: Settings,
    /// Those that were asked for, by name: their connections are kept.
    providers: Mutex<BTreeMap<&'static str, Arc<dyn Provider>>>,
    replies: Arc<Semaphore>,
}

/// Serves until `token` is cancelled; then connections are dropped.
pub async fn serve(listener: TcpListener, settings: Settings, token: CancellationToken) {
    let server =
        Arc::new(Server { settings, providers: Mutex::default(), replies: Arc::new(Semaphore::new(MAX_REPLIES)) });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = token.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(converse(stream, server.clone()))),
                // Out of files, or the client is gone already: neither lasts.
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

/// Why a request is not forwarded.
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

    /// In the same time whatever the token is, but for its length.
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
            keys: Some(Arc::new(Keys::new(info).environment(variable))),
            ..ProviderContext::default()
        };
        let provider = build_with(config, context, models.clone())?;
        providers.insert(info.name, provider.clone());
        Ok(provider)
    }
}

async fn read_body(body: Incoming) -> Result<Bytes, Refused> {
    // What says that it is too large is not read at all.
    if body.size_hint().lower() > MAX_REQUEST as u64 {
        return Err(Refused::TooLarge);
    }
    match Limited::new(body, MAX_REQUEST).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refused::TooLarge),
        Err(error) => Err(Refused::Malformed(error.to_string())),
    }
}

/// The events of a reply, as they come. `permit` is held until the last one.
fn streamed(events: EventStream, permit: OwnedSemaphorePermit) -> Reply {
    let frames = until_error(events).map(move |event| {
        let _held = &permit;
        Ok(Frame::data(Bytes::from(write_event(&event))))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// An error is the last item, whatever a provider does after it.
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
