//! Connections of the client, with TLS if the URL asks for it; and one request on each, with the head of its response, over
//! HTTP/1.1.

use crate::credential::Credential;
use crate::dial::{Network, dial};
use crate::error::{ExchangeFailure, Limit};
use crate::limits::{Clock, MAX_HEADERS, RequestLimits};
use crate::observer::{ExchangeReport, Metered};
use crate::policy::Covering;
use crate::request::Outgoing;
use crate::target::{RequestTarget, Scheme};
use crate::tls::{ConnectionStream, Tls};
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use pinion_protocol::text::with_causes;
use std::sync::Arc;
use tokio::task::JoinSet;
use url::Position;

/// A connection, with or without TLS.
pub(super) type Stream = Metered<Box<dyn ConnectionStream>>;

pub(super) struct Connector {
    network: Arc<dyn Network>,
    tls: Tls,
}

impl Connector {
    pub(super) fn new(network: Arc<dyn Network>, tls: Tls) -> Self {
        Self { network, tls }
    }

    /// Connects to the host of `target`, if the rules that cover the request admit all of its addresses.
    pub(super) async fn connect(
        &self,
        target: &RequestTarget,
        covering: &Covering<'_>,
        clock: &Clock,
        report: &mut ExchangeReport,
    ) -> Result<Stream, ExchangeFailure> {
        let check = |address| covering.check(target, address);
        let (stream, address) = dial(&*self.network, target, check, clock).await?;
        report.exchange.address = Some(address);
        let stream: Box<dyn ConnectionStream> = match target.scheme() {
            Scheme::Http => Box::new(stream),
            Scheme::Https => self.tls.connect(target, stream, clock).await?,
        };
        Ok(Metered::new(stream, report.meter.clone()))
    }
}

/// The least that the HTTP library accepts for its buffer.
const MIN_BUFFER: u64 = 8 << 10;

/// The head of a response as the server sent it.
pub(crate) struct Received {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Incoming,
    /// Moves bytes between the body and the connection; dropping it closes the connection.
    pub(crate) driver: JoinSet<()>,
}

/// Creates the message that is sent: with the credential, and with the fields that the client sets itself.
pub(super) fn message(
    outgoing: &Outgoing,
    credential: Option<&Credential>,
) -> Result<http::Request<Full<Bytes>>, ExchangeFailure> {
    let invalid = |what: &str| ExchangeFailure::Invalid(format!("{what} cannot be sent over HTTP/1.1"));
    let (mut url, mut headers) = (outgoing.target.url().clone(), outgoing.headers.clone());
    if let Some(credential) = credential {
        credential.insert(&mut headers, &mut url);
    }
    let host = &url[Position::BeforeHost..Position::AfterPort];
    headers.insert(HOST, HeaderValue::from_str(host).map_err(|_| invalid("the host"))?);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    let agent = HeaderValue::from_static(concat!("pinion/", env!("CARGO_PKG_VERSION")));
    headers.entry(USER_AGENT).or_insert(agent);
    let path = &url[Position::BeforePath..Position::AfterQuery];
    let mut message = http::Request::new(Full::new(outgoing.body.clone()));
    *message.method_mut() = outgoing.method.parse().map_err(|_| invalid("the method"))?;
    *message.uri_mut() = path.parse::<Uri>().map_err(|_| invalid("the URL"))?;
    *message.headers_mut() = headers;
    Ok(message)
}

/// Sends a message and waits for the head of the response.
pub(super) async fn exchange(
    stream: Stream,
    message: http::Request<Full<Bytes>>,
    outgoing: &Outgoing,
    limits: &RequestLimits,
    clock: &Clock,
) -> Result<Received, ExchangeFailure> {
    let failed = |error: hyper::Error| match error.is_parse_too_large() {
        true => ExchangeFailure::TooLarge(Limit::ResponseHeaders(limits.headers)),
        false => ExchangeFailure::Failed(format!("no response from `{}`: {}", outgoing.target, with_causes(&error))),
    };
    let buffer = usize::try_from(limits.headers.max(MIN_BUFFER)).unwrap_or(usize::MAX);
    let mut builder = http1::Builder::new();
    builder.max_headers(MAX_HEADERS).max_buf_size(buffer);
    let (mut sender, connection) = clock.run(builder.handshake(TokioIo::new(stream))).await?.map_err(failed)?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // Its error reaches the response or the body, too.
        let _ = connection.await;
    });
    let response = clock.run(sender.send_request(message)).await?.map_err(failed)?;
    let (head, body) = response.into_parts();
    let size: usize = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if size as u64 > limits.headers {
        return Err(ExchangeFailure::TooLarge(Limit::ResponseHeaders(limits.headers)));
    }
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(ExchangeFailure::Failed(format!("`{}` switched to another protocol", outgoing.target)));
    }
    Ok(Received { status: head.status, headers: head.headers, body, driver })
}
