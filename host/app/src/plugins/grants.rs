//! `grants.toml`: grants that are bound to plugin files.
//!
//! A [`Pin`] binds grants to one component: its source, its path, the digest of its bytes, and its ceiling.

use crate::files::records::{RecordFile, TableRecord};
use pinion_plugin_runtime::{Ceiling, FileOrigin, GrantTable};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
