//! The files that a walk leaves out: ignore files, globs, types, hidden names.
//!
//! Ignore files are read through the handles of their directories. Of two rules that match, the one in the deeper directory
//! wins, and `.ignore` wins over `.gitignore`, as in ripgrep. Unlike there, `.gitignore` also applies outside a repository,
//! and nothing above the granted directory is read.

use super::budget::{ByteBudget, Reservation};
use super::patterns;
use crate::types::{WalkOptions, WorkspaceError};
use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// Bytes of one ignore file; the rest is ignored.
const MAX_IGNORE_FILE_BYTES: u64 = 128 * 1024;
/// Bytes of compiled rules that may make matching slow.
const SLOW_BYTES: u64 = 256 * 1024;

/// The filters from the options of a walk, which apply in every directory.
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

    /// Decides about an entry. `path` is relative to the walk's root, `from_grant` to the granted directory.
    pub(super) fn verdict(
        &self,
        path: &Path,
        from_grant: &Path,
        is_directory: bool,
        rules: &IgnoreFiles,
    ) -> IgnoreVerdict {
        let by_glob = self.globs.as_ref().map_or(Match::None, |globs| globs.matched(path, is_directory).map(|_| ()));
        let by_type = self.types.as_ref().is_some_and(|types| types.matched(path, is_directory).is_ignore());
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let is_hidden = !self.hidden && name.starts_with(b".");
        let is_ignored = self.ignore_files && (name == b".git" || rules.ignore(from_grant, is_directory));
        if by_glob.is_ignore() || by_type || is_hidden || is_ignored {
            return IgnoreVerdict::Excluded;
        }
        // With plain globs, a directory without a match is only descended into.
        let wants_match = self.globs.as_ref().is_some_and(|globs| globs.num_whitelists() > 0);
        if wants_match && !by_glob.is_whitelist() { IgnoreVerdict::Descended } else { IgnoreVerdict::Included }
    }
}

/// The decision about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IgnoreVerdict {
    /// The entry is listed, and descended into if it is a directory.
    Included,
    /// The entry is a directory that is descended into but not listed.
    Descended,
    /// The entry is skipped.
    Excluded,
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

/// The ignore files of a directory and of those above it.
#[derive(Default)]
pub(super) struct IgnoreFiles {
    above: Option<Arc<IgnoreFiles>>,
    ignore: Option<Gitignore>,
    gitignore: Option<Gitignore>,
    exclude: Option<Gitignore>,
    /// Approximate bytes of the rules here and above.
    bytes: u64,
    /// The memory of the rules here.
    _reservation: Option<Reservation>,
}

/// The ignore files in a directory, according to its listing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Present {
    pub(super) ignore: bool,
    pub(super) gitignore: bool,
    pub(super) git: bool,
}

impl Present {
    /// Notes the name of an entry.
    pub(super) fn note(&mut self, name: &[u8]) {
        match name {
            b".ignore" => self.ignore = true,
            b".gitignore" => self.gitignore = true,
            b".git" => self.git = true,
            _ => {}
        }
    }

    pub(super) const ALL: Self = Self { ignore: true, gitignore: true, git: true };
}

impl IgnoreFiles {
    /// Reads the rules in a directory below the one of `above`. `from_grant` is its path from the granted directory. Rules
    /// that exceed `budget` are left out.
    pub(super) fn below(
        above: &Arc<Self>,
        directory: &Dir,
        from_grant: &Path,
        present: Present,
        budget: &Arc<ByteBudget>,
    ) -> Arc<Self> {
        let mut reservation = budget.reservation();
        let mut read = |is_there: bool, name: &str| {
            is_there.then(|| rules_of(directory, name, from_grant, &mut reservation)).flatten()
        };
        let (ignore, gitignore) = (read(present.ignore, ".ignore"), read(present.gitignore, ".gitignore"));
        let exclude = read(present.git, ".git/info/exclude");
        if ignore.is_none() && gitignore.is_none() && exclude.is_none() {
            return above.clone();
        }
        let bytes = above.bytes + reservation.bytes();
        Arc::new(Self {
            above: Some(above.clone()),
            ignore,
            gitignore,
            exclude,
            bytes,
            _reservation: Some(reservation),
        })
    }

    /// Returns whether matching one path may be slow.
    pub(super) fn are_slow(&self) -> bool {
        self.bytes > SLOW_BYTES
    }

    fn ignore(&self, path: &Path, is_directory: bool) -> bool {
        let kinds: [fn(&Self) -> Option<&Gitignore>; 3] =
            [|rules| rules.ignore.as_ref(), |rules| rules.gitignore.as_ref(), |rules| rules.exclude.as_ref()];
        for kind in kinds {
            match self.decide(path, is_directory, kind) {
                Match::None => {}
                decision => return decision.is_ignore(),
            }
        }
        false
    }

    fn decide(&self, path: &Path, is_directory: bool, kind: fn(&Self) -> Option<&Gitignore>) -> Match<()> {
        let mut rules = Some(self);
        while let Some(here) = rules {
            match kind(here).map_or(Match::None, |file| file.matched(path, is_directory).map(|_| ())) {
                Match::None => rules = here.above.as_deref(),
                decision => return decision,
            }
        }
        Match::None
    }
}

/// Reads the rules in one file. Invalid lines are left out, as by git; so are lines that are too complex, and lines
/// that memory has no room for.
fn rules_of(directory: &Dir, name: &str, from_grant: &Path, reservation: &mut Reservation) -> Option<Gitignore> {
    let file = crate::open::open_file(directory, Path::new(name)).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_IGNORE_FILE_BYTES).read_to_end(&mut text).ok()?;
    let mut builder = GitignoreBuilder::new(from_grant);
    for line in String::from_utf8_lossy(&text).lines().filter(|line| patterns::is_simple(line)) {
        if !reservation.grow(patterns::cost(line)) {
            break;
        }
        // `add_line` reports a line that is not a valid glob, and leaves it out.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}
