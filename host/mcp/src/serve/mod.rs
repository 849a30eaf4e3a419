//! Tools of this program offered to other agents as an MCP server, over stdio or streamable HTTP.
//!
//! The application decides on the offer, and whether a call may run: see [`Offered`]. This module speaks the protocol:
//! 2026-07-28 and, for clients that begin with `initialize`, the versions before it.

mod changes;
mod client;
mod convert;
mod expiring;
mod handler;
mod held_requests;
mod http;
mod lines;
mod offered;
mod progress;
mod question;
mod request;
mod resources;
mod tasks;

pub use client::Client;
pub use convert::{OWN_CONTENT, own_content};
pub use http::{HttpError, HttpServer, HttpServerSettings};
pub use offered::{Offered, OfferedCall, OfferedPrompt, OfferedReply, PromptCall, PromptPart};

use crate::serve::changes::OfferSnapshot;
use crate::serve::held_requests::{Continued, HeldRequests, RequestStep};
use crate::serve::lines::BoundedLineReader;
use crate::serve::progress::Reports;
use crate::serve::question::shows_forms;
use crate::serve::request::{FinishedRequest, RunningRequest};
use crate::serve::tasks::Tasks;
use futures_util::future::BoxFuture;
use pinion_protocol::{LogLevel, ServedTool, ToolProgress};
use rmcp::model::{ErrorData, InputResponses};
use rmcp::service::{Peer, RequestContext, RoleServer, ServiceExt as _};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Calls that run at a time; further ones wait.
const MAX_CALLS: usize = 64;
/// Bytes of a message over stdio.
const MAX_LINE: usize = 16 << 20;
/// Time that clients may keep lists and resources, in milliseconds. A list that changes is announced as well.
const LIST_TTL_MS: u64 = 5_000;

/// An MCP server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    offered: Arc<dyn Offered>,
    calls: Arc<Semaphore>,
    held: Arc<HeldRequests>,
    tasks: Arc<Tasks>,
    session: Arc<ClientSession>,
    /// Cancelled when the server ends.
    token: CancellationToken,
}

/// The wishes of a client that began with `initialize`.
#[derive(Default)]
struct ClientSession {
    /// The lines of logs that it wants; `None` until it says so.
    least: Mutex<Option<LogLevel>>,
    /// The resources that it subscribed to.
    subscribed: Mutex<BTreeSet<String>>,
    /// Notifies it of changes while the session lasts.
    announcer: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl ClientSession {
    fn subscribed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The function that begins the work of a request.
type Begin =
    Box<dyn FnOnce(CancellationToken, Arc<dyn ToolProgress>, Client) -> BoxFuture<'static, FinishedRequest> + Send>;

impl Server {
    /// Creates a server. It ends when `token` is cancelled.
    pub fn new(offered: Arc<dyn Offered>, token: CancellationToken) -> Self {
        let calls = Arc::new(Semaphore::new(MAX_CALLS));
        Self { offered, calls, held: Arc::default(), tasks: Arc::default(), session: Arc::default(), token }
    }

    /// Returns the same server for another session.
    fn for_session(&self) -> Self {
        Self { session: Arc::default(), ..self.clone() }
    }

    /// Serves one client over stdin and stdout until it closes them.
    ///
    /// # Errors
    /// The client does not speak the protocol.
    pub async fn serve_stdio(self) -> Result<(), String> {
        let (stdin, stdout) = rmcp::transport::stdio_pipes();
        self.serve_streams(stdin, stdout).await
    }

    /// Serves one client over a pair of streams.
    ///
    /// # Errors
    /// The client does not speak the protocol.
    pub async fn serve_streams<R, W>(self, reader: R, writer: W) -> Result<(), String>
    where
        R: tokio::io::AsyncRead + Send + Unpin + 'static,
        W: tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let token = self.token.clone();
        let reader = BoundedLineReader::new(reader, MAX_LINE);
        let transport =
            rmcp::transport::async_rw::AsyncRwTransport::new_server(reader, writer).with_max_line_length(MAX_LINE);
        let running = match self.serve_with_ct(transport, token).await {
            Ok(running) => running,
            // A client that leaves before it says anything is not a failure.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        running.waiting().await.map(drop).map_err(|error| error.to_string())
    }

    /// Begins a request, or continues the one that waits for this answer, and runs it to its next step.
    async fn step(
        &self,
        subject: String,
        state: Option<String>,
        given: Option<InputResponses>,
        may_be_task: bool,
        context: &RequestContext<RoleServer>,
        begin: Begin,
    ) -> Result<RequestStep, ErrorData> {
        let _permit = tokio::select! {
            permit = self.calls.acquire() => permit,
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
        };
        let given = given.unwrap_or_default();
        let continued = match state {
            Some(state) => self.held.take_request(&state, subject, given)?,
            None => {
                let (progress, reports) = Reports::channel(context.meta.get_progress_token(), self.least(context));
                let token = self.token.child_token();
                let run = |client| begin(token.clone(), progress, client);
                Continued::begin(subject, RunningRequest::begin(reports, token.clone().drop_guard(), run), given)
            }
        };
        self.held.step(continued, may_be_task, context).await
    }

    /// Returns the lowest severity of lines that the client of a request wants: since protocol 2026-07-28, requests say so.
    fn least(&self, context: &RequestContext<RoleServer>) -> Option<LogLevel> {
        let of_session = || *self.session.least.lock().unwrap_or_else(PoisonError::into_inner);
        context.meta.log_level().map_or_else(of_session, convert::severity)
    }

    /// Returns the tools for the client of a request.
    fn tools(&self, context: &RequestContext<RoleServer>) -> Vec<ServedTool> {
        self.offered.tools(context.client_capabilities().is_some_and(|client| shows_forms(&client)))
    }

    /// Announces changes to a client that began with `initialize`, until its session ends.
    fn announce(&self, peer: Peer<RoleServer>) {
        let can_ask = peer.peer_info().is_some_and(|info| shows_forms(&info.capabilities));
        let (mut changed, offered) = (self.offered.changed(), self.offered.clone());
        let session = Arc::downgrade(&self.session);
        let mut last = OfferSnapshot::from_offered(&*offered, can_ask);
        let announcing = async move {
            while changed.changed().await.is_ok() {
                let Some(wanted) = session.upgrade().map(|session| session.subscribed().clone()) else { return };
                let now = OfferSnapshot::from_offered(&*offered, can_ask);
                let changes = last.changes(&now, &wanted);
                last = now;
                if changes.notify(&peer).await.is_err() {
                    return;
                }
            }
        };
        let announcer = AbortOnDropHandle::new(tokio::spawn(announcing));
        *self.session.announcer.lock().unwrap_or_else(PoisonError::into_inner) = Some(announcer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_protocol::{TaskSupport, ToolDefinition};
    use serde_json::json;

    /// Returns a tool without effects.
    pub(super) fn tool(name: &str) -> ServedTool {
        let definition = ToolDefinition {
            name: name.to_owned(),
            label: String::new(),
            description: String::new(),
            input_schema: json!({ "type": "object" }),
            guidelines: Vec::new(),
            authority: Default::default(),
            execution: Default::default(),
            source: Default::default(),
        };
        ServedTool { definition: Arc::new(definition), resource: None, task: TaskSupport::None }
    }
}
