//! The file of a tree: a header that names the format, and the encoded tree.

use crate::sealed;
use crate::tree::Tree;
use std::io;

/// The beginning of a tree's file.
const HEADER: &[u8] = b"pinion tree 4\n";
/// Encodes a tree as the content of its file.
///
/// # Errors
/// The tree cannot be encoded.
pub(crate) fn encode(tree: &Tree) -> io::Result<Vec<u8>> {
    Ok([HEADER, &sealed::encode(tree)?].concat())
}

/// Reads a tree; none if it is damaged.
pub(crate) fn decode(bytes: &[u8]) -> Option<Tree> {
    postcard::from_bytes(bytes.strip_prefix(HEADER)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::SnapshotIndex;
    use crate::path::RelPath;
    use crate::restore::Restoration;
    use crate::tree::{Digest, GapReason, TreeEntry};
    use std::path::Path;

    fn sample() -> Tree {
        let path = |text: &str| RelPath::try_from(Path::new(text)).unwrap();
        let content = Digest::from_bytes(b"1");
        let entries = [
            ("d", TreeEntry::Directory { mode: 0o755, owner: None }),
            ("d/f", TreeEntry::File { mode: 0o644, size: 1, content, owner: None }),
            ("l", TreeEntry::Link { target: b"d".to_vec() }),
            ("u", TreeEntry::Uncovered { reason: GapReason::LargeFile, size: 1 << 40, changed: -1 }),
            ("x", TreeEntry::Excluded),
        ];
        let refs = [("HEAD".to_owned(), "ref: refs/heads/main".to_owned())].into();
        let refs = [(None, refs), (Some(path("sub")), pinion_git::Refs::new())].into();
        let entries = entries.into_iter().map(|(text, entry)| (path(text), entry));
        entries.collect::<Tree>().with_root(7).with_refs(std::sync::Arc::new(refs))
    }

    #[test]
    fn damaged_and_random_bytes_are_read_as_sound_values_or_not_at_all() {
        let tree = sample();
        let bytes = encode(&tree).unwrap();
        assert_eq!(decode(&bytes), Some(tree));
        let mut random = fastrand::Rng::with_seed(14);
        for round in 0..20_000 {
            let mut bytes = bytes.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(HEADER.len()..bytes.len());
                match random.u8(..3) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes.truncate(at.max(HEADER.len() + 1)),
                    _ => bytes.insert(at, random.u8(..)),
                }
            }
            if round % 10 == 0 {
                let length = random.usize(..200);
                bytes = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
            }
            // Every path that is read stays below the root.
            for (path, _) in decode(&bytes).iter().flat_map(Tree::iter) {
                let mut parts = path.as_path().components();
                assert!(parts.all(|part| matches!(part, std::path::Component::Normal(_))), "{path:?}");
            }
            let body = bytes.strip_prefix(HEADER).unwrap_or(&bytes);
            let _ = postcard::from_bytes::<SnapshotIndex>(body);
            let _ = postcard::from_bytes::<Restoration>(body);
        }
    }
}
