//! The wire format of Anthropic's Messages API, streamed.
//!
//! [`request_body`] serializes a request and [`AnthropicDecoder`] decodes the reply; neither deals with HTTP. Three of the
//! vendor's rules shape this format: user and assistant alternate, with tool results first in the user's turn; thinking
//! goes back unchanged, with its signature, and only to the model that produced it; and the parameters that request
//! thinking differ from model to model (see [`ThinkingStyle`](crate::ThinkingStyle)).
//!
//! Documentation: <https://platform.claude.com/docs/en/api/messages>; `streaming`, `thinking`, `effort`,
//! `prompt-caching` and `preserved-thinking` under `/docs/en/build-with-claude`.

mod body;
mod stream;

pub use body::{AnthropicQuirks, VERSION, betas, request_body};
pub(crate) use body::{INTERLEAVED, Thinks, thinking_fields};

/// Decodes one streamed reply.
pub type AnthropicDecoder = crate::decode::SseDecoder<stream::AnthropicReply>;
