//! Indexes of packages: search, lookup, and newer versions.

use super::remote::{MAX_SMALL, get, get_optional};
use super::store_failure::{now, store_failure};
use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::{read_settings, replace};
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, json, left, note, print, text, written};
use pinion_files::open::{create_directory, read_limited};
use pinion_packages::{
    AuthorKey, IndexEntry, PackageIndex, compare_versions, is_on_this_machine, sha256_hex, verify_signature,
};
use serde::Deserialize;
use serde_json::json;
use std::path::{Path, PathBuf};

/// A configured index.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfiguredIndex {
    /// Address, or file on this machine.
    location: String,
    /// Public key that signs it.
    key: String,
}

/// The content of `plugin-indexes.toml`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct IndexList {
    index: Vec<ConfiguredIndex>,
}

/// An index, and its location in the config.
struct LocatedIndex {
    location: String,
    index: PackageIndex,
}

/// Reads all configured indexes, with one request for each and one for its signature.
///
/// # Errors
/// None is configured, or one cannot be used: the next one may not answer for its packages.
async fn indexes(base: &Base) -> Result<Vec<LocatedIndex>> {
    let mut indexes = Vec::new();
    for configured in configured_indexes(base)? {
        let index = read_index(base, &configured).await?;
        indexes.push(LocatedIndex { location: configured.location, index });
    }
    Ok(indexes)
}

/// Reads the indexes that can be used, and says why the others cannot.
///
/// # Errors
/// None can be used.
async fn usable_indexes(base: &Base) -> Result<Vec<PackageIndex>> {
    let (mut indexes, mut failures) = (Vec::new(), Vec::new());
    for configured in configured_indexes(base)? {
        match read_index(base, &configured).await {
            Ok(index) => {
                let location = &configured.location;
                index.left_out.iter().for_each(|problem| note(&text!("! `{}`: {}", location, problem)));
                indexes.push(index);
            }
            Err(failure) => failures.push(failure),
        }
    }
    if indexes.is_empty()
        && let Some(failure) = failures.pop()
    {
        return Err(failure);
    }
    failures.iter().for_each(|failure| note(&text!("! {}", failure.to_string())));
    Ok(indexes)
}

/// Returns the configured indexes.
///
/// # Errors
/// None is configured, or the list is invalid.
fn configured_indexes(base: &Base) -> Result<Vec<ConfiguredIndex>> {
    let hint = || format!("name one with `[[index]]`, `location` and `key` in {}", index_list(base).display());
    read_index_list(base)?.ok_or_else(|| Failure::usage("no index is configured").hint(hint()))
}

fn index_list(base: &Base) -> PathBuf {
    base.paths.config.join("plugin-indexes.toml")
}

fn read_index_list(base: &Base) -> Result<Option<Vec<ConfiguredIndex>>> {
    let path = index_list(base);
    let invalid = || Failure::usage(format!("invalid list of indexes `{}`", path.display()));
    let text = read_settings(&path).map_err(|error| invalid().because(error))?;
    let list = |text: String| toml::from_str::<IndexList>(&text).map(|list| list.index);
    text.map(list).transpose().map_err(|error| invalid().because(error.message().to_owned()))
}

async fn read_index(base: &Base, configured: &ConfiguredIndex) -> Result<PackageIndex> {
    let location = &configured.location;
    let failed = |error: String| Failure::failed(format!("the index `{location}` is not used")).because(error);
    let (content, signature) = match location.contains("://") {
        true => (get(location, None, Some(MAX_SMALL)).await?, get_optional(&format!("{location}.minisig")).await?),
        false => {
            let path = base.workspace.join(location);
            let signature = read_limited(Path::new(&format!("{}.minisig", path.display())), MAX_SMALL).ok();
            let content = read_limited(&path, MAX_SMALL).map_err(|error| failed(error.to_string()))?;
            (content, signature.and_then(|bytes| String::from_utf8(bytes).ok()))
        }
    };
    let key = AuthorKey::parse(&configured.key).map_err(failed)?;
    let signature = signature.ok_or_else(|| failed("it is not signed".to_owned()))?;
    verify_signature(&key, &content, &signature, ("index", "1"), now()).map_err(failed)?;
    // An index that is older than the one seen last may hide a newer release.
    let seen_file = seen_file(base, location);
    let seen = read_settings(&seen_file).ok().flatten().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let index = PackageIndex::parse(&content, seen, now()).map_err(failed)?;
    if index.generated > seen {
        let directory = seen_file.parent().unwrap_or(Path::new("."));
        let stored =
            create_directory(directory).and_then(|()| replace(&seen_file, index.generated.to_string().as_bytes()));
        stored.map_err(|error| failed(error.to_string()))?;
    }
    Ok(index)
}

fn seen_file(base: &Base, location: &str) -> PathBuf {
    base.paths.data.join("packages/indexes").join(sha256_hex(location.as_bytes()))
}

/// Finds a release in the indexes, in their order.
pub(super) async fn indexed(base: &Base, name: &str, version: Option<&str>) -> Result<IndexEntry> {
    let indexes = indexes(base).await?;
    let found = indexes.iter().find_map(|located| Some((&located.location, located.index.release(name, version)?)));
    let Some((location, entry)) = found else {
        return Err(Failure::failed(format!("no index has a package `{name}`")).hint("pinion plugin search"));
    };
    // A server elsewhere cannot make this machine ask its own servers.
    if location.contains("://") && is_on_this_machine(&entry.source) && !is_on_this_machine(location) {
        return Err(Failure::failed(format!(
            "the index `{location}` names a source on this machine: `{}`",
            entry.source
        ))
        .hint("only you can name such a source"));
    }
    Ok(entry.clone())
}

/// Prints the packages that match.
pub(super) async fn search(base: &Base, words: &str, as_json: bool) -> Result<()> {
    let indexes = usable_indexes(base).await?;
    let found: Vec<&IndexEntry> = indexes.iter().flat_map(|index| index.search(words)).collect();
    if as_json {
        let found: Vec<_> = found.iter().map(|entry| entry_json(entry)).collect();
        return written(json(&json!({ "packages": found })));
    }
    let mut text = Text::default();
    for entry in found {
        text.line(text!("{} {} {}", left(&entry.name, 24), left(&entry.version, 10), entry.description));
    }
    print(&text)
}

fn entry_json(entry: &IndexEntry) -> serde_json::Value {
    json!({
        "name": entry.name,
        "version": entry.version,
        "description": entry.description,
        "source": entry.source,
        "signer": entry.signer,
    })
}

/// Prints the installed packages that have a newer version in an index, and those that no index has: only their sources
/// know of newer versions, and asking each would cost a download.
pub(super) async fn outdated(base: &Base, as_json: bool) -> Result<()> {
    let lock = base.package_store()?.read().map_err(store_failure)?;
    let indexes = match read_index_list(base)? {
        Some(_) => usable_indexes(base).await?,
        None => Vec::new(),
    };
    let newest: Vec<_> = indexes.iter().map(PackageIndex::newest).collect();
    let (mut text, mut found, mut unknown) = (Text::default(), Vec::new(), Vec::new());
    for package in &lock.packages {
        let Some(active) = package.active_release() else { continue };
        match newest.iter().find_map(|newest| newest.get(package.name.as_str())) {
            Some(entry) if compare_versions(&entry.version, &active.version).is_gt() => {
                text.line(text!("{} {} -> {}", package.name, active.version, entry.version));
                found.push(json!({ "name": package.name, "installed": active.version, "newest": entry.version }));
            }
            Some(_) => {}
            None => unknown.push(package.name.as_str()),
        }
    }
    if as_json {
        return written(json(&json!({ "outdated": found, "not_indexed": unknown })));
    }
    if found.is_empty() && unknown.len() < lock.packages.len() {
        text.line(text!("every package of an index is up to date"));
    }
    if !unknown.is_empty() {
        text.line(text!("in no index: {} (ask their sources with: pinion plugin update)", unknown.join(" ")));
    }
    print(&text)
}
