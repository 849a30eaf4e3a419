//! [`Decoder`], and [`EventDecoder`], which implements it for every format whose events are runs of bytes.

use pinion_protocol::{ProviderError, StreamEvent};
use serde_json::value::RawValue;

/// Turns the bytes of one reply into events: a pure state machine without clock or I/O, in bounded memory.
///
/// The events do not depend on how the bytes are cut into packets. After [`StreamEvent::End`] or an error, further input
/// produces nothing.
pub trait Decoder: Send {
    /// Consumes more bytes and appends the events that they complete to `events`.
    ///
    /// # Errors
    /// The bytes are malformed, or the vendor reports an error. Events decoded before the error are in `events`.
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;

    /// Handles the end of the connection.
    ///
    /// # Errors
    /// [`ProviderError::Network`] when the reply was incomplete.
    fn finish(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;
}

/// Cuts a byte stream into the payloads of events.
pub trait Framing: Default + Send {
    /// Consumes more bytes and passes each payload that they complete to `sink`, in order.
    ///
    /// # Errors
    /// [`ProviderError::Malformed`] when one event exceeds the size limit; any error of `sink`, immediately.
    fn feed<F>(&mut self, bytes: &[u8], sink: F) -> Result<(), ProviderError>
    where
        F: FnMut(&[u8]) -> Result<(), ProviderError>;

    /// Returns the unterminated payload left at the end of the stream, or nothing.
    fn take_rest(&mut self) -> Vec<u8>;
}

/// The state of one reply in one vendor's format.
pub trait ReplyState: Send {
    /// The state before the first event. Tool calls without an ID receive one that begins with `id_seed`.
    fn new(id_seed: String) -> Self;

    /// Returns whether the reply is complete; later events are ignored.
    fn has_ended(&self) -> bool;

    /// Interprets the payload of one event.
    ///
    /// # Errors
    /// The payload is malformed, or reports an error of the vendor's.
    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;

    /// Handles a connection that closed without an explicit end of the reply.
    ///
    /// # Errors
    /// The reply is incomplete, which the default implementation always assumes.
    fn close(&mut self, _: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        Err(broke_off())
    }

    /// Returns whether an unterminated payload at the end of the stream is complete all the same.
    fn is_complete(rest: &[u8]) -> bool {
        serde_json::from_slice::<&RawValue>(rest).is_ok()
    }
}

/// Decodes replies in the format `R` over the framing `F`.
#[derive(Debug)]
pub struct EventDecoder<F, R> {
    framing: F,
    reply: R,
}

impl<F: Framing, R: ReplyState> EventDecoder<F, R> {
    /// A decoder for one reply. Tool calls without an ID receive one that begins with `id_seed`.
    pub fn new(id_seed: impl Into<String>) -> Self {
        Self { framing: F::default(), reply: R::new(id_seed.into()) }
    }
}

impl<F: Framing, R: ReplyState> Decoder for EventDecoder<F, R> {
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let Self { framing, reply } = self;
        let fed = framing.feed(bytes, |data| reply.event(data, events));
        settled(reply.has_ended(), fed)
    }

    /// Some servers omit the last line end, so a complete payload without one still counts.
    fn finish(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let rest = self.framing.take_rest();
        if R::is_complete(&rest) {
            self.reply.event(&rest, events)?;
        }
        if self.reply.has_ended() { Ok(()) } else { self.reply.close(events) }
    }
}

/// The error for a stream that ended before its reply did.
pub(crate) fn broke_off() -> ProviderError {
    ProviderError::Network { message: "the reply broke off".to_owned() }
}

/// The error for a reply that begins a second time, as when a gateway asks another server in mid-reply. The two replies
/// do not fit together.
pub(crate) fn began_again() -> ProviderError {
    ProviderError::Network { message: "the server began another reply in the middle of this one".to_owned() }
}

/// Discards errors in bytes after the end of a reply.
pub(crate) fn settled(has_ended: bool, fed: Result<(), ProviderError>) -> Result<(), ProviderError> {
    if has_ended { Ok(()) } else { fed }
}
