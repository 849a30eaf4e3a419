//! Puts a run together: model, plugins, session and agent.

use crate::approve::Person;
use crate::approve::audit::AuditedTools;
use crate::failure::{Failure, Result};
use crate::model::Chosen;
use crate::model::daily_spend::DailyLimit;
use crate::model::info::SessionInfo;
use crate::model::plugin_budgets::PluginBudgets;
use crate::options::RunOptions;
use crate::plugins::builtin::{BRIDGE, BuiltIn, FIRST_CALLED};
use crate::plugins::sources::Purpose;
use crate::process::own_command::compile_plugins;
use crate::process::running_programs::revert_killed;
use crate::prompt::context::Context as ContextFiles;
use crate::prompt::{Instructions, system_prompt};
use crate::run::agent_copies::AgentCopies;
use crate::run::agents::{Branches, ConfiguredModels};
use crate::run::built_in::BuiltIns;
use crate::run::change_tools::{APPLY, SHOW};
use crate::run::journal::SessionJournal;
use crate::run::net_question::NetQuestion;
use crate::run::session::OpenSession;
use crate::undo::keeper::Keeper;
use crate::workspace_base::Base;
use pinion_agent::approval::Approval;
use pinion_agent::config::{MessageQueue, QueueMode};
use pinion_agent::delegation::{FoundModel, ModelSource as _, SubAgentPolicy};
use pinion_agent::provider::RequestOptions;
use pinion_agent::secrets::RedactedTools;
use pinion_agent::selection::Selection;
use pinion_agent::{Agent, AgentError, Authority, Context, LoopConfig, Message, Outcome, ToolExecutor};
use pinion_pictures::FittingTools;
use pinion_plugin_runtime::{Notice, PluginSource, Runtime};
use pinion_session_store::{SessionDirectory, printable, was_interrupted};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A run that is ready for prompts.
pub struct Ready {
    /// The agent.
    pub agent: Arc<Agent>,
    /// The plugins.
    pub runtime: Arc<Runtime>,
    /// The session.
    pub session: OpenSession,
    /// The facts about the run that plugins and the UI read.
    pub info: Arc<SessionInfo>,
    /// The context files that the system prompt contains.
    pub context: ContextFiles,
    branches: Option<Branches>,
    built_ins: Arc<BuiltIns>,
    /// Takes snapshots for undo.
    pub keeper: Arc<Keeper>,
    /// Records the calls of plugins.
    pub journal: SessionJournal,
    /// Problem of the user's plugin directory.
    plugin_directory: Option<String>,
}

impl Ready {
    /// Returns a notice for each plugin that is not ready yet and joins later.
    pub fn slow_plugins(&self) -> Vec<String> {
        let slow = self.runtime.being_loaded();
        slow.iter().map(|plugin| format!("plugin `{}` is still loading", printable(plugin))).collect()
    }

    /// Returns the notices to show before a run begins. Called when they are shown, because changes are reported only
    /// once.
    pub fn notices(&self, base: &Base) -> Vec<String> {
        self.context.remember();
        let context = self.context.notices().cloned().chain(Instructions::notices(&base.paths));
        let servers = base.mcp_config().all_notices();
        let notices = base
            .project_notices()
            .into_iter()
            .chain(servers)
            .chain(context)
            .chain(self.session.notices.iter().cloned());
        let notices = notices.chain(self.plugin_directory.clone()).chain(self.slow_plugins());
        notices.chain(self.keeper.take_notices()).collect()
    }

    /// Returns the names of the context files that the model reads.
    pub fn context_files(&self) -> Vec<String> {
        self.context.names()
    }

    /// Takes over changes of the context files, for the next request. Returns notices about them.
    pub fn refresh_context(&mut self, base: &Base, options: &RunOptions) -> Vec<String> {
        let files = base.context(options);
        let changes = files.changes_since(&self.context);
        if !changes.is_empty() {
            self.agent.set_system_prompt(base.system_prompt(options, &files));
            files.remember();
            self.context = files;
        }
        changes
    }

    /// Runs prompts, or continues the last run of the session without any; on branches if the config asks for them.
    pub async fn work(&self, prompts: Vec<Message>) -> std::result::Result<Outcome, AgentError> {
        if self.branches.as_ref().is_some_and(Branches::may_write) {
            self.keeper.begin_group().await;
        }
        let outcome = match &self.branches {
            Some(branches) => branches.run(&self.agent, prompts).await,
            None if prompts.is_empty() => self.agent.resume().await,
            None => self.agent.run(prompts).await,
        };
        self.keeper.end_turn().await;
        self.journal.flush();
        outcome
    }

    /// Keeps the agent and the plugins in memory for the rest of the program, which is about to end: the system takes all
    /// of it back at once, and faster than one after another.
    pub fn leak(&self) {
        self.journal.flush();
        std::mem::forget((self.agent.clone(), self.runtime.clone()));
    }

    /// Lets a separate process compile the plugins that are not ready when a run or a conversation ends. Returns a
    /// notice about them.
    pub fn compile_later(&self, base: &Base) -> Option<String> {
        let plugins = self.runtime.being_loaded();
        base.compiled_code().filter(|_| !plugins.is_empty())?;
        let process = compile_plugins(&base.workspace)?;
        let names: Vec<String> = plugins.iter().map(|plugin| format!("`{}`", printable(plugin))).collect();
        Some(format!("still compiling {} in the background (process {process})", names.join(", ")))
    }

    /// Fails if a built-in plugin was lost.
    pub fn check_built_ins(&self) -> Result<()> {
        self.built_ins.check()
    }

    /// Returns whether the last run of the session was interrupted or failed.
    pub fn is_unfinished(&self) -> bool {
        self.agent.lease().is_ok_and(|lease| lease.can_continue().is_ok())
    }
}

/// Time that a start waits for the tools of MCP servers.
const OFFERS: Duration = Duration::from_secs(1);

impl Base {
    /// Returns a notice if the last session of this directory ended within a run, and a conversation begins another one.
    fn interrupted_session(&self, options: &RunOptions) -> Option<String> {
        if !options.is_conversation || options.continues() {
            return None;
        }
        let latest = SessionDirectory::new(self.paths.sessions()).latest(&self.workspace).ok()??;
        was_interrupted(&latest.path)
            .then(|| "the last conversation in this directory was interrupted: `pinion -c` continues it".to_owned())
    }

    /// Puts a run together: model, plugins, session and agent.
    pub async fn ready(
        &self,
        options: &RunOptions,
        purpose: Purpose,
        approver: Arc<dyn Person>,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Ready> {
        let engine = self.begin_engine();
        self.mcp.set_present();
        let chosen = self.chosen(options).await?;
        let mut session = OpenSession::from_args(self, options)?;
        session.notices.extend(chosen.notices.iter().cloned());
        session.notices.extend(self.interrupted_session(options));
        session.notices.extend(revert_killed(&self.paths.removed(), &self.permissions.audit));
        self.output.begin(&session.id, session.on_disk.is_some());
        self.output.sweep();
        let info = SessionInfo::new(self.models()?, &self.config.sub_agents.kinds, &chosen);
        let info = Arc::new(info.with_budgets(PluginBudgets::from_config(self)));
        let journal = SessionJournal::new(self, session.on_disk.as_ref());
        let runtime = Arc::new(self.recorded_runtime(engine, info.clone(), journal.clone(), on_notice)?);
        let built_ins = Arc::new(BuiltIns::for_run(self, options, purpose, &runtime));
        if let Some(last) = session.messages.last() {
            runtime.continue_session(session.id.clone(), last.timestamp().into());
        }
        runtime.begin_offers();
        self.load(options, purpose, &runtime).await;
        built_ins.check()?;
        self.require_named(options, &runtime)?;
        self.require_checks(options, purpose, &runtime).await?;
        let models = ConfiguredModels::new(self, &chosen);
        let branches = Branches::from_section(&self.config.branches, &models, &chosen).await?;
        let tools = self.tools(options, runtime.clone())?;
        session.notices.extend(self.unknown_tools(options, &runtime));
        let summarizer = match &self.config.summary_model {
            Some(name) => Some(models.model(name).await.map_err(Failure::usage)?),
            None => None,
        };
        let context = self.context(options);
        let user = Some(approver.clone()).filter(|_| matches!(purpose, Purpose::Conversation));
        let window = chosen.window.clone().filter(|_| purpose == Purpose::Conversation);
        let parts = AgentParts { chosen, tools, approver, session: &session, context: &context, summarizer };
        let agent = Arc::new(self.agent(options, parts));
        agent.set_totals(session.totals);
        self.learn_window(window, &agent);
        let question = user.as_ref().map(|_| NetQuestion::new(self.network.clone(), self.permissions.audit.clone()));
        let changes = self.has_copies().then(|| self.add_change_tools(options, &agent));
        let keeper = Arc::new(Keeper::new(self, options, &agent, user));
        if let Some(changes) = changes {
            changes.use_keeper(&keeper);
            let copies = AgentCopies::new(self, options, keeper.clone(), info.clone(), question.is_some());
            self.open_copies(&agent, copies);
        }
        keeper.begin(session.on_disk.as_ref());
        keeper.recover().await;
        agent.configure(|config| {
            config.ports.hooks.push(built_ins.clone());
            config.ports.hooks.push(keeper.clone());
            if let Some(limit) = DailyLimit::from_config(self) {
                config.ports.hooks.push(limit);
            }
            if let Some(question) = question {
                config.ports.hooks.push(Arc::new(question));
            }
            config.ports.plugin_hooks = Some(runtime.clone());
        });
        let plugin_directory = self.directory_notice(options);
        info.watch(&agent);
        Ok(Ready { agent, runtime, session, info, context, branches, built_ins, keeper, journal, plugin_directory })
    }

    /// Loads plugins and waits for built-in ones and those from the command line. Plugins in directories join when they
    /// are ready, unless the options name tools that only they can offer, or one of them may have to check the first
    /// prompt.
    async fn load(&self, options: &RunOptions, purpose: Purpose, runtime: &Runtime) {
        let named: Vec<PluginSource> = options.plugins.iter().map(|path| self.named(path)).collect();
        let (in_directories, wanted): (Vec<PluginSource>, Vec<PluginSource>) = self
            .sources(options, purpose)
            .into_iter()
            .partition(|source| matches!(source, PluginSource::File { .. }) && !named.contains(source));
        let (wanted, in_directories) = (runtime.begin(wanted), runtime.begin(in_directories));
        wanted.settled().await;
        if self.has_mcp_servers() || self.has_skills() || self.has_apis() {
            // The offers of servers come from a cache. Without it, the first request would name other tools.
            let _ = tokio::time::timeout(OFFERS, runtime.offers_settled()).await;
        }
        // Most runs read a file first. The code is ready when the model has answered.
        let _ = runtime.begin_code(FIRST_CALLED);
        if purpose == Purpose::Conversation {
            // It has to learn of changes of the servers.
            let _ = runtime.begin_code(BRIDGE);
        }
        let definitions = runtime.definitions();
        let has = |name: &String| definitions.iter().any(|tool| tool.name == *name);
        let needs_all = options.tools.as_ref().is_some_and(|names| !names.iter().all(has));
        if needs_all || self.grants_hooks() {
            in_directories.settled().await;
            if needs_all {
                runtime.offers_settled().await;
            }
            return;
        }
        in_directories.settled_before(Instant::now() + load_timeout(purpose)).await;
    }

    /// Takes over changes of `mcp.json`, like [`Base::reload_mcp`], and of skills. With the first server or skill, loads the
    /// plugin for it and waits for its offer, as a start does.
    pub async fn refresh_offers(&self, options: &RunOptions, runtime: &Runtime) -> Option<String> {
        let changed = self.reload_mcp();
        let is_missing = |plugin: &&BuiltIn| !runtime.has_plugin(plugin.name);
        let offering = self
            .built_in(options, Purpose::Conversation)
            .filter(|plugin| plugin.is_for_servers || plugin.is_for_skills);
        let missing: Vec<PluginSource> = offering.filter(is_missing).map(BuiltIn::source).collect();
        let has_missing = !missing.is_empty();
        runtime.begin(missing).settled().await;
        if self.has_skills() {
            runtime.refresh().await;
        }
        if has_missing || self.has_skills() {
            let _ = tokio::time::timeout(OFFERS, runtime.offers_settled()).await;
        }
        changed
    }

    /// Fails if a plugin from the command line was not loaded. Those in directories are optional.
    pub fn require_named(&self, options: &RunOptions, runtime: &Runtime) -> Result<()> {
        let mut sources = options.plugins.iter().map(|path| self.named(path));
        match sources.find(|source| !runtime.has_source(source)) {
            Some(missing) => Err(Failure::usage(format!("the plugin `{missing}` was not loaded"))
                .hint("see the notice above (without one, the plugin is disabled in the config)")),
            None => Ok(()),
        }
    }

    /// Reads the context files of a run.
    pub fn context(&self, options: &RunOptions) -> ContextFiles {
        match options.no_context_files {
            true => ContextFiles::default(),
            false => {
                let home = crate::files::paths::home();
                ContextFiles::read(&self.paths, &self.workspace, home.as_deref(), &self.config.exclusions)
            }
        }
    }
}

/// Id of the agent that the command runs, the same in every process that continues a session.
const AGENT_ID: &str = "agent";

/// The parts of an agent that differ between runs.
pub struct AgentParts<'a> {
    /// The model.
    pub chosen: Chosen,
    /// The tools.
    pub tools: Arc<dyn ToolExecutor>,
    /// The user who is asked.
    pub approver: Arc<dyn Person>,
    /// The session.
    pub session: &'a OpenSession,
    /// The context files.
    pub context: &'a ContextFiles,
    /// The model that writes summaries, unless it is the chosen one.
    pub summarizer: Option<FoundModel>,
}

impl Base {
    /// Creates the agent of a run from its parts.
    pub fn agent(&self, options: &RunOptions, parts: AgentParts<'_>) -> Agent {
        let sub_agents = SubAgentPolicy {
            models: Some(ConfiguredModels::new(self, &parts.chosen)),
            ..self.config.sub_agents.clone()
        };
        let mut config = LoopConfig::new(parts.chosen.provider, parts.chosen.model, parts.tools);
        config.ports.completer = Some(pinion_orchestration::completions());
        config.ports.models = sub_agents.models.clone();
        config.ports.spawner = Some(pinion_orchestration::sub_agents_in(sub_agents, self.running_agents.clone(), None));
        config.ports.approval = Approval::new(self.config.approve, parts.approver.clone())
            .with_rules(self.permissions.clone())
            .with_user(parts.approver);
        self.tell_permissions();
        config.ports.retry = Arc::new(self.config.retry.clone());
        config.ports.counter = Arc::new(self.config.counter);
        config.ports.store = parts.session.store.clone();
        config.ports.secrets = self.secrets.clone();
        config.ports.summarizer = parts.summarizer;
        config.policy.options = RequestOptions {
            thinking: self.config.thinking,
            thinking_budget: self.config.thinking_budget,
            thinking_budgets: self.config.thinking_budgets.clone(),
            temperature: self.config.temperature,
            max_output_tokens: self.config.max_output_tokens,
            cache: self.config.cache,
            session_id: Some(parts.session.id.to_string()),
            ..RequestOptions::default()
        };
        // Messages of the user during one call belong together.
        config.inbox.steering = Arc::new(MessageQueue::new(QueueMode::All));
        config.policy.limits = self.config.limits.clone();
        config.policy.compaction = self.config.compaction.clone();
        Agent::new(config, self.conversation(options, parts.session, parts.context))
    }

    /// Returns the conversation of a session, with a system prompt of today.
    pub fn conversation(&self, options: &RunOptions, session: &OpenSession, files: &ContextFiles) -> Context {
        Context {
            messages: session.messages.clone(),
            agent_id: AGENT_ID.into(),
            runs: session.runs.clone(),
            run_id: session.last_run.clone(),
            ..Context::new(self.system_prompt(options, files), session.id.clone())
        }
    }

    pub(crate) fn system_prompt(&self, options: &RunOptions, files: &ContextFiles) -> String {
        let today = self.exchanges.prompt_date().to_string();
        let instructions = Instructions::read(options, &self.paths, &self.config.project);
        self.secrets.clean(&system_prompt(&instructions, &self.workspace, files, &today)).into_owned()
    }

    /// Selects the tools that the options allow, with secrets redacted and pictures scaled down in their results.
    pub fn tools(&self, options: &RunOptions, runtime: Arc<Runtime>) -> Result<Arc<dyn ToolExecutor>> {
        let mut there: Vec<String> = runtime.all_definitions().iter().map(|tool| tool.name.clone()).collect();
        there.extend(self.has_copies().then_some([SHOW, APPLY]).into_iter().flatten().map(str::to_owned));
        let mut named = options.tools.iter().flatten().filter(|_| !options.no_tools);
        if let Some(unknown) = named.find(|name| !there.contains(name)) {
            return Err(
                Failure::usage(format!("no tool `{unknown}`")).hint(format!("the tools are: {}", there.join(", ")))
            );
        }
        Ok(self.offered(options, runtime))
    }

    /// Returns the tools that the options select, which may name others as well.
    pub(crate) fn offered(&self, options: &RunOptions, runtime: Arc<Runtime>) -> Arc<dyn ToolExecutor> {
        let redacted = Arc::new(RedactedTools::new(runtime, self.secrets.clone()));
        let fitting = Arc::new(FittingTools::new(redacted));
        let tools = Arc::new(AuditedTools { inner: fitting, audit: self.permissions.audit.clone() });
        match self.selected_tools(options) {
            Some(selects) => Arc::new(Selection::new(tools, Authority::ALL).with_predicate(selects)),
            None => tools,
        }
    }

    /// Returns the names of tools that the options select, or else the config; `None` if they select all.
    pub fn selected_tools(&self, options: &RunOptions) -> Option<impl Fn(&str) -> bool + Clone + Send + Sync + use<>> {
        let (only, excluded) = match (&options.tools, options.no_tools) {
            (_, true) => (Some(Vec::new()), Vec::new()),
            (Some(names), _) => (Some(names.clone()), Vec::new()),
            (None, _) => (self.config.tools.clone(), self.config.exclude_tools.clone()),
        };
        let selects = move |name: &str| {
            let is_named = |names: &Vec<String>| names.iter().any(|named| named == name);
            only.as_ref().is_none_or(is_named) && !is_named(&excluded)
        };
        let has_choice = options.no_tools || options.tools.is_some();
        let is_limited = has_choice || self.config.tools.is_some() || !self.config.exclude_tools.is_empty();
        is_limited.then_some(selects)
    }
}

impl Base {
    /// Returns notices about names in the config that no tool has, if all plugins are loaded.
    fn unknown_tools(&self, options: &RunOptions, runtime: &Runtime) -> Vec<String> {
        let may_grow = runtime.has_changing_offers() || !runtime.being_loaded().is_empty();
        let is_partial = options.no_plugins || options.no_builtin_plugins || may_grow;
        if options.tools.is_some() || options.no_tools || is_partial {
            return Vec::new();
        }
        let there = runtime.definitions();
        let is_own = |name: &str| self.has_copies() && [SHOW, APPLY].contains(&name);
        let is_unknown = |name: &&String| !is_own(name) && !there.iter().any(|tool| tool.name == **name);
        let notice = |key: &str, name: &String| format!("`{key}` in the config: no tool `{}`", printable(name));
        let only = self.config.tools.iter().flatten().filter(is_unknown).map(|name| notice("tools", name));
        let excluded = self.config.exclude_tools.iter().filter(is_unknown).map(|name| notice("exclude-tools", name));
        only.chain(excluded).collect()
    }
}

/// Returns the time that a start waits for all plugins in directories. A conversation continues without them and they
/// join it. A run has one model request that should name their tools; compiling one may take seconds, once.
const fn load_timeout(purpose: Purpose) -> Duration {
    match purpose {
        Purpose::Conversation => Duration::from_secs(1),
        Purpose::Run => Duration::from_secs(15),
    }
}
