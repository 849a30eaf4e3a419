//! `marketplace.json`: the lists of plugins of Claude and Codex.

use crate::files::PackageFiles;
use crate::json::parse_strict;
use crate::layout::{AGENT_PLUGIN, VENDORS};
use crate::package::{PackageError, is_package_name};
use crate::source::checked_url;
use serde_json::{Map, Value};

/// Maximum entries.
const MAX_ENTRIES: usize = 5_000;

/// Members of an entry that a manifest may have, too, and that this program reads.
const MEMBERS: [&str; 2] = ["mcpServers", "hooks"];

/// A list of plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marketplace {
    /// Its name.
    pub name: String,
    /// Its usable entries.
    pub entries: Vec<MarketplaceEntry>,
    /// Entries that cannot be used, with the reason.
    pub notices: Vec<String>,
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarketplaceEntry {
    /// Name of the plugin.
    pub name: String,
    /// Version that the list states.
    pub version: Option<String>,
    /// Description in one line.
    pub description: String,
    /// The place of the plugin.
    pub source: MarketplaceSource,
    /// Members that a manifest may have, too: servers and hooks.
    members: Map<String, Value>,
}

impl MarketplaceEntry {
    /// Gives a plugin without a manifest one with the members of the entry. Returns a notice if the plugin has a manifest,
    /// which counts alone.
    ///
    /// # Errors
    /// The files have no place for a manifest.
    pub fn complete(&self, files: &mut PackageFiles) -> Result<Option<String>, PackageError> {
        if self.members.is_empty() {
            return Ok(None);
        }
        let manifests = std::iter::once(&AGENT_PLUGIN).chain(VENDORS);
        if let Some(manifest) = manifests.into_iter().find(|path| files.get(path).is_some()) {
            let names: Vec<&str> = self.members.keys().map(String::as_str).collect();
            let (names, entry) = (names.join(" and "), &self.name);
            return Ok(Some(format!("{names} of the entry `{entry}` are not used: the plugin has `{manifest}`")));
        }
        let mut manifest = self.members.clone();
        manifest.insert("name".to_owned(), self.name.clone().into());
        if let Some(version) = &self.version {
            manifest.insert("version".to_owned(), version.clone().into());
        }
        files.insert(VENDORS[0], Value::Object(manifest).to_string().into_bytes())?;
        Ok(None)
    }
}

/// The place of a plugin of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarketplaceSource {
    /// A directory of the marketplace itself, relative to its root.
    Directory(String),
    /// An archive, and the SHA-256 digest that the list states.
    Archive(String, Option<String>),
}

impl Marketplace {
    /// Places of the file in a directory, in order of precedence.
    pub const FILES: [&str; 3] =
        [".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json", "marketplace.json"];

    /// Parses a list. Entries that cannot be used are skipped with a notice.
    ///
    /// # Errors
    /// The file breaks its format, or two entries have one name.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let file = parse_strict(text)?;
        let name = file["name"].as_str().ok_or("`name` is missing")?.to_owned();
        let root = file["metadata"]["pluginRoot"].as_str().unwrap_or_default();
        let plugins = file["plugins"].as_array().ok_or("`plugins` is missing")?;
        if plugins.len() > MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} entries"));
        }
        let mut list = Self { name, entries: Vec::new(), notices: Vec::new() };
        for (at, entry) in plugins.iter().enumerate() {
            let label = entry["name"]
                .as_str()
                .map_or_else(|| format!("entry {at}"), |name| format!("`{}`", name.escape_debug()));
            match read_entry(entry, root) {
                Ok(entry) => list.entries.push(entry),
                Err(problem) => list.notices.push(format!("{label} is skipped: {problem}")),
            }
        }
        let mut names: Vec<String> = list.entries.iter().map(|entry| entry.name.to_ascii_lowercase()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("two entries are called `{}`", pair[0])),
            None => Ok(list),
        }
    }

    /// Returns the entry of this name.
    pub fn entry(&self, name: &str) -> Option<&MarketplaceEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

fn read_entry(entry: &Value, root: &str) -> Result<MarketplaceEntry, String> {
    let name = entry["name"].as_str().filter(|name| is_package_name(name)).ok_or("its name is not valid")?;
    if entry["policy"]["installation"] == "NOT_AVAILABLE" {
        return Err("it is not available".to_owned());
    }
    let line = |member: &str| entry[member].as_str().map(|text| text.lines().next().unwrap_or_default().to_owned());
    Ok(MarketplaceEntry {
        name: name.to_owned(),
        version: line("version"),
        description: line("description").unwrap_or_default(),
        source: read_source(&entry["source"], root)?,
        members: MEMBERS.iter().filter_map(|member| Some(((*member).to_owned(), entry.get(member)?.clone()))).collect(),
    })
}

fn read_source(source: &Value, root: &str) -> Result<MarketplaceSource, String> {
    let text = |member: &str| source[member].as_str();
    match (source.as_str(), text("source")) {
        (Some(path), _) => directory(root, path),
        (None, Some("local")) => directory("", text("path").ok_or("its path is missing")?),
        (None, Some("archive")) => {
            let url = checked_url(text("url").ok_or("its url is missing")?)?;
            let digest = text("sha256").map(|digest| digest.trim_start_matches("sha256:").to_ascii_lowercase());
            match &digest {
                Some(digest) if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                    Err("its sha256 is not a digest".to_owned())
                }
                _ => Ok(MarketplaceSource::Archive(url.to_string(), digest)),
            }
        }
        (None, Some(kind @ ("github" | "url" | "git-subdir" | "npm" | "command"))) => {
            Err(format!("sources of kind `{kind}` are not supported; name a directory or an archive"))
        }
        _ => Err("its source is not valid".to_owned()),
    }
}

/// Joins the path of an entry to the root of all entries, within the marketplace.
fn directory(root: &str, path: &str) -> Result<MarketplaceSource, String> {
    let joined = format!("{root}/{path}");
    let names: Vec<&str> = joined.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    if path.starts_with('/') || root.starts_with('/') || joined.contains('\\') || names.contains(&"..") {
        return Err("its path leads out of the marketplace".to_owned());
    }
    Ok(MarketplaceSource::Directory(names.join("/")))
}
