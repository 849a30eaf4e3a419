//! The wire format of OpenAI's Chat Completions, streamed, and of the many vendors that are nearly compatible.
//!
//! [`request_body`] serializes a request and [`ChatDecoder`] decodes the reply; neither deals with HTTP. A vendor's
//! differences are data: one value of [`ChatQuirks`] in its row of [`PROVIDERS`](crate::PROVIDERS). The decoder needs no
//! quirks, because the variants of a reply are distinguishable.
//!
//! Documentation: <https://developers.openai.com/api/reference/resources/chat>; for other vendors, the links in their
//! rows.

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
