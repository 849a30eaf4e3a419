//! The wire format of Ollama's own API (`/api/chat`): one JSON object per line.
//!
//! [`request_body`] serializes a request and [`OllamaDecoder`] decodes the reply; neither deals with HTTP. By default the
//! server truncates a prompt that is too long; `truncate: false` makes it fail instead, so that the agent can compact
//! the conversation.
//!
//! Documentation: <https://docs.ollama.com/api/chat>, `/api/errors`, <https://docs.ollama.com/capabilities/thinking>,
//! `/tool-calling`, `/vision` next to it.

mod body;
mod stream;

pub use body::request_body;

/// Decodes one streamed reply.
pub type OllamaDecoder = crate::decode::LineDecoder<stream::OllamaReply>;
