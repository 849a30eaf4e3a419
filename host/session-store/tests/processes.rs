//! Two processes and one session. The second process is this test, started again.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use pinion_protocol::{Message, SessionStore as _};
use pinion_session_store::{
    Session, SessionDirectory, SessionErrorKind, Snapshot, Transcript, open_to_continue, restore,
};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Where the other process finds the session.
const FILE: &str = "PINION_TEST_SESSION";

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text))
}

/// Begins a session in another process, says something, and waits to be killed or told to end.
#[test]
fn the_other_process() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let session = Session::begin(Path::new(&path), Path::new("/w"));
    session.append(&user("from the other process")).unwrap();
    let snapshot = session.snapshot(None, Some("s.c.1")).unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nsnapshot {}", serde_json::to_string(&snapshot).unwrap()).unwrap();
    out.flush().unwrap();
    session.append(&user("after the snapshot")).unwrap();
    writeln!(out, "\nready").unwrap();
    out.flush().unwrap();
    let _ = std::io::stdin().lines().next();
}

struct Other {
    process: Child,
    snapshot: Snapshot,
}

impl Other {
    fn start(path: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_other_process", "--nocapture", "--test-threads=1"])
            .env(FILE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut snapshot = None;
        for line in lines.map(Result::unwrap) {
            if let Some(json) = line.strip_prefix("snapshot ") {
                snapshot = Some(serde_json::from_str(json).unwrap());
            }
            if line == "ready" {
                break;
            }
        }
        Self { process, snapshot: snapshot.expect("the other process ended early") }
    }

    fn kill(mut self) -> Snapshot {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.snapshot
    }
}

#[test]
fn the_second_process_is_told_who_has_the_session_until_that_one_is_gone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.jsonl");
    let other = Other::start(&path);
    let error = open_to_continue(&path, Path::new("/w")).unwrap_err();
    assert!(matches!(error.kind, SessionErrorKind::Locked { .. }), "{error}");
    if cfg!(target_os = "linux") {
        let expected = format!("session `{}` is in use by process {}", path.display(), other.process.id());
        assert_eq!(error.to_string(), expected);
    }
    let refused = SessionDirectory::new(folder.path()).delete(&path).unwrap_err();
    assert!(matches!(refused.kind, SessionErrorKind::Locked { .. }), "{refused}");
    assert_eq!(Transcript::open(&path).unwrap().branch().count(), 2);
    other.kill();
    assert_eq!(open_to_continue(&path, Path::new("/w")).unwrap().messages.len(), 2);
}

#[test]
fn a_snapshot_is_gone_on_with_in_another_process() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.jsonl");
    let snapshot = Other::start(&path).kill();
    assert_eq!(snapshot.loop_id.as_deref(), Some("s.c.1"));
    let opened = restore(&snapshot).unwrap();
    assert_eq!(opened.messages.len(), 1);
    opened.session.append(&user("instead")).unwrap();
    assert_eq!(Transcript::open(&path).unwrap().branches().len(), 2);
}
