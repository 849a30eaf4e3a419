//! The port that the tools of a run use to start other runs.
//!
//! The loop opens a [`RunChildren`] when a run starts, gives each tool call a handle to start sub-agents, adds their spend
//! to its own, and closes them before the run ends.

use crate::config::LoopConfig;
use crate::context::Context;
use futures_util::future::BoxFuture;
use pinion_interaction::channel::EventWatchers;
use pinion_protocol::content::ToolCall;
use pinion_protocol::delegation::SubAgents;
use pinion_protocol::limits::Budget;
use pinion_protocol::message::Message;
use pinion_protocol::services::{CompletionAnswer, CompletionError, CompletionTask};
use pinion_protocol::usage::Spend;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A starting run, as the parent of others.
#[derive(Clone, Copy)]
pub struct Parent<'a> {
    /// Its conversation and its id.
    pub context: &'a Context,
    /// Its config, the base of its children's configs.
    pub config: &'a LoopConfig,
    /// The budget that its children share with it.
    pub budget: &'a Arc<Budget>,
    /// The watchers that also see the events of its children.
    pub events: &'a EventWatchers,
    /// Cancelled when the run is aborted.
    pub token: &'a CancellationToken,
}

/// Lets the tools of runs start other runs.
pub trait Spawner: Send + Sync {
    /// Opens the children of a starting run; `None` when its tools must not start runs.
    fn open(&self, parent: Parent<'_>) -> Option<Arc<dyn RunChildren>>;
}

/// Lets the tools of runs ask models.
pub trait Completer: Send + Sync {
    /// Asks a model with the config of the run, whose shared budget its spend counts against. Returns the spend, too.
    fn complete<'a>(
        &'a self,
        config: &'a LoopConfig,
        task: CompletionTask,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, (Result<CompletionAnswer, CompletionError>, Spend)>;
}

/// The children of one run.
pub trait RunChildren: Send + Sync {
    /// Returns the handle that a call uses to start sub-agents. Cancelling `token` cancels them. `history` is the parent's
    /// conversation up to the message with the call.
    fn for_call(self: Arc<Self>, call: &ToolCall, history: &[Arc<Message>], token: &CancellationToken) -> SubAgents;

    /// Returns the spend of children since the last call of this method.
    fn take_spent(&self) -> Spend;

    /// Returns the number of children that work in the background.
    fn in_background(&self) -> usize {
        0
    }

    /// Returns the reports of children in the background since the last call of this method.
    fn take_reports(&self) -> Vec<Message> {
        Vec::new()
    }

    /// Waits for a report of a child in the background. Returns `false` if there is no such child.
    fn reported(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }

    /// Cancels the children that still work and waits for their end.
    fn close(&self) -> BoxFuture<'_, ()>;
}
