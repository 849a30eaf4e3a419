//! Trust: which content of which project the user has agreed to.
//!
//! A project may bring a config and plugins of its own, in `.pinion`. They are inert until the user trusts the directory,
//! with `pinion trust add` or an entry of `trusted` in the user's config, and trust is of content: `trust.toml` in the
//! data directory records the digest of every file that could take effect. When anything differs from the record, all of
//! it is inert again, until the user agrees to what is there now. An entry of `trusted` is bound to the content of its
//! first use.
//!
//! - A record is for one directory, by its canonical path. One above or below it is another project, so that a
//!   repository cloned beneath a trusted directory gets nothing from it.
//! - What is used is what was checked: the config is read once, and plugin files are handed on with their digests.
//! - Links in `.pinion` are never followed; neither they nor pipes nor devices take effect, trusted or not.

mod content;
pub(crate) mod records;

pub(crate) use content::{CONFIG, Content};

use self::content::{FOLDER, PLUGINS};
use self::records::{Record, Records};
use crate::failure::{Failure, Result};
use crate::files::paths::Paths;
use crate::files::repository::Repository;
use crate::output::line;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Changes that a notice names.
const MAX_NAMED: usize = 3;

/// A project, and whether the user agreed to what it brings.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    workspace: PathBuf,
    /// The user's config names it.
    is_wished: bool,
    standing: Standing,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    /// It brings nothing, and nothing was ever agreed to.
    Nothing,
    /// It brings something, and the user never agreed.
    Untrusted,
    /// The user agreed to something else.
    Changed(Vec<String>),
    /// The user agreed, and that could not be kept, or its content cannot be bounded.
    Unusable(String),
    Trusted,
}

/// A plugin file of a trusted project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrustedPlugin {
    pub(crate) path: PathBuf,
    /// BLAKE3 of the content that the user agreed to, in hexadecimal.
    pub(crate) digest: String,
}

impl Project {
    /// Reads what a project brings and compares it with the record. `wished` are the entries of `trusted` in the user's
    /// config; one that is the workspace is bound to the content now.
    ///
    /// # Errors
    /// The record cannot be read, or an entry is not the path of a fixed directory.
    pub(crate) fn open(paths: &Paths, workspace: &Path, wished: &[PathBuf]) -> Result<Self> {
        let wished = wished.iter().map(|entry| fixed(entry, paths)).collect::<Result<Vec<PathBuf>>>()?;
        let is_wished = wished.iter().any(|entry| entry.canonicalize().is_ok_and(|entry| entry == workspace));
        let record = Records::read(paths)?.of(workspace);
        if record.is_none() && !is_wished {
            let standing = if brings_something(workspace) { Standing::Untrusted } else { Standing::Nothing };
            return Ok(Self { workspace: workspace.to_owned(), is_wished, standing, content: Content::default() });
        }
        let content = Content::read(workspace);
        let mut project = Self { workspace: workspace.to_owned(), is_wished, standing: Standing::Trusted, content };
        project.standing = match (project.content.unbounded(), record) {
            (Some(problem), _) => Standing::Unusable(problem.to_owned()),
            (None, Some(record)) => Standing::of(&record, &project.content, is_wished),
            (None, None) => match project.trust(paths) {
                Ok(()) => Standing::Trusted,
                Err(failure) => Standing::Unusable(failure.to_string()),
            },
        };
        Ok(project)
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.standing == Standing::Trusted
    }

    /// The user agreed to other content than there is now.
    pub(crate) fn is_changed(&self) -> bool {
        matches!(self.standing, Standing::Changed(_))
    }

    /// The project's config, when it is trusted.
    pub(crate) fn config(&self) -> Option<&str> {
        self.content.config().filter(|_| self.is_trusted())
    }

    /// The project's plugin files, when it is trusted, in the order of their names.
    pub(crate) fn plugins(&self) -> Vec<TrustedPlugin> {
        if !self.is_trusted() {
            return Vec::new();
        }
        let plugin = |path: &str| TrustedPlugin {
            path: self.workspace.join(path),
            digest: self.content.digest(path).to_owned(),
        };
        self.content.plugins().map(plugin).collect()
    }

    /// Why a component must not be loaded from `path`: the project is trusted, and this is not what the user agreed to.
    /// None for files elsewhere and for those of a project that is not trusted, which bring no grants.
    pub(crate) fn refuses(&self, path: &Path, digest: &str) -> Option<String> {
        let is_ours = self.is_trusted() && path.parent() == Some(&self.workspace.join(PLUGINS));
        let is_agreed = || self.plugins().iter().any(|plugin| plugin.path == path && plugin.digest == digest);
        (is_ours && !is_agreed()).then(|| {
            let name = line(&path.to_string_lossy());
            format!("`{name}` is not what you trusted\nhint: `pinion trust add` trusts what is there now")
        })
    }

    /// What the user should know of what the project brings.
    pub(crate) fn notices(&self) -> Vec<String> {
        let hint = "`pinion trust add` shows what it brings and trusts it";
        match &self.standing {
            Standing::Nothing => Vec::new(),
            Standing::Untrusted => {
                vec![format!("`.pinion` of this project is not used, because the directory is not trusted; {hint}")]
            }
            Standing::Changed(changes) => vec![format!(
                "`.pinion` of this project is not used, because it changed since it was trusted: {}; {hint}",
                named(changes)
            )],
            Standing::Unusable(problem) => vec![format!("`.pinion` of this project is not used: {problem}")],
            Standing::Trusted => self.content.refused().iter().map(|what| format!("not used: {what}")).collect(),
        }
    }

    /// What changed, a line for each file.
    pub(crate) fn changes(&self) -> &[String] {
        match &self.standing {
            Standing::Changed(changes) => changes,
            _ => &[],
        }
    }

    /// Records the content that was read as what the user agreed to.
    ///
    /// # Errors
    /// The record cannot be written, or the content has no bounds.
    pub(crate) fn trust(&self, paths: &Paths) -> Result<()> {
        self.content.trust(&self.workspace, paths, self.is_wished)
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }
}

impl Standing {
    /// Compares what the user agreed to with what is there now.
    fn of(record: &Record, content: &Content, is_wished: bool) -> Self {
        if !record.holds(is_wished) {
            return if content.is_empty() { Self::Nothing } else { Self::Untrusted };
        }
        let changes = record.changes(content);
        if changes.is_empty() { Self::Trusted } else { Self::Changed(changes) }
    }
}

/// An entry of `trusted`, which must name one directory whatever directory this program runs in.
pub(crate) fn fixed(entry: &Path, paths: &Paths) -> Result<PathBuf> {
    let refused = |why: &str| {
        Failure::usage(format!(
            "invalid config `{}`: `trusted` has `{}`, which {why}",
            paths.config_file().display(),
            line(&entry.to_string_lossy())
        ))
        .hint("write the absolute path of each directory, or use `pinion trust add`")
    };
    let path = match entry.strip_prefix("~") {
        Ok(below) => crate::files::paths::home().ok_or_else(|| refused("needs a home directory"))?.join(below),
        Err(_) => entry.to_owned(),
    };
    if !path.is_absolute() {
        return Err(refused("is not an absolute path"));
    }
    // `/proc/self/cwd` and `/dev/fd/3` are another directory for each process.
    let normal = crate::files::repository::normal(&path);
    match ["/proc", "/dev", "/sys"].iter().any(|special| normal.starts_with(special)) {
        true => Err(refused("is not the path of a fixed directory")),
        false => Ok(path),
    }
}

/// Says whether there is anything to trust, by names alone.
fn brings_something(workspace: &Path) -> bool {
    let Ok(project) = Repository::at(workspace) else { return false };
    let is_link = |path: &str| project.directory(Path::new(path)).is_err();
    [CONFIG, ".pinion/plugins"].iter().any(|path| project.has(Path::new(path))) || is_link(FOLDER)
}

fn named(changes: &[String]) -> String {
    let more = changes.len().saturating_sub(MAX_NAMED);
    let mut text = changes[..changes.len() - more].join(", ");
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}
