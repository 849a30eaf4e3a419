use super::*;
use crate::log::testing::DiskFile;
use crate::recovery::open_to_continue;
use crate::testing::{conversation, user, workspace};
use std::fs;
use tempfile::TempDir;

#[test]
fn a_session_in_which_nothing_was_said_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let session = Session::begin(&folder.path().join("project/a.jsonl"), workspace());
    session.sync().unwrap();
    drop(session);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_was_said_is_in_the_file_when_append_returns() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.jsonl");
    let session = Session::begin(&path, workspace());
    for (index, message) in conversation().iter().enumerate() {
        session.append(message).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.ends_with('\n'));
        assert_eq!(text.lines().count(), index + 2);
    }
    session.sync().unwrap();
}

#[test]
fn each_entry_follows_the_one_before_across_openings() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.jsonl");
    Session::begin(&path, workspace()).append(&user("1")).unwrap();
    for text in ["2", "3"] {
        open_to_continue(&path, workspace()).unwrap().session.append(&user(text)).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    let links: Vec<&str> = text.lines().skip(1).map(|line| &line[..line.find(",\"time\"").unwrap()]).collect();
    assert_eq!(links, [r#"{"id":"1","parent":null"#, r#"{"id":"2","parent":"1""#, r#"{"id":"3","parent":"2""#]);
}

#[cfg(unix)]
#[test]
fn only_its_owner_may_read_a_session() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sessions/project/a.jsonl");
    Session::begin(&path, workspace()).append(&user("secret")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(path.parent().unwrap().parent().unwrap()), 0o700);
}

#[test]
fn a_file_that_exists_is_not_written_over() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.jsonl");
    fs::write(&path, "mine").unwrap();
    let error = Session::begin(&path, workspace()).append(&user("1")).unwrap_err();
    assert_eq!(error.to_string(), format!("could not write the session: could not create `{}`", path.display()));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn after_an_append_that_failed_the_session_goes_on_where_it_was() {
    let file = DiskFile::default();
    file.0.lock().unwrap().space = 600;
    let session = Session::begin(Path::new("/s.jsonl"), workspace());
    session.lock().log = Some(Log::new(file.clone(), 0));

    session.append(&user("one")).unwrap();
    let before = file.0.lock().unwrap().bytes.clone();
    let error = session.append(&user(&"long ".repeat(100))).unwrap_err();
    assert_eq!(error.to_string(), "could not write the session: could not append to `/s.jsonl`");
    assert_eq!(error.source.unwrap().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.0.lock().unwrap().bytes, before);

    session.append(&user("two")).unwrap();
    let text = String::from_utf8(file.0.lock().unwrap().bytes.clone()).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(text.lines().last().unwrap().starts_with(r#"{"id":"2","parent":"1","#));
}

/// Threads write whole lines, each with a name of its own.
#[test]
fn messages_may_come_from_many_threads() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.jsonl");
    let session = Session::begin(&path, workspace());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let session = &session;
            scope.spawn(move || {
                for number in 0..50 {
                    session.append(&user(&format!("{thread}.{number}"))).unwrap();
                }
            });
        }
    });
    drop(session);
    let opened = open_to_continue(&path, workspace()).unwrap();
    assert_eq!((opened.messages.len(), opened.recovery.bad_lines.count()), (200, 0));
}
