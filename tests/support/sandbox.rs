//! A real runtime with real components, in a folder of its own.

use crate::guests::guest;
use pinion_agent::{
    Authority, Content, Execution, Ledger, ToolDefinition, ToolError, ToolExecutor as _, ToolInvocation, ToolOutput,
    ToolProgress, ToolSource,
};
use pinion_plugin_runtime::{
    Access, AgentsGrant, CacheKey, EngineLimits, HostDirectories, NoInfo, Notice, PartialLimits, PluginSettings,
    ProcessGrant, Runtime, RuntimeConfig, Source,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A workspace, a runtime, and what the runtime told.
pub struct Sandbox {
    folder: TempDir,
    /// The runtime under test.
    pub runtime: Arc<Runtime>,
    notices: Arc<Mutex<Vec<Notice>>>,
}

/// Sets up a [`Sandbox`]; without more, plugins have no grants.
#[derive(Default)]
pub struct SandboxBuilder {
    sources: Vec<Source>,
    plugins: BTreeMap<String, PluginSettings>,
    engine: Option<EngineLimits>,
    cache: Option<PathBuf>,
    private: Vec<PathBuf>,
    handed_out: Vec<PathBuf>,
    files: Vec<(PathBuf, String)>,
    links: Vec<(PathBuf, PathBuf)>,
}

impl Sandbox {
    /// With guests of these names, each with all grants that the tests need: the workspace, and programs.
    pub async fn with(names: &[&str]) -> Self {
        names.iter().fold(SandboxBuilder::default(), |b, name| b.guest(name).trust(name)).build().await
    }

    /// The parent of the workspace; it is granted to nobody.
    pub fn outside(&self) -> &Path {
        self.folder.path()
    }

    /// The workspace.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// Writes a file of the workspace, and its folders.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.workspace().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Reads a file of the workspace.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.workspace().join(path)).unwrap()
    }

    /// What the runtime told so far.
    pub fn notices(&self) -> Vec<Notice> {
        self.notices.lock().unwrap().clone()
    }

    /// Calls a tool to its end.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        self.call_with(tool, arguments, &Progress::default(), CancellationToken::new()).await.0
    }

    /// Calls a tool that gives text.
    pub async fn text(&self, tool: &str, arguments: Value) -> String {
        let output = self.call(tool, arguments).await.unwrap_or_else(|error| panic!("{tool}: {error}"));
        output.content.iter().filter_map(Content::as_text).collect()
    }

    /// Calls a tool that fails; the text of its error.
    pub async fn error(&self, tool: &str, arguments: Value) -> String {
        match self.call(tool, arguments).await {
            Ok(output) => panic!("{tool} succeeded: {output:?}"),
            Err(error) => error.to_string(),
        }
    }

    /// Calls a tool, with everything that can be said of the call.
    pub async fn call_with(
        &self,
        tool: &str,
        arguments: Value,
        progress: &dyn ToolProgress,
        token: CancellationToken,
    ) -> (Result<ToolOutput, ToolError>, Ledger) {
        self.invoke(self.invocation(tool, arguments, token), progress).await
    }

    /// Calls a tool with no more authority than that; what came of it, in words.
    pub async fn call_at_most(&self, at_most: Authority, tool: &str, arguments: Value) -> String {
        let call = ToolInvocation { at_most, ..self.invocation(tool, arguments, CancellationToken::new()) };
        match self.invoke(call, &Progress::default()).await.0 {
            Ok(output) => output.content.iter().filter_map(Content::as_text).collect(),
            Err(error) => error.to_string(),
        }
    }

    async fn invoke(
        &self,
        call: ToolInvocation,
        progress: &dyn ToolProgress,
    ) -> (Result<ToolOutput, ToolError>, Ledger) {
        let mut reply = self.runtime.call(call.clone(), progress).await;
        // As the loop does: what took the tool's place is decided on again.
        if matches!(reply.result, Err(ToolError::Changed { .. })) {
            reply = self.runtime.call(ToolInvocation { tool: self.tool(call.name()), ..call }, progress).await;
        }
        (reply.result, reply.ledger.unwrap_or_default())
    }

    /// The tool of this name as it is offered now; one that no plugin has when there is none.
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

    /// A call of a tool as it is offered now.
    pub fn invocation(&self, tool: &str, arguments: Value, token: CancellationToken) -> ToolInvocation {
        ToolInvocation {
            call_id: "call-1".into(),
            session_id: "session-1".into(),
            loop_id: "loop-1".into(),
            tool: self.tool(tool),
            arguments,
            at_most: Authority::ALL,
            agents: None,
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

    /// Loads a component from a file.
    #[must_use]
    pub fn file(mut self, path: PathBuf) -> Self {
        self.sources.push(Source::file(path));
        self
    }

    /// Grants a plugin the workspace, read-write, and programs.
    #[must_use]
    pub fn trust(self, plugin: &str) -> Self {
        self.files(plugin, ".", Access::Write).process(plugin)
    }

    /// Grants a plugin a folder of the workspace.
    #[must_use]
    pub fn files(mut self, plugin: &str, folder: &str, access: Access) -> Self {
        self.settings(plugin).grants.files.insert(folder.into(), access);
        self
    }

    /// Grants a plugin programs, with a PATH and a variable `GRANTED`.
    #[must_use]
    pub fn process(mut self, plugin: &str) -> Self {
        let path = std::env::var("PATH").unwrap_or_default();
        let environment = BTreeMap::from([("PATH".to_owned(), path), ("GRANTED".to_owned(), "yes".to_owned())]);
        self.settings(plugin).grants.process = Some(ProcessGrant { environment, spill_folder: PathBuf::new() });
        self
    }

    /// Grants a plugin the catalog.
    #[must_use]
    pub fn catalog(mut self, plugin: &str) -> Self {
        self.settings(plugin).grants.catalog = true;
        self
    }

    /// Grants a plugin sub-agents, with all tools or with these.
    #[must_use]
    pub fn agents(mut self, plugin: &str, tools: Option<&[&str]>) -> Self {
        let tools = tools.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        self.settings(plugin).grants.agents = Some(AgentsGrant { tools });
        self
    }

    /// Sets limits of a plugin.
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

    /// Sets the limits of the engine.
    #[must_use]
    pub fn engine(mut self, limits: EngineLimits) -> Self {
        self.engine = Some(limits);
        self
    }

    /// Keeps compiled code in this folder.
    #[must_use]
    pub fn cache(mut self, folder: &Path) -> Self {
        self.cache = Some(folder.to_owned());
        self
    }

    /// Makes a directory the host's own, by its path from the workspace's parent.
    #[must_use]
    pub fn private(mut self, folder: &str) -> Self {
        self.private.push(folder.into());
        self
    }

    /// Hands out a directory inside one of the host's own.
    #[must_use]
    pub fn handed_out(mut self, folder: &str) -> Self {
        self.handed_out.push(folder.into());
        self
    }

    /// Writes a file before plugins are loaded, by its path from the workspace's parent.
    #[must_use]
    pub fn with_file(mut self, path: &str, text: &str) -> Self {
        self.files.push((path.into(), text.to_owned()));
        self
    }

    /// Makes a symbolic link before plugins are loaded, by its path from the workspace's parent.
    #[must_use]
    pub fn with_link(mut self, path: &str, target: &str) -> Self {
        self.links.push((path.into(), target.into()));
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

    /// Makes the folder and loads the plugins.
    pub async fn build(self) -> Sandbox {
        let folder = TempDir::new().unwrap();
        let workspace = folder.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        self.prepare(folder.path());
        let notices = Arc::new(Mutex::new(Vec::new()));
        let policy: BTreeMap<String, PluginSettings> =
            self.plugins.into_iter().map(|(name, s)| (name, resolve(s, folder.path()))).collect();
        let config = RuntimeConfig {
            policy: Arc::new(policy),
            workspace,
            cache: Some((self.cache.unwrap_or_else(shared_cache), CacheKey::new([7; 32]))),
            engine_limits: self.engine,
            host: HostDirectories {
                private: self.private.iter().map(|path| folder.path().join(path)).collect(),
                handed_out: self.handed_out.iter().map(|path| folder.path().join(path)).collect(),
            },
            info: Arc::new(NoInfo),
        };
        let told = notices.clone();
        let runtime = Arc::new(Runtime::new(config, move |notice| told.lock().unwrap().push(notice)).unwrap());
        runtime.add(self.sources).await;
        Sandbox { folder, runtime, notices }
    }
}

/// Folders become absolute once the workspace is known.
fn resolve(mut settings: PluginSettings, outside: &Path) -> PluginSettings {
    let join = |folder: PathBuf| match folder == Path::new(".") {
        true => outside.join("workspace"),
        false => outside.join("workspace").join(folder),
    };
    let files = std::mem::take(&mut settings.grants.files);
    settings.grants.files =
        files.into_iter().map(|(folder, access): (PathBuf, Access)| (join(folder), access)).collect();
    if let Some(process) = &mut settings.grants.process {
        process.spill_folder = outside.join("spill");
    }
    settings
}

/// One cache for all tests of a run: what is compiled once is compiled once. Its own tests take folders of their own.
fn shared_cache() -> PathBuf {
    crate::guests::guests_folder().join("cache")
}

/// What a call reported.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// A line.
    Line(String),
    /// A partial result.
    Update(Vec<Content>),
}

/// Keeps what a call reports, and wakes whoever waits for it.
#[derive(Default)]
pub struct Progress {
    seen: Mutex<Vec<Seen>>,
    news: Notify,
}

impl Progress {
    /// Waits until the call has reported something.
    pub async fn first(&self) -> Seen {
        loop {
            let news = self.news.notified();
            if let Some(first) = self.seen.lock().unwrap().first() {
                return first.clone();
            }
            news.await;
        }
    }

    /// All that the call has reported.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn put(&self, seen: Seen) {
        self.seen.lock().unwrap().push(seen);
        self.news.notify_waiters();
    }
}

impl ToolProgress for Progress {
    fn report(&self, message: String) {
        self.put(Seen::Line(message));
    }

    fn update(&self, partial: Vec<Content>) {
        self.put(Seen::Update(partial));
    }
}
