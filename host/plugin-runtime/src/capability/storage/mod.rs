//! The capability `storage`: values that the host keeps for a plugin.
//!
//! `pinion-plugin-storage` stores them; this module decides which call may use which of them.

pub(crate) mod import;
pub(crate) mod keyvalue;

use super::definition::{Capability, GrantContext, Switch};
use pinion_plugin_limits::Limits;
use pinion_protocol::Ledger;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Bytes of the values of a scope, unless the grant says otherwise.
const DEFAULT_QUOTA: u64 = 16 * 1024 * 1024;
/// The most that a grant gives: the host's memory for the keys grows with it.
const MAX_QUOTA: u64 = 256 * 1024 * 1024;

/// True if a manifest asks for it.
pub(crate) type Ask = bool;
/// `true`, `false`, or a quota.
pub(crate) type Entry = Switch<StorageQuota>;
/// The directory and the quota; `None` when nothing may be stored.
pub(crate) type Grant = Option<StorageGrant>;

/// A quota in a grants table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StorageQuota {
    /// Bytes of the values of each scope.
    pub quota_bytes: u64,
}

/// The place and the amount of a plugin's values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorageGrant {
    /// The directory for the values of all plugins; made when it is needed.
    pub directory: PathBuf,
    /// Bytes of the values of each scope; at most 256 MiB count.
    pub quota_bytes: u64,
}

/// The capability.
pub(crate) struct Storage;

impl Capability for Storage {
    const NAME: &'static str = "storage";
    const INTERFACES: &'static [&'static str] = &["storage"];
    const FORMS: &'static [&'static str] = &["storage", "storage=BYTES"];
    const MOST: Ask = true;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = StorageGrant;
    type Account = StorageAccount;

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        match value {
            None => Some(Switch::Plain(true)),
            Some(bytes) => Some(Switch::With(StorageQuota { quota_bytes: bytes.parse().ok()? })),
        }
    }

    fn ask_for(entry: &Entry) -> Ask {
        entry.is_on()
    }

    fn resolve(entry: &Entry, context: &GrantContext<'_>) -> Grant {
        let quota_bytes = match entry {
            Switch::Plain(false) => return None,
            Switch::Plain(true) => DEFAULT_QUOTA,
            Switch::With(StorageQuota { quota_bytes }) => *quota_bytes,
        };
        Some(StorageGrant { directory: context.storage.to_owned(), quota_bytes: quota_bytes.min(MAX_QUOTA) })
    }

    fn held(grant: &Grant) -> Option<&StorageGrant> {
        grant.as_ref()
    }

    fn phrase(_ask: Ask) -> &'static str {
        "store values"
    }

    fn spell_entry(entry: &Entry) -> Vec<String> {
        match entry {
            Switch::Plain(false) => Vec::new(),
            Switch::Plain(true) => vec!["storage".to_owned()],
            Switch::With(StorageQuota { quota_bytes }) => vec![format!("storage={quota_bytes}")],
        }
    }

    fn extent(grant: &Grant) -> Option<String> {
        grant.as_ref().map(|grant| match grant.quota_bytes {
            DEFAULT_QUOTA => String::new(),
            bytes => format!(": {bytes} bytes"),
        })
    }
}

/// Values that a call has written or removed.
pub(crate) struct StorageAccount {
    changes: u64,
}

impl super::definition::CapabilityAccount for StorageAccount {
    fn open(_limits: &Limits) -> Self {
        Self { changes: 0 }
    }

    fn enter(&self, ledger: &mut Ledger) {
        if self.changes > 0 {
            ledger.counts.insert("stored value".to_owned(), self.changes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::table::GrantTable;

    #[test]
    fn quota_survives_words_and_tables() {
        for (text, word) in [("storage = true", "storage"), ("storage = { quota-bytes = 5000 }", "storage=5000")] {
            let table: GrantTable = toml::from_str(text).unwrap();
            assert_eq!(table.spell_grants(), [word]);
            let mut typed = GrantTable::default();
            typed.add(&[word.to_owned()], Path::new("/w")).unwrap();
            assert_eq!(typed, table);
            assert!(table.asks().storage);
        }
        assert!(toml::from_str::<GrantTable>("storage = { quota = 5 }").is_err());
        assert!(Storage::parse(Some("much"), Path::new("/w")).is_none());
    }
}
