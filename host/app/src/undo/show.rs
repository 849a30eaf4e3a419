//! Describes turns and the effects of undoing them.

use crate::output::{Text, age, count, fit, shell_command, text};
use crate::undo::rewind::{Done, RewindTarget, Wish};
use crate::undo::turns::{PromptTurn, Turns};
use pinion_agent::jiff::Timestamp;
use pinion_checkpoints::{CheckpointStore, PathAction, Plan, RefChange, StepKind, WorkChanges};
use pinion_session_store::printable;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Paths that a list names at most.
const MAX_PATHS: usize = 20;
/// Turns that a list names at most.
const MAX_TURNS: usize = 20;
/// Columns of a prompt in a list.
const PROMPT: usize = 60;
/// Bytes of the differences that are shown.
const MAX_DIFF: usize = 64 * 1024;

/// A reminder of everything that is never undone.
const NOT_COVERED: &str = "not undone: `.git` and other protected paths, ignored files, times, hard links and extended attributes, changes outside \
     of this directory, and effects on the network";

/// True once this process has shown the reminder.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Describes the changes of an undo, or the changes that it would make.
pub fn report(done: &Done, wish: Wish) -> Vec<Text> {
    let mut lines = Vec::new();
    let turns = count(done.turns as u64, "turn");
    let verb = match (wish.dry_run, wish.target) {
        (true, RewindTarget::Back(_)) => "would undo",
        (true, RewindTarget::Redo) => "would redo",
        (false, RewindTarget::Back(_)) => "undone:",
        (false, RewindTarget::Redo) => "redone:",
    };
    let what = match (wish.files, wish.conversation, done.is_incomplete()) {
        (true, true, false) => "files and conversation",
        (true, false, false) => "files",
        (true, true, true) => "the conversation, but not all files",
        (true, false, true) => "not all files",
        (false, ..) => "conversation",
    };
    lines.push(text!("{} {} ({})", verb, turns, what));
    if let Some(plan) = &done.plan {
        files(plan, done, wish, &mut lines);
    }
    done.problems.iter().for_each(|problem| lines.push(text!("! {}", Text::block(problem))));
    lines
}

fn files(plan: &Plan, done: &Done, wish: Wish, lines: &mut Vec<Text>) {
    let actions: Vec<_> = plan.actions().collect();
    if actions.is_empty() {
        lines.push(text!("  no files to restore"));
    }
    for (path, action) in actions.iter().take(MAX_PATHS) {
        let verb = match action {
            PathAction::Remove => "remove ",
            PathAction::Create => "restore",
            PathAction::Change => "revert ",
        };
        lines.push(text!("  {} {}", verb, path.to_string()));
    }
    more(actions.len(), lines);
    let list = |paths: Vec<String>, what: &str, lines: &mut Vec<Text>| {
        for path in paths.iter().take(MAX_PATHS) {
            lines.push(text!("! {}: {}", path, what));
        }
        more(paths.len(), lines);
    };
    let names = |paths: &[pinion_checkpoints::RelPath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    // The next undo concerns an earlier turn once the conversation has moved.
    let hint = match (wish.force, wish.dry_run || !wish.conversation, wish.target) {
        (true, ..) => "",
        (false, true, _) => " (--force restores it)",
        (false, false, RewindTarget::Back(1)) => " (`/redo`, then `/undo --force` restores it)",
        (false, false, RewindTarget::Back(_)) => " (`/redo`, then `/rewind N --force` restores it)",
        (false, false, RewindTarget::Redo) => " (`/undo`, then `/redo --force` restores it)",
    };
    let conflict = format!("changed by someone else, so it stays as they left it{hint}");
    list(names(&plan.conflicts), &conflict, lines);
    if let Some(report) = &done.report {
        list(names(&report.kept), "changed just now, so it stays as it is", lines);
        list(names(&report.unowned), "restored, but not its owner or the rights that come with it", lines);
        for (path, aside) in report.aside.iter().take(MAX_PATHS) {
            lines.push(text!("! {}: what was there is now `{}`", path.to_string(), aside.to_string()));
        }
        more(report.aside.len(), lines);
    }
    list(names(&plan.kept), "the directory contains other files, so it stays", lines);
    list(names(&plan.ignored), "created by the agent, but ignored, so it stays", lines);
    for (path, reason) in plan.created.iter().take(MAX_PATHS) {
        lines.push(text!("! {}: created by the agent, and stays: {}", path.to_string(), reason.to_string()));
    }
    more(plan.created.len(), lines);
    for (path, reason) in plan.lost.iter().take(MAX_PATHS) {
        lines.push(text!("! {}: cannot be restored: {}", path.to_string(), reason.to_string()));
    }
    more(plan.lost.len(), lines);
    refs(&plan.refs, lines);
    if !IS_TOLD.swap(true, Ordering::Relaxed) {
        lines.push(text!("  {}", NOT_COVERED));
    }
}

/// Names the refs that changed, with the commands that change them back. The user's own commands come first: `git fetch`
/// restores the refs that it moved.
fn refs(refs: &[RefChange], lines: &mut Vec<Text>) {
    let is_remote = |change: &RefChange| change.name.starts_with("refs/remotes/");
    let mut named: Vec<_> = refs.iter().filter_map(|change| Some((change, change.command()?))).collect();
    named.retain(|(change, _)| change.was.is_some() || !is_remote(change));
    named.sort_by_key(|(change, _)| is_remote(change));
    for (change, command) in named.iter().take(MAX_PATHS) {
        let since = if change.is_changed_since { ", also by someone else since" } else { "" };
        let restore = if change.was.is_some() { "to restore it" } else { "to remove it" };
        lines.push(text!("! {} {}{}; {}: {}", described(change), verb(change), since, restore, shell_command(command)));
    }
    more(named.len(), lines);
}

/// Returns the name of a ref, with the directory of its repository.
fn described(RefChange { directory, name, .. }: &RefChange) -> String {
    directory.as_ref().map_or_else(|| name.clone(), |directory| format!("{name} in {directory}"))
}

fn verb(change: &RefChange) -> &'static str {
    match (&change.was, &change.now) {
        (None, _) => "was created",
        (_, None) => "was removed",
        _ => "was moved",
    }
}

fn more(all: usize, lines: &mut Vec<Text>) {
    if all > MAX_PATHS {
        lines.push(text!("  and {} more", all - MAX_PATHS));
    }
}

/// Lists the turns that can be undone, the last one first. Blocks.
pub fn list(turns: &Turns, store: Option<&CheckpointStore>) -> Vec<Text> {
    let mut lines = vec![text!("turns of this session; /rewind N undoes the last N:")];
    for (number, turn) in turns.turns.iter().rev().take(MAX_TURNS).enumerate() {
        let age = age(Timestamp::now().duration_since(turn.time).as_secs());
        let known = changed(turn, store);
        let files = match (turn.work.is_empty(), known) {
            (true, _) if turn.problems.is_empty() => "no files".to_owned(),
            (true, _) => "no checkpoint".to_owned(),
            (false, Some((changed, 0))) => count(changed as u64, "file"),
            (false, Some((changed, refs))) => {
                format!("{}, {} of git", count(changed as u64, "file"), count(refs as u64, "ref"))
            }
            (false, None) => "files".to_owned(),
        };
        let prompt = turn.prompt.lines().next().unwrap_or_default();
        lines.push(text!("{}  {}  {}  {}", number + 1, age, files, fit(prompt, PROMPT)));
    }
    lines
}

/// Counts the paths and the refs that a turn changed; `None` if its checkpoints do not tell.
fn changed(turn: &PromptTurn, store: Option<&CheckpointStore>) -> Option<(usize, usize)> {
    let mut changes = WorkChanges::default();
    for work in turn.work.iter().filter(|work| work.kind != StepKind::Others) {
        let step = work.step(store?).ok()?;
        changes.add(&step.before, &step.after?);
    }
    Some((changes.iter().count(), changes.refs().count()))
}

/// Returns the changes of the last turn that changed files, or of the whole session, as Markdown; `None` if nothing
/// changed. Blocks.
pub fn diff(
    turns: &Turns,
    store: &CheckpointStore,
    whole_session: bool,
) -> Result<Option<String>, pinion_checkpoints::Error> {
    let mut with_work = turns.turns.iter().filter(|turn| !turn.work.is_empty());
    let work = match whole_session {
        true => with_work.flat_map(|turn| &turn.work).collect::<Vec<_>>(),
        false => with_work.next_back().map(|turn| turn.work.iter().collect()).unwrap_or_default(),
    };
    let (mut changes, mut others) = (WorkChanges::default(), WorkChanges::default());
    for work in work {
        let step = work.step(store)?;
        let after = step.after.map_or_else(|| store.snapshot().map(|now| now.tree), Ok)?;
        let made = if work.kind == StepKind::Others { &mut others } else { &mut changes };
        made.add(&step.before, &after);
    }
    let diff = store.diff(&changes, MAX_DIFF);
    let refs = changed_refs(&changes);
    if diff.changes == 0 {
        return Ok(Some(refs).filter(|refs| !refs.is_empty()));
    }
    // A fence that no line of the differences ends.
    let longest = diff.text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let omitted = match diff.omitted {
        0 => String::new(),
        omitted => format!("\n{} not shown, because the output is limited.\n", count(omitted as u64, "more change")),
    };
    let also = also_changed(&changes, &others);
    Ok(Some(format!("{fence}diff\n{}{fence}\n{omitted}{also}{refs}", diff.text)))
}

/// Lists the refs among the changes, as Markdown.
fn changed_refs(changes: &WorkChanges) -> String {
    let code = |text: &str| format!("`{}`", printable(text).replace('`', "'"));
    let value = |value: &Option<String>| value.as_ref().map_or_else(|| "nothing".to_owned(), |value| code(value));
    let all: Vec<RefChange> = changes.refs().collect();
    let mut lines: Vec<String> = Vec::new();
    for change in all.iter().take(MAX_PATHS) {
        let (name, was, now) = (code(&described(change)), value(&change.was), value(&change.now));
        lines.push(format!("- {name}: {was} → {now}\n"));
    }
    match all.len() {
        0 => return String::new(),
        count if count > MAX_PATHS => lines.push(format!("- and {} more\n", count - MAX_PATHS)),
        _ => {}
    }
    format!("\nRefs of git:\n\n{}", lines.concat())
}

/// Names the paths among the changes that others changed meanwhile, as Markdown.
fn also_changed(changes: &WorkChanges, others: &WorkChanges) -> String {
    let others: BTreeSet<String> = others.iter().map(|change| change.path.to_string()).collect();
    let both = changes.iter().map(|change| change.path.to_string()).filter(|path| others.contains(path));
    let both: Vec<String> = both.map(|path| format!("`{}`", printable(&path).replace('`', "'"))).collect();
    let more = match both.len().saturating_sub(MAX_PATHS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match both.is_empty() {
        true => String::new(),
        false => format!(
            "\nAlso changed by someone else meanwhile, whose changes are in the differences: {}{more}\n",
            both[..both.len().min(MAX_PATHS)].join(", ")
        ),
    }
}
