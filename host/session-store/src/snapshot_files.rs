//! Snapshots of agents and sessions in files.

use crate::files::PART;
use crate::transcript::open_file;
use pinion_files::open::create_directory;
use pinion_files::{AtomicWrite, Durability};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The most bytes of a snapshot's file.
const MAX_BYTES: u64 = 256 << 20;

/// A snapshot could not be saved or loaded. The cause is the error's source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// An operation on the file failed.
    #[error("could not {action} the snapshot `{}`", path.display())]
    Io {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not a snapshot of this type, or the value cannot be written as one.
    #[error("`{}` is not a snapshot of this kind", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// The snapshot has more than 256 MiB.
    #[error("the snapshot `{}` is larger than 256 MiB", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

/// Writes a snapshot, such as `pinion_agent::snapshot::Snapshot` or [`SessionSnapshot`](crate::SessionSnapshot), to the
/// file `path`, which only its owner can read, and creates the directories above it. The file has its previous content or
/// all of the snapshot, also after a kill or a loss of power.
///
/// # Errors
/// The snapshot is too large, or the file cannot be written. It is unchanged then.
pub fn save_snapshot(path: &Path, snapshot: &impl Serialize) -> Result<(), SnapshotError> {
    let invalid = |source| SnapshotError::Invalid { path: path.to_owned(), source };
    let bytes = serde_json::to_vec(snapshot).map_err(invalid)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(SnapshotError::TooLarge { path: path.to_owned() });
    }
    write(path, &bytes).map_err(|source| SnapshotError::Io { action: "write", path: path.to_owned(), source })
}

/// Reads a snapshot from the file `path`.
///
/// # Errors
/// The file cannot be read, is too large, or is not a snapshot of this type.
pub fn load_snapshot<T: DeserializeOwned>(path: &Path) -> Result<T, SnapshotError> {
    let failed = |source| SnapshotError::Io { action: "read", path: path.to_owned(), source };
    let file = open_file(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > MAX_BYTES {
        return Err(SnapshotError::TooLarge { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    serde_json::from_slice(&bytes).map_err(|source| SnapshotError::Invalid { path: path.to_owned(), source })
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_directory(directory)?;
    AtomicWrite::private().suffix(PART).durability(Durability::ContentAndName).replace(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{user, workspace};
    use crate::{Session, SessionSnapshot, restore};
    use pinion_protocol::SessionStore as _;
    use std::fs::{self, File};
    use tempfile::TempDir;

    fn saved(directory: &TempDir) -> (SessionSnapshot, PathBuf) {
        let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
        session.append(&user("one")).unwrap();
        let (snapshot, path) = (session.snapshot(None, None).unwrap(), directory.path().join("sub/snapshot.json"));
        save_snapshot(&path, &snapshot).unwrap();
        (snapshot, path)
    }

    #[test]
    fn saved_snapshot_is_private_and_can_be_restored() {
        let directory = TempDir::new().unwrap();
        let (snapshot, path) = saved(&directory);
        let loaded: SessionSnapshot = load_snapshot(&path).unwrap();
        assert_eq!(loaded, snapshot);
        assert_eq!(restore(&loaded).unwrap().messages, [user("one")]);
        #[cfg(unix)]
        {
            let mode =
                |path: &Path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions());
            assert_eq!((mode(&path) & 0o777, mode(path.parent().unwrap()) & 0o777), (0o600, 0o700));
        }
    }

    #[test]
    fn snapshot_that_cannot_be_written_leaves_the_previous_one() {
        struct Broken;
        impl Serialize for Broken {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("broken"))
            }
        }
        let directory = TempDir::new().unwrap();
        let (snapshot, path) = saved(&directory);
        assert!(matches!(save_snapshot(&path, &Broken), Err(SnapshotError::Invalid { .. })));
        let taken = directory.path().join("taken");
        fs::create_dir_all(taken.join("x")).unwrap();
        assert!(matches!(save_snapshot(&taken, &snapshot), Err(SnapshotError::Io { action: "write", .. })));
        assert_eq!(load_snapshot::<SessionSnapshot>(&path).unwrap(), snapshot);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn error_of_a_load_names_the_file_and_the_reason() {
        let directory = TempDir::new().unwrap();
        let error = |name: &str| load_snapshot::<SessionSnapshot>(&directory.path().join(name)).unwrap_err();
        assert!(matches!(error("missing"), SnapshotError::Io { action: "read", .. }));
        assert!(matches!(error(""), SnapshotError::Io { .. }));
        fs::write(directory.path().join("other"), "{}").unwrap();
        assert!(error("other").to_string().ends_with("other` is not a snapshot of this kind"));
        // A sparse file.
        File::create(directory.path().join("large")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(matches!(error("large"), SnapshotError::TooLarge { .. }));
    }
}
