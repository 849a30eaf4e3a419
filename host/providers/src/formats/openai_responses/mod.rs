//! The wire format of OpenAI's Responses API, streamed, which Azure and xAI share.
//!
//! [`request_body`] serializes a request and [`ResponsesDecoder`] decodes the reply; neither deals with HTTP. The vendor stores
//! nothing (`store: false`), so every request carries the entire conversation. The conversation is a flat list of items
//! rather than messages with parts: thinking is a separate item, which goes back as it came, and must be followed by
//! the items that resulted from it.
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
