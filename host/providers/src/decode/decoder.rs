//! [`Decoder`], and [`EventDecoder`], which implements it for every format whose events are runs of bytes.

use super::json::start_of;
use super::repair::EventRepair;
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

    /// Interprets one event, a JSON object.
    ///
    /// # Errors
    /// The event is malformed, or reports an error of the vendor's.
    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;

    /// Handles a connection that closed without an explicit end of the reply.
    ///
    /// # Errors
    /// The reply is incomplete, which the default implementation always assumes.
    fn close(&mut self, _: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        Err(broke_off())
    }

    /// Handles `[DONE]`, which ends the events of Chat Completions, and of some servers of other formats.
    ///
    /// # Errors
    /// The reply is incomplete.
    fn done(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.has_ended() { Ok(()) } else { self.close(events) }
    }
}

/// The mark that ends the events of Chat Completions.
const DONE: &[u8] = b"[DONE]";

/// Decodes replies in the format `R` over the framing `F`.
///
/// Events are JSON objects. Anything else is skipped, such as a gateway's sign of life, unless the response contains
/// nothing else.
#[derive(Debug)]
pub struct EventDecoder<F, R> {
    framing: F,
    events: ReplyEvents<R>,
}

#[derive(Debug)]
struct ReplyEvents<R> {
    reply: R,
    repair: EventRepair,
    has_event: bool,
    /// The first payload that is no event.
    foreign: Option<Vec<u8>>,
}

impl<F: Framing, R: ReplyState> EventDecoder<F, R> {
    /// A decoder for one reply. Tool calls without an ID receive one that begins with `id_seed`.
    pub fn new(id_seed: impl Into<String>) -> Self {
        let events = ReplyEvents {
            reply: R::new(id_seed.into()),
            repair: EventRepair::default(),
            has_event: false,
            foreign: None,
        };
        Self { framing: F::default(), events }
    }
}

impl<F: Framing, R: ReplyState> Decoder for EventDecoder<F, R> {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let Self { framing, events } = self;
        let fed =
            framing.feed(bytes, |payload| payloads(payload).try_for_each(|payload| events.interpret(payload, out)));
        settled(events.reply.has_ended(), fed)
    }

    /// Some servers omit the last line end, so a complete payload without one still counts.
    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let rest = self.framing.take_rest();
        for payload in payloads(&rest).filter(|payload| *payload == DONE || is_json(payload)) {
            self.events.interpret(payload, out)?;
        }
        match &self.events {
            ReplyEvents { reply, .. } if reply.has_ended() => Ok(()),
            ReplyEvents { has_event: false, foreign: Some(foreign), .. } => Err(no_event(foreign)),
            _ => self.events.reply.close(out),
        }
    }
}

impl<R: ReplyState> ReplyEvents<R> {
    /// Passes on the objects of a payload: one, or a list of them.
    fn interpret(&mut self, payload: &[u8], out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match payload {
            DONE => {
                self.has_event = true;
                self.reply.done(out)
            }
            object @ [b'{', ..] => self.event(object, out),
            list @ [b'[', ..] => {
                let list: Vec<&RawValue> = serde_json::from_slice(list).unwrap_or_default();
                let objects = list.into_iter().map(|item| item.get().as_bytes()).filter(|item| item.starts_with(b"{"));
                objects.into_iter().try_for_each(|object| self.event(object, out))
            }
            foreign => {
                self.foreign.get_or_insert_with(|| foreign[..foreign.len().min(200)].to_vec());
                Ok(())
            }
        }
    }

    fn event(&mut self, object: &[u8], out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.has_event = true;
        match self.reply.event(object, out) {
            Err(error @ ProviderError::Malformed { .. }) => match self.repair.repair(object) {
                Some(repaired) => self.reply.event(&repaired, out),
                None => Err(error),
            },
            other => other,
        }
    }
}

/// Returns the payload, or its lines if only each of them is one: some servers omit the blank line between events.
fn payloads(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    let payload = payload.trim_ascii();
    let has_lines = memchr::memchr(b'\n', payload).is_some() && !is_json(payload);
    payload.split(move |byte| has_lines && *byte == b'\n').map(<[u8]>::trim_ascii)
}

fn is_json(payload: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(payload).is_ok()
}

/// The error for a response without any event.
fn no_event(foreign: &[u8]) -> ProviderError {
    ProviderError::Malformed { message: format!("expected JSON objects, got `{}`", start_of(foreign)) }
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
