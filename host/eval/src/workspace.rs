//! Workspaces of trials, and the differences that a run leaves in them.

use crate::case::{GitSource, WorkspaceSource};
use crate::evaluators::FileChange;
use crate::files;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Maximum number of files in a workspace.
const MAX_FILES: usize = 500_000;

/// Digests of the files of a workspace, by relative path.
pub type TreeDigests = BTreeMap<String, [u8; 32]>;

/// Creates the workspace of a trial in `target`, an empty directory. Relative paths of the source refer to `base`.
///
/// # Errors
/// A part of the source cannot be read, or the target cannot be written.
pub fn prepare(source: &WorkspaceSource, base: &Path, target: &Path) -> Result<(), String> {
    if let Some(directory) = &source.directory {
        let directory = base.join(directory);
        copy(&directory, target).map_err(|error| format!("could not copy `{}`: {error}", directory.display()))?;
    }
    if let Some(git) = &source.git {
        check_out(git, base, target)?;
    }
    for (path, text) in &source.files {
        write(target, path, text).map_err(|error| format!("could not write `{path}`: {error}"))?;
    }
    Ok(())
}

/// Writes the files of a case that are outside its workspace to `target`, an empty directory.
///
/// # Errors
/// A file cannot be written.
pub fn prepare_outside(source: &WorkspaceSource, target: &Path) -> Result<(), String> {
    for (path, text) in &source.outside {
        write(target, path, text).map_err(|error| format!("could not write `{path}`: {error}"))?;
    }
    Ok(())
}

/// Copies the files, links and directories of a directory. Pipes, sockets and devices are errors.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut directories = vec![(from.to_owned(), to.to_owned())];
    let mut left = MAX_FILES;
    while let Some((from, to)) = directories.pop() {
        fs::create_dir_all(&to)?;
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let (kind, path, target) = (entry.file_type()?, entry.path(), to.join(entry.file_name()));
            left = left.checked_sub(1).ok_or_else(|| io::Error::other(format!("more than {MAX_FILES} files")))?;
            if kind.is_dir() {
                directories.push((path, target));
            } else if kind.is_symlink() {
                link(&fs::read_link(&path)?, &target)?;
            } else {
                let mut source = files::open(&path)?;
                files::create(&target, b"")?;
                let mut copied = files::open_existing(fs::OpenOptions::new().write(true), &target)?;
                io::copy(&mut source, &mut copied)?;
                copied.set_permissions(source.metadata()?.permissions())?;
            }
        }
    }
    Ok(())
}

#[cfg(unix)]
fn link(to: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, at)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("links are not supported on this system"))
}

/// Writes a file below a directory, through no link.
fn write(root: &Path, path: &str, text: &str) -> io::Result<()> {
    let mut at = root.to_owned();
    let components: Vec<_> = Path::new(path).components().collect();
    let Some((name, parents)) = components.split_last() else { return Err(io::ErrorKind::InvalidInput.into()) };
    for parent in parents {
        at.push(parent);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(io::Error::other(format!("`{}` is not a directory", at.display()))),
            Err(_) => fs::create_dir(&at)?,
        }
    }
    at.push(name);
    match fs::symlink_metadata(&at) {
        Ok(found) if found.is_dir() => return Err(io::Error::other("a directory of that name exists")),
        Ok(_) => fs::remove_file(&at)?,
        Err(_) => {}
    }
    files::create(&at, text.as_bytes())
}

/// Clones a local repository and checks a commit out. No hook runs, and no user is asked.
fn check_out(source: &GitSource, base: &Path, target: &Path) -> Result<(), String> {
    let repository = base.join(&source.repository);
    let commit = format!("{}^{{commit}}", source.reference);
    let commit = git(&repository, &["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])
        .map_err(|error| format!("no commit `{}` in `{}`: {error}", source.reference, repository.display()))?;
    let (from, to) = (repository.to_string_lossy(), target.to_string_lossy());
    git(base, &["clone", "--quiet", "--no-checkout", "--no-hardlinks", "--", &from, &to])?;
    git(target, &["checkout", "--quiet", "--detach", commit.trim()])?;
    Ok(())
}

/// Applies a patch of git in a directory, which no repository contains for git.
///
/// # Errors
/// The patch does not apply.
pub fn apply_patch(directory: &Path, patch: &Path) -> Result<(), String> {
    // Git would look for changes below the top of a repository that contains the directory.
    let ceiling = directory.parent().unwrap_or(directory);
    let mut command = Command::new("git");
    command.args(["apply", "--whitespace=nowarn", "--allow-empty"]).arg(patch).current_dir(directory);
    command
        .env("GIT_CEILING_DIRECTORIES", ceiling)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("could not run `git`: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("`git apply` failed: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn git(directory: &Path, arguments: &[&str]) -> Result<String, String> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let mut command = Command::new("git");
    command.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "init.templateDir="]);
    command.args(arguments).current_dir(directory).env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("could not run `git`: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("`git {}` failed: {}", arguments[0], String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Reads the digests of all files of a workspace, without the directories `.git`.
///
/// # Errors
/// A file cannot be read, or there are too many.
pub fn digests(root: &Path) -> io::Result<TreeDigests> {
    let (mut digests, mut directories) = (TreeDigests::new(), vec![PathBuf::new()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(root.join(&directory))? {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, directory.join(entry.file_name()));
            if kind.is_dir() && entry.file_name() != ".git" {
                directories.push(path);
            } else if !kind.is_dir() {
                if digests.len() >= MAX_FILES {
                    return Err(io::Error::other(format!("more than {MAX_FILES} files")));
                }
                let digest = digest(&root.join(&path), kind)?;
                digests.insert(path.to_string_lossy().into_owned(), digest);
            }
        }
    }
    Ok(digests)
}

fn digest(path: &Path, kind: fs::FileType) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    if kind.is_symlink() {
        hash.update(b"link\0");
        hash.update(fs::read_link(path)?.as_os_str().as_encoded_bytes());
    } else if kind.is_file() {
        let mut file = files::open(path)?;
        hash.update(if is_executable(&file.metadata()?) { b"exec\0" } else { b"file\0" });
        let mut buffer = vec![0; 64 << 10];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => hash.update(&buffer[..read]),
            }
        }
    } else {
        hash.update(b"special\0");
    }
    Ok(hash.finalize().into())
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

/// Returns the files that differ, by path.
pub fn changes(before: &TreeDigests, after: &TreeDigests) -> Vec<FileChange> {
    let change = |path: &String, kind| FileChange { path: path.clone(), kind };
    let deleted = before.keys().filter(|path| !after.contains_key(*path)).map(|path| change(path, "deleted"));
    let others = after.iter().filter_map(|(path, digest)| match before.get(path) {
        None => Some(change(path, "created")),
        Some(old) if old != digest => Some(change(path, "changed")),
        Some(_) => None,
    });
    let mut changes: Vec<FileChange> = deleted.chain(others).collect();
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(directory: Option<&str>, files: &[(&str, &str)]) -> WorkspaceSource {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        WorkspaceSource { directory: directory.map(PathBuf::from), files, ..WorkspaceSource::default() }
    }

    #[test]
    fn copy_has_all_files_and_changes_are_found() {
        let base = tempfile::tempdir().unwrap();
        let from = base.path().join("from");
        fs::create_dir_all(from.join("a/empty")).unwrap();
        fs::write(from.join("a/x"), "one").unwrap();
        fs::write(from.join("y"), "two").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("y", from.join("link")).unwrap();
        let target = base.path().join("to");
        prepare(&source(Some("from"), &[("y", "three"), ("b/c/z", "new")]), base.path(), &target).unwrap();
        assert!(target.join("a/empty").is_dir());
        let kinds = |changes: Vec<FileChange>| {
            changes.into_iter().map(|change| format!("{} {}", change.path, change.kind)).collect::<Vec<_>>()
        };
        let (before, after) = (digests(&from).unwrap(), digests(&target).unwrap());
        assert_eq!(kinds(changes(&before, &after)), ["b/c/z created", "y changed"]);
        fs::remove_file(target.join("a/x")).unwrap();
        assert_eq!(kinds(changes(&after, &digests(&target).unwrap())), ["a/x deleted"]);
    }

    #[cfg(unix)]
    #[test]
    fn file_is_not_written_through_a_link() {
        let base = tempfile::tempdir().unwrap();
        let (from, outside) = (base.path().join("from"), base.path().join("outside"));
        fs::create_dir_all(&from).unwrap();
        fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, from.join("link")).unwrap();
        let prepared = prepare(&source(Some("from"), &[("link/x", "")]), base.path(), &base.path().join("to"));
        assert!(prepared.unwrap_err().contains("not a directory"));
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn commit_of_a_repository_is_checked_out() {
        let base = tempfile::tempdir().unwrap();
        let repository = base.path().join("repository");
        fs::create_dir_all(&repository).unwrap();
        let run = |arguments: &[&str]| git(&repository, arguments).unwrap();
        run(&["init", "--quiet", "-b", "main"]);
        for text in ["first", "second"] {
            fs::write(repository.join("a"), text).unwrap();
            run(&["add", "a"]);
            run(&["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", text]);
        }
        let source = |reference: &str| WorkspaceSource {
            git: Some(GitSource { repository: "repository".into(), reference: reference.to_owned() }),
            ..WorkspaceSource::default()
        };
        let target = base.path().join("to");
        prepare(&source("main~1"), base.path(), &target).unwrap();
        assert_eq!(fs::read_to_string(target.join("a")).unwrap(), "first");
        let missing = prepare(&source("other"), base.path(), &base.path().join("again"));
        assert!(missing.unwrap_err().starts_with("no commit `other`"));
    }
}
