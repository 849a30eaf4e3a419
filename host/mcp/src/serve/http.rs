//! The server over streamable HTTP: one address, a token, and checks of `Host` and `Origin`.

use super::Server;
use ::http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use ::http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use secrecy::{ExposeSecret as _, SecretString};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Connections at a time; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 128;
/// Time for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Bytes of the head of a request.
const MAX_HEAD: usize = 64 << 10;
/// Bytes of the body of a request.
const MAX_BODY: usize = 8 << 20;
/// The path of the endpoint.
const ENDPOINT: &str = "/mcp";

/// Settings of a server over HTTP.
#[derive(Debug, Clone)]
pub struct HttpServerSettings {
    /// The address to listen on. Port 0 lets the system choose.
    pub address: SocketAddr,
    /// The token that each request needs.
    pub token: SecretString,
    /// Names of hosts that requests may name, in addition to the address and loopback.
    pub hosts: Vec<String>,
    /// Origins of browsers that may call, in addition to the server's own.
    pub origins: Vec<String>,
}

/// The address cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("could not listen on `{address}`")]
pub struct HttpError {
    address: SocketAddr,
    #[source]
    source: std::io::Error,
}

/// A server that listens.
pub struct HttpServer {
    listener: TcpListener,
    service: Service,
    token: Arc<SecretString>,
    end: CancellationToken,
}

type Service = StreamableHttpService<Server, LocalSessionManager>;
type HttpBody = BoxBody<Bytes, Infallible>;

impl HttpServer {
    /// Listens on the address.
    ///
    /// # Errors
    /// The address is taken or not one of this machine.
    pub async fn bind(server: Server, settings: HttpServerSettings) -> Result<Self, HttpError> {
        let failed = |source| HttpError { address: settings.address, source };
        let listener = TcpListener::bind(settings.address).await.map_err(failed)?;
        let own = settings.address.ip().to_string();
        let hosts = ["localhost", "127.0.0.1", "::1", own.as_str()].map(str::to_owned).into_iter();
        let end = server.token.clone();
        let port = listener.local_addr().map_err(failed)?.port();
        let own = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:{port}")).into_iter();
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts.chain(settings.hosts))
            .with_allowed_origins(own.chain(settings.origins))
            .enforce_origin_validation()
            .with_max_request_body_bytes(MAX_BODY)
            .with_cancellation_token(end.clone());
        let service = Service::new(move || Ok(server.for_session()), Arc::default(), config);
        Ok(Self { listener, service, token: Arc::new(settings.token), end })
    }

    /// Returns the URL of the endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        let address = self.listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
        format!("http://{address}{ENDPOINT}")
    }

    /// Serves clients until the server's token is cancelled.
    pub async fn serve(self) {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            let stream = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Too many open files, for example: other connections end sooner or later.
                        tracing::warn!(%error, "could not accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
                () = self.end.cancelled() => return,
            };
            let (service, token, end) = (self.service.clone(), self.token.clone(), self.end.clone());
            tokio::spawn(async move {
                let _permit = permit;
                tokio::select! {
                    () = connection(stream, service, token) => {}
                    () = end.cancelled() => {}
                }
            });
        }
    }
}

async fn connection(stream: TcpStream, service: Service, token: Arc<SecretString>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let (service, token) = (service.clone(), token.clone());
        async move { Ok::<_, Infallible>(respond(request, &service, &token).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of an MCP client failed");
    }
}

async fn respond(request: Request<Incoming>, service: &Service, token: &SecretString) -> Response<HttpBody> {
    if request.uri().path() != ENDPOINT {
        return plain(StatusCode::NOT_FOUND, "the endpoint is /mcp");
    }
    if request.headers().get_all(HOST).iter().count() > 1 {
        return plain(StatusCode::BAD_REQUEST, "several hosts");
    }
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given =
        given.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let is_known = given.is_some_and(|(_, given)| is_same(given.trim(), token.expose_secret()));
    if !is_known {
        let mut refused = plain(StatusCode::UNAUTHORIZED, "the token is missing or wrong");
        refused.headers_mut().insert(WWW_AUTHENTICATE, ::http::HeaderValue::from_static("Bearer"));
        return refused;
    }
    service.handle(request).await
}

/// Compares digests, so that the time tells nothing about the token.
fn is_same(given: &str, token: &str) -> bool {
    !token.is_empty() && blake3::hash(given.as_bytes()) == blake3::hash(token.as_bytes())
}

fn plain(status: StatusCode, text: &'static str) -> Response<HttpBody> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}
