//! Patches of the changes of a run or a session, for `git apply`.
//!
//! A patch is written to a temporary file next to its destination first, so that the destination gets all of it or
//! nothing.

use crate::failure::{Failure, Result};
use crate::undo::turns::Turns;
use crate::workspace_base::Base;
use pinion_checkpoints::{CheckpointStore, Digest, Error, GapReason, PatchReport, RelPath, SnapshotLimits, Tree};
use pinion_files::{AtomicWrite, TemporaryFile};
use pinion_session_store::{Session, Transcript, printable};
use std::io::{self, BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Missing paths that a notice names at most.
const MAX_NAMED: usize = 20;

/// The destination of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchTarget {
    /// Stdout, or the result of a run.
    Stdout,
    /// A file, which is replaced if it exists.
    File(PathBuf),
}

impl PatchTarget {
    /// Resolves the name of a file; `-` stands for stdout. A relative one is below `workspace`, as the paths of other
    /// options.
    pub fn new(workspace: &Path, named: &Path) -> Self {
        if named == Path::new("-") { Self::Stdout } else { Self::File(workspace.join(named)) }
    }

    fn file(&self) -> Option<&Path> {
        match self {
            Self::Stdout => None,
            Self::File(path) => Some(path),
        }
    }

    /// Checks that the destination can be written, before work is paid for.
    ///
    /// # Errors
    /// It is a directory, or its directory does not exist or cannot be written.
    pub fn check(&self) -> Result<()> {
        match self.file() {
            Some(path) if path.is_dir() => {
                Err(Failure::usage(format!("cannot write the patch to `{}`: it is a directory", path.display())))
            }
            _ => self.temporary().map(drop),
        }
    }

    fn temporary(&self) -> Result<TemporaryFile> {
        let made = match self.file() {
            None => AtomicWrite::private().create_in(&std::env::temp_dir()),
            Some(path) => {
                let directory = path.parent().unwrap_or(Path::new("."));
                AtomicWrite::shared().prefix(".pinion-patch-").create_in(directory)
            }
        };
        made.map_err(|error| match self.file() {
            Some(path) => Failure::usage(format!("cannot write the patch to `{}`", path.display())).because(error),
            None => Failure::failed("cannot write the patch to a temporary file").because(error),
        })
    }
}

/// A complete patch that is not at its destination yet.
#[derive(Debug)]
pub struct WrittenPatch {
    target: PatchTarget,
    file: TemporaryFile,
    report: PatchReport,
}

impl WrittenPatch {
    fn write(store: &CheckpointStore, before: &Tree, after: &Tree, target: PatchTarget) -> Result<Self> {
        Self::write_below(store, before, after, target, &prefix(store.root()))
    }

    /// Writes a patch whose paths are relative to the directory that contains the root of the trees as `prefix`.
    fn write_below(
        store: &CheckpointStore,
        before: &Tree,
        after: &Tree,
        target: PatchTarget,
        prefix: &Path,
    ) -> Result<Self> {
        let file = target.temporary()?;
        let mut out = BufWriter::new(file);
        let report = store.write_patch(before, after, prefix, &mut out).map_err(failed)?;
        let file = out.into_inner().map_err(|error| Failure::failed("cannot write the patch").because(error))?;
        Ok(Self { target, file, report })
    }

    /// Returns the changed paths that are not in the patch, because a content has no copy.
    pub fn missing(&self) -> &[(RelPath, GapReason)] {
        &self.report.missing
    }

    /// Returns whether no file changed.
    pub fn is_empty(&self) -> bool {
        self.report.files == 0
    }

    /// Describes the changes that are not in the patch.
    pub fn notices(&self) -> Vec<String> {
        let missing = self.missing();
        let named = missing.iter().take(MAX_NAMED);
        let mut notices: Vec<String> = named
            .map(|(path, reason)| format!("not in the patch: `{}`: {reason}", printable(&path.to_string())))
            .collect();
        if missing.len() > MAX_NAMED {
            notices.push(format!("not in the patch: {} more changes", missing.len() - MAX_NAMED));
        }
        notices
    }

    /// Returns the patch. It is UTF-8, because other contents are encoded.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn text(&mut self) -> Result<String> {
        let mut text = String::new();
        let mut read = || {
            self.file.as_file().seek(SeekFrom::Start(0))?;
            self.file.as_file().read_to_string(&mut text)
        };
        read().map_err(|error| Failure::failed("cannot read the patch").because(error))?;
        Ok(text)
    }

    /// Puts the patch at its destination. Copies it to `stdout` if that is the destination.
    ///
    /// # Errors
    /// The destination cannot be written.
    pub fn put(mut self, stdout: &mut dyn io::Write) -> io::Result<()> {
        match self.target {
            PatchTarget::Stdout => {
                self.file.as_file().seek(SeekFrom::Start(0))?;
                io::copy(&mut self.file.as_file(), stdout)?;
                stdout.flush()
            }
            PatchTarget::File(path) => {
                self.file.flush()?;
                self.file.replace(&path).map(drop).map_err(|unplaced| unplaced.cause)
            }
        }
    }
}

/// The files at the start of a run, from which its patch begins.
#[derive(Debug)]
pub struct PatchStart {
    store: CheckpointStore,
    before: Tree,
    id: Digest,
    target: PatchTarget,
    /// The store of a run without checkpoints, removed at its end.
    _temporary: Option<TempDir>,
}

impl PatchStart {
    /// Takes the snapshot at the start of a run, in the store of the workspace if the run takes checkpoints there. Files
    /// of any size are part of it. Blocks.
    ///
    /// # Errors
    /// The destination cannot be written, or the snapshot cannot be taken.
    pub fn take_snapshot(
        base: &Base,
        session: Option<&Session>,
        more: &[PathBuf],
        target: PatchTarget,
    ) -> Result<Self> {
        target.check()?;
        let own: Vec<PathBuf> = more.iter().cloned().chain(target.file().map(Path::to_owned)).collect();
        let kept = session.and_then(|session| base.checkpoints(&base.workspace, session.path(), &own));
        let (store, temporary) = match kept {
            Some(store) => (store, None),
            None => {
                let temporary = tempfile::tempdir().map_err(|error| {
                    Failure::failed("cannot create a temporary directory for the patch").because(error)
                })?;
                let directory = temporary.path().join("store");
                let files = session.map(|session| session.path().to_owned());
                let own = own.into_iter().chain(files).collect();
                (base.store_in(&directory, &base.workspace, own, SnapshotLimits::default()), Some(temporary))
            }
        };
        let store = store.complete();
        let before = store.snapshot().map_err(failed)?;
        Ok(Self { store, before: before.tree, id: before.id, target, _temporary: temporary })
    }

    /// Returns the name of the snapshot.
    pub fn id(&self) -> Digest {
        self.id
    }

    /// Writes the patch of everything that changed since the start. Blocks.
    ///
    /// # Errors
    /// The snapshot at the end cannot be taken, or the patch cannot be written.
    pub fn finish(self) -> Result<WrittenPatch> {
        let after = self.store.snapshot().map_err(failed)?;
        WrittenPatch::write(&self.store, &self.before, &after.tree, self.target)
    }
}

/// Writes the patch of a session, from its first snapshot to its last one. Work that was interrupted reaches up to the
/// current files. Blocks.
///
/// # Errors
/// Checkpoints are off, a snapshot is missing, or the patch cannot be written.
pub fn session_patch(base: &Base, path: &Path, target: PatchTarget) -> Result<WrittenPatch> {
    let trees = SessionTrees::read(base, path, &target)?;
    WrittenPatch::write(&trees.store, &trees.before, &trees.after, target)
}

/// Writes two patches with paths relative to the session's workspace: the first creates the files from the start of the
/// session in an empty directory, and the second makes the session's changes. Blocks.
///
/// # Errors
/// Checkpoints are off, a snapshot is missing, or a patch cannot be written.
pub fn session_files(base: &Base, path: &Path) -> Result<[WrittenPatch; 2]> {
    let SessionTrees { store, before, after } = SessionTrees::read(base, path, &PatchTarget::Stdout)?;
    let write =
        |one: &Tree, other: &Tree| WrittenPatch::write_below(&store, one, other, PatchTarget::Stdout, Path::new(""));
    Ok([write(&Tree::default(), &before)?, write(&before, &after)?])
}

/// The first and the last snapshot of a session.
struct SessionTrees {
    store: CheckpointStore,
    before: Tree,
    after: Tree,
}

impl SessionTrees {
    fn read(base: &Base, path: &Path, target: &PatchTarget) -> Result<Self> {
        let mut transcript = Transcript::open(path).map_err(Failure::from)?;
        let workspace = transcript.header().map_or_else(|| base.workspace.clone(), |header| header.workspace.clone());
        let own: Vec<PathBuf> = target.file().map(Path::to_owned).into_iter().collect();
        let store = base.checkpoints(&workspace, path, &own).ok_or_else(|| {
            Failure::failed("checkpoints are off, so the changes of the session are not known")
                .hint("turn them on with `enabled = true` in `[undo]` of the config")
        })?;
        let turns = Turns::read(&mut transcript);
        let work = || turns.turns.iter().flat_map(|turn| &turn.work);
        let (before, after) = match (work().next(), work().next_back()) {
            (Some(first), Some(last)) => {
                let after = match last.after {
                    Some(after) => store.tree(after).map_err(not_kept)?,
                    None => store.complete().snapshot().map_err(failed)?.tree,
                };
                (store.tree(first.before).map_err(not_kept)?, after)
            }
            _ => match turns.turns.iter().flat_map(|turn| &turn.problems).next() {
                Some(problem) => {
                    return Err(Failure::failed(format!("no snapshot of this session was taken: {problem}")));
                }
                None => (Tree::default(), Tree::default()),
            },
        };
        Ok(Self { store, before, after })
    }
}

/// Returns the path of a directory in its repository, as paths in patches of git begin; empty without a repository.
fn prefix(root: &Path) -> PathBuf {
    let top = root.ancestors().find(|path| path.join(".git").exists());
    top.and_then(|top| root.strip_prefix(top).ok()).map(Path::to_owned).unwrap_or_default()
}

fn failed(error: Error) -> Failure {
    let hint = match error {
        Error::Interrupted => Some("`pinion session rewind --redo --dry-run` shows the undo that was interrupted"),
        _ => None,
    };
    let failure = Failure::failed("cannot make the patch").because(error);
    hint.into_iter().fold(failure, Failure::hint)
}

fn not_kept(error: Error) -> Failure {
    match error {
        Error::NoSuchTree(_) => Failure::failed("the snapshots of this session are not kept any more")
            .because(error)
            .hint("`days` and `keep-bytes` in `[undo]` of the config say how long they are kept"),
        error => failed(error),
    }
}
