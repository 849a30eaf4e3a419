//! Parallel groups: each run of a group writes to a separate branch, and one branch is chosen.
//!
//! All runs write to one file, in the order of their messages, and mark their entries with their run. The position of
//! the conversation does not move until one run is chosen. After a kill before that, the session continues from there,
//! and the branches stay in it for readers.

use crate::access;
use crate::id::EntryId;
use crate::record::{CalledHook, GroupChoice, GroupEnd, GroupStart, Record, Titled};
use crate::session::{Cursor, Session};
use pinion_protocol::{
    ChildCall, ChildSession, ChoiceAccount, EventKind, Message, RunNumbers, SessionAccessError, SessionGroup,
    SessionStore, StoreError, StoredEntry,
};
use serde_json::Value;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The branch of one run of a parallel group.
pub(crate) struct SideBranch {
    session: Arc<Session>,
    run_id: String,
    cursor: Mutex<Cursor>,
}

/// A parallel group, with a branch for each run.
pub(crate) struct ParallelGroup {
    session: Arc<Session>,
    id: String,
    branches: Vec<Arc<SideBranch>>,
}

impl ParallelGroup {
    /// Starts a group at the position of the conversation.
    pub(crate) fn begin(session: Arc<Session>, id: &str, run_ids: &[String]) -> Result<Self, StoreError> {
        let start = GroupStart { group_id: id.to_owned(), run_ids: run_ids.to_vec() };
        let at = session.record(&Record::GroupStart(start))?;
        let side = |run_id: &String| {
            let cursor = Mutex::new(Cursor::at(Some(at)));
            Arc::new(SideBranch { session: session.clone(), run_id: run_id.clone(), cursor })
        };
        Ok(Self { branches: run_ids.iter().map(side).collect(), id: id.to_owned(), session })
    }
}

impl SessionGroup for ParallelGroup {
    fn branch(&self, number: usize) -> Arc<dyn SessionStore> {
        match self.branches.get(number) {
            Some(branch) => branch.clone(),
            None => self.session.clone(),
        }
    }

    /// Records the runs at the end of the first branch: a record elsewhere would be a branch of its own.
    fn begin_choice(&self, runs: RunNumbers) -> Result<(), StoreError> {
        let Some(first) = self.branches.first() else { return Ok(()) };
        let record = Record::GroupChoice(GroupChoice { group_id: self.id.clone(), runs });
        self.session.try_record_aside(&mut first.lock(), &first.run_id, &record)?;
        Ok(())
    }

    /// Continues from the chosen branch even when only the record of the choice fails.
    fn end(&self, chosen: Option<usize>, choice: ChoiceAccount) -> Result<(), StoreError> {
        let chosen = chosen.and_then(|number| self.branches.get(number));
        if let Some(chosen) = chosen {
            self.session.go_to(chosen.position())?;
        }
        let chosen = chosen.map(|side| side.run_id.clone());
        let ChoiceAccount { runs, turns, spend } = choice;
        let (usage, cost) = (spend.usage, spend.cost);
        self.session.record(&Record::GroupEnd(GroupEnd {
            group_id: self.id.clone(),
            chosen,
            usage,
            cost,
            turns,
            runs,
        }))?;
        Ok(())
    }
}

impl SideBranch {
    /// Returns its last entry; the start of the group while the branch is empty.
    fn position(&self) -> Option<EntryId> {
        self.lock().leaf
    }

    /// Locks the cursor. A panic of another thread leaves nothing half done in it.
    fn lock(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionStore for SideBranch {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        Ok(self.session.append_aside(&mut self.lock(), &self.run_id, message)?)
    }

    fn observe(&self, run_id: &Arc<str>, event: &EventKind) {
        match Record::from_event(run_id, event) {
            // Records of a call stay with it. All others describe runs, which belong to the session.
            Some(record @ (Record::CallLedger(_) | Record::CalledHook(CalledHook { call_id: Some(_), .. }))) => {
                self.session.record_aside(&mut self.lock(), &self.run_id, &record);
            }
            Some(record) => self.session.record_event(record),
            None => {}
        }
    }

    fn entries(&self, after: Option<&str>, limit: usize, bytes: usize) -> Result<Vec<StoredEntry>, SessionAccessError> {
        access::entries(self.session.path(), self.position(), after, limit, bytes)
    }

    fn append_of_plugin(&self, plugin: &str, data: Value) -> Result<String, SessionAccessError> {
        self.session.append_plugin_entry(plugin, data, |record| {
            self.session.try_record_aside(&mut self.lock(), &self.run_id, record)
        })
    }

    fn title(&self) -> Result<Option<String>, SessionAccessError> {
        access::title(self.session.path(), self.position())
    }

    fn set_title(&self, title: &str) -> Result<(), SessionAccessError> {
        let record = Record::Titled(Titled { title: title.to_owned() });
        let added = self.session.try_record_aside(&mut self.lock(), &self.run_id, &record);
        added.map(drop).map_err(|error| access::failed(&error))
    }

    fn child(&self, call: ChildCall<'_>) -> Option<ChildSession> {
        Some(self.session.child_of(call, self.lock().entry_of_call(call.call_id)))
    }
}

impl fmt::Debug for SideBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SideBranch").field("session", &self.session).field("run_id", &self.run_id).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::open_to_continue;
    use crate::testing::{calls, prompts_of, result, user, workspace};
    use crate::transcript::Transcript;
    use std::path::PathBuf;
    use tempfile::TempDir;

    fn runs() -> [String; 2] {
        ["s.fast.1".to_owned(), "s.slow.2".to_owned()]
    }

    /// A session with a question, and a group of two branches.
    fn asked(directory: &TempDir) -> (PathBuf, Arc<Session>, ParallelGroup) {
        let path = directory.path().join("a.jsonl");
        let session = Arc::new(Session::begin(&path, workspace()));
        session.append(&user("question")).unwrap();
        let group = ParallelGroup::begin(session.clone(), "g", &runs()).unwrap();
        (path, session, group)
    }

    #[test]
    fn conversation_continues_from_the_chosen_branch() {
        let directory = TempDir::new().unwrap();
        let (path, session, group) = asked(&directory);
        let sides = &group.branches;
        for round in ["one", "two"] {
            for side in sides {
                side.append(&user(&format!("{round} of {}", side.run_id))).unwrap();
            }
        }
        group.end(Some(1), ChoiceAccount::default()).unwrap();
        session.append(&user("thanks")).unwrap();

        let mut transcript = Transcript::open(&path).unwrap();
        assert_eq!(prompts_of(transcript.branch()), ["question", "one of s.slow.2", "two of s.slow.2", "thanks"]);
        let branches = transcript.branches();
        assert_eq!(branches.len(), 2);
        let other = transcript.branch_to(branches[1].leaf).unwrap();
        assert_eq!(prompts_of(other), ["question", "one of s.fast.1", "two of s.fast.1"]);
        drop((session, group));
        assert_eq!(open_to_continue(&path, workspace()).unwrap().messages.len(), 4);
    }

    #[test]
    fn kill_before_the_choice_keeps_the_position() {
        let directory = TempDir::new().unwrap();
        let (path, session, group) = asked(&directory);
        let sides = &group.branches;
        sides[0].append(&calls(&["1"])).unwrap();
        sides[1].append(&calls(&["2"])).unwrap();
        sides[0].append(&result("1")).unwrap();
        drop((session, group));
        let opened = open_to_continue(&path, workspace()).unwrap();
        assert_eq!((opened.messages, opened.recovery.pairing.at_end), (vec![user("question")], 0));
    }

    #[test]
    fn kill_during_the_choice_keeps_the_ids_of_its_runs() {
        let directory = TempDir::new().unwrap();
        let (path, session, group) = asked(&directory);
        group.branches.iter().for_each(|side| side.append(&user("answer")).unwrap());
        group.begin_choice([("judge".to_owned(), 3)].into_iter().collect()).unwrap();
        drop((session, group));
        let opened = open_to_continue(&path, workspace()).unwrap();
        assert_eq!((opened.messages, opened.runs.next("judge")), (vec![user("question")], 4));
        assert_eq!(Transcript::open(&path).unwrap().branches().len(), 3);
    }

    #[test]
    fn group_without_a_choice_ends_at_its_start() {
        let directory = TempDir::new().unwrap();
        let (path, session, group) = asked(&directory);
        let sides = &group.branches;
        sides[0].append(&user("failed")).unwrap();
        group.end(None, ChoiceAccount::default()).unwrap();
        session.append(&user("again")).unwrap();
        assert_eq!(prompts_of(Transcript::open(&path).unwrap().branch()), ["question", "again"]);
    }

    #[test]
    fn entry_of_a_call_is_known_while_its_reply_is_the_last() {
        let directory = TempDir::new().unwrap();
        let session = Arc::new(Session::begin(&directory.path().join("a.jsonl"), workspace()));
        session.append(&calls(&["1", "2"])).unwrap();
        let entry = session.position();
        session.append(&result("1")).unwrap();
        assert_eq!((session.entry_of_call("2"), session.entry_of_call("3")), (entry, None));
        session.append(&calls(&["3"])).unwrap();
        assert_eq!((session.entry_of_call("2"), session.entry_of_call("3")), (None, session.position()));
        let group = ParallelGroup::begin(session.clone(), "g", &runs()).unwrap();
        let side = &group.branches[0];
        side.append(&calls(&["4"])).unwrap();
        let found = side.lock().entry_of_call("4");
        assert_eq!((found, session.entry_of_call("4")), (side.position(), None));
    }
}
