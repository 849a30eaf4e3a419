//! The wire formats. Each serializes requests and decodes replies.

mod acceptable;
pub mod anthropic;
pub mod bedrock;
mod cache_control;
mod conversation;
mod function_tool;
pub mod gemini;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
pub mod proxy;
mod schemas;
mod stop_reason;

pub(crate) use conversation::IdRule;

use crate::decode::Decoder;
use crate::models::{ModelSpec, ThinkingStyle};
use pinion_protocol::{ProviderError, Request};
use reqwest::header::{HeaderName, HeaderValue};

/// A wire format, with the differences of a vendor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WireFormat {
    Anthropic(anthropic::AnthropicQuirks),
    OpenAiChat(openai_chat::ChatQuirks),
    OpenAiResponses(openai_responses::ResponsesQuirks),
    Gemini,
    Bedrock,
    Ollama,
    Proxy,
}

impl WireFormat {
    /// The format for a server that the vendor does not run: without parameters that only the vendor knows.
    pub(crate) fn elsewhere(self) -> Self {
        match self {
            Self::Anthropic(_) => Self::Anthropic(anthropic::AnthropicQuirks::ELSEWHERE),
            Self::OpenAiChat(quirks) => Self::OpenAiChat(quirks.elsewhere()),
            Self::OpenAiResponses(quirks) => Self::OpenAiResponses(quirks.elsewhere()),
            format => format,
        }
    }

    /// Returns whether a request can ask the model to think.
    pub(crate) fn takes_thinking(self, model: &ModelSpec) -> bool {
        let (thinks, has_efforts) = (model.thinking != ThinkingStyle::None, !model.efforts.is_empty());
        match self {
            Self::Anthropic(_) | Self::Gemini | Self::Ollama => thinks,
            Self::OpenAiChat(quirks) => {
                thinks && (has_efforts || quirks.thinking == openai_chat::ThinkingParam::Switch)
            }
            Self::OpenAiResponses(quirks) => thinks && (has_efforts || quirks.summaries),
            // Each vendor's models take different fields.
            Self::Bedrock => thinks && model.thinking != ThinkingStyle::OnRequest,
            Self::Proxy => true,
        }
    }

    pub(crate) fn body(self, request: &Request, model: &ModelSpec, provider: &str) -> Result<Vec<u8>, ProviderError> {
        let unwritable = |error: serde_json::Error| ProviderError::Api { status: None, message: error.to_string() };
        match self {
            Self::Anthropic(quirks) => anthropic::request_body(request, model, provider, &quirks).map_err(unwritable),
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

    pub(crate) fn decoder(self, id_seed: String) -> Box<dyn Decoder> {
        match self {
            Self::Anthropic(_) => Box::new(anthropic::AnthropicDecoder::new(id_seed)),
            Self::OpenAiChat(_) => Box::new(openai_chat::ChatDecoder::new(id_seed)),
            Self::OpenAiResponses(_) => Box::new(openai_responses::ResponsesDecoder::new(id_seed)),
            Self::Gemini => Box::new(gemini::GeminiDecoder::new(id_seed)),
            Self::Bedrock => Box::new(bedrock::BedrockDecoder::new(id_seed)),
            Self::Ollama => Box::new(ollama::OllamaDecoder::new(id_seed)),
            Self::Proxy => Box::new(proxy::ProxyDecoder::new(id_seed)),
        }
    }

    pub(crate) fn accept(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Bedrock => "application/vnd.amazon.eventstream",
            Self::Ollama => "application/x-ndjson",
            _ => "text/event-stream",
        })
    }

    /// The headers that the format requires, apart from authentication.
    pub(crate) fn headers(self, request: &Request, model: &ModelSpec) -> Vec<(HeaderName, String)> {
        match self {
            Self::Anthropic(_) => {
                let version = (HeaderName::from_static("anthropic-version"), anthropic::VERSION.to_owned());
                let betas = anthropic::betas(request, model);
                let betas = (!betas.is_empty()).then(|| (HeaderName::from_static("anthropic-beta"), betas.join(",")));
                std::iter::once(version).chain(betas).collect()
            }
            _ => Vec::new(),
        }
    }
}
