//! A provider over HTTP: a wire format, a place to send it to, and a key.

use crate::exchange::exchange;
use crate::http::{Outgoing, Transport};
use crate::model_table::ModelTable;
use crate::models::Model;
use crate::openai_chat::Quirks;
use crate::redact::Redactor;
use crate::wire::Decoder;
use crate::{anthropic, openai_chat};
use futures_util::stream::{self, StreamExt};
use pinion_agent::{EventStream, Provider, ProviderError, Request};
use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A wire format, with what its vendor does differently.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    Anthropic,
    OpenAiChat(Quirks),
}

impl Format {
    /// What comes after the version in the URL.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "messages",
            Self::OpenAiChat(_) => "chat/completions",
        }
    }

    fn body(self, request: &Request, model: &Model, provider: &str) -> Result<Vec<u8>, ProviderError> {
        match self {
            Self::Anthropic => anthropic::request_body(request, model, provider)
                .map_err(|error| ProviderError::Api { status: None, message: error.to_string() }),
            Self::OpenAiChat(quirks) => openai_chat::request_body(request, model, provider, &quirks),
        }
    }

    fn decoder(self, id_seed: String) -> Box<dyn Decoder> {
        match self {
            Self::Anthropic => Box::new(anthropic::Decoder::new(id_seed)),
            Self::OpenAiChat(_) => Box::new(openai_chat::Decoder::new(id_seed)),
        }
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
            Self::OpenAiChat(quirks) => {
                let session = quirks.session_header.zip(request.options.session_id.clone());
                session.map(|(name, id)| (HeaderName::from_static(name), id)).into_iter().collect()
            }
        }
    }

    fn key_header(self, key: &SecretString) -> (HeaderName, String) {
        match self {
            Self::Anthropic => (HeaderName::from_static("x-api-key"), key.expose_secret().to_owned()),
            Self::OpenAiChat(_) => (AUTHORIZATION, format!("Bearer {}", key.expose_secret())),
        }
    }
}

/// A provider over HTTP.
#[derive(Debug)]
pub(crate) struct HttpProvider {
    pub(crate) name: &'static str,
    pub(crate) format: Format,
    pub(crate) url: Url,
    pub(crate) key: Option<SecretString>,
    /// What to say when there is no key; none when the server needs none.
    pub(crate) without_key: Option<String>,
    /// The user's own headers, which replace those of the same name.
    pub(crate) headers: Vec<(HeaderName, SecretString)>,
    pub(crate) models: Arc<ModelTable>,
    pub(crate) transport: Arc<Transport>,
}

impl Provider for HttpProvider {
    fn name(&self) -> &str {
        self.name
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        let decoder = self.format.decoder(format!("call_{:012x}", fastrand::u64(..1 << 48)));
        match self.prepare(&request) {
            Ok(outgoing) => exchange(self.transport.clone(), outgoing, decoder, token),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }
}

impl HttpProvider {
    fn prepare(&self, request: &Request) -> Result<Outgoing, ProviderError> {
        let model = self.models.find(self.name, &request.model);
        let key = request.options.api_key.as_ref().or(self.key.as_ref());
        let headers = self.all_headers(request, &model, key)?;
        let body = self.format.body(request, &model, self.name)?;
        let secrets = key.into_iter().chain(self.headers.iter().map(|(_, value)| value)).cloned();
        Ok(Outgoing { url: self.url.clone(), headers, body: body.into(), redactor: Redactor::new(secrets) })
    }

    fn all_headers(
        &self,
        request: &Request,
        model: &Model,
        key: Option<&SecretString>,
    ) -> Result<HeaderMap, ProviderError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        for (name, value) in self.format.headers(request, model) {
            headers.insert(name.clone(), plain_value(&name, &value)?);
        }
        match key {
            Some(key) => {
                let (name, value) = self.format.key_header(key);
                headers.insert(name, secret_value("the key", &value)?);
            }
            None if self.headers.iter().any(|(name, _)| *name == AUTHORIZATION || name == "x-api-key") => {}
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
        Ok(headers)
    }
}

/// Is what the user says added to what the body needs?
fn is_list(name: &HeaderName) -> bool {
    name == "anthropic-beta"
}

fn plain_value(name: &HeaderName, value: &str) -> Result<HeaderValue, ProviderError> {
    let message = || format!("the header `{name}` holds a character that no header can carry");
    HeaderValue::from_str(value).map_err(|_| ProviderError::Api { status: None, message: message() })
}

fn secret_value(what: &str, value: &str) -> Result<HeaderValue, ProviderError> {
    let message = || format!("{what} holds a character that no header can carry");
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| ProviderError::Auth { message: message() })?;
    value.set_sensitive(true);
    Ok(value)
}
