//! The wire format of OpenAI's Chat Completions, as streamed, and of the many vendors that speak it nearly.
//!
//! [`request_body`] turns a request into a body, [`Decoder`] turns the bytes of the answer into events; neither knows of
//! HTTP. What a vendor does differently is data: [`Quirks`], one value a vendor in the registry. The decoder needs no
//! quirks, because the forms of an answer can be told apart.
//!
//! Documentation: <https://developers.openai.com/api/reference/resources/chat>; xAI, Mistral, Groq, DeepSeek and
//! OpenRouter as named at their entries in the registry.

mod body;
mod stream;

pub use body::{Quirks, ThinkingBack, ThinkingParam, request_body};

/// Decodes the stream of one reply.
pub type Decoder = crate::decode::SseDecoder<stream::Reply>;
