//! Takes checkpoints while an agent works: before a call that may change files and after it, so that the user's changes
//! between two calls do not count as the agent's.

use crate::approve::Person;
use crate::failure::with_causes;
use crate::options::RunOptions;
use crate::undo::argument_paths::paths_in;
use crate::undo::rewind;
use crate::workspace_base::Base;
use futures_util::future::BoxFuture;
use pinion_agent::approval::{Approval, ApprovalMode};
use pinion_agent::content::ToolCall;
use pinion_agent::dialog::Severity;
use pinion_agent::hooks::{HookVerdict, Hooks};
use pinion_agent::message::ToolResultMessage;
use pinion_agent::text::count;
use pinion_agent::{Agent, Authority, Context, ToolExecutor};
use pinion_checkpoints::{
    CheckpointStore, Digest, Error, GapReason, Overlap, RelPath, RestoreReport, Retention, TreeSnapshot, remove_unused,
};
use pinion_journal::writer::JournalMode;
use pinion_session_store::record::{Checkpoint, Moment};
use pinion_session_store::{Record, Session, printable};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// The beginning of the notice about a failed snapshot.
const NO_CHECKPOINT: &str = "no checkpoint";
/// The beginning of a question about files that undo does not cover.
const PARTLY: &str = "this call may not be undone completely: ";
/// The notice about another session in the same directory.
const TOGETHER: &str = "another session changed files of this directory, or let a program run in it, at the same time: undo keeps what \
                        changed meanwhile, unless you add --force";
/// Stands for the runs of a group among the calls that are at work.
const GROUP: &str = "\0group";

/// Takes snapshots around the calls that may change files. Calls that run at the same time share them.
pub struct Keeper {
    pub(super) base: Base,
    /// Files that this program writes.
    own: Vec<PathBuf>,
    tools: Arc<dyn ToolExecutor>,
    approval: Approval,
    /// The user of a conversation, who can be asked and told at any time.
    user: Option<Arc<dyn Person>>,
    /// The user knows which files undo does not cover.
    are_gaps_accepted: AtomicBool,
    /// The session and its checkpoints; `None` if it is not saved or checkpoints are off.
    kept: Mutex<Option<(Arc<Session>, CheckpointStore)>>,
    turn: tokio::sync::Mutex<TurnCheckpoint>,
    /// Snapshots that are needed at the end of the run, which no limit on old ones removes.
    needed: Mutex<Vec<Digest>>,
    notices: Mutex<UndoNotices>,
}

#[derive(Default)]
struct TurnCheckpoint {
    /// A checkpoint was taken, or at least tried.
    is_begun: bool,
    /// A checkpoint was taken before work that goes on.
    is_open: bool,
    /// Calls that are at work.
    running: Vec<String>,
    /// The problem about which the user allowed to go on.
    accepted: Option<String>,
    /// Ignored paths that the checkpoints cover.
    covered: BTreeSet<RelPath>,
    /// The snapshots of this turn, which no limit on old ones removes.
    trees: Vec<Digest>,
}

impl TurnCheckpoint {
    fn is_group(&self) -> bool {
        self.running.iter().any(|id| id == GROUP)
    }
}

#[derive(Default)]
struct UndoNotices {
    waiting: Vec<String>,
    /// Notices that were shown already.
    said: Vec<String>,
}

impl Keeper {
    /// Creates a keeper for the runs of an agent. Without a `user`, there are no questions about files that undo does
    /// not cover.
    pub fn new(base: &Base, options: &RunOptions, agent: &Agent, user: Option<Arc<dyn Person>>) -> Self {
        let own = options.record.iter().map(|path| base.workspace.join(path)).collect();
        let ports = agent.config().ports;
        Self {
            base: base.clone(),
            own,
            tools: ports.tools,
            approval: ports.approval,
            user,
            are_gaps_accepted: AtomicBool::new(false),
            kept: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            needed: Mutex::default(),
            notices: Mutex::default(),
        }
    }

    /// Continues in a session; `None` for one that is not saved. Called while no run works.
    pub fn begin(&self, session: Option<&Arc<Session>>) {
        let store = session.and_then(|session| {
            let store = self.base.checkpoints(&self.base.workspace, session.path(), &self.own)?;
            Some((session.clone(), store))
        });
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = store;
    }

    /// Completes a restoration that was killed.
    pub async fn recover(&self) {
        let Some((session, store)) = self.kept() else { return };
        match blocking(move || rewind::recover(&store, &session)).await {
            Ok(Some(report)) => self.notices().waiting.push(recovered(&report)),
            Ok(None) => {}
            Err(problem) => {
                let problem = format!("an undo was interrupted and cannot be completed: {problem}");
                self.notices().waiting.push(problem);
            }
        }
    }

    /// Keeps a snapshot until the end of the process.
    pub fn need(&self, tree: Digest) {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner).push(tree);
    }

    pub(crate) fn kept(&self) -> Option<(Arc<Session>, CheckpointStore)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the checkpoints; `None` if checkpoints are off or the session is not saved.
    pub fn store(&self) -> Option<CheckpointStore> {
        self.kept().map(|(_, store)| store)
    }

    /// Returns the notices not shown yet about checkpoints that were not taken or have gaps.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.notices().waiting)
    }

    fn notices(&self) -> MutexGuard<'_, UndoNotices> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a notice once: now if there is a user, else when the notices are taken.
    pub(super) fn notice(&self, text: String) {
        let mut notices = self.notices();
        if notices.said.contains(&text) {
            return;
        }
        notices.said.push(text.clone());
        match &self.user {
            Some(user) => user.notify("pinion", Severity::Warning, &text),
            None => notices.waiting.push(text),
        }
    }

    /// Takes a checkpoint now, for runs that work at the same time until the turn ends.
    pub async fn begin_group(&self) {
        // There is no question about all runs at once: their calls ask.
        self.before(GROUP, Authority::default(), BTreeSet::new()).await;
    }

    /// Takes a checkpoint before a call, unless there is one since which others are at work. Returns a reason to ask the user
    /// first; then the call does not count as begun.
    async fn before(&self, id: &str, authority: Authority, ignored: BTreeSet<RelPath>) -> Option<String> {
        // Calls wait for each other here: they start only when the snapshot is complete.
        let mut turn = self.turn.lock().await;
        self.kept()?;
        if !turn.is_begun {
            // A failure is reported again in every turn that it leaves without undo.
            self.notices().said.retain(|said| !said.starts_with(NO_CHECKPOINT));
            turn.is_begun = true;
        }
        let is_joined = turn.is_open && turn.running.iter().any(|other| other != id);
        if !is_joined || !ignored.is_subset(&turn.covered) {
            self.close(&mut turn).await;
            turn.covered.extend(ignored.iter().cloned());
            let taken = self.begin_work(ignored).await;
            self.outside().filter(|_| authority.executes).into_iter().for_each(|gap| self.notice(gap));
            turn.is_open = taken.is_ok();
            turn.trees.extend(taken.as_ref().ok().map(|snapshot| snapshot.id));
            let doubt = self.doubt(taken, authority).filter(|doubt| turn.accepted.as_ref() != Some(doubt));
            if let Some(doubt) = doubt.filter(|_| id != GROUP && self.approval.mode() == ApprovalMode::Smart) {
                return Some(doubt);
            }
        }
        if !turn.running.iter().any(|other| other == id) {
            turn.running.push(id.to_owned());
        }
        None
    }

    /// Remembers that the user goes on for this reason: for this turn, or for the session if undo has gaps.
    async fn accept(&self, reason: &str) {
        if reason.starts_with(PARTLY) {
            self.are_gaps_accepted.store(true, Ordering::Relaxed);
        }
        self.turn.lock().await.accepted = Some(reason.to_owned());
    }

    /// Takes a checkpoint when no call is at work any more; with a journal, also while others are, so that each call has
    /// its own.
    async fn after(&self, call: &ToolCall) {
        let mut turn = self.turn.lock().await;
        let Some(at) = turn.running.iter().position(|other| *other == call.id) else { return };
        turn.running.swap_remove(at);
        let (is_last, is_recorded) = (turn.running.is_empty(), self.base.config.journal != JournalMode::Off);
        let (before, known) = (turn.trees.last().copied(), turn.trees.len());
        match is_last {
            true => self.close(&mut turn).await,
            false if is_recorded && turn.is_open => turn.trees.extend(self.snapshot_among_calls().await),
            false => {}
        }
        if is_recorded
            && turn.trees.len() > known
            && let (Some(before), Some(after)) = (before, turn.trees.last())
        {
            self.record_call(call, before, *after);
        }
    }

    /// Takes the checkpoint after work, if there is one before it.
    async fn close(&self, turn: &mut TurnCheckpoint) {
        if std::mem::take(&mut turn.is_open) {
            turn.trees.extend(self.end_work().await);
        }
    }

    /// Returns the ignored paths that the arguments of a call name. A tool gets the paths that it changes from them.
    async fn ignored(&self, call: &ToolCall) -> BTreeSet<RelPath> {
        let paths = paths_in(&call.arguments, &self.base.workspace);
        let Some((_, store)) = self.kept().filter(|_| !paths.is_empty()) else { return BTreeSet::new() };
        let ignored = move || Ok(paths.into_iter().filter(|path| store.ignores(path)).collect());
        blocking(ignored).await.unwrap_or_default()
    }

    /// Takes the checkpoint after work that still goes on, and removes old checkpoints.
    pub async fn end_turn(&self) {
        let mut turn = self.turn.lock().await;
        self.close(&mut turn).await;
        let ended = std::mem::take(&mut *turn);
        if ended.is_begun {
            let mut keep = ended.trees;
            keep.extend(self.needed.lock().unwrap_or_else(PoisonError::into_inner).iter());
            let (Some((_, store)), Some(settings)) = (self.kept(), &self.base.config.undo) else { return };
            let (retention, stores) = (settings.retention, self.base.paths.checkpoints());
            let collected = blocking(move || collect(&store, retention, &keep, &stores)).await;
            if let Err(problem) = collected {
                tracing::debug!(problem, "old checkpoints were not removed");
            }
        }
    }

    /// Takes the snapshot before work and records it.
    ///
    /// # Errors
    /// Without a snapshot, the following work cannot be undone. The failure was shown and recorded.
    async fn begin_work(&self, ignored: BTreeSet<RelPath>) -> Result<TreeSnapshot, String> {
        let (session, store) = self.kept().ok_or("there are no checkpoints")?;
        let worker = session.id().to_owned();
        let taken = blocking(move || store.begin_work(&worker, &ignored)).await;
        self.record(&session, Moment::Before, taken)
    }

    /// Takes the snapshot after work and records it, with those between which other sessions worked, too: their changes are
    /// not this agent's. Returns the snapshots that belong to this turn.
    async fn end_work(&self) -> Vec<Digest> {
        let Some((session, store)) = self.kept() else { return Vec::new() };
        // Files that the agent created must not prevent their removal.
        let (store, worker) = (store.patient(), session.id().to_owned());
        let (taken, overlaps) = match blocking(move || store.end_work(&worker)).await {
            Ok((taken, overlaps)) => (Ok(taken), overlaps),
            Err(problem) => (Err(problem), Vec::new()),
        };
        let mut trees = Vec::new();
        for Overlap { from, to } in overlaps {
            self.notice(TOGETHER.to_owned());
            // Work that ends and begins again with another state: the changes in between are not this agent's.
            for (moment, tree) in [(Moment::After, from), (Moment::Before, to)] {
                trees.push(tree);
                let checkpoint = Checkpoint { moment, tree: Some(tree.to_string()), problem: None };
                if let Err(error) = session.record(&Record::Checkpoint(checkpoint)) {
                    self.notice(lost(&error));
                }
            }
        }
        trees.extend(self.record(&session, Moment::After, taken).ok().map(|snapshot| snapshot.id));
        trees
    }

    /// Records a snapshot, or the problem that prevented it.
    fn record(
        &self,
        session: &Session,
        moment: Moment,
        taken: Result<TreeSnapshot, String>,
    ) -> Result<TreeSnapshot, String> {
        match &taken {
            Ok(snapshot) => gaps(snapshot).into_iter().for_each(|gap| self.notice(gap)),
            Err(problem) => self.notice(format!("{NO_CHECKPOINT}, so this turn cannot be undone: {problem}")),
        }
        let tree = taken.as_ref().ok().map(|snapshot| snapshot.id.to_string());
        let problem = taken.as_ref().err().map(|problem| problem.chars().take(500).collect());
        let recorded = session.record(&Record::Checkpoint(Checkpoint { moment, tree, problem }));
        recorded.map_err(|error| {
            let problem = lost(&error);
            self.notice(problem.clone());
            problem
        })?;
        taken
    }

    /// Returns why a call may not be undone, or not completely.
    fn doubt(&self, taken: Result<TreeSnapshot, String>, authority: Authority) -> Option<String> {
        let snapshot = match taken {
            Ok(snapshot) => snapshot,
            Err(problem) => {
                return Some(format!("this call cannot be undone, because there is no checkpoint: {problem}"));
            }
        };
        // Components change the files that their arguments name; a program may change any.
        if !authority.executes || self.user.is_none() || self.are_gaps_accepted.load(Ordering::Relaxed) {
            return None;
        }
        let gap = gaps(&snapshot).into_iter().next().or_else(|| self.outside())?;
        Some(format!("{PARTLY}{gap}"))
    }

    /// Names a directory outside of the workspace that programs may write to.
    fn outside(&self) -> Option<String> {
        let writable = self.base.config.sandbox.writable.iter();
        let mut outside = writable.filter(|path| path.exists() && !path.starts_with(&self.base.workspace));
        let first = printable(&outside.next()?.display().to_string()).into_owned();
        Some(format!("undo does not cover `{first}`, which programs may change (`writable` in `[sandbox]`)"))
    }
}

/// Returns the remedy for a full disk, as the end of a message; empty for any other cause.
fn remedy(error: &Error) -> &'static str {
    match error {
        Error::Io { source, .. } if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            "; free some space there, or turn undo off with `enabled = false` in `[undo]` of the config"
        }
        Error::Io { source, .. } if source.kind() == ErrorKind::FileTooLarge => {
            "; raise the limit on the size of files: `ulimit -f unlimited`"
        }
        _ => "",
    }
}

pub(super) fn lost(error: &(dyn std::error::Error + 'static)) -> String {
    format!("the checkpoint is lost: {}", with_causes(error))
}

/// Names files that a snapshot does not cover although they could change.
fn gaps(snapshot: &TreeSnapshot) -> Vec<String> {
    let mut gaps = Vec::new();
    if snapshot.tree.covers_nothing() {
        gaps.push("undo covers no file here, because all of them are ignored".to_owned());
    }
    let uncovered: Vec<_> = snapshot.tree.uncovered().filter(|(_, reason)| *reason != GapReason::Special).collect();
    if let Some((path, reason)) = uncovered.first() {
        let more = match uncovered.len() - 1 {
            0 => String::new(),
            more => format!(" and {}", count(more as u64, "other file")),
        };
        gaps.push(format!("undo does not cover `{}`{more}: {reason}", printable(&path.to_string())));
    }
    gaps
}

fn collect(store: &CheckpointStore, retention: Retention, keep: &[Digest], stores: &Path) -> Result<(), Error> {
    store.collect_when_due(retention, keep)?;
    remove_unused(stores, retention.age);
    Ok(())
}

/// Runs blocking work; describes its error.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| with_causes(&error) + remedy(&error)),
        Err(error) => Err(error.to_string()),
    }
}

/// Describes a restoration that another process began.
pub fn recovered(report: &RestoreReport) -> String {
    let restored = count(report.restored.len() as u64, "file");
    let kept = report.kept.iter().map(|path| (path, "changed in the meantime"));
    let failed = report.failed.iter().map(|(path, cause)| (path, cause.as_str()));
    let all = report.kept.len() + report.failed.len();
    match failed.chain(kept).next() {
        None => format!("completed an undo that was interrupted: restored {restored}"),
        Some((path, cause)) => {
            let path = printable(&path.to_string()).into_owned();
            format!("completed an undo that was interrupted: restored {restored}, but not {all}: `{path}`: {cause}")
        }
    }
}

impl Keeper {
    fn is_own(&self, context: &Context) -> bool {
        self.kept().is_some_and(|(session, _)| session.id() == &*context.session_id)
    }

    /// Returns the effects of a call if it may change files.
    fn changing(&self, call: &ToolCall) -> Option<Authority> {
        let definitions = self.tools.definitions();
        let tool = definitions.iter().find(|tool| tool.name == call.name);
        let authority = tool.map_or(Authority::ALL, |tool| tool.authority);
        (authority.writes || authority.executes || authority.destructive).then_some(authority)
    }
}

impl Hooks for Keeper {
    fn before_run<'a>(&'a self, context: &'a Context, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        Box::pin(async move {
            // The steps of a plan are runs of one session, each a turn. Sub-agents have separate sessions.
            if self.is_own(context) && !self.turn.lock().await.is_group() {
                self.end_turn().await;
            }
            HookVerdict::Pass
        })
    }

    fn before_turn<'a>(&'a self, context: &'a Context, _: u32, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        Box::pin(async move {
            let mut turn = self.turn.lock().await;
            if self.is_own(context) && !turn.is_group() {
                // Calls that were cancelled before they began.
                turn.running.clear();
                self.close(&mut turn).await;
            }
            HookVerdict::Pass
        })
    }

    fn before_tool<'a>(&'a self, call: &'a ToolCall, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        Box::pin(async move {
            let Some(authority) = self.changing(call) else { return HookVerdict::Pass };
            let ignored = self.ignored(call).await;
            self.before(&call.id, authority, ignored).await.map_or(HookVerdict::Pass, HookVerdict::Ask)
        })
    }

    fn after_question<'a>(
        &'a self,
        call: &'a ToolCall,
        reason: &'a str,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.accept(reason).await;
            // The user's changes while the question was open are not the agent's.
            if let Some(authority) = self.changing(call) {
                let ignored = self.ignored(call).await;
                self.before(&call.id, authority, ignored).await;
            }
        })
    }

    fn transform_result<'a>(
        &'a self,
        call: &'a ToolCall,
        _: &'a ToolResultMessage,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<ToolResultMessage>> {
        Box::pin(async move {
            self.after(call).await;
            None
        })
    }
}
