//! Returns to an earlier turn.
//!
//! The plan for the files is written first, with the position of the conversation. Then the conversation moves, and then the
//! files change. An undo that is killed before the conversation moved did not happen; a later one is completed by the next
//! start. If files cannot be restored, the conversation moves back.

use crate::failure::{Failure, Result, with_causes};
use crate::undo::turns::{LastRewind, PromptTurn, SnapshottedWork, Turns};
use pinion_agent::Message;
use pinion_agent::identity::RunNumbers;
use pinion_agent::serde_json;
use pinion_agent::text::count;
use pinion_checkpoints::{CheckpointStore, Error, Plan, PreparedRestoration, RestoreReport, StepKind, TreeSnapshot};
use pinion_session_store::record::{Checkpoint, Moment, Rewound};
use pinion_session_store::{EntryId, Record, Session, Transcript};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A request to undo turns.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// The turns to undo, or the undo to take back.
    pub target: RewindTarget,
    /// Whether files are restored.
    pub files: bool,
    /// Whether the conversation goes back.
    pub conversation: bool,
    /// Overwrite files that others changed after the agent.
    pub force: bool,
    /// Change nothing.
    pub dry_run: bool,
}

/// The state to return to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindTarget {
    /// The state before this number of turns.
    Back(usize),
    /// The state before the last return.
    Redo,
}

/// The outcome of a request.
#[derive(Debug, Default)]
pub struct Done {
    /// Number of turns.
    pub turns: usize,
    /// The changes of files; `None` if files were not asked for.
    pub plan: Option<Plan>,
    /// None if nothing was to be changed.
    pub report: Option<RestoreReport>,
    /// Work that cannot be undone.
    pub problems: Vec<String>,
    /// The conversation, if it moved.
    pub conversation: Option<Conversation>,
    /// The prompt of the first turn that was undone.
    pub prompt: Option<String>,
}

impl Done {
    /// Returns whether work on files could not even be looked at.
    pub fn is_incomplete(&self) -> bool {
        !self.problems.is_empty()
    }
}

/// A conversation that moved to another entry.
#[derive(Debug)]
pub struct Conversation {
    /// The messages that remain.
    pub messages: Vec<Arc<Message>>,
    /// The numbers of the runs on all branches.
    pub runs: RunNumbers,
    /// The last run before the position.
    pub last_run: String,
}

/// A way from the current state to another.
struct Way {
    turns: usize,
    /// The newest first.
    work: Vec<SnapshottedWork>,
    problems: Vec<String>,
    /// The entry to move to, and the last run there; `None` if the conversation stays.
    to: Option<(Option<EntryId>, Option<String>)>,
    prompt: Option<String>,
}

/// The session that a restoration belongs to, written down with its plan.
#[derive(Serialize, Deserialize)]
struct RestorationNote {
    session: PathBuf,
    /// The position of the conversation before the undo.
    position: Option<EntryId>,
    rewound: Rewound,
}

/// Completes an undo of this or another session that was killed after it had begun, and discards one that had not. Blocks.
///
/// # Errors
/// The directory cannot be opened.
pub fn recover(store: &CheckpointStore, session: &Session) -> Result<Option<RestoreReport>, Error> {
    let Some((report, note)) = store.recover(is_begun)? else { return Ok(None) };
    if let Ok(note) = serde_json::from_str::<RestorationNote>(&note)
        && note.session == session.path()
    {
        let is_recorded = read(session).is_ok_and(|turns| turns.last_rewind.is_some());
        let recorded = match is_recorded {
            true => Ok(()),
            false => record(session, note.rewound),
        };
        if let Err(failure) = recorded.and_then(|()| record_after(store, session)) {
            tracing::warn!(%failure, "a completed undo was not recorded");
        }
    }
    Ok(Some(report))
}

/// Returns whether the session moved because of an undo, so that its files have to follow.
fn is_begun(note: &str) -> bool {
    let Ok(note) = serde_json::from_str::<RestorationNote>(note) else { return true };
    Transcript::open(&note.session).map_or(true, |transcript| transcript.position() != note.position)
}

/// Returns the changes that an undo would make. Changes nothing, and completes no undo that was killed. Blocks.
///
/// # Errors
/// There are not that many turns, or a snapshot cannot be taken.
pub fn preview(store: Option<&CheckpointStore>, session: &Path, wish: Wish) -> Result<Done> {
    prepare(store, session, wish).map(|(done, ..)| done)
}

/// Returns whether the directory of the checkpoints is where it was.
///
/// # Errors
/// It was moved or removed.
fn is_there(store: &CheckpointStore) -> Result<()> {
    let root = store.root();
    if root.is_dir() {
        return Ok(());
    }
    let gone =
        Failure::failed(format!("the workspace `{}` does not exist, so files cannot be restored", root.display()));
    Err(gone.hint("if it was moved, move it back, or take back the conversation alone with --conversation-only"))
}

/// Plans to undo turns. Returns the outcome so far, the position to move to, and the files as they are.
#[expect(clippy::type_complexity, reason = "three parts of one outcome, for two callers")]
fn prepare(
    store: Option<&CheckpointStore>,
    session: &Path,
    wish: Wish,
) -> Result<(Done, Option<(Option<EntryId>, Option<String>)>, Option<TreeSnapshot>)> {
    let (turns, worked_in) = read_file(session)?;
    let way = match wish.target {
        RewindTarget::Back(number) => back(&turns.turns, number)?,
        RewindTarget::Redo => forward(turns.last_rewind)?,
    };
    let mut done = Done { turns: way.turns, problems: way.problems, prompt: way.prompt, ..Done::default() };
    let mut current = None;
    if wish.files {
        let store = store.ok_or_else(|| {
            Failure::failed("checkpoints are off, so files cannot be restored")
                .hint("--conversation-only rewinds the conversation; `enabled = true` in `[undo]` turns checkpoints on")
        })?;
        is_there(store)?;
        let worked_in = worked_in.filter(|path| path != store.root());
        let (plan, snapshot) = planned(store, &way.work, wish.force, worked_in.as_deref(), &mut done.problems)?;
        (current, done.plan) = (Some(snapshot), Some(plan));
    }
    Ok((done, way.to.filter(|_| wish.conversation), current))
}

/// Undoes turns of a session. Blocks.
///
/// # Errors
/// There are not that many turns, the session cannot be written, or files cannot be restored. Then the conversation is
/// where it was, and files are restored where possible.
pub fn rewind(store: Option<&CheckpointStore>, session: &Session, wish: Wish) -> Result<Done> {
    if wish.dry_run {
        return preview(store, session.path(), wish);
    }
    // Files that the agent created must not prevent their removal.
    let store = store.map(CheckpointStore::patient);
    let Some(files) = store.as_ref().filter(|_| wish.files) else { return restore(store, session, wish) };
    recover(files, session).map_err(failed)?;
    is_there(files)?;
    // Changes from now on are not the work of another session that works at the same time.
    files.begin_work(session.id(), &BTreeSet::new()).map_err(failed)?;
    let done = restore(Some(files.clone()), session, wish);
    if let Err(error) = files.end_work(session.id()) {
        tracing::debug!(error = with_causes(&error), "the end of an undo was not noted");
    }
    done
}

fn restore(store: Option<CheckpointStore>, session: &Session, wish: Wish) -> Result<Done> {
    let (mut done, to, current) = prepare(store.as_ref(), session.path(), wish)?;
    let position = session.position();
    let rewound = Rewound {
        turns: done.turns as u64,
        left: to.is_some().then_some(position).flatten(),
        before: current.as_ref().map(|snapshot| snapshot.id.to_string()),
    };
    // A redo that overwrites edits of others can be undone in turn.
    let is_recorded = wish.target != RewindTarget::Redo || wish.force;
    let prepared = match (&store, done.plan.as_ref().filter(|plan| !plan.is_empty())) {
        (Some(store), Some(plan)) => {
            let note = RestorationNote { session: session.path().to_owned(), position, rewound: rewound.clone() };
            // Without a move or a record, nothing in the session tells whether this began.
            let note = Some(note).filter(|_| is_recorded || to.is_some());
            let note = note.and_then(|note| serde_json::to_string(&note).ok()).unwrap_or_default();
            Some(store.prepare(plan, &note).map_err(failed)?)
        }
        _ => None,
    };
    let messages = match move_to(session, to.as_ref().map(|(to, _)| *to), rewound.clone(), is_recorded) {
        Ok(messages) => messages,
        Err(failure) => {
            prepared.map(PreparedRestoration::discard).transpose().map_err(failed)?;
            session.go_back(position).map_err(Failure::from)?;
            return Err(failure);
        }
    };
    done.report = prepared.map(PreparedRestoration::run).transpose().map_err(failed)?;
    if let Some((path, cause)) = done.report.as_ref().and_then(|report| report.failed.first()) {
        let all = done.report.as_ref().map_or(0, |report| report.failed.len());
        let text = format!("could not restore {}: `{path}`: {cause}", count(all as u64, "file"));
        if to.is_some() {
            session.go_back(position).map_err(Failure::from)?;
            if wish.target != RewindTarget::Redo {
                // The overwritten files must be found from here.
                record(session, Rewound { left: None, ..rewound })?;
            }
        }
        if let (Some(store), true) = (&store, wish.target != RewindTarget::Redo) {
            record_after(store, session)?;
        }
        return Err(Failure::failed(text).hint("the rest is restored; fix the cause and undo again"));
    }
    if let (Some(store), true) = (&store, is_recorded && current.is_some()) {
        record_after(store, session)?;
    }
    if let (Some(messages), Some((_, last_run))) = (messages, to) {
        let now = read(session)?;
        let runs = Transcript::open(session.path()).and_then(|mut transcript| transcript.run_numbers());
        done.conversation = Some(Conversation {
            messages,
            runs: runs.map_err(Failure::from)?,
            last_run: last_run.unwrap_or(now.last_run),
        });
    }
    Ok(done)
}

/// Moves the conversation, if it is to be moved, and records the undo.
fn move_to(
    session: &Session,
    to: Option<Option<EntryId>>,
    rewound: Rewound,
    is_recorded: bool,
) -> Result<Option<Vec<Arc<Message>>>> {
    let messages = to.map(|to| session.go_back(to)).transpose().map_err(Failure::from)?;
    if is_recorded {
        record(session, rewound)?;
    }
    Ok(messages)
}

/// Reads the turns of a session.
///
/// # Errors
/// The session cannot be read.
pub fn read(session: &Session) -> Result<Turns> {
    read_file(session.path()).map(|(turns, _)| turns)
}

/// Reads the turns of a session, and the directory where it began.
fn read_file(session: &Path) -> Result<(Turns, Option<PathBuf>)> {
    if !session.exists() {
        return Ok((Turns::default(), None));
    }
    let mut transcript = Transcript::open(session).map_err(Failure::from)?;
    let worked_in = transcript.header().map(|header| header.workspace.clone());
    Ok((Turns::read(&mut transcript), worked_in))
}

fn back(turns: &[PromptTurn], number: usize) -> Result<Way> {
    let undone = turns.len().checked_sub(number).and_then(|first| turns.get(first..)).unwrap_or_default();
    let Some(first) = undone.first() else {
        let there = count(turns.len() as u64, "turn");
        return Err(Failure::failed(match turns.len() {
            0 => "there is nothing to undo in this session".to_owned(),
            _ => format!("cannot undo {}: the session has {there}", count(number as u64, "turn")),
        }));
    };
    let newest_first = undone.iter().rev();
    let problem = |problem: &String| format!("a turn has no checkpoint: {problem}");
    Ok(Way {
        turns: undone.len(),
        work: newest_first.flat_map(|turn| turn.work.iter().rev().copied()).collect(),
        problems: undone.iter().flat_map(|turn| turn.problems.iter().map(problem)).collect(),
        to: Some((first.at, Some(first.last_run.clone()))),
        prompt: Some(first.prompt.clone()),
    })
}

fn forward(last: Option<LastRewind>) -> Result<Way> {
    let last = last.ok_or_else(|| {
        Failure::failed("there is nothing to redo").hint("only the last undo can be undone, until the next message")
    })?;
    Ok(Way {
        turns: usize::try_from(last.turns).unwrap_or(usize::MAX),
        work: last.work.into_iter().collect(),
        problems: Vec::new(),
        to: last.left.map(|left| (Some(left), None)),
        prompt: None,
    })
}

/// Plans the changes of files, with a snapshot of their current state. `worked_in` is the directory where the session
/// began, if it is another one.
fn planned(
    store: &CheckpointStore,
    work: &[SnapshottedWork],
    force: bool,
    worked_in: Option<&Path>,
    problems: &mut Vec<String>,
) -> Result<(Plan, TreeSnapshot)> {
    let current = store.snapshot().map_err(failed)?;
    let (mut problem, mut is_interrupted) = (None, false);
    let steps = work.iter().map_while(|work| {
        is_interrupted |= work.kind == StepKind::Interrupted;
        // Older work cannot be undone without the work that came after it.
        work.step(store).map_err(|error| problem = Some(error)).ok()
    });
    let mut plan = Plan::new(steps, &current.tree, force);
    let problem = problem.map(|error| match (&error, worked_in) {
        (Error::NoSuchTree(_), Some(before)) => format!(
            "the agent worked in `{}`, whose checkpoints are not those of this directory, so files of that time stay as they are\n\
             hint: if the directory was moved, move it back and run `pinion session rewind` there",
            before.display()
        ),
        _ => format!("files of older turns stay as they are: {}", with_causes(&error)),
    });
    problems.extend(problem);
    if !force && plan.is_elsewhere {
        problems.push(format!(
            "the directory is not the one in which the agent worked: that one was moved or removed since\n\
             hint: move it back to `{}`, or restore the files here with --force",
            store.root().display()
        ));
    }
    if !force && !plan.conflicts.is_empty() && is_interrupted {
        problems.push("the agent was interrupted, so its changes cannot be told from later ones".to_owned());
    }
    store.check(&mut plan);
    Ok((plan, current))
}

fn failed(error: Error) -> Failure {
    Failure::failed("cannot restore files").because(error)
}

fn record(session: &Session, rewound: Rewound) -> Result<()> {
    session.record(&Record::Rewound(rewound)).map(drop).map_err(Failure::from)
}

/// Records the files as they are after an undo: this separates later changes of others from it.
fn record_after(store: &CheckpointStore, session: &Session) -> Result<()> {
    let after = store.snapshot();
    let problem = after.as_ref().err().map(|error| with_causes(error));
    let tree = after.ok().map(|after| after.id.to_string());
    let checkpoint = Checkpoint { moment: Moment::After, tree, problem };
    session.record(&Record::Checkpoint(checkpoint)).map(drop).map_err(Failure::from)
}
