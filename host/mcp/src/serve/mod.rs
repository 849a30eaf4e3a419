//! Tools of this program offered to other agents as an MCP server, over stdio or streamable HTTP.
//!
//! What is offered, and whether a call may run, is up to the application: see [`Offered`]. This module speaks the protocol:
//! 2026-07-28 and, for clients that begin with `initialize`, the versions before it.

mod convert;
mod dialog;
mod held;
mod http;
mod progress;

pub use convert::{OWN_CONTENT, own_content};
pub use http::{HttpError, HttpServer, HttpSettings};

use crate::serve::convert::{prompt, result, tool};
use crate::serve::dialog::ClientServices;
use crate::serve::held::{Finished, Held, Request, Step};
use crate::serve::progress::Reports;
use futures_util::future::BoxFuture;
use pinion_protocol::{LogLevel, Services, ToolDefinition, ToolProgress, ToolReply};
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CompletionInfo,
    ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, InputResponses,
    ListPromptsResult, ListToolsResult, PaginatedRequestParams, PromptMessage, Role, ServerCapabilities, ServerConfig,
    SubscriptionFilter,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer, ServiceExt as _, SubscriptionContext};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// Calls that run at a time; further ones wait.
const MAX_CALLS: usize = 64;
/// Bytes of a message over stdio.
const MAX_LINE: usize = 16 << 20;
/// Time for which clients may keep lists, in milliseconds. A list that changes is announced as well.
const LIST_TTL_MS: u64 = 5_000;

/// The tools and prompts of a server. All methods may be called concurrently.
pub trait Offered: Send + Sync + 'static {
    /// Returns the tools in a stable order.
    fn tools(&self) -> Vec<Arc<ToolDefinition>>;

    /// Returns the prompts in a stable order.
    fn prompts(&self) -> Vec<OfferedPrompt> {
        Vec::new()
    }

    /// Returns sentences about the tools for the client's model.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// Returns a channel that receives a new number when tools or prompts have changed.
    fn changed(&self) -> watch::Receiver<u64>;

    /// Runs a call. The arguments are unchecked.
    fn call(&self, call: OfferedCall) -> BoxFuture<'static, ToolReply>;

    /// Returns the content of a prompt.
    fn prompt(&self, call: PromptCall) -> BoxFuture<'static, Result<Vec<PromptPart>, String>> {
        Box::pin(async move { Err(format!("no prompt `{}`", call.name)) })
    }

    /// Completes the argument of a prompt.
    fn complete(&self, prompt: String, typed: String) -> BoxFuture<'static, Vec<String>> {
        let _ = (prompt, typed);
        Box::pin(async { Vec::new() })
    }
}

/// A prompt: a slash command of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedPrompt {
    /// Its name.
    pub name: String,
    /// A line about it.
    pub description: String,
    /// A hint about its arguments; none if it takes none.
    pub argument_hint: Option<String>,
}

/// A part of a prompt's content.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptPart {
    /// A text.
    Text(String),
    /// Content in the form of the protocol; one of an unknown form is left out.
    Own(Value),
}

/// A call of a client.
pub struct OfferedCall {
    /// The definition that was listed.
    pub tool: Arc<ToolDefinition>,
    /// The arguments as sent.
    pub arguments: Value,
    /// Cancelled when the client cancels the call, or is gone.
    pub token: CancellationToken,
    /// Receives progress.
    pub progress: Arc<dyn ToolProgress>,
    /// Lets the call ask the client's user and model.
    pub services: Services,
}

/// A request for a prompt.
pub struct PromptCall {
    /// Its name.
    pub name: String,
    /// The line of its arguments.
    pub arguments: String,
    /// Cancelled when the client gives up.
    pub token: CancellationToken,
    /// Lets the command ask the client's user and model.
    pub services: Services,
}

/// An MCP server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    offered: Arc<dyn Offered>,
    calls: Arc<Semaphore>,
    held: Arc<Held>,
    /// The lines of logs that the client of a session with `initialize` wants; none until it says so.
    least: Arc<Mutex<Option<LogLevel>>>,
    /// Cancelled when the server ends.
    token: CancellationToken,
}

impl Server {
    /// Creates a server. It ends when `token` is cancelled.
    pub fn new(offered: Arc<dyn Offered>, token: CancellationToken) -> Self {
        let calls = Arc::new(Semaphore::new(MAX_CALLS));
        Self { offered, calls, held: Arc::default(), least: Arc::default(), token }
    }

    /// Returns the same server for another session.
    fn for_session(&self) -> Self {
        Self { least: Arc::default(), ..self.clone() }
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
        let transport =
            rmcp::transport::async_rw::AsyncRwTransport::new_server(reader, writer).with_max_line_length(MAX_LINE);
        let running = match self.serve_with_ct(transport, token).await {
            Ok(running) => running,
            // A client that leaves before it says anything is no failure.
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
        given: InputResponses,
        context: &RequestContext<RoleServer>,
        begin: impl FnOnce(CancellationToken, Arc<dyn ToolProgress>, Services) -> BoxFuture<'static, Finished>,
    ) -> Result<Step, ErrorData> {
        let _permit = tokio::select! {
            permit = self.calls.acquire() => permit,
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
        };
        let request = match state {
            Some(state) => Request { given, ..self.held.take(&state, &subject)? },
            None => {
                let (progress, reports) = Reports::channel(context.meta.get_progress_token(), self.least(context));
                let (services, questions) = ClientServices::channel();
                let token = self.token.child_token();
                let running = begin(token.clone(), progress, Services::new(services));
                Request {
                    subject,
                    running,
                    reports,
                    questions,
                    given,
                    open: None,
                    lacked: None,
                    _stop: token.drop_guard(),
                }
            }
        };
        self.held.step(request, context).await
    }

    /// Returns the lowest severity of lines that the client of a request wants: since protocol 2026-07-28, requests say so.
    fn least(&self, context: &RequestContext<RoleServer>) -> Option<LogLevel> {
        let of_session = || *self.least.lock().unwrap_or_else(PoisonError::into_inner);
        context.meta.log_level().map_or_else(of_session, convert::severity)
    }

    fn find(&self, name: &str) -> Option<Arc<ToolDefinition>> {
        self.offered.tools().into_iter().find(|tool| tool.name == name)
    }

    /// Announces changes to a client that began with `initialize`, until it is gone.
    fn announce(&self, peer: Peer<RoleServer>) {
        let (mut changed, token) = (self.offered.changed(), self.token.clone());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    next = changed.changed() => if next.is_err() { return },
                    () = token.cancelled() => return,
                }
                let sent =
                    peer.notify_tool_list_changed().await.is_ok() && peer.notify_prompt_list_changed().await.is_ok();
                if !sent {
                    return;
                }
            }
        });
    }
}

impl ServerHandler for Server {
    #[expect(deprecated, reason = "clients still read logs")]
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_logging()
            .build();
        let info = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("pinion", env!("CARGO_PKG_VERSION")).with_title("Pinion"));
        match self.offered.instructions() {
            Some(instructions) => info.with_instructions(instructions),
            None => info,
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.offered.tools().iter().map(|definition| tool(definition)).collect();
        Ok(ListToolsResult::with_all_items(tools).with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.find(&request.name) else {
            return Err(ErrorData::invalid_params(format!("no tool `{}`", request.name), None));
        };
        let subject = format!("tools/call {}", request.name);
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let offered = self.offered.clone();
        let begin = move |token, progress, services| {
            let call = OfferedCall { tool, arguments, token, progress, services };
            let running = offered.call(call);
            Box::pin(async move { Finished::Tool(Box::new(running.await)) }) as BoxFuture<'static, Finished>
        };
        let given = request.input_responses.unwrap_or_default();
        match self.step(subject, request.request_state, given, &context, begin).await? {
            Step::Done(Finished::Tool(reply)) => Ok(CallToolResponse::Complete(result(*reply))),
            Step::Done(Finished::Prompt(_)) => Err(ErrorData::internal_error("another request", None)),
            Step::Ask(required) => Ok(required.into()),
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.offered.prompts().iter().map(prompt).collect();
        Ok(ListPromptsResult::with_all_items(prompts).with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if !self.offered.prompts().iter().any(|prompt| prompt.name == request.name) {
            return Err(ErrorData::invalid_params(format!("no prompt `{}`", request.name), None));
        }
        let subject = format!("prompts/get {}", request.name);
        let arguments = convert::arguments(request.arguments.unwrap_or_default());
        let (offered, name) = (self.offered.clone(), request.name);
        let begin = move |token, _, services| {
            let running = offered.prompt(PromptCall { name, arguments, token, services });
            Box::pin(async move { Finished::Prompt(running.await) }) as BoxFuture<'static, Finished>
        };
        let given = request.input_responses.unwrap_or_default();
        let parts = match self.step(subject, request.request_state, given, &context, begin).await? {
            Step::Done(Finished::Prompt(parts)) => parts.map_err(|error| ErrorData::invalid_params(error, None))?,
            Step::Done(Finished::Tool(_)) => return Err(ErrorData::internal_error("another request", None)),
            Step::Ask(required) => return Ok(required.into()),
        };
        let message = |part| Some(PromptMessage::new(Role::User, convert::prompt_part(part)?));
        Ok(GetPromptResult::new(parts.into_iter().filter_map(message).collect()).into())
    }

    #[expect(deprecated, reason = "clients of older protocols ask for logs in this way")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.least.lock().unwrap_or_else(PoisonError::into_inner) = convert::severity(request.level);
        Ok(())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let Some(name) = request.r#ref.as_prompt_name() else { return Ok(CompleteResult::default()) };
        let mut values = self.offered.complete(name.to_owned(), request.argument.value).await;
        values.truncate(CompletionInfo::MAX_VALUES);
        let completion = CompletionInfo::new(values).map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changed = self.offered.changed();
        let (tools, prompts) = (context.accepted().tools_list_changed, context.accepted().prompts_list_changed);
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.token.cancelled() => return Ok(()),
                next = changed.changed() => if next.is_err() { return Ok(()) },
            }
            let sink = context.sink();
            if tools == Some(true) && sink.notify_tool_list_changed().await.is_err() {
                return Ok(());
            }
            if prompts == Some(true) && sink.notify_prompt_list_changed().await.is_err() {
                return Ok(());
            }
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.announce(context.peer);
    }
}
