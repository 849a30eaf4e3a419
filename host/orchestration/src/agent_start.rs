//! The start of sub-agents from their parent's conversation.
//!
//! Such a sub-agent gets a copy of the history as the parent's model saw it, without the reply that makes the call: its
//! calls have no results yet, and every vendor refuses a history with an open call. The system prompt stays the parent's,
//! and the brief follows the task, so that the vendor's cache of the parent's requests counts for the sub-agent's as well.
//! Its session has only its own messages.

use crate::sub_agents::BRIEF;
use futures_util::future::BoxFuture;
use pinion_agent::selection::Selection;
use pinion_protocol::definition::{Instructions, ToolDefinition};
use pinion_protocol::message::Message;
use pinion_protocol::tool::{ANSWER_TOOL, ToolExecutor, ToolInvocation, ToolProgress, ToolReply};
use std::sync::Arc;

/// The reason why a sub-agent cannot call one of the tools that its requests name.
const NOT_FOR_SUB_AGENTS: &str = "sub-agents cannot call it here";

/// Returns the history before the reply that makes a call; empty if no reply makes it.
pub(crate) fn before_call<'a>(history: &'a [Arc<Message>], call_id: &str) -> &'a [Arc<Message>] {
    let makes_call = |message: &Arc<Message>| match &**message {
        Message::Assistant(reply) => reply.tool_calls().any(|call| call.id == call_id),
        _ => false,
    };
    &history[..history.iter().rposition(makes_call).unwrap_or_default()]
}

/// Words the task for a sub-agent whose system prompt and history are its parent's.
pub(crate) fn task_with_brief(task: &str, instructions: &str) -> String {
    format!("{task}\n\n{BRIEF} The conversation before this message is the other agent's.{instructions}")
}

/// Names the parent's tools in requests, and runs only a sub-agent's.
pub(crate) struct SharedOffer {
    own: Arc<Selection>,
    parent: Arc<dyn ToolExecutor>,
}

impl SharedOffer {
    /// Returns the tools of a sub-agent. Its requests name the parent's if the sub-agent lacks only tools that start agents:
    /// a longer list of tools that are refused would mislead the model.
    pub(crate) fn of_parent(own: Arc<Selection>, parent: &Arc<dyn ToolExecutor>) -> Arc<dyn ToolExecutor> {
        let names = own.names();
        let is_like = |tool: &Arc<ToolDefinition>| {
            names.contains(&tool.name) || tool.authority.delegates || tool.name == ANSWER_TOOL
        };
        match parent.offered().iter().all(is_like) {
            true => Arc::new(Self { own, parent: parent.clone() }),
            false => own,
        }
    }
}

impl ToolExecutor for SharedOffer {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.own.definitions()
    }

    fn offered(&self) -> Vec<Arc<ToolDefinition>> {
        self.parent.offered()
    }

    fn instructions(&self) -> Vec<Instructions> {
        self.own.instructions()
    }

    fn withheld(&self, tool: &str) -> Option<String> {
        let is_offered = || self.parent.offered().iter().any(|other| other.name == tool);
        self.own.withheld(tool).or_else(|| is_offered().then(|| NOT_FOR_SUB_AGENTS.to_owned()))
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        self.own.call(call, progress)
    }
}
