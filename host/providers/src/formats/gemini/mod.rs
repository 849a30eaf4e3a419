//! The wire format of Google's Gemini API (`streamGenerateContent`), as streamed; Vertex AI speaks it too.
//!
//! [`request_body`] turns a request into a body, [`Decoder`] turns the bytes of the answer into events; neither knows of
//! HTTP. Two habits of the vendor shape this file: every event is a whole answer in small, whose parts are pieces; and
//! what the model thought is a signature on some part of its reply, which must come back on the same part. A signature
//! on a call is the call's; one that came after text is kept as a part of its own, and goes back as the empty text with a
//! signature that the vendor itself sends at the end of a stream.
//!
//! Documentation: <https://ai.google.dev/api/generate-content>, <https://ai.google.dev/gemini-api/docs/thought-signatures>,
//! `/thinking`, `/function-calling` beside it.

mod body;
mod stream;

pub use body::request_body;

/// Decodes the stream of one reply.
pub type Decoder = crate::decode::SseDecoder<stream::Reply>;
