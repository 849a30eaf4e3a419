//! A real runtime with real components in a temporary directory.

use crate::certificates::AUTHORITY;
use crate::guests::guest;
use crate::network::TestNetwork;
use crate::progress::Progress;
use crate::served::Watch;
use pinion_agent::definition::{Execution, ToolSource};
use pinion_agent::hook::HookPoint;
use pinion_agent::tool::{Ledger, ToolError, ToolInvocation, ToolOutput, ToolProgress};
use pinion_agent::{Authority, Content, ToolDefinition, ToolExecutor as _};
use pinion_egress::{Client, ClientSettings, Policy};
use pinion_exclusions::{Exclusions, Finder, Pattern, PatternOrigin};
use pinion_plugin_runtime::{
    AgentsGrant, CacheKey, Compiler, Completion, EngineLimits, FileAccess, Grants, HostDirectories, HostInfo, McpGrant,
    McpServers, NoInfo, Notice, PartialLimits, PluginPolicy, PluginSettings, PluginSource, ProcessGrant, Runtime,
    RuntimeConfig, StorageGrant,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A workspace, a runtime and its notices.
pub struct Sandbox {
    _watch: Option<Watch>,
    directory: TempDir,
    /// The runtime under test.
    pub runtime: Arc<Runtime>,
    notices: Arc<Mutex<Vec<Notice>>>,
}

/// Builder of a [`Sandbox`]; plugins have no grants by default.
#[derive(Default)]
pub struct SandboxBuilder {
    sources: Vec<PluginSource>,
    plugins: BTreeMap<String, PluginSettings>,
    engine: Option<EngineLimits>,
    cache: Option<PathBuf>,
    compiler: Option<Compiler>,
    private: Vec<PathBuf>,
    handed_out: Vec<PathBuf>,
    files: Vec<(PathBuf, String)>,
    links: Vec<(PathBuf, PathBuf)>,
    policy: Option<Arc<dyn PluginPolicy>>,
    only_looks: bool,
    mcp: Option<Arc<dyn McpServers>>,
    exclude: Option<Vec<String>>,
    network: Option<Arc<TestNetwork>>,
    is_watched: bool,
    info: Option<Arc<dyn HostInfo>>,
}

impl Sandbox {
    /// A sandbox with these guests, each with the grants that most tests need: the workspace and programs.
    pub async fn with(names: &[&str]) -> Self {
        names.iter().fold(SandboxBuilder::default(), |b, name| b.guest(name).trust(name)).build().await
    }

    /// Returns the parent of the workspace, which no plugin is granted.
    pub fn outside(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the workspace.
    pub fn workspace(&self) -> PathBuf {
        self.directory.path().join("workspace")
    }

    /// Writes a file in the workspace and creates its parent directories.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.workspace().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Reads a file of the workspace.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.workspace().join(path)).unwrap()
    }

    /// Returns the notices that the runtime sent so far.
    pub fn notices(&self) -> Vec<Notice> {
        self.notices.lock().unwrap().clone()
    }

    /// Calls a tool and waits for its result.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        self.call_with(tool, arguments, &Progress::default(), CancellationToken::new()).await.0
    }

    /// Completes the argument of a command, without the limit of time that a person who types needs: a loaded machine may take
    /// longer.
    pub async fn completed(&self, command: &str, typed: &str) -> Vec<Completion> {
        self.runtime.complete_within(command, typed, Duration::from_secs(60)).await
    }

    /// Calls a tool and returns its text.
    pub async fn text(&self, tool: &str, arguments: Value) -> String {
        let output = self.call(tool, arguments).await.unwrap_or_else(|error| panic!("{tool}: {error}"));
        output.content.iter().filter_map(Content::as_text).collect()
    }

    /// Calls a tool that fails and returns the text of its error.
    pub async fn error(&self, tool: &str, arguments: Value) -> String {
        match self.call(tool, arguments).await {
            Ok(output) => panic!("{tool} succeeded: {output:?}"),
            Err(error) => error.to_string(),
        }
    }

    /// Calls a tool with explicit progress and cancellation.
    pub async fn call_with(
        &self,
        tool: &str,
        arguments: Value,
        progress: &dyn ToolProgress,
        token: CancellationToken,
    ) -> (Result<ToolOutput, ToolError>, Ledger) {
        self.invoke(self.invocation(tool, arguments, token), progress).await
    }

    /// Calls a tool with at most this authority and returns its result as text.
    pub async fn call_at_most(&self, at_most: Authority, tool: &str, arguments: Value) -> String {
        let call = ToolInvocation { at_most, ..self.invocation(tool, arguments, CancellationToken::new()) };
        match self.invoke(call, &Progress::default()).await.0 {
            Ok(output) => output.content.iter().filter_map(Content::as_text).collect(),
            Err(error) => error.to_string(),
        }
    }

    /// Calls a tool for a session, or without one if its id is empty, and returns its text.
    pub async fn text_in(&self, session: &str, tool: &str, arguments: Value) -> String {
        let call = self.invocation(tool, arguments, CancellationToken::new());
        let call = ToolInvocation { session_id: session.into(), ..call };
        let output = self.invoke(call, &Progress::default()).await.0;
        let output = output.unwrap_or_else(|error| panic!("{tool}: {error}"));
        output.content.iter().filter_map(Content::as_text).collect()
    }

    async fn invoke(
        &self,
        call: ToolInvocation,
        progress: &dyn ToolProgress,
    ) -> (Result<ToolOutput, ToolError>, Ledger) {
        let mut reply = self.runtime.call(call.clone(), progress).await;
        // Like the loop: decides again if another tool has taken its place.
        if matches!(reply.result, Err(ToolError::Changed { .. })) {
            reply = self.runtime.call(ToolInvocation { tool: self.tool(call.name()), ..call }, progress).await;
        }
        (reply.result, reply.ledger.unwrap_or_default())
    }

    /// Returns the current definition of a tool, or the definition of an unknown tool if no plugin has it.
    pub fn tool(&self, name: &str) -> Arc<ToolDefinition> {
        let offered = self.runtime.definitions().into_iter().find(|tool| tool.name == name);
        offered.unwrap_or_else(|| {
            Arc::new(ToolDefinition {
                name: name.to_owned(),
                label: String::new(),
                description: String::new(),
                input_schema: Value::Bool(true),
                guidelines: Vec::new(),
                authority: Authority::default(),
                execution: Execution::default(),
                source: ToolSource::default(),
            })
        })
    }

    /// Returns a call of a tool in its current definition.
    pub fn invocation(&self, tool: &str, arguments: Value, token: CancellationToken) -> ToolInvocation {
        ToolInvocation {
            call_id: "call-1".into(),
            session_id: "session-1".into(),
            run_id: "loop-1".into(),
            tool: self.tool(tool),
            arguments,
            at_most: Authority::ALL,
            agents: None,
            services: None,
            token,
        }
    }
}

impl SandboxBuilder {
    /// Loads a guest.
    #[must_use]
    pub fn guest(self, name: &str) -> Self {
        self.file(guest(name))
    }

    /// Loads a component from a source.
    #[must_use]
    pub fn source(mut self, source: PluginSource) -> Self {
        self.sources.push(source);
        self
    }

    /// Loads a component from a file.
    #[must_use]
    pub fn file(mut self, path: PathBuf) -> Self {
        self.sources.push(PluginSource::file(path));
        self
    }

    /// Grants a plugin write access to the workspace, and programs.
    #[must_use]
    pub fn trust(self, plugin: &str) -> Self {
        self.files(plugin, ".", FileAccess::Write).process(plugin)
    }

    /// Grants a plugin a directory of the workspace.
    #[must_use]
    pub fn files(mut self, plugin: &str, directory: &str, access: FileAccess) -> Self {
        self.settings(plugin).grants.files.insert(directory.into(), access);
        self
    }

    /// Grants a plugin programs, with a PATH and a variable `GRANTED`.
    #[must_use]
    pub fn process(mut self, plugin: &str) -> Self {
        let path = std::env::var("PATH").unwrap_or_default();
        let environment = BTreeMap::from([("PATH".to_owned(), path), ("GRANTED".to_owned(), "yes".to_owned())]);
        self.settings(plugin).grants.process = Some(ProcessGrant { environment, spill_directory: PathBuf::new() });
        self
    }

    /// Changes the grants of a plugin.
    #[must_use]
    pub fn grant(mut self, plugin: &str, change: impl FnOnce(&mut Grants)) -> Self {
        change(&mut self.settings(plugin).grants);
        self
    }

    /// Grants a plugin the catalog.
    #[must_use]
    pub fn catalog(mut self, plugin: &str) -> Self {
        self.settings(plugin).grants.catalog = true;
        self
    }

    /// Grants a plugin the requests that these rules cover.
    #[must_use]
    pub fn http(mut self, plugin: &str, rules: &[&str]) -> Self {
        self.settings(plugin).grants.http = Policy::new(rules.iter().map(|rule| rule.parse().unwrap()).collect());
        self
    }

    /// Gives the plugins a network instead of this machine's network.
    #[must_use]
    pub fn network(mut self, network: &Arc<TestNetwork>) -> Self {
        self.network = Some(network.clone());
        self
    }

    /// Provides MCP servers, and grants a plugin all of them.
    #[must_use]
    pub fn mcp(mut self, plugin: &str, servers: Arc<dyn McpServers>) -> Self {
        self.settings(plugin).grants.mcp = Some(McpGrant::default());
        self.mcp = Some(servers);
        self
    }

    /// Grants a plugin all hooks.
    #[must_use]
    pub fn hooks(self, plugin: &str) -> Self {
        self.hooks_at(plugin, &HookPoint::ALL)
    }

    /// Grants a plugin the hooks at these points.
    #[must_use]
    pub fn hooks_at(mut self, plugin: &str, points: &[HookPoint]) -> Self {
        self.settings(plugin).grants.hooks = points.iter().copied().collect();
        self
    }

    /// Grants a plugin sub-agents, with all tools or with these.
    #[must_use]
    pub fn agents(mut self, plugin: &str, tools: Option<&[&str]>) -> Self {
        let tools = tools.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        self.settings(plugin).grants.agents = Some(AgentsGrant { tools });
        self
    }

    /// Grants a plugin storage in a directory, with a quota for each scope.
    #[must_use]
    pub fn storage(mut self, plugin: &str, directory: &Path, quota_bytes: u64) -> Self {
        self.settings(plugin).grants.storage = Some(StorageGrant { directory: directory.to_owned(), quota_bytes });
        self
    }

    /// Sets the limits of a plugin.
    #[must_use]
    pub fn limits(mut self, plugin: &str, limits: PartialLimits) -> Self {
        self.settings(plugin).limits = limits;
        self
    }

    /// Sets the config of a plugin.
    #[must_use]
    pub fn config(mut self, plugin: &str, config: Value) -> Self {
        self.settings(plugin).config = config;
        self
    }

    /// Sets the policy, which replaces all settings of plugins.
    #[must_use]
    pub fn policy(mut self, policy: Arc<dyn PluginPolicy>) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Sets the limits of the engine.
    #[must_use]
    pub fn engine(mut self, limits: EngineLimits) -> Self {
        self.engine = Some(limits);
        self
    }

    /// Sets the directory of the compilation cache.
    #[must_use]
    pub fn cache(mut self, directory: &Path) -> Self {
        self.cache = Some(directory.to_owned());
        self
    }

    /// Sets the command that compiles components.
    #[must_use]
    pub fn compiler(mut self, program: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(Into::into).collect();
        self.compiler = Some(Compiler { program: program.into(), arguments });
        self
    }

    /// Marks a directory as the host's own, by its path from the workspace's parent.
    #[must_use]
    pub fn private(mut self, directory: &str) -> Self {
        self.private.push(directory.into());
        self
    }

    /// Shares a directory inside one of the host's own.
    #[must_use]
    pub fn handed_out(mut self, directory: &str) -> Self {
        self.handed_out.push(directory.into());
        self
    }

    /// Writes a file before plugins load, by its path from the workspace's parent.
    #[must_use]
    pub fn with_file(mut self, path: &str, text: &str) -> Self {
        self.files.push((path.into(), text.to_owned()));
        self
    }

    /// Creates a symbolic link before plugins load, by its path from the workspace's parent.
    pub fn with_link(mut self, path: &str, target: &str) -> Self {
        self.links.push((path.into(), target.into()));
        self
    }

    /// Loads plugins without asking for their offers while they run.
    #[must_use]
    pub fn only_look(mut self) -> Self {
        self.only_looks = true;
        self
    }

    fn prepare(&self, outside: &Path) {
        for (path, text) in &self.files {
            let path = outside.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        for (path, target) in &self.links {
            let path = outside.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            #[cfg(unix)]
            std::os::unix::fs::symlink(target, path).unwrap();
        }
    }

    fn settings(&mut self, plugin: &str) -> &mut PluginSettings {
        self.plugins.entry(plugin.to_owned()).or_default()
    }

    /// Excludes files of the workspace.
    pub fn exclude(mut self, patterns: &[&str]) -> Self {
        self.exclude = Some(patterns.iter().map(ToString::to_string).collect());
        self
    }

    /// Adds the harmless guest `echo`, which the host must still serve at the end of the test.
    pub fn watched(mut self) -> Self {
        self.is_watched = true;
        self.guest("echo")
    }

    /// Sets the facts about the application.
    pub fn info(mut self, info: impl HostInfo + 'static) -> Self {
        self.info = Some(Arc::new(info));
        self
    }

    /// Creates the directory and loads the plugins.
    pub async fn build(self) -> Sandbox {
        let directory = TempDir::new().unwrap();
        let workspace = directory.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        self.prepare(directory.path());
        let notices = Arc::new(Mutex::new(Vec::new()));
        let policy: BTreeMap<String, PluginSettings> =
            self.plugins.into_iter().map(|(name, s)| (name, resolve(s, directory.path()))).collect();
        let config = RuntimeConfig {
            policy: self.policy.unwrap_or_else(|| Arc::new(policy)),
            cache: Some((self.cache.unwrap_or_else(shared_cache), CacheKey::new(CACHE_KEY))),
            engine_limits: self.engine,
            compiler: self.compiler,
            host: HostDirectories {
                private: self.private.iter().map(|path| directory.path().join(path)).collect(),
                handed_out: self.handed_out.iter().map(|path| directory.path().join(path)).collect(),
                ..HostDirectories::default()
            },
            exclusions: self.exclude.map(|patterns| excluding(&workspace, &patterns)).unwrap_or_default(),
            workspace,
            confinement: None,
            mcp: self.mcp,
            info: self.info.unwrap_or_else(|| Arc::new(NoInfo)),
            journal: None,
        };
        let sent = notices.clone();
        let client = self
            .network
            .map(|network| Client::new(ClientSettings { certificates: AUTHORITY.to_vec(), network }).unwrap());
        let on_notice = move |notice| sent.lock().unwrap().push(notice);
        let runtime = Arc::new(Runtime::with_client(config, client.unwrap_or_default(), on_notice).unwrap());
        if !self.only_looks {
            runtime.begin_offers();
        }
        runtime.add(self.sources).await;
        Sandbox { _watch: self.is_watched.then(|| Watch(runtime.clone())), directory, runtime, notices }
    }
}

/// Makes relative directories absolute once the workspace is known.
fn resolve(mut settings: PluginSettings, outside: &Path) -> PluginSettings {
    let join = |directory: PathBuf| match directory == Path::new(".") {
        true => outside.join("workspace"),
        false => outside.join("workspace").join(directory),
    };
    let files = std::mem::take(&mut settings.grants.files);
    settings.grants.files =
        files.into_iter().map(|(directory, access): (PathBuf, FileAccess)| (join(directory), access)).collect();
    if let Some(process) = &mut settings.grants.process {
        process.spill_directory = outside.join("spill");
    }
    if let Some(mcp) = &mut settings.grants.mcp {
        mcp.output = outside.join("spill");
    }
    settings
}

/// The key of the cache that tests share.
pub(crate) const CACHE_KEY: [u8; 32] = [7; 32];

/// One cache for all tests of a run, so that each component is compiled once. Tests of the cache use their own.
fn shared_cache() -> PathBuf {
    // Where the command looks in its own directory below the user's caches.
    crate::guests::guests_directory().join("pinion/components")
}

/// Excludes files of a workspace, with line numbers that count the patterns.
fn excluding(workspace: &Path, patterns: &[String]) -> Arc<Finder> {
    let origin = |at| PatternOrigin::Config { file: PathBuf::from("/config.toml"), line: Some(at + 1) };
    let patterns = patterns.iter().enumerate().map(|(at, text)| Pattern::new(text, origin(at))).collect();
    Finder::new(Exclusions::new(&workspace.canonicalize().unwrap(), [patterns]).unwrap())
}
