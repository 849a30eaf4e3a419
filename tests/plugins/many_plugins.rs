//! Compiled code in memory: the code of the plugins that were not called for longest is dropped, and comes back from
//! the cache.

use pinion_tests::{Sandbox, SandboxBuilder, guest};
use serde_json::json;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PLUGINS: usize = 18;
/// Plugins whose code stays in memory.
const KEPT: usize = 16;

fn name(number: usize) -> String {
    format!("gr{number:03}")
}

/// A cache that later runs of the tests use, too, because compiling many plugins takes long.
fn shared_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("many_plugins")
}

/// Plugins that were called once each, in their order, and the directory of their files. They were described by the cache.
async fn called(cache: &Path) -> (Sandbox, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (0..PLUGINS).map(|number| copy(directory.path(), &name(number))).collect();
    let load = || files.iter().cloned().fold(SandboxBuilder::default().cache(cache), SandboxBuilder::file).build();
    let mut sandbox = load().await;
    for _ in 0..1_000 {
        // A description is kept once its file has rested.
        if sandbox.runtime.code_in_memory() > 0 {
            sandbox = load().await;
        }
    }
    assert_eq!(sandbox.runtime.code_in_memory(), 0);
    for number in 0..PLUGINS {
        assert_eq!(greeting(&sandbox, number).await, "hello from version one");
    }
    (sandbox, directory)
}

/// Copies a guest under another name of plugin and tool.
fn copy(into: &Path, name: &str) -> PathBuf {
    let mut bytes = std::fs::read(guest("greet_one")).unwrap();
    let places: Vec<usize> = bytes.windows(5).enumerate().filter(|(_, at)| at == b"greet").map(|(at, _)| at).collect();
    places.into_iter().for_each(|at| bytes[at..at + 5].copy_from_slice(name.as_bytes()));
    let file = into.join(format!("{name}.wasm"));
    std::fs::write(&file, bytes).unwrap();
    file
}

async fn greeting(sandbox: &Sandbox, number: usize) -> String {
    sandbox.text(&name(number), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn code_gives_way_and_comes_back_for_plugins_that_take_turns() {
    let (sandbox, _directory) = called(&shared_cache()).await;
    assert_eq!(sandbox.runtime.code_in_memory(), KEPT);
    for number in (0..PLUGINS).cycle().take(2 * PLUGINS) {
        assert_eq!(greeting(&sandbox, number).await, "hello from version one");
    }
    assert_eq!(sandbox.runtime.code_in_memory(), PLUGINS);
    assert!(sandbox.runtime.plugins().iter().all(|plugin| plugin.generation == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_file_keeps_a_plugin_whose_code_gave_way() {
    let (sandbox, directory) = called(&shared_cache()).await;
    std::fs::write(directory.path().join("gr000.wasm"), b"not wasm").unwrap();
    assert_eq!(greeting(&sandbox, 0).await, "hello from version one");
    assert_eq!(sandbox.runtime.problems().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_gave_way_and_left_the_cache_is_compiled_again() {
    drop(called(&shared_cache()).await);
    let cache = tempfile::tempdir().unwrap();
    let copy = |entry: &DirEntry| std::fs::copy(entry.path(), cache.path().join(entry.file_name()));
    std::fs::read_dir(shared_cache()).unwrap().flatten().for_each(|entry| drop(copy(&entry)));
    let (sandbox, _directory) = called(cache.path()).await;
    std::fs::read_dir(cache.path()).unwrap().flatten().for_each(|entry| std::fs::remove_file(entry.path()).unwrap());
    assert_eq!(greeting(&sandbox, 0).await, "hello from version one");
    assert!(sandbox.runtime.problems().is_empty());
}
