//! A provider over HTTP: a wire format, a place to send it to, and a key.

use crate::auth::{Authenticator, secret_value};
use crate::endpoint::{Endpoint, Layout, Tail};
use crate::exchange::{Opened, exchange};
use crate::http::{Outgoing, RawAnswer, Transport, reply};
use crate::keys::{KeyError, KeySource};
use crate::model_table::ModelTable;
use crate::models::Model;
use crate::playback::{Playback, Played};
use crate::recorder::Recorder;
use crate::recording::RecordedRequest;
use crate::wire::Decoder;
use crate::{anthropic, bedrock, gemini, ollama, openai_chat, openai_responses, proxy};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use pinion_protocol::{EventStream, Provider, ProviderError, Request, Secrets};
use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// A wire format, with what its vendor does differently.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    Anthropic,
    OpenAiChat(openai_chat::Quirks),
    OpenAiResponses(openai_responses::Quirks),
    Gemini,
    Bedrock,
    Ollama,
    Proxy,
}

impl Format {
    /// How its URLs are made, unless the vendor makes them otherwise.
    pub(crate) fn layout(self) -> Layout {
        let streamed = |version, tail| Layout { tail, query: Some(("alt", "sse")), ..Layout::fixed(version, "") };
        match self {
            Self::Anthropic => Layout { version_always: true, ..Layout::fixed("v1", "messages") },
            Self::OpenAiChat(_) => Layout::fixed("v1", "chat/completions"),
            Self::OpenAiResponses(_) => Layout::fixed("v1", "responses"),
            Self::Gemini => streamed("v1beta", Tail::Gemini),
            Self::Bedrock => Layout { tail: Tail::Bedrock, ..Layout::fixed("", "") },
            Self::Ollama => Layout { surplus: Some("/v1"), ..Layout::fixed("", "api/chat") },
            Self::Proxy => Layout::fixed("v1", "stream"),
        }
    }

    /// The same format at another place than the vendor's own, where nothing may be asked for that only the vendor knows.
    pub(crate) fn elsewhere(self) -> Self {
        match self {
            Self::OpenAiChat(quirks) => {
                Self::OpenAiChat(openai_chat::Quirks { store: false, cache_key: false, ..quirks })
            }
            Self::OpenAiResponses(quirks) => {
                use openai_responses::Quirks;
                let Quirks { summaries, images_in_results, .. } = quirks;
                Self::OpenAiResponses(Quirks { summaries, images_in_results, ..Quirks::PLAIN })
            }
            format => format,
        }
    }

    fn body(self, request: &Request, model: &Model, provider: &str) -> Result<Vec<u8>, ProviderError> {
        let unwritable = |error: serde_json::Error| ProviderError::Api { status: None, message: error.to_string() };
        match self {
            Self::Anthropic => anthropic::request_body(request, model, provider).map_err(unwritable),
            Self::OpenAiChat(quirks) => openai_chat::request_body(request, model, provider, &quirks),
            Self::OpenAiResponses(quirks) => {
                openai_responses::request_body(request, model, provider, &quirks).map_err(unwritable)
            }
            Self::Gemini => gemini::request_body(request, model, provider).map_err(unwritable),
            Self::Bedrock => bedrock::request_body(request, model, provider).map_err(unwritable),
            Self::Ollama => ollama::request_body(request, model, provider).map_err(unwritable),
            Self::Proxy => proxy::request_body(request).map_err(unwritable),
        }
    }

    fn decoder(self, id_seed: String) -> Box<dyn Decoder> {
        match self {
            Self::Anthropic => Box::new(anthropic::Decoder::new(id_seed)),
            Self::OpenAiChat(_) => Box::new(openai_chat::Decoder::new(id_seed)),
            Self::OpenAiResponses(_) => Box::new(openai_responses::Decoder::new(id_seed)),
            Self::Gemini => Box::new(gemini::Decoder::new(id_seed)),
            Self::Bedrock => Box::new(bedrock::Decoder::new(id_seed)),
            Self::Ollama => Box::new(ollama::Decoder::new(id_seed)),
            Self::Proxy => Box::new(proxy::Decoder::new(id_seed)),
        }
    }

    fn accept(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Bedrock => "application/vnd.amazon.eventstream",
            Self::Ollama => "application/x-ndjson",
            _ => "text/event-stream",
        })
    }

    /// The headers that the format asks for, the key's aside.
    fn headers(self, request: &Request, model: &Model) -> Vec<(HeaderName, String)> {
        match self {
            Self::Anthropic => {
                let version = (HeaderName::from_static("anthropic-version"), anthropic::VERSION.to_owned());
                let betas = anthropic::betas(request, model);
                let betas = (!betas.is_empty()).then(|| (HeaderName::from_static("anthropic-beta"), betas.join(",")));
                std::iter::once(version).chain(betas).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// A provider over HTTP.
#[derive(Debug)]
pub(crate) struct HttpProvider {
    pub(crate) name: &'static str,
    pub(crate) format: Format,
    pub(crate) endpoint: Endpoint,
    pub(crate) models: Arc<ModelTable>,
    pub(crate) caller: Arc<Caller>,
}

impl Provider for HttpProvider {
    fn name(&self) -> &str {
        self.name
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        let seed = format!("call_{:012x}", fastrand::u64(..1 << 48));
        match self.draft(&request, seed).and_then(|draft| self.caller.clone().begin(draft)) {
            Ok((id_seed, call)) => exchange(call.open(), self.format.decoder(id_seed), token),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }
}

impl HttpProvider {
    /// All of a request that is known before the key is.
    fn draft(&self, request: &Request, id_seed: String) -> Result<Draft, ProviderError> {
        let model = self.models.find(self.name, &request.model);
        let body = self.format.body(request, &model, self.name)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, self.format.accept());
        for (name, value) in self.format.headers(request, &model) {
            headers.insert(name.clone(), plain_value(&name, &value)?);
        }
        Ok(Draft {
            url: self.endpoint.url(&request.model),
            model: request.model.clone(),
            path: self.endpoint.tail(&request.model),
            headers,
            body: body.into(),
            key: request.options.api_key.clone(),
            id_seed,
        })
    }
}

/// A request without its key.
struct Draft {
    url: Url,
    model: String,
    /// The end of the URL's path.
    path: String,
    headers: HeaderMap,
    body: Bytes,
    /// The request's own key.
    key: Option<SecretString>,
    /// The beginning of the ids that are made up for the reply.
    id_seed: String,
}

/// What all requests of a provider have in common.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) name: &'static str,
    /// Where the provider is, when the user says so; without a query.
    pub(crate) base_url: Option<String>,
    pub(crate) authenticator: Authenticator,
    pub(crate) key: Option<SecretString>,
    pub(crate) keys: Option<Arc<dyn KeySource>>,
    /// What to say when there is no key; none when the server needs none.
    pub(crate) without_key: Option<String>,
    /// The user's own headers, which replace those of the same name.
    pub(crate) headers: Vec<(HeaderName, SecretString)>,
    pub(crate) transport: Transport,
    pub(crate) recorder: Option<Arc<Recorder>>,
    pub(crate) playback: Option<Arc<Playback>>,
    /// Gets every credential before it is used.
    pub(crate) secrets: Secrets,
}

impl Caller {
    /// A call, and the beginning of the ids that are made up in its reply. What is played back is found at once, so that
    /// requests are matched in the order in which they are made.
    fn begin(self: Arc<Self>, draft: Draft) -> Result<(String, Call), ProviderError> {
        let played = self
            .playback
            .as_ref()
            .map(|playback| playback.claim(&draft.recorded(self.name, self.base_url.as_deref())?))
            .transpose()?;
        let id_seed = played.as_ref().map_or(&draft.id_seed, |played| &played.id_seed).clone();
        Ok((id_seed, Call { caller: self, draft, played }))
    }

    /// The key of a request: its own, the configured one, or one from the places where keys are.
    async fn key(&self, own: Option<&SecretString>) -> Result<Option<SecretString>, ProviderError> {
        if let Some(key) = own.or(self.key.as_ref()) {
            return Ok(Some(key.clone()));
        }
        match &self.keys {
            Some(keys) => keys.key().await.map_err(|error| ProviderError::Auth { message: chain(&error) }),
            None => Ok(None),
        }
    }

    /// The request as it goes out. Its credentials are added to the secrets.
    async fn sign(&self, draft: &Draft) -> Result<Outgoing, ProviderError> {
        let mut headers = draft.headers.clone();
        match self.key(draft.key.as_ref()).await? {
            Some(key) => {
                self.secrets.add(&key);
                let credentials = self.authenticator.credentials(&key, &draft.url, &draft.body).await?;
                credentials.secrets.iter().for_each(|secret| self.secrets.add(secret));
                headers.extend(credentials.headers);
            }
            None if self.headers.iter().any(|(name, _)| is_key_header(name)) => {}
            None => {
                if let Some(message) = &self.without_key {
                    return Err(ProviderError::Auth { message: message.clone() });
                }
            }
        }
        for (name, value) in &self.headers {
            let value = match headers.get(name).and_then(|ours| ours.to_str().ok()) {
                Some(ours) if is_list(name) => format!("{ours},{}", value.expose_secret()),
                _ => value.expose_secret().to_owned(),
            };
            headers.insert(name.clone(), secret_value(&format!("the header `{name}`"), &value)?);
        }
        Ok(Outgoing { url: draft.url.clone(), headers, body: draft.body.clone() })
    }
}

/// One request on its way.
struct Call {
    caller: Arc<Caller>,
    draft: Draft,
    played: Option<Played>,
}

impl Call {
    /// Asks, and waits for the head of the answer.
    async fn open(self) -> Result<Opened, ProviderError> {
        let idle = self.caller.transport.idle_timeout();
        if let Some(played) = self.played {
            let packets = reply(played.answer()?, idle).await?;
            return Ok(Opened { packets, secrets: self.caller.secrets.clone(), idle });
        }
        let secrets = self.caller.secrets.clone();
        let outgoing = self.caller.sign(&self.draft).await?;
        let answer = send(&self.caller, &self.draft, outgoing).await;
        let packets = match answer {
            Ok(answer) => reply(answer, idle).await,
            Err(error) => Err(error),
        };
        let packets = packets.map_err(|error| {
            if let (ProviderError::Auth { .. }, Some(keys)) = (&error, &self.caller.keys) {
                keys.refused();
            }
            secrets.clean_error(error)
        })?;
        Ok(Opened { packets, secrets, idle })
    }
}

async fn send(caller: &Caller, draft: &Draft, outgoing: Outgoing) -> Result<RawAnswer, ProviderError> {
    let started = Instant::now();
    tracing::debug!(provider = caller.name, path = draft.path, bytes = draft.body.len(), "request");
    let tape = match &caller.recorder {
        Some(recorder) => Some(recorder.begin(
            draft.recorded(caller.name, caller.base_url.as_deref())?,
            &outgoing.headers,
            caller.secrets.clone(),
        )),
        None => None,
    };
    let answer = caller.transport.request(outgoing).await;
    let status = answer.as_ref().map(|answer| answer.status).unwrap_or_default();
    tracing::debug!(provider = caller.name, status, ms = started.elapsed().as_millis(), "answer");
    match tape {
        Some(tape) => tape.follow(answer),
        None => answer,
    }
}

impl Draft {
    /// The request as it stands in a recording.
    fn recorded(&self, provider: &str, base_url: Option<&str>) -> Result<RecordedRequest, ProviderError> {
        let body: Value = serde_json::from_slice(&self.body)
            .map_err(|error| ProviderError::Api { status: None, message: error.to_string() })?;
        Ok(RecordedRequest {
            provider: provider.to_owned(),
            model: self.model.clone(),
            base_url: base_url.map(str::to_owned),
            path: self.path.clone(),
            headers: Default::default(),
            id_seed: self.id_seed.clone(),
            body,
        })
    }
}

/// A header of the user's that stands for the key.
fn is_key_header(name: &HeaderName) -> bool {
    *name == AUTHORIZATION || ["x-api-key", "api-key", "x-goog-api-key"].contains(&name.as_str())
}

/// Is what the user says added to what the body needs?
fn is_list(name: &HeaderName) -> bool {
    name == "anthropic-beta"
}

fn plain_value(name: &HeaderName, value: &str) -> Result<HeaderValue, ProviderError> {
    let message = || format!("the header `{name}` holds a character that no header can carry");
    HeaderValue::from_str(value).map_err(|_| ProviderError::Api { status: None, message: message() })
}

fn chain(error: &KeyError) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
