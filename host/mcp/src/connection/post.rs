//! Posting a request over streamable HTTP, with an answer that is bounded and repaired before it is parsed.
//!
//! rmcp parses answers itself, and loses those with a half of a surrogate pair or with too many values. Its failures keep
//! their form here, so that the rest of the transport reads them.

use std::borrow::Cow;
use std::collections::HashMap;

use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::{Client, Response};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::SseStream;

use super::message::{Unreadable, event, parse};
use super::web::{SseResults, WebError};

const SESSION: &str = "mcp-session-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const ACCEPTED: &str = "text/event-stream, application/json";

/// A request on its way.
pub(super) struct Post<'a> {
    pub(super) uri: &'a str,
    pub(super) message: &'a ClientJsonRpcMessage,
    pub(super) session: Option<&'a str>,
    pub(super) token: Option<String>,
    pub(super) headers: HashMap<HeaderName, HeaderValue>,
    pub(super) limits: StreamableHttpResponseLimits,
}

impl Post<'_> {
    /// Sends the request and reads the answer, or its beginning if it is a stream of events.
    pub(super) async fn send(self, client: &Client) -> Result<StreamableHttpPostResponse, WebError> {
        let Self { uri, message, session, token, headers, limits } = self;
        let mut headers: HeaderMap = headers.into_iter().collect();
        headers.insert(header::ACCEPT, HeaderValue::from_static(ACCEPTED));
        if let Some(session) = session {
            let invalid =
                |_| WebError::UnexpectedServerResponse("the session has a name that no header can hold".into());
            headers.insert(SESSION, HeaderValue::from_str(session).map_err(invalid)?);
        }
        let mut request = client.post(uri).headers(headers);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.json(message).send().await?;
        let status = response.status();
        if let Some(error) = challenge(&response) {
            return Err(error);
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(WebError::SessionExpired);
        }
        let new_session = response.headers().get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let kind = response.headers().get(header::CONTENT_TYPE).map(|kind| String::from_utf8_lossy(kind.as_bytes()));
        let kind = kind.map(Cow::into_owned);
        let is = |expected: &str| {
            let kind = kind.as_deref().and_then(|kind| kind.split(';').next()).unwrap_or_default();
            kind.trim().eq_ignore_ascii_case(expected)
        };
        if !status.is_success() {
            return refused(response, is(JSON), new_session, limits).await;
        }
        if is(EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(events(response, limits.max_sse_event_size), new_session));
        }
        if !is(JSON) {
            return Err(WebError::UnexpectedContentType(kind));
        }
        let body = body(response, limits.max_json_response_size).await?;
        match parse(body.trim_ascii()) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, new_session)),
            Err(Unreadable::Broken(problem)) => Err(WebError::UnexpectedServerResponse(problem.into())),
            Err(Unreadable::Stray) => {
                Err(WebError::UnexpectedServerResponse("the answer to the request is no message of JSON-RPC".into()))
            }
        }
    }
}

/// Returns the failure of a response that asks for a login.
fn challenge(response: &Response) -> Option<WebError> {
    let status = response.status();
    let is_challenge = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let header = response.headers().get(header::WWW_AUTHENTICATE).filter(|_| is_challenge)?;
    let Ok(text) = header.to_str().map(str::to_owned) else {
        return Some(WebError::UnexpectedServerResponse("invalid www-authenticate header value".into()));
    };
    Some(match status {
        StatusCode::UNAUTHORIZED => WebError::AuthRequired(AuthRequiredError::new(text)),
        _ => WebError::InsufficientScope(InsufficientScopeError::new(text, None)),
    })
}

/// Reads a response that is not a success: its error in the form of JSON-RPC, or its status and the beginning of its
/// text.
async fn refused(
    response: Response,
    is_json: bool,
    session: Option<String>,
    limits: StreamableHttpResponseLimits,
) -> Result<StreamableHttpPostResponse, WebError> {
    let status = response.status();
    let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let failed = (status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error())
        .then(|| HttpStatusError::new(status.as_u16(), retry_after.map(str::to_owned)));
    let is_login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let may_explain = is_json && !is_login && status != StatusCode::TOO_MANY_REQUESTS;
    let text = match (may_explain, failed) {
        (false, Some(failed)) => return Err(failed.into()),
        (true, failed) => {
            let body = match (body(response, limits.max_json_response_size).await, failed) {
                (Ok(body), None) => body,
                (Ok(body), Some(failed)) => match explained(&body) {
                    Some(error) => return Ok(StreamableHttpPostResponse::Json(error, session)),
                    None => return Err(failed.into()),
                },
                (Err(_), Some(failed)) => return Err(failed.into()),
                (Err(error), None) => return Err(error),
            };
            if let Some(error) = explained(&body) {
                return Ok(StreamableHttpPostResponse::Json(error, session));
            }
            body
        }
        (false, None) => beginning(response, limits.max_error_response_size).await,
    };
    let text = &text[..text.len().min(limits.max_error_response_size)];
    Err(WebError::UnexpectedServerResponse(format!("HTTP {status}: {}", String::from_utf8_lossy(text)).into()))
}

fn explained(body: &[u8]) -> Option<ServerJsonRpcMessage> {
    parse(body.trim_ascii()).ok().filter(|message| matches!(message, JsonRpcMessage::Error(_)))
}

/// Reads a body of at most `max` bytes.
async fn body(response: Response, max: usize) -> Result<Vec<u8>, WebError> {
    let mut body = Vec::new();
    let mut packets = response.bytes_stream();
    while let Some(packet) = packets.next().await {
        let packet = packet?;
        if packet.len() > max - body.len() {
            return Err(WebError::ResponseBodyTooLarge { max_size: max });
        }
        body.extend_from_slice(&packet);
    }
    Ok(body)
}

/// Reads the beginning of a body that no request waits for.
async fn beginning(response: Response, max: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let mut packets = response.bytes_stream();
    while let Some(Ok(packet)) = packets.next().await
        && body.len() < max
    {
        body.extend_from_slice(&packet[..packet.len().min(max - body.len())]);
    }
    body
}

/// Returns the events of a response, each of at most `max` bytes.
fn events(response: Response, max: usize) -> SseResults {
    let mut size = EventSize::default();
    let packets = response.bytes_stream().map(move |packet| {
        let packet = packet.map_err(std::io::Error::other)?;
        match size.add(&packet) <= max {
            true => Ok(packet),
            false => Err(std::io::Error::other(format!("an event has more than {max} bytes"))),
        }
    });
    readable(SseStream::from_bytes_stream(packets).boxed())
}

/// Returns events whose messages are bounded and repaired.
pub(super) fn readable(events: SseResults) -> SseResults {
    events
        .map(|found| {
            found.map(|mut found| {
                found.data = found.data.map(event);
                found
            })
        })
        .boxed()
}

/// Counts the bytes of the event that is being read.
#[derive(Default)]
struct EventSize {
    bytes: usize,
    /// The last byte, other than a carriage return, was the end of a line.
    is_line_begin: bool,
}

impl EventSize {
    /// Returns the most bytes that an event has had within the packet.
    fn add(&mut self, packet: &[u8]) -> usize {
        let mut most = self.bytes;
        for byte in packet {
            match byte {
                b'\r' => {}
                b'\n' if self.is_line_begin => self.bytes = 0,
                b'\n' => self.is_line_begin = true,
                _ => {
                    self.is_line_begin = false;
                    self.bytes += 1;
                    most = most.max(self.bytes);
                }
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_of_an_event_begins_anew_after_an_empty_line() {
        let mut size = EventSize::default();
        assert_eq!(size.add(b"data: 12345\r\n\r\ndata: 1\n"), 11);
        assert_eq!(size.add(b"data: 2"), 14);
        assert_eq!(size.add(b"\n\n: x"), 14);
        assert_eq!(size.add(b""), 3);
    }
}
