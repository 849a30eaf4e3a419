//! Files of directories that only the user and root can change.
//!
//! Above a project, such as in `/tmp`, others may have prepared files for users who work below. As with the private
//! keys of SSH and with git's `safe.directory`, a file counts only if it and its directory belong to the user or root,
//! and other users may write to neither. Both are checked on open handles. A link counts if it leads to a file in the
//! same directory.

use crate::repository::{FileText, Links, Refusal, Repository, start_of};
use std::fs::Metadata;
use std::path::Path;

/// Reads the first `most` bytes of a file; returns `None` if it does not exist, or its directory cannot be opened.
///
/// # Errors
/// See [`Refusal`].
pub fn read_start(directory: &Path, name: &str, most: u64) -> Result<Option<FileText>, Refusal> {
    let Ok(opened) = Repository::at(directory) else { return Ok(None) };
    let name = Path::new(name);
    if !opened.has(name) {
        return Ok(None);
    }
    check(&opened.metadata().map_err(Refusal::Io)?, Refusal::SharedDirectory)?;
    let Some(file) = opened.open(name, Links::Beside)? else { return Ok(None) };
    check(&file.metadata().map_err(Refusal::Io)?, Refusal::Shared)?;
    start_of(file, most).map(Some)
}

/// Checks that only the user and root can change something.
#[cfg(unix)]
fn check(metadata: &Metadata, shared: Refusal) -> Result<(), Refusal> {
    use std::os::unix::fs::MetadataExt as _;
    let is_ours = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
    match metadata.mode() & 0o022 {
        0 if is_ours => Ok(()),
        0 => Err(Refusal::Owner),
        _ => Err(shared),
    }
}

/// Refuses everything, because who can write is not known here.
#[cfg(not(unix))]
fn check(_metadata: &Metadata, shared: Refusal) -> Result<(), Refusal> {
    Err(shared)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
    use tempfile::TempDir;

    /// A directory with a file, both of these modes.
    fn directory(mode: u32, file: u32) -> TempDir {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("AGENTS.md");
        fs::write(&path, "text").unwrap();
        fs::set_permissions(path, Permissions::from_mode(file)).unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
        directory
    }

    fn read(directory: &TempDir) -> Result<Option<Vec<u8>>, String> {
        let text = read_start(directory.path(), "AGENTS.md", 100);
        text.map(|text| text.map(|text| text.bytes)).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn file_counts_only_where_nobody_else_can_write() {
        for (mode, file) in [(0o755, 0o644), (0o700, 0o600)] {
            assert_eq!(read(&directory(mode, file)), Ok(Some(b"text".to_vec())), "{mode:o} {file:o}");
        }
        for mode in [0o1777, 0o777, 0o775, 0o1775, 0o757] {
            assert_eq!(read(&directory(mode, 0o644)), Err("others can write to its directory".to_owned()), "{mode:o}");
        }
        for file in [0o664, 0o646, 0o666] {
            assert_eq!(read(&directory(0o755, file)), Err("others can write to it".to_owned()), "{file:o}");
        }
    }

    #[test]
    fn file_or_directory_of_another_user_does_not_count() {
        for name in ["AGENTS.md", "."] {
            let directory = directory(0o755, 0o644);
            if chown(directory.path().join(name), Some(12_345), None).is_err() {
                // Only root can act as two users.
                return;
            }
            assert_eq!(read(&directory), Err("it belongs to another user".to_owned()), "{name}");
        }
    }

    #[test]
    fn link_counts_only_to_a_markdown_file_beside_it() {
        let outside = directory(0o755, 0o644);
        let within = |target: &Path| {
            let directory = directory(0o755, 0o644);
            let path = directory.path();
            fs::rename(path.join("AGENTS.md"), path.join("CLAUDE.md")).unwrap();
            fs::copy(path.join("CLAUDE.md"), path.join("key.pem")).unwrap();
            fs::create_dir(path.join("docs")).unwrap();
            fs::copy(path.join("CLAUDE.md"), path.join("docs/a.md")).unwrap();
            symlink(target, path.join("AGENTS.md")).unwrap();
            read(&directory)
        };
        assert_eq!(within(Path::new("CLAUDE.md")), Ok(Some(b"text".to_vec())));
        for target in
            [&outside.path().join("AGENTS.md"), Path::new("docs/a.md"), Path::new("key.pem"), Path::new("/dev/zero")]
        {
            assert!(within(target).is_err(), "{target:?}");
        }
    }
}
