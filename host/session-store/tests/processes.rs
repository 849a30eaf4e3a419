//! Two processes and one session. The second process is this test, started again.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue has failed")]

use pinion_protocol::{Message, SessionStore as _};
use pinion_session_store::{
    Session, SessionDirectory, SessionErrorKind, SessionSnapshot, Transcript, open_to_continue, restore,
};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// The environment variable with the session of the other process.
const FILE: &str = "PINION_TEST_SESSION";

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text))
}

/// Runs in the other process: starts a session, appends messages, and waits for a kill or for the end of its input.
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
    snapshot: SessionSnapshot,
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

    fn kill(mut self) -> SessionSnapshot {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.snapshot
    }
}

#[test]
fn second_process_gets_the_holder_until_it_ends() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.jsonl");
    let other = Other::start(&path);
    let error = open_to_continue(&path, Path::new("/w")).unwrap_err();
    assert!(matches!(error.kind, SessionErrorKind::Locked { .. }), "{error}");
    if cfg!(target_os = "linux") {
        let expected = format!("session `{}` is in use by process {}", path.display(), other.process.id());
        assert_eq!(error.to_string(), expected);
    }
    let refused = SessionDirectory::new(directory.path()).delete(&path).unwrap_err();
    assert!(matches!(refused.kind, SessionErrorKind::Locked { .. }), "{refused}");
    assert_eq!(Transcript::open(&path).unwrap().branch().count(), 2);
    other.kill();
    assert_eq!(open_to_continue(&path, Path::new("/w")).unwrap().messages.len(), 2);
}

#[test]
fn snapshot_of_another_process_can_be_continued() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.jsonl");
    let snapshot = Other::start(&path).kill();
    assert_eq!(snapshot.run_id.as_deref(), Some("s.c.1"));
    let opened = restore(&snapshot).unwrap();
    assert_eq!(opened.messages.len(), 1);
    opened.session.append(&user("instead")).unwrap();
    assert_eq!(Transcript::open(&path).unwrap().branches().len(), 2);
}
