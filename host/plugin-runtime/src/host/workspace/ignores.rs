//! Which files a walk leaves out: ignore files, globs, types, hidden names.
//!
//! Ignore files are read from the handles of their folders, like everything else. Of two rules that match, the one in
//! the deeper folder wins, and `.ignore` wins over `.gitignore`, as in ripgrep. Unlike there, `.gitignore` counts
//! outside a repository too, and nothing above the granted folder is read.

use super::budget::{Budget, Share};
use super::patterns;
use crate::bindings::pinion::plugin::workspace::{WalkOptions, WorkspaceError};
use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// Longer ignore files are cut; no honest one is.
const MAX_IGNORE_FILE_BYTES: u64 = 128 * 1024;
/// Compiled rules of more bytes may take long to match.
const SLOW_BYTES: u64 = 256 * 1024;

/// What the options of a walk leave out, whatever the folder.
pub(super) struct Filter {
    globs: Option<Override>,
    types: Option<Types>,
    hidden: bool,
    ignore_files: bool,
}

impl Filter {
    pub(super) fn new(options: &WalkOptions) -> Result<Self, WorkspaceError> {
        Ok(Self {
            globs: globs(&options.globs)?,
            types: types(&options.types)?,
            hidden: options.hidden,
            ignore_files: options.ignore_files,
        })
    }

    pub(super) fn reads_ignore_files(&self) -> bool {
        self.ignore_files
    }

    /// What becomes of this entry? `path` is relative to the walk's root, `from_grant` to the granted folder.
    pub(super) fn verdict(&self, path: &Path, from_grant: &Path, is_folder: bool, rules: &Rules) -> Verdict {
        let by_glob = self.globs.as_ref().map_or(Match::None, |globs| globs.matched(path, is_folder).map(|_| ()));
        let by_type = self.types.as_ref().is_some_and(|types| types.matched(path, is_folder).is_ignore());
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let is_hidden = !self.hidden && name.starts_with(b".");
        let is_ignored = self.ignore_files && (name == b".git" || rules.ignore(from_grant, is_folder));
        if by_glob.is_ignore() || by_type || is_hidden || is_ignored {
            return Verdict::LeftOut;
        }
        // With plain globs, a folder that matches none of them is only a way to what does.
        let wants_match = self.globs.as_ref().is_some_and(|globs| globs.num_whitelists() > 0);
        if wants_match && !by_glob.is_whitelist() { Verdict::Walked } else { Verdict::Told }
    }
}

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is told, and walked when it is a folder.
    Told,
    /// It is a folder that is walked and not told.
    Walked,
    /// Neither.
    LeftOut,
}

fn globs(globs: &[String]) -> Result<Option<Override>, WorkspaceError> {
    if globs.is_empty() {
        return Ok(None);
    }
    patterns::check_globs(globs)?;
    let invalid = |error: ignore::Error| WorkspaceError::InvalidPattern(format!("glob: {error}"));
    let mut builder = OverrideBuilder::new("");
    for glob in globs {
        builder.add(glob).map_err(invalid)?;
    }
    builder.build().map(Some).map_err(invalid)
}

fn types(names: &[String]) -> Result<Option<Types>, WorkspaceError> {
    if names.is_empty() {
        return Ok(None);
    }
    patterns::check_types(names)?;
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    for name in names.iter().collect::<BTreeSet<_>>() {
        builder.select(name);
    }
    let invalid = |error: ignore::Error| WorkspaceError::InvalidPattern(format!("file type: {error}"));
    builder.build().map(Some).map_err(invalid)
}

/// The ignore files of a folder and of those above it.
#[derive(Default)]
pub(super) struct Rules {
    above: Option<Arc<Rules>>,
    ignore: Option<Gitignore>,
    gitignore: Option<Gitignore>,
    exclude: Option<Gitignore>,
    /// About what the rules here and above take.
    bytes: u64,
    /// The memory of those here.
    _share: Option<Share>,
}

/// Which ignore files a folder holds, as its listing tells.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Present {
    pub(super) ignore: bool,
    pub(super) gitignore: bool,
    pub(super) git: bool,
}

impl Present {
    pub(super) fn see(&mut self, name: &[u8]) {
        match name {
            b".ignore" => self.ignore = true,
            b".gitignore" => self.gitignore = true,
            b".git" => self.git = true,
            _ => {}
        }
    }

    pub(super) const ALL: Self = Self { ignore: true, gitignore: true, git: true };
}

impl Rules {
    /// The rules in a folder below the one of `above`. `from_grant` is its path from the granted folder. Rules that
    /// `budget` has no room for are left out.
    pub(super) fn below(
        above: &Arc<Self>,
        folder: &Dir,
        from_grant: &Path,
        present: Present,
        budget: &Arc<Budget>,
    ) -> Arc<Self> {
        let mut share = budget.share();
        let mut read =
            |is_there: bool, name: &str| is_there.then(|| rules_of(folder, name, from_grant, &mut share)).flatten();
        let (ignore, gitignore) = (read(present.ignore, ".ignore"), read(present.gitignore, ".gitignore"));
        let exclude = read(present.git, ".git/info/exclude");
        if ignore.is_none() && gitignore.is_none() && exclude.is_none() {
            return above.clone();
        }
        let bytes = above.bytes + share.bytes();
        Arc::new(Self { above: Some(above.clone()), ignore, gitignore, exclude, bytes, _share: Some(share) })
    }

    /// Returns whether comparing one path with these rules may take long.
    pub(super) fn are_slow(&self) -> bool {
        self.bytes > SLOW_BYTES
    }

    fn ignore(&self, path: &Path, is_folder: bool) -> bool {
        let kinds: [fn(&Self) -> Option<&Gitignore>; 3] =
            [|rules| rules.ignore.as_ref(), |rules| rules.gitignore.as_ref(), |rules| rules.exclude.as_ref()];
        for kind in kinds {
            match self.decide(path, is_folder, kind) {
                Match::None => {}
                decision => return decision.is_ignore(),
            }
        }
        false
    }

    fn decide(&self, path: &Path, is_folder: bool, kind: fn(&Self) -> Option<&Gitignore>) -> Match<()> {
        let mut rules = Some(self);
        while let Some(here) = rules {
            match kind(here).map_or(Match::None, |file| file.matched(path, is_folder).map(|_| ())) {
                Match::None => rules = here.above.as_deref(),
                decision => return decision,
            }
        }
        Match::None
    }
}

/// The rules in one file. Lines that make no sense are left out, as git does; so are lines that are too complex, and those
/// that there is no memory for.
fn rules_of(folder: &Dir, name: &str, from_grant: &Path, share: &mut Share) -> Option<Gitignore> {
    let file = super::walk::open_file(folder, Path::new(name)).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_IGNORE_FILE_BYTES).read_to_end(&mut text).ok()?;
    let mut builder = GitignoreBuilder::new(from_grant);
    for line in String::from_utf8_lossy(&text).lines().filter(|line| patterns::is_simple(line)) {
        if !share.grow(patterns::cost(line)) {
            break;
        }
        // A line that is no glob is reported by `add_line` and left out.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}
