//! AWS' event streams: messages with headers, a payload and two checksums each.
//!
//! The framing is `aws-smithy-eventstream`'s; this file cuts the packets into whole messages, in bounded memory and
//! linear time, and reads the headers that are text.
//! Format: <https://smithy.io/2.0/aws/amazon-eventstream.html>

use super::sse::MAX_EVENT_BYTES;
use aws_smithy_eventstream::frame::{read_message_from, write_message_to};
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use pinion_protocol::ProviderError;

/// What a message has at least: its length, that of its headers, and two checksums.
const MIN_MESSAGE: usize = 16;

/// One message.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    /// Those that are text, by name.
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// A header's value; empty when it is not there.
    pub(crate) fn header(&self, name: &str) -> &'a str {
        self.headers.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value)
    }
}

/// Cuts a byte stream into messages.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    /// The beginning of a message whose end has not come yet.
    pending: Vec<u8>,
}

impl FrameReader {
    /// Takes more bytes and hands each message that they complete to `sink`, in order.
    ///
    /// # Errors
    /// [`ProviderError::Malformed`] when a message is larger than [`MAX_EVENT_BYTES`], or its checksums do not fit;
    /// whatever `sink` returns, at once.
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
                // Room for all of it at once: growing as packets come would copy it again and again.
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
            let mut whole = std::mem::take(&mut self.pending);
            whole.extend_from_slice(rest);
            let result = message(&whole, &mut sink);
            whole.clear();
            self.pending = whole;
            result?;
        }
        Ok(())
    }

    /// Whether a message was begun and not ended.
    pub(crate) fn is_in_message(&self) -> bool {
        !self.pending.is_empty()
    }
}

/// The length of the message that begins with these bytes; none when it has not come yet.
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
    let message = read_message_from(bytes).map_err(|error| malformed(&error.to_string()))?;
    let headers = message.headers().iter().filter_map(text_header).collect();
    sink(Frame { headers, payload: message.payload() })
}

fn text_header(header: &Header) -> Option<(&str, &str)> {
    match header.value() {
        HeaderValue::String(value) => Some((header.name().as_str(), value.as_str())),
        _ => None,
    }
}

/// One message as bytes.
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
