//! Safe access to the files of a repository, which is untrusted input to the host itself.
//!
//! A [`Repository`] is a handle to a directory, opened once. Everything in it is opened beneath that handle (`openat2`
//! with `RESOLVE_BENEATH` on Linux, by cap-std). Links that lead out, absolute links and magic links of `/proc` are
//! refused in any combination. The check that a file is a regular one is made on its handle, and reads are
//! bounded. Opening never blocks, so a named pipe cannot hang the program.
//!
//! The user's own directories and paths outside of the repository are trusted; [`Located`] tells the two apart.

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use pinion_files::{NewFile, normalize_lexically};
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// A handle to a directory with untrusted content.
#[derive(Debug)]
pub struct Repository {
    root: PathBuf,
    handle: Dir,
}

/// The reason why a file of a repository is not used.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The path leads out of the repository.
    #[error("it leads out of the repository")]
    Outside,
    /// The path contains a link that must not be followed.
    #[error("it is a link, or behind one")]
    Link,
    /// A link to a file that is not Markdown.
    #[error("it is a link to a file that is not Markdown")]
    OtherKind,
    /// A link to a file that does not exist.
    #[error("it is a link to nothing")]
    Dangling,
    /// Another user put the file into a shared directory.
    #[error("it belongs to another user")]
    Owner,
    /// Others may write to the file.
    #[error("others can write to it")]
    Shared,
    /// Others may write to the directory of the file.
    #[error("others can write to its directory")]
    SharedDirectory,
    /// A directory, a pipe, a device or a socket.
    #[error("it is {0}, not a regular file")]
    NoFile(&'static str),
    /// The file exceeds the size limit in bytes.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// The system refused.
    #[error(transparent)]
    Io(io::Error),
}

/// The links that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Links that stay beneath the root.
    Inside,
    /// Links that stay beneath the root and end at a Markdown file, so that a repository cannot pass off its `.env` as
    /// its `AGENTS.md`.
    ToMarkdown,
    /// Links to a Markdown file of the same directory.
    Beside,
    /// No links.
    Never,
}

/// The beginning of a file.
#[derive(Debug)]
pub struct FileText {
    /// The content, up to the limit.
    pub bytes: Vec<u8>,
    /// The file is longer than the text that was read.
    pub is_cut: bool,
}

impl Repository {
    /// Opens the repository that contains `workspace`, which must be canonical.
    ///
    /// Its root is the innermost directory at or above `workspace` that contains `.git`, or else the workspace. The
    /// search ends at `home` and at any directory that others may have prepared: one that is world-writable, or that
    /// belongs to anyone but the user, root and the owner of the workspace. Neither is ever a root, unless it is the
    /// workspace itself.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn around(workspace: &Path, home: Option<&Path>) -> io::Result<Self> {
        Self::at(top_of(workspace, home))
    }

    /// Opens a directory.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn at(root: &Path) -> io::Result<Self> {
        Ok(Self { root: root.to_owned(), handle: Dir::open_ambient_dir(root, ambient_authority())? })
    }

    /// Returns the directory of the repository.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the metadata of the directory that was opened.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.handle.try_clone()?.into_std_file().metadata()
    }

    /// Reads a file of at most `most` bytes; returns `None` if it does not exist.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn read(&self, path: &Path, links: Links, most: u64) -> Result<Option<Vec<u8>>, Refusal> {
        match self.read_start(path, links, most)? {
            Some(text) if text.is_cut => Err(Refusal::TooLarge(most)),
            text => Ok(text.map(|text| text.bytes)),
        }
    }

    /// Reads the first `most` bytes of a file; returns `None` if it does not exist.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn read_start(&self, path: &Path, links: Links, most: u64) -> Result<Option<FileText>, Refusal> {
        let Some(file) = self.open(path, links)? else { return Ok(None) };
        start_of(file, most).map(Some)
    }

    /// Opens a regular file without blocking; returns `None` if it does not exist, or is a link to nothing.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn open(&self, path: &Path, links: Links) -> Result<Option<File>, Refusal> {
        if normalize_lexically(path).as_os_str().is_empty() {
            return Err(Refusal::NoFile("a directory"));
        }
        let Some(real) = found(self.handle.canonicalize(path))? else { return Ok(None) };
        check_links(path, &real, links)?;
        match open_in(&self.handle, &real) {
            Err(Refusal::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Ok(file) if links == Links::ToMarkdown && !self.is_vouched_for(&real, &file) => Err(Refusal::Owner),
            opened => opened.map(Some),
        }
    }

    /// Returns whether a file belongs to the user, root or the owner of the root, or is in a directory that only they
    /// can write.
    fn is_vouched_for(&self, path: &Path, file: &File) -> bool {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let Ok(directory) = std::fs::metadata(self.root.join(directory)) else { return false };
        let owners = Some(owner(&directory));
        is_vouched_for(&directory, owners) || file.metadata().is_ok_and(|file| is_known_owner(&file, owners))
    }

    /// Opens a directory beneath the root without following links; returns `None` if it does not exist.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn directory(&self, path: &Path) -> Result<Option<Dir>, Refusal> {
        let Some(real) = found(self.handle.canonicalize(path))? else {
            // A dangling link is still a link.
            return match self.handle.symlink_metadata(path) {
                Ok(_) => Err(Refusal::Link),
                Err(_) => Ok(None),
            };
        };
        check_links(path, &real, Links::Never)?;
        found(self.handle.open_dir(&real))
    }

    /// Returns whether an entry of any kind exists at this path.
    pub fn has(&self, path: &Path) -> bool {
        self.handle.symlink_metadata(path).is_ok()
    }

    /// Replaces the content of a file in one step, keeping its mode. Creates missing directories. A link that stays
    /// beneath the root stays a link.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn replace(&self, path: &Path, text: &[u8]) -> Result<(), Refusal> {
        let real = found(self.handle.canonicalize(path))?;
        let before = match &real {
            Some(real) => Some(self.handle.symlink_metadata(real).map_err(Refusal::from)?),
            None => None,
        };
        if let Some(before) = before.as_ref().filter(|before| !before.is_file()) {
            return Err(Refusal::NoFile(kind(before)));
        }
        let (directory, name) = self.parent(real.as_deref().unwrap_or(path))?;
        let new = write_new(&directory, text, before.as_ref().map(|before| before.permissions()))?;
        Ok(new.publish(name.as_os_str(), before.is_none())?)
    }

    /// Creates a file under the first unused name of `names` in one step, and returns that name, or `None` if all are
    /// taken. Creates the directory if it is missing; it must not be reached through a link.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn create(
        &self,
        directory: &Path,
        names: impl IntoIterator<Item = String>,
        text: &[u8],
    ) -> Result<Option<String>, Refusal> {
        if let Some(real) = found(self.handle.canonicalize(directory))? {
            check_links(directory, &real, Links::Never)?;
        }
        self.handle.create_dir_all(directory).map_err(Refusal::from)?;
        let Some(directory) = self.directory(directory)? else { return Err(Refusal::Outside) };
        let mut new = write_new(&directory, text, None)?;
        for name in names {
            match new.publish_new(name.as_ref()) {
                Ok(()) => return Ok(Some(name)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Opens the directory that contains `path`, creating it if it is missing, and returns it with the file name.
    fn parent(&self, path: &Path) -> Result<(Dir, PathBuf), Refusal> {
        let name = path.file_name().map(PathBuf::from).ok_or(Refusal::NoFile("a directory"))?;
        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => {
                self.handle.create_dir_all(parent).map_err(Refusal::from)?;
                Ok((self.handle.open_dir(parent).map_err(Refusal::from)?, name))
            }
            None => Ok((self.handle.try_clone().map_err(Refusal::Io)?, name)),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        // cap-std reports an escape as a special error, without an OS error code.
        let is_escape = error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none();
        if is_escape { Self::Outside } else { Self::Io(error) }
    }
}

/// A path that the user named, with the directory handle to open it from.
#[derive(Debug)]
pub struct Located {
    /// The repository, or the directory of the file outside of one.
    pub repository: Repository,
    /// Relative to the root of `repository`.
    pub path: PathBuf,
}

impl Located {
    /// Locates a path. One in the repository around `workspace` is opened beneath that root. One outside is trusted:
    /// links to its directory are followed, and the directory is created if `make` says so.
    ///
    /// # Errors
    /// The directory does not exist.
    pub fn find(workspace: &Path, home: Option<&Path>, path: &Path, make: Make) -> io::Result<Self> {
        let path = normalize_lexically(&workspace.join(path));
        let repository = Repository::around(workspace, home)?;
        if let Some(inside) = inside(repository.root(), &path) {
            return Ok(Self { repository, path: inside });
        }
        let real = path.canonicalize().unwrap_or(path);
        let directory = real.parent().ok_or_else(|| io::Error::other("it is a directory"))?;
        if make == Make::Directories {
            std::fs::create_dir_all(directory)?;
        }
        let name = real.file_name().map(PathBuf::from).ok_or_else(|| io::Error::other("it is a directory"))?;
        Ok(Self { repository: Repository::at(directory)?, path: name })
    }
}

/// Controls whether missing directories of a path outside of the repository are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Make {
    /// Directories on the way that are missing.
    Directories,
    /// Nothing: a missing directory is an error.
    Nothing,
}

/// Returns the part of `path` beneath `root`, if any directory on the way is the root or inside it. The first such
/// directory decides, so that later links are followed beneath the root or not at all.
fn inside(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut above: Vec<&Path> = path.ancestors().collect();
    above.reverse();
    above.into_iter().find_map(|directory| {
        let real = directory.canonicalize().ok()?;
        Some(real.strip_prefix(root).ok()?.join(path.strip_prefix(directory).ok()?))
    })
}

/// Opens a regular file of a directory without blocking and without following a link at the end of the path.
///
/// # Errors
/// See [`Refusal`].
pub fn open_in(directory: &Dir, path: impl AsRef<Path>) -> Result<File, Refusal> {
    // Opening a device can have effects, so the kind is checked before opening and again on the handle.
    let metadata = directory.symlink_metadata(&path).map_err(Refusal::from)?;
    if !metadata.is_file() {
        return Err(Refusal::NoFile(kind(&metadata)));
    }
    let file = directory.open_with(&path, &to_read()).map_err(Refusal::from)?.into_std();
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(file),
        Ok(_) => Err(Refusal::NoFile("something else now")),
        Err(error) => Err(Refusal::Io(error)),
    }
}

/// Reads the first `most` bytes of an open file.
///
/// # Errors
/// The file cannot be read.
pub fn start_of(file: File, most: u64) -> Result<FileText, Refusal> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(Refusal::Io)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let is_cut = bytes.len() > most;
    bytes.truncate(most);
    Ok(FileText { bytes, is_cut })
}

/// Turns the error of a missing file into `None`.
fn found<T>(result: io::Result<T>) -> Result<Option<T>, Refusal> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn check_links(path: &Path, real: &Path, links: Links) -> Result<(), Refusal> {
    let is_direct = normalize_lexically(path) == real;
    let is_markdown = real.extension().is_some_and(|end| ["md", "mdc", "markdown"].iter().any(|name| end == *name));
    match links {
        Links::Inside => Ok(()),
        Links::ToMarkdown if is_direct || is_markdown => Ok(()),
        Links::Beside if real.parent() != normalize_lexically(path).parent() => Err(Refusal::Link),
        Links::Beside if is_direct || is_markdown => Ok(()),
        Links::ToMarkdown | Links::Beside => Err(Refusal::OtherKind),
        Links::Never if is_direct => Ok(()),
        Links::Never => Err(Refusal::Link),
    }
}

fn kind(metadata: &cap_std::fs::Metadata) -> &'static str {
    match metadata.file_type() {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a link",
        _ => "a pipe, a socket or a device",
    }
}

fn to_read() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    flags(&mut options);
    options
}

/// Opens without blocking, without acquiring a terminal and without following a link at the end of the path.
#[cfg(unix)]
fn flags(options: &mut OpenOptions) {
    use rustix::fs::OFlags;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    cap_std::fs::OpenOptionsExt::custom_flags(options, flags.bits().cast_signed());
}

/// Adds no flags: on other systems links are resolved beneath the root, and named pipes do not live among files.
#[cfg(not(unix))]
fn flags(_options: &mut OpenOptions) {}

/// Writes a new file with the content and the mode of a file that it replaces, without its name.
fn write_new<'a>(
    directory: &'a Dir,
    text: &[u8],
    permissions: Option<cap_std::fs::Permissions>,
) -> io::Result<NewFile<'a>> {
    let new = NewFile::named(directory, permissions.is_some())?;
    new.file().write_all(text)?;
    permissions.map_or(Ok(()), |permissions| new.file().set_permissions(permissions))?;
    new.file().sync_all()?;
    Ok(new)
}

/// Returns the root of the repository around a workspace.
fn top_of<'a>(workspace: &'a Path, home: Option<&Path>) -> &'a Path {
    let owner = std::fs::metadata(workspace).ok().map(|metadata| owner(&metadata));
    let is_ours = |directory: &Path| {
        let is_home = home.is_some_and(|home| home.starts_with(directory));
        !is_home && std::fs::metadata(directory).is_ok_and(|metadata| is_vouched_for(&metadata, owner))
    };
    let candidates = workspace.ancestors().enumerate().take_while(|(up, directory)| *up == 0 || is_ours(directory));
    let marked = |directory: &Path| std::fs::symlink_metadata(directory.join(".git")).is_ok();
    candidates.map(|(_, directory)| directory).find(|directory| marked(directory)).unwrap_or(workspace)
}

#[cfg(unix)]
fn owner(metadata: &Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::uid(metadata)
}

#[cfg(not(unix))]
fn owner(_metadata: &Metadata) -> u32 {
    0
}

/// Returns whether only the user, root and the owner of the workspace could put files into this directory.
#[cfg(unix)]
fn is_vouched_for(directory: &Metadata, workspace_owner: Option<u32>) -> bool {
    is_known_owner(directory, workspace_owner) && std::os::unix::fs::MetadataExt::mode(directory) & 0o002 == 0
}

#[cfg(not(unix))]
fn is_vouched_for(_directory: &Metadata, _workspace_owner: Option<u32>) -> bool {
    true
}

/// Returns whether something belongs to the user, root or `other`.
#[cfg(unix)]
fn is_known_owner(metadata: &Metadata, other: Option<u32>) -> bool {
    let owner = owner(metadata);
    owner == 0 || owner == rustix::process::geteuid().as_raw() || Some(owner) == other
}

#[cfg(not(unix))]
fn is_known_owner(_metadata: &Metadata, _other: Option<u32>) -> bool {
    true
}
