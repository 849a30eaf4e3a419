//! The wire format of Ollama's own API (`/api/chat`), as streamed: one JSON object a line.
//!
//! [`request_body`] turns a request into a body, [`Decoder`] turns the bytes of the answer into events; neither knows of
//! HTTP. The server would rather cut a prompt that is too long than refuse it; it is told not to, so that the agent can
//! make it shorter by sense instead of by age.
//!
//! Documentation: <https://docs.ollama.com/api/chat>, `/api/errors`, <https://docs.ollama.com/capabilities/thinking>,
//! `/tool-calling`, `/vision` beside it.

mod body;
mod stream;

pub use body::request_body;

/// Decodes the stream of one reply.
pub type Decoder = crate::decode::LineDecoder<stream::Reply>;
