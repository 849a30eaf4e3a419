//! The wire formats. Each serializes requests and decodes replies.

mod acceptable;
mod adopted_parts;
mod conversation;
mod schemas;
mod stop_reason;

pub mod anthropic {
    //! The wire format of Anthropic's Messages API, streamed.
    //!
    //! [`request_body`] serializes a request and [`AnthropicDecoder`] decodes the reply; neither deals with HTTP. Three
    //! of the vendor's rules shape this format: user and assistant alternate, with tool results first in the user's
    //! turn; thinking goes back unchanged, with its signature, and only to the model that produced it; and the
    //! parameters that request thinking differ from model to model (see [`ThinkingStyle`](crate::ThinkingStyle)).
    //!
    //! Documentation: <https://platform.claude.com/docs/en/api/messages>; `streaming`, `thinking`, `effort`,
    //! `prompt-caching` and `preserved-thinking` under `/docs/en/build-with-claude`.

    mod body;
    mod stream;

    pub use body::{AnthropicQuirks, VERSION, betas, request_body};
    pub(crate) use body::{INTERLEAVED, Thinks, thinking_fields};

    /// Decodes one streamed reply.
    pub type AnthropicDecoder = crate::decode::SseDecoder<stream::AnthropicReply>;
}

pub mod bedrock {
    //! The wire format of Amazon Bedrock's ConverseStream, one format for the models of many vendors.
    //!
    //! [`request_body`] serializes a request and [`BedrockDecoder`] decodes the reply; neither deals with HTTP or
    //! signatures. Parameters that only one vendor's models know go into `additionalModelRequestFields`: for Claude,
    //! the thinking fields of Anthropic's own format. The reply is an AWS event stream, not server-sent events, and its
    //! token counts follow its end.
    //!
    //! Documentation: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html>,
    //! <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>,
    //! `/claude-messages-adaptive-thinking.html` next to it.

    mod body;
    mod stream;

    pub use body::request_body;
    pub use stream::BedrockDecoder;
}

pub mod gemini {
    //! The wire format of Google's Gemini API (`streamGenerateContent`), which Vertex AI shares.
    //!
    //! [`request_body`] serializes a request and [`GeminiDecoder`] decodes the reply; neither deals with HTTP. Two
    //! traits of the vendor shape this format. Every event is a complete response whose parts are increments. And
    //! thinking is preserved as a signature on some part of the reply, which must return on the same part: a signature
    //! on a call belongs to the call; one on or after text is stored as a separate part, and returns on that text or as
    //! the empty, signed text that the vendor itself sends at the end of a stream.
    //!
    //! Documentation: <https://ai.google.dev/api/generate-content>,
    //! <https://ai.google.dev/gemini-api/docs/thought-signatures>, `/thinking`, `/function-calling` next to it.

    mod body;
    mod stream;

    pub use body::request_body;

    /// Precedes a stored signature that came on the text before it, and not on a separate part. No signature contains the
    /// colon.
    const ON_TEXT: &str = "text:";

    /// Decodes one streamed reply.
    pub type GeminiDecoder = crate::decode::SseDecoder<stream::GeminiReply>;
}

pub mod ollama {
    //! The wire format of Ollama's own API (`/api/chat`): one JSON object per line.
    //!
    //! [`request_body`] serializes a request and [`OllamaDecoder`] decodes the reply; neither deals with HTTP. By
    //! default the server truncates a prompt that is too long; `truncate: false` makes it fail instead, so that the
    //! agent can compact the conversation.
    //!
    //! Documentation: <https://docs.ollama.com/api/chat>, `/api/errors`,
    //! <https://docs.ollama.com/capabilities/thinking>, `/tool-calling`, `/vision` next to it.

    mod body;
    mod stream;

    pub use body::request_body;

    /// Decodes one streamed reply.
    pub type OllamaDecoder = crate::decode::LineDecoder<stream::OllamaReply>;
}

pub mod openai_chat {
    //! The wire format of OpenAI's Chat Completions, streamed, and of the many vendors that are nearly compatible.
    //!
    //! [`request_body`] serializes a request and [`ChatDecoder`] decodes the reply; neither deals with HTTP. A vendor's
    //! differences are data: one value of [`ChatQuirks`] in its row of [`PROVIDERS`](crate::PROVIDERS). The decoder
    //! needs no quirks, because the variants of a reply are distinguishable.
    //!
    //! Documentation: <https://developers.openai.com/api/reference/resources/chat>; for other vendors, the links in
    //! their rows.

    mod body;
    mod calls;
    mod quirks;
    mod reasoning;
    mod stream;
    mod wire;

    pub use body::request_body;
    pub use quirks::{ChatQuirks, ThinkingBack, ThinkingParam};

    /// Decodes one streamed reply.
    pub type ChatDecoder = crate::decode::SseDecoder<stream::ChatReply>;
}

pub mod openai_responses {
    //! The wire format of OpenAI's Responses API, streamed, which Azure and xAI share.
    //!
    //! [`request_body`] serializes a request and [`ResponsesDecoder`] decodes the reply; neither deals with HTTP. The
    //! vendor stores nothing (`store: false`), so every request carries the entire conversation. The conversation is a
    //! flat list of items rather than messages with parts: thinking is a separate item, which goes back as it came, and
    //! must be followed by the items that resulted from it.
    //!
    //! Documentation: <https://developers.openai.com/api/reference/resources/responses>,
    //! <https://developers.openai.com/api/docs/guides/reasoning>, `/prompt-caching` next to it.

    mod body;
    mod items;
    mod stored;
    mod stream;
    mod wire;

    pub use body::{ResponsesQuirks, request_body};

    /// Decodes one streamed reply.
    pub type ResponsesDecoder = crate::decode::SseDecoder<stream::ResponsesReply>;
}

pub mod proxy {
    //! The proxy protocol: another machine calls the models and relays their replies.
    //!
    //! A request is one JSON object, posted to `/v1/stream` with a bearer token. The reply arrives as server-sent
    //! events, each the smallest step that the loop knows: a part begins, grows, ends. Nothing is sent twice, and the
    //! assembled message not at all: the client assembles it from the steps. Both ends of the protocol are in this
    //! module, so that they cannot drift apart; [`examples/proxy-server`] is a server in a few dozen lines.
    //!
    //! ```json
    //! {"version":1,"model":"anthropic/claude-opus-5-5","system":"…","messages":[…],"tools":[…],"options":{"thinking":"high"}}
    //! ```
    //! ```text
    //! data: {"type":"start","model":"claude-opus-5-5"}
    //! data: {"type":"part","index":0,"kind":"text"}
    //! data: {"type":"delta","index":0,"text":"Hello"}
    //! data: {"type":"part_end","index":0}
    //! data: {"type":"usage","input":12,"output":3,"cache_read":0,"cache_write":0}
    //! data: {"type":"end","stop_reason":"stop"}
    //! ```
    //! An error in mid-reply is an event too:
    //! `{"type":"error","kind":"overloaded","message":"…","retry_after_ms":2000}`.
    //!
    //! [`examples/proxy-server`]: https://github.com/pinion-agent/pinion/tree/main/examples/proxy-server

    mod request;
    mod stream;

    pub use request::{ProxyError, VERSION, forwarded, read_request, request_body};
    pub use stream::write_event;

    /// Decodes one streamed reply.
    pub type ProxyDecoder = crate::decode::SseDecoder<stream::ProxyReply>;
}

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
