//! Descriptions in the cache are only for display, and never decide which code runs.

use pinion_agent::tool::ToolError;
use pinion_agent::{Authority, ToolExecutor as _};
use pinion_plugin_runtime::{
    CacheKey, CodeOrigin, Component, FileAccess, HostDirectories, LoadError, NoInfo, NoticeEvent, PluginPolicy,
    PluginSettings, PluginSource, Runtime, RuntimeConfig,
};
use pinion_tests::{Progress, Sandbox, SandboxBuilder, guest};
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The key of every sandbox.
const KEY: [u8; 32] = [7; 32];
/// A schema that no guest has.
const FORGED: &str = r#"{"type":"object","properties":{"forged":{"type":"string"}}}"#;

/// A cache, and a link to a component that was built long ago, as descriptions require.
struct Cached {
    directory: TempDir,
}

impl Cached {
    /// Loads a guest once, so that the cache describes it.
    async fn load_once(name: &str) -> Self {
        let cached = Self { directory: TempDir::new().unwrap() };
        cached.link(name);
        assert_eq!(origin(&cached.load().await), Some(CodeOrigin::Compiled));
        assert_eq!(cached.descriptions().len(), 1);
        cached
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("plugin.wasm")
    }

    /// Makes the plugin's file a link to a guest.
    fn link(&self, name: &str) {
        // Missing at first.
        let _ = std::fs::remove_file(self.file());
        symlink(guest(name), self.file()).unwrap();
    }

    fn builder(&self) -> SandboxBuilder {
        SandboxBuilder::default().cache(&self.directory.path().join("cache")).file(self.file())
    }

    async fn load(&self) -> Sandbox {
        self.builder().build().await
    }

    async fn load_code(&self) -> Sandbox {
        let sandbox = self.load().await;
        sandbox.runtime.load_code().await;
        sandbox
    }

    fn descriptions(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.directory.path().join("cache")).unwrap();
        entries
            .flatten()
            .map(|e| e.path())
            .filter(|path| path.extension().is_some_and(|e| e == "description"))
            .collect()
    }

    /// Changes the description and seals it, as only this user's pinion can.
    fn describe(&self, change: impl FnOnce(&mut Value)) {
        let entry = &self.descriptions()[0];
        let mut description: Value = serde_json::from_slice(&std::fs::read(entry).unwrap()[32..]).unwrap();
        change(&mut description);
        seal(entry, description.to_string().as_bytes());
    }
}

fn seal(entry: &Path, content: &[u8]) {
    let mut hasher = blake3::Hasher::new_keyed(&KEY);
    hasher.update(entry.file_name().unwrap().as_encoded_bytes()).update(content);
    std::fs::write(entry, [hasher.finalize().as_bytes(), content].concat()).unwrap();
}

fn origin(sandbox: &Sandbox) -> Option<CodeOrigin> {
    Some(sandbox.runtime.plugins().first()?.origin)
}

fn loads(sandbox: &Sandbox) -> usize {
    sandbox.notices().iter().filter(|notice| matches!(notice.event, NoticeEvent::Loaded { .. })).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn described_plugin_loads_its_code_at_the_first_call() {
    let cached = Cached::load_once("greet_one").await;
    let sandbox = cached.load().await;
    assert_eq!(origin(&sandbox), Some(CodeOrigin::Described));
    let before = sandbox.tool("greet");
    let calls = (0..8).map(|_| sandbox.text("greet", json!({})));
    assert!(futures_util::future::join_all(calls).await.iter().all(|said| said == "hello from version one"));
    assert_eq!(origin(&sandbox), Some(CodeOrigin::Cached));
    assert_eq!((sandbox.tool("greet"), loads(&sandbox)), (before, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn described_plugin_survives_a_cache_without_its_code() {
    let cached = Cached::load_once("greet_one").await;
    for entry in std::fs::read_dir(cached.directory.path().join("cache")).unwrap().flatten() {
        if entry.path().extension().is_none() {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let sandbox = cached.load().await;
    assert_eq!(origin(&sandbox), Some(CodeOrigin::Described));
    assert_eq!(sandbox.text("greet", json!({})).await, "hello from version one");
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_plugin_with_a_description_is_not_compiled_until_it_is_called() {
    let description =
        Cached::load_once("greet_one").await.load_code().await.runtime.description("greet").await.unwrap();
    let directory = TempDir::new().unwrap();
    let with = |cache: &str, guest_name: &str| {
        let bytes: &'static [u8] = std::fs::read(guest(guest_name)).unwrap().leak();
        let source =
            PluginSource::BuiltIn { name: "greet", bytes, digest: None, description: Some(description.clone().leak()) };
        SandboxBuilder::default().cache(&directory.path().join(cache)).source(source).build()
    };
    let sandbox = with("cache", "greet_one").await;
    assert_eq!(origin(&sandbox), Some(CodeOrigin::Described));
    assert_eq!(sandbox.text("greet", json!({})).await, "hello from version one");
    assert_eq!((origin(&sandbox), loads(&sandbox)), (Some(CodeOrigin::Compiled), 1));
    // The description of another component counts for nothing.
    assert_eq!(origin(&with("other", "greet_two").await), Some(CodeOrigin::Compiled));
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_description_is_not_used() {
    let cached = Cached::load_once("greet_one").await;
    let entry = cached.descriptions().remove(0);
    let sealed = std::fs::read(&entry).unwrap();
    let mut flipped = sealed.clone();
    let at = flipped.len() / 2;
    flipped[at] ^= 1;
    let without_seal = sealed[32..].to_vec();
    for forged in [flipped, without_seal, sealed[..40].to_vec(), Vec::new()] {
        std::fs::write(&entry, forged).unwrap();
        assert_eq!(origin(&cached.load().await), Some(CodeOrigin::Cached));
        assert_eq!(std::fs::read(&entry).unwrap(), sealed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn description_of_another_plugin_is_not_used() {
    let (cached, other) = (Cached::load_once("greet_one").await, Cached::load_once("echo").await);
    std::fs::copy(&other.descriptions()[0], &cached.descriptions()[0]).unwrap();
    let sandbox = cached.load().await;
    assert_eq!(origin(&sandbox), Some(CodeOrigin::Cached));
    assert_eq!(sandbox.runtime.plugins()[0].tools, ["greet"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn description_of_an_earlier_file_is_not_used() {
    let cached = Cached::load_once("greet_one").await;
    cached.link("greet_two");
    let sandbox = cached.load().await;
    assert_eq!(origin(&sandbox), Some(CodeOrigin::Compiled));
    assert_eq!(sandbox.text("greet", json!({})).await, "hello from version two");
}

#[tokio::test(flavor = "multi_thread")]
async fn description_for_another_config_is_not_used() {
    let cached = Cached::load_once("configured").await;
    let sandbox = cached.builder().config("configured", json!({ "greeting": "hi" })).build().await;
    assert_eq!(origin(&sandbox), Some(CodeOrigin::Cached));
    let refusing = cached.builder().config("configured", json!({ "refuse": true })).build().await;
    assert!(refusing.runtime.plugins().is_empty() && refusing.runtime.problems()[0].1.contains("told to refuse"));
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_of_a_described_plugin_are_decided_anew() {
    let cached = Cached::load_once("greet_armed").await;
    let granted = cached.builder().trust("greet").build().await;
    assert_eq!(origin(&granted), Some(CodeOrigin::Described));
    let of = |sandbox: &Sandbox| sandbox.runtime.definitions().iter().any(|tool| tool.authority.writes);
    assert!(of(&granted));
    assert!(!of(&cached.load().await));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_misdescribed_tool_is_decided_on_again() {
    let cached = Cached::load_once("greet_one").await;
    cached.describe(|described| described["described"]["description"]["tools"][0]["input_schema"] = json!(FORGED));
    let sandbox = cached.load().await;
    let shown = sandbox.invocation("greet", json!({}), CancellationToken::new());
    assert_eq!(shown.tool.input_schema.to_string(), FORGED);
    let reply = sandbox.runtime.call(shown, &Progress::default()).await;
    assert!(matches!(reply.result, Err(ToolError::Changed { .. })) && reply.ledger.is_none());
    assert_eq!(sandbox.runtime.plugins()[0].generation, 2);
    assert_eq!(sandbox.text("greet", json!({})).await, "hello from version one");
    // The answer of the plugin replaced the description.
    assert_eq!(cached.load().await.text("greet", json!({})).await, "hello from version one");
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_that_exists_only_in_the_description_is_not_called() {
    let cached = Cached::load_once("greet_one").await;
    cached.describe(|described| described["described"]["description"]["tools"][0]["name"] = json!("invented"));
    let sandbox = cached.load().await;
    let error = sandbox.call("invented", json!({})).await.unwrap_err();
    assert!(matches!(error, ToolError::UnknownTool { .. }), "{error:?}");
    assert_eq!(sandbox.text("greet", json!({})).await, "hello from version one");
}

#[tokio::test(flavor = "multi_thread")]
async fn description_cannot_lower_the_effects_of_a_tool() {
    let cached = Cached::load_once("greet_armed").await;
    cached.describe(|described| {
        let harmless = serde_json::to_value(Authority::default()).unwrap();
        let tools = described["described"]["description"]["tools"].as_array_mut().unwrap();
        tools.iter_mut().for_each(|tool| tool["effects"] = harmless.clone());
    });
    let sandbox = cached.builder().trust("greet").build().await;
    let tool = sandbox.runtime.definitions()[0].name.clone();
    let shown = sandbox.invocation(&tool, json!({}), CancellationToken::new());
    assert_eq!(shown.tool.authority, Authority::default());
    let reply = sandbox.runtime.call(shown, &Progress::default()).await;
    assert!(matches!(reply.result, Err(ToolError::Changed { .. })), "{:?}", reply.result);
}

#[tokio::test(flavor = "multi_thread")]
async fn described_plugin_whose_code_fails_is_removed() {
    let cached = Cached::load_once("greet_one").await;
    cached.link("broken");
    let metadata = std::fs::metadata(cached.file()).unwrap();
    cached.describe(|described| {
        let seen = &mut described["seen"];
        (seen["device"], seen["inode"], seen["length"]) =
            (metadata.dev().into(), metadata.ino().into(), metadata.len().into());
        seen["modified"] = json!([metadata.mtime(), metadata.mtime_nsec()]);
        seen["changed"] = json!([metadata.ctime(), metadata.ctime_nsec()]);
    });
    let sandbox = cached.load().await;
    assert_eq!(origin(&sandbox), Some(CodeOrigin::Described));
    let error = sandbox.call("greet", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("greet"), "{error}");
    assert!(sandbox.runtime.plugins().is_empty());
    assert_eq!(sandbox.runtime.problems().len(), 1);
}

/// A policy that reads from a file whether plugins may write.
struct FromFile(PathBuf);

impl PluginPolicy for FromFile {
    fn settings(&self, _: &Component<'_>) -> Result<PluginSettings, LoadError> {
        let mut settings = PluginSettings::default();
        if std::fs::read_to_string(&self.0).is_ok_and(|text| text.contains("write")) {
            settings.grants.files.insert(self.0.parent().unwrap().to_owned(), FileAccess::Write);
        }
        Ok(settings)
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.0.clone()]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refresh_applies_new_grants_and_leaves_the_rest() {
    let directory = TempDir::new().unwrap();
    let policy = directory.path().join("policy");
    let config = RuntimeConfig {
        workspace: directory.path().to_owned(),
        cache: Some((directory.path().join("cache"), CacheKey::new(KEY))),
        policy: Arc::new(FromFile(policy.clone())),
        engine_limits: None,
        compiler: None,
        host: HostDirectories::default(),
        exclusions: Arc::default(),
        confinement: None,
        mcp: None,
        info: Arc::new(NoInfo),
        journal: None,
    };
    let runtime = Runtime::new(config, |_| {}).unwrap();
    runtime.add(vec![PluginSource::file(guest("greet_armed")), PluginSource::file(guest("echo"))]).await;
    let state = || -> Vec<(u32, bool)> {
        let writes = |name: &str| runtime.definitions().iter().any(|t| &*t.source.plugin == name && t.authority.writes);
        runtime.plugins().iter().map(|plugin| (plugin.generation, writes(&plugin.name))).collect()
    };
    assert_eq!(state(), [(1, false), (1, false)]);
    std::fs::write(&policy, "write").unwrap();
    runtime.refresh().await;
    assert_eq!(state()[0], (2, true));
    std::fs::write(&policy, "write, as before").unwrap();
    runtime.refresh().await;
    assert_eq!(state()[0], (2, true));
    std::fs::remove_file(&policy).unwrap();
    runtime.refresh().await;
    assert_eq!(state()[0], (3, false));
}
