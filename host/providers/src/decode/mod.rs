//! Decodes the bytes of a reply into events, independently of the vendor.
//!
//! Bytes arrive in arbitrary packets. A [`Framing`](decoder::Framing) cuts them into the vendor's events, the format's
//! [`ReplyState`] interprets each of them, and [`Parts`] keeps the resulting
//! [`StreamEvent`](pinion_protocol::StreamEvent)s well-formed.

mod decoder;
pub(crate) mod event_stream;
pub(crate) mod json;
mod ndjson;
mod parts;
mod repair;
mod sse;
mod thoughts;
mod writer;

pub use decoder::Decoder;
pub(crate) use decoder::{EventDecoder, ReplyState, began_again, broke_off, settled};
pub(crate) use parts::{MAX_PARTS, MAX_SIGNATURE, Parts, too_large_signature, too_many_parts};
pub(crate) use sse::{MAX_EVENT_BYTES, SseParser};
pub(crate) use writer::{PartWriter, Writing};

/// Decodes replies that arrive as server-sent events.
pub(crate) type SseDecoder<R> = EventDecoder<SseParser, R>;

/// Decodes replies that arrive as JSON Lines.
pub(crate) type LineDecoder<R> = EventDecoder<ndjson::NdjsonLines, R>;
