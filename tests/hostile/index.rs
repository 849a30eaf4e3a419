//! The index of descriptions: many plugins of one directory in one entry of the cache. It saves time and decides nothing.

use pinion_agent::ToolExecutor as _;
use pinion_plugin_runtime::{CodeOrigin, Component, LoadError, PluginPolicy, PluginSettings};
use pinion_tests::{Sandbox, SandboxBuilder, guest, until};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// The key of every sandbox.
const KEY: [u8; 32] = [7; 32];
/// The plugins, by the names of their files.
const PLUGINS: [(&str, &str); 5] =
    [("a", "greet_one"), ("b", "echo"), ("c", "configured"), ("d", "reused"), ("e", "fetcher")];

/// A directory of plugins that were built long ago, as descriptions require, and a cache that describes them.
struct Directory {
    root: TempDir,
}

impl Directory {
    /// Starts once to compile the plugins, and once to write the index.
    async fn of_many() -> Self {
        let directory = Self { root: TempDir::new().unwrap() };
        PLUGINS.into_iter().for_each(|(name, guest)| directory.link(name, guest));
        directory.start().await;
        assert_eq!(directory.with_extension("description").len(), PLUGINS.len());
        directory.start_and_index().await;
        directory
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.path().join(format!("{name}.wasm"))
    }

    fn link(&self, name: &str, built: &str) {
        // Missing at first.
        let _ = std::fs::remove_file(self.file(name));
        symlink(guest(built), self.file(name)).unwrap();
    }

    fn builder(&self) -> SandboxBuilder {
        let builder = SandboxBuilder::default().cache(&self.root.path().join("cache"));
        PLUGINS.into_iter().fold(builder, |builder, (name, _)| builder.file(self.file(name)))
    }

    async fn start(&self) -> Sandbox {
        self.builder().build().await
    }

    /// Starts, and waits until the index was written, which happens after the start.
    async fn start_and_index(&self) -> Sandbox {
        let before = self.index();
        let sandbox = self.start().await;
        until("the index is written", || self.index().is_some_and(|index| Some(index) != before)).await;
        sandbox
    }

    fn with_extension(&self, extension: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.root.path().join("cache")).unwrap();
        entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == extension))
            .collect()
    }

    fn entry(&self) -> PathBuf {
        self.with_extension("index").remove(0)
    }

    fn index(&self) -> Option<Vec<u8>> {
        // A damaged one may be removed at any time.
        std::fs::read(self.with_extension("index").first()?).ok()
    }

    /// Leaves the index alone to describe the plugins.
    fn remove_own_entries(&self) {
        self.with_extension("description").into_iter().for_each(|entry| std::fs::remove_file(entry).unwrap());
    }
}

fn origins(sandbox: &Sandbox) -> BTreeMap<String, CodeOrigin> {
    sandbox.runtime.plugins().into_iter().map(|plugin| (plugin.name, plugin.origin)).collect()
}

fn all_are(sandbox: &Sandbox, origin: CodeOrigin) -> bool {
    let origins = origins(sandbox);
    origins.len() == PLUGINS.len() && origins.values().all(|found| *found == origin)
}

#[tokio::test(flavor = "multi_thread")]
async fn index_alone_describes_the_plugins_of_a_directory() {
    let directory = Directory::of_many().await;
    directory.remove_own_entries();
    let sandbox = directory.start().await;
    assert!(all_are(&sandbox, CodeOrigin::Described), "{:?}", origins(&sandbox));
    assert_eq!(sandbox.text("greet", json!({})).await, "hello from version one");
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_or_forged_index_is_not_used() {
    let directory = Directory::of_many().await;
    let (entry, sealed) = (directory.entry(), directory.index().unwrap());
    let mut flipped = sealed.clone();
    let at = flipped.len() / 2;
    flipped[at] ^= 1;
    let other_key = {
        let mut hasher = blake3::Hasher::new_keyed(&[9; 32]);
        hasher.update(entry.file_name().unwrap().as_encoded_bytes()).update(&sealed[32..]);
        [hasher.finalize().as_bytes(), &sealed[32..]].concat()
    };
    for forged in [flipped, other_key, sealed[32..].to_vec(), sealed[..40].to_vec(), Vec::new()] {
        std::fs::write(&entry, forged).unwrap();
        // Their own entries describe the plugins, and the index is written again.
        let sandbox = directory.start_and_index().await;
        assert!(all_are(&sandbox, CodeOrigin::Described), "{:?}", origins(&sandbox));
        assert_eq!(directory.index().unwrap().len(), sealed.len());
    }
    let mut flipped = directory.index().unwrap();
    flipped[at] ^= 1;
    std::fs::write(&entry, flipped).unwrap();
    directory.remove_own_entries();
    let sandbox = directory.start().await;
    assert!(all_are(&sandbox, CodeOrigin::Cached), "{:?}", origins(&sandbox));
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_plugin_is_loaded_and_the_others_are_described() {
    let directory = Directory::of_many().await;
    directory.link("a", "greet_two");
    let sandbox = directory.start().await;
    let mut origins = origins(&sandbox);
    assert_eq!(origins.remove("greet"), Some(CodeOrigin::Compiled));
    assert!(origins.values().all(|origin| *origin == CodeOrigin::Described), "{origins:?}");
    // Its new description is in the index after the next start.
    directory.start_and_index().await;
    directory.remove_own_entries();
    let sandbox = directory.start().await;
    assert!(all_are(&sandbox, CodeOrigin::Described));
    assert_eq!(sandbox.text("greet", json!({})).await, "hello from version two");
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_plugin_leaves_the_index() {
    let directory = Directory::of_many().await;
    let has_first = |directory: &Directory| directory.index().unwrap().windows(6).any(|bytes| bytes == b"a.wasm");
    assert!(has_first(&directory));
    std::fs::remove_file(directory.file("a")).unwrap();
    directory.link("b", "surfer");
    directory.start().await;
    directory.start_and_index().await;
    assert!(!has_first(&directory));
}

#[tokio::test(flavor = "multi_thread")]
async fn index_that_lies_is_corrected_before_anything_runs() {
    let directory = Directory::of_many().await;
    directory.remove_own_entries();
    let entry = directory.entry();
    let content = directory.index().unwrap().split_off(32);
    // The same length, so that the index stays one.
    let tool = b"[{\"name\":\"greet\"";
    let name = content.windows(tool.len()).position(|bytes| bytes == tool).unwrap() + tool.len() - 7;
    let mut lying = content;
    lying[name + 1..name + 6].copy_from_slice(b"lying");
    let mut hasher = blake3::Hasher::new_keyed(&KEY);
    hasher.update(entry.file_name().unwrap().as_encoded_bytes()).update(&lying);
    std::fs::write(&entry, [hasher.finalize().as_bytes(), &*lying].concat()).unwrap();
    let sandbox = directory.start().await;
    assert!(sandbox.runtime.definitions().iter().any(|tool| tool.name == "lying"));
    assert!(sandbox.call("lying", json!({})).await.is_err());
    assert_eq!(sandbox.text("greet", json!({})).await, "hello from version one");
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_at_the_same_time_leave_a_whole_index() {
    let directory = Directory::of_many().await;
    for _ in 0..8 {
        std::fs::write(directory.entry(), b"damaged").unwrap();
        let starts = futures_util::future::join_all((0..4).map(|_| directory.start())).await;
        assert!(starts.iter().all(|sandbox| all_are(sandbox, CodeOrigin::Described)));
        until("the index is written", || directory.index().is_some_and(|index| index.len() > 100)).await;
    }
    directory.remove_own_entries();
    assert!(all_are(&directory.start().await, CodeOrigin::Described));
}

/// Grants nothing, and counts the components that it decides on at a time.
#[derive(Default)]
struct Counting(Mutex<Vec<usize>>);

impl PluginPolicy for Counting {
    fn settings(&self, _: &Component<'_>) -> Result<PluginSettings, LoadError> {
        self.0.lock().unwrap().push(1);
        Ok(PluginSettings::default())
    }

    fn settings_of_all(&self, components: &[Component<'_>]) -> Vec<Result<PluginSettings, LoadError>> {
        self.0.lock().unwrap().push(components.len());
        components.iter().map(|_| Ok(PluginSettings::default())).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_decides_once_on_all_plugins_that_are_described() {
    let directory = Directory::of_many().await;
    let policy = Arc::new(Counting::default());
    let sandbox = directory.builder().policy(policy.clone()).build().await;
    assert!(all_are(&sandbox, CodeOrigin::Described));
    assert_eq!(*policy.0.lock().unwrap(), [PLUGINS.len()]);
}
