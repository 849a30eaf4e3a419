//! The import `mcp`.

use super::long;
use super::port::McpCall;
use super::{Mcp, McpGrant};
use crate::bindings::pinion::plugin::mcp::{self, McpError, Server};
use crate::calls::state::State;
use crate::convert::clip;
use pinion_plugin_contract::mcp::{self as checked, MAX_RESULT};
use pinion_plugin_journal::linker::Linker;
use pinion_plugin_programs::Spill;
use pinion_protocol::mcp::{McpFailure, McpRequest};
use pinion_protocol::{Content, ToolProgress};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use wasmtime::component::HasSelf;

/// Time that a request has to end after it was cancelled; less than the grace period of a call.
const CANCEL_PATIENCE: Duration = Duration::from_millis(200);
/// Bytes of one line of progress, and of all lines of one request.
const MAX_LINE: usize = 4096;
const MAX_LINES: usize = 1 << 20;

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    mcp::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl mcp::Host for State {
    async fn servers(&mut self) -> wasmtime::Result<Vec<Server>> {
        let Ok(grant) = self.call.authority.check_or_completes::<Mcp>() else { return Ok(Vec::new()) };
        let servers = self.mcp.servers().into_iter().filter(|server| grant.allows(&server.name));
        Ok(checked::servers(servers.collect()))
    }

    async fn connect(&mut self, server: String) -> wasmtime::Result<Result<(), McpError>> {
        let checked = checked::names(&[&server]);
        Ok(self.request(server, checked, McpRequest::Connect).await?.map(drop))
    }

    async fn call_tool(
        &mut self,
        server: String,
        name: String,
        arguments: String,
        extra: Option<String>,
    ) -> wasmtime::Result<Result<String, McpError>> {
        let checked = checked::names(&[&server, &name]).and_then(|()| checked::arguments(&arguments));
        match checked::called(name, arguments, extra.as_deref()) {
            Ok(request) => self.request(server, checked, request).await,
            Err(invalid) => self.request(server, checked.and(Err(invalid)), McpRequest::Connect).await,
        }
    }

    async fn get_prompt(
        &mut self,
        server: String,
        name: String,
        arguments: String,
    ) -> wasmtime::Result<Result<String, McpError>> {
        let checked = checked::names(&[&server, &name]).and_then(|()| checked::arguments(&arguments));
        self.request(server, checked, McpRequest::GetPrompt { name, arguments }).await
    }

    async fn list_resources(
        &mut self,
        server: String,
        cursor: Option<String>,
    ) -> wasmtime::Result<Result<String, McpError>> {
        let checked = checked::names(&[&server, cursor.as_deref().unwrap_or_default()]);
        self.request(server, checked, McpRequest::ListResources { cursor }).await
    }

    async fn list_resource_templates(
        &mut self,
        server: String,
        cursor: Option<String>,
    ) -> wasmtime::Result<Result<String, McpError>> {
        let checked = checked::names(&[&server, cursor.as_deref().unwrap_or_default()]);
        self.request(server, checked, McpRequest::ListResourceTemplates { cursor }).await
    }

    async fn read_resource(&mut self, server: String, uri: String) -> wasmtime::Result<Result<String, McpError>> {
        let checked = checked::names(&[&server, &uri]);
        self.request(server, checked, McpRequest::ReadResource { uri }).await
    }

    async fn complete(
        &mut self,
        server: String,
        reference: String,
        argument: String,
    ) -> wasmtime::Result<Result<String, McpError>> {
        let checked = checked::names(&[&server])
            .and_then(|()| checked::arguments(&reference))
            .and_then(|()| checked::arguments(&argument));
        self.request(server, checked, McpRequest::Complete { reference, argument }).await
    }

    async fn keep(&mut self, text: String) -> wasmtime::Result<Result<String, String>> {
        let directory = match self.call.authority.check::<Mcp>() {
            Ok(McpGrant { output, .. }) => output.clone(),
            Err(denied) => return Ok(Err(denied.to_string())),
        };
        self.account.capabilities.mcp.spend()?;
        let written = self.account.capabilities.files.written.clone();
        let kept = tokio::task::spawn_blocking(move || {
            let mut spill = Spill::new(&directory, written.budget());
            spill.push_output(text.as_bytes(), true);
            spill.finish()
        });
        Ok(kept.await.ok().flatten().ok_or_else(|| "the host could not write the file".to_owned()))
    }
}

impl State {
    /// Sends a request that passed `checked`, if it is granted.
    async fn request(
        &mut self,
        server: String,
        checked: Result<(), McpError>,
        request: McpRequest,
    ) -> wasmtime::Result<Result<String, McpError>> {
        let authority = &self.call.authority;
        let granted = match request {
            McpRequest::Complete { .. } => authority.check_or_completes::<Mcp>(),
            _ => authority.check::<Mcp>(),
        };
        let grant = match granted {
            Ok(grant) => grant,
            Err(denied) => return Ok(Err(McpError::Denied(denied.to_string()))),
        };
        if !grant.allows(&server) {
            let phrase = "use this MCP server";
            // The line replaces the one in the config.
            let mut servers: Vec<String> = grant.servers.iter().flatten().cloned().collect();
            servers.push(clip(&server, 80).to_owned());
            let denied = self.call.authority.not_granted(phrase, &format!("mcp = {servers:?}"));
            return Ok(Err(McpError::Denied(denied.to_string())));
        }
        self.account.capabilities.mcp.spend()?;
        if let Err(invalid) = checked {
            return Ok(Err(invalid));
        }
        let cancel = self.call.deadline.token().clone();
        let call = McpCall {
            cancel: cancel.clone(),
            deadline: self.call.deadline.at(),
            progress: Arc::new(ProgressLines { to: self.call.progress.clone(), left: AtomicUsize::new(MAX_LINES) }),
            session: self.call.session.clone(),
            services: self.call.services.clone(),
            only_connected: self.call.authority.is_completion(),
        };
        let port = self.mcp.clone();
        let sending = port.request(&server, request, call);
        let given_up = async {
            cancel.cancelled().await;
            tokio::time::sleep(CANCEL_PATIENCE).await;
        };
        let result = tokio::select! {
            biased;
            result = sending => result,
            () = given_up => Err(McpFailure::Cancelled { request_sent: true }),
        };
        match result {
            Ok(json) if json.len() > MAX_RESULT as usize => self.oversized(json).await,
            result => Ok(result.map_err(checked::error)),
        }
    }

    /// Keeps a result that is too long in a file, and returns a short one that names it.
    async fn oversized(&mut self, json: String) -> wasmtime::Result<Result<String, McpError>> {
        let too_large = || McpError::TooLarge(MAX_RESULT);
        let Ok(McpGrant { output, .. }) = self.call.authority.check::<Mcp>() else { return Ok(Err(too_large())) };
        let (directory, written) = (output.clone(), self.account.capabilities.files.written.clone());
        let kept = tokio::task::spawn_blocking(move || {
            let long = long::LongResult::read(&json)?;
            let mut spill = Spill::new(&directory, written.budget());
            spill.push_output(long.text.as_bytes(), true);
            Some(long.short(&spill.finish()?))
        });
        Ok(kept.await.ok().flatten().ok_or_else(too_large))
    }
}

/// Progress of a server, bounded.
struct ProgressLines {
    to: Arc<dyn ToolProgress>,
    /// Bytes that may still be reported.
    left: AtomicUsize,
}

impl ToolProgress for ProgressLines {
    fn report(&self, message: String) {
        let line = clip(&message, MAX_LINE);
        let spend = |left: usize| left.checked_sub(line.len().max(1));
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok() {
            self.to.report(line.to_owned());
        }
    }

    fn update(&self, _partial: Vec<Content>) {}
}
