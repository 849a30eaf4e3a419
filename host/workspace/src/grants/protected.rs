//! Protected paths: the single list of places that no grant reaches.
//!
//! There are three kinds. *Denied* directories are the host's own (config, data, cache) and the directories where the
//! system shows processes, kernel and devices: plugins cannot read or write there. *Read-only* places decide which
//! programs run next: names such as `.git` at any depth, the directory that a workspace's `.git` file points to, and
//! the files of loaded plugins. *Handed out* directories lie inside denied ones; the host grants them on purpose, and
//! plugins never write there.
//!
//! All paths here are real locations: absolute, without links. [`crate::paths::beneath`] finds the location of a path that
//! a guest names, and the runtime checks it against this list. The list does not bind the host itself.
//!
//! A workspace strictly inside a directory of the host is reachable, unless it lies in one of `HOST_PARTS`: there the
//! host's own files take precedence.

use super::access::FileAccess;
use crate::paths::identity::Identity;
use crate::paths::real::real;
use pinion_exclusions::Finder;
use pinion_files::open::open_file;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// Names that are read-only at any depth, with everything beneath them. Compared without ASCII case.
const READ_ONLY_NAMES: [&str; 3] = [".git", ".pinion", ".mcp.json"];
/// Directories where the system shows processes, kernel and devices.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Shared memory: an ordinary directory, although it lies in `/dev`. A grant may name it or a directory in it.
const SHARED_MEMORY: &str = "/dev/shm";
/// File systems that show processes, kernel or devices, wherever they are mounted.
#[cfg(target_os = "linux")]
const SYSTEM_FILE_SYSTEMS: [&str; 15] = [
    "proc",
    "sysfs",
    "devtmpfs",
    "devpts",
    "debugfs",
    "tracefs",
    "securityfs",
    "configfs",
    "cgroup",
    "cgroup2",
    "bpf",
    "pstore",
    "efivarfs",
    "fusectl",
    "binfmt_misc",
];
/// The magic numbers of these, for later mounts. `devtmpfs` has the number of `tmpfs`; devices are refused by type.
#[cfg(target_os = "linux")]
const SYSTEM_MAGIC: [u64; 13] = [
    0x9fa0,
    0x6265_6572,
    0x1cd1,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6265_6570,
    0x0027_e0eb,
    0x6367_7270,
    0xcafe_4a11,
    0x6165_676c,
    0xde5e_81e4,
    0x4249_4e4d,
];
/// Entries of the host's directories that belong to the host even if the workspace lies next to them.
const HOST_PARTS: [&str; 27] = [
    "audit.jsonl",
    "auth.toml",
    "cache",
    "cache.key",
    "checkpoints",
    "components",
    "config.toml",
    "context",
    "drafts",
    "grants.toml",
    "history",
    "mcp",
    "mcp-auth.json",
    "mcp-servers",
    "mcp.json",
    "mcp.lock",
    "models.toml",
    "output",
    "permissions.toml",
    "plugin-storage",
    "plugins",
    "recordings",
    "removed",
    "sdk",
    "sessions",
    "trust.lock",
    "trust.toml",
];
/// The directory of plugins. If it is a link, its target is read-only rather than denied, because users build plugins there.
const PLUGINS: &str = "plugins";
/// Entries of a host directory that are searched for links to other places.
const MAX_HOST_ENTRIES: usize = 1000;
/// Bytes of a `.git` file that are read.
const MAX_GIT_FILE_BYTES: u64 = 4096;

/// Directories that belong to the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostDirectories {
    /// The directories for config, data and cache, where no plugin reads or writes.
    pub private: Vec<PathBuf>,
    /// Directories inside these that a grant may name, for reading only.
    pub handed_out: Vec<PathBuf>,
    /// Other directories where no plugin reads or writes, such as the original of a workspace that is a copy.
    pub closed: Vec<PathBuf>,
}

/// The protected paths of this machine.
#[derive(Debug, Default)]
pub struct Protected {
    denied: Vec<DeniedDirectory>,
    handed_out: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
    workspace: PathBuf,
    /// The files of plugins, with the data that identifies each under other names.
    plugins: RwLock<HashMap<PathBuf, Option<Identity>>>,
    /// Files that the user keeps from everything.
    exclusions: Arc<Finder>,
}

#[derive(Debug)]
struct DeniedDirectory {
    path: PathBuf,
    /// A workspace inside it, which stays reachable.
    except: Option<PathBuf>,
}

impl Protected {
    /// Finds the protected places of this machine, for a workspace by its location.
    pub fn new(host: &HostDirectories, workspace: &Path, exclusions: Arc<Finder>) -> Self {
        let mut paths: Vec<PathBuf> = SYSTEM_DIRECTORIES.iter().map(PathBuf::from).collect();
        paths.extend(system_mounts());
        let mut denied: Vec<DeniedDirectory> =
            paths.into_iter().map(|path| DeniedDirectory { path, except: None }).collect();
        let mut read_only = git_directories(workspace);
        for directory in &host.private {
            let real = real(directory);
            let except = is_apart(&real, workspace).then(|| workspace.to_owned());
            for (name, path) in links_out_of(&real) {
                match name.as_os_str() == PLUGINS {
                    true => read_only.push(path),
                    false => denied.push(DeniedDirectory { path, except: None }),
                }
            }
            denied.push(DeniedDirectory { path: real, except });
        }
        denied.extend(host.closed.iter().map(|path| DeniedDirectory { path: real(path), except: None }));
        Self {
            denied,
            handed_out: host.handed_out.iter().map(|path| real(path)).collect(),
            read_only,
            workspace: workspace.to_owned(),
            plugins: RwLock::default(),
            exclusions,
        }
    }

    /// The files that the user keeps from everything.
    pub fn exclusions(&self) -> &Arc<Finder> {
        &self.exclusions
    }

    /// The highest access at a location, given the innermost granted directory around it. `None` where it is denied.
    pub fn at_most(&self, location: &Path, grant: &Path) -> Option<FileAccess> {
        if let Some(handed_out) = self.handed_out.iter().find(|path| grant.starts_with(path)) {
            return location.starts_with(handed_out).then_some(FileAccess::Read);
        }
        if self.denied.iter().any(|denied| denied.covers(location, grant)) {
            return None;
        }
        Some(if self.is_read_only(location) { FileAccess::Read } else { FileAccess::Write })
    }

    /// Returns whether a granted directory is one that the host hands out, such as the one for output of programs.
    pub fn is_handed_out(&self, grant: &Path) -> bool {
        self.handed_out.iter().any(|path| grant.starts_with(path))
    }

    /// The denied locations inside a directory.
    pub fn denied_in(&self, directory: &Path) -> Vec<PathBuf> {
        let inside = self.denied.iter().filter(|denied| denied.path.starts_with(directory));
        inside.map(|denied| denied.path.clone()).collect()
    }

    /// Returns whether a protected place lies at a location or inside it. Such a directory must not be moved.
    pub fn is_in(&self, location: &Path) -> bool {
        let fixed = self.denied.iter().map(|denied| &denied.path).chain(&self.handed_out).chain(&self.read_only);
        fixed.chain([&self.workspace]).any(|path| path.starts_with(location))
            || self.plugin_files().keys().any(|path| path.starts_with(location))
    }

    /// Returns whether a file is a loaded plugin's file, under any name.
    pub fn is_plugin(&self, identity: Identity) -> bool {
        self.plugin_files().values().any(|plugin| *plugin == Some(identity))
    }

    /// Protects the file of a plugin, by its location without links and by its current identity.
    pub fn add_plugin(&self, location: PathBuf, identity: Option<Identity>) {
        self.plugins.write().unwrap_or_else(PoisonError::into_inner).insert(location, identity);
    }

    fn plugin_files(&self) -> RwLockReadGuard<'_, HashMap<PathBuf, Option<Identity>>> {
        self.plugins.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_read_only(&self, location: &Path) -> bool {
        location.iter().any(is_read_only_name)
            || self.read_only.iter().any(|path| location.starts_with(path))
            || self.plugin_files().contains_key(location)
    }
}

impl DeniedDirectory {
    fn covers(&self, location: &Path, grant: &Path) -> bool {
        location.starts_with(&self.path)
            && !self.except.as_ref().is_some_and(|except| location.starts_with(except))
            && !(self.path == Path::new("/dev") && grant.starts_with(SHARED_MEMORY))
    }
}

/// Returns whether a name is read-only at any depth, in any spelling that a file system treats as the same.
pub fn is_read_only_name(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    // Nearly all names return here.
    if !bytes.first().is_some_and(|first| matches!(first, b'.' | b'g' | b'G' | 0x80..)) {
        return false;
    }
    let Some(name) = name.to_str() else { return false };
    let name = name.split(':').next().unwrap_or_default();
    // HFS+ ignores these characters; Windows strips trailing dots and spaces.
    let is_ignored = |c: &char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let folded: String = name.chars().filter(|c| !is_ignored(c)).flat_map(char::to_lowercase).collect();
    let folded = folded.trim_end_matches(['.', ' ']);
    READ_ONLY_NAMES.contains(&folded) || folded == "git~1"
}

/// Returns whether an open file lies in a file system that shows processes, kernel or devices.
#[cfg(target_os = "linux")]
pub fn is_in_system(file: &std::fs::File) -> bool {
    let magic = |stat: rustix::fs::StatFs| u64::try_from(stat.f_type).unwrap_or(0) & 0xffff_ffff;
    rustix::fs::fstatfs(file).is_ok_and(|stat| SYSTEM_MAGIC.contains(&magic(stat)))
}

/// On other systems, devices are refused by type and `/dev` by path.
#[cfg(not(target_os = "linux"))]
pub fn is_in_system(_file: &std::fs::File) -> bool {
    false
}

/// Returns whether a workspace lies strictly inside a directory of the host but outside the host's own parts of it.
fn is_apart(host: &Path, workspace: &Path) -> bool {
    workspace.starts_with(host) && !is_host_part(host, workspace)
}

/// Returns whether a path is a directory of the host, or lies in one of the host's own parts of it. Both have no links.
pub fn is_host_part(host: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(host) else { return false };
    below.iter().next().is_none_or(|first| HOST_PARTS.iter().any(|part| first.eq_ignore_ascii_case(part)))
}

/// Finds links directly in a host directory, with their targets: a key file may be kept elsewhere and linked to.
fn links_out_of(directory: &Path) -> Vec<(OsString, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().take(MAX_HOST_ENTRIES);
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let targets = links.filter_map(|entry| Some((entry.file_name(), entry.path().canonicalize().ok()?)));
    targets.filter(|(_, target)| target.parent().is_some()).collect()
}

/// Finds the directories that the workspace's own `.git` points to, if it is a link or a file `gitdir: PATH`.
fn git_directories(workspace: &Path) -> Vec<PathBuf> {
    let dot_git = workspace.join(".git");
    let Ok(metadata) = std::fs::symlink_metadata(&dot_git) else { return Vec::new() };
    if metadata.is_symlink() {
        return dot_git.canonicalize().into_iter().filter(|target| !workspace.starts_with(target)).collect();
    }
    if !metadata.is_file() {
        return Vec::new();
    }
    let Some(directory) = named_in(&dot_git, "gitdir: ") else { return Vec::new() };
    let directory = real(&workspace.join(directory));
    let common = named_in(&directory.join("commondir"), "").map(|common| real(&directory.join(common)));
    [Some(directory), common].into_iter().flatten().filter(|path| !workspace.starts_with(path)).collect()
}

/// Reads the path after `prefix` on the first line of a small regular file.
fn named_in(file: &Path, prefix: &str) -> Option<PathBuf> {
    if !std::fs::symlink_metadata(file).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    open_file(file).ok()?.take(MAX_GIT_FILE_BYTES).read_to_string(&mut text).ok()?;
    let line = text.lines().next()?.strip_prefix(prefix)?.trim_end();
    (!line.is_empty()).then(|| PathBuf::from(line))
}

/// Finds mounts of such file systems outside of the well-known directories, as in the root of a container.
#[cfg(target_os = "linux")]
fn system_mounts() -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let is_system = SYSTEM_FILE_SYSTEMS.contains(&after.split(' ').next()?);
        let path = before.split(' ').nth(4)?.replace("\\040", " ");
        let is_known = SYSTEM_DIRECTORIES.iter().any(|known| Path::new(&path).starts_with(known));
        (is_system && !is_known).then(|| PathBuf::from(path))
    };
    text.lines().filter_map(mounted).collect()
}

#[cfg(not(target_os = "linux"))]
fn system_mounts() -> Vec<PathBuf> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protected(private: &[&str], workspace: &str) -> Protected {
        let host = HostDirectories {
            private: private.iter().map(PathBuf::from).collect(),
            handed_out: vec![PathBuf::from("/h/cache/output")],
            closed: Vec::new(),
        };
        Protected::new(&host, Path::new(workspace), Arc::default())
    }

    fn at_most(protected: &Protected, location: &str, grant: &str) -> Option<FileAccess> {
        protected.at_most(Path::new(location), Path::new(grant))
    }

    #[test]
    fn read_only_names_are_found_in_every_spelling() {
        for name in
            [".git", ".GIT", ".Git", ".pinion", ".PINION", ".mcp.json", ".git ", ".git.", ".gi\u{200c}t", "GIT~1"]
        {
            assert!(is_read_only_name(OsStr::new(name)), "{name:?}");
        }
        for name in [".gitignore", ".github", "git", ".gitmodules", "pinion", ".pinions", "mcp.json", ".g"] {
            assert!(!is_read_only_name(OsStr::new(name)), "{name:?}");
        }
    }

    #[test]
    fn host_and_system_directories_are_outside_every_grant() {
        let protected = protected(&["/h"], "/w");
        for location in ["/h", "/h/auth.toml", "/proc/self/environ", "/sys/kernel", "/dev/null", "/dev/shm/x"] {
            assert_eq!(at_most(&protected, location, "/"), None, "{location}");
        }
        assert_eq!(at_most(&protected, "/w/a", "/"), Some(FileAccess::Write));
        assert_eq!(at_most(&protected, "/dev/shm/x", "/dev/shm"), Some(FileAccess::Write));
    }

    #[test]
    fn handed_out_directory_is_readable_only_by_its_own_grant() {
        let protected = protected(&["/h"], "/w");
        assert_eq!(at_most(&protected, "/h/cache/output/a", "/h/cache/output"), Some(FileAccess::Read));
        assert_eq!(at_most(&protected, "/h/cache/output/a", "/"), None);
        assert_eq!(at_most(&protected, "/h/auth.toml", "/h/cache/output"), None);
    }

    #[test]
    fn workspace_in_a_host_directory_is_reachable_beside_host_files() {
        let beside = protected(&["/h"], "/h/work");
        assert_eq!(at_most(&beside, "/h/work/a", "/h/work"), Some(FileAccess::Write));
        assert_eq!(at_most(&beside, "/h/auth.toml", "/h"), None);
        for workspace in ["/h", "/h/plugins", "/h/Sessions/x", "/h/cache/work"] {
            assert_eq!(at_most(&protected(&["/h"], workspace), &format!("{workspace}/a"), workspace), None);
        }
    }

    #[test]
    fn read_only_names_apply_at_any_depth() {
        let protected = protected(&["/h"], "/w");
        for location in ["/w/.git", "/w/a/.git/config", "/w/.pinion/plans/x", "/w/sub/.mcp.json", "/w/.Git/hooks/x"] {
            assert_eq!(at_most(&protected, location, "/w"), Some(FileAccess::Read), "{location}");
        }
    }

    #[test]
    fn directories_around_protected_places_are_known() {
        let protected = protected(&["/a/b/h"], "/x/y/w");
        for location in ["/", "/a", "/a/b", "/a/b/h", "/x/y", "/x/y/w", "/proc"] {
            assert!(protected.is_in(Path::new(location)), "{location}");
        }
        assert!(!protected.is_in(Path::new("/x/y/w/src")) && !protected.is_in(Path::new("/a/c")));
    }
}
