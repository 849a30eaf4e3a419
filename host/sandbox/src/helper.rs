//! The file of the helper, which must stay the one that was there when the launcher was made.

use crate::error::SandboxError;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

/// The name of the program that does nothing but [`run_for_parent`](crate::run_for_parent).
const SMALL_HELPER: &str = "pinion-sandbox";

/// A helper whose file is checked before each use: a program that could replace it would start the next one outside of the
/// sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Helper {
    path: PathBuf,
    seen: Option<HelperFileState>,
}

/// The state of a file. No program can set back the time of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HelperFileState {
    length: u64,
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl Helper {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { seen: HelperFileState::from_path(&path), path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path, if the file is the one of the beginning.
    ///
    /// # Errors
    /// The file was changed or replaced.
    pub(crate) fn unchanged(&self) -> Result<&OsStr, SandboxError> {
        if HelperFileState::from_path(&self.path) == self.seen {
            return Ok(self.path.as_os_str());
        }
        let reason = "it was replaced since this program started\nhint: restart pinion";
        Err(SandboxError::step(format!("use the helper `{}`", self.path.display()), reason))
    }
}

impl HelperFileState {
    #[cfg(unix)]
    fn from_path(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            length: metadata.len(),
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    #[cfg(not(unix))]
    fn from_path(path: &Path) -> Option<Self> {
        let length = std::fs::metadata(path).ok()?.len();
        Some(Self { length, device: 0, inode: 0, changed: (0, 0) })
    }
}

/// Finds the small helper in the directory of a program. It starts in a third of the time that a large program needs to
/// start again as its own helper.
///
/// Returns `None` unless it is a plain file of the same owner as the program that only the owner can write.
pub fn helper_beside(program: &Path) -> Option<PathBuf> {
    let path = program.parent()?.join(SMALL_HELPER);
    let metadata = std::fs::symlink_metadata(&path).ok()?;
    (metadata.is_file() && is_as_safe(&metadata, &std::fs::metadata(program).ok()?)).then_some(path)
}

#[cfg(unix)]
fn is_as_safe(helper: &Metadata, program: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    helper.uid() == program.uid() && helper.mode() & 0o022 == 0 && helper.mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_as_safe(_helper: &Metadata, _program: &Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[allow(clippy::unwrap_used, reason = "in tests only")]
    fn program(directory: &Path, name: &str, mode: u32) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, name).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn replaced_or_rewritten_helper_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = program(directory.path(), "helper", 0o755);
        let helper = Helper::new(path.clone());
        assert_eq!(helper.unchanged().unwrap(), path.as_os_str());
        let times = fs::metadata(&path).unwrap();
        fs::rename(program(directory.path(), "harmful", 0o755), &path).unwrap();
        let times = fs::FileTimes::new().set_modified(times.modified().unwrap());
        fs::File::open(&path).unwrap().set_times(times).unwrap();
        let error = helper.unchanged().unwrap_err().to_string();
        assert!(error.contains("was replaced") && error.contains("restart pinion"), "{error}");
        fs::remove_file(&path).unwrap();
        assert!(helper.unchanged().is_err());
    }

    #[test]
    fn helper_is_a_file_that_only_its_owner_can_write() {
        let directory = tempfile::tempdir().unwrap();
        let pinion = program(directory.path(), "pinion", 0o755);
        assert_eq!(helper_beside(&pinion), None, "there is none");
        let helper = program(directory.path(), SMALL_HELPER, 0o755);
        assert_eq!(helper_beside(&pinion), Some(helper.clone()));
        for mode in [0o775, 0o757, 0o644] {
            fs::set_permissions(&helper, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(helper_beside(&pinion), None, "{mode:o}");
        }
        fs::rename(&helper, directory.path().join("other")).unwrap();
        symlink("other", &helper).unwrap();
        assert_eq!(helper_beside(&pinion), None, "a link");
    }
}
