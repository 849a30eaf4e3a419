//! The wire format of OpenAI's Responses API, as streamed; Azure and xAI speak it too.
//!
//! [`request_body`] turns a request into a body, [`Decoder`] turns the bytes of the answer into events; neither knows of
//! HTTP. The vendor keeps nothing (`store: false`), so everything goes back with each request. A conversation is a flat
//! list of items here, not of messages with parts: what the model thought is an item of its own, encrypted, and must be
//! followed by what came of it.
//!
//! Documentation: <https://developers.openai.com/api/reference/resources/responses>,
//! <https://developers.openai.com/api/docs/guides/reasoning>, `/prompt-caching` beside it.

mod body;
mod encrypted;
mod stream;

pub use body::{Quirks, request_body};

/// Decodes the stream of one reply.
pub type Decoder = crate::decode::SseDecoder<stream::Reply>;
