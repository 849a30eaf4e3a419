//! Granted directories, each opened once.
//!
//! A grant inside the workspace is opened beneath the workspace's own handle, and no component of its path may be a link,
//! because the user granted a place in the project and the project must not move it. In a grant elsewhere, links are
//! followed once, when the plugin is loaded. A directory that is missing then is opened by the first call that needs it.
//! After that, only handles are used.
//!
//! The grant of a single file opens the directory that holds it; the policy allows only the file there. The file itself
//! must not be a link. Each operation finds it by its name, so that it may be replaced by another file.

use super::access::FileAccess;
use super::protected::{Protected, is_in_system};
use crate::paths::beneath;
use crate::paths::identity::of_file;
use crate::paths::real::real;
use cap_primitives::fs::FollowSymlinks;
use pinion_files::normalize_lexically;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The workspace root.
#[derive(Debug)]
pub struct WorkspaceRoot {
    /// The absolute path, as the application named it.
    path: PathBuf,
    /// The path without links.
    real: PathBuf,
    directory: OnceLock<Arc<File>>,
}

/// A granted directory.
#[derive(Debug)]
pub struct GrantedRoot {
    /// The path as the user wrote it, made absolute.
    pub path: PathBuf,
    /// Its location.
    pub real: PathBuf,
    /// The granted access.
    pub access: FileAccess,
    /// Its path beneath the workspace; `None` for a directory elsewhere.
    in_workspace: Option<PathBuf>,
    opened: OnceLock<Arc<OpenRoot>>,
    /// The directory of a granted file that is missing, for the call that creates it.
    for_new_file: OnceLock<Arc<OpenRoot>>,
}

/// An open granted directory, or the directory of a granted file.
#[derive(Debug)]
pub struct OpenRoot {
    /// The handle.
    pub directory: Arc<File>,
    /// The location of `directory`.
    pub location: PathBuf,
    /// The name of the granted file in it; `None` for a granted directory.
    file: Option<OsString>,
    /// Locations in it that are denied; mostly empty.
    pub denied: Vec<PathBuf>,
    device: Option<u64>,
}

impl WorkspaceRoot {
    /// Opens the root. One that is missing is opened by the first call that needs it.
    pub fn new(path: &Path) -> Arc<Self> {
        let workspace = Self { path: path.to_owned(), real: real(path), directory: OnceLock::new() };
        // One that is missing now may be there when a call needs it.
        let _ = workspace.directory();
        Arc::new(workspace)
    }

    /// The absolute path, as the application named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path without links.
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// Returns the path from the workspace root; `None` for a path elsewhere.
    fn relative(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.real)).ok().map(Path::to_owned)
    }

    fn directory(&self) -> io::Result<&Arc<File>> {
        if let Some(directory) = self.directory.get() {
            return Ok(directory);
        }
        let directory = open_by_path(&self.real)?;
        Ok(self.directory.get_or_init(|| Arc::new(directory)))
    }
}

impl GrantedRoot {
    /// Resolves a granted path, absolute or relative to the workspace. Nothing is opened yet.
    pub fn new(workspace: &WorkspaceRoot, path: &Path, access: FileAccess) -> Self {
        let path = normalize_lexically(&workspace.path.join(path));
        let in_workspace = workspace.relative(&path);
        let real = match &in_workspace {
            Some(relative) => workspace.real.join(relative),
            None => real(&path),
        };
        Self { path, real, access, in_workspace, opened: OnceLock::new(), for_new_file: OnceLock::new() }
    }

    /// Returns the open directory, or the one that holds the granted file.
    ///
    /// # Errors
    /// The directory is missing, a link that the project put there, or a place that no grant reaches; or the file is a link.
    pub fn open(&self, workspace: &WorkspaceRoot, protected: &Protected) -> io::Result<&Arc<OpenRoot>> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let (directory, file) = match self.open_directory(workspace, protected, false) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                let (directory, name) = self.open_parent(workspace, protected)?;
                let found = cap_primitives::fs::stat(&directory, Path::new(name), FollowSymlinks::No)?;
                if !found.is_file() {
                    return Err(io::Error::other("it is neither a directory nor a regular file"));
                }
                (directory, Some(name.to_owned()))
            }
            directory => (directory?, None),
        };
        let opened = self.with(directory, file, protected);
        Ok(self.opened.get_or_init(|| Arc::new(opened)))
    }

    /// Returns the open directory where a call creates the granted file.
    ///
    /// # Errors
    /// The errors of [`GrantedRoot::open`], for the directory.
    pub fn open_for_new_file(&self, workspace: &WorkspaceRoot, protected: &Protected) -> io::Result<&Arc<OpenRoot>> {
        if let Some(opened) = self.for_new_file.get() {
            return Ok(opened);
        }
        let (directory, name) = self.open_parent(workspace, protected)?;
        let opened = self.with(directory, Some(name.to_owned()), protected);
        Ok(self.for_new_file.get_or_init(|| Arc::new(opened)))
    }

    fn with(&self, directory: Arc<File>, file: Option<OsString>, protected: &Protected) -> OpenRoot {
        let location = directory_of(&self.real, file.is_some()).to_owned();
        let (denied, device) = (protected.denied_in(&location), device(&directory));
        OpenRoot { directory, location, file, denied, device }
    }

    /// Opens the directory of a granted file. Returns the file's name.
    fn open_parent(&self, workspace: &WorkspaceRoot, protected: &Protected) -> io::Result<(Arc<File>, &OsStr)> {
        let name = self.path.file_name().ok_or(io::ErrorKind::NotADirectory)?;
        if self.real.file_name() != Some(name) || std::fs::symlink_metadata(&self.path).is_ok_and(|it| it.is_symlink())
        {
            let place = self.real.display();
            return Err(io::Error::other(format!("it is a symbolic link; grant the file `{place}` by its own path")));
        }
        Ok((self.open_directory(workspace, protected, true)?, name))
    }

    /// Opens the granted directory, or the one that holds the granted file.
    fn open_directory(&self, workspace: &WorkspaceRoot, protected: &Protected, is_file: bool) -> io::Result<Arc<File>> {
        if protected.at_most(&self.real, &self.real).is_none() {
            return Err(io::Error::other("it belongs to the host or the system, and no grant reaches it"));
        }
        let directory = match &self.in_workspace {
            Some(relative) => match directory_of(relative, is_file) {
                relative if relative.as_os_str().is_empty() => workspace.directory()?.clone(),
                relative => Arc::new(open_beneath(workspace.directory()?, relative)?),
            },
            None if real(&self.path) != self.real => {
                return Err(io::Error::other("it leads elsewhere than when the plugin was loaded"));
            }
            None => Arc::new(open_by_path(directory_of(&self.real, is_file))?),
        };
        if is_in_system(&directory) {
            return Err(io::Error::other("it shows processes, kernel or devices, and no grant reaches it"));
        }
        Ok(directory)
    }

    /// Returns its names for a guest: the absolute path, and the location. There is no relative name: C libraries would
    /// take an absolute path that matches nothing for a relative one, and open another file.
    pub fn guest_names(&self, opened: &OpenRoot) -> Vec<String> {
        let directory = |path: &Path| directory_of(path, opened.is_file()).to_owned();
        let mut names = vec![directory(&self.path)];
        if self.real != self.path && !names.contains(&directory(&self.real)) {
            names.push(directory(&self.real));
        }
        names.iter().filter_map(|name| name.to_str().map(str::to_owned)).collect()
    }

    /// Returns the path from this directory to a place in it, without looking at the file system.
    pub fn relative(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.real)).ok().map(Path::to_owned)
    }
}

impl OpenRoot {
    /// Returns the path in [`OpenRoot::directory`] of a path in the granted directory, or of the granted file.
    pub fn path<'p>(&'p self, path: &'p Path) -> Cow<'p, Path> {
        match &self.file {
            Some(file) if path.as_os_str().is_empty() => Cow::Borrowed(Path::new(file)),
            Some(file) => Cow::Owned(Path::new(file).join(path)),
            None if path.as_os_str().is_empty() => Cow::Borrowed(Path::new(".")),
            None => Cow::Borrowed(path),
        }
    }

    /// Returns whether it is the directory of a granted file.
    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Refuses a file of a file system, mounted inside the directory, that shows processes, kernel or devices.
    pub fn check(&self, file: &File) -> io::Result<()> {
        let is_elsewhere = device(file) != self.device;
        if is_elsewhere && is_in_system(file) { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }
}

/// Returns the directory of a granted path.
fn directory_of(path: &Path, is_file: bool) -> &Path {
    if is_file { path.parent().unwrap_or(path) } else { path }
}

fn device(file: &File) -> Option<u64> {
    file.metadata().ok().as_ref().and_then(of_file).map(|(device, _)| device)
}

fn open_by_path(path: &Path) -> io::Result<File> {
    Ok(cap_std::fs::Dir::open_ambient_dir(path, cap_std::ambient_authority())?.into_std_file())
}

/// Opens a directory of the workspace; a link in its path is an error.
fn open_beneath(workspace: &Arc<File>, relative: &Path) -> io::Result<File> {
    let mut directory = workspace.clone();
    let mut opened = None;
    for name in relative.iter().map(Path::new) {
        let next =
            cap_primitives::fs::open_dir_nofollow(&directory, name).map_err(
                |error| match cap_primitives::fs::read_link(&directory, name) {
                    Ok(_) => io::Error::other(format!(
                        "`{}` is a symbolic link, which a granted directory of the workspace must not be",
                        name.display()
                    )),
                    Err(_) => error,
                },
            )?;
        let next = Arc::new(next);
        directory = next.clone();
        opened = Some(next);
    }
    // The last one is held here alone.
    drop(directory);
    opened.and_then(Arc::into_inner).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Finds a place beneath an open granted directory.
pub fn find(opened: &OpenRoot, path: &Path, end: beneath::AtEnd) -> io::Result<beneath::Spot> {
    beneath::find(&opened.directory, &opened.location, &opened.path(path), end)
}
