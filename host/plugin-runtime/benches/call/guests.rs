//! A runtime with the guests of the tests.

use pinion_journal::writer::JournalSink;
use pinion_plugin_runtime::{
    CacheKey, Compiler, FileAccess, Grants, HostDirectories, McpGrant, McpServers, NoInfo, PluginSettings,
    PluginSource, Runtime, RuntimeConfig,
};
use pinion_protocol::{
    Authority, Content, ToolDefinition, ToolError, ToolExecutor as _, ToolInvocation, ToolOutput, ToolProgress,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

pub(crate) fn guest(name: &str) -> PathBuf {
    let directory = std::env::var_os("PINION_GUESTS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/guests/components"),
        PathBuf::from,
    );
    let file = directory.join(format!("{name}.wasm"));
    assert!(file.is_file(), "no `{}`: run `tests/build-guests.sh`", file.display());
    file
}

/// A built-in plugin, as it was built for the tests.
pub(crate) fn builtin(name: &str) -> PathBuf {
    let directory = std::env::var_os("PINION_DIST")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../plugins/dist"), PathBuf::from);
    directory.join(format!("{name}.wasm"))
}

/// Appends a custom section that makes the component `length` bytes long.
pub(crate) fn padded(file: &Path, length: usize) -> Vec<u8> {
    let mut bytes = std::fs::read(file).unwrap();
    let padding = length.saturating_sub(bytes.len()).max(16);
    let mut content = vec![1, b'p'];
    content.resize(padding, 0);
    bytes.push(0);
    let mut size = content.len();
    while size >= 0x80 {
        bytes.push((size & 0x7f) as u8 | 0x80);
        size >>= 7;
    }
    bytes.push(size as u8);
    bytes.extend(content);
    bytes
}

/// Copies the guest `greet` under other names of plugin and tool.
pub(crate) fn renamed(file: &Path, into: &Path, count: usize) -> Vec<PathBuf> {
    let bytes = std::fs::read(file).unwrap();
    let copy = |number: usize| {
        let (mut bytes, name) = (bytes.clone(), format!("gr{number:03}"));
        let places: Vec<usize> =
            bytes.windows(5).enumerate().filter(|(_, at)| at == b"greet").map(|(at, _)| at).collect();
        places.into_iter().for_each(|at| bytes[at..at + 5].copy_from_slice(name.as_bytes()));
        let file = into.join(format!("{name}.wasm"));
        std::fs::write(&file, bytes).unwrap();
        file
    };
    (0..count).map(copy).collect()
}

pub(crate) struct Plugins {
    runtime: Runtime,
    workspace: TempDir,
    _cache: Option<TempDir>,
}

struct Silent;

impl ToolProgress for Silent {
    fn report(&self, _: String) {}
    fn update(&self, _: Vec<Content>) {}
}

impl Plugins {
    pub(crate) async fn load(names: &[&str]) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let mut plugins = Self::load_from(names, cache.path()).await;
        plugins._cache = Some(cache);
        plugins
    }

    pub(crate) async fn load_from(names: &[&str], cache: &Path) -> Self {
        Self::from_sources(names.iter().map(|name| PluginSource::file(guest(name))).collect(), cache, None, None).await
    }

    pub(crate) async fn load_files(files: Vec<PathBuf>, cache: &Path) -> Self {
        Self::from_sources(files.into_iter().map(PluginSource::file).collect(), cache, None, None).await
    }

    pub(crate) async fn load_file(file: PathBuf, compiler: Option<Compiler>) -> Self {
        Self::load_with(file, compiler, None).await
    }

    pub(crate) async fn load_with_servers(file: PathBuf, servers: Option<Arc<dyn McpServers>>) -> Self {
        Self::load_with(file, None, servers).await
    }

    /// Loads a plugin whose calls are recorded.
    #[allow(dead_code, reason = "for one of the benches that include this file")]
    pub(crate) async fn load_recorded(file: PathBuf, journal: Arc<dyn JournalSink>) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let sources = vec![PluginSource::file(file)];
        let mut plugins = Self::recorded(sources, cache.path(), None, None, Some(journal)).await;
        plugins._cache = Some(cache);
        plugins
    }

    async fn load_with(file: PathBuf, compiler: Option<Compiler>, servers: Option<Arc<dyn McpServers>>) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let mut plugins = Self::from_sources(vec![PluginSource::file(file)], cache.path(), compiler, servers).await;
        plugins._cache = Some(cache);
        plugins
    }

    async fn from_sources(
        sources: Vec<PluginSource>,
        cache: &Path,
        compiler: Option<Compiler>,
        servers: Option<Arc<dyn McpServers>>,
    ) -> Self {
        Self::recorded(sources, cache, compiler, servers, None).await
    }

    async fn recorded(
        sources: Vec<PluginSource>,
        cache: &Path,
        compiler: Option<Compiler>,
        servers: Option<Arc<dyn McpServers>>,
        journal: Option<Arc<dyn JournalSink>>,
    ) -> Self {
        let workspace = tempfile::tempdir().unwrap();
        let files = BTreeMap::from([(workspace.path().to_owned(), FileAccess::Read)]);
        let settings = PluginSettings {
            grants: Grants { files, mcp: Some(McpGrant::default()), ..Grants::default() },
            ..PluginSettings::default()
        };
        let config = RuntimeConfig {
            host: HostDirectories::default(),
            exclusions: Arc::default(),
            workspace: workspace.path().to_owned(),
            cache: Some((cache.to_owned(), CacheKey::new([1; 32]))),
            policy: Arc::new(BTreeMap::from(["echo", "fs", "mcp"].map(|name| (name.to_owned(), settings.clone())))),
            engine_limits: None,
            compiler,
            confinement: None,
            mcp: servers,
            info: Arc::new(NoInfo),
            journal,
        };
        let runtime = Runtime::new(config, |_| {}).unwrap();
        let expected = sources.len();
        runtime.begin_offers();
        runtime.add(sources).await;
        runtime.offers_settled().await;
        assert_eq!(runtime.plugins().len(), expected, "{:?}", runtime.problems());
        Self { runtime, workspace, _cache: None }
    }

    pub(crate) fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> String {
        match &self.output(tool, arguments).await.content[0] {
            Content::Text { text } => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn output(&self, tool: &str, arguments: Value) -> ToolOutput {
        loop {
            let reply = self.runtime.call(self.invocation(tool, &arguments), &Silent).await;
            // The file has changed: the call is decided on again, with the new definition.
            if matches!(reply.result, Err(ToolError::Changed { .. })) {
                continue;
            }
            assert!(reply.ledger.unwrap().fuel > 0);
            return reply.result.unwrap();
        }
    }

    /// Calls a tool in a version that its plugin does not have: the cost of the lookup.
    #[allow(dead_code, reason = "for one of the benches that include this file")]
    pub(crate) async fn look_up(&self, outdated: &Arc<ToolDefinition>) {
        let invocation = self.invocation_of(outdated.clone(), &Value::Null);
        assert!(self.runtime.call(invocation, &Silent).await.result.is_err());
    }

    /// The first tool, in another version.
    #[allow(dead_code, reason = "for one of the benches that include this file")]
    pub(crate) fn outdated(&self) -> Arc<ToolDefinition> {
        let mut definition = ToolDefinition::clone(&self.runtime.definitions()[0]);
        definition.source.generation += 1;
        Arc::new(definition)
    }

    /// Calls a tool, whose definition is known as it is to an agent.
    #[allow(dead_code, reason = "for one of the benches that include this file")]
    pub(crate) async fn call_of(&self, tool: &Arc<ToolDefinition>) -> String {
        let reply = self.runtime.call(self.invocation_of(tool.clone(), &json!({})), &Silent).await;
        match reply.result.unwrap().content.into_iter().next() {
            Some(Content::Text { text }) => text,
            other => panic!("{other:?}"),
        }
    }

    #[allow(dead_code, reason = "for one of the benches that include this file")]
    pub(crate) fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.runtime.definitions()
    }

    fn invocation(&self, tool: &str, arguments: &Value) -> ToolInvocation {
        let tool = self.runtime.definitions().into_iter().find(|offered| offered.name == tool).unwrap();
        self.invocation_of(tool, arguments)
    }

    fn invocation_of(&self, tool: Arc<ToolDefinition>, arguments: &Value) -> ToolInvocation {
        ToolInvocation {
            call_id: "c".into(),
            session_id: "s".into(),
            run_id: "l".into(),
            tool,
            arguments: arguments.clone(),
            at_most: Authority::ALL,
            agents: None,
            services: None,
            token: tokio_util::sync::CancellationToken::new(),
        }
    }
}
