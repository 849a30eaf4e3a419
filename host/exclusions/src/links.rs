//! Files in excluded directories, and files with credentials, that have names elsewhere.

use crate::identity::{FileIdentity, identity, names};
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// Entries of an excluded directory that are looked at.
pub(crate) const MAX_IN_DIRECTORY: usize = 20_000;
/// Entries of a place of credentials that are looked at: keys lie at its top, and profiles of browsers have thousands.
pub(crate) const MAX_CREDENTIALS: usize = 256;

/// The names of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkNames {
    /// All of them.
    pub(crate) all: u64,
    /// Those that were seen.
    pub(crate) seen: u64,
}

/// Returns the regular files at a path or below it that have several names. Looks at no more than `most` entries, those at the
/// top first, and follows no link.
pub(crate) fn with_several_names(path: &Path, most: usize) -> HashMap<FileIdentity, LinkNames> {
    let mut found: HashMap<FileIdentity, LinkNames> = HashMap::new();
    let (mut left, mut entries) = (VecDeque::from([path.to_owned()]), 0);
    while let Some(path) = left.pop_front() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if let Some(identity) = identity(&metadata).filter(|_| metadata.is_file() && names(&metadata) > 1) {
            found.entry(identity).or_insert(LinkNames { all: names(&metadata), seen: 0 }).seen += 1;
        }
        if metadata.is_dir() {
            let listed = fs::read_dir(&path).into_iter().flatten().flatten().take(most - entries);
            let inside: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
            entries += inside.len();
            left.extend(inside);
        }
    }
    found
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_within_bounds() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("in/deep")).unwrap();
        ["in/a", "in/deep/b", "in/deep/c"].iter().for_each(|name| fs::write(at(name), name).unwrap());
        fs::hard_link(at("in/a"), at("in/deep/a")).unwrap();
        fs::hard_link(at("in/a"), at("out")).unwrap();
        fs::hard_link(at("in/deep/b"), at("b")).unwrap();
        std::os::unix::fs::symlink("..", at("in/up")).unwrap();
        let counts = |most: usize| {
            let mut counts: Vec<_> = with_several_names(&at("in"), most).into_values().collect();
            counts.sort_by_key(|names| names.all);
            counts
        };
        assert_eq!(counts(100), [LinkNames { all: 2, seen: 1 }, LinkNames { all: 3, seen: 2 }]);
        assert_eq!(counts(3), [LinkNames { all: 3, seen: 1 }]);
        assert_eq!(with_several_names(&at("out"), 0).len(), 1, "a file");
        assert!(with_several_names(&at("missing"), 9).is_empty());
    }
}
