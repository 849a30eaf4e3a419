//! Sends requests: their keys, their headers, and the heads of the responses.

use crate::auth::{Authenticator, secret_value, trimmed};
use crate::keys::{KeyError, KeyOrigin, KeySource};
use crate::recording::RecordedRequest;
use crate::recording::Recorder;
use crate::recording::{Playback, Played};
use crate::transport::OpenResponse;
use crate::transport::{HttpTransport, Outgoing, RawAnswer, reply};
use bytes::Bytes;
use pinion_protocol::ProviderError;
use pinion_protocol::text::with_causes;
use pinion_redact::Secrets;
use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

/// A request before authentication.
pub(super) struct RequestDraft {
    pub(super) url: Url,
    pub(super) model: String,
    /// The end of the URL's path, which recordings store.
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The key in the request itself.
    pub(super) key: Option<SecretString>,
    /// The prefix of generated tool call IDs.
    pub(super) id_seed: String,
}

/// The parts that all requests of a provider share.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) name: &'static str,
    /// The configured base URL, without its query.
    pub(crate) base_url: Option<String>,
    pub(crate) authenticator: Authenticator,
    pub(crate) key: Option<SecretString>,
    pub(crate) keys: Option<Arc<dyn KeySource>>,
    /// The error message for a missing key; `None` when the server needs no key.
    pub(crate) without_key: Option<String>,
    /// The user's headers, which replace others of the same name.
    pub(crate) headers: Vec<(HeaderName, SecretString)>,
    pub(crate) transport: HttpTransport,
    pub(crate) recorder: Option<Arc<Recorder>>,
    pub(crate) playback: Option<Arc<Playback>>,
    /// Receives every credential before it is used.
    pub(crate) secrets: Secrets,
}

impl Caller {
    /// Prepares a call, and returns the prefix of the tool call IDs generated for its reply. Playback claims its
    /// exchange here, so that requests match in the order that they are made.
    pub(super) fn begin(self: Arc<Self>, draft: RequestDraft) -> Result<(String, PreparedRequest), ProviderError> {
        let played = self
            .playback
            .as_ref()
            .map(|playback| playback.claim(draft.to_recorded(self.name, self.base_url.as_deref())?))
            .transpose()?;
        let id_seed = played.as_ref().map_or(&draft.id_seed, |played| &played.id_seed).clone();
        Ok((id_seed, PreparedRequest { caller: self, draft, played }))
    }

    /// Returns the key for a request and its origin: its own, the configured one, or one from the key source.
    async fn key(
        &self,
        own: Option<&SecretString>,
    ) -> Result<Option<(SecretString, Option<KeyOrigin>)>, ProviderError> {
        if let Some(key) = own.or(self.key.as_ref()) {
            return Ok(Some((key.clone(), None)));
        }
        let Some(keys) = &self.keys else { return Ok(None) };
        let found = keys.key().await.map_err(|error| ProviderError::Auth { message: key_message(&error) })?;
        Ok(found.map(|key| (key.secret, Some(key.origin))))
    }

    /// Authenticates a request, registers its credentials as secrets, and returns the origin of the key.
    async fn sign(&self, draft: &RequestDraft) -> Result<(Outgoing, UsedKey), ProviderError> {
        let mut headers = draft.headers.clone();
        let mut used = UsedKey::None;
        match self.key(draft.key.as_ref()).await? {
            Some((key, origin)) => {
                self.secrets.add(&key);
                // A server may repeat the key that it received, which is without the blanks around it.
                self.secrets.add(&SecretString::from(trimmed(key.expose_secret())));
                let credentials = self.authenticator.credentials(&key, &draft.url, &draft.body).await;
                let credentials = credentials.map_err(|error| with_origin(error, origin.as_ref()))?;
                credentials.secrets.iter().for_each(|secret| self.secrets.add(secret));
                headers.extend(credentials.headers);
                used = origin.map_or(UsedKey::Given, UsedKey::Found);
            }
            None if self.headers.iter().any(|(name, _)| is_key_header(name)) => {}
            None => {
                if let Some(message) = &self.without_key {
                    return Err(ProviderError::Auth { message: message.clone() });
                }
            }
        }
        if self.headers.iter().any(|(name, _)| is_key_header(name)) {
            used = UsedKey::Header;
        }
        for (name, value) in &self.headers {
            let value = match headers.get(name).and_then(|ours| ours.to_str().ok()) {
                Some(ours) if is_list(name) => format!("{ours},{}", value.expose_secret()),
                _ => value.expose_secret().to_owned(),
            };
            headers.insert(name.clone(), secret_value(&format!("the header `{name}`"), &value)?);
        }
        Ok((Outgoing { url: draft.url.clone(), headers, body: draft.body.clone() }, used))
    }

    /// Names the provider in the vendor's error response, and the key and the remedy where they matter.
    fn refused(&self, error: ProviderError, used: &UsedKey) -> ProviderError {
        let named = |message: String| format!("`{}`: {message}", self.name);
        match error {
            ProviderError::Auth { message } => ProviderError::Auth { message: used.rejected(self.name, &message) },
            ProviderError::Api { status: Some(status), message } => {
                let remedy = remedy(status).map(|remedy| format!("; {remedy}")).unwrap_or_default();
                ProviderError::Api { status: Some(status), message: named(message) + &remedy }
            }
            ProviderError::RateLimited { message, retry_after } => {
                ProviderError::RateLimited { message: named(message), retry_after }
            }
            ProviderError::Overloaded { message, retry_after } => {
                ProviderError::Overloaded { message: named(message), retry_after }
            }
            error => error,
        }
    }
}

/// Returns the user's remedy for a rejected request.
fn remedy(status: u16) -> Option<&'static str> {
    match status {
        402 => Some("check the balance of the account"),
        404 => Some("check the model's name and the base URL"),
        _ => None,
    }
}

/// The key of a request, for the message when the vendor rejects it.
enum UsedKey {
    None,
    /// The application passed it in.
    Given,
    Found(KeyOrigin),
    /// A header of the config replaces it.
    Header,
}

impl UsedKey {
    /// Names the key and the remedy in the vendor's rejection.
    fn rejected(&self, provider: &str, message: &str) -> String {
        let key = match self {
            Self::None => {
                let stored = format!("store one with `pinion login {provider}`");
                return format!(
                    "`{provider}` requires a key: {message}; {stored}, or name its variable in `key-variable`"
                );
            }
            Self::Given => "the key".to_owned(),
            Self::Found(origin) => format!("the key from `{origin}`"),
            Self::Header => format!("the key in `headers` of `[providers.{provider}]`"),
        };
        // Vendors use 403 for keys that are valid, but not for this model, region or project.
        match message.starts_with("HTTP 403") {
            true => format!("`{provider}` denied access with {key}: {message}; check what the key may use"),
            false => format!("`{provider}` rejected {key}: {message}; replace the key there"),
        }
    }
}

/// A prepared request.
pub(super) struct PreparedRequest {
    caller: Arc<Caller>,
    draft: RequestDraft,
    played: Option<Played>,
}

impl PreparedRequest {
    /// Sends the request and waits for the head of the response.
    pub(super) async fn open(self) -> Result<OpenResponse, ProviderError> {
        let idle = self.caller.transport.idle_timeout();
        let accept = self.draft.headers.get(ACCEPT).cloned().unwrap_or(HeaderValue::from_static("*/*"));
        if let Some(played) = self.played {
            // A recording does not tell where its key came from.
            let packets = reply(played.answer()?, &accept, idle).await;
            let packets = packets.map_err(|error| self.caller.refused(error, &UsedKey::Given))?;
            return Ok(OpenResponse { packets, secrets: self.caller.secrets.clone(), idle });
        }
        let secrets = self.caller.secrets.clone();
        let (outgoing, used) = self.caller.sign(&self.draft).await?;
        let answer = send(&self.caller, &self.draft, outgoing).await;
        let packets = match answer {
            Ok(answer) => reply(answer, &accept, idle).await.map_err(|error| self.caller.refused(error, &used)),
            Err(error) => Err(error),
        };
        let packets = packets.map_err(|error| {
            if let (ProviderError::Auth { .. }, Some(keys)) = (&error, &self.caller.keys) {
                keys.invalidate();
            }
            secrets.clean_error(error)
        })?;
        Ok(OpenResponse { packets, secrets, idle })
    }
}

async fn send(caller: &Caller, draft: &RequestDraft, outgoing: Outgoing) -> Result<RawAnswer, ProviderError> {
    let started = Instant::now();
    tracing::debug!(provider = caller.name, path = draft.path, bytes = draft.body.len(), "request");
    let tape = match &caller.recorder {
        Some(recorder) => Some(recorder.begin(
            draft.to_recorded(caller.name, caller.base_url.as_deref())?,
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

impl RequestDraft {
    /// Converts the request to the form of a recording.
    fn to_recorded(&self, provider: &str, base_url: Option<&str>) -> Result<RecordedRequest, ProviderError> {
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

/// Adds the origin of a key that cannot be used.
fn with_origin(error: ProviderError, origin: Option<&KeyOrigin>) -> ProviderError {
    match (error, origin) {
        (ProviderError::Auth { message }, Some(origin)) => {
            ProviderError::Auth { message: format!("{message}; the key comes from `{origin}`") }
        }
        (error, _) => error,
    }
}

/// Returns whether a user's header replaces the key.
fn is_key_header(name: &HeaderName) -> bool {
    *name == AUTHORIZATION || ["x-api-key", "api-key", "x-goog-api-key"].contains(&name.as_str())
}

/// Returns whether the user's value is appended to the format's instead of replacing it.
fn is_list(name: &HeaderName) -> bool {
    name == "anthropic-beta"
}

/// Describes a failed key source, with its remedy: [`ProviderError`] has no separate place for one.
fn key_message(error: &KeyError) -> String {
    match error.hint() {
        Some(hint) => format!("{}; {hint}", with_causes(error)),
        None => with_causes(error),
    }
}
