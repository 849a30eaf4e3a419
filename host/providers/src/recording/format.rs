//! The file format of recordings: JSON Lines, with one step of an exchange per line.
//!
//! ```json
//! {"pinion_recording":1,"date":"2026-11-20"}
//! {"exchange":1,"request":{"provider":"anthropic","model":"claude-opus-5-5","path":"messages",…,"body":{…}}}
//! {"exchange":1,"response":{"status":200,"headers":{"content-type":"text/event-stream"}}}
//! {"exchange":1,"data":"event: message_start\ndata: {…}\n"}
//! {"exchange":1,"end":"complete"}
//! ```
//! Concurrent exchanges are interleaved. Response bodies are recorded line by line as received, after decompression;
//! messages of AWS event streams as `frame`, with readable headers and payload; anything else as `base64`. Headers that
//! contain keys are omitted, and keys elsewhere are replaced with `[redacted]`. Generated tool call IDs begin with
//! `id_seed`, so that playback reproduces them.
//!
//! Requests and replies have [placeholders](super::placeholders) for the date, directories and other values of the run.
//! The first line has the date, and the user's name if it is a common word: requests to play have either these or the
//! values of their own run.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The version of the format.
pub(crate) const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordingHead {
    /// [`VERSION`].
    pub(crate) pinion_recording: u32,
    /// The local date at the start of the run.
    pub(crate) date: Date,
    /// The user's name, unless it is replaced by a placeholder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
}

/// Every other line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordingLine {
    /// The number of the exchange, from 1, in the order of the requests.
    pub(crate) exchange: u64,
    #[serde(flatten)]
    pub(crate) step: RecordedStep,
}

/// A step of an exchange.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RecordedStep {
    Request(RecordedRequest),
    Response(RecordedHead),
    Data(String),
    Base64(String),
    Frame(RecordedFrame),
    End(End),
}

/// The request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedRequest {
    pub(crate) provider: String,
    pub(crate) model: String,
    /// The configured base URL, without its query, which may contain a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base_url: Option<String>,
    /// The end of the path, which does not depend on the base URL.
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) id_seed: String,
    pub(crate) body: Value,
}

/// The head of the response.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedHead {
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
}

/// A message of an AWS event stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedFrame {
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) payload: Value,
}

/// The outcome of an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    /// The response was complete.
    Complete,
    /// The client stopped reading: the reply was complete, or cancelled.
    Dropped,
    /// The connection failed, or the server was too slow.
    Network(String),
}
