//! Decides how undoing changes each path.

use crate::path::RelPath;
use crate::refs::{RefChange, RefChanges};
use crate::tree::{GapReason, Tree, TreeChange, TreeEntry};
use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Work that can be undone: the trees before it and after it.
#[derive(Debug, Clone)]
pub struct UndoStep {
    /// The state before the work.
    pub before: Tree,
    /// The state after it; `None` if no snapshot was taken since, so that the current state counts.
    pub after: Option<Tree>,
    /// The origin of the changes between the two.
    pub kind: StepKind,
}

/// The origin of the changes between two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// The work made them.
    Whole,
    /// The work ended before the state after it was known, as when the process was killed. It is unknown which changes
    /// the work made and which others made, so all are conflicts.
    Interrupted,
    /// Others made them, between two pieces of work. They are conflicts.
    Others,
}

/// The changes that undo steps.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// For each path, its entry now and its entry after the restoration.
    pub(crate) changes: BTreeMap<RelPath, (Option<TreeEntry>, Option<TreeEntry>)>,
    /// Paths that the work changed, and others after it. They stay as they are.
    pub conflicts: Vec<RelPath>,
    /// Directories that stay because of their content.
    pub kept: Vec<RelPath>,
    /// Paths that were changed by the work and have no copy.
    pub lost: Vec<(RelPath, GapReason)>,
    /// Paths that the work created and that are ignored. They stay.
    pub ignored: Vec<RelPath>,
    /// Paths that the work created and that have no copy. They stay, because nothing could bring them back.
    pub created: Vec<(RelPath, GapReason)>,
    /// Refs that the work changed. They stay, because snapshots leave repositories out.
    pub refs: Vec<RefChange>,
    /// A tree is one of another directory than the current one, so that all changes are conflicts.
    pub is_elsewhere: bool,
}

/// The effect of a plan on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathAction {
    /// Removes it.
    Remove,
    /// Creates it again.
    Create,
    /// Changes it back.
    Change,
}

impl Plan {
    /// Plans to undo steps, the last one first, in a directory that is in the state `current`. With `force`, the changes
    /// of others are overwritten. Holds one step at a time.
    pub fn new<S: Borrow<UndoStep>>(steps: impl IntoIterator<Item = S>, current: &Tree, force: bool) -> Self {
        let mut plan = Self::default();
        let mut refs = RefChanges::default();
        for step in steps {
            let step: &UndoStep = step.borrow();
            let now = step.after.is_none().then(|| plan.result(current));
            let Some(after) = step.after.as_ref().or(now.as_ref()) else { continue };
            let is_here = [&step.before, after].iter().all(|tree| tree.is_of_same_directory(current));
            plan.is_elsewhere |= !is_here;
            let trust = match (force, step.kind) {
                (true, _) => Trust::All,
                (false, StepKind::Whole) if is_here => Trust::Unchanged,
                (false, _) => Trust::Nothing,
            };
            plan.undo(step.before.changes(after), current, trust);
            if step.kind == StepKind::Others {
                continue;
            }
            refs.add_earlier(&step.before, after);
            plan.lost.extend(step.before.lost(after).map(|path| (path.clone(), GapReason::Excluded)));
            plan.ignored.extend(new_and_ignored(&step.before, after));
        }
        plan.refs = refs.until(current);
        plan.changes.retain(|_, (from, to)| from != to);
        plan.keep_used_directories(current);
        plan.keep_below_directories(current);
        for paths in [&mut plan.conflicts, &mut plan.ignored] {
            paths.sort();
            paths.dedup();
        }
        for paths in [&mut plan.lost, &mut plan.created] {
            paths.sort();
            paths.dedup_by(|a, b| a.0 == b.0);
        }
        plan.ignored.retain(|path| current.get(path).is_some_and(TreeEntry::is_excluded));
        plan
    }

    fn undo<'a>(&mut self, work: impl Iterator<Item = TreeChange<'a>>, current: &Tree, trust: Trust) {
        for TreeChange { path, before, after } in work {
            if let Some(TreeEntry::Uncovered { reason, .. }) = before.filter(|entry| is_gap(entry)) {
                self.lost.push((path.clone(), *reason));
                continue;
            }
            let Some(now) = self.now(path, current) else { continue };
            if now.as_ref() == before {
                continue;
            }
            // A file is moved aside for its copy. Nothing else is known well enough to be changed.
            let has_copy = matches!(before, Some(TreeEntry::File { .. } | TreeEntry::Link { .. }));
            if let Some(TreeEntry::Uncovered { reason, .. }) = now.as_ref().filter(|_| !has_copy) {
                let list = if before.is_none() { &mut self.created } else { &mut self.lost };
                list.push((path.clone(), *reason));
                continue;
            }
            if trust == Trust::Nothing || (trust == Trust::Unchanged && now.as_ref() != after) {
                self.conflicts.push(path.clone());
                continue;
            }
            let from = match self.changes.remove(path) {
                Some((from, _)) => from,
                None => now,
            };
            self.changes.insert(path.clone(), (from, before.cloned()));
        }
    }

    /// Returns the state that a path will have; `None` if that is not known.
    fn now(&self, path: &RelPath, current: &Tree) -> Option<Option<TreeEntry>> {
        match self.changes.get(path) {
            Some((_, to)) => Some(to.clone()),
            None => Some(current.lookup(path)?.cloned()),
        }
    }

    /// Returns the tree that the plan makes of the current one.
    pub fn result(&self, current: &Tree) -> Tree {
        let mut entries: BTreeMap<RelPath, TreeEntry> =
            current.iter().map(|(path, entry)| (path.clone(), entry.clone())).collect();
        for (path, (_, to)) in &self.changes {
            match to {
                Some(entry) => entries.insert(path.clone(), entry.clone()),
                None => entries.remove(path),
            };
        }
        entries.into_iter().collect::<Tree>().with_root(current.root()).with_refs(current.refs().clone())
    }

    /// Keeps directories whose content stays in part.
    fn keep_used_directories(&mut self, current: &Tree) {
        let is_directory = |entry: &Option<TreeEntry>| matches!(entry, Some(TreeEntry::Directory { .. }));
        let removed = self.changes.iter().filter(|(_, (from, to))| is_directory(from) && !is_directory(to));
        let removed: Vec<RelPath> = removed.map(|(path, _)| path.clone()).collect();
        for path in removed.into_iter().rev() {
            let stays = |inside: &RelPath| self.changes.get(inside).is_none_or(|(_, to)| to.is_some());
            let inside = |path: &RelPath| {
                let mut entries = current.below(path).filter(|(_, entry)| **entry != TreeEntry::Absent);
                entries.any(|(inside, _)| stays(inside))
            };
            if !inside(&path) {
                continue;
            }
            match self.changes.remove(&path) {
                Some((_, None)) => self.kept.push(path),
                _ => self.conflicts.push(path),
            }
        }
    }

    /// Keeps paths that would be created below something that is not a directory.
    fn keep_below_directories(&mut self, current: &Tree) {
        let created: Vec<RelPath> =
            self.changes.iter().filter(|(_, (_, to))| to.is_some()).map(|(path, _)| path.clone()).collect();
        for path in created {
            let above = path.parent().and_then(|parent| self.now(&parent, current));
            if !matches!(above, None | Some(None | Some(TreeEntry::Directory { .. }))) {
                self.changes.remove(&path);
                self.conflicts.push(path);
            }
        }
    }

    /// Returns whether the plan changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the paths that the plan changes.
    pub fn actions(&self) -> impl Iterator<Item = (&RelPath, PathAction)> {
        self.changes.iter().map(|(path, (from, to))| {
            let action = match (from, to) {
                (_, None) => PathAction::Remove,
                (None, Some(_)) => PathAction::Create,
                (Some(_), Some(_)) => PathAction::Change,
            };
            (path, action)
        })
    }
}

/// The changes that count as the work's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    All,
    /// Changes of paths that are as the work left them.
    Unchanged,
    Nothing,
}

/// Returns the paths that did not exist before and that a later tree leaves alone.
fn new_and_ignored<'a>(before: &'a Tree, after: &'a Tree) -> impl Iterator<Item = RelPath> + 'a {
    let excluded = after.iter().filter(|(_, entry)| entry.is_excluded());
    excluded.filter(|(path, _)| before.lookup(path) == Some(None)).map(|(path, _)| path.clone())
}

/// Returns whether a file has no copy.
fn is_gap(entry: &TreeEntry) -> bool {
    matches!(entry, TreeEntry::Uncovered { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Digest;
    use std::path::Path;

    fn path(text: &str) -> RelPath {
        RelPath::try_from(Path::new(text)).unwrap()
    }

    /// A tree from lines of a path and a content; `/` stands for a directory.
    fn tree(entries: &[(&str, &str)]) -> Tree {
        let entry = |content: &str| match content {
            "/" => TreeEntry::Directory { mode: 0o755, owner: None },
            "ignored" => TreeEntry::Excluded,
            _ => TreeEntry::File { mode: 0o644, size: 1, content: Digest::from_bytes(content.as_bytes()), owner: None },
        };
        entries.iter().map(|(name, content)| (path(name), entry(content))).collect()
    }

    fn names(paths: &[RelPath]) -> Vec<String> {
        paths.iter().map(RelPath::to_string).collect()
    }

    fn actions(plan: &Plan) -> Vec<(String, PathAction)> {
        plan.actions().map(|(path, action)| (path.to_string(), action)).collect()
    }

    #[test]
    fn work_is_undone_and_edits_of_others_are_kept() {
        let before = tree(&[("a", "1"), ("b", "1"), ("gone", "1"), ("mine", "1")]);
        let after = tree(&[("a", "2"), ("b", "2"), ("new", "1"), ("mine", "1")]);
        let current = tree(&[("a", "2"), ("b", "3"), ("new", "1"), ("mine", "2"), ("other", "1")]);
        let steps = [UndoStep { before, after: Some(after), kind: StepKind::Whole }];
        let plan = Plan::new(&steps, &current, false);
        let expected = [("a", PathAction::Change), ("gone", PathAction::Create), ("new", PathAction::Remove)];
        assert_eq!(actions(&plan), expected.map(|(name, action)| (name.to_owned(), action)));
        assert_eq!(names(&plan.conflicts), ["b"]);
        let forced = Plan::new(&steps, &current, true);
        assert_eq!((actions(&forced).len(), forced.conflicts.len()), (4, 0));
    }

    #[test]
    fn steps_are_undone_one_after_another() {
        let (one, two, three) = (tree(&[("a", "1")]), tree(&[("a", "2")]), tree(&[("a", "3")]));
        // The user changed the file between the two steps.
        let edited = tree(&[("a", "2 and mine")]);
        let steps = [
            UndoStep { before: edited.clone(), after: Some(three.clone()), kind: StepKind::Whole },
            UndoStep { before: one.clone(), after: Some(two.clone()), kind: StepKind::Whole },
        ];
        let plan = Plan::new(&steps, &three, false);
        assert_eq!(names(&plan.conflicts), ["a"]);
        assert_eq!(plan.result(&three), edited);
        let steps = [
            UndoStep { before: two.clone(), after: Some(three.clone()), kind: StepKind::Whole },
            UndoStep { before: one.clone(), after: Some(two), kind: StepKind::Whole },
        ];
        assert_eq!(Plan::new(&steps, &three, false).result(&three), one);
    }

    #[test]
    fn directories_with_other_content_stay() {
        let before = tree(&[]);
        let after = tree(&[("d", "/"), ("d/a", "1"), ("e", "/"), ("e/a", "1")]);
        let current =
            tree(&[("d", "/"), ("d/a", "1"), ("d/mine", "1"), ("e", "/"), ("e/a", "1"), ("e/target", "ignored")]);
        let plan = Plan::new(&[UndoStep { before, after: Some(after), kind: StepKind::Whole }], &current, false);
        assert_eq!(names(&plan.kept), ["e", "d"]);
        assert_eq!(actions(&plan).len(), 2);
    }

    #[test]
    fn nothing_is_created_below_a_file_of_somebody_else() {
        let before = tree(&[("d", "/"), ("d/a", "1")]);
        let current = tree(&[("d", "mine")]);
        let plan = Plan::new(&[UndoStep { before, after: Some(tree(&[])), kind: StepKind::Whole }], &current, false);
        assert_eq!((actions(&plan).len(), names(&plan.conflicts)), (0, vec!["d".to_owned(), "d/a".to_owned()]));
    }

    #[test]
    fn what_was_ignored_before_is_left_alone() {
        let before = tree(&[("target", "ignored"), (".gitignore", "target")]);
        let after = tree(&[("target", "/"), ("target/x", "1")]);
        let plan = Plan::new(&[UndoStep { before, after: Some(after.clone()), kind: StepKind::Whole }], &after, false);
        assert_eq!(actions(&plan), [(".gitignore".to_owned(), PathAction::Create)]);
    }

    #[test]
    fn changes_since_interrupted_work_are_conflicts() {
        let (before, current) = (tree(&[("a", "1")]), tree(&[("a", "2"), ("b", "1")]));
        let steps = [UndoStep { before: before.clone(), after: None, kind: StepKind::Interrupted }];
        let plan = Plan::new(&steps, &current, false);
        assert_eq!((plan.is_empty(), names(&plan.conflicts)), (true, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(Plan::new(&steps, &current, true).result(&current), before);
    }

    #[test]
    fn later_work_bounds_interrupted_work() {
        let (before, next) = (tree(&[("a", "1")]), tree(&[("a", "2")]));
        let current = tree(&[("a", "2"), ("mine", "1")]);
        let steps = [UndoStep { before: before.clone(), after: Some(next), kind: StepKind::Interrupted }];
        assert_eq!(names(&Plan::new(&steps, &current, false).conflicts), ["a"]);
        let forced = Plan::new(&steps, &current, true);
        assert_eq!(actions(&forced), [("a".to_owned(), PathAction::Change)]);
    }

    #[test]
    fn changes_of_others_between_two_steps_are_conflicts() {
        let (one, two) = (tree(&[("a", "1")]), tree(&[("a", "2")]));
        let edited = tree(&[("a", "mine"), ("mine", "1"), (".env", "ignored")]);
        let last = tree(&[("a", "3"), ("mine", "1")]);
        let steps = [
            UndoStep { before: edited.clone(), after: Some(last.clone()), kind: StepKind::Whole },
            UndoStep { before: two.clone(), after: Some(edited), kind: StepKind::Others },
            UndoStep { before: one.clone(), after: Some(two), kind: StepKind::Whole },
        ];
        let plan = Plan::new(&steps, &last, false);
        assert_eq!(names(&plan.conflicts), ["a", "mine"]);
        assert_eq!(plan.result(&last), tree(&[("a", "mine"), ("mine", "1")]));
        assert_eq!(Plan::new(&steps, &last, true).result(&last), one);
    }
}
