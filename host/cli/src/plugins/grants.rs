//! `grants.toml`: grants that are bound to plugin files.
//!
//! A [`Pin`] binds grants to one component: its source, its path, the digest of its bytes, and what it asked for and
//! declared at that time. The file is private, and is replaced as a whole under a lock.

use crate::files::private::{check, create_directory, lock, open_file};
use pinion_plugin_runtime::{Ceiling, FileOrigin, GrantTable};
use serde::{Deserialize, Serialize};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Version of the format.
const VERSION: u32 = 1;
/// Maximum size in bytes, above any legitimate one.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The grants of one component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Pin {
    /// Name in its manifest.
    pub(crate) name: String,
    pub(crate) source: FileOrigin,
    /// Absolute path, whose directory contains no links.
    pub(crate) path: PathBuf,
    /// BLAKE3 in hexadecimal.
    pub(crate) digest: String,
    /// True if the grants of `[plugins.NAME.grants]` in the user's config apply to it.
    pub(crate) config: bool,
    /// Grants in addition to those of the config.
    #[serde(default)]
    pub(crate) grants: GrantTable,
    /// Its requests and declarations at the time of the grants.
    #[serde(default)]
    pub(crate) granted_for: Ceiling,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    #[serde(default)]
    component: Vec<Pin>,
}

/// Handle to `grants.toml`.
#[derive(Debug, Clone)]
pub(crate) struct GrantsFile {
    path: PathBuf,
}

impl GrantsFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all pins; a missing file has none.
    ///
    /// # Errors
    /// The file is invalid, belongs to another user, or is accessible to others.
    pub(crate) fn read(&self) -> io::Result<Vec<Pin>> {
        let mut file = match open_file(&self.path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            opened => opened?,
        };
        check(&file)?;
        let mut text = String::new();
        if io::Read::by_ref(&mut file).take(MAX_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_BYTES {
            return Err(io::Error::other(format!("longer than {MAX_BYTES} bytes")));
        }
        let contents: Contents = toml::from_str(&text).map_err(|error| io::Error::other(error.message().to_owned()))?;
        match contents.version {
            VERSION => Ok(contents.component),
            other => Err(io::Error::other(format!("unsupported version {other}"))),
        }
    }

    /// Changes the pins under the lock and returns what `change` returns. Writes only if something changed.
    ///
    /// # Errors
    /// See [`GrantsFile::read`]. If the file cannot be written, it stays as it was.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut Vec<Pin>) -> T) -> io::Result<T> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        create_directory(directory)?;
        let _lock = lock(&self.path.with_extension("lock"))?;
        let mut pins = self.read()?;
        let before = pins.clone();
        let answer = change(&mut pins);
        if pins != before {
            self.write(directory, pins)?;
        }
        Ok(answer)
    }

    fn write(&self, directory: &Path, component: Vec<Pin>) -> io::Result<()> {
        let text = toml::to_string(&Contents { version: VERSION, component }).map_err(io::Error::other)?;
        // A temporary file is private from the beginning.
        let mut temporary = tempfile::Builder::new().prefix(".grants-").tempfile_in(directory)?;
        writeln!(temporary, "# Written by `pinion plugin grant` and `pinion plugin revoke`.\n{text}")?;
        temporary.as_file().sync_all()?;
        temporary.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_runtime::{Access, Asks, Lifetime};
    use std::collections::BTreeMap;

    fn pin() -> Pin {
        let files = BTreeMap::from([(PathBuf::from("."), Access::Write)]);
        Pin {
            name: "deploy".to_owned(),
            source: FileOrigin::User,
            path: PathBuf::from("/p/deploy.wasm"),
            digest: "d1".to_owned(),
            config: true,
            grants: GrantTable { files, ..GrantTable::default() },
            granted_for: Ceiling {
                asks: Asks { files: Some(Access::Write), process: true, ..Asks::default() },
                lifetime: Lifetime::Session,
                tools: BTreeMap::from([("sh".to_owned(), pinion_agent::Authority::ALL)]),
                commands: ["go".to_owned()].into(),
            },
        }
    }

    #[test]
    fn pins_survive_a_round_trip() {
        let directory = tempfile::tempdir().unwrap();
        let file = GrantsFile::new(directory.path().join("data/grants.toml"));
        assert_eq!(file.read().unwrap(), []);
        file.update(|pins| pins.push(pin())).unwrap();
        assert_eq!(file.read().unwrap(), [pin()]);
    }

    #[cfg(unix)]
    #[test]
    fn grants_writable_by_others_are_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let file = GrantsFile::new(directory.path().join("grants.toml"));
        file.update(|pins| pins.push(pin())).unwrap();
        assert_eq!(std::fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o660)).unwrap();
        assert!(file.read().is_err() && file.update(|pins| pins.clear()).is_err());
    }

    #[test]
    fn invalid_grants_are_an_error_and_stay_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let file = GrantsFile::new(directory.path().join("grants.toml"));
        file.update(|pins| pins.push(pin())).unwrap();
        let mut text = std::fs::read_to_string(file.path()).unwrap();
        text.push_str("[[component]]\nunknown = true\n");
        std::fs::write(file.path(), &text).unwrap();
        assert!(file.update(|pins| pins.clear()).is_err());
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), text);
    }
}
