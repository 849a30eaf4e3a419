//! One connection to a server: requests, their limits, cancellation and progress.

mod alive;
mod early_task;
mod elicitation;
mod fault;
pub(crate) mod handler;
mod message;
mod open;
mod pipe;
mod post;
mod reply;
mod scan;
mod skills;
mod sse;
mod task;
mod traffic;
mod watched_resources;
mod web;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ClientRequest, CustomResult, ServerPeerInfo, ServerResult};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

pub(crate) use handler::{Handler, Routes};
pub use handler::{OnProgress, RequestProgress};
pub(crate) use open::{OpenError, OpenedConnection, Opener};
pub(crate) use traffic::Traffic;
pub(crate) use watched_resources::Watched;

use crate::config::ServerConfig;
use crate::error::{McpError, causes, quoted, without_query};
use crate::limits::{MAX_IN_FLIGHT, MAX_INPUT_ROUNDS};
use crate::questions::Questions;
use crate::request::{CallContext, InputAnswers, Outgoing as _, Request};
use crate::tasks::{Followed, Tasks};
use fault::Fault;
use skills::Skills;
use traffic::Counted;

/// Wait for a cancellation to reach the server.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

/// Wait for a subscription to a resource.
const SUBSCRIBE_WAIT: Duration = Duration::from_secs(10);

/// Failure of one request.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    Error(McpError),
    /// The connection, or the request on its way, was lost.
    Lost(McpError),
    /// The connection was lost while the server works on a task, which goes on.
    Task(Followed, McpError),
    /// The server wants a login, or one with more scopes; with the header that said so.
    Login(Option<String>),
}

impl From<McpError> for RequestFailure {
    fn from(error: McpError) -> Self {
        Self::Error(error)
    }
}

/// An open connection, shared by its requests.
#[derive(Debug)]
pub(crate) struct Connection {
    server: String,
    identity: String,
    tasks: Arc<Tasks>,
    url: Option<Url>,
    peer: Peer<RoleClient>,
    routes: Routes,
    fault: Fault,
    pub(crate) watched: Watched,
    skills: Skills,
    places: Semaphore,
    traffic: Traffic,
    last_used: Mutex<Instant>,
    /// Time of the last fetch of the catalogue, and how long that is good for.
    lifetime: watch::Sender<Option<(Instant, Duration)>>,
    pub(crate) opened: Instant,
    /// A request timed out, and nothing has been heard of the server since.
    is_doubtful: AtomicBool,
    /// No further request uses the connection, which ends with the last one.
    is_retired: AtomicBool,
    /// Ends the connection.
    pub(crate) stop: CancellationToken,
}

/// Counts a request in flight until it is dropped.
struct InFlight<'a> {
    connection: &'a Connection,
    count: Option<Counted<'a>>,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        *self.connection.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.count = None;
        self.connection.end_if_retired();
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
    pub(crate) fn new(config: &ServerConfig, opened: &OpenedConnection, tasks: Arc<Tasks>) -> Self {
        Self {
            server: config.name.clone(),
            identity: config.identity(),
            tasks,
            url: config.url().cloned(),
            peer: opened.running.peer().clone(),
            routes: opened.running.service().routes.clone(),
            fault: opened.fault.clone(),
            watched: opened.running.service().watched.clone(),
            skills: Skills::default(),
            places: Semaphore::new(MAX_IN_FLIGHT),
            traffic: opened.running.service().traffic.clone(),
            last_used: Mutex::new(Instant::now()),
            lifetime: watch::Sender::new(None),
            opened: Instant::now(),
            is_doubtful: AtomicBool::new(false),
            is_retired: AtomicBool::new(false),
            stop: CancellationToken::new(),
        }
    }

    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    pub(crate) fn info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.peer.peer_info()
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

    /// Counts a request that begins.
    fn begin(&self) -> InFlight<'_> {
        InFlight { connection: self, count: Some(self.traffic.request()) }
    }

    /// Sends a request, answers the server's questions, and returns the result as JSON.
    pub(crate) async fn perform(
        &self,
        request: &Request,
        call: &CallContext,
        limit: Duration,
        questions: &Questions,
    ) -> Result<String, RequestFailure> {
        if matches!(request, Request::Complete { .. }) && !self.info().is_some_and(|info| completes(&info)) {
            return Err(McpError::unsent(&self.server, "does not complete arguments").into());
        }
        let _in_flight = self.begin();
        let mut inputs = InputAnswers::default();
        let mut rounds = 0;
        let mut is_task = false;
        loop {
            let message = request.message(inputs).map_err(|problem| McpError::unsent(&self.server, problem))?;
            let Some(message) = message else { return Ok(self.summary()) };
            let message = if is_task { early_task::augmented(message) } else { message };
            let result = match self.send(message, call, limit, request.method()).await {
                Err(RequestFailure::Error(error)) if !is_task && early_task::is_wanted(request, &error) => {
                    (inputs, is_task) = (InputAnswers::default(), true);
                    continue;
                }
                Ok(result) if !is_task && early_task::is_refusal(request, &result) => {
                    (inputs, is_task) = (InputAnswers::default(), true);
                    continue;
                }
                Err(RequestFailure::Error(error)) if rounds < MAX_INPUT_ROUNDS && !call.only_connected => {
                    let Some(pages) = elicitation::wanted(&error) else { return Err(error.into()) };
                    self.during(call, self.visit(pages, questions)).await?;
                    (inputs, rounds) = (InputAnswers::default(), rounds + 1);
                    continue;
                }
                result => result?,
            };
            let required = match result {
                ServerResult::InputRequiredResult(required) => required,
                ServerResult::CreateTaskResult(created) if matches!(request, Request::CallTool { .. }) => {
                    return self.begin_task(request, created.task, call, limit, questions).await;
                }
                ServerResult::CustomResult(CustomResult(value)) if is_task && early_task::id(&value).is_some() => {
                    return self.begin_early_task(request, &value, call, limit, questions).await;
                }
                result if request.accepts(&result) => {
                    let json = match result {
                        ServerResult::CustomResult(CustomResult(value)) => {
                            serde_json::to_string(&reply::repaired(request, value))
                        }
                        result => serde_json::to_string(&result),
                    };
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
            inputs = self.during(call, self.answer(required, questions, rounds)).await?;
            rounds += 1;
        }
    }

    /// Watches a resource that was read, if the server announces changes of single resources.
    fn watch(&self, uri: &str) {
        let Some(info) = self.info().filter(|info| announces_updates(info)) else { return };
        // Since protocol 2026-07-28, the subscription of the keeper names all resources.
        if self.watched.read(uri) && info.protocol_version.has_initialize() {
            let (peer, request) = (self.peer.clone(), watched_resources::subscribe(uri));
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
    ) -> Result<ServerResult, RequestFailure> {
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
            // The limit is the server's, and pauses while the user answers one of its questions.
            let asks = self.traffic.changed();
            let until = if self.traffic.is_asking() { call.deadline } else { patience.min(call.deadline) };
            let answer = tokio::select! {
                biased;
                answer = &mut handle.rx => answer,
                () = call.cancel.cancelled() => {
                    pending.cancel("the user cancelled the request");
                    return Err(McpError::Cancelled { request_sent: true }.into());
                }
                () = sleep_until(until) => {
                    pending.cancel("the request timed out");
                    self.doubt();
                    return Err(self.late(method, true).into());
                }
                () = progress.notified() => {
                    patience = Instant::now() + limit;
                    continue;
                }
                () = asks => {
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

    fn failure(&self, error: ServiceError, request_sent: bool) -> RequestFailure {
        let server = &self.server;
        if error.is_authorization_required() || error.auth_challenge().is_some() {
            return RequestFailure::Login(error.auth_challenge().map(str::to_owned));
        }
        match error {
            ServiceError::McpError(error) => RequestFailure::Error(McpError::Server {
                server: server.clone(),
                code: error.code.0.into(),
                message: quoted(&error.message),
                data: error.data.map(|data| data.to_string()),
            }),
            ServiceError::TransportSend(error) => {
                if web::failure(&error).and_then(web::status) == Some(401) {
                    return RequestFailure::Login(None);
                }
                if matches!(web::failure(&error), Some(web::WebError::SessionExpired)) {
                    self.retire();
                    return RequestFailure::Lost(McpError::unsent(server, "no longer knows the session"));
                }
                let text = without_query(web::describe(&error), self.url.as_ref());
                let message = format!("MCP server `{server}` could not be asked: {text}");
                RequestFailure::Lost(McpError::Failed {
                    message,
                    request_sent: request_sent && !web::is_unsent(&error),
                })
            }
            ServiceError::TransportClosed => RequestFailure::Lost(match request_sent {
                true => McpError::sent(server, self.end_within(" before it answered")),
                false => McpError::unsent(server, self.end()),
            }),
            error => {
                let message = format!("MCP server `{server}`: {}", causes(&error));
                RequestFailure::Error(McpError::Failed { message, request_sent })
            }
        }
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
