//! The scripted provider `replay`, whose replies are written in advance, for the demo and for tests.
//!
//! A script is JSON Lines with one reply per line, played in order regardless of the requests:
//! ```json
//! {"thinking":"I should look.","text":"Reading.","calls":[{"tool":"read","arguments":{"path":"a.txt"}}],"chunk":7}
//! {"text":"It says hello.","usage":{"input":120,"output":9}}
//! {"error":{"kind":"overloaded","message":"no capacity","retry_after_ms":10}}
//! ```
//! Every field is optional. The content of a reply comes in the order thinking, text, calls, in chunks of `chunk`
//! characters. It is followed by one of: the end (`stop_reason`, which defaults to the reason that the calls imply), an
//! `error`, the end of the connection in the middle of the last part (`"break_off":true`), or silence until the request
//! is cancelled (`"hang":true`).

use crate::error_kind::ErrorKind;
use futures_util::stream::{self, StreamExt};
use pinion_protocol::{EventStream, PartKind, Provider, ProviderError, Request, StopReason, StreamEvent, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Replies in playing order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    /// The replies.
    pub replies: Vec<ScriptedReply>,
}

/// One reply of a script.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedReply {
    /// The thinking.
    pub thinking: Option<String>,
    /// The text.
    pub text: Option<String>,
    /// The tool calls.
    pub calls: Vec<ScriptedCall>,
    /// The token counts to report.
    pub usage: Option<Usage>,
    /// The stop reason; defaults to [`StopReason::ToolUse`] with calls and to [`StopReason::Stop`] without.
    pub stop_reason: Option<StopReason>,
    /// The error after the content. An empty reply fails before it starts.
    pub error: Option<ScriptedError>,
    /// The number of characters per delta; 0 for a single one.
    pub chunk: usize,
    /// Stays silent after its content until cancelled.
    pub hang: bool,
    /// Breaks off before its last part ends.
    pub break_off: bool,
}

/// A tool call in a script.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool's name.
    pub tool: String,
    /// The arguments. A string is streamed verbatim, so that it can be truncated or malformed JSON.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
    /// The call's ID; defaults to one derived from its position in the script.
    #[serde(default)]
    pub id: Option<String>,
}

/// An error in a script.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedError {
    /// The variant.
    pub kind: ErrorKind,
    /// The vendor's message.
    #[serde(default)]
    pub message: String,
    /// The delay before a retry in milliseconds, for the variants that have one.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
}

/// A script could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file could not be read.
    #[error("could not read the script `{path}`")]
    File {
        /// The path.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A line is not a valid reply.
    #[error("invalid reply in line {line} of the script")]
    Line {
        /// The line number, from 1.
        line: usize,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

impl Script {
    /// A script from replies built in code.
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self { replies: replies.into_iter().collect() }
    }

    /// Parses JSON Lines and skips blank lines.
    ///
    /// # Errors
    /// [`ScriptError::Line`] for the first invalid line.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let read = |(at, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|source| ScriptError::Line { line: at + 1, source })
        };
        Ok(Self { replies: lines.map(read).collect::<Result<_, _>>()? })
    }

    /// Loads a file of JSON Lines.
    ///
    /// # Errors
    /// The file could not be read, or a line is invalid.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let file_error = |source| ScriptError::File { path: path.display().to_string(), source };
        Self::parse(&std::fs::read_to_string(path).map_err(file_error)?)
    }
}

impl ScriptedReply {
    /// A reply of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// A reply that calls one tool.
    pub fn call(tool: impl Into<String>, arguments: Value) -> Self {
        Self::default().and_call(tool, arguments)
    }

    /// A reply that fails before it begins.
    pub fn error(kind: ErrorKind, message: impl Into<String>) -> Self {
        let error = ScriptedError { kind, message: message.into(), retry_after_ms: None };
        Self { error: Some(error), ..Self::default() }
    }

    /// Adds a tool call.
    #[must_use]
    pub fn and_call(mut self, tool: impl Into<String>, arguments: Value) -> Self {
        self.calls.push(ScriptedCall { tool: tool.into(), arguments, id: None });
        self
    }

    /// Returns the events of the reply, and its error. `number` is its position in the script, from 0.
    fn events(&self, number: usize) -> Vec<Result<StreamEvent, ProviderError>> {
        let mut events = Vec::new();
        let thinking = self.thinking.iter().map(|text| (PartKind::Thinking, text.clone()));
        let text = self.text.iter().map(|text| (PartKind::Text, text.clone()));
        let calls = self.calls.iter().enumerate().map(|(at, call)| call.split_part(number, at));
        for (index, (part, content)) in thinking.chain(text).chain(calls).enumerate() {
            events.push(StreamEvent::PartStart { index, part });
            let pieces =
                pieces(&content, self.chunk).map(|piece| StreamEvent::Delta { index, delta: piece.to_owned() });
            events.extend(pieces);
            events.push(StreamEvent::PartEnd { index, signature: None });
        }
        let is_empty = events.is_empty();
        if self.break_off {
            events.pop();
        }
        if !(is_empty && self.error.is_some()) {
            events.insert(0, StreamEvent::Start { model: None });
        }
        if self.ends() {
            events.extend(self.usage.map(StreamEvent::Usage));
            let stop_reason = if self.calls.is_empty() { StopReason::Stop } else { StopReason::ToolUse };
            events.push(StreamEvent::End { stop_reason: self.stop_reason.unwrap_or(stop_reason) });
        }
        events.into_iter().map(Ok).chain(self.error.iter().map(|error| Err(error.to_error()))).collect()
    }

    fn ends(&self) -> bool {
        !self.break_off && !self.hang && self.error.is_none()
    }
}

impl ScriptedCall {
    fn split_part(&self, number: usize, at: usize) -> (PartKind, String) {
        let id = self.id.clone().unwrap_or_else(|| format!("call_{}_{}", number + 1, at + 1));
        let arguments = match &self.arguments {
            Value::String(raw) => raw.clone(),
            other => other.to_string(),
        };
        (PartKind::ToolCall { id, name: self.tool.clone() }, arguments)
    }
}

impl ScriptedError {
    fn to_error(&self) -> ProviderError {
        self.kind.error(None, self.message.clone(), self.retry_after_ms.map(Duration::from_millis))
    }
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

/// Splits `text` into chunks of `chunk` characters, or into a single one when that is 0. Empty text yields nothing.
fn pieces(text: &str, chunk: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = match chunk {
            0 => rest.len(),
            chunk => rest.char_indices().nth(chunk).map_or(rest.len(), |(at, _)| at),
        };
        let (piece, more) = rest.split_at(end);
        rest = more;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A provider that plays a script, one reply per request. Clones share the script and the position in it.
#[derive(Debug, Clone)]
pub struct Replay {
    shared: Arc<Mutex<ScriptState>>,
}

#[derive(Debug)]
struct ScriptState {
    replies: VecDeque<ScriptedReply>,
    played: usize,
    /// `None` unless requests are recorded.
    requests: Option<Vec<Request>>,
}

impl Replay {
    /// Plays `script`.
    pub fn new(script: Script) -> Self {
        Self::start(script, None)
    }

    /// Plays `script` and records the requests for [`Self::requests`].
    pub fn recording(script: Script) -> Self {
        Self::start(script, Some(Vec::new()))
    }

    fn start(script: Script, requests: Option<Vec<Request>>) -> Self {
        let shared = ScriptState { replies: script.replies.into(), played: 0, requests };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// The requests so far, in order; empty unless created by [`Self::recording`].
    pub fn requests(&self) -> Vec<Request> {
        self.with(|shared| shared.requests.clone().unwrap_or_default())
    }

    /// The number of replies not played yet.
    pub fn remaining(&self) -> usize {
        self.with(|shared| shared.replies.len())
    }

    fn with<T>(&self, action: impl FnOnce(&mut ScriptState) -> T) -> T {
        action(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ScriptState {
    fn next(&mut self, request: Request) -> Result<(usize, ScriptedReply), ProviderError> {
        if let Some(requests) = &mut self.requests {
            requests.push(request);
        }
        let Some(reply) = self.replies.pop_front() else {
            let message = format!("the script is exhausted after {} replies", self.played);
            return Err(ProviderError::Api { status: None, message });
        };
        self.played += 1;
        Ok((self.played - 1, reply))
    }
}

impl Provider for Replay {
    fn name(&self) -> &str {
        "replay"
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        let (events, hang) = match self.with(|shared| shared.next(request)) {
            Ok((number, reply)) => (reply.events(number), reply.hang),
            Err(error) => (vec![Err(error)], false),
        };
        let silence = {
            let token = token.clone();
            async move {
                token.cancelled().await;
                Err(ProviderError::Cancelled)
            }
        };
        let silence = stream::iter(hang.then_some(silence)).then(|silence| silence);
        let events = stream::iter(events).chain(silence).map(move |event| match token.is_cancelled() {
            true => Err(ProviderError::Cancelled),
            false => event,
        });
        // An error is always the last item.
        events
            .scan(false, |failed, event| {
                let item = (!*failed).then(|| event.clone());
                *failed = event.is_err();
                std::future::ready(item)
            })
            .boxed()
    }
}
