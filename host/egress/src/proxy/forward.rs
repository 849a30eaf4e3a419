//! One request on its way to a server, and the response on its way back.

use super::{Connection, Refusal, RefusalKind};
use crate::decode::BodyDecoder;
use crate::observer::Metered;
use crate::observer::{ExchangeOutcome, ExchangeReport};
use crate::target::RequestTarget;
use crate::tls::ConnectionStream;
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, Request, Response, StatusCode, Version};
use http_body::{Body, Frame};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use pinion_redact::ByteRedactor;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::task::JoinSet;

/// Bytes of the head of a request or response, and of a body on its way.
pub(super) const MAX_BUFFER: usize = 32 << 10;
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
pub(super) type ForwardedBody = Either<Full<Bytes>, Forwarded>;

/// Sends a request to `target`, with the credentials whose placeholders it has, and returns the response without them.
pub(super) async fn forward(
    connection: &Connection,
    target: &RequestTarget,
    request: Request<Incoming>,
) -> Result<Response<ForwardedBody>, Refusal> {
    let method = request.method().clone();
    let mut opened = connection.open(method.as_str(), target).await?;
    match exchange(connection, target, request, opened.stream, &mut opened.report).await {
        Ok((response, driver)) => answer(connection, target, &method, response, driver, opened.report),
        Err(refusal) => {
            opened.report.exchange.outcome = refusal.outcome();
            Err(refusal)
        }
    }
}

async fn exchange(
    connection: &Connection,
    target: &RequestTarget,
    request: Request<Incoming>,
    stream: Metered<Box<dyn ConnectionStream>>,
    report: &mut ExchangeReport,
) -> Result<(Response<Incoming>, JoinSet<()>), Refusal> {
    let (mut head, body) = request.into_parts();
    if let Some(credentials) = connection.settings.credentials.as_ref().filter(|all| all.is_for_origin(target)) {
        let inserted = credentials.insert(target, &mut head).await;
        let names = inserted.map_err(|text| Refusal { kind: RefusalKind::Denied, text })?;
        report.exchange.credential = (!names.is_empty()).then(|| names.join(", "));
        // Secrets are looked for in the response.
        head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    let sent = send(target, Request::from_parts(head, body), stream, report).await;
    sent.map_err(|text| Refusal { kind: RefusalKind::Failed, text })
}

/// Sends a request and waits for the head of the response.
async fn send(
    target: &RequestTarget,
    request: Request<Incoming>,
    stream: Metered<Box<dyn ConnectionStream>>,
    report: &mut ExchangeReport,
) -> Result<(Response<Incoming>, JoinSet<()>), String> {
    let failed = |error: hyper::Error| format!("`{target}` sent no answer: {error}");
    let (mut head, body) = request.into_parts();
    remove_fields_of_connection(&mut head.headers);
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = path.parse().map_err(|_| "the path cannot be sent".to_owned())?;
    let host = target.to_string();
    let host = host.split_once("://").and_then(|(_, host)| HeaderValue::from_str(host).ok());
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

fn answer(
    connection: &Connection,
    target: &RequestTarget,
    method: &Method,
    response: Response<Incoming>,
    driver: JoinSet<()>,
    mut report: ExchangeReport,
) -> Result<Response<ForwardedBody>, Refusal> {
    let (mut head, body) = response.into_parts();
    let credentials = connection.settings.credentials.as_ref().filter(|all| all.is_for_origin(target));
    let mut masked = None;
    if let Some(mask) = credentials.and_then(|credentials| credentials.mask(target, &mut head.headers)) {
        let decoder = BodyDecoder::for_response(&head.headers, true).map_err(|problem| {
            let text = format!("the response of `{target}` {problem}");
            report.exchange.outcome = ExchangeOutcome::Failed(text.clone());
            Refusal { kind: RefusalKind::Failed, text }
        })?;
        if decoder.is_gzip() {
            head.headers.remove(CONTENT_ENCODING);
        }
        // Without a body, the length belongs to another response.
        if method != Method::HEAD || decoder.is_gzip() {
            head.headers.remove(CONTENT_LENGTH);
        }
        // The words after the status, which the server chose.
        head.extensions.clear();
        masked = Some(Masking { decoder, mask, input: Bytes::new(), has_ended: body.is_end_stream() });
    }
    remove_fields_of_connection(&mut head.headers);
    head.version = Version::HTTP_11;
    let body = Forwarded { body, masked, report, _driver: driver };
    Ok(Response::from_parts(head, Either::Right(body)))
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

/// Answers a request that is not served, in words for the reader of the program's output.
pub(super) fn refused(refusal: &Refusal) -> Response<ForwardedBody> {
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
pub(super) struct Forwarded {
    body: Incoming,
    masked: Option<Masking>,
    report: ExchangeReport,
    _driver: JoinSet<()>,
}

/// Decodes a body and removes secrets from it.
struct Masking {
    decoder: BodyDecoder,
    mask: ByteRedactor,
    /// Received bytes that were not decoded yet.
    input: Bytes,
    /// Nothing is left, neither in the body nor held back.
    has_ended: bool,
}

impl Masking {
    /// Returns the next bytes for the program, and `None` at the end. Trailers are dropped.
    fn poll(&mut self, body: &mut Incoming, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        while !self.has_ended {
            let mut out = Vec::new();
            if self.input.is_empty() {
                match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                    Some(Ok(frame)) => self.input = frame.into_data().unwrap_or_default(),
                    Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(error)))),
                    None => {
                        self.has_ended = true;
                        match self.decoder.finish() {
                            Ok(rest) => out = self.mask.push(&rest),
                            Err(error) => return Poll::Ready(Some(Err(error))),
                        }
                        out.extend(self.mask.finish());
                    }
                }
            } else {
                match self.decoder.next(&mut self.input) {
                    Ok(bytes) => out = self.mask.push(&bytes),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(out.into())));
            }
        }
        Poll::Ready(None)
    }
}

impl Body for Forwarded {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let Self { body, masked, report, .. } = &mut *self;
        let polled = match masked {
            Some(masking) => masking.poll(body, cx).map(|next| next.map(|bytes| bytes.map(Frame::data))),
            None => Pin::new(&mut *body).poll_frame(cx).map(|next| next.map(|frame| frame.map_err(io::Error::other))),
        };
        let is_last = masked.as_ref().map_or_else(|| body.is_end_stream(), |masking| masking.has_ended);
        match &polled {
            Poll::Ready(None) => report.exchange.outcome = ExchangeOutcome::Complete,
            Poll::Ready(Some(Err(error))) => report.exchange.outcome = ExchangeOutcome::Failed(error.to_string()),
            // There is no further poll after a frame that is known to be the last one.
            Poll::Ready(Some(Ok(_))) if is_last => report.exchange.outcome = ExchangeOutcome::Complete,
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.masked {
            Some(masking) => masking.has_ended,
            None => self.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match &self.masked {
            // A response without a body keeps the length that its head names.
            Some(_) if self.is_end_stream() => http_body::SizeHint::with_exact(0),
            Some(_) => http_body::SizeHint::default(),
            None => self.body.size_hint(),
        }
    }
}
