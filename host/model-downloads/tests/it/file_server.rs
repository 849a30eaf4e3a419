//! A server on this machine that sends scripted responses.

use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A server that answers each connection with the next response, and then closes it.
pub(crate) struct FileServer {
    /// The address of the file.
    pub(crate) url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl FileServer {
    pub(crate) async fn answering(responses: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/tiny.gguf", listener.local_addr().unwrap());
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let received = heads.clone();
        tokio::spawn(async move {
            for response in responses {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                received.lock().unwrap().push(String::from_utf8(head).unwrap().to_lowercase());
                // The client may have seen enough.
                let _ = stream.write_all(&response).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { url, heads }
    }

    /// Returns the field `range` of each request.
    pub(crate) fn ranges(&self) -> Vec<Option<String>> {
        let range = |head: &String| head.lines().find_map(|line| line.strip_prefix("range: ")).map(str::to_owned);
        self.heads.lock().unwrap().iter().map(range).collect()
    }
}

/// Returns a response with a status line, header fields and a body.
pub(crate) fn response(status: &str, fields: &[String], body: &[u8]) -> Vec<u8> {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    [format!("HTTP/1.1 {status}\r\nconnection: close\r\n{fields}\r\n").as_bytes(), body].concat()
}
