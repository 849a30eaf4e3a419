//! The reply decoder.

use crate::decode::json::parse;
use crate::decode::{Parts, ReplyState};
use crate::error_kind::{ErrorKind, message_of};
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent, Usage};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::Duration;

/// Serializes one event of a reply, for servers.
pub fn write_event(event: &Result<StreamEvent, ProviderError>) -> Vec<u8> {
    let wire = match event {
        Ok(event) => WireEvent::from_event(event),
        Err(error) => WireEvent::Error(WireError::from_error(error)),
    };
    // Every event can be serialized.
    let mut bytes = b"data: ".to_vec();
    if serde_json::to_writer(&mut bytes, &wire).is_err() {
        return Vec::new();
    }
    bytes.extend_from_slice(b"\n\n");
    bytes
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireEvent<'a> {
    Start {
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        model: Option<Cow<'a, str>>,
    },
    Part {
        index: usize,
        #[serde(flatten)]
        part: PartKind,
    },
    Delta {
        index: usize,
        #[serde(borrow)]
        text: Cow<'a, str>,
    },
    PartEnd {
        index: usize,
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        signature: Option<Cow<'a, str>>,
    },
    Usage(Usage),
    End {
        stop_reason: StopReason,
    },
    Error(WireError),
    /// An event that a newer server may send.
    #[serde(other)]
    Unknown,
}

impl<'a> WireEvent<'a> {
    fn from_event(event: &'a StreamEvent) -> Self {
        match event {
            StreamEvent::Start { model } => Self::Start { model: model.as_deref().map(Cow::Borrowed) },
            StreamEvent::PartStart { index, part } => Self::Part { index: *index, part: part.clone() },
            StreamEvent::Delta { index, delta } => Self::Delta { index: *index, text: Cow::Borrowed(delta) },
            StreamEvent::PartEnd { index, signature } => {
                Self::PartEnd { index: *index, signature: signature.as_deref().map(Cow::Borrowed) }
            }
            StreamEvent::Usage(usage) => Self::Usage(*usage),
            StreamEvent::End { stop_reason } => Self::End { stop_reason: *stop_reason },
        }
    }
}

#[derive(Serialize, Deserialize)]
struct WireError {
    kind: WireErrorKind,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WireErrorKind {
    Known(ErrorKind),
    /// A kind that a newer server may send.
    Unknown(String),
}

impl WireError {
    fn from_error(error: &ProviderError) -> Self {
        let status = match error {
            ProviderError::Api { status, .. } => *status,
            _ => None,
        };
        Self {
            kind: WireErrorKind::Known(ErrorKind::from_error(error)),
            message: message_of(error).to_owned(),
            status,
            retry_after_ms: error.retry_after().map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    /// Converts the error as if this client had called the vendor directly. A cancellation on the server's side becomes
    /// a network error, because this client cancelled nothing.
    fn into_error(self) -> ProviderError {
        let retry_after = self.retry_after_ms.map(|ms| Duration::from_millis(ms.min(86_400_000)));
        match self.kind {
            WireErrorKind::Known(ErrorKind::Cancelled) => {
                ProviderError::Network { message: "the proxy cancelled the request".to_owned() }
            }
            WireErrorKind::Known(kind) => kind.error(self.status, self.message, retry_after),
            WireErrorKind::Unknown(_) => ErrorKind::Api.error(self.status, self.message, retry_after),
        }
    }
}

/// The state of one reply.
#[derive(Debug)]
pub struct ProxyReply {
    parts: Parts<usize>,
}

impl ReplyState for ProxyReply {
    fn new(id_seed: String) -> Self {
        Self { parts: Parts::new(id_seed) }
    }

    fn has_ended(&self) -> bool {
        self.parts.ended()
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        step(&mut self.parts, data, events)
    }
}

fn step(parts: &mut Parts<usize>, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
    if parts.ended() {
        return Ok(());
    }
    match parse::<WireEvent<'_>>(data)? {
        WireEvent::Start { model } => parts.start(model.as_deref(), events),
        WireEvent::Part { index, .. } if parts.has_begun(&index) => {
            return Err(ProviderError::Malformed { message: format!("part {index} began twice") });
        }
        WireEvent::Part { index, part } => parts.begin(index, part, events)?,
        WireEvent::Delta { index, text } => parts.add(&index, &text, events),
        WireEvent::PartEnd { index, signature } => {
            parts.sign(&index, signature.as_deref().unwrap_or_default())?;
            parts.end_part(&index, events);
        }
        WireEvent::Usage(usage) => parts.usage(usage, events),
        WireEvent::End { stop_reason } => parts.end(stop_reason, events),
        WireEvent::Error(error) => return Err(error.into_error()),
        WireEvent::Unknown => {}
    }
    Ok(())
}
