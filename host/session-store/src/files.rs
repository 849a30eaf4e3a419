//! Names, creation and protection of session files.
//!
//! The path is `<root>/<project>/<time>_<id>.jsonl`: each workspace has a directory, and names sort by time. Only the
//! owner can read the files.

use crate::error::SessionError;
use crate::header::SessionHeader;
use crate::lock::OpenSession;
use pinion_files::open::{create_directory, sync_directory};
use pinion_files::{AtomicWrite, Durability, TemporaryFile};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The extension of session files.
pub(crate) const EXTENSION: &str = "jsonl";
/// The end of the name of a file that is not complete.
pub(crate) const PART: &str = ".part";

/// The most of a workspace's name that its directory shows, in characters.
const READABLE: usize = 40;
/// The length of the path's hash in the name, in hex digits: 60 bits.
const HASHED: usize = 15;
/// The most parts that are moved out of one session.
const MAX_ASIDE: u32 = 10_000;

/// Returns the directory name of a workspace: the end of its path, for people, and a hash of the whole path, so that
/// two workspaces never share a directory. `workspace` is absolute, with its symbolic links resolved, so that it is
/// always spelled the same.
pub fn project_slug(workspace: &Path) -> String {
    let name = workspace.file_name().unwrap_or_default().to_string_lossy();
    let readable: String = name.chars().take(READABLE).map(|c| if is_plain(c) { c } else { '-' }).collect();
    let hash = blake3::hash(workspace.as_os_str().as_encoded_bytes()).to_hex();
    format!("{}-{}", readable.trim_start_matches('.'), &hash[..HASHED])
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Returns the file of a new session below `root`.
pub(crate) fn path_of(root: &Path, header: &SessionHeader) -> PathBuf {
    path_in(&root.join(project_slug(&header.workspace)), header)
}

/// Returns the file of a new session in `directory`.
pub(crate) fn path_in(directory: &Path, header: &SessionHeader) -> PathBuf {
    let time = header.created.strftime("%Y%m%dT%H%M%SZ");
    directory.join(format!("{time}_{}.{EXTENSION}", header.id))
}

/// Creates a file next to `target` for a session that is not complete yet, with the directories above it. Lists skip it
/// by its extension, and dropping it deletes it.
pub(crate) fn create_part(target: &Path, durability: Durability) -> Result<TemporaryFile, SessionError> {
    let directory = target.parent().unwrap_or(Path::new("."));
    create_directory(directory).map_err(SessionError::io("create", directory))?;
    let part = AtomicWrite::private().suffix(PART).durability(durability).create_in(directory);
    part.map_err(SessionError::io("create a file in", directory))
}

/// Returns the directory of a session's sub-agents: next to its file, with its name.
pub(crate) fn children_of(path: &Path) -> PathBuf {
    path.with_extension("")
}

/// Returns the session's id from its file name: the text after the last underscore.
pub(crate) fn id_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.rsplit('_').next().unwrap_or_default().to_owned()
}

/// Returns a hash of a line.
pub(crate) fn digest(line: &[u8]) -> String {
    blake3::hash(line).to_hex().to_string()
}

/// Creates and locks a session's file, with the directories above it. The file must not exist.
pub(crate) fn create(path: &Path) -> io::Result<OpenSession> {
    if let Some(directory) = path.parent() {
        create_directory(directory)?;
    }
    OpenSession::lock(create_private(path)?).map_err(|(_, error)| {
        // The file is still empty.
        let _ = std::fs::remove_file(path);
        error.into()
    })
}

/// Returns the files with the parts that were moved out of a session.
pub(crate) fn asides_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".torn-");
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut asides = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes()) {
            asides.push(entry.path());
        }
    }
    Ok(asides)
}

/// Creates a file for a part of a session: `<path>.torn-<n>`, with the first `n` that is free.
pub(crate) fn create_aside(path: &Path) -> Result<(PathBuf, File), SessionError> {
    let mut number = 1_u32;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".torn-{number}"));
        let aside = PathBuf::from(name);
        match create_private(&aside) {
            Ok(file) => return Ok((aside, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MAX_ASIDE => number += 1,
            Err(error) => return Err(SessionError::io("create", &aside)(error)),
        }
    }
}

/// Creates a file that only its owner can read. The file must not exist.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create_new(true).read(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Syncs the directory of a new file, so that the file survives a loss of power.
pub(crate) fn sync_directory_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn pipe_in_the_place_of_a_file_or_directory_is_an_error_at_once() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("a.jsonl");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(crate::transcript::open_file(&path).is_err() && sync_directory(&path).is_err());
        assert!(crate::lock::open_locked(&path).is_err());
        assert!(crate::load_snapshot::<u32>(&path).is_err());
        assert_eq!(crate::name::shown(&path), None);
        assert!(sync_directory(directory.path()).is_ok());
    }

    #[test]
    fn directory_name_has_workspace_name_and_path_hash() {
        let slug = project_slug(Path::new("/home/me/my project"));
        assert_eq!(slug, "my-project-5253996e1ae13ae");
        assert_ne!(slug, project_slug(Path::new("/home/you/my project")));
        assert_ne!(slug, project_slug(Path::new("/home/me/my-project")));
    }

    #[test]
    fn directory_name_is_short_and_plain_for_any_workspace() {
        for workspace in ["/", "/..", "/.git", "/tmp/\u{1b}[2J\n", "/tmp/äöü", &format!("/{}", "x".repeat(5000))] {
            let slug = project_slug(Path::new(workspace));
            assert!(slug.len() <= READABLE + 1 + HASHED, "{slug}");
            assert!(slug.chars().all(is_plain) && !slug.starts_with('.'), "{slug}");
        }
    }

    #[test]
    fn file_name_has_time_and_id() {
        let id = "0d2f3c4e-0000-4000-8000-000000000000".to_owned();
        let created = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let header = SessionHeader { created, ..SessionHeader::named(id.clone(), Path::new("/w")) };
        let path = path_of(Path::new("/root"), &header);
        assert_eq!(path.file_name().unwrap().to_str().unwrap(), format!("20260102T030405Z_{id}.jsonl"));
        assert_eq!(id_of(&path), id);
        assert_eq!(id_of(Path::new("/x/renamed.jsonl")), "renamed");
    }
}
