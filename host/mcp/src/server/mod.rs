//! One configured server: started by its first request, restarted after it died, closed when idle.

mod connecting;
mod fetch;
mod keeper;
mod login;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, Shared};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Duration, Instant, sleep_until};
use tokio_util::task::TaskTracker;

use crate::catalogue::contact::{Contact, ContactOutcome};
use crate::catalogue::{Catalogue, cache, contact};
use crate::config::{ServerConfig, ServerTransport, ToolFilter};
use crate::connection::{Connection, RequestFailure};
use crate::error::McpError;
use crate::http::Http;
use crate::limits::{BACKOFF_FIRST, BACKOFF_MAX, HEALTHY, MAX_TASK_LOSSES};
use crate::oauth::OAuth;
use crate::ports::Ports;
use crate::questions::Questions;
use crate::request::{CallContext, Outgoing as _, Request};
use crate::tasks::{Followed, Tasks};
pub use pinion_protocol::mcp::{
    McpPrompt as PromptInfo, McpServer as ServerInfo, McpState as ServerState, McpTool as ToolInfo,
};

type ConnectAttempt = Shared<BoxFuture<'static, Result<Arc<Connection>, McpError>>>;

/// The connection.
enum ConnectionSlot {
    Empty,
    Connecting(ConnectAttempt, AbortHandle),
    Open(Arc<Connection>),
}

struct Inner {
    slot: ConnectionSlot,
    state: ServerState,
    enabled: bool,
    tools: ToolFilter,
    /// The same as the entry has them.
    entry: (bool, ToolFilter),
    problem: Option<String>,
    catalogue: Option<Arc<Catalogue>>,
    is_cache_read: bool,
    /// Failures in a row, and when to try again.
    failures: u32,
    retry_at: Option<Instant>,
    /// Last header that the server used to ask for a login.
    challenge: Option<String>,
    /// Logins with more scopes since the last request that succeeded.
    step_ups: u32,
    is_shut_down: bool,
}

/// Entries that were dropped in the line about a server; the rest is counted.
const MAX_SHOWN: usize = 8;

/// Returns the entries that were dropped, as one line.
fn summary(dropped: &[String]) -> Option<String> {
    let more = dropped.len().saturating_sub(MAX_SHOWN);
    let shown = dropped[..dropped.len() - more].join("; ");
    match more {
        0 => Some(shown).filter(|shown| !shown.is_empty()),
        _ => Some(format!("{shown}; and {more} more")),
    }
}

/// One configured server.
pub(crate) struct ConfiguredServer {
    pub(crate) config: ServerConfig,
    identity: String,
    ports: Arc<Ports>,
    http: Arc<Http>,
    oauth: Option<OAuth>,
    questions: Questions,
    tasks: Arc<Tasks>,
    changed: watch::Sender<u64>,
    inner: Mutex<Inner>,
    /// Connections that are not closed to the end.
    keepers: TaskTracker,
}

impl ConfiguredServer {
    pub(crate) fn new(
        config: ServerConfig,
        ports: Arc<Ports>,
        http: Arc<Http>,
        tasks: Arc<Tasks>,
        changed: watch::Sender<u64>,
    ) -> Self {
        let identity = config.identity();
        let oauth = match &config.transport {
            ServerTransport::Http { url, .. } => Some(OAuth::new(
                url.clone(),
                config.oauth.clone(),
                config.oauth.client_metadata.clone().or_else(|| ports.client_metadata.clone()),
                &identity,
                ports.tokens.clone(),
                http.clone(),
            )),
            ServerTransport::Stdio { .. } => None,
        };
        let inner = Inner {
            slot: ConnectionSlot::Empty,
            state: ServerState::Idle,
            enabled: config.enabled,
            tools: config.tools.clone(),
            entry: (config.enabled, config.tools.clone()),
            problem: None,
            catalogue: None,
            is_cache_read: false,
            failures: 0,
            retry_at: None,
            challenge: None,
            step_ups: 0,
            is_shut_down: false,
        };
        // Paths of this machine mean nothing to a server on another one.
        let roots: &[_] = if oauth.is_none() { &ports.workspace_roots } else { &[] };
        let questions = Questions::new(&config.name, ports.person.clone(), roots);
        Self {
            config,
            identity,
            ports,
            http,
            oauth,
            questions,
            tasks,
            changed,
            inner: Mutex::new(inner),
            keepers: TaskTracker::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self) -> &Path {
        &self.ports.cache
    }

    fn notify(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Returns the catalogue, reading the cache the first time.
    fn catalogue(&self) -> Option<Arc<Catalogue>> {
        let mut inner = self.lock();
        if !inner.is_cache_read {
            inner.is_cache_read = true;
            if inner.catalogue.is_none() {
                inner.catalogue = cache::read(self.cache(), &self.identity).map(Arc::new);
            }
        }
        inner.catalogue.clone()
    }

    /// Returns the last contact with the server, which may come from an earlier process.
    pub(crate) fn contact(&self) -> Option<Contact> {
        contact::read(self.cache(), &self.identity)
    }

    /// Keeps the outcome of a contact for lists of servers.
    fn note(&self, outcome: ContactOutcome, problem: Option<&str>) {
        if let Err(error) = contact::write(self.cache(), &self.identity, outcome, problem) {
            tracing::debug!("cannot note the state of MCP server `{}`: {error}", self.config.name);
        }
    }

    /// Returns a text that changes when the server would offer something else, apart from its catalogue.
    pub(crate) fn fingerprint(&self) -> String {
        let tasks = self.tasks.unattended(&self.identity);
        let inner = self.lock();
        format!("{:?} {} {} {:?} {tasks:?}\n", self.config.name, self.identity, inner.enabled, inner.tools)
    }

    pub(crate) fn info(&self) -> ServerInfo {
        let catalogue = self.catalogue();
        let catalogue = catalogue.as_deref();
        let inner = self.lock();
        let state = if inner.enabled { inner.state } else { ServerState::Disabled };
        let dropped = catalogue.map(|catalogue| catalogue.problems.clone()).unwrap_or_default();
        let tool = |tool: &crate::catalogue::CatalogueEntry| ToolInfo {
            name: tool.name.clone(),
            definition: tool.definition.clone(),
            enabled: inner.tools.allows(&tool.name),
        };
        let prompt = |prompt: &crate::catalogue::CatalogueEntry| PromptInfo {
            name: prompt.name.clone(),
            definition: prompt.definition.clone(),
        };
        ServerInfo {
            name: self.config.name.clone(),
            identity: self.identity.clone(),
            state,
            problem: inner.problem.clone().or_else(|| summary(&dropped)),
            dropped,
            instructions: catalogue.and_then(|c| c.instructions.clone()),
            protocol: catalogue.map(|c| c.protocol.clone()),
            software: catalogue.map(|c| c.software.clone()),
            tools: catalogue.map(|c| c.tools.iter().map(tool).collect()).unwrap_or_default(),
            prompts: catalogue.map(|c| c.prompts.iter().map(prompt).collect()).unwrap_or_default(),
            has_resources: catalogue.is_some_and(|c| c.has_resources),
            tasks: self.tasks.unattended(&self.identity),
            is_known: catalogue.is_some(),
        }
    }

    pub(crate) async fn request(self: &Arc<Self>, request: &Request, call: &CallContext) -> Result<String, McpError> {
        let tasks = self.tasks.unattended(&self.identity);
        let result = self.send(request, call).await;
        // Results that can be fetched are part of the server's offer.
        if self.tasks.unattended(&self.identity) != tasks {
            self.notify();
        }
        result
    }

    async fn send(self: &Arc<Self>, request: &Request, call: &CallContext) -> Result<String, McpError> {
        if let Request::CallTool { name, .. } = request
            && !self.lock().tools.allows(name)
        {
            return Err(McpError::unsent(
                &self.config.name,
                format!("has no enabled tool `{}`", crate::error::quoted(name)),
            ));
        }
        if call.only_connected {
            return self.request_connected(request, call).await;
        }
        let mut following = match request {
            Request::FollowTask { id } | Request::CancelTask { id } => Some(self.task(id)?),
            _ => None,
        };
        let limit = self.config.call_timeout;
        let (mut has_retried, mut losses) = (false, 0);
        loop {
            let connection = self.live_connection(call).await?;
            let done = match following.take_if(|_| !matches!(request, Request::CancelTask { .. })) {
                Some(task) => connection.resume_task(task, call, limit, &self.questions).await,
                None => connection.perform(request, call, limit, &self.questions).await,
            };
            match done {
                Ok(result) => {
                    following.into_iter().for_each(Followed::end);
                    // Only an answer shows health: some servers start and then fail at their first request.
                    if *request != Request::Connect {
                        let mut inner = self.lock();
                        inner.failures = 0;
                        inner.retry_at = None;
                        inner.step_ups = 0;
                    }
                    return Ok(result);
                }
                Err(RequestFailure::Lost(error)) => {
                    // Without an effect there is no second one. Otherwise another connection may do if nothing was sent, as
                    // when a server ended while it was idle.
                    let may_repeat = if error.request_sent() { request.only_reads() } else { connection.is_closed() };
                    if has_retried || !may_repeat {
                        return Err(error);
                    }
                    has_retried = true;
                    self.forget_if_closed(&connection);
                }
                Err(RequestFailure::Task(task, error)) => {
                    if losses == MAX_TASK_LOSSES {
                        return Err(error);
                    }
                    self.forget_if_closed(&connection);
                    let wait = Instant::now() + Duration::from_secs(1 << losses);
                    tokio::select! {
                        biased;
                        () = call.cancel.cancelled() => {}
                        () = sleep_until(wait.min(call.deadline)) => {}
                    }
                    losses += 1;
                    following = Some(task);
                }
                Err(RequestFailure::Error(error)) => return Err(error),
                Err(RequestFailure::Login(challenge)) => {
                    let error = self.require_login(challenge);
                    // The server refused the request, so that it may be repeated with a new token.
                    if has_retried || !self.oauth.as_ref().is_some_and(OAuth::may_log_in_alone) {
                        return Err(error);
                    }
                    has_retried = true;
                }
            }
        }
    }

    /// Returns a task of an earlier call that no request waits for.
    fn task(&self, id: &str) -> Result<Followed, McpError> {
        let task = self.tasks.resume(&self.identity, id);
        let unknown = || format!("has no task `{}` that waits to be fetched", crate::error::quoted(id));
        task.ok_or_else(|| McpError::unsent(&self.config.name, unknown()))
    }

    fn forget_if_closed(&self, connection: &Arc<Connection>) {
        if connection.is_closed() {
            self.forget(connection);
        }
    }

    /// Keeps a fetched catalogue, in memory and on disk if it differs.
    fn store(&self, catalogue: Catalogue) -> Arc<Catalogue> {
        let catalogue = Arc::new(catalogue);
        let before = self.lock().catalogue.replace(catalogue.clone());
        if before.as_deref() != Some(&*catalogue)
            && let Err(error) = cache::write(self.cache(), &self.identity, &catalogue)
        {
            tracing::warn!("cannot cache the tools of MCP server `{}`: {error}", self.config.name);
        }
        catalogue
    }

    /// Takes over the catalogue that a server announced to have changed.
    fn replace(&self, catalogue: Catalogue) {
        if self.lock().catalogue.as_deref() != Some(&catalogue) {
            self.store(catalogue);
            self.notify();
        }
    }

    /// Forgets a connection that ended.
    fn forget(&self, connection: &Arc<Connection>) {
        let mut inner = self.lock();
        if matches!(&inner.slot, ConnectionSlot::Open(current) if Arc::ptr_eq(current, connection)) {
            inner.slot = ConnectionSlot::Empty;
            inner.state = ServerState::Idle;
        }
    }

    /// Notes the end of a connection, which the server brought about unless `is_wanted`.
    fn ended(&self, connection: &Arc<Connection>, is_wanted: bool) {
        let mut inner = self.lock();
        let is_current = matches!(&inner.slot, ConnectionSlot::Open(current) if Arc::ptr_eq(current, connection));
        if is_current {
            inner.slot = ConnectionSlot::Empty;
            inner.state = ServerState::Idle;
        }
        let mut end = None;
        if !is_wanted {
            if is_current {
                inner.state = ServerState::Failed;
                end = Some(connection.end());
                inner.problem.clone_from(&end);
            }
            if connection.opened.elapsed() < HEALTHY {
                back_off(&mut inner);
            }
        }
        drop(inner);
        end.into_iter().for_each(|end| self.note(ContactOutcome::Failed, Some(&end)));
        self.notify();
    }

    /// Closes the connection or the attempt to connect.
    fn close(&self, inner: &mut Inner) {
        match std::mem::replace(&mut inner.slot, ConnectionSlot::Empty) {
            ConnectionSlot::Empty => {}
            ConnectionSlot::Connecting(_, abort) => abort.abort(),
            ConnectionSlot::Open(connection) => connection.stop.cancel(),
        }
        inner.state = ServerState::Idle;
    }

    /// Switches the server on or off; off closes its connection.
    pub(crate) fn set_enabled(&self, enabled: bool) {
        let mut inner = self.lock();
        inner.enabled = enabled;
        if !enabled {
            self.close(&mut inner);
        }
        drop(inner);
        self.notify();
    }

    /// Takes over the choice of tools of a changed entry, and whether it is switched on. A choice of the session stays
    /// if the entry still says the same about it. Returns whether that changes anything.
    pub(crate) fn take_over(&self, config: &ServerConfig) -> bool {
        let (enabled, tools) = {
            let mut inner = self.lock();
            let before = std::mem::replace(&mut inner.entry, (config.enabled, config.tools.clone()));
            let is_switched = before.0 != config.enabled && inner.enabled != config.enabled;
            (is_switched, before.1 != config.tools && inner.tools != config.tools)
        };
        if enabled {
            self.set_enabled(config.enabled);
        }
        if tools {
            self.set_tools(config.tools.clone());
        }
        enabled || tools
    }

    /// Returns the entry as it was read last.
    pub(crate) fn entry(&self) -> ServerConfig {
        let mut config = self.config.clone();
        (config.enabled, config.tools) = self.lock().entry.clone();
        config
    }

    /// Sets the tools that are offered.
    pub(crate) fn set_tools(&self, tools: ToolFilter) {
        self.lock().tools = tools;
        self.notify();
    }

    /// Closes the connection and forgets failures; the next request connects again at once.
    pub(crate) fn reset(&self) {
        let mut inner = self.lock();
        self.close(&mut inner);
        inner.failures = 0;
        inner.retry_at = None;
        inner.problem = None;
        drop(inner);
        self.notify();
    }

    /// Sends a request over the open connection. Connects to nothing, repeats nothing, and leaves it to other requests to
    /// find out that the server wants a login.
    pub(super) async fn request_connected(&self, request: &Request, call: &CallContext) -> Result<String, McpError> {
        let connection = self.open_connection()?;
        let result = connection.perform(request, call, self.config.call_timeout, &self.questions).await;
        result.map_err(|failure| match failure {
            RequestFailure::Error(error) | RequestFailure::Lost(error) | RequestFailure::Task(_, error) => error,
            RequestFailure::Login(_) => McpError::LoginRequired { server: self.config.name.clone() },
        })
    }

    /// Returns the open connection. A server that is switched off or shut down has no connection.
    fn open_connection(&self) -> Result<Arc<Connection>, McpError> {
        match &self.lock().slot {
            ConnectionSlot::Open(connection) if !connection.is_closed() => Ok(connection.clone()),
            _ => Err(McpError::unsent(&self.config.name, "is not connected")),
        }
    }

    /// Closes the connection for good.
    pub(crate) fn shut_down(&self) {
        let mut inner = self.lock();
        inner.is_shut_down = true;
        self.close(&mut inner);
    }

    /// Waits until all connections are closed and their processes ended.
    pub(crate) async fn closed(&self) {
        self.keepers.close();
        self.keepers.wait().await;
    }
}

/// Counts a failure and sets when to try again.
fn back_off(inner: &mut Inner) {
    let wait = BACKOFF_FIRST.saturating_mul(1 << inner.failures.min(10)).min(BACKOFF_MAX);
    inner.failures = inner.failures.saturating_add(1);
    // Many servers that one event ended must not start at the same moment.
    let jitter = wait.mul_f64(0.5 * fastrand::f64());
    inner.retry_at = Some(Instant::now() + wait / 2 + jitter);
}
