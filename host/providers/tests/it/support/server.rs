//! A local server that plays given steps and records the requests.

use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// A step of the response to a request.
#[derive(Clone)]
pub(crate) enum Step {
    /// Sends these bytes as they are.
    Send(Vec<u8>),
    /// Keeps the connection open without sending more.
    Hang,
    /// Closes the connection.
    Cut,
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// The number of the connection, from 0.
    pub(crate) connection: usize,
}

pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Notifies of each received request.
    requests: mpsc::Receiver<()>,
    task: AbortHandle,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts a server that answers every request with `steps`.
    pub(crate) async fn start(steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (notify, requests) = mpsc::channel(64);
        let task = tokio::spawn(serve(listener, steps, seen.clone(), notify)).abort_handle();
        Self { url, seen, requests, task }
    }

    /// Starts a server that answers with status 200, these headers and this body.
    pub(crate) async fn answering(headers: &str, body: &[u8]) -> Self {
        Self::start(vec![Step::Send(answer("200 OK", headers, body))]).await
    }

    /// Waits for a request.
    pub(crate) async fn asked(&mut self) {
        self.requests.recv().await.unwrap();
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// A response with a content length.
pub(crate) fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len()).into_bytes();
    out.extend_from_slice(body);
    out
}

/// The head of a chunked response.
pub(crate) fn chunked_head() -> Vec<u8> {
    chunked_head_of("text/event-stream")
}

/// The head of a chunked response of another content type.
pub(crate) fn chunked_head_of(kind: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n").into_bytes()
}

/// One chunk.
pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    out
}

async fn serve(listener: TcpListener, steps: Vec<Step>, seen: Arc<Mutex<Vec<Seen>>>, notify: mpsc::Sender<()>) {
    let mut connections = tokio::task::JoinSet::new();
    for connection in 0.. {
        let Ok((stream, _)) = listener.accept().await else { return };
        connections.spawn(converse(stream, steps.clone(), seen.clone(), notify.clone(), connection));
    }
}

async fn converse(
    mut stream: TcpStream,
    steps: Vec<Step>,
    seen: Arc<Mutex<Vec<Seen>>>,
    notify: mpsc::Sender<()>,
    connection: usize,
) {
    while let Some((head, body)) = read_request(&mut stream).await {
        seen.lock().unwrap().push(Seen { head, body, connection });
        let _ = notify.send(()).await;
        for step in &steps {
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(bytes).await.is_err() {
                        return;
                    }
                }
                Step::Hang => std::future::pending().await,
                Step::Cut => return,
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    // A request through a proxy has no body.
    let length: usize = match head.to_lowercase().split_once("content-length: ") {
        Some((_, rest)) => rest.lines().next()?.trim().parse().ok()?,
        None => 0,
    };
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some((head, bytes[head_end..].to_vec()))
}
