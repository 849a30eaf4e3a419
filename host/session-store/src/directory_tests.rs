use super::*;
use crate::record::{Record, RunStarted};
use crate::summary::{SUMMARY_LIMIT, TITLE_LENGTH};
use crate::testing::{calls, user, workspace};
use pinion_protocol::{ChildCall, SessionStore};
use std::fs::File;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A directory with sessions, each written one second after the one before.
struct Fixture {
    root: TempDir,
    directory: SessionDirectory,
    clock: u64,
}

impl Fixture {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let directory = SessionDirectory::new(root.path().join("sessions"));
        Self { root, directory, clock: 1_000_000_000 }
    }

    fn session(&mut self, workspace: &str, prompt: &str) -> PathBuf {
        let session = self.directory.begin(Path::new(workspace));
        session.append(&user(prompt)).unwrap();
        self.touch(session.path());
        session.path().to_owned()
    }

    /// Creates a file in the workspace's directory.
    fn file(&mut self, workspace: &str, name: &str, text: &str) -> PathBuf {
        let path = self.directory.root.join(project_slug(workspace)).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        self.touch(&path);
        path
    }

    fn touch(&mut self, path: &Path) {
        self.clock += 1;
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(self.clock);
        File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn titles(&self, scope: ListScope<'_>) -> Vec<String> {
        let listing = self.directory.list(scope).unwrap();
        listing.sessions.into_iter().map(|summary| summary.title.unwrap_or_default()).collect()
    }
}

fn project_slug(workspace: &str) -> String {
    files::project_slug(Path::new(workspace))
}

#[test]
fn missing_directory_has_no_sessions() {
    let fixture = Fixture::new();
    assert!(fixture.titles(ListScope::All).is_empty());
    assert_eq!(fixture.directory.latest(workspace()).unwrap(), None);
    assert!(fixture.root.path().read_dir().unwrap().next().is_none());
}

#[test]
fn last_written_session_comes_first() {
    let mut fixture = Fixture::new();
    let first = fixture.session("/a", "first");
    fixture.session("/a", "second");
    fixture.session("/b", "third");
    assert_eq!(fixture.titles(ListScope::All), ["third", "second", "first"]);
    assert_eq!(fixture.titles(ListScope::Workspace(Path::new("/a"))), ["second", "first"]);
    fixture.touch(&first);
    let latest = fixture.directory.latest(Path::new("/a")).unwrap().unwrap();
    assert_eq!((latest.path, latest.header.unwrap().workspace), (first, PathBuf::from("/a")));
}

#[test]
fn session_is_found_by_the_start_of_its_id() {
    let mut fixture = Fixture::new();
    let one = fixture.file("/a", "20260101T000000Z_ab1.jsonl", "x");
    fixture.file("/b", "20260101T000000Z_ab2.jsonl", "x");
    fixture.file("/b", "20260101T000000Z_ab2.jsonl.torn-1", "x");
    assert_eq!(fixture.directory.find("AB1").unwrap(), one);
    let ambiguous = fixture.directory.find("ab").unwrap_err();
    assert_eq!(ambiguous.to_string(), "2 session ids start with `ab`: ab2, ab1");
    for prefix in ["", "abc", "20260101", "../"] {
        let error = fixture.directory.find(prefix).unwrap_err();
        let SessionErrorKind::NotFound { recent } = &error.kind else { panic!("{error}") };
        assert_eq!(*recent, ["ab2", "ab1"]);
    }
}

#[test]
fn unreadable_files_are_reported_beside_the_sessions() {
    let mut fixture = Fixture::new();
    fixture.session("/a", "good");
    fixture.file("/a", "1_notes.jsonl", "these are notes\n");
    fixture.file("/a", "2_new.jsonl", "{\"type\":\"session\",\"version\":9}\n");
    fs::create_dir(fixture.directory.root.join(project_slug("/a")).join("3_directory.jsonl")).unwrap();
    let listing = fixture.directory.list(ListScope::All).unwrap();
    assert_eq!(listing.sessions.len(), 1);
    let mut errors: Vec<String> = listing.unreadable.iter().map(ToString::to_string).collect();
    errors.sort();
    assert!(errors[0].ends_with("1_notes.jsonl` is not a session"), "{errors:?}");
    assert!(errors[1].ends_with("has format version 9, but this program reads version 1"), "{errors:?}");
    assert_eq!(errors.len(), 2);
}

#[test]
fn latest_session_of_unknown_version_is_an_error() {
    let mut fixture = Fixture::new();
    fixture.session("/a", "good");
    fixture.file("/a", "notes.jsonl", "these are notes\n");
    assert!(fixture.directory.latest(Path::new("/a")).unwrap().is_some());
    fixture.file("/a", "new.jsonl", "{\"type\":\"session\",\"version\":9}\n");
    let error = fixture.directory.latest(Path::new("/a")).unwrap_err();
    assert!(matches!(error.kind, SessionErrorKind::UnsupportedVersion { found: 9 }));
}

#[test]
fn session_without_a_complete_entry_is_not_listed() {
    let mut fixture = Fixture::new();
    let whole = fs::read(fixture.session("/a", "hello")).unwrap();
    for cut in 0..whole.len() - 1 {
        fixture.file("/b", "cut.jsonl", &String::from_utf8_lossy(&whole[..cut]));
        assert_eq!(fixture.directory.latest(Path::new("/b")).unwrap(), None, "{cut}");
        assert!(fixture.directory.list(ListScope::Workspace(Path::new("/b"))).unwrap().unreadable.is_empty(), "{cut}");
    }
}

#[test]
fn session_with_broken_header_is_listed_by_file_name() {
    let mut fixture = Fixture::new();
    let text = fs::read_to_string(fixture.session("/a", "hello")).unwrap();
    fixture.file("/b", "20260101T000000Z_ab1.jsonl", &text.replacen("session", "sessiom", 1));
    let summary = fixture.directory.latest(Path::new("/b")).unwrap().unwrap();
    assert_eq!((summary.id.as_str(), summary.header, summary.title.as_deref()), ("ab1", None, Some("hello")));
}

#[test]
fn title_is_one_short_printable_line() {
    let mut fixture = Fixture::new();
    fixture.session("/a", &format!("\n  \n\x1b[31mfix\tit {}\nnow", "x".repeat(200)));
    let titles = fixture.titles(ListScope::All);
    assert!(titles[0].starts_with("␛[31mfix it xxx"), "{titles:?}");
    assert_eq!(titles[0].chars().count(), TITLE_LENGTH);
}

#[test]
fn prompt_beyond_the_summary_limit_gives_no_title() {
    let mut fixture = Fixture::new();
    fixture.session("/a", &"x".repeat(SUMMARY_LIMIT as usize));
    let session = fixture.directory.begin(Path::new("/a"));
    session.append(&calls(&["1"])).unwrap();
    assert_eq!(fixture.titles(ListScope::All), ["", ""]);
}

fn spawn(parent: &Session, call_id: &str) -> crate::Spawn {
    crate::Spawn {
        session: parent.id().to_owned(),
        entry: parent.entry_of_call(call_id),
        call_id: call_id.to_owned(),
        tool: "task".to_owned(),
        run_id: None,
    }
}

#[test]
fn sub_agent_session_is_found_but_not_listed() {
    let fixture = Fixture::new();
    let parent = fixture.directory.begin(workspace());
    parent.append(&user("delegate")).unwrap();
    parent.append(&calls(&["1"])).unwrap();
    let child = parent.begin_child(spawn(&parent, "1"));
    child.append(&user("the task")).unwrap();
    let grandchild = child.begin_child(spawn(&child, "2"));
    grandchild.append(&user("a part of it")).unwrap();

    let header = crate::Transcript::open(child.path()).unwrap().header().unwrap().clone();
    let spawned_by = header.spawned_by.unwrap();
    assert_eq!((spawned_by.session.as_str(), spawned_by.entry), (parent.id(), parent.position()));
    assert_eq!(header.workspace, workspace());

    assert_eq!(fixture.titles(ListScope::All), ["delegate"]);
    assert_eq!(fixture.directory.latest(workspace()).unwrap().unwrap().path, parent.path());
    let children = fixture.directory.children(parent.path()).unwrap().sessions;
    assert_eq!(children.into_iter().map(|child| child.path).collect::<Vec<_>>(), [child.path()]);
    for session in [&child, &grandchild] {
        assert_eq!(fixture.directory.find(session.id()).unwrap(), session.path());
    }
}

#[test]
fn fork_copies_the_branch_and_names_its_source() {
    let fixture = Fixture::new();
    let source = fixture.directory.begin(workspace());
    for text in ["one", "two", "three"] {
        source.append(&user(text)).unwrap();
    }
    let before = fs::read(source.path()).unwrap();
    let two = "2".parse().unwrap();
    let path = fixture.directory.fork(source.path(), Some(two), workspace()).unwrap();
    let opened = crate::open_to_continue(&path, Path::new("/")).unwrap();
    assert_eq!(opened.messages, [user("one"), user("two")]);
    assert_eq!(opened.recovery, crate::Recovery::default());
    let header = opened.session.header();
    let origin = crate::SessionOrigin { session: source.id().to_owned(), entry: two };
    assert_eq!((header.forked_from.as_ref(), header.workspace.as_path()), (Some(&origin), workspace()));
    assert_ne!(header.id, source.id());
    opened.session.append(&user("another three")).unwrap();
    assert_eq!(fs::read(source.path()).unwrap(), before);
    assert_eq!(fixture.directory.list(ListScope::All).unwrap().sessions.len(), 2);

    let unknown = fixture.directory.fork(source.path(), Some("9".parse().unwrap()), workspace()).unwrap_err();
    assert!(matches!(unknown.kind, SessionErrorKind::UnknownEntry { .. }), "{unknown}");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2);
}

#[test]
fn session_of_another_workspace_is_copied_into_this_one() {
    let mut fixture = Fixture::new();
    let source = fixture.session("/elsewhere", "hello");
    assert_eq!(fixture.directory.workspace_of(&source).unwrap().as_deref(), Some(Path::new("/elsewhere")));
    assert_eq!(fixture.directory.fork(&source, None, workspace()).unwrap().parent(), source.parent());
    let copy = fixture.directory.fork_into(&source, workspace()).unwrap();
    assert_eq!(fixture.directory.workspace_of(&copy).unwrap().as_deref(), Some(workspace()));
    assert_eq!(fixture.titles(ListScope::Workspace(workspace())), ["hello"]);
}

#[test]
fn fork_skips_broken_lines_and_other_branches() {
    let mut fixture = Fixture::new();
    let source = fixture.directory.begin(workspace());
    for text in ["one", "two", "three"] {
        source.append(&user(text)).unwrap();
    }
    source.go_back(Some("2".parse().unwrap())).unwrap();
    let group = ["s.c.1".to_owned()];
    let source = std::sync::Arc::new(source);
    let group = source.clone().begin_group("g", &group).unwrap().unwrap();
    group.branch(0).append(&user("aside")).unwrap();
    group.end(Some(0), pinion_protocol::ChoiceAccount::default()).unwrap();
    let text = fs::read_to_string(source.path()).unwrap().replacen(r#""text":"two""#, "", 1);
    let path = fixture.file("/b", "source_ab1.jsonl", &text);
    let opened =
        crate::open_to_continue(&fixture.directory.fork(&path, None, workspace()).unwrap(), workspace()).unwrap();
    assert_eq!(opened.messages, [user("one"), user("aside")]);
    assert_eq!(opened.recovery, crate::Recovery::default());
}

#[test]
fn deleting_removes_torn_parts_and_sub_agent_sessions() {
    let mut fixture = Fixture::new();
    let path = fixture.session("/a", "hello");
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    fixture.file("/a", &format!("{name}.torn-1"), "torn");
    let other = fixture.file("/a", &format!("{name}2.torn-1"), "of another");
    let parent = crate::open_to_continue(&path, workspace()).unwrap().session;
    let child = parent.begin_child(spawn(&parent, "1"));
    child.append(&user("task")).unwrap();
    drop(parent);

    let error = fixture.directory.delete(&path).unwrap_err();
    assert!(
        matches!(error.kind, SessionErrorKind::Locked { .. })
            && error.subject == ErrorSubject::File(child.path().to_owned()),
        "{error}"
    );
    assert!(path.exists() && child.path().exists());
    drop(child);
    fixture.directory.delete(&path).unwrap();
    let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [other]);
}

#[test]
fn name_of_the_user_replaces_the_title_until_it_is_removed() {
    let mut fixture = Fixture::new();
    let path = fixture.session("/a", "hello");
    let title = |fixture: &Fixture| fixture.directory.list(ListScope::All).unwrap().sessions[0].title.clone().unwrap();
    fixture.directory.rename(&path, "  the \u{1b}[2Jparser\nmore").unwrap();
    assert_eq!(title(&fixture), "the ␛[2Jparser");
    fixture.directory.rename(&path, "").unwrap();
    assert_eq!(title(&fixture), "hello");
    fixture.directory.rename(&path, "again").unwrap();
    fixture.directory.delete(&path).unwrap();
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    assert!(fixture.directory.rename(&path, "gone").is_err());
}

#[test]
fn title_of_a_plugin_replaces_the_prompt_and_not_the_name_of_the_user() {
    let fixture = Fixture::new();
    let session = fixture.directory.begin(workspace());
    session.append(&user("hello")).unwrap();
    let title = || fixture.directory.list(ListScope::All).unwrap().sessions[0].title.clone().unwrap();
    session.set_title("Fix the parser").unwrap();
    assert_eq!(title(), "Fix the parser");
    session.set_title("Fix the \u{1b}[2Jlexer").unwrap();
    assert_eq!(title(), "Fix the ␛[2Jlexer");
    let path = session.path().to_owned();
    fixture.directory.rename(&path, "mine").unwrap();
    session.set_title("Not shown").unwrap();
    assert_eq!(title(), "mine");
    drop(session);
    fixture.directory.delete(&path).unwrap();
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn session_in_use_and_other_files_are_not_deleted() {
    let mut fixture = Fixture::new();
    let session = fixture.directory.begin(workspace());
    session.append(&user("hello")).unwrap();
    assert!(matches!(fixture.directory.delete(session.path()).unwrap_err().kind, SessionErrorKind::Locked { .. }));
    let notes = fixture.file("/a", "notes.jsonl", "my notes\n");
    assert!(matches!(fixture.directory.delete(&notes).unwrap_err().kind, SessionErrorKind::Corrupt));
    assert!(session.path().exists() && notes.exists());
}

#[cfg(unix)]
#[test]
fn session_deleted_during_opening_is_not_found() {
    let mut fixture = Fixture::new();
    let path = fixture.session("/a", "hello");
    let file = File::options().read(true).append(true).open(&path).unwrap();
    fixture.directory.delete(&path).unwrap();
    assert!(crate::lock::is_deleted(&file));
    let error = crate::open_to_continue(&path, workspace()).unwrap_err();
    assert!(matches!(error.kind, SessionErrorKind::NotFound { .. }), "{error}");
}

#[test]
fn sessions_of_an_agent_are_those_of_its_first_run_and_of_its_calls() {
    let fixture = Fixture::new();
    let started = |session: Session, agent: &str| {
        let start = RunStarted { run_id: "s.c.1".into(), agent_id: Some(agent.to_owned()), ..RunStarted::default() };
        session.record_event(Record::RunStarted(start));
        session.append(&user(agent)).unwrap();
        session
    };
    let one = started(fixture.directory.begin(Path::new("/a")), "one");
    started(fixture.directory.begin(Path::new("/b")), "two");
    fixture.directory.begin(workspace()).append(&user("none")).unwrap();
    let call = ChildCall { call_id: "1", tool: "task", agent_id: "two", run_id: "s.c.1" };
    one.child_of(call, None).store.append(&user("child")).unwrap();
    let titles = |agent: &str| -> Vec<String> {
        let listing = fixture.directory.list_of_agent(agent).unwrap();
        listing.sessions.into_iter().filter_map(|summary| summary.title).collect()
    };
    let mut two = titles("two");
    two.sort();
    assert_eq!(
        (titles("one"), two, titles("three")),
        (vec!["one".to_owned()], vec!["child".to_owned(), "two".to_owned()], vec![])
    );
}
