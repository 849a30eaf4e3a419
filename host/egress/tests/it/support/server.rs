//! Servers on ports that the system chooses.

use crate::support::certificates::acceptor;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub(crate) type Answer = http::Response<Bytes>;
type Handler = dyn Fn(&http::Request<Bytes>) -> Answer + Send + Sync;

/// A server that answers each request with a function, and keeps the requests. It ends when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<http::Request<Bytes>>>>,
    _task: JoinSet<()>,
}

/// Creates a response.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
    let mut response = http::Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.into()).unwrap()
}

pub(crate) fn redirect(status: u16, location: &str) -> Answer {
    answer(status, &[("location", location)], "")
}

impl Server {
    pub(crate) async fn http(handler: impl Fn(&http::Request<Bytes>) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(handler), None).await
    }

    /// A server with a certificate for `api.example.com`, `other.example.net` and `localhost`.
    pub(crate) async fn https(handler: impl Fn(&http::Request<Bytes>) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(handler), Some(acceptor())).await
    }

    async fn start(handler: Arc<Handler>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = requests.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (handler, kept, tls) = (handler.clone(), kept.clone(), tls.clone());
                connections.spawn(async move {
                    match tls {
                        None => serve(stream, handler, kept).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, handler, kept).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, requests, _task: task }
    }

    /// Returns the requests so far as lines of method, host and path.
    pub(crate) fn lines(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let line = |request: &http::Request<Bytes>| {
            let host = request.headers()["host"].to_str().unwrap();
            format!("{} {host}{}", request.method(), request.uri())
        };
        requests.iter().map(line).collect()
    }

    /// Returns all values of a field in the requests so far.
    pub(crate) fn values(&self, name: &str) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let values = requests.iter().flat_map(|request| request.headers().get_all(name));
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    /// Returns everything that the server received, to search for secrets.
    pub(crate) fn received(&self) -> String {
        format!("{:?}", self.requests.lock().unwrap())
    }
}

async fn serve<S>(stream: S, handler: Arc<Handler>, kept: Arc<Mutex<Vec<http::Request<Bytes>>>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (handler, kept) = (handler.clone(), kept.clone());
        async move {
            let (mut head, body) = request.into_parts();
            // So that debug output shows the values.
            head.headers.values_mut().for_each(|value| value.set_sensitive(false));
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

/// A server that handles the bytes of each connection with a function.
pub(crate) struct RawServer {
    pub(crate) address: SocketAddr,
    _task: JoinSet<()>,
}

impl RawServer {
    pub(crate) async fn start<F>(handler: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(handler(stream));
            }
        });
        Self { address, _task: task }
    }
}
