//! HTTP servers on ports that the system chooses.

use crate::certificates::acceptor;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A request as a server received it.
pub type Received = http::Request<Bytes>;
/// The answer of a server.
pub type Answer = http::Response<Bytes>;
type Requests = Arc<Mutex<Vec<Received>>>;

/// A server on this machine. It ends when it is dropped.
pub struct HttpServer {
    address: SocketAddr,
    requests: Requests,
    connections: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

/// Creates an answer.
pub fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
    let mut response = http::Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.into()).unwrap()
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

async fn serve<S, H>(stream: S, handler: Arc<H>, kept: Requests)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(&Received) -> Answer + Send + Sync + 'static,
{
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
        let (kept, handler) = (kept.clone(), handler.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let request = http::Request::from_parts(head, body);
            let response = handler(&request);
            kept.lock().unwrap().push(request);
            Ok::<_, Infallible>(response.map(Full::new))
        }
    });
    // The client may close the connection at any time.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
