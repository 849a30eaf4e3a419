//! Trust of users in the content of projects.
//!
//! A project may bring a config and plugins in `.pinion`. They have no effect until the user trusts the directory, with
//! `pinion trust add` or an entry of `trusted` in the user's config. Trust is in content: `trust.toml` in the data
//! directory records the digest of every file that could take effect. If anything differs from the record, all of it
//! stays without effect until the user trusts the new content. Only the restrictions of the trusted config still hold:
//! its exclusions, and rules that deny or ask. An entry of `trusted` is bound to the content at its first use.
//!
//! - A record applies to one directory, by its canonical path. Directories above and below it are other projects, so a
//!   repository cloned inside a trusted directory gains nothing.
//! - Only checked content is used: the config is read once, and plugin files are passed on with their digests.
//! - The user may develop plugins of a project (`pinion trust add --develop NAME`): then changes of exactly these files
//!   keep the trust.
//! - Links in `.pinion` are never followed. Links, pipes and devices have no effect, trusted or not.

mod content;
pub mod records;

pub use content::ProjectContent;

use self::content::{DIRECTORY, PLUGINS, TEXTS, is_plugin_place};
use self::records::{Records, TrustRecord};
use crate::failure::{Failure, Result};
use crate::files::paths::{CONFIG, PROJECT_PLUGINS, Paths};
use crate::files::repository::Repository;
use crate::output::line;
use pinion_files::{AtomicWrite, Durability};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Maximum number of changes in a notice.
const MAX_NAMED: usize = 3;

/// A project, and whether the user trusts its content.
#[derive(Debug, Clone)]
pub struct Project {
    workspace: PathBuf,
    /// True if the user's config names it.
    is_wished: bool,
    standing: TrustStanding,
    content: ProjectContent,
    /// The restrictions of the config that the user trusts, which outlive a change of it.
    narrowing: Option<String>,
    /// Plugin files whose later content the user trusts.
    developed: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TrustStanding {
    /// It has no content, and was never trusted.
    Nothing,
    /// It has content that was never trusted.
    Untrusted,
    /// Its content differs from the trusted content.
    Changed(Vec<String>),
    /// Trust could not be recorded, or the content exceeds a limit.
    Unusable(String),
    Trusted,
}

/// A plugin file of a trusted project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedPlugin {
    /// Path of the file, relative to the workspace.
    pub path: PathBuf,
    /// BLAKE3 of the trusted content, in hexadecimal.
    pub digest: String,
}

impl Project {
    /// Reads the content of a project and compares it with the record. `wished` are the entries of `trusted` in the
    /// user's config; if one is the workspace, the current content is recorded.
    ///
    /// # Errors
    /// The record cannot be read, or an entry is not the path of a fixed directory.
    pub fn open(paths: &Paths, workspace: &Path, wished: &[PathBuf]) -> Result<Self> {
        let wished = wished.iter().map(|entry| fixed(entry, paths)).collect::<Result<Vec<PathBuf>>>()?;
        let is_wished = wished.iter().any(|entry| entry.canonicalize().is_ok_and(|entry| entry == workspace));
        let record = Records::read(paths)?.find_record(workspace);
        if record.is_none() && !is_wished {
            let standing = if brings_something(workspace) { TrustStanding::Untrusted } else { TrustStanding::Nothing };
            let (workspace, content) = (workspace.to_owned(), ProjectContent::default());
            return Ok(Self { workspace, is_wished, standing, content, narrowing: None, developed: BTreeSet::new() });
        }
        let content = ProjectContent::read(workspace);
        let holding = record.as_ref().filter(|record| record.holds(is_wished));
        let narrowing = holding.and_then(|record| record.narrowing.clone());
        let developed = holding.map(|record| record.developed.clone()).unwrap_or_default();
        let (workspace, standing) = (workspace.to_owned(), TrustStanding::Trusted);
        let mut project = Self { workspace, is_wished, standing, content, narrowing, developed };
        project.standing = match (project.content.unbounded(), record) {
            (Some(problem), _) => TrustStanding::Unusable(problem.to_owned()),
            (None, Some(record)) => TrustStanding::compare_content(&record, &project.content, is_wished),
            (None, None) => match project.trust(paths) {
                Ok(()) => TrustStanding::Trusted,
                Err(failure) => TrustStanding::Unusable(failure.to_string()),
            },
        };
        Ok(project)
    }

    /// Returns whether the user trusts the project's content as it is.
    pub fn is_trusted(&self) -> bool {
        self.standing == TrustStanding::Trusted
    }

    /// Returns whether there is content that the user does not trust in any version.
    pub fn is_untrusted(&self) -> bool {
        self.standing == TrustStanding::Untrusted
    }

    /// Returns whether the content differs from the trusted content.
    pub fn is_changed(&self) -> bool {
        matches!(self.standing, TrustStanding::Changed(_))
    }

    /// Returns the config of a trusted project; if its content has changed or cannot be used, the restrictions of the trusted one.
    pub fn config(&self) -> Option<&str> {
        if self.is_trusted() { self.text(CONFIG) } else { self.narrowing.as_deref() }
    }

    /// Returns the text of a file of a trusted project: its config or a part of the system prompt.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.content.text(path).filter(|_| self.is_trusted())
    }

    /// Returns the plugin files of a trusted project, sorted by name.
    pub fn plugins(&self) -> Vec<TrustedPlugin> {
        if !self.is_trusted() {
            return Vec::new();
        }
        let plugin = |path: &str| TrustedPlugin {
            path: self.workspace.join(path),
            digest: self.content.digest(path).to_owned(),
        };
        self.content.plugins().map(plugin).collect()
    }

    /// Returns the reason why a component must not be loaded from `path`, if it belongs to this trusted project and
    /// differs from the trusted content. Other files are not its concern, and untrusted projects bring no grants.
    pub fn refuses(&self, path: &Path, digest: &str) -> Option<String> {
        let place = path.strip_prefix(self.workspace.join(PLUGINS)).ok();
        let is_ours = self.is_trusted() && place.is_some_and(is_plugin_place);
        let is_developed = || self.developed.iter().any(|developed| self.workspace.join(developed) == path);
        let is_trusted = || self.plugins().iter().any(|plugin| plugin.path == path && plugin.digest == digest);
        let is_agreed = || is_developed() || is_trusted();
        (is_ours && !is_agreed()).then(|| {
            let name = line(&path.to_string_lossy());
            format!("`{name}` changed since you trusted it\nhint: `pinion trust add` trusts the current content")
        })
    }

    /// Like [`Project::refuses`], with the content that the user trusts by now: a change may have been trusted since the start,
    /// in another terminal.
    pub fn refuses_now(&self, paths: &Paths, path: &Path, digest: &str) -> Option<String> {
        let refused = self.refuses(path, digest)?;
        let content = ProjectContent::read(&self.workspace);
        let record = Records::read(paths).ok().and_then(|records| records.find_record(&self.workspace));
        let is_agreed = |record: &TrustRecord| {
            TrustStanding::compare_content(record, &content, self.is_wished) == TrustStanding::Trusted
        };
        let Some(record) = record.filter(|record| content.unbounded().is_none() && is_agreed(record)) else {
            return Some(refused);
        };
        Self { content, developed: record.developed, ..self.clone() }.refuses(path, digest)
    }

    /// Returns notices about the project's content.
    pub fn notices(&self) -> Vec<String> {
        let hint = "`pinion trust add` shows what it brings and trusts it";
        match &self.standing {
            TrustStanding::Nothing => Vec::new(),
            TrustStanding::Untrusted => {
                let what = if self.has_only_servers() { "`.mcp.json`" } else { "`.pinion`" };
                vec![format!("{what} of this project is not used, because the directory is not trusted ({hint})")]
            }
            TrustStanding::Changed(changes) => vec![format!(
                "`.pinion` of this project is not used, except for its exclusions and denials, because it changed since it was trusted: \
                 {} ({hint})",
                named(changes)
            )],
            TrustStanding::Unusable(problem) => vec![format!("`.pinion` of this project is not used: {problem}")],
            TrustStanding::Trusted => self.content.refused().iter().map(|what| format!("not used: {what}")).collect(),
        }
    }

    /// Returns whether the project brings MCP servers and nothing in `.pinion`.
    fn has_only_servers(&self) -> bool {
        Repository::at(&self.workspace).is_ok_and(|project| !project.has(Path::new(DIRECTORY)))
    }

    /// Returns the changes since the content was trusted, one line for each file.
    pub fn changes(&self) -> &[String] {
        match &self.standing {
            TrustStanding::Changed(changes) => changes,
            _ => &[],
        }
    }

    /// Returns the plugin files whose later content the user trusts, relative to the project.
    pub fn developed(&self) -> &BTreeSet<String> {
        &self.developed
    }

    /// Records that the user trusts the content that was read. Plugins that the user develops remain so.
    ///
    /// # Errors
    /// The record cannot be written, or the content exceeds a limit.
    pub fn trust(&self, paths: &Paths) -> Result<()> {
        self.content.trust(&self.workspace, paths, self.is_wished, self.developed.clone())
    }

    /// Returns whether the user refused to install the packages that the project names now.
    pub fn has_refused_packages(&self, paths: &Paths) -> bool {
        let record = Records::read(paths).ok().and_then(|records| records.find_record(&self.workspace));
        record.and_then(|record| record.refused_packages).is_some_and(|it| it == self.content.digest(PROJECT_PLUGINS))
    }

    /// Remembers that the user refused to install the packages that the project names now, so that a later start does
    /// not ask again.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn refuse_packages(&self, paths: &Paths) -> Result<()> {
        Records::refuse_packages(paths, &self.workspace, self.content.digest(PROJECT_PLUGINS))
    }

    /// Trusts the changed file of a trusted project, because the user has just changed it with a command. Anything else
    /// that changed since `before` still needs consent.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(crate) fn keep_trust(&self, paths: &Paths, path: &Path, before: &ProjectContent) -> Result<()> {
        let after = ProjectContent::read(&self.workspace);
        let changed = path.strip_prefix(&self.workspace).ok().and_then(Path::to_str).unwrap_or_default();
        let others = |content: &ProjectContent| -> Vec<(String, String)> {
            let digests = content.digests().filter(|(path, _)| *path != changed);
            digests.map(|(path, digest)| (path.clone(), digest.clone())).collect()
        };
        let is_same = self.is_trusted() && others(before) == others(&after) && *before == self.content;
        match is_same {
            true => after.trust(&self.workspace, paths, self.is_wished, self.developed.clone()),
            false => Ok(()),
        }
    }

    /// Returns whether the user's config names the directory.
    pub fn is_wished(&self) -> bool {
        self.is_wished
    }

    /// Returns the content that trust is about.
    pub fn content(&self) -> &ProjectContent {
        &self.content
    }
}

impl TrustStanding {
    /// Compares the record with the current content.
    fn compare_content(record: &TrustRecord, content: &ProjectContent, is_wished: bool) -> Self {
        if !record.holds(is_wished) {
            return if content.is_empty() { Self::Nothing } else { Self::Untrusted };
        }
        let changes = record.changes(content);
        if changes.is_empty() { Self::Trusted } else { Self::Changed(changes) }
    }
}

/// Resolves an entry of `trusted`, which must name the same directory in every current directory.
pub fn fixed(entry: &Path, paths: &Paths) -> Result<PathBuf> {
    let refused = |why: &str| {
        Failure::usage(format!(
            "invalid config `{}`: `trusted` has `{}`, which {why}",
            paths.config_file().display(),
            line(&entry.to_string_lossy())
        ))
        .hint("use absolute paths, or `pinion trust add`")
    };
    let path = match entry.strip_prefix("~") {
        Ok(below) => crate::files::paths::home().ok_or_else(|| refused("needs a home directory"))?.join(below),
        Err(_) => entry.to_owned(),
    };
    if !path.is_absolute() {
        return Err(refused("is not an absolute path"));
    }
    // `/proc/self/cwd` and `/dev/fd/3` are different directories in each process.
    let normal = pinion_files::normalize_lexically(&path);
    match ["/proc", "/dev", "/sys"].iter().any(|special| normal.starts_with(special)) {
        true => Err(refused("is not the path of a fixed directory")),
        false => Ok(path),
    }
}

/// Returns whether there is anything to trust, judging by names alone.
fn brings_something(workspace: &Path) -> bool {
    let Ok(project) = Repository::at(workspace) else { return false };
    let is_link = |path: &str| project.directory(Path::new(path)).is_err();
    TEXTS.into_iter().chain([".pinion/plugins"]).any(|path| project.has(Path::new(path))) || is_link(DIRECTORY)
}

fn named(changes: &[String]) -> String {
    let more = changes.len().saturating_sub(MAX_NAMED);
    let mut text = changes[..changes.len() - more].join(", ");
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

/// Replaces a file of a project in one step, with the permissions of files that are shared.
pub(crate) fn replace_shared(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    AtomicWrite::keeping_mode_or(0o644).durability(Durability::Content).replace(path, bytes)
}
