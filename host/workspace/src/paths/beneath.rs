//! Resolving a path beneath an open directory, and finding its real location.
//!
//! The path is walked one component at a time. Each is opened relative to the handle of the one before, without
//! following links; links are read and walked the same way. So the walk cannot leave its starting directory, and it
//! knows the location of every handle on its way. Its result is the handle of a directory and a name in it; the caller
//! must not follow a link at that name.
//!
//! The location is the one at the moment of the walk. Guests may rename things meanwhile, but no guest can move anything from
//! one kind of place to another (see [`crate::grants::policy`]), so a decision about the location stays valid.

use cap_primitives::fs::{self, FollowSymlinks, Metadata};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Links that one walk follows.
const MAX_LINKS: usize = 40;
/// Directories below the first one; each holds a descriptor during the walk.
const MAX_DEPTH: usize = 256;

/// The result of a walk: a name in an open directory.
#[derive(Debug)]
pub struct Spot {
    /// The directory.
    pub directory: Arc<File>,
    /// The real path of the directory.
    pub location: PathBuf,
    /// The name in the directory; `None` for the directory itself. It may name a link, unless links were followed.
    pub name: Option<OsString>,
    /// The metadata at that name; `None` when there was nothing, or for the directory itself.
    pub found: Option<Metadata>,
    /// The locations of the links that were followed.
    pub links: Vec<PathBuf>,
}

/// Treatment of a link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// Follow the link.
    Follow,
    /// Return the link itself.
    Keep,
}

/// Decides whether a missing directory may be created at a location.
pub type MayMake<'a> = &'a dyn Fn(&Path) -> io::Result<()>;

impl Spot {
    /// The location of the name, or of the directory itself.
    pub fn target(&self) -> PathBuf {
        match &self.name {
            Some(name) => self.location.join(name),
            None => self.location.clone(),
        }
    }

    /// The metadata at the name now, which may differ from the walk's result. Links are not followed.
    pub fn metadata_now(&self) -> io::Result<Option<Metadata>> {
        let Some(name) = &self.name else { return Ok(None) };
        match fs::stat(&self.directory, Path::new(name), FollowSymlinks::No) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Resolves `path` beneath `directory`, whose real path is `location`.
///
/// # Errors
/// A directory on the way is missing, or the path leads out of `directory`.
pub fn find(directory: &Arc<File>, location: &Path, path: &Path, end: AtEnd) -> io::Result<Spot> {
    PathWalk::new(directory, location).to(path, end, None)
}

/// Resolves a path like [`find`], and creates missing directories on the way if `may_make` allows each.
pub fn find_or_make(directory: &Arc<File>, location: &Path, path: &Path, may_make: MayMake<'_>) -> io::Result<Spot> {
    PathWalk::new(directory, location).to(path, AtEnd::Follow, Some(may_make))
}

struct PathWalk {
    /// The directories from the first to the current one.
    directories: Vec<Arc<File>>,
    location: PathBuf,
    /// The rest of the path, the next component last.
    left: Vec<OsString>,
    /// The locations of the links that were followed.
    links: Vec<PathBuf>,
}

impl PathWalk {
    fn new(directory: &Arc<File>, location: &Path) -> Self {
        Self {
            directories: vec![directory.clone()],
            location: location.to_owned(),
            left: Vec::new(),
            links: Vec::new(),
        }
    }

    fn to(mut self, path: &Path, end: AtEnd, may_make: Option<MayMake<'_>>) -> io::Result<Spot> {
        if path.as_os_str().is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        // A slash at the end means the target of a link.
        let end = if ends_in_directory(path) { AtEnd::Follow } else { end };
        self.push(path)?;
        while let Some(name) = self.left.pop() {
            if name == ".." {
                self.enter_parent()?;
            } else if self.left.is_empty() {
                match self.last(name, end)? {
                    Some(spot) => return Ok(spot),
                    None => continue,
                }
            } else {
                self.down(&name, may_make)?;
            }
        }
        let (location, links) = (self.location, self.links);
        let directory = self.directories.pop().ok_or(io::ErrorKind::NotFound)?;
        Ok(Spot { directory, location, name: None, found: None, links })
    }

    fn push(&mut self, path: &Path) -> io::Result<()> {
        for component in path.components().rev() {
            match component {
                Component::CurDir => {}
                Component::ParentDir => self.left.push("..".into()),
                Component::Normal(name) => self.left.push(name.to_owned()),
                Component::RootDir | Component::Prefix(_) => return Err(leads_out()),
            }
        }
        Ok(())
    }

    fn enter_parent(&mut self) -> io::Result<()> {
        if self.directories.len() < 2 {
            return Err(leads_out());
        }
        self.directories.pop();
        self.location.pop();
        Ok(())
    }

    fn here(&self) -> io::Result<&Arc<File>> {
        self.directories.last().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn last(&mut self, name: OsString, end: AtEnd) -> io::Result<Option<Spot>> {
        let here = self.here()?.clone();
        let (location, links) = (PathBuf::new(), Vec::new());
        let mut spot = Spot { directory: here, location, name: Some(name), found: None, links };
        spot.found = spot.metadata_now()?;
        if end == AtEnd::Follow
            && spot.found.as_ref().is_some_and(Metadata::is_symlink)
            && let Some(name) = &spot.name
        {
            self.follow(name)?;
            return Ok(None);
        }
        spot.location = std::mem::take(&mut self.location);
        spot.links = std::mem::take(&mut self.links);
        Ok(Some(spot))
    }

    fn down(&mut self, name: &OsString, may_make: Option<MayMake<'_>>) -> io::Result<()> {
        let here = self.here()?;
        let error = match open_directory(here, Path::new(name)) {
            Ok(directory) => return self.enter(directory, name),
            Err(error) => error,
        };
        if fs::read_link(here, Path::new(name)).is_ok() {
            return self.follow(name);
        }
        match may_make {
            Some(may_make) if error.kind() == io::ErrorKind::NotFound => {
                may_make(&self.location.join(name))?;
                match fs::create_dir(here, Path::new(name), &fs::DirOptions::new()) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => {}
                }
                let made = open_directory(here, Path::new(name))?;
                self.enter(made, name)
            }
            _ => Err(error),
        }
    }

    fn enter(&mut self, directory: File, name: &OsString) -> io::Result<()> {
        if self.directories.len() > MAX_DEPTH {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        self.directories.push(Arc::new(directory));
        self.location.push(name);
        Ok(())
    }

    fn follow(&mut self, name: &OsString) -> io::Result<()> {
        self.links.push(self.location.join(name));
        if self.links.len() > MAX_LINKS {
            return Err(io::Error::other("too many links"));
        }
        let target = fs::read_link(self.here()?, Path::new(name))?;
        self.push(&target)
    }
}

fn ends_in_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.") || (cfg!(windows) && bytes.ends_with(b"\\"))
}

/// Opens a directory by its name in another, for lookups in it. A link is an error.
#[cfg(target_os = "linux")]
pub fn open_directory(directory: &File, name: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?.into())
}

/// Opens a directory by its name in another. A link is an error.
#[cfg(not(target_os = "linux"))]
pub fn open_directory(directory: &File, name: &Path) -> io::Result<File> {
    fs::open_dir_nofollow(directory, name)
}

/// The error of a path that leads out, as the system would report it.
fn leads_out() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn find_in(directory: &Path, path: &str, end: AtEnd) -> io::Result<Spot> {
        let open = Arc::new(File::open(directory).unwrap());
        find(&open, Path::new("/at"), Path::new(path), end)
    }

    fn target(directory: &Path, path: &str) -> Option<PathBuf> {
        find_in(directory, path, AtEnd::Follow).ok().map(|spot| spot.target())
    }

    #[test]
    fn locations_are_those_of_link_targets() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("a/b")).unwrap();
        std::fs::write(directory.path().join("a/b/file"), "x").unwrap();
        symlink("a/b", directory.path().join("link")).unwrap();
        symlink("../link/file", directory.path().join("a/there")).unwrap();
        for (path, expected) in [
            ("a/b/file", "/at/a/b/file"),
            ("./a/../link/file", "/at/a/b/file"),
            ("a/there", "/at/a/b/file"),
            ("link/", "/at/a/b"),
            ("link/..", "/at/a"),
            ("a/b/new", "/at/a/b/new"),
            (".", "/at"),
        ] {
            assert_eq!(target(directory.path(), path), Some(expected.into()), "{path}");
        }
        let kept = find_in(directory.path(), "a/there", AtEnd::Keep).unwrap();
        assert!(kept.target() == Path::new("/at/a/there") && kept.found.unwrap().is_symlink());
    }

    #[test]
    fn paths_and_links_that_lead_out_are_refused() {
        let outside = tempfile::tempdir().unwrap();
        let directory = outside.path().join("inside");
        std::fs::create_dir(&directory).unwrap();
        symlink("..", directory.join("up")).unwrap();
        symlink("/etc", directory.join("absolute")).unwrap();
        symlink("round", directory.join("round")).unwrap();
        for path in ["..", "../inside", "up", "up/x", "absolute/passwd", "/etc/passwd", "round", "round/x", ""] {
            assert_eq!(target(&directory, path), None, "{path}");
        }
    }

    #[test]
    fn missing_directories_are_created_only_where_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let open = Arc::new(File::open(directory.path()).unwrap());
        let may_make = |location: &Path| match location.ends_with("no") {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => Ok(()),
        };
        let at = Path::new("/at");
        let made = find_or_make(&open, at, Path::new("a/b/file"), &may_make).unwrap();
        assert!(made.target() == Path::new("/at/a/b/file") && directory.path().join("a/b").is_dir());
        assert!(find_or_make(&open, at, Path::new("a/no/file"), &may_make).is_err());
        assert!(!directory.path().join("a/no").exists());
    }
}
