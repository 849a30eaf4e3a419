//! Records exchanges as they happen; [`format`](super::format) describes the file.

use super::format::{
    End, RecordedFrame, RecordedHead, RecordedRequest, RecordedStep, RecordingHead, RecordingLine, VERSION,
};
use super::placeholders::{ReplacedValues, RunSurroundings};
use super::reply_text::ReplyText;
use crate::decode::event_stream::{Frame, FrameReader};
use crate::transport::RawAnswer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use pinion_protocol::ProviderError;
use pinion_redact::Secrets;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Records the exchanges of all providers that were built with it in one file.
///
/// Each step is written as it happens, so that a killed run leaves everything before; the end of a reply that may be
/// the beginning of a value or a secret waits for its continuation. Recording blocks for one small write to a file at a
/// time. A failed write does not disturb the run; [`Self::finish`] reports it.
pub struct Recorder {
    state: Mutex<RecorderState>,
    values: ReplacedValues,
}

struct RecorderState {
    out: Box<dyn Write + Send>,
    exchanges: u64,
    error: Option<io::Error>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

impl Recorder {
    /// Creates the file, readable only by its owner because it contains the conversation. An existing file is removed
    /// first, so that processes that have it open do not see the recording.
    ///
    /// # Errors
    /// The file could not be created, or the path is not a regular file; links are not followed.
    pub fn create(path: &Path, surroundings: &RunSurroundings) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.is_file() => std::fs::remove_file(path)?,
            Ok(found) if found.is_symlink() => return Err(io::Error::other("the path is a link")),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self::new(options.open(path)?, surroundings))
    }

    /// Records to `out`, with placeholders for the values of the run.
    pub fn new(out: impl Write + Send + 'static, surroundings: &RunSurroundings) -> Self {
        let state = Mutex::new(RecorderState { out: Box::new(out), exchanges: 0, error: None });
        let recorder = Self { state, values: surroundings.to_record() };
        let (date, user) = (surroundings.date(), surroundings.noted_user().map(str::to_owned));
        recorder.write(&RecordingHead { pinion_recording: VERSION, date, user });
        recorder
    }

    /// Flushes the recording.
    ///
    /// # Errors
    /// A write failed, now or earlier; nothing was written after it.
    pub fn finish(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.error.take() {
            Some(error) => Err(error),
            None => state.out.flush(),
        }
    }

    /// Starts an exchange. `secrets` contains the secrets of its request.
    pub(crate) fn begin(self: &Arc<Self>, mut request: RecordedRequest, headers: &HeaderMap, secrets: Secrets) -> Tape {
        let exchange = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.exchanges += 1;
            state.exchanges
        };
        request.body = secrets.clean_answer_json(request.body);
        let ids = self.values.replace_in_request(&mut request.body);
        let tape = Tape {
            recorder: self.clone(),
            exchange,
            reply: ReplyText::new(self.values.clone().with_ids(&ids), secrets.clone()),
            secrets,
            content: RecordedContent::Lines(Vec::new()),
            is_over: false,
        };
        let headers = readable(headers);
        tape.write(RecordedStep::Request(RecordedRequest { headers, ..request }));
        tape
    }

    fn write(&self, line: &impl Serialize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.error.is_some() {
            return;
        }
        let written = serde_json::to_vec(line).map_err(io::Error::other).and_then(|mut bytes| {
            bytes.push(b'\n');
            state.out.write_all(&bytes)?;
            state.out.flush()
        });
        state.error = written.err();
    }
}

/// The recording of one exchange.
pub(crate) struct Tape {
    recorder: Arc<Recorder>,
    exchange: u64,
    secrets: Secrets,
    reply: ReplyText,
    content: RecordedContent,
    is_over: bool,
}

/// The form of a recorded response.
enum RecordedContent {
    /// Text by lines. The incomplete last line is held back, so that no key is split.
    Lines(Vec<u8>),
    Frames(FrameReader),
}

impl Tape {
    /// Records the outcome of the request and follows the packets of its response.
    pub(crate) fn follow(mut self, answer: Result<RawAnswer, ProviderError>) -> Result<RawAnswer, ProviderError> {
        match answer {
            Err(error) => {
                self.end(broken(&error));
                Err(error)
            }
            Ok(answer) => {
                self.head(&answer);
                let packets = stream::unfold((answer.packets, Some(self)), |(mut packets, tape)| async move {
                    let mut tape = tape?;
                    let packet = packets.next().await;
                    let tape = match &packet {
                        Some(Ok(bytes)) => {
                            tape.data(bytes);
                            Some(tape)
                        }
                        Some(Err(error)) => {
                            tape.end(broken(error));
                            None
                        }
                        None => {
                            tape.end(End::Complete);
                            None
                        }
                    };
                    Some((packet?, (packets, tape)))
                });
                Ok(RawAnswer { packets: packets.boxed(), ..answer })
            }
        }
    }

    fn head(&mut self, answer: &RawAnswer) {
        let kind = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if kind.starts_with("application/vnd.amazon.eventstream") {
            self.content = RecordedContent::Frames(FrameReader::default());
        }
        self.write(RecordedStep::Response(RecordedHead { status: answer.status, headers: readable(&answer.headers) }));
    }

    fn data(&mut self, packet: &Bytes) {
        let steps = match &mut self.content {
            RecordedContent::Lines(pending) => {
                // The pending bytes contain no line end.
                let complete = memchr::memrchr(b'\n', packet).map_or(0, |at| pending.len() + at + 1);
                pending.extend_from_slice(packet);
                let lines: Vec<u8> = pending.drain(..complete).collect();
                text_step(lines, &self.secrets).into_iter().collect::<Vec<_>>()
            }
            RecordedContent::Frames(reader) => {
                let mut steps = Vec::new();
                // The decoder reports malformed frames.
                let _ = reader.feed(packet, |frame| {
                    steps.push(frame_step(&frame));
                    Ok(())
                });
                steps
            }
        };
        let steps: Vec<_> = steps.into_iter().flat_map(|step| self.reply.push(step)).collect();
        steps.into_iter().for_each(|step| self.write(step));
    }

    fn end(&mut self, end: End) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if let RecordedContent::Lines(pending) = &mut self.content
            && let Some(step) = text_step(std::mem::take(pending), &self.secrets)
        {
            let steps = self.reply.push(step);
            steps.into_iter().for_each(|step| self.write(step));
        }
        self.reply.finish().into_iter().for_each(|step| self.write(step));
        self.write(RecordedStep::End(end));
    }

    /// Writes a step without its secrets. Every step passes through here.
    fn write(&self, step: RecordedStep) {
        let step = match step {
            RecordedStep::Request(request) => RecordedStep::Request(RecordedRequest {
                base_url: request.base_url.map(|url| self.secrets.clean_answer(&url).into_owned()),
                headers: self.clean_headers(request.headers),
                body: self.secrets.clean_answer_json(request.body),
                ..request
            }),
            RecordedStep::Response(head) => {
                RecordedStep::Response(RecordedHead { headers: self.clean_headers(head.headers), ..head })
            }
            RecordedStep::Data(text) => RecordedStep::Data(self.secrets.clean_answer(&text).into_owned()),
            RecordedStep::Frame(frame) => RecordedStep::Frame(RecordedFrame {
                headers: self.clean_headers(frame.headers),
                payload: self.secrets.clean_answer_json(frame.payload),
            }),
            RecordedStep::End(End::Network(message)) => {
                RecordedStep::End(End::Network(self.secrets.clean_answer(&message).into_owned()))
            }
            RecordedStep::End(end) => RecordedStep::End(end),
            RecordedStep::Base64(text) => RecordedStep::Base64(text),
        };
        self.recorder.write(&RecordingLine { exchange: self.exchange, step });
    }

    fn clean_headers(&self, headers: BTreeMap<String, String>) -> BTreeMap<String, String> {
        headers.into_iter().map(|(name, value)| (name, self.secrets.clean_answer(&value).into_owned())).collect()
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.end(End::Dropped);
    }
}

fn text_step(bytes: Vec<u8>, secrets: &Secrets) -> Option<RecordedStep> {
    match String::from_utf8(bytes) {
        Ok(text) if text.is_empty() => None,
        Ok(text) => Some(RecordedStep::Data(text)),
        // Base64 would hide a secret from a search for it.
        Err(error) if secrets.are_in(error.as_bytes()) => {
            Some(RecordedStep::Data(String::from_utf8_lossy(error.as_bytes()).into_owned()))
        }
        Err(error) => Some(RecordedStep::Base64(STANDARD.encode(error.as_bytes()))),
    }
}

fn frame_step(frame: &Frame<'_>) -> RecordedStep {
    let payload = serde_json::from_slice(frame.payload);
    let payload = payload.unwrap_or_else(|_| Value::String(String::from_utf8_lossy(frame.payload).into_owned()));
    let headers = frame.headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    RecordedStep::Frame(RecordedFrame { headers: headers.collect(), payload })
}

fn broken(error: &ProviderError) -> End {
    match error {
        ProviderError::Network { message } | ProviderError::Unreachable { message } => End::Network(message.clone()),
        other => End::Network(other.to_string()),
    }
}

/// Returns the headers to record. Cookies are omitted because they are as good as keys.
fn readable(headers: &HeaderMap) -> BTreeMap<String, String> {
    let shown = headers.iter().filter(|(name, value)| !value.is_sensitive() && *name != "set-cookie");
    shown.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned()))).collect()
}
