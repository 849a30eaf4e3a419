//! `grants.toml`: grants that are bound to plugin files.
//!
//! A [`Pin`] binds grants to one component: its source, its path, the digest of its bytes, and its ceiling.

use crate::files::records::{RecordFile, TableRecord};
use crate::plugins::file_stamp::Stamp;
use pinion_plugin_runtime::{Ceiling, FileOrigin, GrantTable, LikenessMap};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The grants of one component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Pin {
    /// Name in its manifest.
    pub name: String,
    /// The kind of directory that the file is in.
    pub source: FileOrigin,
    /// Absolute path, whose directory contains no links.
    pub path: PathBuf,
    /// BLAKE3 in hexadecimal.
    pub digest: String,
    /// True if the grants of `[plugins.NAME.grants]` in the user's config apply to it.
    pub config: bool,
    /// Grants in addition to the config's grants.
    #[serde(default)]
    pub grants: GrantTable,
    /// Its requests and declarations at the time of the grants.
    #[serde(default)]
    pub granted_for: Ceiling,
}

impl TableRecord for Pin {
    const TABLE: &'static str = "component";
    const COMMENT: &'static str = "Written by `pinion plugin grant` and `pinion plugin revoke`.";
}

/// Handle to `grants.toml`.
pub type GrantsFile = RecordFile<Pin>;

/// The pins in `grants.toml`, and the place of the first one for each path.
#[derive(Debug, Default)]
pub struct Pins {
    pub(crate) all: Vec<Pin>,
    by_path: HashMap<PathBuf, usize>,
    /// Places of pins with the grants of the config, by the names in their manifests.
    of_config: LikenessMap<usize>,
}

impl Pins {
    fn from_pins(all: Vec<Pin>) -> Self {
        // The first one of a path counts.
        let by_path = all.iter().enumerate().rev().map(|(at, pin)| (pin.path.clone(), at)).collect();
        let of_config = all.iter().enumerate().filter(|(_, pin)| pin.config);
        let of_config = of_config.map(|(at, pin)| (pin.name.as_str(), at)).collect();
        Self { all, by_path, of_config }
    }

    pub(crate) fn at(&self, path: &Path) -> Option<&Pin> {
        self.by_path.get(path).map(|at| &self.all[*at])
    }

    /// Returns the first pin with the grants of the config for a plugin of a name like this one.
    pub(crate) fn of_config(&self, name: &str) -> Option<&Pin> {
        self.of_config.values_like(name).next().map(|at| &self.all[*at])
    }
}

/// The pins of a file, read again only if the file has changed.
#[derive(Debug, Default)]
pub struct PinCache(Mutex<Option<(PathBuf, Stamp, Arc<Pins>)>>);

impl PinCache {
    pub(crate) fn read(&self, file: &GrantsFile) -> io::Result<Arc<Pins>> {
        // A missing file has no stamp and is cheap to look for.
        let stamp = Stamp::from_path(file.path());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((path, at, pins)) = &*known
            && path == file.path()
            && Some(*at) == stamp
        {
            return Ok(pins.clone());
        }
        let pins = Arc::new(Pins::from_pins(file.read()?));
        *known = stamp.map(|stamp| (file.path().to_owned(), stamp, pins.clone()));
        Ok(pins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_runtime::{Asks, FileAccess, Lifetime};
    use std::collections::BTreeMap;

    fn pin() -> Pin {
        let files = BTreeMap::from([(PathBuf::from("."), FileAccess::Write)]);
        Pin {
            name: "deploy".to_owned(),
            source: FileOrigin::User,
            path: PathBuf::from("/p/deploy.wasm"),
            digest: "d1".to_owned(),
            config: true,
            grants: GrantTable { files, ..GrantTable::default() },
            granted_for: Ceiling {
                asks: Asks { files: Some(FileAccess::Write), process: true, ..Asks::default() },
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
