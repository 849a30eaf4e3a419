//! A runtime with the guests of the tests.

use pinion_plugin_runtime::{
    Access, CacheKey, Grants, HostDirectories, NoInfo, PluginSettings, Runtime, RuntimeConfig, Source,
};
use pinion_protocol::{Authority, Content, ToolError, ToolExecutor as _, ToolInvocation, ToolOutput, ToolProgress};
use serde_json::Value;
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
        Self::of(names.iter().map(|name| Source::file(guest(name))).collect(), cache).await
    }

    pub(crate) async fn load_files(files: Vec<PathBuf>, cache: &Path) -> Self {
        Self::of(files.into_iter().map(Source::file).collect(), cache).await
    }

    pub(crate) async fn load_file(file: PathBuf) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let mut plugins = Self::of(vec![Source::file(file)], cache.path()).await;
        plugins._cache = Some(cache);
        plugins
    }

    async fn of(sources: Vec<Source>, cache: &Path) -> Self {
        let workspace = tempfile::tempdir().unwrap();
        let files = BTreeMap::from([(workspace.path().to_owned(), Access::Read)]);
        let settings = PluginSettings { grants: Grants { files, ..Grants::default() }, ..PluginSettings::default() };
        let config = RuntimeConfig {
            host: HostDirectories::default(),
            workspace: workspace.path().to_owned(),
            cache: Some((cache.to_owned(), CacheKey::new([1; 32]))),
            policy: Arc::new(BTreeMap::from(["echo", "fs"].map(|name| (name.to_owned(), settings.clone())))),
            engine_limits: None,
            compiler: None,
            confinement: None,
            info: Arc::new(NoInfo),
        };
        let runtime = Runtime::new(config, |_| {}).unwrap();
        let expected = sources.len();
        runtime.add(sources).await;
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

    fn invocation(&self, tool: &str, arguments: &Value) -> ToolInvocation {
        ToolInvocation {
            call_id: "c".into(),
            session_id: "s".into(),
            loop_id: "l".into(),
            tool: self.runtime.definitions().into_iter().find(|offered| offered.name == tool).unwrap(),
            arguments: arguments.clone(),
            at_most: Authority::ALL,
            agents: None,
            services: None,
            token: tokio_util::sync::CancellationToken::new(),
        }
    }
}
