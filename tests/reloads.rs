//! Many reloads of one plugin while it is called. By default a sample, with `PINION_LONG=1` ten thousand.

use pinion_agent::tool::ToolError;
use pinion_agent::{Content, ToolExecutor as _};
use pinion_tests::{Progress, SandboxBuilder, guest};
use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Calls that are under way at any time.
const CALLERS: usize = 8;

/// Returns the resident memory of the process in megabytes.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * rustix::param::page_size() as f64 / 1e6
}

/// In the long mode, the number of reloads of which one compiles: the others find their code in the cache.
const NEW_CODE: u32 = 50;

/// Replaces the plugin by a version whose digest depends on `number`.
fn replace(file: &Path, version: &[u8], number: u32) {
    let mut bytes = version.to_vec();
    bytes.extend([0, 6, 1, b'n']);
    bytes.extend(number.to_le_bytes());
    let path = file.with_extension("new");
    std::fs::write(&path, bytes).unwrap();
    // A reload waits for a file that was written just now.
    let rested = SystemTime::now() - Duration::from_secs(1);
    File::options().append(true).open(&path).unwrap().set_modified(rested).unwrap();
    std::fs::rename(&path, file).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reloads_under_load_lose_no_call_and_keep_no_memory() {
    let is_long = std::env::var_os("PINION_LONG").is_some();
    let reloads: u32 = if is_long { 10_000 } else { 40 };
    let (directory, cache) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = directory.path().join("greet.wasm");
    let versions = ["greet_one", "greet_two"].map(|name| std::fs::read(guest(name)).unwrap());
    replace(&file, &versions[0], 0);
    let sandbox = Arc::new(SandboxBuilder::default().file(file.clone()).cache(cache.path()).build().await);
    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (sandbox, is_over, answered) = (sandbox.clone(), is_over.clone(), answered.clone());
        callers.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let call = sandbox.invocation("greet", json!({}), CancellationToken::new());
                match sandbox.runtime.call(call, &Progress::default()).await.result {
                    Ok(output) => {
                        let text = output.content.first().and_then(Content::as_text).unwrap();
                        assert!(text.starts_with("hello from version "), "{text}");
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    // No code ran; the loop decides on the call again.
                    Err(ToolError::Changed { .. }) => {}
                    Err(error) => panic!("a call was lost: {error}"),
                }
            }
        });
    }
    let mut early = 0.0;
    for number in 1..=reloads {
        let code = if is_long && number % NEW_CODE != 0 { number % 2 } else { number };
        replace(&file, &versions[number as usize % 2], code);
        let expected = ["hello from version one", "hello from version two"][number as usize % 2];
        assert_eq!(sandbox.text("greet", json!({})).await, expected);
        assert_eq!(sandbox.runtime.plugins()[0].generation, number + 1);
        if number == reloads / 10 {
            early = resident();
        }
    }
    is_over.store(true, Ordering::Relaxed);
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
    let late = resident();
    assert!(answered.load(Ordering::Relaxed) >= CALLERS);
    // Other tests of this process use memory, too, so only the long mode, which runs alone, looks at it.
    assert!(
        !is_long || late < early * 1.1 + 5.0,
        "{early:.1} MB after a tenth of the reloads, {late:.1} MB at the end"
    );
}
