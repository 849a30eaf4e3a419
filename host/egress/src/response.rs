//! Responses without secrets, whose body is read in bounded chunks.

use crate::client::RequestAccess;
use crate::client::exchange::Received;
use crate::decode::BodyDecoder;
use crate::error::{ExchangeFailure, Limit, SendError};
use crate::limits::Clock;
use crate::observer::{ExchangeOutcome, ExchangeReport};
use crate::target::RequestTarget;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use pinion_redact::ByteRedactor;
use pinion_redact::Secrets;
use std::borrow::Cow;
use std::fmt;
use tokio::task::JoinSet;

/// Maximum size of a chunk: 64 KiB.
const MAX_CHUNK: usize = 64 << 10;

/// Fields that concern only the connection.
const OF_CONNECTION: &[HeaderName] = &[
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The response to a request, with its body still to be read.
pub struct Response {
    status: StatusCode,
    headers: HeaderMap,
    url: String,
    origin: String,
    body: Incoming,
    /// Transferred bytes that were not decoded yet.
    input: Bytes,
    decoder: BodyDecoder,
    redactor: Option<ByteRedactor>,
    /// Decoded and redacted bytes.
    ready: BytesMut,
    transferred: u64,
    decoded: u64,
    limit: u64,
    state: BodyState,
    clock: Clock,
    report: ExchangeReport,
    _driver: JoinSet<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyState {
    Open,
    Complete,
    Failed,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Response({} from {})", self.status.as_u16(), self.origin)
    }
}

impl Response {
    /// Opens the response of a server, which may contain `secrets`.
    pub(crate) fn new(
        received: Received,
        target: &RequestTarget,
        secrets: &Secrets,
        access: &RequestAccess<'_>,
        clock: Clock,
        mut report: ExchangeReport,
    ) -> Result<Self, SendError> {
        let Received { status, mut headers, body, driver } = received;
        let decoder = match BodyDecoder::for_response(&headers, !secrets.is_empty()) {
            Ok(decoder) => decoder,
            Err(problem) => {
                let failure = ExchangeFailure::Failed(format!("the response of `{target}` {problem}"));
                report.fail(&failure);
                return Err(failure.sent(true));
            }
        };
        let redactor = (!secrets.is_empty()).then(|| secrets.line_redactor());
        OF_CONNECTION.iter().for_each(|name| drop(headers.remove(name)));
        if decoder.is_gzip() {
            headers.remove(header::CONTENT_ENCODING);
            headers.remove(header::CONTENT_LENGTH);
        }
        if redactor.is_some() {
            headers.remove(header::CONTENT_LENGTH);
            headers = redacted(&headers, secrets);
        }
        Ok(Self {
            status,
            headers,
            url: secrets.clean(target.as_str()).into_owned(),
            origin: target.to_string(),
            body,
            input: Bytes::new(),
            decoder,
            redactor,
            ready: BytesMut::new(),
            transferred: 0,
            decoded: 0,
            limit: access.limits.response_body,
            state: BodyState::Open,
            clock,
            report,
            _driver: driver,
        })
    }

    /// Returns the status code.
    pub fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// Returns the names, in lower case, and values of the header fields, without the connection's fields, and without
    /// `content-length` and `content-encoding` where they do not describe the chunks.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))
    }

    /// Returns the first value of a header field.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.get(name).map(HeaderValue::as_bytes)
    }

    /// Returns the URL of the last request, without credentials.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the next bytes of the body, at most 64 KiB, and `None` at its end. Trailers are dropped.
    ///
    /// # Errors
    /// The connection broke, the body is not valid gzip although the server says so, or a limit was reached. Every later
    /// call fails, too.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, SendError> {
        match self.read().await {
            Ok(chunk) => {
                if chunk.is_none() {
                    self.report.exchange.outcome = ExchangeOutcome::Complete;
                }
                Ok(chunk)
            }
            Err(failure) => Err(self.fail(failure)),
        }
    }

    /// Reads the rest of the body, if it has at most `limit` bytes.
    ///
    /// # Errors
    /// The same as for [`Self::chunk`], and [`SendError::TooLarge`] beyond `limit`.
    pub async fn collect(mut self, limit: u64) -> Result<Vec<u8>, SendError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if (body.len() + chunk.len()) as u64 > limit {
                return Err(self.fail(ExchangeFailure::TooLarge(Limit::ResponseBody(limit))));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    async fn read(&mut self) -> Result<Option<Bytes>, ExchangeFailure> {
        loop {
            if !self.ready.is_empty() {
                let length = self.ready.len().min(MAX_CHUNK);
                return Ok(Some(self.ready.split_to(length).freeze()));
            }
            match self.state {
                BodyState::Open => {}
                BodyState::Complete => return Ok(None),
                BodyState::Failed => {
                    return Err(ExchangeFailure::Failed("the response ended with an error before".to_owned()));
                }
            }
            if !self.input.is_empty() {
                self.decode()?;
                continue;
            }
            match self.clock.run(self.body.frame()).await? {
                None => self.finish()?,
                Some(Err(_)) => return Err(self.broken()),
                Some(Ok(frame)) => self.input = frame.into_data().unwrap_or_default(),
            }
            self.transferred += self.input.len() as u64;
            self.check(self.transferred)?;
        }
    }

    fn decode(&mut self) -> Result<(), ExchangeFailure> {
        let bytes = self.decoder.next(&mut self.input).map_err(|_| self.corrupt())?;
        self.add(&bytes)
    }

    fn finish(&mut self) -> Result<(), ExchangeFailure> {
        let bytes = self.decoder.finish().map_err(|_| self.corrupt())?;
        self.add(&bytes)?;
        if let Some(redactor) = &mut self.redactor {
            self.ready.extend_from_slice(&redactor.finish());
        }
        self.state = BodyState::Complete;
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), ExchangeFailure> {
        self.decoded += bytes.len() as u64;
        self.check(self.decoded)?;
        match &mut self.redactor {
            Some(redactor) => self.ready.extend_from_slice(&redactor.push(bytes)),
            None => self.ready.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn check(&self, size: u64) -> Result<(), ExchangeFailure> {
        match size > self.limit {
            true => Err(ExchangeFailure::TooLarge(Limit::ResponseBody(self.limit))),
            false => Ok(()),
        }
    }

    fn broken(&self) -> ExchangeFailure {
        ExchangeFailure::Failed(format!("`{}` closed the connection within its response", self.origin))
    }

    fn corrupt(&self) -> ExchangeFailure {
        ExchangeFailure::Failed(format!("the response of `{}` is not valid gzip", self.origin))
    }

    /// Records the end of the response.
    fn fail(&mut self, failure: ExchangeFailure) -> SendError {
        if self.state != BodyState::Failed {
            self.report.fail(&failure);
        }
        self.state = BodyState::Failed;
        self.ready.clear();
        failure.sent(true)
    }
}

/// Returns the fields of a response without secrets.
pub(crate) fn redacted(headers: &HeaderMap, secrets: &Secrets) -> HeaderMap {
    let clean = |value: &HeaderValue| {
        let text = String::from_utf8_lossy(value.as_bytes());
        match secrets.clean(&text) {
            Cow::Borrowed(_) => value.clone(),
            Cow::Owned(text) => HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("[redacted]")),
        }
    };
    let named = headers.iter().filter(|(name, _)| !secrets.are_in(name.as_str().as_bytes()));
    named.map(|(name, value)| (name.clone(), clean(value))).collect()
}
