//! The comparison after a program: decides which files stay and which are moved away.

use super::place::{DirectoryName, Reached, UnlockedDirectories, is_sample};
use super::state::PathState;
use super::{Fate, PathRecord, Protection, Reverted};
use crate::protected::{ProtectedKind, RepositoryPaths, own};
use pinion_git::config::{ConfigEntry, parse, plain, render};
use pinion_git::harmless_settings::is_harmless;
use pinion_git::{GitSettings, LookBudget, Named, RepositoryLayout, as_path, is_worktree};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Looks at files of new repositories.
const LOOKS: usize = 1_000_000;
/// The content of the file that leads a worktree to its repository.
const SHARED: &[u8] = b"../..";
/// Levels of directories around settings that may be copies, and in these; and their entries.
const MAX_LEVELS: usize = 16;
const MAX_COPIED: usize = 200;
/// The mode of a config that only has its harmless settings.
const MODE: u32 = 0o644;

/// Compares all protected paths, also in new repositories.
pub(super) fn judge(
    protection: &Protection,
    repositories: &[PathBuf],
    settings: &[PathBuf],
    removed: &Path,
    until: Option<SystemTime>,
) -> Vec<Reverted> {
    let trees: Vec<RepositoryLayout> =
        repositories.iter().filter_map(|directory| RepositoryLayout::at(directory)).collect();
    // A pointer may lead anywhere, and says nothing about where it leads.
    let found = trees.iter().filter(|tree| tree.pointer.is_none()).filter_map(|tree| tree.git.clone());
    let mut judge = ChangeJudge {
        protection,
        removed,
        until,
        repositories: protection.repositories.iter().cloned().chain(found).collect(),
        opened: UnlockedDirectories::default(),
        reverted: Vec::new(),
    };
    for (path, record) in &protection.records {
        judge.path(path, record);
    }
    judge.new_repositories(&trees);
    judge.new_settings(settings);
    judge.reverted
}

/// Returns whether two files, or two directories with all that is in them, have the same content. Links and large files have
/// not.
fn is_same(one: &Path, other: &Path, depth: usize) -> bool {
    let kind = |path: &Path| fs::symlink_metadata(path).map(|found| found.file_type()).ok();
    let (Some(of_one), Some(of_other)) = (kind(one), kind(other)) else { return false };
    if of_one.is_file() && of_other.is_file() {
        return pinion_git::read(one).is_some_and(|content| pinion_git::read(other) == Some(content));
    }
    if !of_one.is_dir() || !of_other.is_dir() || depth > MAX_LEVELS {
        return false;
    }
    let Ok(entries) = fs::read_dir(one) else { return false };
    entries.enumerate().all(|(number, entry)| {
        entry
            .is_ok_and(|entry| number < MAX_COPIED && is_same(&entry.path(), &other.join(entry.file_name()), depth + 1))
    })
}

struct ChangeJudge<'a> {
    protection: &'a Protection,
    removed: &'a Path,
    until: Option<SystemTime>,
    /// All repositories as they are now. Each is protected, or looked at here.
    repositories: BTreeSet<PathBuf>,
    opened: UnlockedDirectories,
    reverted: Vec<Reverted>,
}

impl<'a> ChangeJudge<'a> {
    /// Looks at repositories and trees that are new.
    fn new_repositories(&mut self, trees: &[RepositoryLayout]) {
        let mut look = LookBudget::new(LOOKS);
        let users = GitSettings::of_user(&self.protection.user, &mut look).ok();
        for tree in trees {
            let Some(git) = &tree.git else {
                tree.pointer.iter().for_each(|pointer| self.new_path(pointer, ProtectedKind::Pointer));
                continue;
            };
            let files = tree.files();
            let is_known = self.protection.repositories.contains(git) && self.protection.trees.contains_key(&files);
            for (path, kind) in own(git) {
                self.new_path(&path, kind);
            }
            tree.pointer.iter().for_each(|pointer| self.new_path(pointer, ProtectedKind::Pointer));
            if is_known {
                continue;
            }
            // The settings as they are by now.
            let part = RepositoryPaths::new(&self.protection.roots, &self.protection.user, users.as_ref());
            for named in part.named(git, &files, &mut look).unwrap_or_default() {
                let (path, kind) = match named {
                    Named::Hooks(path) => (path, ProtectedKind::Hooks),
                    Named::Other(path) => (path, ProtectedKind::Named),
                };
                if path.starts_with(&files) {
                    self.new_path(&path, kind);
                }
            }
        }
    }

    /// Looks at settings that were not there, unless they are copies of those at the top of a writable directory, as in a new
    /// worktree.
    fn new_settings(&mut self, settings: &[PathBuf]) {
        let known = &self.protection.settings;
        for path in settings.iter().filter(|path| !known.contains(*path)) {
            let around = path.ancestors().skip(1).filter_map(|around| path.strip_prefix(around).ok());
            let root = self.root(path);
            let is_copy = |rest: &Path| {
                root.map(|root| root.join(rest))
                    .is_some_and(|original| original != *path && is_same(path, &original, 0))
            };
            if !around.take(MAX_LEVELS).any(is_copy) {
                self.new_path(path, ProtectedKind::Any);
            }
        }
    }

    /// Judges a path that was not protected before, and so belongs to a new repository.
    fn new_path(&mut self, path: &Path, kind: ProtectedKind) {
        let records = &self.protection.records;
        // The content of a closed directory and the targets of links are judged with these.
        let is_judged = |around: &Path| {
            records.get(around).is_some_and(|record| match record.state {
                PathState::Link(_) => true,
                PathState::Other(_) => !record.is_free,
                _ => false,
            })
        };
        if !records.contains_key(path) && !path.ancestors().skip(1).any(is_judged) {
            self.path(path, &PathRecord { kind, is_free: false, state: PathState::Absent });
        }
    }

    /// Judges a path, after it has moved away links that are on the way.
    fn path(&mut self, path: &Path, record: &PathRecord) {
        // The content of a free file may be another one.
        let is_comparable =
            !record.is_free || matches!(record.state, PathState::Absent | PathState::Unseen | PathState::Link(_));
        let Some(root) = self.root(path) else { return };
        if is_comparable && record.state.is_still(path, root) || self.is_later(path) {
            return;
        }
        loop {
            match DirectoryName::reach(root, path, &mut self.opened) {
                Ok(Reached::Missing) => return self.missing(path, record),
                Ok(Reached::At(place)) => return self.found(&place, record),
                Ok(Reached::Link(link)) if self.is_later(link.path()) || !self.move_away(&link) => return,
                Ok(Reached::Link(_)) => {}
                Err(error) => return self.stays(path, error),
            }
        }
    }

    /// Returns the innermost writable directory around a path.
    fn root(&self, path: &Path) -> Option<&'a Path> {
        let roots = self.protection.roots.iter().filter(|root| path.starts_with(root));
        roots.max_by_key(|root| root.components().count()).map(PathBuf::as_path)
    }

    /// Returns whether something was created after the program had ended.
    fn is_later(&self, path: &Path) -> bool {
        let Some(until) = self.until else { return false };
        let Ok(found) = fs::symlink_metadata(path) else { return false };
        found.created().or_else(|_| found.modified()).is_ok_and(|created| created > until)
    }

    fn missing(&mut self, path: &Path, record: &PathRecord) {
        let place = |judge: &mut Self| DirectoryName::reach_new(judge.root(path)?, path, &mut judge.opened);
        let restored = match &record.state {
            PathState::Link(target) => place(self).map(|place| place.create_link(target)),
            // A worktree without it would be a separate repository.
            PathState::File { content: Some(content), mode, .. }
                if record.is_free && record.kind == ProtectedKind::Common =>
            {
                place(self).map(|place| place.create(content, *mode))
            }
            _ => None,
        };
        match restored {
            Some(Ok(())) => self.add(path, Fate::Restored(None)),
            Some(Err(error)) => self.stays(path, error),
            None => {}
        }
    }

    fn found(&mut self, place: &DirectoryName, record: &PathRecord) {
        let is_file = place.kind() == Some(FileType::RegularFile);
        let content = if is_file { place.read() } else { None };
        match &record.state {
            PathState::Absent => self.created(place, record.kind, None),
            PathState::Unseen => {}
            PathState::Link(target) => {
                if place.link().as_ref() == Some(target) {
                    return;
                }
                let moved = self.moved(place);
                self.put_back(place, moved, |place| place.create_link(target));
            }
            PathState::File { content: Some(before), .. } if content.as_ref() == Some(before) => {}
            PathState::File { content: Some(before), mode, .. } if record.is_free => {
                if self.may_be(place, record.kind, content.as_deref()) {
                    return;
                }
                if record.kind == ProtectedKind::Config || record.kind == ProtectedKind::Todo {
                    return self.created(place, record.kind, Some(before));
                }
                let moved = self.moved(place);
                self.put_back(place, moved, |place| place.create(before, *mode));
            }
            PathState::Other(_)
                if record.is_free && matches!(record.kind, ProtectedKind::Hooks | ProtectedKind::Directory) =>
            {
                self.created(place, record.kind, None);
            }
            PathState::Other(_) | PathState::File { content: None, .. } if record.is_free => {}
            // A mount kept it, until another program replaced it.
            PathState::File { content: Some(before), .. } if record.kind == ProtectedKind::Config && is_file => {
                self.created(place, ProtectedKind::Config, Some(before));
            }
            PathState::File { .. } | PathState::Other(_) => self.add(place.path(), Fate::Replaced),
        }
    }

    /// Judges a new entry at a path, where `before` was its content.
    fn created(&mut self, place: &DirectoryName, kind: ProtectedKind, before: Option<&[u8]>) {
        let content = || place.read();
        match kind {
            ProtectedKind::Config => self.config(place, before),
            ProtectedKind::Todo => self.todo(place, before),
            ProtectedKind::Hooks if place.kind() == Some(FileType::Directory) => self.hooks(place),
            ProtectedKind::Directory if place.kind() == Some(FileType::Directory) => {}
            _ if self.may_be(place, kind, content().as_deref()) => {}
            _ => {
                self.move_away(place);
            }
        }
    }

    /// Returns whether a new file or link may stay as it is.
    fn may_be(&self, place: &DirectoryName, kind: ProtectedKind, content: Option<&[u8]>) -> bool {
        match kind {
            ProtectedKind::Pointer => {
                let tree = place.path().parent().and_then(RepositoryLayout::at).filter(|tree| tree.pointer.is_some());
                // A file that leads nowhere can only lead to a repository that is created later.
                tree.is_some_and(|tree| tree.git.map_or(content.is_some(), |git| self.repositories.contains(&git)))
            }
            ProtectedKind::Common => {
                place.path().parent().is_some_and(is_worktree)
                    && content.is_some_and(|content| content.trim_ascii_end() == SHARED)
            }
            ProtectedKind::Strategy => content.is_some_and(is_strategy_of_git),
            ProtectedKind::Options => content.and_then(plain).is_some_and(|entries| {
                entries.iter().all(|entry| !entry.is("options", "strategy") || is_strategy_of_git(entry.text()))
            }),
            ProtectedKind::Named => content.is_some_and(|content| self.is_copy(place.path(), content)),
            _ => false,
        }
    }

    /// Returns whether a file in a working tree is the same as in another one with the same settings.
    fn is_copy(&self, path: &Path, content: &[u8]) -> bool {
        let trees = &self.protection.trees;
        let own =
            path.ancestors().skip(1).find_map(|around| RepositoryLayout::at(around).filter(|tree| tree.path == around));
        let Some((own, shared)) = own.and_then(|tree| Some((tree.files(), tree.shared().or(tree.git)?))) else {
            return false;
        };
        let Ok(name) = path.strip_prefix(&own) else { return false };
        trees.iter().filter(|(_, repository)| **repository == shared).any(|(tree, _)| {
            let record = self.protection.records.get(&tree.join(name));
            record.and_then(|record| record.state.content()) == Some(content)
        })
    }

    /// Leaves the settings of a config that are harmless, or were there before.
    fn config(&mut self, place: &DirectoryName, before: Option<&[u8]>) {
        let Some(content) = place.read() else {
            self.move_away(place);
            return;
        };
        let is_new = before.is_none();
        let before = before.map(parse).unwrap_or_default();
        let may_stay =
            |entry: &ConfigEntry| is_harmless(entry) || before.contains(entry) || self.is_own_tree(place.path(), entry);
        // Another text may mean something else to git than to this program.
        if plain(&content).is_some_and(|entries| entries.iter().all(may_stay)) {
            return;
        }
        let entries = parse(&content);
        let kept = render(entries.iter().filter(|entry| may_stay(entry)));
        self.reduce(place, &kept, is_new);
    }

    /// Returns whether a setting of a submodule's repository names its working tree, which leads back to it.
    fn is_own_tree(&self, config: &Path, entry: &ConfigEntry) -> bool {
        let Some(git) = config.parent().filter(|_| entry.is("core", "worktree")) else { return false };
        let tree = git.join(as_path(entry.text())).canonicalize().ok().and_then(|files| RepositoryLayout::at(&files));
        tree.and_then(|tree| tree.git).as_deref() == Some(git)
    }

    /// Leaves the commands of a rebase that run no program, or were there before.
    fn todo(&mut self, place: &DirectoryName, before: Option<&[u8]>) {
        let Some(content) = place.read() else {
            self.move_away(place);
            return;
        };
        let lines = |text: &[u8]| text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
        let known: BTreeSet<Vec<u8>> = before.map(lines).unwrap_or_default().into_iter().collect();
        let runs = |line: &[u8]| {
            let word = line.trim_ascii_start().split(u8::is_ascii_whitespace).next().unwrap_or_default();
            matches!(word, b"exec" | b"x")
        };
        let kept: Vec<Vec<u8>> =
            lines(&content).into_iter().filter(|line| !runs(line) || known.contains(line)).collect();
        let kept = kept.concat();
        if kept != content {
            self.reduce(place, &kept, before.is_none());
        }
    }

    /// Leaves the samples in a directory of hooks, and entries with separate records.
    fn hooks(&mut self, place: &DirectoryName) {
        let Ok(entries) = place.entries(&mut self.opened) else {
            // Nothing in it can be told apart.
            self.move_away(place);
            return;
        };
        let records = &self.protection.records;
        let may_stay = |entry: &DirectoryName| is_sample(entry.path()) || records.contains_key(entry.path());
        let (kept, unwanted): (Vec<_>, Vec<_>) = entries.into_iter().partition(may_stay);
        match (kept.is_empty(), unwanted.is_empty()) {
            (_, true) => {}
            (true, false) => {
                self.move_away(place);
            }
            (false, false) => unwanted.iter().for_each(|entry| {
                self.move_away(entry);
            }),
        }
    }

    /// Puts a part of a file in its place; moves a new file away if no part may stay.
    fn reduce(&mut self, place: &DirectoryName, kept: &[u8], is_new: bool) {
        if is_new && kept.is_empty() {
            self.move_away(place);
            return;
        }
        match self.moved(place) {
            Ok(moved) => match place.create(kept, MODE) {
                Ok(()) => self.add(place.path(), Fate::Reduced(moved)),
                Err(_) => self.add(place.path(), Fate::Moved(moved)),
            },
            Err(error) => self.stays(place.path(), error),
        }
    }

    fn put_back(
        &mut self,
        place: &DirectoryName,
        moved: Result<PathBuf, Errno>,
        create: impl Fn(&DirectoryName) -> Result<(), Errno>,
    ) {
        match moved {
            Ok(moved) => match create(place) {
                Ok(()) => self.add(place.path(), Fate::Restored(Some(moved))),
                Err(_) => self.add(place.path(), Fate::Moved(moved)),
            },
            Err(error) => self.stays(place.path(), error),
        }
    }

    /// Moves something away and reports it. Returns whether it is gone.
    fn move_away(&mut self, place: &DirectoryName) -> bool {
        match self.moved(place) {
            Ok(moved) => {
                self.add(place.path(), Fate::Moved(moved));
                true
            }
            Err(error) => {
                self.stays(place.path(), error);
                false
            }
        }
    }

    fn moved(&mut self, place: &DirectoryName) -> Result<PathBuf, Errno> {
        place.move_away(self.removed, &mut self.opened)
    }

    fn stays(&mut self, path: &Path, error: Errno) {
        self.add(path, Fate::Stays(std::io::Error::from(error).to_string()));
    }

    fn add(&mut self, path: &Path, fate: Fate) {
        self.reverted.push(Reverted { path: path.to_owned(), fate });
    }
}

/// Returns whether a merge strategy is one of those that come with git.
fn is_strategy_of_git(name: &[u8]) -> bool {
    const STRATEGIES: [&[u8]; 6] = [b"octopus", b"ort", b"ours", b"recursive", b"resolve", b"subtree"];
    STRATEGIES.contains(&name.trim_ascii_end())
}
