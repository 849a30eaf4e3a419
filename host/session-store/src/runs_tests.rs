use super::*;
use crate::session::Session;
use crate::testing::{user, workspace};
use pinion_protocol::{ChoiceAccount, RunEnd, SessionStore as _, StopReason};
use std::sync::Arc;
use tempfile::TempDir;

fn start(run_id: &str, parent: Option<&str>) -> Record {
    let parent_run_id = parent.map(str::to_owned);
    Record::RunStarted(RunStarted { run_id: run_id.into(), parent_run_id, ..RunStarted::default() })
}

fn end(run_id: &str, input: u64) -> Record {
    Record::RunEnded(RunEnded {
        run_id: run_id.into(),
        end: RunEnd::Done { stop_reason: StopReason::Stop },
        usage: Usage { input, ..Usage::default() },
        cost: None,
        turns: 1,
        messages: 2,
    })
}

fn session(directory: &TempDir) -> Arc<Session> {
    let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
    session.append(&user("go")).unwrap();
    Arc::new(session)
}

fn runs(session: &Session) -> Runs {
    Transcript::open(session.path()).unwrap().runs().unwrap()
}

fn ids<'a>(runs: impl Iterator<Item = &'a RunRecord>) -> Vec<&'a str> {
    runs.map(|found| found.run_id.as_str()).collect()
}

#[test]
fn runs_have_parents_children_and_usage() {
    let directory = TempDir::new().unwrap();
    let session = session(&directory);
    let spawned =
        Spawned { run_id: "s.c.1".into(), child_run_id: "k.c.1".into(), call_id: "call".into(), tool: "task".into() };
    let records = [
        start("s.c.1", None),
        Record::Spawned(spawned.clone()),
        end("s.c.1", 5),
        start("s.c.2", Some("s.c.1")),
        end("s.c.2", 7),
        start("s.c.3", Some("s.c.1")),
    ];
    for record in &records {
        session.record(record).unwrap();
    }
    let runs = runs(&session);
    assert_eq!(ids(runs.roots()), ["s.c.1"]);
    assert_eq!(ids(runs.children_of("s.c.1")), ["s.c.2", "s.c.3"]);
    assert_eq!(runs.get("s.c.1").unwrap().spawned, [spawned]);
    assert_eq!(runs.usage().input, 12);
    let status = |id: &str| runs.get(id).unwrap().status();
    assert_eq!((status("s.c.2"), status("s.c.3")), (RunStatus::Ended, RunStatus::Running));
    assert_eq!(runs.get("s.c.9"), None);
}

#[test]
fn group_names_its_runs_before_they_start() {
    let directory = TempDir::new().unwrap();
    let session = session(&directory);
    let names = ["s.c.1".to_owned(), "s.d.2".to_owned()];
    let group = session.clone().begin_group("g", &names).unwrap().unwrap();
    let before = runs(&session);
    assert_eq!(before.get("s.d.2").unwrap().status(), RunStatus::Pending);
    group.branch(1).append(&user("answer")).unwrap();
    group.end(Some(1), ChoiceAccount::default()).unwrap();
    let after = runs(&session);
    let chosen = |id: &str| after.get(id).unwrap().group.as_ref().unwrap().is_chosen;
    assert_eq!((chosen("s.c.1"), chosen("s.d.2")), (Some(false), Some(true)));
    assert_eq!(ids(after.siblings_of("s.c.1")), ["s.d.2"]);
}

#[test]
fn run_numbers_are_the_last_ones_of_each_config_on_all_branches() {
    let directory = TempDir::new().unwrap();
    let session = session(&directory);
    for id in ["s.a.1", "s.a.2", "s.b.c.1", "no number"] {
        session.record(&start(id, None)).unwrap();
    }
    session.go_back(None).unwrap();
    session.record(&start("s.b.c.4", None)).unwrap();
    // A run that a hook denied has no start.
    session.record(&end("s.d.2", 0)).unwrap();
    assert_eq!(runs(&session).get("s.d.2").unwrap().status(), RunStatus::Ended);
    // The run of a judge leaves no separate record.
    let group = session.clone().begin_group("g", &["s.a.3".to_owned(), "s.a.4".to_owned()]).unwrap().unwrap();
    let runs = [("a".to_owned(), 5)].into_iter().collect();
    group.end(None, ChoiceAccount { runs, ..ChoiceAccount::default() }).unwrap();
    let numbers = Transcript::open(session.path()).unwrap().run_numbers().unwrap();
    let next = ["a", "b.c", "c", "d"].map(|config| numbers.next(config));
    assert_eq!(next, [6, 5, 1, 3]);
}
