//! The access that a plugin has at a location.
//!
//! Locations are real paths. The innermost of all granted directories around a location decides, regardless of the one
//! that the guest used; the [`Protected`] list narrows it.
//!
//! A decision holds while guests rename files concurrently, because it belongs to a place, and no operation changes the
//! kind of a place: to rename, link or remove needs write access at both ends; a boundary (a granted directory, a
//! protected place, the workspace itself) and any directory around one cannot be renamed, replaced or removed; and a
//! directory with a read-only name anywhere inside cannot be renamed. So wherever a handle of a directory has gone
//! since its location was found, the same accesses are allowed there.

use super::access::FileAccess;
use super::protected::Protected;
use crate::paths::beneath::Spot;
use crate::paths::identity::file_id;
use cap_primitives::fs::Metadata;
use pinion_exclusions::Pattern;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The access of a plugin by location.
#[derive(Debug)]
pub struct FilePolicy {
    /// Locations of granted directories.
    grants: Vec<(PathBuf, FileAccess)>,
    protected: Arc<Protected>,
}

impl FilePolicy {
    /// Creates the policy of a plugin from the locations of its granted directories.
    pub fn new(grants: Vec<(PathBuf, FileAccess)>, protected: Arc<Protected>) -> Self {
        Self { grants, protected }
    }

    /// Returns the access at a location; `None` for no access.
    pub fn access(&self, location: &Path) -> Option<FileAccess> {
        let around = self.grants.iter().filter(|(grant, _)| location.starts_with(grant));
        // Of two grants of one directory, the narrower counts.
        let (grant, access) =
            around.max_by_key(|(grant, access)| (grant.as_os_str().len(), std::cmp::Reverse(*access)))?;
        Some((*access).min(self.protected.at_most(location, grant)?))
    }

    /// Returns whether a boundary lies at a location or inside it.
    pub fn is_pinned(&self, location: &Path) -> bool {
        self.grants.iter().any(|(grant, _)| grant.starts_with(location)) || self.protected.is_in(location)
    }

    /// Returns the pattern that excludes a place: by its name, by the name of a link on the way, or as a file that has
    /// an excluded name elsewhere.
    pub fn excluded(&self, spot: &Spot) -> Option<Arc<Pattern>> {
        let exclusions = self.protected.exclusions();
        if exclusions.is_empty() {
            return None;
        }
        let patterns = exclusions.exclusions();
        let is_directory = spot.name.is_none() || spot.found.as_ref().is_some_and(Metadata::is_dir);
        let by_name = patterns.find_pattern(&spot.target(), is_directory);
        let by_link = || spot.links.iter().find_map(|link| patterns.find_pattern(link, false));
        by_name.or_else(by_link).cloned().or_else(|| self.excluded_file(spot.found.as_ref()?))
    }

    /// Returns the pattern that excludes a file, regardless of its name.
    pub fn excluded_file(&self, file: &Metadata) -> Option<Arc<Pattern>> {
        self.protected.exclusions().of_file(&file_id(file)?)
    }

    /// The places that no grant reaches.
    pub fn protected(&self) -> &Protected {
        &self.protected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(grants: &[(&str, FileAccess)]) -> FilePolicy {
        let grants = grants.iter().map(|(path, access)| (PathBuf::from(path), *access)).collect();
        FilePolicy::new(grants, Arc::default())
    }

    #[test]
    fn innermost_grant_decides_and_the_narrower_of_equal_ones() {
        let policy = policy(&[
            ("/w", FileAccess::Write),
            ("/w/docs", FileAccess::Read),
            ("/w/docs/drafts", FileAccess::Write),
            ("/w/twice", FileAccess::Write),
            ("/w/twice", FileAccess::Read),
        ]);
        let access = |path: &str| policy.access(Path::new(path));
        assert_eq!(access("/w/a"), Some(FileAccess::Write));
        assert_eq!(access("/w/docs"), Some(FileAccess::Read));
        assert_eq!(access("/w/docs/a"), Some(FileAccess::Read));
        assert_eq!(access("/w/docs/drafts/a"), Some(FileAccess::Write));
        assert_eq!(access("/w/docsx"), Some(FileAccess::Write));
        assert_eq!(access("/w/twice/a"), Some(FileAccess::Read));
        assert_eq!(access("/v"), None);
    }

    #[test]
    fn directories_that_contain_a_boundary_are_pinned() {
        let policy = policy(&[("/w", FileAccess::Write), ("/w/out/docs", FileAccess::Read)]);
        for path in ["/", "/w", "/w/out", "/w/out/docs"] {
            assert!(policy.is_pinned(Path::new(path)), "{path}");
        }
        assert!(!policy.is_pinned(Path::new("/w/a")) && !policy.is_pinned(Path::new("/w/out/docs/a")));
    }
}
