//! The file in which exchanges are written down: JSON Lines, one step of an exchange a line.
//!
//! ```json
//! {"pinion_recording":1,"date":"2026-11-20"}
//! {"exchange":1,"request":{"provider":"anthropic","model":"claude-opus-5-5","path":"messages",…,"body":{…}}}
//! {"exchange":1,"response":{"status":200,"headers":{"content-type":"text/event-stream"}}}
//! {"exchange":1,"data":"event: message_start\ndata: {…}\n"}
//! {"exchange":1,"end":"complete"}
//! ```
//! Exchanges that ran at the same time are interleaved. What an answer held comes line by line, as it came over the wire,
//! after decompression; the messages of AWS' event streams as `frame`, with their headers and payload readable; what is
//! neither is `base64`. Headers with keys are left out, and keys anywhere else are replaced by `[redacted]`. Ids that were
//! made up here begin with `id_seed`, so that they are the same when the exchange is played back. The date is that of the
//! run, for whoever says it in a prompt.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The version of this form.
pub(crate) const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// [`VERSION`].
    pub(crate) pinion_recording: u32,
    /// The day on which the run began, where it was.
    pub(crate) date: Date,
}

/// Every other line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Counts from 1, in the order of the requests.
    pub(crate) exchange: u64,
    #[serde(flatten)]
    pub(crate) step: Step,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    Request(RecordedRequest),
    Response(RecordedHead),
    Data(String),
    Base64(String),
    Frame(RecordedFrame),
    End(End),
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedRequest {
    pub(crate) provider: String,
    pub(crate) model: String,
    /// Where the provider was, when the user said so; without a query, which may hold a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base_url: Option<String>,
    /// The end of the path, without what a base URL says.
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) id_seed: String,
    pub(crate) body: Value,
}

/// The head of an answer.
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

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    /// With the end of the answer.
    Complete,
    /// Nobody waited for more: the reply was complete, or cancelled.
    Dropped,
    /// The connection failed, or the server was too slow.
    Network(String),
}
