//! Answers from a recording, instead of the network; [`recording`](crate::recording) describes the file.
//!
//! A request is answered with the first exchange not used yet that asked the same. Requests may come in another order than
//! they were recorded in, as those of several agents at once do. When none is the same, the first one left is what should
//! have been asked, and the error says where the two differ.

use super::format::{End, Head, Line, RecordedFrame, RecordedHead, RecordedRequest, Step, VERSION};
use super::redact::matches_redacted;
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

/// What differs between two runs of the same session, and means nothing.
const VOLATILE: &[&str] = &["$.prompt_cache_key", "$.options.session_id"];

/// How much of two texts is shown around the place where they differ, in characters.
const SHOWN: usize = 40;

/// The exchanges of a recording, for all providers that are built with it.
#[derive(Debug)]
pub struct Playback {
    date: Date,
    asked: Option<Asked>,
    exchanges: Mutex<Vec<Slot>>,
}

/// Who was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The provider's name.
    pub provider: String,
    /// The model's name.
    pub model: String,
    /// Where the provider was, when it was not at its usual place: other things are asked there.
    pub base_url: Option<String>,
}

impl Asked {
    fn of(request: &RecordedRequest) -> Self {
        let RecordedRequest { provider, model, base_url, .. } = request.clone();
        Self { provider, model, base_url }
    }
}

/// An exchange and its number; none when it was used.
type Slot = (u64, Option<Exchange>);

/// One exchange.
#[derive(Debug, Clone)]
struct Exchange {
    request: RecordedRequest,
    head: Option<RecordedHead>,
    packets: Vec<Bytes>,
    end: End,
}

/// A recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PlaybackError {
    /// The file cannot be read.
    #[error("could not read the recording `{path}`")]
    File {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is something else, or of a newer version.
    #[error("not a recording of this version")]
    Version,
    /// A line makes no sense.
    #[error("line {line} of the recording {reason}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

impl Playback {
    /// Reads a recording from a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no recording.
    pub fn load(path: &Path) -> Result<Self, PlaybackError> {
        let failed = |source| PlaybackError::File { path: path.display().to_string(), source };
        Self::parse(&std::fs::read_to_string(path).map_err(failed)?)
    }

    /// Reads a recording. A last line that was cut off, as by a kill, is left out.
    ///
    /// # Errors
    /// It is no recording.
    pub fn parse(text: &str) -> Result<Self, PlaybackError> {
        let mut lines = text.split_inclusive('\n').enumerate().filter(|(_, line)| !line.trim().is_empty());
        let head = lines.next().and_then(|(_, line)| serde_json::from_str::<Head>(line).ok());
        let head = head.filter(|head| head.pinion_recording == VERSION).ok_or(PlaybackError::Version)?;
        let mut exchanges: BTreeMap<u64, Exchange> = BTreeMap::new();
        for (at, line) in lines {
            let failed = |reason: String| PlaybackError::Line { line: at + 1, reason };
            let line: Line = match serde_json::from_str(line) {
                Ok(line) => line,
                Err(_) if !line.ends_with('\n') => break,
                Err(error) => return Err(failed(format!("makes no sense: {error}"))),
            };
            add(&mut exchanges, line).map_err(failed)?;
        }
        let first = exchanges.values().next().map(|exchange| &exchange.request);
        Ok(Self {
            date: head.date,
            asked: first.map(Asked::of),
            exchanges: Mutex::new(exchanges.into_iter().map(|(at, exchange)| (at, Some(exchange))).collect()),
        })
    }

    /// Does `text` begin as a recording does? The scripts of [`Replay`](crate::Replay) do not.
    pub fn is_recording(text: &str) -> bool {
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        serde_json::from_str::<Value>(first).is_ok_and(|head| head.get("pinion_recording").is_some())
    }

    /// The day of the run, where it was.
    pub fn date(&self) -> Date {
        self.date
    }

    /// Who was asked first; none when nobody was.
    pub fn asked(&self) -> Option<&Asked> {
        self.asked.as_ref()
    }

    /// How many exchanges were not used.
    pub fn remaining(&self) -> usize {
        let exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        exchanges.iter().filter(|(_, exchange)| exchange.is_some()).count()
    }

    /// The exchange that answers `asked`, and with it the beginning of the ids that were made up in it.
    ///
    /// # Errors
    /// [`ProviderError::Api`], which says where they differ.
    pub(crate) fn claim(&self, asked: &RecordedRequest) -> Result<Played, ProviderError> {
        let mut exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        let total = exchanges.len();
        let same = |(_, slot): &&mut Slot| {
            slot.as_ref().is_some_and(|exchange| difference(&exchange.request, asked).is_none())
        };
        if let Some((_, slot)) = exchanges.iter_mut().find(same)
            && let Some(exchange) = slot.take()
        {
            return Ok(Played { id_seed: exchange.request.id_seed.clone(), exchange });
        }
        let first = exchanges.iter().find_map(|(at, exchange)| Some((at, exchange.as_ref()?)));
        let message = match first {
            None => format!("the recording is used up: it holds {total} exchanges, and one more is asked for"),
            Some((at, exchange)) => {
                let difference = difference(&exchange.request, asked).unwrap_or_default();
                format!("the recording does not fit: request {at} differs {difference}")
            }
        };
        Err(ProviderError::Api { status: None, message })
    }
}

/// An exchange that is played back.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) id_seed: String,
    exchange: Exchange,
}

impl Played {
    /// What the server answered.
    ///
    /// # Errors
    /// What came instead of an answer.
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
        let packets = stream::iter(packets.into_iter().map(Ok).chain(error.map(Err)));
        Ok(RawAnswer { status: head.status, headers: HeaderMap::from_iter(headers), packets: packets.boxed() })
    }
}

fn add(exchanges: &mut BTreeMap<u64, Exchange>, line: Line) -> Result<(), String> {
    if let Step::Request(request) = line.step {
        let exchange = Exchange { request, head: None, packets: Vec::new(), end: End::Dropped };
        return match exchanges.insert(line.exchange, exchange) {
            None => Ok(()),
            Some(_) => Err(format!("begins exchange {} again", line.exchange)),
        };
    }
    let exchange = exchanges.get_mut(&line.exchange);
    let exchange = exchange.ok_or_else(|| format!("belongs to exchange {}, which did not begin", line.exchange))?;
    match line.step {
        Step::Request(_) => {}
        Step::Response(head) => exchange.head = Some(head),
        Step::Data(text) => exchange.packets.push(Bytes::from(text)),
        Step::Base64(text) => {
            let bytes = STANDARD.decode(text).map_err(|error| format!("is not base64: {error}"))?;
            exchange.packets.push(Bytes::from(bytes));
        }
        Step::Frame(frame) => exchange.packets.push(encode_frame(&frame)?),
        Step::End(end) => exchange.end = end,
    }
    Ok(())
}

fn encode_frame(frame: &RecordedFrame) -> Result<Bytes, String> {
    let headers: Vec<(&str, &str)> = frame.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let payload = match &frame.payload {
        Value::String(text) => text.clone().into_bytes(),
        json => json.to_string().into_bytes(),
    };
    encode(&headers, &payload).map(Bytes::from).map_err(|error| format!("is no frame: {error}"))
}

/// Where two requests differ, in words; none when they do not.
fn difference(recorded: &RecordedRequest, asked: &RecordedRequest) -> Option<String> {
    for (what, recorded, asked) in [
        ("provider", &recorded.provider, &asked.provider),
        ("model", &recorded.model, &asked.model),
        ("path", &recorded.path, &asked.path),
    ] {
        if recorded != asked {
            return Some(format!("in its {what}: recorded `{recorded}`, now `{asked}`"));
        }
    }
    json_difference("$", &recorded.body, &asked.body)
}

fn json_difference(path: &str, recorded: &Value, asked: &Value) -> Option<String> {
    if VOLATILE.contains(&path) {
        return None;
    }
    match (recorded, asked) {
        (Value::Object(recorded), Value::Object(asked)) => {
            let more = asked.keys().filter(|key| !recorded.contains_key(*key));
            let mut keys: Vec<&String> = recorded.keys().chain(more).collect();
            keys.sort_unstable();
            keys.into_iter().find_map(|key| {
                json_difference(
                    &format!("{path}.{key}"),
                    recorded.get(key).unwrap_or(&Value::Null),
                    asked.get(key).unwrap_or(&Value::Null),
                )
            })
        }
        (Value::Array(recorded), Value::Array(asked)) => {
            let pairs = recorded.iter().zip(asked).enumerate();
            let inner = pairs.map(|(at, (recorded, asked))| json_difference(&format!("{path}[{at}]"), recorded, asked));
            inner.flatten().next().or_else(|| {
                let (one, other) = (recorded.len(), asked.len());
                (one != other).then(|| format!("at `{path}`: recorded {one} items, now {other}"))
            })
        }
        (Value::String(recorded), Value::String(asked)) if matches_redacted(recorded, asked) => None,
        (recorded, asked) if recorded == asked => None,
        (recorded, asked) => {
            let (recorded, asked) = around(&text_of(recorded), &text_of(asked));
            Some(format!("at `{path}`: recorded `{recorded}`, now `{asked}`"))
        }
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Both texts, from a little before the place where they differ.
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
