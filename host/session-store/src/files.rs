//! Session files and their folders: how they are named, made and protected.
//!
//! `<root>/<project>/<time>_<id>.jsonl`: a folder for each workspace, and names in the order of time. Only their owner
//! may read them.

use crate::error::SessionError;
use crate::header::Header;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// How session files end.
pub(crate) const EXTENSION: &str = "jsonl";

/// How much of a workspace's name its folder shows, in bytes.
const READABLE: usize = 40;
/// How much of the path's hash, in hex digits: 60 bits.
const HASHED: usize = 15;
/// How often one session may be torn before somebody has to look.
const MOST_ASIDE: u32 = 10_000;

/// The folder name of a workspace: the end of its path, for people, and a hash of all of it, so that two workspaces
/// never share a folder. `workspace` is absolute and always spelled alike, so symbolic links are to be resolved
/// before.
pub fn project_slug(workspace: &Path) -> String {
    let name = workspace.file_name().unwrap_or_default().to_string_lossy();
    let readable: String = name.chars().take(READABLE).map(|c| if is_plain(c) { c } else { '-' }).collect();
    let hash = blake3::hash(workspace.as_os_str().as_encoded_bytes()).to_hex();
    format!("{}-{}", readable.trim_start_matches('.'), &hash[..HASHED])
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Where a session is kept that begins now.
pub(crate) fn path_of(root: &Path, header: &Header) -> PathBuf {
    path_in(&root.join(project_slug(&header.workspace)), header)
}

/// The same, in a folder of its own.
pub(crate) fn path_in(folder: &Path, header: &Header) -> PathBuf {
    let time = header.created.strftime("%Y%m%dT%H%M%SZ");
    folder.join(format!("{time}_{}.{EXTENSION}", header.id))
}

/// What a session is called while it is being made. Its extension is not a session's.
pub(crate) fn part_of(path: &Path) -> PathBuf {
    path.with_extension("part")
}

/// The folder for the sessions of a session's sub-agents: beside its file, with its name.
pub(crate) fn children_of(path: &Path) -> PathBuf {
    path.with_extension("")
}

/// A session's id, as its file's name tells it: what follows the last underscore.
pub(crate) fn id_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.rsplit('_').next().unwrap_or_default().to_owned()
}

/// Tells one line from every other.
pub(crate) fn digest(line: &[u8]) -> String {
    blake3::hash(line).to_hex().to_string()
}

/// Makes a session's file, which must not exist, with the folders above it, and locks it.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        private_folder().create(folder)?;
    }
    let file = create_private(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(error) => {
            // Nobody has written to it.
            let _ = std::fs::remove_file(path);
            Err(error.into())
        }
    }
}

/// The files beside a session that hold what was taken out of it.
pub(crate) fn asides_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".torn-");
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut asides = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes()) {
            asides.push(entry.path());
        }
    }
    Ok(asides)
}

/// Makes a file beside a session for what is taken out of it: `<path>.torn-<n>`, with the first `n` that is free.
pub(crate) fn create_aside(path: &Path) -> Result<(PathBuf, File), SessionError> {
    let mut number = 1_u32;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".torn-{number}"));
        let aside = PathBuf::from(name);
        match create_private(&aside) {
            Ok(file) => return Ok((aside, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MOST_ASIDE => number += 1,
            Err(error) => return Err(SessionError::io("create", &aside)(error)),
        }
    }
}

/// Makes a file that only its owner may read. It must not exist.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create_new(true).read(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Waits until the disk knows of a new file.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        // Only Unix can open a folder.
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_after_its_workspace_and_its_whole_path() {
        let slug = project_slug(Path::new("/home/me/my project"));
        assert_eq!(slug, "my-project-5253996e1ae13ae");
        assert_ne!(slug, project_slug(Path::new("/home/you/my project")));
        assert_ne!(slug, project_slug(Path::new("/home/me/my-project")));
    }

    #[test]
    fn a_folder_name_is_short_and_plain_whatever_the_workspace_is_called() {
        for workspace in ["/", "/..", "/.git", "/tmp/\u{1b}[2J\n", "/tmp/äöü", &format!("/{}", "x".repeat(5000))] {
            let slug = project_slug(Path::new(workspace));
            assert!(slug.len() <= READABLE + 1 + HASHED, "{slug}");
            assert!(slug.chars().all(is_plain) && !slug.starts_with('.'), "{slug}");
        }
    }

    #[test]
    fn a_file_tells_its_session_by_name() {
        let id = "0d2f3c4e-0000-4000-8000-000000000000".to_owned();
        let created = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let header = Header { created, ..Header::named(id.clone(), Path::new("/w")) };
        let path = path_of(Path::new("/root"), &header);
        assert_eq!(path.file_name().unwrap().to_str().unwrap(), format!("20260102T030405Z_{id}.jsonl"));
        assert_eq!(id_of(&path), id);
        assert_eq!(id_of(Path::new("/x/renamed.jsonl")), "renamed");
    }
}
