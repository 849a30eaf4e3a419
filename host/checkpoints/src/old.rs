//! Snapshots that earlier versions wrote: trees without refs, without their directory, and without owners.

use crate::path::RelPath;
use crate::tree::{Digest, Entry, Reason, Tree};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The beginning of a tree's file since it has one.
pub(crate) const TREE: &[u8] = b"pinion tree 4\n";
/// That of trees without refs.
const TREE_3: &[u8] = b"pinion tree 3\n";
/// That of trees without their directory.
const TREE_2: &[u8] = b"pinion tree 2\n";

#[derive(Deserialize)]
enum OldEntry {
    File { mode: u32, size: u64, content: Digest },
    Link { target: Vec<u8> },
    Directory { mode: u32 },
    Excluded,
    Uncovered { reason: Reason, size: u64, changed: i64 },
    Absent,
}

/// Reads a tree of any version; none if it is damaged.
pub(crate) fn tree(bytes: &[u8]) -> Option<Tree> {
    if let Some(tree) = bytes.strip_prefix(TREE) {
        return postcard::from_bytes(tree).ok();
    }
    if let Some(tree) = bytes.strip_prefix(TREE_3) {
        let (entries, root): (BTreeMap<RelPath, Entry>, u64) = postcard::from_bytes(tree).ok()?;
        return Some(entries.into_iter().collect::<Tree>().with_root(root));
    }
    if let Some(tree) = bytes.strip_prefix(TREE_2) {
        let entries: BTreeMap<RelPath, Entry> = postcard::from_bytes(tree).ok()?;
        return Some(entries.into_iter().collect());
    }
    let entries: BTreeMap<RelPath, OldEntry> = postcard::from_bytes(bytes).ok()?;
    let entry = |entry| match entry {
        OldEntry::File { mode, size, content } => Entry::File { mode, size, content, owner: None },
        OldEntry::Link { target } => Entry::Link { target },
        OldEntry::Directory { mode } => Entry::Directory { mode, owner: None },
        OldEntry::Excluded => Entry::Excluded,
        OldEntry::Uncovered { reason, size, changed } => Entry::Uncovered { reason, size, changed },
        OldEntry::Absent => Entry::Absent,
    };
    Some(entries.into_iter().map(|(path, old)| (path, entry(old))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;
    use crate::restore::Restoration;
    use std::path::Path;

    fn sample() -> Tree {
        let path = |text: &str| RelPath::try_from(Path::new(text)).unwrap();
        let content = Digest::of(b"1");
        let entries = [
            ("d", Entry::Directory { mode: 0o755, owner: None }),
            ("d/f", Entry::File { mode: 0o644, size: 1, content, owner: None }),
            ("l", Entry::Link { target: b"d".to_vec() }),
            ("u", Entry::Uncovered { reason: Reason::LargeFile, size: 1 << 40, changed: -1 }),
            ("x", Entry::Excluded),
        ];
        let refs = [("HEAD".to_owned(), "ref: refs/heads/main".to_owned())].into();
        let refs = [(None, refs), (Some(path("sub")), pinion_git::Refs::new())].into();
        let entries = entries.into_iter().map(|(text, entry)| (path(text), entry));
        entries.collect::<Tree>().with_root(7).with_refs(std::sync::Arc::new(refs))
    }

    #[test]
    fn trees_of_earlier_versions_are_read() {
        let tree = sample();
        let entries: BTreeMap<RelPath, Entry> =
            tree.iter().map(|(path, entry)| (path.clone(), entry.clone())).collect();
        let third = [TREE_3, &postcard::to_stdvec(&(&entries, 7_u64)).unwrap()].concat();
        assert_eq!(super::tree(&third), Some(tree.clone().with_refs(std::sync::Arc::default())));
        let second = [TREE_2, &postcard::to_stdvec(&entries).unwrap()].concat();
        assert_eq!(super::tree(&second), Some(entries.into_iter().collect()));
    }

    #[test]
    fn damaged_and_random_bytes_are_read_as_sound_values_or_not_at_all() {
        let tree = sample();
        let bytes = [TREE, &postcard::to_stdvec(&tree).unwrap()].concat();
        assert_eq!(super::tree(&bytes), Some(tree));
        let mut random = fastrand::Rng::with_seed(14);
        for round in 0..20_000 {
            let mut bytes = bytes.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(TREE.len()..bytes.len());
                match random.u8(..3) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes.truncate(at.max(TREE.len() + 1)),
                    _ => bytes.insert(at, random.u8(..)),
                }
            }
            if round % 10 == 0 {
                let length = random.usize(..200);
                bytes = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
            }
            // Whatever is read stays below the root.
            for (path, _) in super::tree(&bytes).iter().flat_map(Tree::iter) {
                let mut parts = path.as_path().components();
                assert!(parts.all(|part| matches!(part, std::path::Component::Normal(_))), "{path:?}");
            }
            let body = bytes.strip_prefix(TREE).unwrap_or(&bytes);
            let _ = postcard::from_bytes::<Index>(body);
            let _ = postcard::from_bytes::<Restoration>(body);
        }
    }
}
