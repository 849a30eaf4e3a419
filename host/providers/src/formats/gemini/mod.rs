//! The wire format of Google's Gemini API (`streamGenerateContent`), which Vertex AI shares.
//!
//! [`request_body`] serializes a request and [`GeminiDecoder`] decodes the reply; neither deals with HTTP. Two traits of the
//! vendor shape this format. Every event is a complete response whose parts are increments. And thinking is preserved
//! as a signature on some part of the reply, which must return on the same part: a signature on a call belongs to the
//! call; one on or after text is stored as a separate part, and returns on that text or as the empty, signed text that
//! the vendor itself sends at the end of a stream.
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
