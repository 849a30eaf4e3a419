//! Granted directories, each opened once.
//!
//! A grant inside the workspace is opened beneath the workspace's own handle, and no component of its path may be a link,
//! because the user granted a place in the project and the project must not move it. In a grant elsewhere, links are
//! followed once, when the plugin is loaded. A directory that is missing then is opened by the first call that needs it.
//! After that, only handles are used.

use super::access::Access;
use crate::paths::beneath;
use crate::paths::protected::{Protected, is_in_system};
use crate::paths::real::real;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The workspace root.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The absolute path, as the application named it.
    path: PathBuf,
    /// The path without links.
    real: PathBuf,
    directory: OnceLock<Arc<File>>,
}

/// A granted directory.
#[derive(Debug)]
pub(crate) struct Root {
    /// The path as the user wrote it, made absolute.
    pub(crate) path: PathBuf,
    /// Its location.
    pub(crate) real: PathBuf,
    pub(crate) access: Access,
    /// Its path beneath the workspace; none for one elsewhere.
    in_workspace: Option<PathBuf>,
    opened: OnceLock<Arc<Opened>>,
}

/// An open granted directory.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) directory: Arc<File>,
    /// Locations in it that are denied; mostly none.
    pub(crate) denied: Vec<PathBuf>,
    device: Option<u64>,
}

impl Workspace {
    pub(crate) fn new(path: &Path) -> Arc<Self> {
        let workspace = Self { path: path.to_owned(), real: real(path), directory: OnceLock::new() };
        // One that is missing now may be there when a call needs it.
        let _ = workspace.directory();
        Arc::new(workspace)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn real(&self) -> &Path {
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

impl Root {
    pub(crate) fn new(workspace: &Workspace, path: &Path, access: Access) -> Self {
        let path = lexically_normal(&workspace.path.join(path));
        let in_workspace = workspace.relative(&path);
        let real = match &in_workspace {
            Some(relative) => workspace.real.join(relative),
            None => real(&path),
        };
        Self { path, real, access, in_workspace, opened: OnceLock::new() }
    }

    /// Returns the open directory.
    ///
    /// # Errors
    /// The directory is missing, a link that the project put there, or a place that no grant reaches.
    pub(crate) fn open(&self, workspace: &Workspace, protected: &Protected) -> io::Result<&Arc<Opened>> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        if protected.at_most(&self.real, &self.real).is_none() {
            return Err(io::Error::other("it belongs to the host or the system, and no grant reaches it"));
        }
        let directory = match &self.in_workspace {
            Some(relative) if relative.as_os_str().is_empty() => workspace.directory()?.clone(),
            Some(relative) => Arc::new(open_beneath(workspace.directory()?, relative)?),
            None if real(&self.path) != self.real => {
                return Err(io::Error::other("it leads elsewhere than when the plugin was loaded"));
            }
            None => Arc::new(open_by_path(&self.real)?),
        };
        if is_in_system(&directory) {
            return Err(io::Error::other("it shows processes, kernel or devices, and no grant reaches it"));
        }
        let (denied, device) = (protected.denied_in(&self.real), device(&directory));
        Ok(self.opened.get_or_init(|| Arc::new(Opened { directory, denied, device })))
    }

    /// Returns the names under which a guest gets it: the absolute path, and the location. There is no relative name: C
    /// libraries would take an absolute path that matches nothing for a relative one, and open another file.
    pub(crate) fn guest_names(&self) -> Vec<String> {
        let mut names = vec![self.path.clone()];
        if self.real != self.path {
            names.push(self.real.clone());
        }
        names.iter().filter_map(|name| name.to_str().map(str::to_owned)).collect()
    }

    /// Returns the path from this directory to a place in it, without looking at the file system.
    pub(crate) fn relative(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.real)).ok().map(Path::to_owned)
    }
}

impl Opened {
    /// Refuses a file of a file system, mounted inside the directory, that shows processes, kernel or devices.
    pub(crate) fn check(&self, file: &File) -> io::Result<()> {
        let is_elsewhere = device(file) != self.device;
        if is_elsewhere && is_in_system(file) { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }
}

fn device(file: &File) -> Option<u64> {
    file.metadata().ok().as_ref().and_then(crate::paths::protected::identity).map(|(device, _)| device)
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
pub(crate) fn find(root: &Root, opened: &Opened, path: &Path, end: beneath::AtEnd) -> io::Result<beneath::Spot> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    beneath::find(&opened.directory, &root.real, path, end)
}

/// Removes `.` and `..` without looking at the file system. `..` at the root stays at the root.
pub(super) fn lexically_normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
