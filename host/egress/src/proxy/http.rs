//! HTTP/1: `CONNECT`, and requests for `http://` URLs.
//!
//! The library parses and frames messages, so that each request on a connection is seen, checked and sent by itself.

use super::{Connection, Opened, Refusal, RefusalKind, target_of, tunnel};
use crate::metered::Metered;
use crate::observer::{Outcome, Report};
use crate::target::Target;
use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body::{Body, Frame};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Bytes of the head of a request or response, and of a body on its way.
const MAX_BUFFER: usize = 32 << 10;
/// Fields that concern one connection, besides those that `connection` names.
const OF_CONNECTION: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// A body of the proxy or of a server.
type Reply = Either<Full<Bytes>, Forwarded>;

/// A connection that becomes a tunnel once the program has the answer.
type Pending = Arc<Mutex<Option<(OnUpgrade, Opened)>>>;

pub(super) async fn serve(connection: &Arc<Connection>, stream: Metered<TcpStream>) {
    let pending = Pending::default();
    let service = service_fn(|request| {
        let (connection, pending) = (connection.clone(), pending.clone());
        async move { Ok::<_, Infallible>(answer(&connection, &pending, request).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(super::HEAD).max_buf_size(MAX_BUFFER);
    // A program may close the connection at any time.
    let _ = builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    let upgraded = pending.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((upgrade, opened)) = upgraded
        && let Ok(upgraded) = upgrade.await
    {
        tunnel(TokioIo::new(upgraded), opened).await;
    }
}

async fn answer(connection: &Connection, pending: &Pending, request: Request<Incoming>) -> Response<Reply> {
    let done = match request.method() {
        &Method::CONNECT => connect(connection, pending, request).await,
        _ => forward(connection, request).await,
    };
    done.unwrap_or_else(|refusal| refused(&refusal))
}

async fn connect(
    connection: &Connection,
    pending: &Pending,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Refusal> {
    let authority = request.uri().authority().map_or("", |authority| authority.as_str());
    let target = match request.uri().port() {
        Some(_) => target_of(authority).map_err(|error| error.to_string()),
        None => Err("a tunnel needs a host and a port".to_owned()),
    };
    let target = target.map_err(|reason| connection.malformed("CONNECT", authority, 0, &reason))?;
    let opened = connection.open("CONNECT", &target).await?;
    let upgrade = hyper::upgrade::on(request);
    *pending.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, opened));
    Ok(Response::new(Either::Left(Full::default())))
}

async fn forward(connection: &Connection, request: Request<Incoming>) -> Result<Response<Reply>, Refusal> {
    let method = request.method().as_str().to_owned();
    let target = match forwarded(request.uri(), request.headers()) {
        Ok(target) => target,
        Err(reason) => {
            let (host, port) = (request.uri().host().unwrap_or_default(), request.uri().port_u16().unwrap_or(0));
            return Err(connection.malformed(&method, host, port, &reason));
        }
    };
    let mut opened = connection.open(&method, &target).await?;
    let sent = send(&target, request, opened.stream, &mut opened.report).await;
    match sent {
        Ok((response, driver)) => {
            let (mut head, body) = response.into_parts();
            remove_fields_of_connection(&mut head.headers);
            head.version = Version::HTTP_11;
            let body = Forwarded { body, report: opened.report, _driver: driver };
            Ok(Response::from_parts(head, Either::Right(body)))
        }
        Err(reason) => {
            opened.report.exchange.outcome = Outcome::Failed(reason.clone());
            Err(Refusal { kind: RefusalKind::Failed, text: reason })
        }
    }
}

/// Returns the target of a request that is not `CONNECT`.
fn forwarded(uri: &Uri, headers: &HeaderMap) -> Result<Target, String> {
    let authority = match (uri.scheme_str(), uri.authority()) {
        (Some("http"), Some(authority)) => authority.as_str(),
        (None, _) => return Err("this is a proxy, which needs the whole URL".to_owned()),
        _ => return Err("only `http://` URLs are forwarded; use CONNECT for others".to_owned()),
    };
    let target = target_of(authority).map_err(|error| error.to_string())?;
    let mut hosts = headers.get_all(HOST).iter();
    let is_same = |host: &HeaderValue| {
        let named = host.to_str().ok().and_then(|host| target_of(host).ok());
        named.is_some_and(|named| named.has_origin_of(&target))
    };
    match (hosts.next(), hosts.next()) {
        (None, _) => Ok(target),
        (Some(host), None) if is_same(host) => Ok(target),
        _ => Err("the field `host` names another host than the URL".to_owned()),
    }
}

/// Sends a request and waits for the head of the response.
async fn send(
    target: &Target,
    request: Request<Incoming>,
    stream: Metered<TcpStream>,
    report: &mut Report,
) -> Result<(Response<Incoming>, JoinSet<()>), String> {
    let failed = |error: hyper::Error| format!("`{target}` sent no answer: {error}");
    let (mut head, body) = request.into_parts();
    remove_fields_of_connection(&mut head.headers);
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = path.parse().map_err(|_| "the path cannot be sent".to_owned())?;
    let host = target.to_string();
    let host = host.strip_prefix("http://").and_then(|host| HeaderValue::from_str(host).ok());
    head.headers.insert(HOST, host.ok_or_else(|| "the host cannot be sent".to_owned())?);
    head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    head.version = Version::HTTP_11;
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(MAX_BUFFER);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // The body or the response reports the failure.
        let _ = connection.await;
    });
    let response = sender.send_request(Request::from_parts(head, body)).await.map_err(failed)?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(format!("`{target}` changed the protocol without being asked"));
    }
    report.exchange.status = Some(response.status().as_u16());
    Ok((response, driver))
}

fn remove_fields_of_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_CONNECTION) {
        headers.remove(name);
    }
}

/// Answers a request that is not served, in words for whoever reads the output of the program.
fn refused(refusal: &Refusal) -> Response<Reply> {
    let status = match refusal.kind {
        RefusalKind::Malformed => StatusCode::BAD_REQUEST,
        RefusalKind::Denied => StatusCode::FORBIDDEN,
        RefusalKind::Failed => StatusCode::BAD_GATEWAY,
        RefusalKind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
    };
    let mut response = Response::new(Either::Left(Full::from(format!("pinion: {}\n", refusal.text))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The body of a response on its way to the program. Dropping it closes the connection to the server.
struct Forwarded {
    body: Incoming,
    report: Report,
    _driver: JoinSet<()>,
}

impl Body for Forwarded {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(None) => self.report.exchange.outcome = Outcome::Complete,
            Poll::Ready(Some(Err(error))) => self.report.exchange.outcome = Outcome::Failed(error.to_string()),
            // Nobody asks for more after a frame that is known to be the last one.
            Poll::Ready(Some(Ok(_))) if self.body.is_end_stream() => self.report.exchange.outcome = Outcome::Complete,
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
