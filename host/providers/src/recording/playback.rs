//! Playback of recordings instead of network access; [`format`](super::format) describes the file.
//!
//! Each request is answered with the first unused exchange whose request is equal, because concurrent agents may send
//! their requests in a different order than in the recording. When no request is equal, the error describes the
//! difference to the first unused one. Values of this run and of the recorded one are [placeholders] in both requests.
//!
//! [placeholders]: super::placeholders

use super::format::{
    End, RecordedFrame, RecordedHead, RecordedRequest, RecordedStep, RecordingHead, RecordingLine, VERSION,
};
use super::placeholders::{ReplacedValues, RunSurroundings, play_json, play_text};
use crate::decode::event_stream::encode;
use crate::transport::RawAnswer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use jiff::civil::Date;
use pinion_protocol::ProviderError;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The fields that differ between runs of the same session.
const VOLATILE: &[&str] = &["$.prompt_cache_key", "$.options.session_id"];

/// The number of characters shown around a difference.
const SHOWN: usize = 40;

/// A recording, which all providers built with it share.
#[derive(Debug)]
pub struct Playback {
    head: RecordingHead,
    recipient: Option<Recipient>,
    compared: ReplacedValues,
    /// Placeholders and their values in this run.
    played: Vec<(String, String)>,
    exchanges: Mutex<Vec<ExchangeSlot>>,
}

/// The recipient of a recorded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// The provider's name.
    pub provider: String,
    /// The model's name.
    pub model: String,
    /// The base URL, unless it was the usual one: requests to other servers differ.
    pub base_url: Option<String>,
}

impl Recipient {
    fn from_request(request: &RecordedRequest) -> Self {
        let RecordedRequest { provider, model, base_url, .. } = request.clone();
        Self { provider, model, base_url }
    }
}

/// An exchange and its number; `None` once used.
type ExchangeSlot = (u64, Option<Exchange>);

/// One exchange.
#[derive(Debug, Clone)]
struct Exchange {
    request: RecordedRequest,
    head: Option<RecordedHead>,
    packets: Vec<RecordedStep>,
    end: End,
}

/// A recording could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum PlaybackError {
    /// The file could not be read.
    #[error("could not read the recording `{path}`")]
    File {
        /// The path.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a recording, or has another version.
    #[error("not a recording of this version")]
    Version,
    /// A line is invalid.
    #[error("line {line} of the recording {reason}")]
    Line {
        /// The line number, from 1.
        line: usize,
        /// A description of the problem.
        reason: String,
    },
}

impl Playback {
    /// Loads a recording from a file.
    ///
    /// # Errors
    /// The file could not be read, or is not a recording.
    pub fn load(path: &Path) -> Result<Self, PlaybackError> {
        let failed = |source| PlaybackError::File { path: path.display().to_string(), source };
        Self::parse(&std::fs::read_to_string(path).map_err(failed)?)
    }

    /// Parses a recording. A truncated last line, as after a kill, is ignored.
    ///
    /// # Errors
    /// The text is not a recording.
    pub fn parse(text: &str) -> Result<Self, PlaybackError> {
        let mut lines = text.split_inclusive('\n').enumerate().filter(|(_, line)| !line.trim().is_empty());
        let head = lines.next().and_then(|(_, line)| serde_json::from_str::<RecordingHead>(line).ok());
        let head = head.filter(|head| head.pinion_recording == VERSION).ok_or(PlaybackError::Version)?;
        let mut exchanges: BTreeMap<u64, Exchange> = BTreeMap::new();
        for (at, line) in lines {
            let failed = |reason: String| PlaybackError::Line { line: at + 1, reason };
            let line: RecordingLine = match serde_json::from_str(line) {
                Ok(line) => line,
                Err(_) if !line.ends_with('\n') => break,
                Err(error) => return Err(failed(format!("is malformed: {error}"))),
            };
            add(&mut exchanges, line).map_err(failed)?;
        }
        let first = exchanges.values().next().map(|exchange| &exchange.request);
        Ok(Self {
            head,
            compared: ReplacedValues::default(),
            played: Vec::new(),
            recipient: first.map(Recipient::from_request),
            exchanges: Mutex::new(exchanges.into_iter().map(|(at, exchange)| (at, Some(exchange))).collect()),
        })
    }

    /// Plays the recording in a run with these values: requests may have them, and replies get them.
    #[must_use]
    pub fn in_surroundings(mut self, surroundings: &RunSurroundings) -> Self {
        self.compared = surroundings.to_compare(self.head.date, self.head.user.as_deref());
        self.played = surroundings.to_play();
        let exchanges = self.exchanges.get_mut().unwrap_or_else(PoisonError::into_inner);
        for exchange in exchanges.iter_mut().filter_map(|(_, slot)| slot.as_mut()) {
            self.compared.replace_in_request(&mut exchange.request.body);
        }
        self
    }

    /// Returns whether `text` begins like a recording, unlike the scripts of [`Replay`](crate::Replay).
    pub fn is_recording(text: &str) -> bool {
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        serde_json::from_str::<Value>(first).is_ok_and(|head| head.get("pinion_recording").is_some())
    }

    /// The local date of the recorded run.
    pub fn date(&self) -> Date {
        self.head.date
    }

    /// The recipient of the first request, if any.
    pub fn recipient(&self) -> Option<&Recipient> {
        self.recipient.as_ref()
    }

    /// The number of unused exchanges.
    pub fn remaining(&self) -> usize {
        let exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        exchanges.iter().filter(|(_, exchange)| exchange.is_some()).count()
    }

    /// Takes the exchange that answers `actual`.
    ///
    /// # Errors
    /// [`ProviderError::Api`], which describes the difference.
    pub(crate) fn claim(&self, mut actual: RecordedRequest) -> Result<Played, ProviderError> {
        let ids = self.compared.replace_in_request(&mut actual.body);
        let mut exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        let total = exchanges.len();
        let same = |(_, slot): &&mut ExchangeSlot| {
            slot.as_ref().is_some_and(|exchange| difference(&exchange.request, &actual).is_none())
        };
        if let Some((_, slot)) = exchanges.iter_mut().find(same)
            && let Some(exchange) = slot.take()
        {
            let values = self.played.iter().cloned().chain(ids.to_play()).collect();
            return Ok(Played { id_seed: exchange.request.id_seed.clone(), exchange, values });
        }
        let first = exchanges.iter().find_map(|(at, exchange)| Some((at, exchange.as_ref()?)));
        let message = match first {
            None => format!("the recording is exhausted after {total} exchanges"),
            Some((at, exchange)) => {
                let difference = difference(&exchange.request, &actual).unwrap_or_default();
                format!("the recording does not match: request {at} differs {difference}")
            }
        };
        Err(ProviderError::Api { status: None, message })
    }
}

/// An exchange to play back.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) id_seed: String,
    exchange: Exchange,
    /// Placeholders and their values in this run.
    values: Vec<(String, String)>,
}

impl Played {
    /// Returns the recorded response.
    ///
    /// # Errors
    /// The error recorded instead of a response.
    pub(crate) fn answer(self) -> Result<RawAnswer, ProviderError> {
        let Exchange { head, packets, end, .. } = self.exchange;
        let error = match end {
            End::Complete => None,
            End::Dropped => Some(ProviderError::Cancelled),
            End::Network(message) => Some(ProviderError::Network { message }),
        };
        let Some(head) = head else {
            return Err(error.unwrap_or(ProviderError::Cancelled));
        };
        let headers = head.headers.iter().filter_map(|(name, value)| {
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
        });
        let values = self.values;
        let packets = packets.into_iter().map(move |step| to_packet(step, &values).map_err(not_playable));
        let packets = stream::iter(packets.chain(error.map(Err)));
        Ok(RawAnswer { status: head.status, headers: HeaderMap::from_iter(headers), packets: packets.boxed() })
    }
}

fn add(exchanges: &mut BTreeMap<u64, Exchange>, line: RecordingLine) -> Result<(), String> {
    if let RecordedStep::Request(request) = line.step {
        let exchange = Exchange { request, head: None, packets: Vec::new(), end: End::Dropped };
        return match exchanges.insert(line.exchange, exchange) {
            None => Ok(()),
            Some(_) => Err(format!("restarts exchange {}", line.exchange)),
        };
    }
    let exchange = exchanges.get_mut(&line.exchange);
    let exchange = exchange.ok_or_else(|| format!("belongs to exchange {}, which has no request", line.exchange))?;
    match line.step {
        RecordedStep::Request(_) => {}
        RecordedStep::Response(head) => exchange.head = Some(head),
        step @ RecordedStep::Data(_) => exchange.packets.push(step),
        step @ (RecordedStep::Base64(_) | RecordedStep::Frame(_)) => {
            to_packet(step.clone(), &[])?;
            exchange.packets.push(step);
        }
        RecordedStep::End(end) => exchange.end = end,
    }
    Ok(())
}

/// Returns the bytes of a part of a reply, with values in place of placeholders.
fn to_packet(step: RecordedStep, values: &[(String, String)]) -> Result<Bytes, String> {
    match step {
        RecordedStep::Data(text) => Ok(Bytes::from(play_text(&text, values).into_owned())),
        RecordedStep::Base64(text) => {
            STANDARD.decode(text).map(Bytes::from).map_err(|error| format!("is not base64: {error}"))
        }
        RecordedStep::Frame(mut frame) => {
            play_json(&mut frame.payload, values);
            encode_frame(&frame)
        }
        RecordedStep::Request(_) | RecordedStep::Response(_) | RecordedStep::End(_) => Ok(Bytes::new()),
    }
}

fn not_playable(reason: String) -> ProviderError {
    ProviderError::Malformed { message: format!("a part of the recording {reason}") }
}

fn encode_frame(frame: &RecordedFrame) -> Result<Bytes, String> {
    let headers: Vec<(&str, &str)> = frame.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let payload = match &frame.payload {
        Value::String(text) => text.clone().into_bytes(),
        json => json.to_string().into_bytes(),
    };
    encode(&headers, &payload).map(Bytes::from).map_err(|error| format!("is not a frame: {error}"))
}

/// Describes the first difference between two requests; `None` when they are equal.
fn difference(recorded: &RecordedRequest, actual: &RecordedRequest) -> Option<String> {
    for (what, recorded, actual) in [
        ("provider", &recorded.provider, &actual.provider),
        ("model", &recorded.model, &actual.model),
        ("path", &recorded.path, &actual.path),
    ] {
        if recorded != actual {
            return Some(format!("in its {what}: recorded `{recorded}`, now `{actual}`"));
        }
    }
    json_difference("$", &recorded.body, &actual.body)
}

fn json_difference(path: &str, recorded: &Value, actual: &Value) -> Option<String> {
    if VOLATILE.contains(&path) {
        return None;
    }
    match (recorded, actual) {
        (Value::Object(recorded), Value::Object(actual)) => {
            let more = actual.keys().filter(|key| !recorded.contains_key(*key));
            let mut keys: Vec<&String> = recorded.keys().chain(more).collect();
            keys.sort_unstable();
            keys.into_iter().find_map(|key| {
                json_difference(
                    &format!("{path}.{key}"),
                    recorded.get(key).unwrap_or(&Value::Null),
                    actual.get(key).unwrap_or(&Value::Null),
                )
            })
        }
        (Value::Array(recorded), Value::Array(actual)) => {
            let pairs = recorded.iter().zip(actual).enumerate();
            let inner =
                pairs.map(|(at, (recorded, actual))| json_difference(&format!("{path}[{at}]"), recorded, actual));
            inner.flatten().next().or_else(|| {
                let (one, other) = (recorded.len(), actual.len());
                (one != other).then(|| format!("at `{path}`: recorded {one} items, now {other}"))
            })
        }
        (Value::String(recorded), Value::String(actual)) if matches_redacted(recorded, actual) => None,
        (recorded, actual) if recorded == actual => None,
        (recorded, actual) => {
            let (recorded, actual) = around(&text_of(recorded), &text_of(actual));
            Some(format!("at `{path}`: recorded `{recorded}`, now `{actual}`"))
        }
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Excerpts both texts from just before their first difference.
fn around(one: &str, other: &str) -> (String, String) {
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let start = same.saturating_sub(SHOWN / 4);
    let shown = |text: &str| {
        let lead = if start > 0 { "…" } else { "" };
        let piece: String = text.chars().skip(start).take(SHOWN).collect();
        let tail = if text.chars().count() > start + SHOWN { "…" } else { "" };
        let piece: String = piece.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("{lead}{piece}{tail}")
    };
    (shown(one), shown(other))
}

/// Replaces redacted text.
const MARK: &str = "[redacted]";

/// Returns whether `text` equals the recorded text, where redacted parts match anything.
fn matches_redacted(recorded: &str, text: &str) -> bool {
    let pieces: Vec<&str> = recorded.split(MARK).collect();
    let [first, between @ .., last] = &pieces[..] else { return recorded == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for piece in between {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacted_parts_match_anything() {
        assert!(matches_redacted("the key [redacted] is", "the key sk-1 is"));
        assert!(matches_redacted("a [redacted] b [redacted] c", "a 1 b 2 c") && matches_redacted("same", "same"));
        assert!(matches_redacted("[redacted]", "") && matches_redacted("a[redacted]", "a"));
        for (recorded, text) in
            [("a", "b"), ("a", "ab"), ("a [redacted] c", "a 1 d"), ("a [redacted] b [redacted]", "a c")]
        {
            assert!(!matches_redacted(recorded, text), "{recorded} {text}");
        }
    }
}
