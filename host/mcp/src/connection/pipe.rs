//! Messages over the pipes of a stdio server, one JSON text per line.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, ready};
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fault::Fault;
use super::message::{Unreadable, parse};
use crate::error::quoted;
use crate::limits::{MAX_MESSAGE, MAX_STRAY_LINES};

type ServerWriter = Arc<Mutex<Option<Box<dyn AsyncWrite + Send + Unpin>>>>;

/// The transport over two pipes.
pub(crate) struct Pipe {
    /// `None` once the output has ended, broke the protocol, or is not read any more.
    reader: Option<ServerOutput>,
    writer: ServerWriter,
    /// A `server/discover` request that is not answered, and when it counts as not understood.
    discovery: Option<(RequestId, Instant)>,
    discovery_wait: Duration,
    fault: Fault,
    /// The discovery that was given up, whose late answer is dropped.
    given_up: Option<RequestId>,
}

impl Pipe {
    /// Uses two pipes. A message that breaks the protocol ends the connection and becomes its fault.
    pub(crate) fn new(
        stdin: Box<dyn AsyncWrite + Send + Unpin>,
        stdout: Box<dyn AsyncRead + Send + Unpin>,
        fault: Fault,
        discovery_wait: Duration,
    ) -> Self {
        let reader = ServerOutput { reader: BufReader::with_capacity(64 << 10, stdout), line: Vec::new(), stray: 0 };
        let writer = Arc::new(Mutex::new(Some(stdin)));
        Self { reader: Some(reader), writer, discovery: None, discovery_wait, fault, given_up: None }
    }

    /// Reads the next message; `None` at the end. A caller that stops waiting loses nothing.
    async fn next(&mut self) -> Option<ServerJsonRpcMessage> {
        let fault = match self.reader.as_mut()?.next().await {
            Ok(Some(message)) => return Some(message),
            Ok(None) => None,
            Err(fault) => Some(fault),
        };
        self.reader = None;
        fault.into_iter().for_each(|fault| self.fault.set(fault));
        None
    }
}

impl Transport<RoleClient> for Pipe {
    type Error = io::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            self.discovery = Some((request.id.clone(), Instant::now() + self.discovery_wait));
        }
        let writer = self.writer.clone();
        let mut writing = Box::pin(async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut writer = writer.lock().await;
            let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            writer.write_all(&line).await?;
            writer.flush().await
        });
        // The caller hands the future to a separate task. Most pipes have room, so that the server need not wait for
        // that.
        match (&mut writing).now_or_never() {
            Some(written) => Either::Left(ready(written)),
            None => Either::Right(writing),
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = match self.discovery.clone() {
                None => self.next().await,
                Some((id, deadline)) => tokio::select! {
                    message = self.next() => message,
                    () = tokio::time::sleep_until(deadline) => {
                        self.discovery = None;
                        self.given_up = Some(id.clone());
                        self.fault.set_deaf();
                        let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer to server/discover", None);
                        return Some(JsonRpcMessage::error(error, Some(id)));
                    }
                },
            };
            let id = match &message {
                Some(JsonRpcMessage::Response(response)) => Some(&response.id),
                Some(JsonRpcMessage::Error(error)) => error.id.as_ref(),
                _ => None,
            };
            if let Some(id) = id {
                if self.given_up.as_ref().is_some_and(|given_up| answers(given_up, id)) {
                    continue;
                }
                self.discovery.take_if(|(expected, _)| answers(expected, id));
            }
            return message;
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.reader = None;
        // A server ends when its input does. A write that hangs holds the lock; it is dropped with its task.
        if let Ok(mut writer) = self.writer.try_lock() {
            *writer = None;
        }
        Ok(())
    }
}

/// Returns whether a reply with the id `received` answers the request `sent`. Some servers send numbers as strings.
pub(super) fn answers(sent: &RequestId, received: &RequestId) -> bool {
    match (sent, received) {
        (RequestId::Number(sent), RequestId::String(received)) => sent.to_string() == **received,
        _ => sent == received,
    }
}

/// The output of a server.
struct ServerOutput {
    reader: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    /// The line that is not complete.
    line: Vec<u8>,
    /// Lines so far that were no messages.
    stray: usize,
}

impl ServerOutput {
    /// Reads the next message; `None` at the end. A caller that stops waiting loses nothing.
    ///
    /// # Errors
    /// The output breaks off or breaks the protocol; with the fault of the server.
    async fn next(&mut self) -> Result<Option<ServerJsonRpcMessage>, String> {
        loop {
            match self.read_line().await {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => return Err(format!("broke off its output: {error}")),
            }
            let message = self.message();
            self.line.clear();
            if let Some(message) = message? {
                return Ok(Some(message));
            }
        }
    }

    /// Reads a line of at most [`MAX_MESSAGE`] bytes. Returns false at the end.
    async fn read_line(&mut self) -> io::Result<bool> {
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                return Ok(false);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            if self.line.len() + taken > MAX_MESSAGE {
                return Err(io::Error::other(format!("a message has more than {MAX_MESSAGE} bytes")));
            }
            self.line.extend_from_slice(&available[..taken]);
            self.reader.consume(taken);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// Parses the line; `None` if it is not a message.
    fn message(&mut self) -> Result<Option<ServerJsonRpcMessage>, String> {
        let text = self.line.trim_ascii();
        if text.is_empty() {
            return Ok(None);
        }
        match parse(text) {
            Ok(message) => Ok(Some(message)),
            Err(Unreadable::Broken(problem)) => Err(problem),
            Err(Unreadable::Stray) => {
                self.stray += 1;
                if self.stray == 1 {
                    let text = quoted(&String::from_utf8_lossy(text));
                    tracing::debug!("a line on standard output is no message: {text}");
                }
                match self.stray > MAX_STRAY_LINES {
                    true => Err(format!("wrote more than {MAX_STRAY_LINES} lines that are no messages")),
                    false => Ok(None),
                }
            }
        }
    }
}
