//! Separate directories of sub-agents.
//!
//! The tools of a run, the approval of its calls, its hooks and its system prompt all depend on its directory. So a
//! directory comes with all four, and a sub-agent gets them together. The application opens directories through the
//! port [`AgentDirectories`].

use crate::sub_agents::BRIEF;
use futures_util::future::BoxFuture;
use pinion_agent::approval::Approval;
use pinion_agent::hooks::Hooks;
use pinion_agent::{LoopConfig, ToolExecutor};
use pinion_protocol::delegation::{AgentKind, AgentStart, Assignment, SubAgentError, WorkDirectory};
use pinion_protocol::hook::PluginHooks;
use std::sync::Arc;

/// Text after the brief of a sub-agent that works in a copy.
const COPY_BRIEF: &str = " You work in a copy of the other agent's directory, without its repository and without \
                          files that it ignores. Your changes stay in the copy until the other agent applies them.";

/// Opens directories for sub-agents.
pub trait AgentDirectories: Send + Sync {
    /// Opens a copy of the directory in which runs with the config `parent` work. The error is a text for people and
    /// models.
    fn open<'a>(&'a self, parent: &'a LoopConfig) -> BoxFuture<'a, Result<AgentDirectory, String>>;
}

/// Everything that the directory of a sub-agent decides.
pub struct AgentDirectory {
    /// The tools, which act in the directory alone.
    pub tools: Arc<dyn ToolExecutor>,
    /// Judges calls in the directory.
    pub approval: Approval,
    /// The application's hooks, in place of the parent's.
    pub hooks: Vec<Arc<dyn Hooks>>,
    /// The hooks of plugins, in place of the parent's.
    pub plugin_hooks: Option<Arc<dyn PluginHooks>>,
    /// The system prompt, which names the directory.
    pub system_prompt: String,
    /// The work in the directory. Dropping it discards the work.
    pub work: Box<dyn DirectoryWork>,
}

/// The work of one sub-agent in its directory.
pub trait DirectoryWork: Send + Sync {
    /// Ends the work of the run `run_id` and closes the directory. Returns a text about the changes for the parent's
    /// model.
    fn close(self: Box<Self>, run_id: Arc<str>) -> BoxFuture<'static, String>;
}

impl AgentDirectory {
    /// Returns the parent's config with everything that the directory decides.
    pub(crate) fn config(&self, parent: &LoopConfig) -> LoopConfig {
        let mut config = parent.clone();
        config.ports.tools = self.tools.clone();
        config.ports.approval = self.approval.clone();
        config.ports.hooks = self.hooks.clone();
        config.ports.plugin_hooks = self.plugin_hooks.clone();
        config.directory = WorkDirectory::Copy;
        config
    }
}

/// Opens the directory that a kind asks for; `None` if it works in its parent's directory.
///
/// # Errors
/// The assignment does not fit a separate directory, or there is none.
pub(crate) async fn open_directory(
    directories: Option<&Arc<dyn AgentDirectories>>,
    assignment: &Assignment,
    kind: &AgentKind,
    attempts: u32,
    parent: &LoopConfig,
) -> Result<Option<AgentDirectory>, SubAgentError> {
    if kind.directory == WorkDirectory::Parent {
        return Ok(None);
    }
    let failed = |message: &str| SubAgentError::Directory { message: message.to_owned() };
    if attempts > 1 {
        return Err(failed("several attempts share the directory of the conversation; start one"));
    }
    if assignment.start == AgentStart::Conversation {
        return Err(failed("the conversation is about another directory; start it with the task alone"));
    }
    let directories =
        directories.ok_or_else(|| failed("agents in a copy start only agents that work in the same copy"))?;
    directories.open(parent).await.map(Some).map_err(|message| SubAgentError::Directory { message })
}

/// Returns the brief of a sub-agent.
pub(crate) fn brief(directory: Option<&AgentDirectory>) -> String {
    format!("{BRIEF}{}", directory.map_or("", |_| COPY_BRIEF))
}
