//! `wasi:http`: requests of components whose language comes with an HTTP client for it.
//!
//! `wasmtime-wasi-http` holds the resources and is built without its client. Each request goes to [`pinion_egress`],
//! like the requests of our own import, with the authority of the call, its limits, its credentials and its ledger. The
//! differences follow from the interface:
//!
//! - Requests run concurrently, up to [`MAX_OPEN`] in a call, and bodies are streams. Those that are still open when the
//!   call ends are closed before its ledger is.
//! - Redirects are returned. A guest that follows one sends another request, with all checks.
//! - A refusal is an `internal-error` with the usual text, because `HTTP-request-denied` carries no text.
//! - The field [`CREDENTIAL`] of a request names a secret. The host takes it out and inserts the secret.

use super::request::{Traffic, credentials, denied};
use super::{DEFAULT_TIMEOUT, Http, MAX_BODY};
use crate::capability::authority::CallAuthority;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_LENGTH, HeaderName};
use http::request::Parts;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use pinion_egress::{Client, Limit, Redirects, RequestAccess, RequestLimits, SendError};
use pinion_plugin_limits::{Deadline, ReservedMemory};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks};

/// Maximum number of requests of one call that are open at once.
const MAX_OPEN: u32 = 32;
/// Bytes of the fields of one request, with the host's overhead for keeping them. A guest may hold as many as it has
/// handles.
const MAX_FIELDS: usize = 16 << 10;
/// Bytes that a guest writes to a body at once; the host keeps at most two such pieces for each body.
const PIECE: usize = 16 << 10;
/// Time that the end of a call waits for its open requests to be reported; they end at once.
const PATIENCE: Duration = Duration::from_secs(1);
/// Names the secret to insert into a request.
const CREDENTIAL: HeaderName = HeaderName::from_static("pinion-credential");

/// The head of a response, and the future that reads its body.
type WasiResponse = (http::Response<WasiBody>, BodyFuture);
type BodyFuture = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// The data of a store for `wasi:http`.
pub(crate) struct WasiRequests {
    context: WasiHttpCtx,
    hooks: WasiHttpSender,
}

impl Default for WasiRequests {
    fn default() -> Self {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(MAX_FIELDS);
        Self { context, hooks: WasiHttpSender { next: None } }
    }
}

impl WasiRequests {
    /// Sets the call's part of the request that comes next, or the reason why it is not sent.
    pub(super) fn expect(&mut self, next: Result<Sending, Error>) {
        self.hooks.next = Some(next);
    }

    /// Drops the leftovers of a request that was not passed on, because it was malformed.
    pub(crate) fn forget(&mut self) {
        self.hooks.next = None;
    }

    /// Returns the state that the functions of the interface work on.
    pub(super) fn view<'a>(&'a mut self, table: &'a mut ResourceTable) -> WasiHttpCtxView<'a> {
        WasiHttpCtxView { hooks: &mut self.hooks, table, ctx: &mut self.context }
    }
}

/// Sends requests on behalf of the call that runs now.
struct WasiHttpSender {
    /// The authority and the bounds of the request that is about to be passed, or the reason why it is not sent.
    next: Option<Result<Sending, Error>>,
}

impl WasiHttpHooks for WasiHttpSender {
    fn set_host_header(&mut self) -> bool {
        // The client sets it from the URL that it checked.
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        PIECE
    }

    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<WasiResponse, Error>> + Send> {
        let sending = self.next.take().unwrap_or(Err(Error::HttpRequestDenied));
        Box::new(async move {
            let sending = sending?;
            let ended = sending.ended.clone();
            let sent = ended.run_until_cancelled(sending.send(request, options.unwrap_or_default())).await;
            sent.unwrap_or(Err(Error::ConnectionTerminated))
        })
    }
}

/// The requests of a call that are open.
pub(super) struct OpenRequests {
    slots: Arc<Semaphore>,
    ended: CancellationToken,
}

impl Default for OpenRequests {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(MAX_OPEN as usize)), ended: CancellationToken::new() }
    }
}

impl OpenRequests {
    /// Returns the slot of one more request, and the token that closes it.
    ///
    /// # Errors
    /// Too many requests are open.
    pub(super) fn slot(&self) -> Result<(OwnedSemaphorePermit, CancellationToken), Error> {
        let slot = self.slots.clone().try_acquire_owned().map_err(|_| Error::ConnectionLimitReached)?;
        Ok((slot, self.ended.clone()))
    }

    /// Closes all requests, and waits until they are reported.
    pub(super) async fn end(&self) {
        self.ended.cancel();
        // The semaphore is never closed. A request that is not reported in time is missing in the ledger.
        let _ = timeout(PATIENCE, self.slots.acquire_many(MAX_OPEN)).await;
    }
}

/// Everything that one request needs of its call.
pub(super) struct Sending {
    pub(super) authority: CallAuthority,
    pub(super) deadline: Deadline,
    pub(super) client: Client,
    pub(super) traffic: Arc<Traffic>,
    /// Counts the body of the request towards the memory of the plugin's calls.
    pub(super) reserved: ReservedMemory,
    pub(super) slot: OwnedSemaphorePermit,
    pub(super) ended: CancellationToken,
}

impl Sending {
    /// Sends a request and returns the head of the response.
    async fn send(mut self, request: http::Request<WasiBody>, options: RequestOptions) -> Result<WasiResponse, Error> {
        let (parts, body) = request.into_parts();
        let body = collect(body, &mut self.reserved).await?;
        let request = outgoing(&parts, body)?;
        let policy = self.authority.check::<Http>().map_err(internal_error)?;
        let credentials = credentials(&self.authority, request.credential.as_deref()).await.map_err(internal_error)?;
        let defaults = RequestLimits::default();
        let access = RequestAccess {
            limits: RequestLimits {
                request_body: MAX_BODY.into(),
                response_body: MAX_BODY.into(),
                connect: options.connect_timeout.unwrap_or(defaults.connect).min(defaults.connect),
                total: self.deadline.at().saturating_duration_since(Instant::now()),
                ..defaults
            },
            observer: Some(self.traffic.clone()),
            cancel: self.deadline.token().clone(),
            ..RequestAccess::new(policy, &credentials)
        };
        let first_byte = options.first_byte_timeout.unwrap_or(DEFAULT_TIMEOUT);
        let sent = timeout(first_byte, self.client.send(request, &access)).await;
        let response = sent.map_err(|_| Error::HttpResponseTimeout)?;
        let response = response.map_err(|error| failure(error, &self.authority))?;
        let mut head = http::Response::new(());
        // Always a valid status: the client read it from a response.
        *head.status_mut() = http::StatusCode::from_u16(response.status()).unwrap_or_default();
        for (name, value) in response.headers() {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), http::HeaderValue::from_bytes(value)) {
                head.headers_mut().append(name, value);
            }
        }
        let pause = options.between_bytes_timeout.unwrap_or(DEFAULT_TIMEOUT);
        let (pieces, received) = mpsc::channel(1);
        let Self { authority, slot, ended, .. } = self;
        let reading = async move {
            let _slot = slot;
            ended.run_until_cancelled(read(response, pause, &authority, pieces)).await;
            Ok(())
        };
        Ok((head.map(|()| stream_of(received)), Box::new(reading)))
    }
}

/// Collects the body that a guest writes. The memory counts as memory of the plugin's calls.
async fn collect(mut body: WasiBody, reserved: &mut ReservedMemory) -> Result<Bytes, Error> {
    let mut collected = Vec::new();
    while let Some(frame) = body.frame().await {
        let piece = frame?.into_data().map_err(|_| internal_error("trailers of requests are not supported"))?;
        if collected.len() + piece.len() > MAX_BODY as usize {
            return Err(Error::HttpRequestBodySize(Some(MAX_BODY.into())));
        }
        if !reserved.add(piece.len() as u64) {
            return Err(internal_error("the body of the request does not fit into the memory of the plugin's calls"));
        }
        collected.extend_from_slice(&piece);
    }
    Ok(collected.into())
}

/// Converts a request. The length of its body, which was checked while the guest wrote it, is left to the client.
fn outgoing(parts: &Parts, body: Bytes) -> Result<pinion_egress::Request, Error> {
    let mut named = parts.headers.get_all(CREDENTIAL).iter();
    let credential = match (named.next(), named.next()) {
        (None, _) => None,
        (Some(name), None) => Some(
            name.to_str()
                .map_err(|_| internal_error(format!("`{CREDENTIAL}` is not the name of a secret")))?
                .to_owned(),
        ),
        (Some(_), Some(_)) => {
            return Err(internal_error(format!("the request names more than one secret in `{CREDENTIAL}`")));
        }
    };
    let headers = parts.headers.iter().filter(|(name, _)| **name != CONTENT_LENGTH && **name != CREDENTIAL);
    Ok(pinion_egress::Request {
        method: parts.method.as_str().to_owned(),
        url: parts.uri.to_string(),
        headers: headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect(),
        body,
        credential,
        redirects: Redirects::Return,
    })
}

/// Reads the body of a response piece by piece, each once the guest took the one before. An empty option is its end.
async fn read(
    mut response: pinion_egress::Response,
    pause: Duration,
    authority: &CallAuthority,
    pieces: mpsc::Sender<Result<Option<Bytes>, Error>>,
) {
    loop {
        let piece = match timeout(pause, response.chunk()).await {
            Ok(piece) => piece.map_err(|error| failure(error, authority)),
            Err(_) => Err(Error::HttpResponseTimeout),
        };
        let is_last = !matches!(piece, Ok(Some(_)));
        // Fails when the guest dropped the body.
        if pieces.send(piece).await.is_err() || is_last {
            return;
        }
    }
}

/// The body that the guest reads. It ends with an error if the reading was given up.
fn stream_of(received: mpsc::Receiver<Result<Option<Bytes>, Error>>) -> WasiBody {
    let frames = stream::unfold(Some(received), |received| async {
        let mut received = received?;
        match received.recv().await {
            Some(Ok(Some(bytes))) => Some((Ok(Frame::data(bytes)), Some(received))),
            Some(Ok(None)) => None,
            Some(Err(error)) => Some((Err(error), None)),
            None => Some((Err(Error::ConnectionTerminated), None)),
        }
    });
    let frames: Pin<Box<dyn stream::Stream<Item = _> + Send>> = Box::pin(frames);
    StreamBody::new(frames).boxed_unsync()
}

/// Returns the error for failures without a code in the interface, or with a code that carries no text.
pub(super) fn internal_error(text: impl ToString) -> Error {
    Error::InternalError(Some(text.to_string()))
}

fn failure(error: SendError, authority: &CallAuthority) -> Error {
    let size = |limit: u64| u32::try_from(limit).ok();
    match error {
        SendError::Denied { denial, request_sent } => internal_error(denied(&denial, request_sent, authority)),
        SendError::TooLarge { limit: Limit::RequestBody(limit), .. } => Error::HttpRequestBodySize(Some(limit)),
        SendError::TooLarge { limit: Limit::RequestHeaders(limit), .. } => {
            Error::HttpRequestHeaderSectionSize(size(limit))
        }
        SendError::TooLarge { limit: Limit::ResponseHeaders(limit), .. } => {
            Error::HttpResponseHeaderSectionSize(size(limit))
        }
        SendError::TooLarge { limit: Limit::ResponseBody(limit), .. } => Error::HttpResponseBodySize(Some(limit)),
        SendError::TimedOut { request_sent: false, .. } => Error::ConnectionTimeout,
        SendError::TimedOut { .. } => Error::HttpResponseTimeout,
        other => internal_error(other),
    }
}
