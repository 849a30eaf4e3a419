//! Finds files that were moved: a removed file and a new one with the same or a similar content.

use super::hunks::lines;
use super::{GitFile, PathChange};
use crate::objects::Objects;
use crate::tree::Digest;
use std::collections::HashMap;

/// Percent of a content that stay if a file was moved and edited.
const SIMILAR: u64 = 50;
/// Pairs of files that are compared at most.
const MAX_PAIRS: usize = 10_000;
/// Bytes of a file that is compared.
const MAX_FILE: u64 = 1 << 20;
/// Bytes of all files that are compared.
const MAX_BYTES: u64 = 64 << 20;

/// A removed file and the new one that replaces it, as positions in the list of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileRename {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Percent of the content that stay.
    pub(super) similarity: u64,
}

/// Pairs removed files with new ones. Each file is in one pair at most.
pub(super) fn find_renames(changes: &[PathChange], objects: &Objects) -> Vec<FileRename> {
    let files = |side: fn(&PathChange) -> (Option<&GitFile>, Option<&GitFile>)| {
        let file = move |(at, change): (usize, &PathChange)| match side(change) {
            (Some(GitFile::File { content, size, .. }), None) if *size > 0 => Some((at, *content, *size)),
            _ => None,
        };
        changes.iter().enumerate().filter_map(file).collect::<Vec<_>>()
    };
    let mut removed = files(|change| (change.before.as_ref(), change.after.as_ref()));
    let mut created = files(|change| (change.after.as_ref(), change.before.as_ref()));
    let mut renames = same_contents(changes, &mut removed, &mut created);
    renames.extend(similar_contents(objects, &removed, &created));
    renames
}

/// Position in the list of changes, content and size.
type ChangedFile = (usize, Digest, u64);

/// Pairs files of the same content, first files of the same name. Takes them out of the lists.
fn same_contents(
    changes: &[PathChange],
    removed: &mut Vec<ChangedFile>,
    created: &mut Vec<ChangedFile>,
) -> Vec<FileRename> {
    let mut by_content: HashMap<Digest, Vec<usize>> = HashMap::new();
    for (at, content, _) in removed.iter() {
        by_content.entry(*content).or_default().push(*at);
    }
    let mut renames = Vec::new();
    for is_named_alike in [true, false] {
        created.retain(|(to, content, _)| {
            let Some(candidates) = by_content.get_mut(content) else { return true };
            let is_match = |from: &usize| !is_named_alike || changes[*from].path.name() == changes[*to].path.name();
            let Some(found) = candidates.iter().position(is_match) else { return true };
            renames.push(FileRename { from: candidates.remove(found), to: *to, similarity: 100 });
            false
        });
    }
    removed.retain(|(at, ..)| !renames.iter().any(|rename| rename.from == *at));
    renames
}

/// Pairs files of which at least half stays, the most similar ones first. Skips the search if there is too much to read.
fn similar_contents(objects: &Objects, removed: &[ChangedFile], created: &[ChangedFile]) -> Vec<FileRename> {
    let is_small = |(_, _, size): &&ChangedFile| *size <= MAX_FILE;
    let bytes: u64 = removed.iter().chain(created).filter(is_small).map(|(_, _, size)| *size).sum();
    if removed.is_empty() || created.is_empty() || removed.len() * created.len() > MAX_PAIRS || bytes > MAX_BYTES {
        return Vec::new();
    }
    let read = |files: &[ChangedFile]| {
        let lines =
            |(at, content, size): &ChangedFile| Some((*at, *size, line_sizes(&objects.read(*content, MAX_FILE)?)));
        files.iter().filter(is_small).filter_map(lines).collect::<Vec<_>>()
    };
    let (removed, created) = (read(removed), read(created));
    let mut pairs = Vec::new();
    for (to, new_size, new) in &created {
        for (from, old_size, old) in &removed {
            let larger = *old_size.max(new_size);
            if old_size.min(new_size) * 100 < larger * SIMILAR {
                continue;
            }
            let common: u64 = new.iter().map(|(line, size)| *old.get(line).unwrap_or(&0).min(size)).sum();
            // A file with another content is never completely the same.
            let similarity = (common * 100 / larger).min(99);
            if similarity >= SIMILAR {
                pairs.push(FileRename { from: *from, to: *to, similarity });
            }
        }
    }
    pairs.sort_by_key(|pair| (u64::MAX - pair.similarity, pair.from, pair.to));
    let mut renames: Vec<FileRename> = Vec::new();
    for pair in pairs {
        if !renames.iter().any(|rename| rename.from == pair.from || rename.to == pair.to) {
            renames.push(pair);
        }
    }
    renames
}

/// Adds up the bytes of equal lines, by a digest of the line.
fn line_sizes(text: &[u8]) -> HashMap<Digest, u64> {
    let mut sizes = HashMap::new();
    for line in lines(text) {
        *sizes.entry(Digest::from_bytes(line)).or_default() += line.len() as u64;
    }
    sizes
}
