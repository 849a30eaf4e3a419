//! What every wire format is: a function from a request to a body, and a [`Decoder`] from bytes to events.

use pinion_agent::{ProviderError, StreamEvent};
use serde::Deserialize;

/// Turns the bytes of one reply into events. A pure state machine: no clock, no I/O, bounded memory.
///
/// However the bytes are cut into packets, the events are the same. After [`StreamEvent::End`] or an error nothing more
/// comes, whatever is fed.
pub trait Decoder: Send {
    /// Takes more bytes and appends the events that they complete to `events`.
    ///
    /// # Errors
    /// The bytes make no sense, or the vendor reports an error; events that came before it are in `events`.
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;

    /// The connection has ended.
    ///
    /// # Errors
    /// [`ProviderError::Network`] when the reply was not complete.
    fn finish(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;
}

/// The stream ended before the reply did.
pub(crate) fn broke_off() -> ProviderError {
    ProviderError::Network { message: "the reply broke off".to_owned() }
}

/// Reads the JSON of one event.
pub(crate) fn parse<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Result<T, ProviderError> {
    serde_json::from_slice(data).map_err(|error| {
        let start: String = String::from_utf8_lossy(&data[..data.len().min(200)]).chars().take(60).collect();
        let start: String = start.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        ProviderError::Malformed { message: format!("{error}, in the event `{start}`") }
    })
}
