//! HTTP servers on ports that the system chooses.

use crate::answering::{Answer, Received, Requests, serve};
use crate::certificates::acceptor;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A server on this machine. It ends when it is dropped.
pub struct HttpServer {
    address: SocketAddr,
    requests: Requests,
    connections: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl HttpServer {
    /// Starts a server that answers each request with a function and keeps the request.
    pub async fn start(handler: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        let (handler, requests) = (Arc::new(handler), Requests::default());
        let kept = requests.clone();
        let server = Self::raw(move |stream| serve(stream, handler.clone(), kept.clone())).await;
        Self { requests, ..server }
    }

    /// Starts a server like [`Self::start`], with a certificate for `api.example.com` and `other.example.net`, which clients of
    /// [`SandboxBuilder::network`](crate::SandboxBuilder::network) trust.
    pub async fn https(handler: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        let (handler, requests, tls) = (Arc::new(handler), Requests::default(), acceptor());
        let kept = requests.clone();
        let accept = move |stream| {
            let (handler, kept, tls) = (handler.clone(), kept.clone(), tls.clone());
            async move {
                if let Ok(stream) = tls.accept(stream).await {
                    serve(stream, handler, kept).await;
                }
            }
        };
        Self { requests, ..Self::raw(accept).await }
    }

    /// Starts a server that handles each connection with a function.
    pub async fn raw<F>(handler: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (counted, mut task) = (connections.clone(), JoinSet::new());
        task.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                open.spawn(handler(stream));
            }
        });
        Self { address, requests: Arc::default(), connections, _task: task }
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the requests so far as lines of method and path.
    pub fn lines(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|request| format!("{} {}", request.method(), request.uri())).collect()
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<Received> {
        self.requests.lock().unwrap().clone()
    }
}
