//! The directories of context files, and the way to read from each.

use crate::files::owned_files;
use crate::files::repository::{FileText, Links, Refusal, Repository};
use pinion_exclusions::{FileId, Finder};
use std::path::{Component, Path, PathBuf};

/// Endings of files that others may include.
const TEXTS: [&str; 4] = ["md", "mdc", "markdown", "txt"];

/// A directory of context files.
#[derive(Debug, Clone, Copy)]
pub(super) enum ContextSource<'a> {
    /// The user's config directory. Its files are trusted text, and links are followed.
    User(&'a Repository),
    /// A directory above the repository. Its files count if only the user and root can change them.
    Above(&'a Path),
    /// A directory of the repository, by its path from the root.
    Project(&'a Repository, &'a Path),
}

impl<'a> ContextSource<'a> {
    /// Returns the directories of a project, the nearest first: the repository's directories, from `workspace` to the
    /// root, and the directories above it. If the repository is in the user's home directory, the list ends there.
    pub(super) fn of_project(
        repository: &'a Repository,
        workspace: &'a Path,
        home: Option<&'a Path>,
    ) -> impl Iterator<Item = Self> {
        let root = repository.root();
        let below = workspace.strip_prefix(root).unwrap_or(Path::new(""));
        let home = home.filter(|home| root.starts_with(home));
        let is_in_home = move |directory: &&Path| home.is_none_or(|home| directory.starts_with(home));
        let above = root.ancestors().skip(1).take_while(is_in_home);
        below.ancestors().map(|directory| Self::Project(repository, directory)).chain(above.map(Self::Above))
    }

    /// Returns whether its files are the user's, which are trusted text.
    pub(super) fn is_users(self) -> bool {
        matches!(self, Self::User(_))
    }

    fn path(self, name: &str) -> PathBuf {
        match self {
            Self::User(directory) => directory.root().join(name),
            Self::Above(directory) => directory.join(name),
            Self::Project(repository, directory) => repository.root().join(directory).join(name),
        }
    }

    /// Returns the path of a file as people see it: from the root of the repository, or else absolute.
    pub(super) fn shown(self, name: &str) -> PathBuf {
        match self {
            Self::Project(_, directory) => directory.join(name),
            Self::User(_) | Self::Above(_) => self.path(name),
        }
    }

    /// Returns the place of a file that another file of this directory includes. None for a file above the repository, and in a
    /// repository for one outside of it or that is no text for people: its content goes to the model without a question.
    pub(super) fn included(self, by: &str, path: &str) -> Option<(Self, String)> {
        let beside = Path::new(by).parent().unwrap_or(Path::new("")).join(path);
        match self {
            Self::User(directory) => Some((Self::User(directory), beside.to_str()?.to_owned())),
            Self::Above(_) => None,
            Self::Project(repository, directory) => {
                let mut whole = PathBuf::new();
                for part in directory.join(beside).components() {
                    match part {
                        Component::Normal(name) => whole.push(name),
                        Component::CurDir => {}
                        Component::ParentDir if whole.pop() => {}
                        _ => return None,
                    }
                }
                let is_text = whole.extension().is_some_and(|ending| TEXTS.iter().any(|text| ending == *text));
                is_text.then_some((Self::Project(repository, Path::new("")), whole.to_str()?.to_owned()))
            }
        }
    }

    /// Returns whether a file exists. It may still be refused.
    pub(super) fn exists(self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok_and(|metadata| !metadata.is_dir())
    }

    /// Reads the first `most` bytes of a file; returns `None` if it does not exist.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(super) fn read(self, name: &str, most: u64) -> Result<Option<FileText>, Refusal> {
        let text = match self {
            Self::User(_) => {
                let Ok(real) = self.path(name).canonicalize() else { return self.missing(name) };
                let (Some(directory), Some(name)) = (real.parent(), real.file_name()) else { return Ok(None) };
                let directory = Repository::at(directory).map_err(Refusal::Io)?;
                directory.read_start(Path::new(name), Links::Never, most)?
            }
            Self::Above(directory) => owned_files::read_start(directory, name, most)?,
            Self::Project(repository, directory) => {
                repository.read_start(&directory.join(name), Links::ToMarkdown, most)?
            }
        };
        text.map_or_else(|| self.missing(name), |text| Ok(Some(text)))
    }

    /// Tells a link to nothing from no file.
    fn missing(self, name: &str) -> Result<Option<FileText>, Refusal> {
        match self.path(name).symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => Err(Refusal::Dangling),
            _ => Ok(None),
        }
    }

    /// Returns the reason why a file is excluded, under its own name, behind links or under another name. The user's files
    /// never are.
    pub(super) fn exclusion(self, name: &str, exclusions: &Finder) -> Option<String> {
        if self.is_users() {
            return None;
        }
        let path = self.path(name);
        let real = path.canonicalize().ok()?;
        let by_name =
            [&path, &real].into_iter().find_map(|path| exclusions.exclusions().find_pattern(path, false).cloned());
        let has_names = |id: &FileId| id.names > 1;
        let by_file = || exclusions.of_file(&FileId::from_metadata(&std::fs::metadata(&real).ok()?).filter(has_names)?);
        by_name.or_else(by_file).map(|pattern| pattern.to_string())
    }
}
