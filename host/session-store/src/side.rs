//! Loops that work on the same prompt side by side: each keeps what it says on a branch of its own, one is chosen.
//!
//! All write to one file, in whatever order they speak. What they say is marked as theirs, so that the conversation
//! itself stands where it was until one of them is chosen: when the process is killed before, it goes on from there, and
//! the branches stay in the session for whoever wants to look.

use crate::id::EntryId;
use crate::record::{GroupEnd, GroupStart, Record};
use crate::session::{Cursor, Session};
use pinion_agent::{Message, SessionStore, StoreError, Usage};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A branch of a session that one loop of a parallel group writes to.
pub struct SideBranch {
    session: Arc<Session>,
    loop_id: String,
    cursor: Mutex<Cursor>,
}

impl Session {
    /// Begins a group of loops at the place where the conversation stands: one branch for each id, in the same order.
    ///
    /// # Errors
    /// The session could not be written.
    pub fn begin_group(self: &Arc<Self>, group_id: &str, loop_ids: &[String]) -> Result<Vec<SideBranch>, StoreError> {
        let start = GroupStart { group_id: group_id.to_owned(), loop_ids: loop_ids.to_vec() };
        let at = self.record(&Record::GroupStart(start))?;
        let side = |loop_id: &String| SideBranch {
            session: self.clone(),
            loop_id: loop_id.clone(),
            cursor: Mutex::new(Cursor::at(Some(at))),
        };
        Ok(loop_ids.iter().map(side).collect())
    }

    /// Ends a group: the conversation goes on from the end of the chosen branch, or from where the group began when there
    /// is none. `usage` is what choosing took.
    ///
    /// # Errors
    /// The session could not be written. When only the last part failed, the conversation goes on from the chosen branch
    /// and the record of it is missing.
    pub fn end_group(&self, group_id: &str, chosen: Option<&SideBranch>, usage: Usage) -> Result<(), StoreError> {
        if let Some(chosen) = chosen {
            self.go_to(chosen.position())?;
        }
        let chosen = chosen.map(|side| side.loop_id.clone());
        self.record(&Record::GroupEnd(GroupEnd { group_id: group_id.to_owned(), chosen, usage })).map(drop)
    }
}

impl SideBranch {
    /// The loop whose branch it is.
    pub fn loop_id(&self) -> &str {
        &self.loop_id
    }

    /// Its last entry; the one at which the group began when nothing was said yet.
    pub fn position(&self) -> Option<EntryId> {
        self.lock().leaf
    }

    /// The entry with this tool call, when it is one of the last reply.
    pub fn entry_of_call(&self, call_id: &str) -> Option<EntryId> {
        self.lock().entry_of_call(call_id)
    }

    /// Nothing is left half-done in the cursor when a thread panics.
    fn lock(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionStore for SideBranch {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        self.session.say_aside(&mut self.lock(), &self.loop_id, message)
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
    use tempfile::TempDir;

    fn loops() -> [String; 2] {
        ["s.fast.1".to_owned(), "s.slow.2".to_owned()]
    }

    #[test]
    fn the_chosen_branch_is_gone_on_with_and_the_other_one_stays() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.jsonl");
        let session = Arc::new(Session::begin(&path, workspace()));
        session.append(&user("question")).unwrap();
        let sides = session.begin_group("g", &loops()).unwrap();
        for round in ["one", "two"] {
            for side in &sides {
                side.append(&user(&format!("{round} of {}", side.loop_id()))).unwrap();
            }
        }
        session.end_group("g", Some(&sides[1]), Usage::default()).unwrap();
        session.append(&user("thanks")).unwrap();

        let mut transcript = Transcript::open(&path).unwrap();
        assert_eq!(said(transcript.branch()), ["question", "one of s.slow.2", "two of s.slow.2", "thanks"]);
        let branches = transcript.branches();
        assert_eq!(branches.len(), 2);
        let other = transcript.branch_to(branches[1].leaf).unwrap();
        assert_eq!(said(other), ["question", "one of s.fast.1", "two of s.fast.1"]);
        drop((session, sides));
        assert_eq!(open_to_continue(&path, workspace()).unwrap().messages.len(), 4);
    }

    #[test]
    fn a_kill_before_the_choice_leaves_the_conversation_where_it_was() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.jsonl");
        let session = Arc::new(Session::begin(&path, workspace()));
        session.append(&user("question")).unwrap();
        let sides = session.begin_group("g", &loops()).unwrap();
        sides[0].append(&calls(&["1"])).unwrap();
        sides[1].append(&calls(&["2"])).unwrap();
        sides[0].append(&result("1")).unwrap();
        drop((session, sides));
        let opened = open_to_continue(&path, workspace()).unwrap();
        assert_eq!((opened.messages, opened.recovery.pairing.at_end), (vec![user("question")], 0));
    }

    #[test]
    fn a_group_of_which_none_is_chosen_ends_where_it_began() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.jsonl");
        let session = Arc::new(Session::begin(&path, workspace()));
        session.append(&user("question")).unwrap();
        let sides = session.begin_group("g", &loops()).unwrap();
        sides[0].append(&user("failed")).unwrap();
        session.end_group("g", None, Usage::default()).unwrap();
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
        let side = &session.begin_group("g", &loops()).unwrap()[0];
        side.append(&calls(&["4"])).unwrap();
        assert_eq!((side.entry_of_call("4"), session.entry_of_call("4")), (side.position(), None));
    }
}
