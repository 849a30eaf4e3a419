//! Requests over streamable HTTP, and the meaning of their failures.
//!
//! The requests are sent by [`Post`], apart from those that begin a connection and notices, which are rmcp's. Three
//! kinds of answers need special handling: an error that names no request, which would leave its request waiting
//! forever; any such answer within a session, which the server then no longer knows; and statuses, which rmcp has only
//! in texts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use reqwest::Client;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, RequestId};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::pipe::answers;
use super::post::{Post, readable};
use crate::error::{causes, unreachable};

/// Failure of a request over HTTP, in both transports.
pub(super) type WebError = StreamableHttpError<reqwest::Error>;

type Headers = HashMap<HeaderName, HeaderValue>;
pub(super) type SseResults = BoxStream<'static, Result<Sse, SseError>>;

/// The client of one connection.
#[derive(Clone)]
pub(super) struct Web {
    client: Client,
    stream: EventStream,
}

impl Web {
    pub(super) fn new(client: Client) -> Self {
        Self { client, stream: EventStream::default() }
    }
}

impl StreamableHttpClient for Web {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, WebError> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, token, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, WebError> {
        let request = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let has_session = session.is_some();
        let begins_session = has_session && is_initialized(&message);
        if request.is_some() {
            self.stream.settled().await;
        }
        let posted = match &message {
            // rmcp knows how servers without discovery refuse it.
            JsonRpcMessage::Request(request) if !matches!(request.request, ClientRequest::DiscoverRequest(_)) => {
                let session = session.as_deref();
                Post { uri: &uri, message: &message, session, token, headers, limits }.send(&self.client).await
            }
            _ => self.client.post_message_with_response_limits(uri, message, session, token, headers, limits).await,
        };
        if begins_session && posted.is_ok() {
            self.stream.begin();
        }
        match request {
            Some(request) => read(posted, request, has_session),
            None => posted,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), WebError> {
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<SseResults, WebError> {
        let stream = self.client.get_stream(uri, session, last_event, token, headers).await;
        self.stream.settle();
        stream.map(readable)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        limit: usize,
    ) -> Result<SseResults, WebError> {
        let limited = self.client.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, limit);
        let stream = limited.await;
        self.stream.settle();
        stream.map(readable)
    }
}

/// Returns whether a message makes rmcp open the stream of events afterwards.
fn is_initialized(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Notification(message)
        if matches!(message.notification, ClientNotification::InitializedNotification(_)))
}

/// Reads the answer to a request.
fn read(
    posted: Result<StreamableHttpPostResponse, WebError>,
    request: RequestId,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, WebError> {
    match posted {
        Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session))
            if !error.id.as_ref().is_some_and(|id| answers(&request, id)) =>
        {
            match has_session {
                // Servers that were restarted answer so, before they look at the request.
                true => Err(WebError::SessionExpired),
                false => {
                    Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::error(error.error, Some(request)), session))
                }
            }
        }
        Err(error) if has_session && status(&error) == Some(400) => Err(WebError::SessionExpired),
        posted => posted,
    }
}

/// Returns the status of a response that is not an answer.
pub(super) fn status(error: &WebError) -> Option<u16> {
    match error {
        WebError::HttpStatus(error) => Some(error.status),
        WebError::UnexpectedServerResponse(text) => text.strip_prefix("HTTP ")?.get(..3)?.parse().ok(),
        _ => None,
    }
}

/// Returns the failure of a request over HTTP that a transport reports.
pub(super) fn failure(error: &DynamicTransportError) -> Option<&WebError> {
    error.error.downcast_ref()
}

/// Describes the failure of a transport, with its causes.
pub(super) fn describe(error: &DynamicTransportError) -> String {
    match failure(error) {
        Some(WebError::Client(error)) => unreachable(error),
        Some(WebError::Auth(error)) => causes(error),
        Some(WebError::UnexpectedServerResponse(text)) => crate::error::quoted(text.trim_end_matches([':', ' '])),
        Some(error) => causes(error),
        None => causes(&*error.error),
    }
}

/// Returns whether the server got nothing to work on: no connection was made, or no token was to be had.
pub(super) fn is_unsent(error: &DynamicTransportError) -> bool {
    match failure(error) {
        Some(WebError::Client(error)) => error.is_connect(),
        Some(WebError::Auth(_) | WebError::SessionExpired) => true,
        _ => false,
    }
}

// The stream of events that a session has besides its requests, which wait for it.
//
// rmcp opens it in the background. A server sends notices there, and some drop those that come before: a list that changes
// between its request and the stream would stay out of date. Requests use connections that are kept, the stream needs a new
// one, so that requests would often be first.

/// Wait for a server to answer the request for the stream. Some answer with their first event.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the stream is being opened. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct EventStream(watch::Sender<Option<Instant>>);

impl EventStream {
    /// Notes that the stream is about to be opened.
    pub(super) fn begin(&self) {
        self.0.send_replace(Some(Instant::now() + PATIENCE));
    }

    /// Notes that it is open, or that the server has no such stream.
    pub(super) fn settle(&self) {
        self.0.send_replace(None);
    }

    /// Returns once the stream is not being opened, or the server was given enough time.
    pub(super) async fn settled(&self) {
        let mut state = self.0.subscribe();
        let Some(limit) = *state.borrow_and_update() else { return };
        let _ = timeout_at(limit, state.wait_for(Option::is_none)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::ErrorData;
    use rmcp::transport::streamable_http_client::HttpStatusError;

    fn refused(id: Option<RequestId>) -> Result<StreamableHttpPostResponse, WebError> {
        let error = ErrorData::invalid_request("Bad Request: No valid session ID provided", None);
        Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::error(error, id), None))
    }

    #[test]
    fn error_without_an_id_is_the_answer_or_the_end_of_the_session() {
        let own = RequestId::Number(7);
        let answered = |answer| match answer {
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _)) => error.id,
            _ => panic!("expected an error of the server"),
        };
        for id in [None, Some(RequestId::Number(1)), Some(RequestId::String("server-error".into()))] {
            assert!(matches!(read(refused(id.clone()), own.clone(), true), Err(WebError::SessionExpired)), "{id:?}");
            assert_eq!(answered(read(refused(id), own.clone(), false)), Some(own.clone()));
        }
        for id in [own.clone(), RequestId::String("7".into())] {
            assert_eq!(answered(read(refused(Some(id.clone())), own.clone(), true)), Some(id));
        }
    }

    #[test]
    fn only_the_status_400_ends_a_session() {
        let response = |text: &'static str| Err(WebError::UnexpectedServerResponse(text.into()));
        let own = || RequestId::Number(7);
        assert!(matches!(read(response("HTTP 400 Bad Request: x"), own(), true), Err(WebError::SessionExpired)));
        assert!(matches!(
            read(response("HTTP 400 Bad Request: x"), own(), false),
            Err(WebError::UnexpectedServerResponse(_))
        ));
        assert!(matches!(
            read(response("HTTP 409 Conflict: "), own(), true),
            Err(WebError::UnexpectedServerResponse(_))
        ));
        assert_eq!(status(&WebError::HttpStatus(HttpStatusError::new(503, None))), Some(503));
        for text in ["HTTP", "HTTP é", "HTTP 4", "could not parse"] {
            assert_eq!(status(&WebError::UnexpectedServerResponse(text.into())), None, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_opens_no_stream_delays_requests_once() {
        let stream = EventStream::default();
        let began = Instant::now();
        stream.settled().await;
        stream.begin();
        stream.settled().await;
        stream.settled().await;
        assert_eq!(began.elapsed().as_millis() / 10, PATIENCE.as_millis() / 10);
        stream.begin();
        let (waiting, opened) = (stream.clone(), stream.clone());
        tokio::join!(waiting.settled(), async move { opened.settle() });
        assert_eq!(began.elapsed().as_millis() / 10, PATIENCE.as_millis() / 10);
    }
}
