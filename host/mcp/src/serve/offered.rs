//! The tools and prompts that a server offers, and the requests that it passes on.

use super::client::Client;
use futures_util::future::BoxFuture;
use pinion_protocol::{Ledger, ServedTool, Services, ToolDefinition, ToolOutput, ToolProgress};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The tools and prompts of a server. All methods may be called concurrently.
pub trait Offered: Send + Sync + 'static {
    /// Returns the tools in a stable order: those that a client can call, which can ask its user about a call or not.
    fn tools(&self, can_ask: bool) -> Vec<ServedTool>;

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

    /// Decides on a call and runs it. The arguments are unchecked.
    fn call(&self, call: OfferedCall) -> BoxFuture<'static, OfferedReply>;

    /// Returns the content of a prompt.
    fn prompt(&self, call: PromptCall) -> BoxFuture<'static, Result<Vec<PromptPart>, String>> {
        Box::pin(async move { Err(format!("no prompt `{}`", call.name)) })
    }

    /// Completes the arguments of a prompt.
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
    /// A hint about its arguments; `None` if it takes no arguments.
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
    /// The definition that was offered.
    pub tool: Arc<ToolDefinition>,
    /// The arguments as sent.
    pub arguments: Value,
    /// Cancelled when the client cancels the call, or is gone.
    pub token: CancellationToken,
    /// Receives progress.
    pub progress: Arc<dyn ToolProgress>,
    /// Lets the call ask the client's user and model.
    pub client: Client,
}

/// The result of a call.
pub struct OfferedReply {
    /// The output, for the client's model also if the call failed.
    pub output: ToolOutput,
    /// True if the plugin broke down, or the host failed.
    pub is_fault: bool,
    /// The resources that the call used; `None` if it did not run.
    pub ledger: Option<Ledger>,
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
