//! Where the parts are put together: the only place that names every crate.

use crate::args::RunArgs;
use crate::config::{Config, FileGrants, FileProcessGrant};
use crate::failure::{Failure, Result, Status};
use crate::files::paths::Paths;
use crate::files::spill::Output;
use crate::model::Chosen;
use crate::model::exchanges::Exchanges;
use crate::model::info::SessionInfo;
use crate::plugins::builtin::BUILT_IN;
use crate::plugins::policy::{self, Binding, Policy};
use crate::prompt::context::Context as ContextFiles;
use crate::prompt::system_prompt;
use crate::run::agents::{Branches, ConfiguredModels};
use pinion_agent::{
    Agent, AgentError, Approval, Approver, Authority, Context, LoopConfig, Message, Outcome, RedactedTools,
    RequestOptions, Secrets, Selection, SessionStore, SubAgentPolicy, ToolExecutor,
};
use pinion_plugin_runtime::{
    CacheKey, Compiler, FileOrigin, Grants, HostDirectories, HostInfo, NoInfo, Notice, PluginDirectory, ProcessGrant,
    Runtime, RuntimeConfig, Source, is_alike, plugins_in,
};
use pinion_session_store::{MemorySession, Session, SessionError, SessionFolder, open_to_continue, printable};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What every command that works in a folder starts from.
#[derive(Clone)]
pub(crate) struct Base {
    pub(crate) paths: Paths,
    pub(crate) workspace: PathBuf,
    pub(crate) config: Config,
    pub(crate) exchanges: Exchanges,
    /// Every credential that this process has met.
    pub(crate) secrets: Secrets,
    /// Where long output of programs goes.
    pub(crate) output: Arc<Output>,
    /// `--base-url`.
    pub(crate) base_url: Option<String>,
}

/// The argument with which this program compiles a component for another process of itself, and does nothing else.
pub(crate) const COMPILE_COMPONENT: &str = "compile-component-for-parent";

/// Which plugins are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// A run without a conversation.
    Run,
    /// A conversation, or whoever wants to see everything.
    Conversation,
}

impl Base {
    /// The plugin runtime, with nothing loaded.
    pub(crate) fn runtime(
        &self,
        info: Arc<dyn HostInfo>,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Runtime> {
        self.runtime_with(Policy::new(self, Binding::Bind, None), info, on_notice)
    }

    /// A runtime that shows plugins and runs none: no grants are bound to what it loads.
    pub(crate) fn showing(&self, on_notice: impl Fn(Notice) + Send + Sync + 'static) -> Result<Runtime> {
        self.runtime_with(Policy::new(self, Binding::LookOnly, None), Arc::new(NoInfo), on_notice)
    }

    pub(crate) fn runtime_with(
        &self,
        policy: Policy,
        info: Arc<dyn HostInfo>,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Runtime> {
        let config = RuntimeConfig {
            workspace: self.workspace.clone(),
            cache: self.compiled_code(),
            policy: Arc::new(policy),
            engine_limits: self.config.engine_limits.clone(),
            compiler: compiler(),
            host: self.host_directories(),
            info,
        };
        Runtime::new(config, on_notice).map_err(|error| Failure::of(Status::Failed, &error))
    }

    /// The directories that no plugin may use, with the one in them that the model reads long output from.
    pub(crate) fn host_directories(&self) -> HostDirectories {
        let Paths { config, data, cache } = self.paths.clone();
        HostDirectories { private: vec![config, data, cache], handed_out: vec![self.output.directory().to_owned()] }
    }

    /// Where compiled code is kept, and the secret that seals it.
    pub(crate) fn compiled_code(&self) -> Option<(PathBuf, CacheKey)> {
        cache_key(&self.paths).map(|key| (self.paths.components(), key))
    }

    /// Grants as the runtime takes them: directories absolute, variables looked up.
    pub(crate) fn grants(&self, grants: &FileGrants) -> Grants {
        Grants {
            files: grants.files.iter().map(|(path, access)| (self.absolute(path), *access)).collect(),
            process: self.process_grant(&grants.process),
            catalog: grants.catalog,
            agents: grants.agents.grant(),
        }
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        let is_workspace = path.as_os_str().is_empty() || path == Path::new(".");
        if is_workspace { self.workspace.clone() } else { self.workspace.join(path) }
    }

    pub(crate) fn process_grant(&self, grant: &FileProcessGrant) -> Option<ProcessGrant> {
        let names = match grant {
            FileProcessGrant::Granted(false) => return None,
            FileProcessGrant::Granted(true) => &self.config.process_environment,
            FileProcessGrant::With(names) => names,
        };
        let is_granted = |variable: &str| {
            names.iter().any(|name| match name.strip_suffix('*') {
                Some(beginning) => variable.starts_with(beginning),
                None => variable == name,
            })
        };
        // A variable that is not text is no use to a program that expects text.
        let environment =
            crate::process::hardening::variables().into_iter().filter(|(name, _)| is_granted(name)).collect();
        Some(ProcessGrant { environment, spill_folder: self.output.directory().to_owned() })
    }

    /// The plugins that a run loads, in the order in which they win where names collide. Disabled files are among them:
    /// their names are in their manifests, where the runtime looks.
    pub(crate) fn sources(&self, args: &RunArgs, purpose: For) -> Vec<Source> {
        let built_in = BUILT_IN.iter().filter(|plugin| {
            !args.no_builtin_plugins
                && !self.is_disabled(plugin.name)
                && (purpose == For::Conversation || !plugin.is_for_conversations)
        });
        let mut sources: Vec<Source> =
            built_in.map(|plugin| Source::BuiltIn { name: plugin.name, bytes: plugin.bytes }).collect();
        sources.extend(args.plugins.iter().map(|path| self.named(path)));
        let files = plugins_in(&self.plugin_folders(args));
        // With `PINION_HOME` in the workspace, the user's directory can be the project's.
        let users = self.paths.plugins().canonicalize().ok();
        let is_left_out = args.no_plugins || self.workspace.join(".pinion/plugins").canonicalize().ok() == users;
        let project = if is_left_out { Vec::new() } else { self.config.project.plugins() };
        let project = project.into_iter().map(|plugin| Source::File { path: plugin.path, origin: FileOrigin::Project });
        let new: Vec<Source> = files.into_iter().chain(project).filter(|file| !sources.contains(file)).collect();
        sources.extend(new);
        sources
    }

    /// Returns whether the user or a trusted project disabled the plugin of this name, or of one like it. A project cannot
    /// enable what the user disabled.
    pub(crate) fn is_disabled(&self, name: &str) -> bool {
        let layers = [&self.config.user_plugins, &self.config.plugins];
        let mut sections = layers.into_iter().flatten();
        sections.any(|(section, plugin)| plugin.enabled == Some(false) && is_alike(section, name))
    }

    /// A file that the user named. Where it lies decides its origin: naming a project's plugin makes it none of the user's.
    pub(crate) fn named(&self, path: &Path) -> Source {
        let path = self.workspace.join(path);
        let identity = policy::identity(&path);
        let is_users = identity.parent() == self.paths.plugins().canonicalize().ok().as_deref();
        let is_projects = is_in_project(&identity) || path.canonicalize().is_ok_and(|path| is_in_project(&path));
        match (is_users, is_projects) {
            (true, _) => Source::File {
                path: self.paths.plugins().join(path.file_name().unwrap_or_default()),
                origin: FileOrigin::User,
            },
            (_, true) => Source::File { path: identity, origin: FileOrigin::Project },
            _ => Source::File { path, origin: FileOrigin::Named },
        }
    }

    /// Directories whose `*.wasm` files are plugins, also those that appear later: the user's. Plugins of a project are
    /// single files with the digests that the user trusts.
    pub(crate) fn plugin_folders(&self, args: &RunArgs) -> Vec<PluginDirectory> {
        let users = || PluginDirectory { path: self.paths.plugins(), origin: FileOrigin::User };
        if args.no_plugins { Vec::new() } else { vec![users()] }
    }

    /// The files in the user's plugin directory.
    pub(crate) fn installed(&self) -> Vec<Source> {
        plugins_in(&[PluginDirectory { path: self.paths.plugins(), origin: FileOrigin::User }])
    }

    /// Returns whether a file is a plugin of this project, which the user trusts.
    pub(crate) fn is_trusted_plugin(&self, path: &Path) -> bool {
        self.config.project.plugins().iter().any(|plugin| plugin.path == path)
    }

    /// What the user should know of what the project brings and what it may not.
    pub(crate) fn project_notices(&self) -> Vec<String> {
        self.config.project.notices().into_iter().chain(self.config.notices.iter().cloned()).collect()
    }

    /// The context files of a run.
    pub(crate) fn context(&self, args: &RunArgs) -> ContextFiles {
        match args.no_context_files {
            true => ContextFiles::default(),
            false => ContextFiles::read(&self.paths, &self.workspace, crate::files::paths::home().as_deref()),
        }
    }
}

/// How long a start waits for plugins that lie in directories, all together. A conversation goes on without them, and they
/// join it; a run may be over before they are ready.
const fn patience(purpose: For) -> Duration {
    match purpose {
        For::Conversation => Duration::from_secs(1),
        For::Run => Duration::from_secs(5),
    }
}

/// Returns whether a file lies in the plugin directory of some project.
fn is_in_project(path: &Path) -> bool {
    let names: Vec<_> = path.components().map(|part| part.as_os_str().to_ascii_lowercase()).collect();
    names.windows(2).any(|pair| pair[0] == ".pinion" && pair[1] == "plugins")
}

impl Base {
    /// Loads plugins. Waits for built-in ones and those that were named on the command line. Those that lie in
    /// directories join when they are ready, unless the options name tools that only they can have.
    async fn load(&self, args: &RunArgs, purpose: For, runtime: &Runtime) {
        let named: Vec<Source> = args.plugins.iter().map(|path| self.named(path)).collect();
        let (in_directories, wanted): (Vec<Source>, Vec<Source>) = self
            .sources(args, purpose)
            .into_iter()
            .partition(|source| matches!(source, Source::File { .. }) && !named.contains(source));
        let (wanted, in_directories) = (runtime.begin(wanted), runtime.begin(in_directories));
        wanted.settled().await;
        let definitions = runtime.definitions();
        let has = |name: &String| definitions.iter().any(|tool| tool.name == *name);
        if args.tools.as_ref().is_some_and(|names| !names.iter().all(has)) {
            return in_directories.settled().await;
        }
        in_directories.settled_before(Instant::now() + patience(purpose)).await;
    }

    /// A plugin that was named on the command line is wanted; one that lies in a folder may fail without it.
    fn require_named(&self, args: &RunArgs, runtime: &Runtime) -> Result<()> {
        let loaded: Vec<String> = runtime.plugins().into_iter().map(|plugin| plugin.source).collect();
        let sources = args.plugins.iter().map(|path| self.named(path).to_string());
        match sources.into_iter().find(|source| !loaded.contains(source)) {
            Some(missing) => Err(Failure::usage(format!("the plugin `{missing}` was not loaded"))
                .hint("the notice above says why; without one, it is disabled in the config")),
            None => Ok(()),
        }
    }
}

/// This program, as the one that compiles components in a process of its own.
pub(crate) fn compiler() -> Option<Compiler> {
    let program = std::env::current_exe().ok()?;
    Some(Compiler { program, arguments: vec![COMPILE_COMPONENT.into()] })
}

/// The secret that seals compiled code, made when it is first needed. None when it can be neither read nor made, which
/// is logged: everything is compiled anew then.
fn cache_key(paths: &Paths) -> Option<CacheKey> {
    let file = paths.cache_key_file();
    crate::files::private::read_or_create::<32>(&file)
        .map(CacheKey::new)
        .inspect_err(|error| tracing::warn!(file = %file.display(), %error, "compiled code is not cached"))
        .ok()
}

/// An open session.
pub(crate) struct OpenSession {
    pub(crate) id: Arc<str>,
    pub(crate) store: Arc<dyn SessionStore>,
    /// None when it is kept nowhere.
    pub(crate) on_disk: Option<Arc<Session>>,
    /// What the model sees of what was said before.
    pub(crate) messages: Vec<Arc<Message>>,
    /// Loops that worked on it before.
    pub(crate) loops: u32,
    /// What the user should know of how it was found.
    pub(crate) notices: Vec<String>,
}

impl OpenSession {
    /// The session that the options mean: a new one, or one to go on with.
    pub(crate) fn of(base: &Base, args: &RunArgs) -> Result<Self> {
        let folder = SessionFolder::new(base.paths.sessions());
        if args.no_session {
            return Ok(Self::unkept());
        }
        if let Some(path) = &args.session {
            return Self::at(&base.workspace.join(path), &base.workspace);
        }
        if args.continue_last || args.resume.as_deref() == Some("") {
            let latest = folder.latest(&base.workspace).map_err(session_failure)?;
            let latest = latest.ok_or_else(|| Failure::usage("there is no session of this folder to go on with"))?;
            return Self::resumed(&latest.path, &base.workspace);
        }
        if let Some(id) = &args.fork {
            let source = folder.find(id).map_err(session_failure)?;
            let forked = folder.fork(&source, None, &base.workspace).map_err(session_failure)?;
            return Self::resumed(&forked, &base.workspace);
        }
        match &args.resume {
            Some(id) => Self::resumed(&folder.find(id).map_err(session_failure)?, &base.workspace),
            None => Ok(Self::kept(folder.begin(&base.workspace))),
        }
    }

    /// A new session of a folder.
    pub(crate) fn begin(base: &Base) -> Self {
        Self::kept(SessionFolder::new(base.paths.sessions()).begin(&base.workspace))
    }

    pub(crate) fn unkept() -> Self {
        Self {
            id: format!("unkept-{}", std::process::id()).into(),
            store: Arc::new(MemorySession::new()),
            on_disk: None,
            messages: Vec::new(),
            loops: 0,
            notices: Vec::new(),
        }
    }

    fn at(path: &Path, workspace: &Path) -> Result<Self> {
        match Self::resumed(path, workspace) {
            Err(_) if !path.exists() => Ok(Self::kept(Session::begin(path, workspace))),
            opened => opened,
        }
    }

    /// Goes on with the session in a file.
    pub(crate) fn resumed(path: &Path, workspace: &Path) -> Result<Self> {
        let opened = open_to_continue(path, workspace).map_err(session_failure)?;
        let notices = opened.recovery.notices();
        let loops = u32::try_from(opened.loops).unwrap_or(u32::MAX);
        Ok(Self { messages: pinion_agent::view(opened.messages), loops, notices, ..Self::kept(opened.session) })
    }

    fn kept(session: Session) -> Self {
        let session = Arc::new(session);
        Self {
            id: session.id().into(),
            store: session.clone(),
            on_disk: Some(session),
            messages: Vec::new(),
            loops: 0,
            notices: Vec::new(),
        }
    }

    /// Waits until everything is on the disk. What was said survives this process without it; this is for the power.
    pub(crate) fn sync(&self) {
        if let Some(Err(error)) = self.on_disk.as_ref().map(|session| session.sync()) {
            tracing::warn!(%error, "the session may not survive a loss of power");
        }
    }
}

pub(crate) fn session_failure(error: SessionError) -> Failure {
    Failure::of(Status::Usage, &error)
}

/// What an agent is made of, where it differs from run to run.
pub(crate) struct AgentParts<'a> {
    pub(crate) chosen: Chosen,
    pub(crate) tools: Arc<dyn ToolExecutor>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) session: &'a OpenSession,
    pub(crate) context: &'a ContextFiles,
}

impl Base {
    pub(crate) fn agent(&self, args: &RunArgs, parts: AgentParts<'_>) -> Agent {
        let sub_agents = SubAgentPolicy {
            models: Some(ConfiguredModels::new(self, &parts.chosen)),
            ..self.config.sub_agents.clone()
        };
        let config = LoopConfig {
            spawner: Some(pinion_orchestration::sub_agents(sub_agents)),
            options: RequestOptions {
                thinking: self.config.thinking,
                thinking_budget: self.config.thinking_budget,
                cache: self.config.cache,
                session_id: Some(parts.session.id.to_string()),
                ..RequestOptions::default()
            },
            approval: Approval::new(self.config.approve, parts.approver),
            store: parts.session.store.clone(),
            limits: self.config.limits.clone(),
            compaction: self.config.compaction.clone(),
            secrets: self.secrets.clone(),
            ..LoopConfig::new(parts.chosen.provider, parts.chosen.model, parts.tools)
        };
        let today = self.exchanges.date().to_string();
        let prompt = system_prompt(args, &self.workspace, parts.context, &today);
        let prompt = self.secrets.clean(&prompt).into_owned();
        let (messages, loops) = (parts.session.messages.clone(), parts.session.loops);
        Agent::new(config, Context { messages, loops, ..Context::new(prompt, parts.session.id.clone()) })
    }

    /// The tools that the options leave of what is loaded. Their results hold no secrets.
    pub(crate) fn tools(&self, args: &RunArgs, runtime: Arc<Runtime>) -> Result<Arc<dyn ToolExecutor>> {
        let runtime = Arc::new(RedactedTools::new(runtime, self.secrets.clone()));
        if args.no_tools {
            return Ok(Arc::new(Selection::new(runtime, Authority::ALL).of(|_| false)));
        }
        let Some(names) = &args.tools else { return Ok(runtime) };
        let there: Vec<String> = runtime.definitions().iter().map(|tool| tool.name.clone()).collect();
        if let Some(unknown) = names.iter().find(|name| !there.contains(name)) {
            return Err(Failure::usage(format!("there is no tool `{unknown}`"))
                .hint(format!("there are: {}", there.join(", "))));
        }
        let names: HashSet<String> = names.iter().cloned().collect();
        Ok(Arc::new(Selection::new(runtime, Authority::ALL).of(move |name| names.contains(name))))
    }
}

/// What a run needs besides its prompt.
pub(crate) struct Ready {
    pub(crate) agent: Arc<Agent>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) session: OpenSession,
    pub(crate) info: Arc<SessionInfo>,
    context: ContextFiles,
    branches: Option<Branches>,
}

impl Ready {
    /// A notice for each plugin that was not ready in time; it joins when it is.
    pub(crate) fn slow_plugins(&self) -> Vec<String> {
        let slow = self.runtime.being_loaded();
        slow.iter().map(|plugin| format!("plugin `{}` is still being loaded", printable(plugin))).collect()
    }

    /// What the user should know before a run begins. To be called when it is shown: what changed is reported once.
    pub(crate) fn notices(&self, base: &Base) -> Vec<String> {
        self.context.remember();
        let context = self.context.notices().iter().cloned();
        let notices = base.project_notices().into_iter().chain(context).chain(self.session.notices.iter().cloned());
        notices.chain(self.slow_plugins()).collect()
    }

    /// Works prompts off, on branches where the config says so.
    pub(crate) async fn run(&self, prompts: Vec<Message>) -> std::result::Result<Outcome, AgentError> {
        match &self.branches {
            Some(branches) => branches.run(&self.agent, prompts).await,
            None => self.agent.run(prompts).await,
        }
    }
}

impl Base {
    /// Puts a run together: model, plugins, session, agent.
    pub(crate) async fn ready(
        &self,
        args: &RunArgs,
        purpose: For,
        approver: Arc<dyn Approver>,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Ready> {
        let chosen = self.chosen(args).await?;
        let mut session = OpenSession::of(self, args)?;
        session.notices.extend(chosen.notices.iter().cloned());
        self.output.begin(&session.id, session.on_disk.is_some());
        self.output.sweep();
        let info = Arc::new(SessionInfo::new(self.models()?, &self.config.sub_agents.kinds, chosen.label.clone()));
        let runtime = Arc::new(self.runtime(info.clone(), on_notice)?);
        self.load(args, purpose, &runtime).await;
        self.require_named(args, &runtime)?;
        let models = ConfiguredModels::new(self, &chosen);
        let branches = self.config.branches.found(&models, &chosen).await?;
        let tools = self.tools(args, runtime.clone())?;
        let context = self.context(args);
        let parts = AgentParts { chosen, tools, approver, session: &session, context: &context };
        let agent = Arc::new(self.agent(args, parts));
        info.watch(&agent);
        Ok(Ready { agent, runtime, session, info, context, branches })
    }
}
