//! AWS event streams: messages with headers, a payload and two checksums each.
//!
//! `aws-smithy-eventstream` decodes the messages; this file cuts packets into messages, in bounded memory and linear
//! time, and extracts the text headers. Format: <https://smithy.io/2.0/aws/amazon-eventstream.html>

use super::sse::MAX_EVENT_BYTES;
use aws_smithy_eventstream::frame::{read_message_from, write_message_to};
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use pinion_protocol::ProviderError;

/// The size of an empty message: its length, the length of its headers, and two checksums.
const MIN_MESSAGE: usize = 16;

/// A decoded message.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    /// The headers with text values, by name.
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Returns the value of a header, or an empty string.
    pub(crate) fn header(&self, name: &str) -> &'a str {
        self.headers.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value)
    }
}

/// Cuts a byte stream into messages.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    /// The start of an incomplete message.
    pending: Vec<u8>,
}

impl FrameReader {
    /// Consumes more bytes and passes each message that they complete to `sink`, in order.
    ///
    /// # Errors
    /// [`ProviderError::Malformed`] when a message is larger than [`MAX_EVENT_BYTES`]; [`ProviderError::Network`] when one
    /// was damaged on the way; any error of `sink`, immediately.
    pub(crate) fn feed<F>(&mut self, mut bytes: &[u8], mut sink: F) -> Result<(), ProviderError>
    where
        F: FnMut(Frame<'_>) -> Result<(), ProviderError>,
    {
        while !self.pending.is_empty() || !bytes.is_empty() {
            let buffered = self.pending.len();
            let Some(length) = length(&self.pending, bytes)? else {
                self.pending.extend_from_slice(bytes);
                return Ok(());
            };
            if buffered + bytes.len() < length {
                // Reserve the full length now: growing with each packet would copy the message repeatedly.
                self.pending.reserve(length - buffered);
                self.pending.extend_from_slice(bytes);
                return Ok(());
            }
            let (rest, more) = bytes.split_at(length - buffered.min(length));
            bytes = more;
            if buffered == 0 {
                message(rest, &mut sink)?;
                continue;
            }
            let mut complete = std::mem::take(&mut self.pending);
            complete.extend_from_slice(rest);
            let result = message(&complete, &mut sink);
            complete.clear();
            self.pending = complete;
            result?;
        }
        Ok(())
    }

    /// Returns whether the last message is incomplete.
    pub(crate) fn is_in_message(&self) -> bool {
        !self.pending.is_empty()
    }
}

/// Reads the length of the message that starts with these bytes; `None` while it is incomplete.
fn length(pending: &[u8], bytes: &[u8]) -> Result<Option<usize>, ProviderError> {
    let mut start = pending.iter().chain(bytes).copied();
    let prefix: [Option<u8>; 4] = std::array::from_fn(|_| start.next());
    let [Some(a), Some(b), Some(c), Some(d)] = prefix else { return Ok(None) };
    match u32::from_be_bytes([a, b, c, d]) as usize {
        length if length > MAX_EVENT_BYTES => Err(malformed("a message is larger than 16 MiB")),
        length if length < MIN_MESSAGE => Err(malformed("a message is shorter than its own frame")),
        length => Ok(Some(length)),
    }
}

fn message<F>(bytes: &[u8], sink: &mut F) -> Result<(), ProviderError>
where
    F: FnMut(Frame<'_>) -> Result<(), ProviderError>,
{
    let message = read_message_from(bytes).map_err(|error| ProviderError::Network {
        message: format!("a damaged message in the event stream: {error}"),
    })?;
    let headers = message.headers().iter().filter_map(text_header).collect();
    sink(Frame { headers, payload: message.payload() })
}

fn text_header(header: &Header) -> Option<(&str, &str)> {
    match header.value() {
        HeaderValue::String(value) => Some((header.name().as_str(), value.as_str())),
        _ => None,
    }
}

/// Encodes one message.
///
/// # Errors
/// A header is too long.
pub(crate) fn encode(headers: &[(&str, &str)], payload: &[u8]) -> Result<Vec<u8>, ProviderError> {
    let message = headers.iter().fold(Message::new(payload.to_vec()), |message, (name, value)| {
        message.add_header(Header::new((*name).to_owned(), HeaderValue::String((*value).to_owned().into())))
    });
    let mut bytes = Vec::new();
    write_message_to(&message, &mut bytes).map_err(|error| malformed(&error.to_string()))?;
    Ok(bytes)
}

fn malformed(reason: &str) -> ProviderError {
    ProviderError::Malformed { message: format!("{reason}, in the event stream") }
}
