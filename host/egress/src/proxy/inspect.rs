//! The inside of tunnels to the hosts of credentials, where each request is seen, checked and sent by itself.
//!
//! The program performs the TLS handshake with the proxy, which has a certificate for exactly the host of the tunnel. The
//! proxy performs another one with the server and checks its certificate. Both connections speak HTTP/1.1 only.

use super::Connection;
use super::forward::{ForwardedBody, MAX_BUFFER, forward, refused};
use super::{Refusal, RefusalKind};
use crate::observer::{ExchangeOutcome, ExchangeReport};
use crate::target::{RequestTarget, Scheme};
use http::header::{HOST, HeaderMap, HeaderValue, UPGRADE};
use http::uri::Authority;
use http::{Method, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use pinion_protocol::text::with_causes;
use rustls::Error;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// The name of the handshake in reports.
const TLS: &str = "TLS";

/// Serves the requests in a tunnel to `origin`.
pub(super) async fn serve(
    connection: &Arc<Connection>,
    origin: &RequestTarget,
    program: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) {
    let Some(credentials) = &connection.settings.credentials else { return };
    let in_progress = InProgress::begin(&connection.handshakes);
    let accepted = match credentials.issuer().server(origin) {
        Err(error) => Err(ExchangeOutcome::Failed(error)),
        Ok(config) => match timeout(super::HEAD, TlsAcceptor::from(Arc::new(config)).accept(program)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(ExchangeOutcome::Handshake(reason(origin, &error))),
            Err(_) => Err(ExchangeOutcome::Handshake(format!(
                "the program sent no TLS handshake to `{origin}` within {} s",
                super::HEAD.as_secs()
            ))),
        },
    };
    let stream = match accepted {
        Ok(stream) => stream,
        Err(outcome) => {
            ExchangeReport::new(connection.settings.observer.clone(), TLS, origin).exchange.outcome = outcome;
            return;
        }
    };
    drop(in_progress);
    let service = service_fn(|request| async move {
        let served = match checked(origin, &request) {
            Ok(()) => forward(connection, origin, request).await,
            Err(refusal) => {
                let method = request.method().as_str();
                let mut report = ExchangeReport::new(connection.settings.observer.clone(), method, origin);
                report.exchange.outcome = refusal.outcome();
                Err(refusal)
            }
        };
        Ok::<Response<ForwardedBody>, Infallible>(served.unwrap_or_else(|refusal| refused(&refusal)))
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(super::HEAD).max_buf_size(MAX_BUFFER);
    // A program may close the connection at any time.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// Counts a handshake until it has succeeded or its failure was reported.
struct InProgress<'a>(&'a watch::Sender<usize>);

impl<'a> InProgress<'a> {
    fn begin(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Describes the end of a handshake with a program.
fn reason(origin: &RequestTarget, error: &io::Error) -> String {
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::AlertReceived(alert)) => format!(
            "the program does not trust the certificate of the proxy for `{origin}` ({alert:?}): it does not read the \
             file that `SSL_CERT_FILE` names"
        ),
        Some(Error::NoApplicationProtocol) => {
            format!(
                "the program does not speak HTTP/1.1 to `{origin}`, and the proxy nothing else where it inserts credentials"
            )
        }
        _ => format!("no TLS connection of the program to `{origin}`: {}", with_causes(error)),
    }
}

/// Checks that a request is one for the host of the tunnel.
fn checked(origin: &RequestTarget, request: &Request<Incoming>) -> Result<(), Refusal> {
    let refuse = |kind: RefusalKind, text: String| Err(Refusal { kind, text });
    if request.method() == Method::CONNECT || !request.uri().path().starts_with('/') {
        return refuse(RefusalKind::Malformed, "a tunnel in a tunnel, or a request without a path".to_owned());
    }
    if !is_for(origin, request.uri(), request.headers()) {
        return refuse(RefusalKind::Malformed, format!("the request is for another host than `{origin}`"));
    }
    match request.headers().get(UPGRADE) {
        Some(protocol) => refuse(
            RefusalKind::Denied,
            format!(
                "the proxy does not pass on another protocol ({}) than HTTP to `{origin}`, where it inserts credentials",
                String::from_utf8_lossy(protocol.as_bytes()).chars().take(40).collect::<String>().escape_debug()
            ),
        ),
        None => Ok(()),
    }
}

/// Returns whether the URL and the field `host` name `origin`. An absent one counts as matching.
fn is_for(origin: &RequestTarget, uri: &Uri, headers: &HeaderMap) -> bool {
    let names_origin = |authority: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '[' | ']');
        let target = RequestTarget::parse(&format!("{}://{authority}/", Scheme::Https.as_str()));
        authority.chars().all(is_plain) && target.is_ok_and(|target| target.has_origin_of(origin))
    };
    let scheme = uri.scheme_str().is_none_or(|scheme| scheme == Scheme::Https.as_str());
    let authority = uri.authority().map(Authority::as_str).is_none_or(names_origin);
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (None, _) => true,
        (Some(host), None) => HeaderValue::to_str(host).is_ok_and(names_origin),
        _ => false,
    };
    scheme && authority && host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_count_until_they_end() {
        let (count, _) = watch::channel(0);
        let (first, second) = (InProgress::begin(&count), InProgress::begin(&count));
        assert_eq!(*count.borrow(), 2);
        drop(first);
        assert_eq!(*count.borrow(), 1);
        drop(second);
        assert_eq!(*count.borrow(), 0);
    }
}
