//! Catalogues on disk, so that tools are known before their server runs.
//!
//! One file per identity, of mode 0600, replaced atomically. A file that is damaged, of another version or of another
//! server is ignored: the next connection writes a new one. An entry that cannot be used does not affect the others. A
//! further file is replaced after each of them, so that one look shows whether any has changed.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pinion_files::AtomicWrite;
use pinion_files::open::{create_directory, open_unlinked};
use pinion_protocol::text::one_line;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Catalogue, CatalogueKind, Collector};
use crate::limits::{MAX_CATALOGUE, MAX_QUOTED};

/// Version of the format.
const VERSION: u32 = 1;
/// Name of the file that is replaced after each catalogue.
const REVISION: &str = "revision";
/// Maximum bytes of a file: definitions, escaped, and the rest.
const MAX_FILE: u64 = 2 * MAX_CATALOGUE as u64 + (256 << 10);

#[derive(Serialize, Deserialize)]
struct StoredCatalogue {
    version: u32,
    identity: String,
    protocol: String,
    software: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    has_resources: bool,
    #[serde(default)]
    is_deaf: bool,
    /// Each of the form of [`StoredEntry`].
    tools: Vec<Box<RawValue>>,
    prompts: Vec<Box<RawValue>>,
    /// Parts of the server's definitions that could not be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredEntry {
    name: String,
    definition: Box<RawValue>,
}

fn path(directory: &Path, identity: &str) -> Option<PathBuf> {
    file(directory, identity, "json")
}

/// Returns the file of a server with this extension.
pub(super) fn file(directory: &Path, identity: &str, extension: &str) -> Option<PathBuf> {
    let is_digest = identity.len() == 64 && identity.bytes().all(|c| c.is_ascii_hexdigit());
    is_digest.then(|| directory.join(format!("{identity}.{extension}")))
}

/// Returns a text that changes when a catalogue is replaced, for one `stat`.
pub(crate) fn state(directory: &Path) -> String {
    let Ok(metadata) = directory.join(REVISION).symlink_metadata() else { return String::new() };
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    format!("{:?} {} {inode}", metadata.modified().ok(), metadata.len())
}

/// Reads the catalogue of a server, if there is an intact one.
pub(crate) fn read(directory: &Path, identity: &str) -> Option<Catalogue> {
    let path = path(directory, identity)?;
    match load(&path, identity) {
        Ok(catalogue) => Some(catalogue),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!("ignored the cached catalogue `{}`: {error}", path.display());
            None
        }
    }
}

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_bytes(path, limit)?).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// Reads a regular file of at most `limit` bytes, which is not a link. Never blocks, as opening a pipe would.
pub(crate) fn read_bytes(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_unlinked(path, OpenOptions::new().read(true))?.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::other("it is too large")),
        false => Ok(bytes),
    }
}

fn load(path: &Path, identity: &str) -> io::Result<Catalogue> {
    let text = read_text(path, MAX_FILE)?;
    let stored: StoredCatalogue = serde_json::from_str(&text)?;
    if stored.version != VERSION || stored.identity != identity {
        return Err(io::Error::other("it is of another version or server"));
    }
    // The file is checked like the server was: someone may have changed it.
    let mut collector =
        Collector::new(&stored.protocol, &stored.software, stored.instructions.as_deref(), stored.has_resources);
    stored.problems.iter().for_each(|problem| collector.note(one_line(problem, MAX_QUOTED)));
    for (kind, entries) in [(CatalogueKind::Tool, &stored.tools), (CatalogueKind::Prompt, &stored.prompts)] {
        for entry in entries {
            match serde_json::from_str::<StoredEntry>(entry.get()) {
                Ok(entry) => {
                    collector.add_text(kind, &entry.name, entry.definition.get());
                }
                Err(_) => {
                    collector.note(format!("dropped a {} of the cached catalogue `{}`", kind.name(), path.display()))
                }
            }
        }
    }
    Ok(Catalogue { is_deaf: stored.is_deaf, ..collector.finish() })
}

/// Writes the catalogue of a server.
///
/// # Errors
/// The directory cannot be created or written.
pub(crate) fn write(directory: &Path, identity: &str, catalogue: &Catalogue) -> io::Result<()> {
    let path = path(directory, identity).ok_or_else(|| io::Error::other("the identity is not a digest"))?;
    let entries = |entries: &[super::CatalogueEntry]| {
        let entry = |entry: &super::CatalogueEntry| {
            let definition = RawValue::from_string(entry.definition.to_string())?;
            serde_json::value::to_raw_value(&StoredEntry { name: entry.name.clone(), definition })
        };
        entries.iter().map(entry).collect::<Result<Vec<_>, serde_json::Error>>()
    };
    let stored = StoredCatalogue {
        version: VERSION,
        identity: identity.to_owned(),
        protocol: catalogue.protocol.clone(),
        software: catalogue.software.clone(),
        instructions: catalogue.instructions.clone(),
        has_resources: catalogue.has_resources,
        is_deaf: catalogue.is_deaf,
        tools: entries(&catalogue.tools)?,
        prompts: entries(&catalogue.prompts)?,
        problems: catalogue.problems.clone(),
    };
    replace(directory, &path, &serde_json::to_vec(&stored)?)?;
    replace(directory, &directory.join(REVISION), &[])
}

/// Replaces a file of the directory, which is created if it is missing.
pub(crate) fn replace(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_directory(directory)?;
    AtomicWrite::private().prefix(".new").replace_through(directory, path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    const IDENTITY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn catalogue() -> Catalogue {
        let mut collector = Collector::new("2026-07-28", "demo 1.0", Some("Use it."), true);
        collector.add(CatalogueKind::Tool, "echo", &json!({"name": "echo", "inputSchema": {"type": "object"}}));
        collector.add(CatalogueKind::Prompt, "greet", &json!({"name": "greet"}));
        Catalogue { is_deaf: true, ..collector.finish() }
    }

    #[test]
    fn catalogue_survives_a_round_trip_in_a_private_file() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("mcp");
        write(&cache, IDENTITY, &catalogue()).unwrap();
        assert_eq!(read(&cache, IDENTITY), Some(catalogue()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&cache), 0o700);
            assert_eq!(mode(&path(&cache, IDENTITY).unwrap()), 0o600);
        }
    }

    #[test]
    fn damaged_cache_counts_as_none() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path();
        write(cache, IDENTITY, &catalogue()).unwrap();
        let file = path(cache, IDENTITY).unwrap();
        let intact = fs::read_to_string(&file).unwrap();
        let damaged = [
            String::new(),
            intact[..intact.len() / 2].to_owned(),
            intact.replace("\"version\":1", "\"version\":2"),
            intact.replace("\"identity\":\"0", "\"identity\":\"f"),
            intact.replace("Use it.", &"x".repeat(MAX_FILE as usize)),
            "[".repeat(100_000),
        ];
        for text in damaged {
            fs::write(&file, &text).unwrap();
            assert_eq!(read(cache, IDENTITY), None, "{}", &text[..text.len().min(200)]);
        }
        fs::write(&file, [0xff, 0xfe]).unwrap();
        assert_eq!(read(cache, IDENTITY), None);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(read(cache, IDENTITY), None);
    }

    #[test]
    fn damaged_entry_of_the_cache_costs_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path();
        write(cache, IDENTITY, &catalogue()).unwrap();
        let file = path(cache, IDENTITY).unwrap();
        let intact = fs::read_to_string(&file).unwrap();
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        for text in [
            intact.replace("\"name\":\"echo\",\"definition\"", "\"name\":\"ec\\u001bho\",\"definition\""),
            intact.replace("{\"type\":\"object\"}", &deep),
            intact.replace("\"name\":\"echo\",\"definition\"", "\"name\":7,\"definition\""),
            intact.replace("\"tools\":[", "\"tools\":[null,"),
        ] {
            assert_ne!(text, intact);
            fs::write(&file, &text).unwrap();
            let read = read(cache, IDENTITY).unwrap();
            assert_eq!((read.prompts, read.problems.len()), (catalogue().prompts, 1), "{text}");
        }
    }

    #[test]
    fn problems_of_the_catalogue_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let mut odd = catalogue();
        odd.problems = vec!["dropped tool `x`: y".to_owned()];
        write(directory.path(), IDENTITY, &odd).unwrap();
        assert_eq!(read(directory.path(), IDENTITY), Some(odd));
    }

    #[test]
    fn identities_that_are_no_digests_touch_no_file() {
        let directory = tempfile::tempdir().unwrap();
        for identity in ["", "../../etc/passwd", &"g".repeat(64)] {
            assert!(write(directory.path(), identity, &catalogue()).is_err());
            assert_eq!(read(directory.path(), identity), None);
        }
    }
}
