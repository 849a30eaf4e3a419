//! Static indexes of packages: one signed JSON file on a web server or on this machine.

use crate::json::parse_strict;
use crate::package::is_package_name;
use serde_json::Value;
use std::collections::HashMap;

/// Maximum entries.
const MAX_ENTRIES: usize = 20_000;

/// A list of releases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageIndex {
    /// Time of its last change, in seconds since 1970.
    pub generated: u64,
    /// Time from which on it no longer counts, in seconds since 1970.
    pub expires: Option<u64>,
    /// Its releases.
    pub entries: Vec<IndexEntry>,
    /// Reasons why other entries were left out.
    pub left_out: Vec<String>,
}

/// A release in an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// Name of the package.
    pub name: String,
    /// Version of the release.
    pub version: String,
    /// Description in one line.
    pub description: String,
    /// Source that it is installed from.
    pub source: String,
    /// SHA-256 digest of the file, archive or manifest there.
    pub sha256: String,
    /// Public key that signs it.
    pub signer: Option<String>,
    /// Time of its publication, in seconds since 1970.
    pub published: u64,
}

impl PackageIndex {
    /// Parses an index. An invalid entry is left out.
    ///
    /// # Errors
    /// It breaks its format, has expired, or is older than `seen`, the time of the one that was read last.
    pub fn parse(text: &[u8], seen: u64, now: u64) -> Result<Self, String> {
        let file = parse_strict(text)?;
        if file["version"] != 1 {
            return Err("it has an unknown version".to_owned());
        }
        let generated = file["generated"].as_u64().ok_or("`generated` is missing")?;
        if generated < seen {
            return Err("it is older than the one that was read before".to_owned());
        }
        let expires = file["expires"].as_u64();
        if expires.is_some_and(|end| end < now) {
            return Err("it has expired".to_owned());
        }
        let packages = file["packages"].as_array().ok_or("`packages` is missing")?;
        if packages.len() > MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} entries"));
        }
        let mut index = Self { generated, expires, ..Self::default() };
        for entry in packages {
            match read_entry(entry) {
                Ok(entry) => index.entries.push(entry),
                Err(problem) => index.left_out.push(problem),
            }
        }
        Ok(index)
    }

    /// Returns the releases whose name or description has all words of a text.
    pub fn search(&self, text: &str) -> Vec<&IndexEntry> {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        let has_all = |entry: &&IndexEntry| {
            let about = format!("{} {}", entry.name, entry.description).to_lowercase();
            words.iter().all(|word| about.contains(word))
        };
        let mut found: Vec<&IndexEntry> = self.entries.iter().filter(has_all).collect();
        found.sort_by(|one, other| {
            one.name.cmp(&other.name).then_with(|| compare_versions(&other.version, &one.version))
        });
        found.dedup_by(|later, first| later.name == first.name);
        found
    }

    /// Returns the newest release of each package.
    pub fn newest(&self) -> HashMap<&str, &IndexEntry> {
        let mut newest: HashMap<&str, &IndexEntry> = HashMap::new();
        for entry in &self.entries {
            let best = newest.entry(&entry.name).or_insert(entry);
            if compare_versions(&entry.version, &best.version).is_gt() {
                *best = entry;
            }
        }
        newest
    }

    /// Returns the release of a package with this version, or the newest one.
    pub fn release(&self, name: &str, version: Option<&str>) -> Option<&IndexEntry> {
        let named = self.entries.iter().filter(|entry| entry.name == name);
        let mut meant = named.filter(|entry| version.is_none_or(|version| entry.version == version));
        let first = meant.next()?;
        Some(meant.fold(
            first,
            |best, entry| if compare_versions(&entry.version, &best.version).is_gt() { entry } else { best },
        ))
    }
}

fn read_entry(entry: &Value) -> Result<IndexEntry, String> {
    let text = |member: &str| {
        let text = entry[member].as_str().filter(|text| text.len() <= 1024 && !text.contains(char::is_control));
        text.map(str::to_owned).ok_or_else(|| format!("`{member}` of an entry is missing or not a line of text"))
    };
    let name = text("name")?;
    if !is_package_name(&name) {
        return Err(format!("`{}` is not a valid name", name.escape_debug()));
    }
    let sha256 = text("sha256")?;
    if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) {
        return Err(format!("the digest of `{name}` is not one of SHA-256"));
    }
    Ok(IndexEntry {
        version: text("version")?,
        description: text("description").unwrap_or_default(),
        source: text("source")?,
        signer: entry.get("signer").map(|_| text("signer")).transpose()?,
        published: entry["published"].as_u64().ok_or_else(|| format!("`published` of `{name}` is missing"))?,
        name,
        sha256,
    })
}

/// Orders versions by their numbers, with or without a `v`; a version with a suffix such as `-rc.1` comes before the one
/// without. Numbers in suffixes are compared as numbers.
pub fn compare_versions(one: &str, other: &str) -> std::cmp::Ordering {
    /// A number, or a text, which comes after all numbers.
    type Part<'a> = (bool, u64, &'a str);
    fn part(text: &str) -> Part<'_> {
        match text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
            true => (false, text.parse().unwrap_or(u64::MAX), ""),
            false => (true, 0, text),
        }
    }
    let parts = |version: &'_ str| -> (Vec<u64>, bool, Vec<(bool, u64, String)>) {
        let version = version.trim_start_matches(['v', 'V']).split('+').next().unwrap_or_default();
        let (numbers, suffix) = version.split_once('-').unwrap_or((version, ""));
        let numbers = numbers.split('.').map(|number| part(number).1).collect();
        let owned = |(is_text, number, text): Part<'_>| (is_text, number, text.to_owned());
        (numbers, suffix.is_empty(), suffix.split('.').map(|text| owned(part(text))).collect())
    };
    parts(one).cmp(&parts(other))
}
