//! The HTTP transport of protocol 2024-11-05: messages arrive as events of one response, and are posted to an address
//! that its first event names.

use std::collections::HashMap;

use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Client;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::HttpStatusError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use url::Url;

use super::fault::Fault;
use super::message::{Unreadable, parse};
use super::open::OpenError;
use super::web::WebError;
use crate::error::{causes, quoted, unreachable};
use crate::limits::MAX_MESSAGE;

/// Messages that are read ahead.
const READ_AHEAD: usize = 64;

/// The transport.
pub(crate) struct Sse {
    client: Client,
    headers: HeaderMap,
    address: Url,
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    reader: AbortHandle,
}

impl Sse {
    /// Opens the stream and waits for its first event.
    pub(crate) async fn open(
        client: Client,
        url: &Url,
        headers: HashMap<HeaderName, HeaderValue>,
        fault: Fault,
    ) -> Result<Self, OpenError> {
        let headers: HeaderMap = headers.into_iter().collect();
        let failed = |text: String| OpenError::Failed(format!("is not reachable: {text}"));
        let request = client.get(url.clone()).headers(headers.clone()).header("accept", "text/event-stream");
        let response = request.send().await.map_err(|error| failed(unreachable(&error)))?;
        if response.status() == reqwest::StatusCode::UNAUTHORIZED {
            let challenge = response.headers().get(http::header::WWW_AUTHENTICATE);
            return Err(OpenError::Login(challenge.and_then(|value| value.to_str().ok()).map(str::to_owned)));
        }
        let kind = response.headers().get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !response.status().is_success() || !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Err(failed(format!("HTTP {}", response.status().as_u16())));
        }
        let (sender, incoming) = mpsc::channel(READ_AHEAD);
        let (first, address) = oneshot::channel();
        let reader = tokio::spawn(read(response, first, sender, fault)).abort_handle();
        let mut sse = Self { client, headers, address: url.clone(), incoming, reader };
        let endpoint = address.await.map_err(|_| failed("it named no address for messages".to_owned()))?;
        let endpoint = url.join(&endpoint).map_err(|error| failed(causes(&error)))?;
        // Another origin would get the user's headers and messages.
        if endpoint.origin() != url.origin() {
            return Err(failed(format!("it names an address of another origin: {}", quoted(endpoint.as_str()))));
        }
        sse.address = endpoint;
        Ok(sse)
    }
}

impl Drop for Sse {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Transport<RoleClient> for Sse {
    type Error = WebError;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), WebError>> + Send + 'static {
        let request = self.client.post(self.address.clone()).headers(self.headers.clone()).json(&message);
        async move {
            let response = request.send().await.map_err(|error| WebError::Client(error.without_url()))?;
            match response.status() {
                status if status.is_success() => Ok(()),
                status => Err(HttpStatusError::new(status.as_u16(), None).into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), WebError> {
        self.reader.abort();
        Ok(())
    }
}

async fn read(
    response: reqwest::Response,
    first: oneshot::Sender<String>,
    sender: mpsc::Sender<ServerJsonRpcMessage>,
    fault: Fault,
) {
    let mut first = Some(first);
    let mut events = SseEventSplitter::default();
    let mut packets = response.bytes_stream();
    while let Some(packet) = packets.next().await {
        let packet = match packet {
            Ok(packet) => packet,
            Err(error) => return fault.set(format!("broke off its events: {}", causes(&error.without_url()))),
        };
        let Some(ready) = events.feed(&packet) else {
            return fault.set(format!("sent an event of more than {MAX_MESSAGE} bytes"));
        };
        for event in ready {
            if event.kind == "endpoint" {
                if let Some(first) = first.take() {
                    let _ = first.send(event.data);
                }
                continue;
            }
            match parse(event.data.trim().as_bytes()) {
                Ok(message) => {
                    if sender.send(message).await.is_err() {
                        return;
                    }
                }
                Err(Unreadable::Broken(problem)) => return fault.set(problem),
                Err(Unreadable::Stray) => tracing::debug!("an event is no message"),
            }
        }
    }
}

#[derive(Debug, Default, PartialEq)]
struct SseEvent {
    kind: String,
    data: String,
}

/// Splits bytes into events.
#[derive(Default)]
struct SseEventSplitter {
    line: Vec<u8>,
    event: SseEvent,
}

impl SseEventSplitter {
    /// Returns the events that a packet completes; `None` if one is too large.
    fn feed(&mut self, packet: &[u8]) -> Option<Vec<SseEvent>> {
        let mut ready = Vec::new();
        for part in packet.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + part.len() + self.event.data.len() > MAX_MESSAGE {
                return None;
            }
            self.line.extend_from_slice(part);
            if !part.ends_with(b"\n") {
                break;
            }
            let line = String::from_utf8_lossy(self.line.trim_ascii_end()).into_owned();
            self.line.clear();
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" if line.is_empty() => {
                    let event = std::mem::take(&mut self.event);
                    if !event.data.is_empty() {
                        ready.push(event);
                    }
                }
                "event" => value.clone_into(&mut self.event.kind),
                "data" => {
                    if !self.event.data.is_empty() {
                        self.event.data.push('\n');
                    }
                    self.event.data.push_str(value);
                }
                _ => {}
            }
        }
        Some(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_split_across_packets() {
        let mut events = SseEventSplitter::default();
        assert_eq!(events.feed(b"event: endpoint\r\nda"), Some(vec![]));
        let first = SseEvent { kind: "endpoint".into(), data: "/messages?id=1".into() };
        assert_eq!(events.feed(b"ta: /messages?id=1\r\n\r\n: comment\n\n"), Some(vec![first]));
        let second = SseEvent { kind: String::new(), data: "{\"a\":\n1}".into() };
        assert_eq!(events.feed(b"data: {\"a\":\ndata: 1}\nid: 3\n\n"), Some(vec![second]));
    }

    #[test]
    fn giant_events_are_refused() {
        let mut events = SseEventSplitter::default();
        let packet = vec![b'x'; 1 << 20];
        assert!((0..17).any(|_| events.feed(&packet).is_none()));
    }
}
