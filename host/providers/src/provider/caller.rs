//! One request on its way: its key, its headers, and the head of the answer.

use crate::auth::{Authenticator, secret_value};
use crate::causes::with_causes;
use crate::keys::KeySource;
use crate::recording::RecordedRequest;
use crate::recording::Recorder;
use crate::recording::{Playback, Played};
use crate::transport::Opened;
use crate::transport::{Outgoing, RawAnswer, Transport, reply};
use bytes::Bytes;
use pinion_protocol::{ProviderError, Secrets};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

/// A request without its key.
pub(super) struct Draft {
    pub(super) url: Url,
    pub(super) model: String,
    /// The end of the URL's path.
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The request's own key.
    pub(super) key: Option<SecretString>,
    /// The beginning of the ids that are made up for the reply.
    pub(super) id_seed: String,
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
    pub(super) fn begin(self: Arc<Self>, draft: Draft) -> Result<(String, Call), ProviderError> {
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
            Some(keys) => keys.key().await.map_err(|error| ProviderError::Auth { message: with_causes(&error) }),
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
pub(super) struct Call {
    caller: Arc<Caller>,
    draft: Draft,
    played: Option<Played>,
}

impl Call {
    /// Asks, and waits for the head of the answer.
    pub(super) async fn open(self) -> Result<Opened, ProviderError> {
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
