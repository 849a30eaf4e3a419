//! Stored values belong to one plugin, survive kills, and are bounded.

pub(super) mod command;

use super::steps;
use pinion_plugin_runtime::{Component, FileAccess, LoadError, PartialLimits, PluginPolicy, PluginSettings};
use pinion_tests::{Progress, Sandbox, SandboxBuilder, guest};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const QUOTA: u64 = 16 * 1024 * 1024;

/// Loads the keeper of a file with a storage directory.
async fn keeper(file: PathBuf, storage: &Path, quota: u64) -> Sandbox {
    SandboxBuilder::default().file(file).storage("keeper", storage, quota).watched().build().await
}

/// Runs steps in a call and returns a line for each.
async fn run(sandbox: &Sandbox, steps: &[&[&str]]) -> Vec<String> {
    steps::run(sandbox, "keep", steps).await
}

/// Runs one step.
async fn one(sandbox: &Sandbox, step: &[&str]) -> String {
    run(sandbox, &[step]).await.remove(0)
}

/// Writes a copy of the keeper with another name in its manifest, of the same length.
fn renamed(path: &Path, name: &str) {
    let mut bytes = fs::read(guest("keeper")).unwrap();
    let old = b"\"name\":\"keeper\"";
    let found: Vec<usize> = (0..bytes.len() - old.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
    assert!(!found.is_empty(), "no name in the manifest");
    for at in found {
        bytes[at + 8..at + 14].copy_from_slice(name.as_bytes());
    }
    fs::write(path, bytes).unwrap();
}

/// Returns all paths below a directory, relative to it.
fn names(directory: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            names.insert(path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned());
            open.extend(path.symlink_metadata().unwrap().is_dir().then_some(path));
        }
    }
    names
}

/// Returns the only file of values in a directory.
fn values_in(directory: &Path) -> PathBuf {
    let values: Vec<String> = names(directory).into_iter().filter(|name| name.ends_with(".values")).collect();
    assert_eq!(values.len(), 1, "{values:?}");
    directory.join(&values[0])
}

#[tokio::test(flavor = "multi_thread")]
async fn values_survive_their_runtime_and_an_update_of_the_file() {
    let (storage, installed) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = installed.path().join("keeper.wasm");
    fs::copy(guest("keeper"), &file).unwrap();
    let first = keeper(file.clone(), storage.path(), QUOTA).await;
    assert!(one(&first, &["set", "plugin", "a", "kept"]).await.starts_with("ok"));
    drop(first);
    // Another digest: a custom section that means nothing.
    let mut bytes = fs::read(&file).unwrap();
    bytes.extend([0, 4, 3, b'n', b'e', b'w']);
    fs::write(&file, bytes).unwrap();
    let second = keeper(file, storage.path(), QUOTA).await;
    assert_eq!(run(&second, &[&["get", "plugin", "a"], &["keys", "plugin", "", "", "10"]]).await, ["ok kept", "ok a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_of_the_same_name_from_another_file_finds_nothing() {
    let (storage, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let honest = keeper(guest("keeper"), storage.path(), QUOTA).await;
    for scope in ["plugin", "workspace", "session"] {
        one(&honest, &["set", scope, "a", "mine"]).await;
    }
    // The same name, file name, bytes and grants.
    let file = other.path().join("keeper.wasm");
    fs::copy(guest("keeper"), &file).unwrap();
    let thief = keeper(file, storage.path(), QUOTA).await;
    for scope in ["plugin", "workspace", "session"] {
        let steps: &[&[&str]] =
            &[&["get", scope, "a"], &["keys", scope, "", "", "10"], &["remove", scope, "a"], &["set", scope, "a", "x"]];
        assert_eq!(run(&thief, steps).await[..3], ["ok none", "ok ", "ok "]);
        assert_eq!(one(&honest, &["get", scope, "a"]).await, "ok mine");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_of_another_name_in_the_same_file_finds_nothing() {
    let (storage, installed) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = installed.path().join("keeper.wasm");
    fs::copy(guest("keeper"), &file).unwrap();
    one(&keeper(file.clone(), storage.path(), QUOTA).await, &["set", "plugin", "a", "mine"]).await;
    for name in ["keepes", "Keeper", "KEEPER", "keep_r"] {
        renamed(&file, name);
        let builder = SandboxBuilder::default().file(file.clone()).storage(name, storage.path(), QUOTA);
        let thief = builder.watched().build().await;
        assert_eq!(one(&thief, &["get", "plugin", "a"]).await, "ok none", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_do_not_mix() {
    let storage = TempDir::new().unwrap();
    let sandbox = keeper(guest("keeper"), storage.path(), QUOTA).await;
    for scope in ["plugin", "workspace", "session"] {
        one(&sandbox, &["set", scope, "a", scope]).await;
    }
    let script = json!({ "steps": [["get", "plugin", "a"], ["get", "workspace", "a"], ["get", "session", "a"]] });
    let read = async |sandbox: &Sandbox, session: &str| sandbox.text_in(session, "keep", script.clone()).await;
    assert_eq!(read(&sandbox, "session-1").await, "ok plugin\nok workspace\nok session");
    for session in ["session-2", "../sessions/session-1", "session-1/", "SESSION-1", "session-1\0"] {
        assert_eq!(read(&sandbox, session).await, "ok plugin\nok workspace\nok none", "{session:?}");
    }
    // Another sandbox has another workspace.
    let elsewhere = keeper(guest("keeper"), storage.path(), QUOTA).await;
    assert_eq!(read(&elsewhere, "session-1").await, "ok plugin\nok none\nok session");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn workspace_is_known_by_its_path_without_links() {
    let storage = TempDir::new().unwrap();
    let sandbox = keeper(guest("keeper"), storage.path(), QUOTA).await;
    one(&sandbox, &["set", "workspace", "a", "here"]).await;
    let labels = fs::read(values_in(storage.path())).unwrap();
    let real = sandbox.workspace().canonicalize().unwrap();
    assert!(String::from_utf8_lossy(&labels).contains(real.to_str().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_without_a_session_has_no_session_values() {
    let storage = TempDir::new().unwrap();
    let sandbox = keeper(guest("keeper"), storage.path(), QUOTA).await;
    let script = json!({ "steps": [["set", "session", "a", "x"], ["keys", "session", "", "", "1"], ["set", "plugin", "a", "x"]] });
    let text = sandbox.text_in("", "keep", script).await;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[..2].iter().all(|line| line.starts_with("err denied: ") && line.contains("no session")), "{text}");
    assert!(lines[2].starts_with("ok"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_stored_without_the_grant() {
    let storage = TempDir::new().unwrap();
    let sandbox = SandboxBuilder::default().guest("keeper").watched().build().await;
    let steps: &[&[&str]] = &[
        &["set", "plugin", "a", "x"],
        &["replace", "workspace", "a", "-", "x"],
        &["get", "session", "a"],
        &["remove", "plugin", "a"],
        &["keys", "plugin", "", "", "10"],
    ];
    for line in run(&sandbox, steps).await {
        assert!(
            line.contains("may not store values") && line.contains("[plugins.keeper.grants] storage = true"),
            "{line}"
        );
    }
    assert!(names(storage.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn code_outside_calls_stores_nothing_and_completion_only_reads() {
    let storage = TempDir::new().unwrap();
    let sandbox = keeper(guest("keeper"), storage.path(), QUOTA).await;
    let line = one(&sandbox, &["init"]).await;
    assert!(line.starts_with("ok err denied: ") && line.contains("only calls of tools and commands may"), "{line}");
    assert_eq!(one(&sandbox, &["get", "plugin", "init"]).await, "ok none");
    one(&sandbox, &["set", "plugin", "a", "kept"]).await;
    let completions = sandbox.completed("keep", "a").await;
    let values: Vec<&str> = completions.iter().map(|completion| completion.value.as_str()).collect();
    let [read, written, of_session] = values[..] else { panic!("{values:?}") };
    assert_eq!(read, "ok kept");
    assert!(written.starts_with("err denied: ") && of_session.starts_with("err denied: "), "{values:?}");
    assert_eq!(one(&sandbox, &["get", "plugin", "a"]).await, "ok kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn strange_keys_are_values_and_never_paths() {
    let storage = TempDir::new().unwrap();
    let sandbox = keeper(guest("keeper"), storage.path(), QUOTA).await;
    let long = "x".repeat(256);
    let keys = ["../../a", "/etc/passwd", "a\0b", "a", "A", "é", "e\u{301}", ".", "..", "plugin.values", "a/", &long];
    for key in keys {
        assert!(one(&sandbox, &["set", "plugin", key, key]).await.starts_with("ok"), "{key:?}");
    }
    for key in keys {
        assert_eq!(one(&sandbox, &["get", "plugin", key]).await, format!("ok {key}"));
    }
    for key in ["", &"x".repeat(257), &"é".repeat(129)] {
        assert!(one(&sandbox, &["set", "plugin", key, "x"]).await.starts_with("err invalid: "), "{key:?}");
    }
    let is_known = |name: &str| {
        let last = name.rsplit('/').next().unwrap();
        ["plugins", "plugin.values", "plugin.lock"].contains(&last) || last.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    assert!(names(storage.path()).iter().all(|name| is_known(name)), "{:?}", names(storage.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_keys_or_bytes_ends_at_the_quota() {
    for size in ["0", "20000"] {
        let storage = TempDir::new().unwrap();
        let sandbox = keeper(guest("keeper"), storage.path(), 200_000).await;
        let line = one(&sandbox, &["fill", "plugin", "k", size]).await;
        let written: u64 = line.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(line.contains(" quota: ") && (9..200_000 / 256).contains(&written), "{line}");
        assert!(fs::metadata(values_in(storage.path())).unwrap().len() < 400_000);
        // Its other scopes have separate quotas, and the stored values can be read and removed.
        assert!(one(&sandbox, &["set", "session", "a", "x"]).await.starts_with("ok"));
        assert!(one(&sandbox, &["get", "plugin", "k0"]).await.starts_with("ok"));
        let steps: &[&[&str]] = &[&["remove", "plugin", "k0"], &["set", "plugin", "z", "x"]];
        assert!(run(&sandbox, steps).await.iter().all(|line| line.starts_with("ok")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn huge_values_are_refused_and_the_host_continues() {
    let storage = TempDir::new().unwrap();
    let sandbox = keeper(guest("keeper"), storage.path(), QUOTA).await;
    assert!(one(&sandbox, &["set-bytes", "plugin", "a", "1048576"]).await.starts_with("ok"));
    assert!(one(&sandbox, &["set-bytes", "plugin", "a", "1048577"]).await.starts_with("err invalid: "));
    // More than one host call may carry.
    let error = sandbox.error("keep", json!({ "steps": [["set-bytes", "plugin", "b", "40000000"]] })).await;
    assert!(error.contains("keeper"), "{error}");
    assert_eq!(one(&sandbox, &["keys", "plugin", "", "", "10"]).await, "ok a");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_count_toward_the_bytes_of_their_call() {
    let storage = TempDir::new().unwrap();
    let limits = PartialLimits { bytes_written: Some(1000), ..PartialLimits::default() };
    let builder = SandboxBuilder::default().guest("keeper").storage("keeper", storage.path(), QUOTA);
    let sandbox = builder.limits("keeper", limits).watched().build().await;
    let error = sandbox.error("keep", json!({ "steps": [["fill", "plugin", "k", "300"]] })).await;
    assert!(error.contains("bytes-written"), "{error}");
    assert_eq!(one(&sandbox, &["keys", "plugin", "", "", "10"]).await, "ok k0,k1,k2");
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_counts_changes_of_values() {
    let storage = TempDir::new().unwrap();
    let sandbox = keeper(guest("keeper"), storage.path(), QUOTA).await;
    let steps = json!({ "steps": [["set", "plugin", "a", "x"], ["get", "plugin", "a"], ["remove", "plugin", "a"]] });
    let (_, ledger) = sandbox.call_with("keep", steps, &Progress::default(), CancellationToken::new()).await;
    assert_eq!((ledger.counts["stored value"], ledger.bytes_written), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_keys_are_bounded() {
    let storage = TempDir::new().unwrap();
    let sandbox = keeper(guest("keeper"), storage.path(), 400_000).await;
    one(&sandbox, &["fill", "plugin", "k", "0"]).await;
    let page = one(&sandbox, &["keys", "plugin", "k", "", "1000"]).await;
    assert_eq!(page.split(',').count(), 1000);
    let last = page.rsplit(',').next().unwrap();
    let next = one(&sandbox, &["keys", "plugin", "k", last, "1000"]).await;
    assert!(next[3..].split(',').all(|key| key > last) && (400..600).contains(&next.split(',').count()), "{next}");
    for limit in ["0", "1001", "4294967295"] {
        assert!(one(&sandbox, &["keys", "plugin", "", "", limit]).await.starts_with("err invalid: "));
    }
}

/// Two runtimes, each with two calls at once, as two processes of an agent with parallel calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousand_concurrent_increments_lose_nothing() {
    let storage = TempDir::new().unwrap();
    let one_keeper = keeper(guest("keeper"), storage.path(), QUOTA).await;
    let other = keeper(guest("keeper"), storage.path(), QUOTA).await;
    let script = json!({ "steps": [["increment", "plugin", "n", "250"]] });
    let texts = tokio::join!(
        one_keeper.text("keep", script.clone()),
        one_keeper.text("keep", script.clone()),
        other.text("keep", script.clone()),
        other.text("keep", script.clone()),
    );
    assert_eq!(texts, ("ok ".to_owned(), "ok ".to_owned(), "ok ".to_owned(), "ok ".to_owned()));
    assert_eq!(one(&one_keeper, &["get", "plugin", "n"]).await, "ok 1000");
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_and_forged_versions_change_nothing() {
    let storage = TempDir::new().unwrap();
    let sandbox = keeper(guest("keeper"), storage.path(), QUOTA).await;
    let first = one(&sandbox, &["replace", "plugin", "a", "-", "1"]).await[3..].to_owned();
    let second = one(&sandbox, &["set", "plugin", "a", "2"]).await[3..].to_owned();
    for version in ["-", &first, "0", "4294967295"] {
        assert_eq!(one(&sandbox, &["replace", "plugin", "a", version, "x"]).await, "err changed", "{version}");
    }
    one(&sandbox, &["remove", "plugin", "a"]).await;
    one(&sandbox, &["set", "plugin", "a", "3"]).await;
    assert_eq!(one(&sandbox, &["replace", "plugin", "a", &second, "x"]).await, "err changed");
    assert_eq!(one(&sandbox, &["get", "plugin", "a"]).await, "ok 3");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn linked_storage_directory_is_refused() {
    let (outside, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let storage = outside.path().join("storage");
    std::os::unix::fs::symlink(elsewhere.path(), &storage).unwrap();
    let sandbox = keeper(guest("keeper"), &storage, QUOTA).await;
    let steps: &[&[&str]] = &[&["set", "plugin", "a", "x"], &["get", "plugin", "a"], &["keys", "session", "", "", "1"]];
    assert!(run(&sandbox, steps).await.iter().all(|line| line.starts_with("err io: ")));
    assert!(names(elsewhere.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_values_are_reported_and_others_are_served() {
    let storage = TempDir::new().unwrap();
    let sandbox = keeper(guest("keeper"), storage.path(), QUOTA).await;
    one(&sandbox, &["set", "plugin", "a", "one"]).await;
    one(&sandbox, &["set", "plugin", "b", "two"]).await;
    let file = values_in(storage.path());
    let whole = fs::read(&file).unwrap();
    for at in [0, 16, 40, whole.len() / 2, whole.len() - 2] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x11;
        fs::write(&file, bytes).unwrap();
        // A runtime that has not read the file yet.
        let fresh = keeper(guest("keeper"), storage.path(), QUOTA).await;
        let line = one(&fresh, &["get", "plugin", "a"]).await;
        assert!(line.starts_with("err io: ") && line.contains("pinion plugin storage keeper --clear"), "{at}: {line}");
        assert!(one(&fresh, &["set", "plugin", "c", "x"]).await.starts_with("err io: "));
        assert!(one(&fresh, &["set", "workspace", "c", "x"]).await.starts_with("ok"));
    }
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(one(&keeper(guest("keeper"), storage.path(), QUOTA).await, &["get", "plugin", "a"]).await, "ok one");
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_values_are_outside_every_file_grant() {
    let builder = SandboxBuilder::default().guest("intruder").files("intruder", "..", FileAccess::Write);
    let sandbox = builder
        .watched()
        .private("data")
        .with_file("data/plugin-storage/plugins/x/plugin.values", "mine")
        .build()
        .await;
    let path = sandbox.outside().canonicalize().unwrap().join("data/plugin-storage/plugins/x/plugin.values");
    let path = path.to_str().unwrap();
    steps::refused(&sandbox, "change", &[&["read", path], &["write", path, "x"], &["remove", path]]).await;
    assert_eq!(fs::read_to_string(path).unwrap(), "mine");
}

/// The policy of a config that changes.
struct Changing {
    file: PathBuf,
}

impl PluginPolicy for Changing {
    fn settings(&self, component: &Component<'_>) -> Result<PluginSettings, LoadError> {
        let all: Value = serde_json::from_str(&fs::read_to_string(&self.file).unwrap()).unwrap();
        let config = all[&component.manifest.name].clone();
        Ok(PluginSettings { config, ..PluginSettings::default() })
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.file.clone()]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_the_plugins_own_and_follow_the_config() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("settings.json");
    let write = |color: &str| {
        let all = json!({ "keeper": { "color": color }, "intruder": { "token": "not-for-keepers" } });
        fs::write(&file, all.to_string()).unwrap();
    };
    write("red");
    let guests = SandboxBuilder::default().guest("keeper").guest("intruder");
    let sandbox = guests.policy(Arc::new(Changing { file: file.clone() })).build().await;
    let steps: &[&[&str]] = &[&["settings"], &["config"]];
    assert_eq!(run(&sandbox, steps).await, ["ok {\"color\":\"red\"}", "ok {\"color\":\"red\"}"]);
    // A call that began before the change sees it, too.
    let script = json!({ "steps": [["await-settings"]] });
    let (progress, token) = (Progress::default(), CancellationToken::new());
    let (call, ()) = tokio::join!(sandbox.call_with("keep", script, &progress, token), async {
        progress.first().await;
        write("blue, after a while");
        sandbox.runtime.refresh().await;
    });
    let text: String = call.0.unwrap().content.iter().filter_map(|part| part.as_text()).collect();
    assert_eq!(text, "ok {\"color\":\"blue, after a while\"}");
    assert_eq!(one(&sandbox, &["settings"]).await, "ok {\"color\":\"blue, after a while\"}");
}
