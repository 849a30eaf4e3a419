//! Loops that work on the same prompt side by side: each keeps what it says on a branch of its own, one is chosen.
//!
//! All write to one file, in whatever order they speak. What they say is marked as theirs, so that the conversation
//! itself stands where it was until one of them is chosen: when the process is killed before, it goes on from there, and
//! the branches stay in the session for whoever wants to look.

use crate::id::EntryId;
use crate::record::{GroupEnd, GroupStart, Record};
use crate::session::{Cursor, Session};
use pinion_protocol::{ChildCall, ChildSession, EventKind, Message, SessionGroup, SessionStore, StoreError, Usage};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A branch of a session that one loop of a parallel group writes to.
pub(crate) struct SideBranch {
    session: Arc<Session>,
    loop_id: String,
    cursor: Mutex<Cursor>,
}

/// Branches for loops that work on the same prompt, one for each.
pub(crate) struct Group {
    session: Arc<Session>,
    id: String,
    branches: Vec<Arc<SideBranch>>,
}

impl Group {
    /// Begins at the place where the conversation stands.
    pub(crate) fn begin(session: Arc<Session>, id: &str, loop_ids: &[String]) -> Result<Self, StoreError> {
        let start = GroupStart { group_id: id.to_owned(), loop_ids: loop_ids.to_vec() };
        let at = session.record(&Record::GroupStart(start))?;
        let side = |loop_id: &String| {
            let cursor = Mutex::new(Cursor::at(Some(at)));
            Arc::new(SideBranch { session: session.clone(), loop_id: loop_id.clone(), cursor })
        };
        Ok(Self { branches: loop_ids.iter().map(side).collect(), id: id.to_owned(), session })
    }
}

impl SessionGroup for Group {
    fn branch(&self, number: usize) -> Arc<dyn SessionStore> {
        match self.branches.get(number) {
            Some(branch) => branch.clone(),
            None => self.session.clone(),
        }
    }

    /// When only the last part failed, the conversation goes on from the chosen branch and the record of it is missing.
    fn end(&self, chosen: Option<usize>, usage: Usage) -> Result<(), StoreError> {
        let chosen = chosen.and_then(|number| self.branches.get(number));
        if let Some(chosen) = chosen {
            self.session.go_to(chosen.position())?;
        }
        let chosen = chosen.map(|side| side.loop_id.clone());
        self.session.record(&Record::GroupEnd(GroupEnd { group_id: self.id.clone(), chosen, usage }))?;
        Ok(())
    }
}

impl SideBranch {
    /// Its last entry; the one at which the group began when nothing was said yet.
    fn position(&self) -> Option<EntryId> {
        self.lock().leaf
    }

    /// Nothing is left half-done in the cursor when a thread panics.
    fn lock(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionStore for SideBranch {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        Ok(self.session.say_aside(&mut self.lock(), &self.loop_id, message)?)
    }

    fn observe(&self, loop_id: &Arc<str>, event: &EventKind) {
        match Record::from_event(loop_id, event) {
            // A ledger stays with its call. All other records describe runs, which belong to the session.
            Some(record @ Record::CallLedger(_)) => {
                self.session.record_aside(&mut self.lock(), &self.loop_id, &record);
            }
            Some(record) => self.session.record_event(record),
            None => {}
        }
    }

    fn child(&self, call: ChildCall<'_>) -> Option<ChildSession> {
        Some(self.session.child_of(call, self.lock().entry_of_call(call.call_id)))
    }
}

impl fmt::Debug for SideBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SideBranch").field("session", &self.session).field("loop_id", &self.loop_id).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::open_to_continue;
    use crate::testing::{calls, result, said, user, workspace};
    use crate::transcript::Transcript;
    use std::path::PathBuf;
    use tempfile::TempDir;

    fn loops() -> [String; 2] {
        ["s.fast.1".to_owned(), "s.slow.2".to_owned()]
    }

    /// A session with a question, on which two branches are to work.
    fn asked(folder: &TempDir) -> (PathBuf, Arc<Session>, Group) {
        let path = folder.path().join("a.jsonl");
        let session = Arc::new(Session::begin(&path, workspace()));
        session.append(&user("question")).unwrap();
        let group = Group::begin(session.clone(), "g", &loops()).unwrap();
        (path, session, group)
    }

    #[test]
    fn the_chosen_branch_is_gone_on_with_and_the_other_one_stays() {
        let folder = TempDir::new().unwrap();
        let (path, session, group) = asked(&folder);
        let sides = &group.branches;
        for round in ["one", "two"] {
            for side in sides {
                side.append(&user(&format!("{round} of {}", side.loop_id))).unwrap();
            }
        }
        group.end(Some(1), Usage::default()).unwrap();
        session.append(&user("thanks")).unwrap();

        let mut transcript = Transcript::open(&path).unwrap();
        assert_eq!(said(transcript.branch()), ["question", "one of s.slow.2", "two of s.slow.2", "thanks"]);
        let branches = transcript.branches();
        assert_eq!(branches.len(), 2);
        let other = transcript.branch_to(branches[1].leaf).unwrap();
        assert_eq!(said(other), ["question", "one of s.fast.1", "two of s.fast.1"]);
        drop((session, group));
        assert_eq!(open_to_continue(&path, workspace()).unwrap().messages.len(), 4);
    }

    #[test]
    fn a_kill_before_the_choice_leaves_the_conversation_where_it_was() {
        let folder = TempDir::new().unwrap();
        let (path, session, group) = asked(&folder);
        let sides = &group.branches;
        sides[0].append(&calls(&["1"])).unwrap();
        sides[1].append(&calls(&["2"])).unwrap();
        sides[0].append(&result("1")).unwrap();
        drop((session, group));
        let opened = open_to_continue(&path, workspace()).unwrap();
        assert_eq!((opened.messages, opened.recovery.pairing.at_end), (vec![user("question")], 0));
    }

    #[test]
    fn a_group_of_which_none_is_chosen_ends_where_it_began() {
        let folder = TempDir::new().unwrap();
        let (path, session, group) = asked(&folder);
        let sides = &group.branches;
        sides[0].append(&user("failed")).unwrap();
        group.end(None, Usage::default()).unwrap();
        session.append(&user("again")).unwrap();
        assert_eq!(said(Transcript::open(&path).unwrap().branch()), ["question", "again"]);
    }

    #[test]
    fn a_call_knows_its_entry_while_its_reply_is_the_last() {
        let folder = TempDir::new().unwrap();
        let session = Arc::new(Session::begin(&folder.path().join("a.jsonl"), workspace()));
        session.append(&calls(&["1", "2"])).unwrap();
        let entry = session.position();
        session.append(&result("1")).unwrap();
        assert_eq!((session.entry_of_call("2"), session.entry_of_call("3")), (entry, None));
        session.append(&calls(&["3"])).unwrap();
        assert_eq!((session.entry_of_call("2"), session.entry_of_call("3")), (None, session.position()));
        let group = Group::begin(session.clone(), "g", &loops()).unwrap();
        let side = &group.branches[0];
        side.append(&calls(&["4"])).unwrap();
        let found = side.lock().entry_of_call("4");
        assert_eq!((found, session.entry_of_call("4")), (side.position(), None));
    }
}
