//! The wire format of Anthropic's Messages API, as streamed.
//!
//! [`request_body`] turns a request into a body, [`Decoder`] turns the bytes of the answer into events; neither knows of
//! HTTP. Three rules of the vendor shape most of this file: messages alternate between user and assistant, with tool
//! results first in the user's; thinking goes back unchanged, with its signature, and only to the model that wrote it;
//! and how thinking is asked for differs from model to model (see [`ThinkingStyle`]).
//!
//! Documentation: <https://platform.claude.com/docs/en/api/messages>, `/docs/en/build-with-claude/streaming`,
//! `/thinking`, `/effort`, `/prompt-caching`, `/preserved-thinking` beside it.

mod body;
mod stream;

pub(crate) use body::{INTERLEAVED, Thinks, thinking_fields};
pub use body::{VERSION, betas, request_body};

/// Decodes the stream of one reply.
pub type Decoder = crate::decode::SseDecoder<stream::Reply>;
