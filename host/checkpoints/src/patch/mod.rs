//! Patches that turn one snapshot into another, in the format of `git apply`.
//!
//! A patch contains new, removed, moved and changed files and links with the modes that git knows. Texts are hunks of a
//! unified diff, and every other content is a binary patch with its content before and after. A content counts as text
//! if it is UTF-8 without a NUL, so a patch is UTF-8 as well and fits into a JSON string.

mod blob_id;
mod hunks;
mod literal;
mod renames;

use self::blob_id::{BlobHasher, BlobId};
use self::hunks::write_hunks;
use self::literal::write_literal;
use self::renames::{FileRename, find_renames};
use crate::error::Error;
use crate::path::RelPath;
use crate::store::CheckpointStore;
use crate::tree::{Digest, GapReason, Tree, TreeEntry};
use pinion_files::open::open_file;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Bytes of a content that is compared line by line; a larger one is a binary patch.
const MAX_TEXT: u64 = 32 << 20;
const CHUNK: usize = 256 * 1024;

/// The result of writing a patch.
#[derive(Debug, Clone, Default)]
pub struct PatchReport {
    /// Files and links that the patch changes. A moved file counts once.
    pub files: usize,
    /// Changed paths that are not in the patch, because a content has no copy.
    pub missing: Vec<(RelPath, GapReason)>,
}

/// A changed path as git sees it.
#[derive(Debug)]
struct PathChange {
    path: RelPath,
    before: Option<GitFile>,
    after: Option<GitFile>,
}

/// A file or link, before or after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GitFile {
    File { is_executable: bool, content: Digest, size: u64 },
    Link { target: Vec<u8> },
}

impl GitFile {
    fn mode(&self) -> &'static str {
        match self {
            Self::File { is_executable: false, .. } => "100644",
            Self::File { is_executable: true, .. } => "100755",
            Self::Link { .. } => "120000",
        }
    }
}

/// A content that was read and checked.
struct CheckedContent {
    id: BlobId,
    size: u64,
    /// The bytes; `None` if there are too many of them for the memory.
    bytes: Option<Vec<u8>>,
    stored: Option<Digest>,
}

impl CheckedContent {
    /// The content of an absent file.
    fn absent() -> Self {
        Self { id: BlobId::default(), size: 0, bytes: Some(Vec::new()), stored: None }
    }

    fn text(&self) -> Option<&[u8]> {
        let bytes = self.bytes.as_deref()?;
        (!bytes.contains(&0) && std::str::from_utf8(bytes).is_ok()).then_some(bytes)
    }
}

/// One section of a patch: the name and the content before and after. One of both exists.
struct PatchSection<'a> {
    old: Option<(&'a RelPath, &'a GitFile)>,
    new: Option<(&'a RelPath, &'a GitFile)>,
    /// Percent of the content that stay, if the file was moved.
    similarity: Option<u64>,
}

impl CheckpointStore {
    /// Writes the patch that turns one tree into a later one. Leaves out empty directories, which git does not have,
    /// paths that only one of the trees covers, and paths that ignore rules exclude now. The paths in the patch are
    /// relative to the directory that contains the root of the trees as `prefix`.
    ///
    /// # Errors
    /// The output fails, or the store cannot be read.
    pub fn write_patch(
        &self,
        before: &Tree,
        after: &Tree,
        prefix: &Path,
        out: &mut dyn Write,
    ) -> Result<PatchReport, Error> {
        let mut report = PatchReport::default();
        let changes = self.patched(before, after, &mut report)?;
        let renames = find_renames(&changes, &self.objects);
        let mut writer = PatchWriter { store: self, prefix, out, report };
        writer.write(&changes, &renames).map_err(Error::io("write the patch for", &self.root))?;
        Ok(writer.report)
    }

    /// Returns the changes that git knows, in the order of the paths.
    fn patched(&self, before: &Tree, after: &Tree, report: &mut PatchReport) -> Result<Vec<PathChange>, Error> {
        let excluded = self.left_alone()?;
        let mut changes = Vec::new();
        for change in before.changes(after) {
            let is_closed = || {
                let mut above = std::iter::successors(Some(change.path.clone()), RelPath::parent);
                above.any(|path| excluded.paths.contains(&path)) || self.ignores(change.path)
            };
            let (old, new) = match (side(change.before), side(change.after)) {
                (Ok(old), Ok(new)) if old == new => continue,
                _ if is_closed() => continue,
                (Ok(old), Ok(new)) => (old, new),
                (Err(reason), _) | (_, Err(reason)) => {
                    report.missing.push((change.path.clone(), reason));
                    continue;
                }
            };
            changes.push(PathChange { path: change.path.clone(), before: old, after: new });
        }
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(changes)
    }

    /// Reads a content and checks it, so that the patch names it correctly.
    fn check_content(&self, side: &GitFile) -> Result<CheckedContent, GapReason> {
        let (content, size) = match side {
            GitFile::Link { target } => {
                let (id, bytes) = (BlobId::from_bytes(target), Some(target.clone()));
                return Ok(CheckedContent { id, size: target.len() as u64, bytes, stored: None });
            }
            GitFile::File { content, size, .. } => (*content, *size),
        };
        if size <= MAX_TEXT {
            let bytes = self.objects.read(content, MAX_TEXT).ok_or(GapReason::Missing)?;
            let (id, size) = (BlobId::from_bytes(&bytes), bytes.len() as u64);
            return Ok(CheckedContent { id, size, bytes: Some(bytes), stored: Some(content) });
        }
        let mut file = open_file(&self.objects.path(content)).map_err(|_| GapReason::Missing)?;
        let (mut id, mut digest, mut buffer) = (BlobHasher::new(size), blake3::Hasher::new(), vec![0; CHUNK]);
        loop {
            let read = file.read(&mut buffer).map_err(|_| GapReason::Missing)?;
            let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else { break };
            id.update(part);
            digest.update(part);
        }
        match digest.count() == size && *digest.finalize().as_bytes() == content.0 {
            true => Ok(CheckedContent { id: id.finish(), size, bytes: None, stored: Some(content) }),
            false => Err(GapReason::Missing),
        }
    }

    fn open_content(&self, content: &CheckedContent) -> io::Result<File> {
        let stored = content.stored.ok_or_else(|| io::Error::other("the content has no copy"))?;
        open_file(&self.objects.path(stored))
    }
}

/// Returns what git knows of an entry: nothing of directories, sockets, pipes and devices.
///
/// # Errors
/// The content has no copy.
fn side(entry: Option<&TreeEntry>) -> Result<Option<GitFile>, GapReason> {
    match entry {
        Some(TreeEntry::File { mode, size, content, .. }) => {
            Ok(Some(GitFile::File { is_executable: mode & 0o100 != 0, content: *content, size: *size }))
        }
        Some(TreeEntry::Link { target }) => Ok(Some(GitFile::Link { target: target.clone() })),
        Some(TreeEntry::Uncovered { reason, .. }) if *reason != GapReason::Special => Err(*reason),
        _ => Ok(None),
    }
}

struct PatchWriter<'a> {
    store: &'a CheckpointStore,
    prefix: &'a Path,
    out: &'a mut dyn Write,
    report: PatchReport,
}

impl PatchWriter<'_> {
    /// Writes removals first, so that a file can take the place of a directory and the other way round.
    fn write(&mut self, changes: &[PathChange], renames: &[FileRename]) -> io::Result<()> {
        let is_moved = |at: usize| renames.iter().any(|rename| rename.from == at || rename.to == at);
        let single = || changes.iter().enumerate().filter(|(at, _)| !is_moved(*at)).map(|(_, change)| change);
        for PathChange { path, before, after } in single() {
            let Some(side) = before.as_ref().filter(|side| !is_edit(Some(side), after.as_ref())) else { continue };
            self.section(&PatchSection { old: Some((path, side)), new: None, similarity: None })?;
        }
        for FileRename { from, to, similarity } in renames {
            let (from, to) = (&changes[*from], &changes[*to]);
            let old = from.before.as_ref().map(|side| (&from.path, side));
            let new = to.after.as_ref().map(|side| (&to.path, side));
            self.section(&PatchSection { old, new, similarity: Some(*similarity) })?;
        }
        for PathChange { path, before, after } in single() {
            let Some(side) = after else { continue };
            let old = before.as_ref().filter(|side| is_edit(Some(side), after.as_ref())).map(|side| (path, side));
            self.section(&PatchSection { old, new: Some((path, side)), similarity: None })?;
        }
        self.out.flush()
    }

    fn section(&mut self, section: &PatchSection<'_>) -> io::Result<()> {
        let Some((path, _)) = section.new.or(section.old) else { return Ok(()) };
        let read = |side: Option<(&RelPath, &GitFile)>| match side {
            Some((_, side)) => self.store.check_content(side),
            None => Ok(CheckedContent::absent()),
        };
        match (read(section.old), read(section.new)) {
            (Ok(old), Ok(new)) => {
                self.report.files += 1;
                self.header(section, &old, &new)?;
                if old.id == new.id && section.old.is_some() && section.new.is_some() {
                    return Ok(());
                }
                self.content(section, &old, &new)
            }
            (Err(reason), _) | (_, Err(reason)) => {
                self.report.missing.push((path.clone(), reason));
                Ok(())
            }
        }
    }

    /// Returns the name of a path in the patch.
    fn name(&self, path: &RelPath) -> Vec<u8> {
        self.prefix.join(path.as_path()).as_os_str().as_bytes().to_vec()
    }

    fn header(&mut self, section: &PatchSection<'_>, old: &CheckedContent, new: &CheckedContent) -> io::Result<()> {
        let Some((old_path, new_path)) = section.old.or(section.new).zip(section.new.or(section.old)) else {
            return Ok(());
        };
        let (from, to) = (self.name(old_path.0), self.name(new_path.0));
        let out = &mut *self.out;
        writeln!(out, "diff --git {} {}", quoted("a/", &from), quoted("b/", &to))?;
        let (was, now) = (section.old.map(|(_, side)| side.mode()), section.new.map(|(_, side)| side.mode()));
        match (was, now) {
            (Some(was), Some(now)) if was != now => write!(out, "old mode {was}\nnew mode {now}\n")?,
            (None, Some(now)) => writeln!(out, "new file mode {now}")?,
            (Some(was), None) => writeln!(out, "deleted file mode {was}")?,
            _ => {}
        }
        if let Some(similarity) = section.similarity {
            writeln!(out, "similarity index {similarity}%")?;
            write!(out, "rename from {}\nrename to {}\n", quoted("", &from), quoted("", &to))?;
        }
        let kept = if was == now { was.map(|mode| format!(" {mode}")).unwrap_or_default() } else { String::new() };
        match old.id != new.id {
            true => writeln!(out, "index {}..{}{kept}", old.id, new.id),
            false => Ok(()),
        }
    }

    fn content(&mut self, section: &PatchSection<'_>, old: &CheckedContent, new: &CheckedContent) -> io::Result<()> {
        let (Some(was), Some(now)) = (old.text(), new.text()) else {
            return self.binary(old, new);
        };
        if was.is_empty() && now.is_empty() {
            return Ok(());
        }
        let name = |side: Option<(&RelPath, &GitFile)>, prefix: &str| {
            side.map_or_else(|| "/dev/null".to_owned(), |(path, _)| quoted_in_header(prefix, &self.name(path)))
        };
        let (from, to) = (name(section.old, "a/"), name(section.new, "b/"));
        write!(self.out, "--- {from}\n+++ {to}\n")?;
        write_hunks(self.out, was, now)
    }

    /// Writes the new content, and the old one for the way back.
    fn binary(&mut self, old: &CheckedContent, new: &CheckedContent) -> io::Result<()> {
        writeln!(self.out, "GIT binary patch")?;
        for content in [new, old] {
            match &content.bytes {
                Some(bytes) => write_literal(self.out, content.size, &mut bytes.as_slice())?,
                None => write_literal(self.out, content.size, &mut self.store.open_content(content)?)?,
            }
        }
        Ok(())
    }
}

/// Returns whether git describes a change as an edit. A link that replaces a file is a removal and a new file.
fn is_edit(before: Option<&GitFile>, after: Option<&GitFile>) -> bool {
    matches!(
        (before, after),
        (Some(GitFile::File { .. }), Some(GitFile::File { .. }))
            | (Some(GitFile::Link { .. }), Some(GitFile::Link { .. }))
    )
}

/// Returns a name after a prefix such as `a/`: as it is, or in quotes if it has bytes that are not printable ASCII.
fn quoted(prefix: &str, name: &[u8]) -> String {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    let mut text = String::from(prefix);
    if name.iter().all(is_plain) {
        text.push_str(&String::from_utf8_lossy(name));
        return text;
    }
    text.insert(0, '"');
    for byte in name {
        match byte {
            b'\x07' => text.push_str("\\a"),
            b'\x08' => text.push_str("\\b"),
            b'\t' => text.push_str("\\t"),
            b'\n' => text.push_str("\\n"),
            b'\x0b' => text.push_str("\\v"),
            b'\x0c' => text.push_str("\\f"),
            b'\r' => text.push_str("\\r"),
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => drop(write!(text, "\\{byte:03o}")),
        }
    }
    text.push('"');
    text
}

/// Returns a name as it stands after `---` or `+++`. A tab ends a name with spaces, because a time could follow it.
fn quoted_in_header(prefix: &str, name: &[u8]) -> String {
    let mut text = quoted(prefix, name);
    if !text.starts_with('"') && text.contains(' ') {
        text.push('\t');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_quoted_as_in_c() {
        assert_eq!(quoted("a/", b"src/main.rs"), "a/src/main.rs");
        assert_eq!(quoted("a/", b"two words"), "a/two words");
        assert_eq!(quoted_in_header("b/", b"two words"), "b/two words\t");
        assert_eq!(quoted("b/", "caf\u{e9}".as_bytes()), r#""b/caf\303\251""#);
        assert_eq!(quoted("", b"a\"b\\c\td\ne\x01\x7f\xff"), r#""a\"b\\c\td\ne\001\177\377""#);
        assert_eq!(quoted_in_header("a/", b"a\tb c"), r#""a/a\tb c""#);
    }
}
