//! Servers on ports that the system chooses.

pub(crate) use crate::support::answering::{Answer, answer};
use crate::support::answering::{Received, Requests, serve};
use crate::support::certificates::acceptor;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

type Handler = dyn Fn(&Received) -> Answer + Send + Sync;

/// A server that answers each request with a function, and keeps the requests. It ends when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Requests,
    _task: JoinSet<()>,
}

pub(crate) fn redirect(status: u16, location: &str) -> Answer {
    answer(status, &[("location", location)], "")
}

impl Server {
    pub(crate) async fn http(handler: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(handler), None).await
    }

    /// A server with a certificate for `api.example.com`, `other.example.net` and `localhost`.
    pub(crate) async fn https(handler: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(handler), Some(acceptor())).await
    }

    async fn start(handler: Arc<Handler>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Requests::default();
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
        let line = |request: &Received| {
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
