//! The section `[undo]`: snapshots of the workspace.

use pinion_checkpoints::{Retention, SnapshotLimits};
use serde::Deserialize;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The section as a file has it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FileUndo {
    enabled: Option<bool>,
    max_files: Option<usize>,
    max_file_bytes: Option<u64>,
    max_bytes: Option<u64>,
    /// Bytes of all snapshots of a project.
    keep_bytes: Option<u64>,
    /// Age in days of snapshots that are removed.
    days: Option<u32>,
}

/// The settings in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoSettings {
    /// Limits on the content of a snapshot.
    pub limits: SnapshotLimits,
    pub(crate) retention: Retention,
}

impl FileUndo {
    /// Returns the settings; `None` if snapshots are off.
    pub(super) fn settings(&self) -> Option<UndoSettings> {
        let (limits, retention) = (SnapshotLimits::default(), Retention::default());
        (self.enabled != Some(false)).then(|| UndoSettings {
            limits: SnapshotLimits {
                files: self.max_files.unwrap_or(limits.files),
                file_bytes: self.max_file_bytes.unwrap_or(limits.file_bytes),
                bytes: self.max_bytes.unwrap_or(limits.bytes),
                time: limits.time,
            },
            retention: Retention {
                bytes: self.keep_bytes.unwrap_or(retention.bytes),
                age: self.days.map_or(retention.age, |days| DAY * days),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_on_until_the_config_turns_them_off() {
        let settings = |text: &str| toml::from_str::<FileUndo>(text).unwrap().settings();
        assert_eq!(settings("").unwrap().limits, SnapshotLimits::default());
        assert_eq!(settings("enabled = false"), None);
        let changed = settings("max-files = 3\ndays = 2").unwrap();
        assert_eq!((changed.limits.files, changed.retention.age), (3, DAY * 2));
    }
}
