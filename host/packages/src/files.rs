//! The named files of a package, checked as they are added.

use crate::digest::tree_digest;
use crate::package::PackageError;
use pinion_files::open::read_limited;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use unicode_normalization::UnicodeNormalization as _;

/// Bounds on the content of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimit {
    /// Maximum files.
    pub files: usize,
    /// Maximum bytes of all files together.
    pub bytes: u64,
    /// Maximum directories above a file.
    pub depth: usize,
}

impl FileLimit {
    /// The bounds on a package, above any legitimate one.
    pub const PACKAGE: Self = Self { files: 2_000, bytes: 128 << 20, depth: 12 };
}

/// Maximum bytes of a path, and of one name in it.
const MAX_PATH_BYTES: usize = 512;
const MAX_NAME_BYTES: usize = 200;
/// A directory that is never a part of a package.
const REPOSITORY: &str = ".git";
/// Names that Windows takes for devices.
const DEVICES: &[&str] = &["con", "prn", "aux", "nul", "conin$", "conout$"];

/// The files of a package by path, with `/` between names. All paths are plain and distinct on every file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageFiles {
    files: BTreeMap<String, Vec<u8>>,
    /// Paths of files and directories as a file system that ignores case sees them.
    folded: BTreeMap<String, String>,
    bytes: u64,
}

impl PackageFiles {
    /// Returns the files of a package that is a single component.
    ///
    /// # Errors
    /// The name is not a plain file name, or the component is too large.
    pub fn single(name: &str, bytes: Vec<u8>) -> Result<Self, PackageError> {
        let mut files = Self::default();
        files.insert(name, bytes)?;
        Ok(files)
    }

    /// Adds a file.
    ///
    /// # Errors
    /// The path leads out of the package, is unusable on some file system or collides with another one, or the package
    /// becomes too large.
    pub fn insert(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), PackageError> {
        check_path(path)?;
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.files.len() >= FileLimit::PACKAGE.files || self.bytes > FileLimit::PACKAGE.bytes {
            return Err(PackageError::TooLarge);
        }
        if self.files.contains_key(path) {
            return Err(PackageError::Collision { one: path.to_owned(), other: path.to_owned() });
        }
        self.reserve(path)?;
        self.files.insert(path.to_owned(), bytes);
        Ok(())
    }

    /// Records the path and the directories above it, each under one spelling.
    fn reserve(&mut self, path: &str) -> Result<(), PackageError> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let part = &path[..end];
            let is_file = end == path.len();
            // A directory's key ends with a slash, so that a file cannot have its name.
            let (key, other) = match is_file {
                true => (folded(part), format!("{}/", folded(part))),
                false => (format!("{}/", folded(part)), folded(part)),
            };
            let known = self.folded.get(&key).filter(|known| is_file || *known != part);
            if let Some(known) = known.or_else(|| self.folded.get(&other)) {
                return Err(PackageError::Collision { one: known.clone(), other: path.to_owned() });
            }
            self.folded.insert(key, part.to_owned());
        }
        Ok(())
    }

    /// Reads a directory. Version control's own directory is left out.
    ///
    /// # Errors
    /// It contains a link or a special file, an unusable name, or too much; or it cannot be read.
    pub fn read_directory(root: &Path) -> Result<Self, PackageError> {
        let mut files = Self::default();
        let mut directories = vec![(root.to_owned(), String::new())];
        while let Some((directory, prefix)) = directories.pop() {
            let unreadable = |cause| PackageError::Unreadable { path: directory.display().to_string(), cause };
            for entry in fs::read_dir(&directory).map_err(unreadable)? {
                let entry = entry.map_err(unreadable)?;
                let name = entry.file_name();
                let name = name.to_str().ok_or_else(|| PackageError::BadPath { path: name.display().to_string() })?;
                let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
                let kind = entry.file_type().map_err(unreadable)?;
                if kind.is_dir() && name.eq_ignore_ascii_case(REPOSITORY) {
                    continue;
                }
                if kind.is_dir() {
                    check_path(&path)?;
                    directories.push((entry.path(), path));
                    // Empty directories count, so that a tree of them ends, too.
                    if directories.len() > FileLimit::PACKAGE.files {
                        return Err(PackageError::TooLarge);
                    }
                } else if kind.is_file() {
                    let rest = FileLimit::PACKAGE.bytes.saturating_sub(files.bytes);
                    let bytes = read_limited(&entry.path(), rest);
                    files.insert(
                        &path,
                        bytes.map_err(|cause| PackageError::Unreadable { path: path.clone(), cause })?,
                    )?;
                } else {
                    return Err(PackageError::NotAFile { path });
                }
            }
        }
        Ok(files)
    }

    /// Returns the content of a file.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Returns all paths in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Returns all files in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// Returns the digest of names and contents.
    pub fn digest(&self) -> String {
        tree_digest(&self.files)
    }

    /// Removes the one directory that everything is in, as archives of repositories have one.
    #[must_use]
    pub fn without_common_directory(self) -> Self {
        let tops: BTreeSet<&str> = self.paths().map(|path| path.split('/').next().unwrap_or_default()).collect();
        let is_nested = self.paths().all(|path| path.contains('/'));
        let [top] = tops.into_iter().collect::<Vec<_>>()[..] else { return self };
        // A directory that means something in a package stays where it is.
        if !is_nested || matches!(top, "skills" | "prompts" | "commands" | "dev.pinion") || top.starts_with('.') {
            return self;
        }
        self.beneath(top).unwrap_or_default()
    }

    /// Returns the files in a directory of the package; `None` if it has no files.
    pub fn beneath(&self, directory: &str) -> Option<Self> {
        let prefix = format!("{}/", directory.trim_start_matches("./").trim_matches('/'));
        let mut files = Self::default();
        for (path, bytes) in &self.files {
            if let Some(rest) = path.strip_prefix(&prefix) {
                files.insert(rest, bytes.clone()).ok()?;
            }
        }
        (!files.files.is_empty()).then_some(files)
    }
}

/// Returns a path as a file system that ignores case and composition sees it.
fn folded(path: &str) -> String {
    path.nfc().collect::<String>().to_lowercase().nfc().collect()
}

/// Checks that a path stays in its directory and means the same file on every system.
fn check_path(path: &str) -> Result<(), PackageError> {
    let bad = || PackageError::BadPath { path: path.escape_debug().to_string() };
    if path.is_empty() || path.len() > MAX_PATH_BYTES || path.matches('/').count() > FileLimit::PACKAGE.depth {
        return Err(bad());
    }
    for name in path.split('/') {
        let stem = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let has_number =
            |device: &str| stem.len() == 4 && stem.starts_with(device) && stem.ends_with(|c: char| c.is_ascii_digit());
        let is_device = DEVICES.contains(&stem.as_str()) || has_number("com") || has_number("lpt");
        let is_plain = !name.is_empty()
            && name.len() <= MAX_NAME_BYTES
            && !name.ends_with(['.', ' '])
            && !name.starts_with(' ')
            && !name.eq_ignore_ascii_case(REPOSITORY)
            && !name.contains(|c: char| c.is_control() || is_invisible(c) || "\\:*?\"<>|".contains(c));
        if !is_plain || is_device {
            return Err(bad());
        }
    }
    Ok(())
}

/// Returns whether a character hides or reorders others.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
