//! The ignore rules of a directory tree: `.gitignore` and `.git/info/exclude`.
//!
//! The user's global rules are not read, nor is `.ignore`, which people use to hide files from searches: this only
//! means that more is covered.

use crate::path::RelPath;
use crate::root::open_file;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, Glob};
use rustix::fd::OwnedFd;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names of files with rules. Later ones win.
pub(crate) const FILES: [&[u8]; 1] = [b".gitignore"];
/// Bytes of such a file that are read.
const MAX_BYTES: u64 = 256 * 1024;
/// Directories above the workspace that are searched for its repository.
const MAX_ABOVE: usize = 64;

/// The rules that apply in a directory: its own, and the rules of the directories above it.
#[derive(Debug, Default)]
pub(crate) struct DirectoryRules {
    above: Option<Arc<Self>>,
    matchers: Vec<Gitignore>,
    place: RulesRelation,
}

/// The relation of paths in the tree to the directory of the rules.
#[derive(Debug)]
enum RulesRelation {
    /// The directory is in the tree; its path and a separator have this length.
    Below(usize),
    /// The tree is at this path in the directory.
    Above(PathBuf),
}

impl Default for RulesRelation {
    fn default() -> Self {
        Self::Below(0)
    }
}

impl DirectoryRules {
    /// Reads the rules above the root of a tree, from the repository that contains it, and the rules of the repository
    /// itself. A repository that ignores the whole tree, as one of a home directory may, has no rules for it.
    pub(crate) fn above(root: &Path) -> Arc<Self> {
        let mut rules = Arc::new(Self::default());
        let Some(top) = root.ancestors().take(MAX_ABOVE).find(|path| path.join(".git").exists()) else { return rules };
        let exclude = top.join(".git/info/exclude");
        let inside = |directory: &Path| root.strip_prefix(directory).map(Path::to_owned).unwrap_or_default();
        rules = Self::with(rules, read(&exclude), RulesRelation::Above(inside(top)));
        let mut directories: Vec<&Path> = root.ancestors().skip(1).take_while(|path| path.starts_with(top)).collect();
        directories.reverse();
        for directory in directories {
            let texts = FILES.iter().filter_map(|name| read(&directory.join(std::str::from_utf8(name).ok()?)));
            rules = Self::with(rules, texts, RulesRelation::Above(inside(directory)));
        }
        match (0..inside(top).components().count()).any(|up| rules.ignores_root(up)) {
            true => Arc::default(),
            false => rules,
        }
    }

    /// Adds the rules in the files of a directory of the tree that have these names.
    pub(crate) fn add_directory(
        self: &Arc<Self>,
        directory: Option<&RelPath>,
        fd: &OwnedFd,
        names: &[&[u8]],
    ) -> Arc<Self> {
        let text = |name: &&[u8]| {
            let (file, _) = open_file(fd, name).ok()?;
            let mut bytes = Vec::new();
            file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let length = directory.map_or(0, |path| path.as_bytes().len() + 1);
        Self::with(self.clone(), names.iter().filter_map(text), RulesRelation::Below(length))
    }

    fn with(above: Arc<Self>, texts: impl IntoIterator<Item = String>, place: RulesRelation) -> Arc<Self> {
        let matcher = |text: String| {
            let mut builder = GitignoreBuilder::new("");
            for line in text.lines() {
                // An invalid line has no effect, as in git.
                let _ = builder.add_line(None, line);
            }
            builder.build().ok().filter(|matcher| !matcher.is_empty())
        };
        let matchers: Vec<Gitignore> = texts.into_iter().filter_map(matcher).collect();
        match matchers.is_empty() {
            true => above,
            false => Arc::new(Self { above: Some(above), matchers, place }),
        }
    }

    /// Returns whether rules above the tree ignore its root, or the directory this many levels above it.
    fn ignores_root(&self, up: usize) -> bool {
        self.decide(|matcher, place| match place {
            RulesRelation::Above(inside) => {
                match inside.ancestors().nth(up).filter(|path| !path.as_os_str().is_empty()) {
                    Some(path) => matcher.matched(path, true),
                    None => Match::None,
                }
            }
            RulesRelation::Below(_) => Match::None,
        })
    }

    pub(crate) fn ignore(&self, path: &RelPath, is_directory: bool) -> bool {
        self.decide(|matcher, place| match place {
            RulesRelation::Below(length) => matcher.matched(tail(path, *length), is_directory),
            RulesRelation::Above(inside) => matcher.matched(inside.join(path.as_path()), is_directory),
        })
    }

    /// Finds the last rule that matches.
    fn decide<'a>(&'a self, matched: impl Fn(&'a Gitignore, &'a RulesRelation) -> Match<&'a Glob>) -> bool {
        let mut rules = Some(self);
        while let Some(here) = rules {
            for matcher in here.matchers.iter().rev() {
                match matched(matcher, &here.place) {
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                    Match::None => {}
                }
            }
            rules = here.above.as_deref();
        }
        false
    }
}

fn tail(path: &RelPath, length: usize) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(path.as_bytes().get(length..).unwrap_or_default()))
}

fn read(path: &Path) -> Option<String> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    pinion_files::open::open_file(path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
