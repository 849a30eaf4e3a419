//! The content of a project: every file in `.pinion`, the files next to it that name programs to run, and the files
//! that MCP servers run.
//!
//! It is read within limits and without following links. The digest of each file is kept, and the text of the config.

use super::records::{Records, TrustRecord, TrustState, as_text, logged};
use crate::failure::{Failure, Result};
use crate::files::paths::{CONFIG, PROJECT_APPEND, PROJECT_PLUGINS, PROJECT_SERVERS, PROJECT_SYSTEM, Paths};
use crate::files::repository::{Links, Refusal, Repository, open_in};
use crate::mcp::written::programs_in;
use crate::output::line;
use cap_std::fs::Dir;
use pinion_plugin_runtime::Inspection;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

/// Directory of a project's content.
pub(super) const DIRECTORY: &str = ".pinion";
/// The files whose text takes effect.
pub(super) const TEXTS: [&str; 6] =
    [CONFIG, PROJECT_SYSTEM, PROJECT_APPEND, PROJECT_PLUGINS, PROJECT_SERVERS[0], PROJECT_SERVERS[1]];
/// Directory of a project's plugin files.
pub(super) const PLUGINS: &str = ".pinion/plugins/";
/// Written by this program and the user's agents, and only read as text.
const NOT_TRUSTED: &str = ".pinion/plans";
/// Files next to the directory that name programs to run.
const BESIDE: [&str; 1] = [".mcp.json"];

const MAX_TEXT_BYTES: u64 = 64 * 1024;
const MAX_BYTES: u64 = 256 * 1024 * 1024;
const MAX_FILES: usize = 1000;
const MAX_ENTRIES: usize = 10_000;
const MAX_DEPTH: usize = 8;
/// Characters of a digest in a list.
const DIGEST: usize = 16;

/// Everything in a project that could take effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectContent {
    files: BTreeMap<String, TrustItem>,
    /// The text of each of [`TEXTS`] at the time of its digest.
    texts: BTreeMap<String, String>,
    /// Files that are never used, with the reasons.
    refused: Vec<String>,
    /// The reason why reading stopped, if it did.
    unbounded: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TrustItem {
    /// BLAKE3 in hexadecimal.
    digest: String,
    bytes: u64,
}

impl ProjectContent {
    /// Reads everything in a project that could take effect.
    pub fn read(workspace: &Path) -> Self {
        let mut reading = ContentReader::default();
        if let Err(refusal) = reading.project(workspace) {
            reading.content.unbounded = Some(refusal.to_string());
        }
        reading.content
    }

    /// Records that the user trusts this content in `workspace`, and every later content of the plugin files in
    /// `developed`. If the config names the directory, the trust lasts as long as that.
    ///
    /// # Errors
    /// The record cannot be written, or the content exceeds a limit.
    pub fn trust(&self, workspace: &Path, paths: &Paths, is_wished: bool, developed: BTreeSet<String>) -> Result<()> {
        if let Some(problem) = &self.unbounded {
            return Err(Failure::failed(format!("cannot trust `{}`: {problem}", line(&workspace.to_string_lossy()))));
        }
        let state = if is_wished { TrustState::Config } else { TrustState::Trusted };
        self.record(workspace, paths, state, developed)
    }

    /// Returns the text of the config.
    pub fn config(&self) -> Option<&str> {
        self.text(CONFIG)
    }

    /// Returns the text of one of `TEXTS`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Returns the file of a plugin that the user develops, relative to the project: `name` is the name of the plugin, or
    /// the path of its file. The file need not exist yet.
    pub fn developed_file(&self, name: &str) -> Option<String> {
        let name = name.strip_prefix("./").unwrap_or(name);
        if let Some(place) = name.strip_prefix(PLUGINS) {
            let has_parents = Path::new(place).components().any(|part| !matches!(part, Component::Normal(_)));
            return (is_plugin_place(Path::new(place)) && !has_parents).then(|| name.to_owned());
        }
        let is_name = !name.is_empty() && !name.contains(['/', '\\']) && name != "." && name != "..";
        let own = format!("{PLUGINS}{name}/{name}.wasm");
        is_name.then(|| if self.files.contains_key(&own) { own } else { format!("{PLUGINS}{name}.wasm") })
    }

    /// Returns the plugin files, relative to the project.
    pub fn plugins(&self) -> impl Iterator<Item = &str> {
        let is_plugin = |path: &&str| path.strip_prefix(PLUGINS).is_some_and(|place| is_plugin_place(Path::new(place)));
        self.files.keys().map(String::as_str).filter(is_plugin)
    }

    /// Describes everything that trust puts into effect: each file with the lines that `about` adds, such as the
    /// requests of a plugin, then the files that are never used.
    pub fn describe(&self, about: impl Fn(&str, &str) -> Vec<String>) -> String {
        let mut text = String::new();
        for (path, item) in &self.files {
            let (digest, bytes) = (&item.digest[..DIGEST], crate::output::bytes(item.bytes));
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {}\n    digest {digest}, {bytes}", line(path));
            about(path, &item.digest).iter().for_each(|about| text.push_str(&format!("    {about}\n")));
        }
        for what in &self.refused {
            let _ = writeln!(text, "  never used: {what}");
        }
        text
    }

    /// Returns the description in a plugin file, without running it, if it still has this digest.
    ///
    /// # Errors
    /// It cannot be read, or is no plugin.
    pub fn plugin(workspace: &Path, path: &str, digest: &str) -> std::result::Result<Inspection, String> {
        let file = Repository::at(workspace)
            .map_err(Refusal::Io)
            .and_then(|project| project.open(Path::new(path), Links::Never))
            .map_err(|refusal| refusal.to_string())?
            .ok_or("it is gone")?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        match blake3::hash(&bytes).to_hex().as_str() == digest {
            true => Inspection::from_file(&bytes, Path::new(path)).map_err(|error| line(&error.to_string())),
            false => Err("it is being changed".to_owned()),
        }
    }

    /// Records that the user does not trust this content, so that they are not asked again before it changes.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn decline(&self, workspace: &Path, paths: &Paths) -> Result<()> {
        self.record(workspace, paths, TrustState::Declined, BTreeSet::new())
    }

    fn record(&self, workspace: &Path, paths: &Paths, state: TrustState, developed: BTreeSet<String>) -> Result<()> {
        let files = self.files.iter().map(|(path, item)| (path.clone(), item.digest.clone())).collect();
        let path = as_text(workspace)?.to_owned();
        let narrowing = self.config().filter(|_| state != TrustState::Declined).and_then(narrowing);
        let record = TrustRecord { path: path.clone(), state, files, narrowing, developed, refused_packages: None };
        Records::update(paths, |records| records.store_record(record))?;
        logged(paths, &path, if state == TrustState::Declined { "declined" } else { "trusted" });
        Ok(())
    }

    /// Returns the files that are never used, with the reasons.
    pub(super) fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Returns the reason why reading stopped, if it did.
    pub fn unbounded(&self) -> Option<&str> {
        self.unbounded.as_deref()
    }

    /// Returns the digest of a file, or an empty string if it does not exist.
    pub(super) fn digest(&self, path: &str) -> &str {
        self.files.get(path).map_or("", |item| &item.digest)
    }

    /// Returns the files with their digests.
    pub fn digests(&self) -> impl Iterator<Item = (&String, &String)> {
        self.files.iter().map(|(path, item)| (path, &item.digest))
    }

    /// Returns whether the project has no such content.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.refused.is_empty()
    }
}

/// Reads content within limits.
#[derive(Default)]
struct ContentReader {
    content: ProjectContent,
    entries: usize,
    bytes: u64,
}

impl ContentReader {
    fn project(&mut self, workspace: &Path) -> Result<(), Refusal> {
        let project = Repository::at(workspace).map_err(Refusal::Io)?;
        match project.directory(Path::new(DIRECTORY)) {
            Ok(Some(directory)) => self.directory(&directory, DIRECTORY, 1)?,
            Ok(None) => {}
            Err(refusal) => self.refuse(DIRECTORY, &refusal),
        }
        for path in BESIDE {
            match project.open(Path::new(path), Links::Never) {
                Ok(Some(file)) => self.file(path, file)?,
                Ok(None) => {}
                Err(refusal) => self.refuse(path, &refusal),
            }
        }
        self.programs(&project)
    }

    /// Reads the files that servers run. One of these may be a link, as in `node_modules/.bin`, in the project.
    fn programs(&mut self, project: &Repository) -> Result<(), Refusal> {
        let texts = PROJECT_SERVERS.iter().filter_map(|path| Some((*path, self.content.texts.get(*path)?)));
        let named: BTreeSet<PathBuf> = texts.flat_map(|(path, text)| programs_in(text, path, project.root())).collect();
        for path in named {
            let Some(name) = path.to_str().filter(|name| !self.content.files.contains_key(*name)) else { continue };
            match project.open(&path, Links::Inside) {
                Ok(Some(file)) => self.file(name, file)?,
                // It may come later, which is a change.
                Ok(None) => {}
                Err(refusal) => self.refuse(name, &refusal),
            }
        }
        Ok(())
    }

    fn directory(&mut self, directory: &Dir, path: &str, depth: usize) -> Result<(), Refusal> {
        if depth > MAX_DEPTH {
            return Err(Refusal::Io(io::Error::other(format!("`{}` is nested too deeply", line(path)))));
        }
        for entry in directory.entries().map_err(Refusal::Io)? {
            let entry = entry.map_err(Refusal::Io)?;
            self.entries += 1;
            if self.entries > MAX_ENTRIES || self.content.files.len() > MAX_FILES {
                return Err(Refusal::Io(io::Error::other(format!("`{DIRECTORY}` holds more than {MAX_FILES} files"))));
            }
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                self.refuse(&format!("{path}/{}", name.to_string_lossy()), &"its name is not UTF-8");
                continue;
            };
            let path = format!("{path}/{name}");
            if path == NOT_TRUSTED {
                continue;
            }
            self.entry(directory, name, &path, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, directory: &Dir, name: &str, path: &str, depth: usize) -> Result<(), Refusal> {
        let metadata = directory.symlink_metadata(name).map_err(Refusal::Io)?;
        if metadata.is_dir() {
            let below = directory.open_dir(name).map_err(Refusal::from)?;
            return self.directory(&below, path, depth + 1);
        }
        match open_in(directory, name) {
            Ok(file) => self.file(path, file),
            Err(refusal) => {
                self.refuse(path, &refusal);
                Ok(())
            }
        }
    }

    fn file(&mut self, path: &str, file: File) -> Result<(), Refusal> {
        let left = MAX_BYTES - self.bytes;
        let too_large = || Refusal::Io(io::Error::other(format!("`{DIRECTORY}` holds more than {MAX_BYTES} bytes")));
        let is_text = TEXTS.contains(&path);
        if !is_text && file.metadata().map_err(Refusal::Io)?.len() > left {
            return Err(too_large());
        }
        let item = match is_text {
            true => {
                let mut bytes = Vec::new();
                file.take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes).map_err(Refusal::Io)?;
                if bytes.len() as u64 > MAX_TEXT_BYTES {
                    self.refuse(path, &Refusal::TooLarge(MAX_TEXT_BYTES));
                    return Ok(());
                }
                let item = TrustItem { digest: blake3::hash(&bytes).to_hex().to_string(), bytes: bytes.len() as u64 };
                self.content.texts.insert(path.to_owned(), String::from_utf8_lossy(&bytes).into_owned());
                item
            }
            false => {
                let mut hasher = blake3::Hasher::new();
                hasher.update_reader(file.take(left.saturating_add(1))).map_err(Refusal::Io)?;
                TrustItem { digest: hasher.finalize().to_hex().to_string(), bytes: hasher.count() }
            }
        };
        if item.bytes > left {
            return Err(too_large());
        }
        self.bytes += item.bytes;
        self.content.files.insert(path.to_owned(), item);
        Ok(())
    }

    fn refuse(&mut self, path: &str, why: &dyn std::fmt::Display) {
        self.content.refused.push(format!("`{}`: {why}", line(path)));
    }
}

/// Returns the restrictions in a config: its exclusions, and the rules that deny or ask.
fn narrowing(config: &str) -> Option<String> {
    let config: toml::Table = config.parse().ok()?;
    let mut kept = toml::Table::new();
    kept.extend(config.get("exclude").map(|exclude| ("exclude".to_owned(), exclude.clone())));
    if let Some(toml::Value::Table(rules)) = config.get("permissions") {
        let mut rules = rules.clone();
        rules.retain(|key, _| matches!(key, "ask" | "deny"));
        kept.insert("permissions".to_owned(), toml::Value::Table(rules));
    }
    (!kept.is_empty()).then(|| kept.to_string())
}
/// Returns whether a path below the directory of plugins is one of a plugin: `NAME.wasm` or `NAME/NAME.wasm`.
pub(super) fn is_plugin_place(path: &Path) -> bool {
    let is_component = path.extension().is_some_and(|extension| extension == "wasm");
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    is_component && directory.is_none_or(|directory| Some(directory.as_os_str()) == path.file_stem())
}
