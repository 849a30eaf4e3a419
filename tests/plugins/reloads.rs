//! Reloads of one plugin: many while it is called, by default a sample, with `PINION_LONG=1` ten thousand; and reloads
//! of an author, which do not compile unchanged functions again.

use pinion_agent::tool::ToolError;
use pinion_agent::{Content, ToolExecutor as _};
use pinion_tests::{Progress, SandboxBuilder, binary, guest};
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

/// In the long mode, one of so many reloads compiles; the others find their code in the cache.
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

/// Runs the compiler of the command, and copies its input from the host to the file `sent-PID`.
const COPYING: &str = r#"
    mkfifo "$0/pipe-$$" && exec 3<&0
    tee "$0/sent-$$" <&3 > "$0/pipe-$$" 2> /dev/null &
    exec "$1" compile-component-for-parent < "$0/pipe-$$" 3<&-
"#;

/// Returns the bytes of functions that the host sent with each component to compile, in increasing order; `None` where
/// it asked for no functions.
fn functions_sent(directory: &Path) -> Vec<Option<u64>> {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let sent = files.filter(|file| file.file_name().to_string_lossy().starts_with("sent-"));
    let requests = sent.map(|file| std::fs::read(file.path()).unwrap());
    let last_of_header = |request: Vec<u8>| u64::from_le_bytes(request[24..32].try_into().unwrap());
    let mut lengths: Vec<_> = requests.map(last_of_header).map(|bytes| (bytes != u64::MAX).then_some(bytes)).collect();
    lengths.sort_unstable();
    lengths
}

#[tokio::test(flavor = "multi_thread")]
async fn new_version_of_a_plugin_takes_compiled_functions_from_the_last() {
    let (directory, cache, requests) = (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = directory.path().join("greet.wasm");
    let versions = ["greet_one", "greet_two"].map(|name| std::fs::read(guest(name)).unwrap());
    replace(&file, &versions[0], 0);
    let (at, command) = (requests.path().to_str().unwrap(), binary());
    let sandbox = SandboxBuilder::default()
        .file(file.clone())
        .cache(cache.path())
        .compiler("sh", &["-c", COPYING, at, command.to_str().unwrap()])
        .build()
        .await;
    assert_eq!(functions_sent(requests.path()), [None], "most plugins are never edited");
    replace(&file, &versions[1], 1);
    assert_eq!(sandbox.text("greet", json!({})).await, "hello from version two");
    assert_eq!(functions_sent(requests.path()), [None, Some(0)]);
    replace(&file, &versions[0], 2);
    assert_eq!(sandbox.text("greet", json!({})).await, "hello from version one");
    let sent = functions_sent(requests.path());
    assert!(sent.len() == 3 && sent[2] > Some(10_000), "{sent:?}");
}
