//! Copies a branch of a session to a separate session.

use crate::error::{SessionError, SessionErrorKind};
use crate::files;
use crate::format;
use crate::header::{SessionHeader, SessionOrigin};
use crate::id::EntryId;
use crate::transcript::Transcript;
use pinion_files::Durability;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The workspace of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ForkWorkspace<'a> {
    /// The workspace of the source; `or` if it does not name one.
    OfSource { or: &'a Path },
    /// Another one.
    Other(&'a Path),
}

/// Copies a branch of the session in the file `source` to a new session below `root`, and returns its file: the entries
/// up to `at`, or the current branch. Entries keep their ids and times, and the header names their source. Skips
/// entries whose line is broken. The source may be in use, and is not changed.
///
/// The new session appears complete or not at all.
pub(crate) fn fork(
    source: &Path,
    at: Option<EntryId>,
    root: &Path,
    workspace: ForkWorkspace<'_>,
) -> Result<PathBuf, SessionError> {
    let mut transcript = Transcript::open(source)?;
    let empty = || SessionError::new(source, SessionErrorKind::Empty);
    let leaf = at.or(transcript.position()).ok_or_else(empty)?;
    let origin = SessionOrigin { session: session_id(&transcript), entry: leaf };
    let workspace = match workspace {
        ForkWorkspace::OfSource { or } => transcript.header().map_or(or, |header| &header.workspace),
        ForkWorkspace::Other(workspace) => workspace,
    };
    let header = SessionHeader { forked_from: Some(origin), ..SessionHeader::new(workspace) };
    let target = files::path_of(root, &header);
    let part = files::create_part(&target, Durability::Content)?;
    copy(&mut transcript, leaf, &header, part.as_file(), part.path())?;
    part.create(&target).map_err(|unplaced| SessionError::io("create", &target)(unplaced.cause))?;
    Ok(target)
}

fn session_id(transcript: &Transcript) -> String {
    transcript.header().map_or_else(|| files::id_of(transcript.path()), |header| header.id.clone())
}

fn copy(
    transcript: &mut Transcript,
    leaf: EntryId,
    header: &SessionHeader,
    file: &File,
    path: &Path,
) -> Result<(), SessionError> {
    let write = |error: io::Error| SessionError::io("write", path)(error);
    let unknown = SessionError::new(transcript.path(), SessionErrorKind::UnknownEntry { entry: leaf });
    let mut branch = transcript.branch_to(leaf).ok_or(unknown)?;
    let mut out = BufWriter::new(file);
    out.write_all(&encoded(header, path)?).map_err(write)?;
    let mut parent = None;
    while let Some(line) = branch.next_line() {
        let (node, line) = line?;
        // A broken line would be broken in the copy as well; the source still has it.
        let Ok(line) = format::encode_moved(line, parent) else { continue };
        out.write_all(&line).map_err(write)?;
        parent = Some(node.id);
    }
    out.flush().map_err(write)
}

fn encoded(header: &SessionHeader, path: &Path) -> Result<Vec<u8>, SessionError> {
    header.encode().map_err(|error| SessionError::new(path, SessionErrorKind::Unwritable { source: error.into() }))
}
