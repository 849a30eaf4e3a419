//! HTTP/1: `CONNECT`, and requests for `http://` URLs.
//!
//! The library parses and frames messages, so that each request on a connection is seen, checked and sent by itself.

use super::forward::{ForwardedBody, MAX_BUFFER, forward, refused};
use super::{Connection, Refusal, Tunnel, target_of};
use crate::observer::Metered;
use crate::target::RequestTarget;
use http::header::{HOST, HeaderMap, HeaderValue};
use http::{Method, Request, Response, Uri};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;

/// A connection that becomes a tunnel once the program has the answer.
type PendingTunnel = Arc<Mutex<Option<(OnUpgrade, Tunnel)>>>;

pub(super) async fn serve(connection: &Arc<Connection>, stream: Metered<TcpStream>) {
    let pending = PendingTunnel::default();
    let service = service_fn(|request| {
        let (connection, pending) = (connection.clone(), pending.clone());
        async move { Ok::<_, Infallible>(answer(&connection, &pending, request).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(super::HEAD).max_buf_size(MAX_BUFFER);
    // A program may close the connection at any time.
    let _ = builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    let upgraded = pending.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((upgrade, tunnel)) = upgraded
        && let Ok(upgraded) = upgrade.await
    {
        tunnel.serve(connection, TokioIo::new(upgraded)).await;
    }
}

async fn answer(
    connection: &Connection,
    pending: &PendingTunnel,
    request: Request<Incoming>,
) -> Response<ForwardedBody> {
    let done = match request.method() {
        &Method::CONNECT => connect(connection, pending, request).await,
        _ => plain(connection, request).await,
    };
    done.unwrap_or_else(|refusal| refused(&refusal))
}

async fn connect(
    connection: &Connection,
    pending: &PendingTunnel,
    request: Request<Incoming>,
) -> Result<Response<ForwardedBody>, Refusal> {
    let authority = request.uri().authority().map_or("", |authority| authority.as_str());
    let target = match request.uri().port() {
        Some(_) => target_of(authority).map_err(|error| error.to_string()),
        None => Err("a tunnel needs a host and a port".to_owned()),
    };
    let target = target.map_err(|reason| connection.malformed("CONNECT", authority, 0, &reason))?;
    let tunnel = connection.tunnel("CONNECT", &target).await?;
    let upgrade = hyper::upgrade::on(request);
    *pending.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, tunnel));
    Ok(Response::new(Either::Left(Full::default())))
}

async fn plain(connection: &Connection, request: Request<Incoming>) -> Result<Response<ForwardedBody>, Refusal> {
    match forwarded(request.uri(), request.headers()) {
        Ok(target) => forward(connection, &target, request).await,
        Err(reason) => {
            let (host, port) = (request.uri().host().unwrap_or_default(), request.uri().port_u16().unwrap_or(0));
            Err(connection.malformed(request.method().as_str(), host, port, &reason))
        }
    }
}

/// Returns the target of a request that is not `CONNECT`.
fn forwarded(uri: &Uri, headers: &HeaderMap) -> Result<RequestTarget, String> {
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
