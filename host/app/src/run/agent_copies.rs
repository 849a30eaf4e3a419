//! Runs of sub-agents in copies of the workspace.
//!
//! A copy has its own [`Base`] and plugin runtime, so that grants, rules, excluded files, the sandbox of programs and the
//! system prompt are about the copy. The original is closed to all of them.

use crate::approve::audit::AuditedTools;
use crate::approve::permissions::CallPermissions;
use crate::failure::with_causes;
use crate::mcp::lazy_servers::LazyServers;
use crate::model::daily_spend::DailyLimit;
use crate::model::info::SessionInfo;
use crate::options::RunOptions;
use crate::plugins::builtin::BRIDGE;
use crate::plugins::sources::Purpose;
use crate::run::built_in::BuiltIns;
use crate::run::change_tools::ChangeTools;
use crate::run::net_question::NetQuestion;
use crate::run::notices::announce_compiling;
use crate::undo::agent_copy::AgentCopy;
use crate::undo::keeper::Keeper;
use crate::workspace_base::Base;
use futures_util::future::BoxFuture;
use pinion_agent::delegation::{SubAgentPolicy, WorkDirectory};
use pinion_agent::secrets::RedactedTools;
use pinion_agent::selection::Selection;
use pinion_agent::text::count;
use pinion_agent::{Agent, Authority, Hooks, JoinedTools, LoopConfig, ToolExecutor};
use pinion_checkpoints::{GapReason, ImportedChanges, RelPath};
use pinion_orchestration::{AgentDirectories, AgentDirectory, DirectoryWork};
use pinion_plugin_runtime::{PluginSource, Runtime};
use pinion_session_store::printable;
use std::path::Path;
use std::sync::Arc;

/// Names of files that are left out of a sentence about them.
const MAX_NAMED: usize = 3;

/// Opens copies of the workspace for sub-agents.
pub(crate) struct AgentCopies {
    base: Base,
    options: RunOptions,
    keeper: Arc<Keeper>,
    info: Arc<SessionInfo>,
    /// Whether a user takes part, who can be asked about hosts.
    has_user: bool,
}

impl AgentCopies {
    /// Opens copies for the sub-agents of a run.
    pub(crate) fn new(
        base: &Base,
        options: &RunOptions,
        keeper: Arc<Keeper>,
        info: Arc<SessionInfo>,
        has_user: bool,
    ) -> Self {
        Self { base: base.clone(), options: options.clone(), keeper, info, has_user }
    }

    async fn open_copy(&self, parent: &LoopConfig) -> Result<AgentDirectory, String> {
        let (base, keeper) = (self.base.clone(), self.keeper.clone());
        let copy = tokio::task::spawn_blocking(move || AgentCopy::create(&base, &keeper)).await;
        let copy = copy.map_err(|error| error.to_string())??;
        let runtime = self.runtime(&copy.base).await?;
        let built_ins = BuiltIns::for_run(&copy.base, &self.options, Purpose::Run, &runtime);
        built_ins.check().map_err(|failure| failure.to_string())?;
        let tools = confined(&copy.base, copy.base.offered(&self.options, runtime.clone()));
        copy.base.tell_permissions();
        let mut hooks: Vec<Arc<dyn Hooks>> = vec![Arc::new(built_ins)];
        hooks.extend(DailyLimit::from_config(&self.base).map(|limit| limit as Arc<dyn Hooks>));
        if self.has_user {
            let audit = self.base.permissions.audit.clone();
            hooks.push(Arc::new(NetQuestion::new(self.base.network.clone(), audit)));
        }
        let mut system_prompt = copy.base.system_prompt(&self.options, &self.base.context(&self.options));
        if let Some(gaps) = listed(&copy.gaps) {
            system_prompt.push_str(&format!("\nNot in this copy of the directory: {gaps}\n"));
        }
        Ok(AgentDirectory {
            tools,
            approval: parent.ports.approval.clone().with_rules(copy.base.permissions.clone()),
            hooks,
            plugin_hooks: Some(runtime),
            system_prompt,
            work: Box::new(CopyWork { copy, keeper: self.keeper.clone() }),
        })
    }

    /// Loads the plugins of the run for a copy, without those for MCP servers, which act on the original. All are waited
    /// for, because their hooks check the calls.
    async fn runtime(&self, base: &Base) -> Result<Arc<Runtime>, String> {
        let screen = base.screen.clone();
        let notice = move |notice| announce_compiling(&*screen, &notice);
        let runtime = base.runtime(base.begin_engine(), self.info.clone(), notice);
        let runtime = Arc::new(runtime.map_err(|failure| failure.to_string())?);
        runtime.begin_offers();
        let sources = self.base.sources(&self.options, Purpose::Run).into_iter();
        let sources: Vec<PluginSource> = sources.filter(|source| !is_bridge(source)).collect();
        runtime.begin(sources.clone()).settled().await;
        runtime.offers_settled().await;
        // A plugin that is missing might have denied a call by its hook.
        match sources.iter().find(|source| !runtime.has_source(source) && self.base.grants_hooks()) {
            Some(missing) => Err(format!("the plugin `{missing}` was not loaded for it")),
            None => Ok(runtime),
        }
    }
}

impl AgentDirectories for AgentCopies {
    fn open<'a>(&'a self, parent: &'a LoopConfig) -> BoxFuture<'a, Result<AgentDirectory, String>> {
        Box::pin(self.open_copy(parent))
    }
}

impl Base {
    /// Returns whether a kind of sub-agent works in a copy of the workspace.
    pub(crate) fn has_copies(&self) -> bool {
        self.config.sub_agents.kinds.iter().any(|kind| kind.directory == WorkDirectory::Copy)
    }

    /// Adds the tools for changes in copies, which the options select as others.
    pub(crate) fn add_change_tools(&self, options: &RunOptions, agent: &Agent) -> Arc<ChangeTools> {
        let changes = Arc::new(ChangeTools::new(self.permissions.clone()));
        let redacted = Arc::new(RedactedTools::new(changes.clone(), self.secrets.clone()));
        let mut own: Arc<dyn ToolExecutor> =
            Arc::new(AuditedTools { inner: redacted, audit: self.permissions.audit.clone() });
        if let Some(selects) = self.selected_tools(options) {
            own = Arc::new(Selection::new(own, Authority::ALL).with_predicate(selects));
        }
        agent.configure(|config| {
            config.ports.tools = Arc::new(JoinedTools::new([own, config.ports.tools.clone()]));
        });
        changes
    }

    /// Lets sub-agents whose kinds ask for it work in copies.
    pub(crate) fn open_copies(&self, agent: &Agent, copies: AgentCopies) {
        let copies: Arc<dyn AgentDirectories> = Arc::new(copies);
        agent.configure(|config| {
            let policy = SubAgentPolicy { models: config.ports.models.clone(), ..self.config.sub_agents.clone() };
            let running = self.running_agents.clone();
            config.ports.spawner = Some(pinion_orchestration::sub_agents_in(policy, running, Some(copies)));
        });
    }

    /// Returns the base of runs in `copy`, which has the files of the workspace. Rules and exclusions are the workspace's, and
    /// nothing in the copy reaches the workspace.
    ///
    /// # Errors
    /// The exclusions cannot be compiled.
    pub(crate) fn for_copy(&self, copy: &Path) -> Result<Self, String> {
        let config = self.config.for_copy(copy).map_err(|error| with_causes(&error))?;
        let permissions = CallPermissions::new(&self.paths, copy, &config, self.permissions.audit.clone());
        let permissions = Arc::new(permissions.of_project(&self.workspace));
        let mcp = Arc::new(LazyServers::new(self.screen.clone()));
        let (workspace, copied_from) = (copy.to_owned(), Some(self.workspace.clone()));
        Ok(Self { workspace, copied_from, config, permissions, mcp, ..self.clone() })
    }
}

/// Leaves out tools that run programs if programs would not be confined to the copy.
fn confined(base: &Base, tools: Arc<dyn ToolExecutor>) -> Arc<dyn ToolExecutor> {
    let is_confined = base.sandbox().is_some_and(|sandbox| sandbox.confines(base.output.directory()).is_ok());
    match is_confined {
        true => tools,
        false => Arc::new(Selection::new(tools, Authority { executes: false, ..Authority::ALL })),
    }
}

fn is_bridge(source: &PluginSource) -> bool {
    matches!(source, PluginSource::BuiltIn { name, .. } if *name == BRIDGE)
}

/// The work of a sub-agent in a copy.
struct CopyWork {
    copy: AgentCopy,
    keeper: Arc<Keeper>,
}

impl DirectoryWork for CopyWork {
    fn close(self: Box<Self>, run_id: Arc<str>) -> BoxFuture<'static, String> {
        Box::pin(async move {
            let run = run_id.clone();
            let finished = tokio::task::spawn_blocking(move || self.copy.finish(&run, &self.keeper)).await;
            match finished.map_err(|error| error.to_string()) {
                Ok(Ok(changes)) => note(&run_id, &changes),
                Ok(Err(problem)) | Err(problem) => {
                    format!("Its changes in the copy of the directory are lost: {problem}")
                }
            }
        })
    }
}

/// Words the changes for the parent's model.
fn note(run_id: &str, changes: &ImportedChanges) -> String {
    let missing = listed(&changes.missing).map(|missing| format!(" Changes without a copy are lost: {missing}."));
    let missing = missing.unwrap_or_default();
    match changes.changed {
        0 => format!("It worked in a copy of the directory and changed nothing there.{missing}"),
        changed => format!(
            "It worked in a copy of the directory and changed {} there. Nothing changed here: `agent_changes` with run \
             `{run_id}` shows the changes, and `apply_agent_changes` makes them here.{missing}",
            count(changed as u64, "path")
        ),
    }
}

/// Names the first paths and the number of the others.
fn listed(gaps: &[(RelPath, GapReason)]) -> Option<String> {
    let gaps: Vec<_> = gaps.iter().filter(|(_, reason)| *reason != GapReason::Special).collect();
    let named = gaps.iter().take(MAX_NAMED);
    let mut named: Vec<String> =
        named.map(|(path, reason)| format!("`{}` ({reason})", printable(&path.to_string()))).collect();
    if gaps.len() > MAX_NAMED {
        named.push(count((gaps.len() - MAX_NAMED) as u64, "other path"));
    }
    (!named.is_empty()).then(|| named.join(", "))
}

#[cfg(test)]
#[path = "agent_copies_tests.rs"]
mod tests;
