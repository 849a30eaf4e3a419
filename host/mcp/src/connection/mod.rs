//! One connection to a server: requests, their limits, cancellation and progress.

mod fault;
mod handler;
mod open;
mod pipe;
mod skills;
mod sse;
mod task;
mod watched;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ClientRequest, InputRequest, InputRequiredResult, ServerPeerInfo, ServerResult};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

pub(crate) use handler::{Handler, Routes};
pub use handler::{OnProgress, Progress};
pub(crate) use open::{OpenError, Opened, Opener};
pub(crate) use watched::Watched;

use crate::config::ServerConfig;
use crate::error::{McpError, causes, quoted, without_query};
use crate::limits::{MAX_IN_FLIGHT, MAX_INPUT_ROUNDS, MAX_QUESTIONS};
use crate::questions::Questions;
use crate::request::{CallContext, Inputs, Request};
use fault::Fault;
use skills::Skills;

/// Wait for a cancellation to reach the server.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

/// Wait for a subscription to a resource.
const SUBSCRIBE_WAIT: Duration = Duration::from_secs(10);

/// Failure of one request.
#[derive(Debug)]
pub(crate) enum Failure {
    Error(McpError),
    /// The server wants a login, or one with more scopes; with the header with which it said so.
    Login(Option<String>),
}

impl From<McpError> for Failure {
    fn from(error: McpError) -> Self {
        Self::Error(error)
    }
}

/// An open connection, shared by its requests.
#[derive(Debug)]
pub(crate) struct Connection {
    server: String,
    url: Option<Url>,
    peer: Peer<RoleClient>,
    routes: Routes,
    fault: Fault,
    pub(crate) watched: Watched,
    skills: Skills,
    places: Semaphore,
    in_flight: AtomicUsize,
    last_used: Mutex<Instant>,
    pub(crate) opened: Instant,
    /// Ends the connection.
    pub(crate) stop: CancellationToken,
}

/// Counts a request in flight until it is dropped.
struct InFlight<'a>(&'a Connection);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        *self.0.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends a cancellation when a request is dropped before its answer.
struct Abandoned(Option<RequestHandle<RoleClient>>);

impl Abandoned {
    fn cancel(&mut self, reason: &'static str) {
        // Sending waits for the server to read, which the caller must not.
        if let Some(handle) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(timeout(CANCEL_WAIT, handle.cancel(Some(reason.to_owned()))));
        }
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.cancel("the request was abandoned");
    }
}

impl Connection {
    pub(crate) fn new(config: &ServerConfig, opened: &Opened) -> Self {
        Self {
            server: config.name.clone(),
            url: config.url().cloned(),
            peer: opened.running.peer().clone(),
            routes: opened.running.service().routes.clone(),
            fault: opened.fault.clone(),
            watched: opened.running.service().watched.clone(),
            skills: Skills::default(),
            places: Semaphore::new(MAX_IN_FLIGHT),
            in_flight: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
            opened: Instant::now(),
            stop: CancellationToken::new(),
        }
    }

    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    pub(crate) fn info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.peer.peer_info()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed() || self.stop.is_cancelled()
    }

    /// Returns whether the next connection should do without `server/discover`.
    pub(crate) fn is_deaf(&self) -> bool {
        self.fault.is_deaf()
    }

    /// Returns why the connection ended, for a message.
    pub(crate) fn end(&self) -> String {
        self.end_within("")
    }

    /// Returns why the connection ended, with `when` in its place.
    fn end_within(&self, when: &str) -> String {
        self.fault.describe("closed the connection", when)
    }

    /// Returns when the connection will have been idle for `limit`; `None` while requests are in flight.
    pub(crate) fn idle_at(&self, limit: Duration) -> Option<Instant> {
        let is_used = self.in_flight.load(Ordering::Relaxed) > 0;
        (!is_used).then(|| *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) + limit)
    }

    /// Sends a request, answers the server's questions, and returns the result as JSON.
    pub(crate) async fn perform(
        &self,
        request: &Request,
        call: &CallContext,
        limit: Duration,
        questions: &Questions,
    ) -> Result<String, Failure> {
        if matches!(request, Request::Complete { .. }) && !self.info().is_some_and(|info| completes(&info)) {
            return Err(McpError::unsent(&self.server, "does not complete arguments").into());
        }
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let _in_flight = InFlight(self);
        let mut inputs = Inputs::default();
        let mut rounds = 0;
        loop {
            let message = request.message(inputs).map_err(|problem| McpError::unsent(&self.server, problem))?;
            let Some(message) = message else { return Ok(self.summary()) };
            let result = self.send(message, call, limit, request.method()).await?;
            let required = match result {
                ServerResult::InputRequiredResult(required) => required,
                ServerResult::CreateTaskResult(created) if matches!(request, Request::CallTool { .. }) => {
                    return self.follow(created, call, limit, questions).await;
                }
                result if request.accepts(&result) => {
                    let json = serde_json::to_string(&result);
                    let mut json = json.map_err(|error| McpError::sent(&self.server, error.to_string()))?;
                    match request {
                        Request::ReadResource { uri } => {
                            self.verify_skill(uri, &json, call, limit).await?;
                            self.watch(uri);
                        }
                        Request::ListResources { cursor: None } => json = self.with_skills(json, call, limit).await?,
                        _ => {}
                    }
                    return Ok(self.watched.note(json));
                }
                _ => {
                    let problem = format!("answered `{}` with the result of another request", request.method());
                    return Err(McpError::sent(&self.server, problem).into());
                }
            };
            if call.only_connected {
                return Err(McpError::sent(&self.server, "asked for input, and nobody may be asked").into());
            }
            if rounds == MAX_INPUT_ROUNDS {
                let problem = format!("asked for input {MAX_INPUT_ROUNDS} times without answering the request");
                return Err(McpError::sent(&self.server, problem).into());
            }
            inputs = tokio::select! {
                biased;
                () = call.cancel.cancelled() => return Err(McpError::Cancelled { request_sent: true }.into()),
                () = sleep_until(call.deadline) => return Err(self.late("waited for input", true).into()),
                inputs = self.answer(required, questions, rounds) => inputs?,
            };
            rounds += 1;
        }
    }

    /// Answers the questions of one round.
    async fn answer(
        &self,
        required: InputRequiredResult,
        questions: &Questions,
        round: usize,
    ) -> Result<Inputs, McpError> {
        let asked = required.input_requests.unwrap_or_default();
        if asked.len() > MAX_QUESTIONS {
            let problem = format!("asked {} questions at once, the limit is {MAX_QUESTIONS}", asked.len());
            return Err(McpError::sent(&self.server, problem));
        }
        if asked.is_empty() {
            tokio::time::sleep(Duration::from_millis(50 << round.min(5))).await;
        }
        let mut responses = std::collections::BTreeMap::new();
        for (key, request) in asked {
            responses.insert(key, self.answer_one(request, questions).await?);
        }
        Ok(Inputs { responses: (!responses.is_empty()).then_some(responses), state: required.request_state })
    }

    async fn answer_one(&self, request: InputRequest, questions: &Questions) -> Result<serde_json::Value, McpError> {
        questions.answer(request).await.map_err(|error| {
            McpError::sent(&self.server, format!("asked a question that was refused: {}", quoted(&error.message)))
        })
    }

    /// Watches a resource that was read, if the server announces changes of single resources.
    fn watch(&self, uri: &str) {
        let Some(info) = self.info().filter(|info| announces_updates(info)) else { return };
        // Since protocol 2026-07-28, the subscription of the keeper names all resources.
        if self.watched.read(uri) && info.protocol_version.has_initialize() {
            let (peer, request) = (self.peer.clone(), watched::subscribe(uri));
            tokio::spawn(async move { timeout(SUBSCRIBE_WAIT, peer.send_request(request)).await });
        }
    }

    /// Sends one message and waits for its answer, for `limit` after the last sign of progress.
    pub(crate) async fn send(
        &self,
        message: ClientRequest,
        call: &CallContext,
        limit: Duration,
        method: &str,
    ) -> Result<ServerResult, Failure> {
        let sending = async {
            let place = self.places.acquire().await;
            let handle = self.peer.send_request_with_option(message, PeerRequestOptions::no_options()).await;
            (place, handle)
        };
        if call.deadline <= Instant::now() {
            return Err(self.late(method, false).into());
        }
        // A place is nearly always free, and needs no timer then.
        let (_place, handle) = tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Err(McpError::Cancelled { request_sent: false }.into()),
            sent = sending => sent,
            () = sleep_until(call.deadline) => return Err(self.late(method, false).into()),
        };
        let handle = handle.map_err(|error| self.failure(error, false))?;
        let progress = Arc::new(Notify::new());
        let noticed = progress.clone();
        let receiver = call.progress();
        let _route = self.routes.add(
            handle.progress_token.clone(),
            Arc::new(move |step| {
                noticed.notify_one();
                if let Some(receiver) = &receiver {
                    receiver(step);
                }
            }),
        );
        let mut pending = Abandoned(Some(handle));
        let mut patience = Instant::now() + limit;
        loop {
            let Some(handle) = pending.0.as_mut() else { return Err(self.late(method, true).into()) };
            let until = patience.min(call.deadline);
            let answer = tokio::select! {
                biased;
                answer = &mut handle.rx => answer,
                () = call.cancel.cancelled() => {
                    pending.cancel("the user cancelled the request");
                    return Err(McpError::Cancelled { request_sent: true }.into());
                }
                () = sleep_until(until) => {
                    pending.cancel("the request timed out");
                    return Err(self.late(method, true).into());
                }
                () = progress.notified() => {
                    patience = Instant::now() + limit;
                    continue;
                }
            };
            pending.0 = None;
            return match answer {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(error)) => Err(self.failure(error, true)),
                Err(_) => {
                    self.fault.last_words().await;
                    Err(self.failure(ServiceError::TransportClosed, true))
                }
            };
        }
    }

    fn late(&self, method: &str, request_sent: bool) -> McpError {
        let message = format!("MCP server `{}` did not answer `{method}` in time", self.server);
        McpError::TimedOut { message, request_sent }
    }

    fn failure(&self, error: ServiceError, request_sent: bool) -> Failure {
        let server = &self.server;
        if error.is_authorization_required() || error.auth_challenge().is_some() {
            return Failure::Login(error.auth_challenge().map(str::to_owned));
        }
        Failure::Error(match error {
            ServiceError::McpError(error) => McpError::Server {
                server: server.clone(),
                code: error.code.0.into(),
                message: quoted(&error.message),
                data: error.data.map(|data| data.to_string()),
            },
            ServiceError::TransportSend(error) => {
                let text = without_query(causes(&*error.error), self.url.as_ref());
                if text.contains("HTTP 401") {
                    return Failure::Login(None);
                }
                // A connection that was never made carried nothing.
                let request_sent = request_sent && !is_connecting(&*error.error);
                let message = format!("MCP server `{server}` could not be asked: {text}");
                McpError::Failed { message, request_sent }
            }
            ServiceError::TransportClosed => match request_sent {
                true => McpError::sent(server, self.end_within(" before it answered")),
                false => McpError::unsent(server, self.end()),
            },
            error => McpError::Failed { message: format!("MCP server `{server}`: {}", causes(&error)), request_sent },
        })
    }

    fn summary(&self) -> String {
        let info = self.info();
        let info = info.as_deref();
        let software = info.and_then(|info| info.server_info.as_ref());
        serde_json::json!({
            "protocol": info.map(|info| info.protocol_version.to_string()),
            "software": software.map(|software| quoted(&format!("{} {}", software.name, software.version))),
        })
        .to_string()
    }
}

/// Returns whether a server announces changes of single resources.
pub(crate) fn announces_updates(info: &ServerPeerInfo) -> bool {
    info.capabilities.resources.as_ref().and_then(|resources| resources.subscribe) == Some(true)
}

/// Returns whether a server completes arguments of its prompts and resource templates.
fn completes(info: &ServerPeerInfo) -> bool {
    info.capabilities.completions.is_some()
}

/// Returns whether an error came before the request was sent.
fn is_connecting(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect) {
            return true;
        }
        cause = error.source();
    }
    false
}
