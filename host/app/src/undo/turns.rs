//! The turns of the user in a session, with their checkpoints.

use pinion_agent::content::text_of;
use pinion_agent::jiff::Timestamp;
use pinion_agent::{Message, compaction};
use pinion_checkpoints::{CheckpointStore, Digest, Error, StepKind, UndoStep};
use pinion_session_store::record::{GroupEnd, Moment, Record};
use pinion_session_store::{EntryId, Payload, Transcript};

/// A prompt of the user and everything that the agent did for it.
#[derive(Debug, Clone)]
pub struct PromptTurn {
    /// The entry before it; `None` at the beginning.
    pub at: Option<EntryId>,
    /// The last run before it; empty at the beginning.
    pub last_run: String,
    /// The prompt that began the turn.
    pub prompt: String,
    /// The time of the prompt.
    pub time: Timestamp,
    /// The oldest first. Between two of them, others may have changed files: that is one, too.
    pub work: Vec<SnapshottedWork>,
    /// Reasons why checkpoints are missing.
    pub problems: Vec<String>,
    /// The files at the end of the last work.
    last_tree: Option<Digest>,
}

/// Snapshots around work that may have changed files.
#[derive(Debug, Clone, Copy)]
pub struct SnapshottedWork {
    /// The snapshot before the turn.
    pub before: Digest,
    /// None if the process ended before the snapshot, and no later work tells.
    pub after: Option<Digest>,
    /// Interrupted if the snapshot after the work is missing, or was taken by later work, so that it has the changes of
    /// others, too.
    pub kind: StepKind,
}

impl SnapshottedWork {
    /// Reads the snapshots.
    ///
    /// # Errors
    /// A snapshot was removed, or is damaged.
    pub fn step(&self, store: &CheckpointStore) -> Result<UndoStep, Error> {
        let after = self.after.map(|after| store.tree(after)).transpose()?;
        Ok(UndoStep { before: store.tree(self.before)?, after, kind: self.kind })
    }
}

/// The last return to an earlier turn, if nothing was said since.
#[derive(Debug, Clone)]
pub struct LastRewind {
    /// Number of turns that were undone.
    pub turns: u64,
    /// The position of the conversation before it.
    pub left: Option<EntryId>,
    /// The files before and after it, if they were restored.
    pub work: Option<SnapshottedWork>,
}

/// The current branch of a session.
#[derive(Debug, Default)]
pub struct Turns {
    /// The oldest first.
    pub turns: Vec<PromptTurn>,
    pub(crate) last_rewind: Option<LastRewind>,
    /// The last run; empty if there was no run.
    pub last_run: String,
}

impl Turns {
    /// Reads the current branch. Entries that cannot be read are skipped.
    pub fn read(transcript: &mut Transcript) -> Self {
        let mut reading = TurnReader::default();
        for entry in transcript.branch().flatten() {
            reading.entry(entry.id, entry.time, entry.payload);
        }
        reading.turns
    }
}

#[derive(Default)]
struct TurnReader {
    turns: Turns,
    /// The entry before.
    last: Option<EntryId>,
    /// A run or a group of runs began, and has no message yet: the entry and the run before it.
    start: Option<(Option<EntryId>, String)>,
    /// The runs of the last group. The conversation continues from the run that the group's end names.
    group: Vec<String>,
    /// The agent has replied in this turn.
    is_answered: bool,
}

impl TurnReader {
    fn entry(&mut self, id: EntryId, time: Timestamp, payload: Payload) {
        match payload {
            Payload::Record(Record::GroupStart(group)) => {
                self.begin();
                self.group = group.run_ids;
            }
            Payload::Record(Record::GroupEnd(GroupEnd { chosen: Some(chosen), .. })) => self.turns.last_run = chosen,
            Payload::Record(Record::RunStarted(run)) if !self.group.contains(&run.run_id) => {
                self.begin();
                self.turns.last_run = run.run_id;
            }
            Payload::Record(Record::Checkpoint(checkpoint)) => {
                let tree = checkpoint.tree.as_deref().and_then(Digest::parse);
                self.checkpoint(checkpoint.moment, tree, checkpoint.problem);
            }
            Payload::Record(Record::Rewound(rewound)) => {
                let before = rewound.before.as_deref().and_then(Digest::parse);
                let work = before.map(|before| SnapshottedWork { before, after: None, kind: StepKind::Interrupted });
                self.turns.last_rewind = Some(LastRewind { turns: rewound.turns, left: rewound.left, work });
            }
            Payload::Message(message) => self.message(time, &message),
            _ => {}
        }
        self.last = Some(id);
    }

    fn begin(&mut self) {
        let before = (self.last, self.turns.last_run.clone());
        self.start.get_or_insert(before);
    }

    fn message(&mut self, time: Timestamp, message: &Message) {
        self.turns.last_rewind = None;
        let start = self.start.take();
        let Message::User(said) = message else {
            self.is_answered = true;
            return;
        };
        if compaction::is_summary(message) {
            return;
        }
        let prompt = text_of(&said.content);
        let is_first = self.turns.turns.is_empty();
        if start.is_some() || is_first {
            let (at, last_run) = start.unwrap_or((self.last, String::new()));
            let (work, problems) = (Vec::new(), Vec::new());
            self.turns.turns.push(PromptTurn { at, last_run, prompt, time, work, problems, last_tree: None });
            self.is_answered = false;
        } else if let Some(turn) = self.turns.turns.last_mut().filter(|_| !self.is_answered) {
            // The prompt follows the output of the user's own shell commands.
            turn.prompt = prompt;
        }
    }

    fn checkpoint(&mut self, moment: Moment, tree: Option<Digest>, problem: Option<String>) {
        if let Some(work) = self.turns.last_rewind.as_mut().and_then(|last| last.work.as_mut()) {
            work.end(tree);
            return;
        }
        if let (Moment::Before, Some(_)) = (moment, tree) {
            // Work that was interrupted lasted no longer than until the next work began.
            let works = self.turns.turns.iter_mut().rev().flat_map(|turn| turn.work.iter_mut().rev());
            works.take(1).filter(|work| work.after.is_none()).for_each(|work| work.after = tree);
        }
        let Some(turn) = self.turns.turns.last_mut() else { return };
        turn.problems.extend(problem);
        match (moment, tree) {
            (Moment::Before, Some(before)) => turn.begin(before),
            (Moment::After, tree) => turn.end(tree),
            (Moment::Before, None) => {}
        }
    }
}

impl SnapshottedWork {
    fn end(&mut self, tree: Option<Digest>) {
        (self.after, self.kind) = (tree, tree.map_or(StepKind::Interrupted, |_| StepKind::Whole));
    }
}

impl PromptTurn {
    /// Begins work. Others made the changes since the end of the work before it.
    fn begin(&mut self, before: Digest) {
        if let Some(last) = self.last_tree.take().filter(|last| *last != before) {
            self.work.push(SnapshottedWork { before: last, after: Some(before), kind: StepKind::Others });
        }
        self.work.push(SnapshottedWork { before, after: None, kind: StepKind::Interrupted });
    }

    /// Ends work, and joins it with the work before it if no files changed in between.
    fn end(&mut self, after: Option<Digest>) {
        let Some(work) = self.work.last_mut().filter(|work| work.after.is_none()) else { return };
        work.end(after);
        self.last_tree = after;
        if let [.., first, second] = self.work.as_mut_slice()
            && (first.kind, second.kind) == (StepKind::Whole, StepKind::Whole)
            && first.after == Some(second.before)
        {
            first.after = after;
            self.work.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_agent::store::{ChoiceAccount, SessionStore as _};
    use pinion_session_store::Session;
    use pinion_session_store::record::RunStarted;
    use std::sync::Arc;

    fn digest(number: u8) -> Digest {
        Digest::parse(&format!("{number:02x}").repeat(32)).unwrap()
    }

    /// Reads checkpoints of one turn: `b1` is the tree 1 before work, `a1` after it, `b` and `a` are those that failed.
    fn work(checkpoints: &str) -> Vec<(Digest, Option<Digest>, StepKind)> {
        let mut reading = TurnReader::default();
        reading.message(Timestamp::UNIX_EPOCH, &Message::user("go"));
        for checkpoint in checkpoints.split(' ') {
            let (moment, tree) = checkpoint.split_at(1);
            let moment = if moment == "b" { Moment::Before } else { Moment::After };
            reading.checkpoint(moment, tree.parse().ok().map(digest), None);
        }
        let work = &reading.turns.turns[0].work;
        work.iter().map(|work| (work.before, work.after, work.kind)).collect()
    }

    #[test]
    fn work_of_one_turn_is_joined_unless_others_changed_files_in_between() {
        let [one, two, three] = [1, 2, 3].map(digest);
        assert_eq!(work("b1 a2 b2 a3"), [(one, Some(three), StepKind::Whole)]);
        let apart = [
            (one, Some(two), StepKind::Whole),
            (two, Some(three), StepKind::Others),
            (three, Some(one), StepKind::Whole),
        ];
        assert_eq!(work("b1 a2 b3 a1"), apart);
    }

    #[test]
    fn work_without_a_snapshot_after_it_stays_interrupted() {
        let [one, two, three] = [1, 2, 3].map(digest);
        let interrupted = (one, Some(two), StepKind::Interrupted);
        assert_eq!(work("b1 b2 a3"), [interrupted, (two, Some(three), StepKind::Whole)]);
        assert_eq!(work("b1 a b2"), [interrupted, (two, None, StepKind::Interrupted)]);
        // Work without a snapshot before it does not count.
        assert_eq!(work("b1 a2 b a3"), [(one, Some(two), StepKind::Whole)]);
    }

    #[test]
    fn group_of_runs_is_one_turn_and_ends_with_the_run_that_was_chosen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.jsonl");
        let session = Arc::new(Session::begin(&path, directory.path()));
        let prompt = |text: &str| Arc::new(Message::user(text));
        let start =
            |id: &str| session.record(&Record::RunStarted(RunStarted { run_id: id.into(), ..Default::default() }));
        start("s.m.1").unwrap();
        session.append(&prompt("one")).unwrap();
        let ids = ["s.m.2".to_owned(), "s.m.3".to_owned()];
        let group = session.clone().begin_group("g", &ids).unwrap().unwrap();
        for id in &ids {
            start(id).unwrap();
        }
        let read = || Turns::read(&mut Transcript::open(&path).unwrap());
        assert_eq!(read().last_run, "s.m.1");
        (0..2).for_each(|side| group.branch(side).append(&prompt("two")).unwrap());
        group.end(Some(1), ChoiceAccount::default()).unwrap();
        let turns = read();
        assert_eq!(turns.last_run, "s.m.3");
        let prompts: Vec<_> = turns.turns.iter().map(|turn| (turn.prompt.as_str(), turn.last_run.as_str())).collect();
        assert_eq!(prompts, [("one", ""), ("two", "s.m.1")]);
    }
}
