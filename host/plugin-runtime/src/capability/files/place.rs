//! The place that a path of a guest names, and the access that a call has there.

use crate::capability::authority::{CallAuthority, Denied, PluginAuthority, SharedAuthority};
use pinion_exclusions::Pattern;
use pinion_files::normalize_lexically;
use pinion_workspace::grants::access::FileAccess;
use pinion_workspace::grants::policy::FilePolicy;
use pinion_workspace::grants::roots::{GrantedRoot, OpenRoot, WorkspaceRoot};
use pinion_workspace::paths::beneath::Spot;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A granted directory that was not opened.
pub(crate) enum Unopened {
    /// The grant does not hold.
    Denied(Denied),
    /// The directory is missing.
    Failed(io::Error),
}

/// A place in a granted directory.
#[derive(Debug)]
pub(crate) struct GrantedLocation<'a> {
    /// The granted directory.
    pub(crate) root: &'a GrantedRoot,
    /// The path in it; empty for the directory itself. It is only lexically inside: opening must not follow links out.
    pub(crate) relative: PathBuf,
}

/// The granted directories of a plugin, open, and the policy for their contents.
#[derive(Debug)]
pub(crate) struct FileAuthority {
    workspace: Arc<WorkspaceRoot>,
    roots: Vec<GrantedRoot>,
    policy: FilePolicy,
}

impl FileAuthority {
    /// Opens the granted directories. One that is missing is opened when a call needs it.
    pub(crate) fn open(plugin: &str, surroundings: &SharedAuthority, grant: &super::Grant) -> Self {
        let SharedAuthority { workspace, protected } = surroundings.clone();
        let roots: Vec<GrantedRoot> =
            grant.iter().map(|(path, access)| GrantedRoot::new(&workspace, path, *access)).collect();
        for root in &roots {
            match root.open(&workspace, &protected) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(plugin, path = %root.path.display(), %error, "a grant of files is not used");
                }
                _ => {}
            }
        }
        let locations = roots.iter().map(|root| (root.real.clone(), root.access)).collect();
        Self { policy: FilePolicy::new(locations, protected), roots, workspace }
    }
}

impl PluginAuthority {
    /// The granted directories.
    pub(crate) fn roots(&self) -> &[GrantedRoot] {
        &self.files().roots
    }

    /// Opens a granted directory, or returns the handle from the first time.
    pub(crate) fn open<'a>(&self, root: &'a GrantedRoot) -> io::Result<&'a Arc<OpenRoot>> {
        root.open(&self.files().workspace, self.policy().protected())
    }

    /// Opens the directory where a call creates a granted file.
    pub(crate) fn open_for_new_file<'a>(&self, root: &'a GrantedRoot) -> io::Result<&'a Arc<OpenRoot>> {
        root.open_for_new_file(&self.files().workspace, self.policy().protected())
    }

    /// Finds the innermost granted directory around a path, or the granted file, by its name. Returns the path from there.
    fn innermost(&self, path: &Path) -> Option<(&GrantedRoot, PathBuf)> {
        let places = self.roots().iter().filter_map(|root| Some((root, root.relative(path)?)));
        places.max_by_key(|(root, _)| root.real.as_os_str().len())
    }

    /// Like [`PluginAuthority::innermost`], for a path that leads through a link outside of the granted directories,
    /// such as the user's own link to the workspace. The link only names the place; its contents are found beneath the
    /// handle.
    fn through_link(&self, path: &Path) -> Option<(&GrantedRoot, PathBuf)> {
        let ancestors: Vec<&Path> = path.ancestors().collect();
        let inside = |ancestor: &&Path| {
            let (root, to_ancestor) = self.innermost(&ancestor.canonicalize().ok()?)?;
            let rest = path.strip_prefix(ancestor).ok()?;
            Some((root, if rest.as_os_str().is_empty() { to_ancestor } else { to_ancestor.join(rest) }))
        };
        ancestors.iter().rev().find_map(inside)
    }

    pub(crate) fn policy(&self) -> &FilePolicy {
        &self.files().policy
    }
}

impl CallAuthority {
    /// Finds the granted directory that contains a path. `path` is absolute, or relative to the workspace root.
    ///
    /// # Errors
    /// The call may not use files in this way, or the path lies in no granted directory. Once the location is known,
    /// [`CallAuthority::access`] has to confirm it.
    pub(crate) fn find_location(&self, path: &str, access: FileAccess) -> Result<GrantedLocation<'_>, Denied> {
        let plugin = self.plugin();
        let absolute = normalize_lexically(&self.workspace().join(path));
        let verb = access.verb();
        let what = format!("{verb} `{path}`");
        if self.files() < Some(access) && !plugin.roots().is_empty() {
            return Err(plugin.denied(&what, &format!("this tool does not declare that it {verb}s files, or may not")));
        }
        let Some((root, relative)) = plugin.innermost(&absolute).or_else(|| plugin.through_link(&absolute)) else {
            if plugin.policy().protected().at_most(&absolute, &absolute).is_none() {
                return Err(plugin.denied(&what, "it belongs to the host or the system, and no grant reaches it"));
            }
            let what = format!("{what}, which is in no granted directory");
            return Err(plugin.not_granted(&what, &self.grants_with(&absolute, access)));
        };
        if root.access < access {
            let what = format!("{what}, which it may only read");
            return Err(plugin.not_granted(&what, &self.grants_with(&root.path, access)));
        }
        Ok(GrantedLocation { root, relative })
    }

    /// The line of a grants table with the present grants and one more: a section of the config replaces the defaults.
    fn grants_with(&self, path: &Path, access: FileAccess) -> String {
        let plugin = self.plugin();
        if plugin.roots().is_empty() {
            return grant_line(Path::new("."), access);
        }
        let is_of_host = |root: &&GrantedRoot| plugin.policy().protected().is_handed_out(&root.real);
        let of_user = plugin.roots().iter().filter(|root| !is_of_host(root));
        let mut grants: BTreeMap<String, FileAccess> =
            of_user.map(|root| (self.in_config(&root.path), root.access)).collect();
        grants.insert(self.in_config(path), access);
        grant_lines(&grants)
    }

    /// A path as the config names it: relative in the workspace.
    fn in_config(&self, path: &Path) -> String {
        match path.strip_prefix(self.workspace()) {
            Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
            Ok(relative) => relative.to_string_lossy().into_owned(),
            Err(_) => path.to_string_lossy().into_owned(),
        }
    }

    /// Opens the directory of a place. A granted file that is missing can be created.
    pub(crate) fn open<'a>(
        &self,
        path: &str,
        place: &GrantedLocation<'a>,
        access: FileAccess,
    ) -> Result<&'a Arc<OpenRoot>, Unopened> {
        let is_new = |error: &io::Error| {
            error.kind() == io::ErrorKind::NotFound
                && access == FileAccess::Write
                && place.relative.as_os_str().is_empty()
        };
        let opened = match self.plugin().open(place.root) {
            Err(error) if is_new(&error) => self.plugin().open_for_new_file(place.root),
            opened => opened,
        };
        opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unopened::Failed(error),
            _ => {
                let what = format!("use `{path}`: {error}");
                Unopened::Denied(
                    self.plugin().denied(&what, "grant the file or directory that is meant, by its own path"),
                )
            }
        })
    }

    /// The access that this call has at a location.
    pub(crate) fn access(&self, location: &Path) -> Option<FileAccess> {
        self.files().and_then(|at_most| Some(at_most.min(self.plugin().policy().access(location)?)))
    }

    /// The refusal of an access that [`CallAuthority::access`] does not give.
    pub(crate) fn refusal(&self, path: &str, access: FileAccess) -> Denied {
        let hint = "a narrower grant or the list of protected paths decides there, and no wider grant changes that";
        self.plugin().denied(&format!("{} `{path}`", access.verb()), hint)
    }

    /// The refusal of a place that is excluded; `None` if it is not.
    pub(crate) fn exclusion(&self, path: &str, spot: &Spot, access: FileAccess) -> Option<Denied> {
        let pattern = self.plugin().policy().excluded(spot)?;
        Some(self.excluded(path, &pattern, access))
    }

    /// The refusal of a file that a pattern excludes.
    pub(crate) fn excluded(&self, path: &str, pattern: &Pattern, access: FileAccess) -> Denied {
        self.plugin().denied(&format!("{} `{path}`: {pattern}", access.verb()), &pattern.remedy())
    }

    /// The widest access to files that this call has anywhere.
    pub(crate) fn files(&self) -> Option<FileAccess> {
        let effects = self.effects();
        match (effects.writes, effects.reads) {
            (true, _) => Some(FileAccess::Write),
            (false, true) => Some(FileAccess::Read),
            (false, false) => None,
        }
    }

    /// The workspace root.
    pub(crate) fn workspace(&self) -> &Path {
        self.plugin().files().workspace.path()
    }

    /// The workspace root without links.
    pub(crate) fn real_workspace(&self) -> &Path {
        self.plugin().files().workspace.real()
    }
}

/// The line of a grants table that grants a directory.
pub(super) fn grant_line(path: &Path, access: FileAccess) -> String {
    grant_lines(&BTreeMap::from([(path.to_string_lossy().into_owned(), access)]))
}

fn grant_lines(grants: &BTreeMap<String, FileAccess>) -> String {
    let each: Vec<String> = grants.iter().map(|(path, access)| format!("{path:?} = \"{}\"", access.verb())).collect();
    format!("files = {{ {} }}", each.join(", "))
}
