//! Connecting: one attempt at a time, which all requests share and which outlives them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt as _;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::fetch::fetch;
use super::{ConfiguredServer, ConnectAttempt, ConnectionSlot, ServerState, back_off, keeper};
use crate::catalogue::Catalogue;
use crate::catalogue::contact::ContactOutcome;
use crate::connection::{Connection, Handler, OpenError, Opener, RequestFailure, Routes, Traffic, Watched};
use crate::error::{McpError, without_query};
use crate::limits::BACKOFF_SAT_OUT;
use crate::request::CallContext;

/// The connection that a request can have.
enum AvailableConnection {
    Open(Arc<Connection>),
    Connecting(ConnectAttempt),
}

impl ConfiguredServer {
    /// Returns a connection whose server still answers.
    pub(super) async fn live_connection(self: &Arc<Self>, call: &CallContext) -> Result<Arc<Connection>, McpError> {
        loop {
            let connection = self.connection(call).await?;
            if self.within(call, connection.is_alive()).await? {
                return Ok(connection);
            }
            connection.stop.cancel();
            self.forget(&connection);
        }
    }

    /// Returns the open connection, or opens one.
    async fn connection(self: &Arc<Self>, call: &CallContext) -> Result<Arc<Connection>, McpError> {
        match self.attempt()? {
            AvailableConnection::Open(connection) => Ok(connection),
            AvailableConnection::Connecting(attempt) => self.within(call, attempt).await?,
        }
    }

    /// Waits for something, unless the call ends before. A result that is ready costs no timer.
    async fn within<T>(&self, call: &CallContext, wanted: impl Future<Output = T>) -> Result<T, McpError> {
        tokio::select! {
            biased;
            wanted = wanted => Ok(wanted),
            () = call.cancel.cancelled() => Err(McpError::Cancelled { request_sent: false }),
            () = sleep_until(call.deadline) => Err(self.late()),
        }
    }

    fn late(&self) -> McpError {
        let message = format!("MCP server `{}` was not ready in time", self.config.name);
        McpError::TimedOut { message, request_sent: false }
    }

    /// Returns the open connection, or joins or starts an attempt to connect. All requests that wait share it, and it outlives
    /// them.
    fn attempt(self: &Arc<Self>) -> Result<AvailableConnection, McpError> {
        let mut inner = self.lock();
        let name = &self.config.name;
        if inner.is_shut_down {
            return Err(McpError::unsent(name, "is shut down"));
        }
        if !inner.enabled {
            return Err(McpError::Disabled { server: name.clone() });
        }
        match &inner.slot {
            ConnectionSlot::Open(connection) if !connection.is_closed() => {
                return Ok(AvailableConnection::Open(connection.clone()));
            }
            ConnectionSlot::Connecting(attempt, _) => return Ok(AvailableConnection::Connecting(attempt.clone())),
            _ => {}
        }
        let now = Instant::now();
        let wait = inner.retry_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        if wait > BACKOFF_SAT_OUT {
            let problem = inner.problem.clone().unwrap_or_else(|| "failed".to_owned());
            let seconds = wait.as_secs() + 1;
            let text = format!("{problem} ({} failures in a row, next attempt in {seconds} s)", inner.failures);
            return Err(McpError::unsent(name, text));
        }
        let server = self.clone();
        let task = tokio::spawn(async move {
            sleep_until(now + wait).await;
            server.connect().await
        });
        let abort = task.abort_handle();
        let name = name.clone();
        let attempt =
            async move { task.await.unwrap_or_else(|_| Err(McpError::unsent(&name, "was stopped while it started"))) };
        let attempt = attempt.boxed().shared();
        inner.slot = ConnectionSlot::Connecting(attempt.clone(), abort);
        inner.state = ServerState::Starting;
        drop(inner);
        self.notify();
        Ok(AvailableConnection::Connecting(attempt))
    }

    /// Connects, fetches the catalogue, and leaves the connection in the slot.
    async fn connect(self: Arc<Self>) -> Result<Arc<Connection>, McpError> {
        let limit = self.config.startup_timeout;
        let result = timeout(limit, self.open()).await;
        let result = result
            .unwrap_or_else(|_| Err(OpenError::Failed(format!("was not ready within {} s", limit.as_secs_f32()))));
        let mut inner = self.lock();
        let result = match result {
            Ok((connection, catalogue)) => {
                inner.state = ServerState::Ready;
                inner.problem = None;
                inner.slot = ConnectionSlot::Open(connection.clone());
                inner.catalogue = Some(catalogue);
                Ok(connection)
            }
            Err(OpenError::Login(challenge)) => {
                inner.slot = ConnectionSlot::Empty;
                inner.state = ServerState::LoginRequired;
                inner.problem = Some("requires a login".to_owned());
                inner.challenge = challenge.or(inner.challenge.take());
                Err(McpError::LoginRequired { server: self.config.name.clone() })
            }
            Err(OpenError::Failed(problem)) => {
                let problem = without_query(problem, self.config.url());
                inner.slot = ConnectionSlot::Empty;
                inner.state = ServerState::Failed;
                back_off(&mut inner);
                inner.problem = Some(problem.clone());
                Err(McpError::unsent(&self.config.name, problem))
            }
        };
        let problem = inner.problem.clone();
        drop(inner);
        let outcome = match &result {
            Ok(_) => ContactOutcome::Ready,
            Err(McpError::LoginRequired { .. }) => ContactOutcome::LoginRequired,
            Err(_) => ContactOutcome::Failed,
        };
        self.note(outcome, problem.as_deref().filter(|_| outcome == ContactOutcome::Failed));
        self.notify();
        result
    }

    async fn open(self: &Arc<Self>) -> Result<(Arc<Connection>, Arc<Catalogue>), OpenError> {
        let is_deaf = self.catalogue().is_some_and(|catalogue| catalogue.is_deaf);
        let changes = Arc::new(Notify::new());
        let handler = Handler {
            questions: self.questions.clone(),
            routes: Routes::default(),
            traffic: Traffic::default(),
            changes: changes.clone(),
            watched: Watched::default(),
        };
        let opener = Opener {
            config: &self.config,
            launcher: &*self.ports.launcher,
            http: &self.http,
            oauth: self.oauth.as_ref(),
            handler,
            is_deaf,
        };
        let opened = match opener.open().await {
            Err(OpenError::Login(challenge)) => {
                self.log_in_alone(challenge).await?;
                opener.open().await?
            }
            opened => opened?,
        };
        let connection = Arc::new(Connection::new(&self.config, &opened, self.tasks.clone()));
        // From here on the keeper ends the connection, also if this future is dropped.
        let guard = connection.stop.clone().drop_guard();
        let keeper = keeper::keep(Arc::downgrade(self), opened, connection.clone(), changes, self.config.idle_timeout);
        self.keepers.spawn(keeper);
        let fetched = fetch(&connection, self.config.startup_timeout).await.map_err(|failure| match failure {
            RequestFailure::Login(challenge) => OpenError::Login(challenge),
            RequestFailure::Error(error) | RequestFailure::Lost(error) | RequestFailure::Task(_, error) => {
                OpenError::Failed(format!("does not list its tools: {}", error.without_culprit(&self.config.name)))
            }
        })?;
        let catalogue = self.store(fetched);
        guard.disarm();
        Ok((connection, catalogue))
    }
}
