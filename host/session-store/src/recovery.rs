//! Opening a session to go on with it, whatever the last process left behind.

use crate::error::{BadLines, SessionError};
use crate::files;
use crate::format::{self, Kind, Payload};
use crate::header::Header;
use crate::index::{HeaderState, Index, Tail};
use crate::lock;
use crate::pairing::{Pairing, repair_pairing};
use crate::record::{LoopStart, Record, RecordKind};
use crate::session::Session;
use crate::transcript::Transcript;
use pinion_protocol::{Message, sort_results};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A session to go on with.
#[derive(Debug)]
pub struct Opened {
    /// Takes what follows.
    pub session: Session,
    /// What was said so far, from the root of the tree to where the conversation stands. Every tool call is followed by
    /// its result.
    pub messages: Vec<Arc<Message>>,
    /// How many loops began in the session so far, on any branch: the number of the last one, for loop ids.
    pub loops: u64,
    /// The loop that began last on this branch, for what goes on from it.
    pub last_loop: Option<LoopStart>,
    /// What was found and put right.
    pub recovery: Recovery,
}

/// What was found on opening a session, and put right.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The session ended in the middle of a line; what there was of it is in this file now.
    pub torn: Option<PathBuf>,
    /// Lines that were left out, because they are broken. They stay in the file.
    pub bad_lines: BadLines,
    /// What was needed to pair tool calls with results.
    pub pairing: Pairing,
}

impl Recovery {
    /// What a user should be told, one sentence each; nothing for a session that ended well.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if let Some(path) = &self.torn {
            notices.push(format!("the session ended in the middle of a line, which was moved to `{}`", path.display()));
        }
        if let Some(first) = self.bad_lines.first().first() {
            let count = self.bad_lines.count();
            notices.push(format!("lines of the session that are broken and were left out: {count}; first {first}"));
        }
        if self.pairing.at_end > 0 {
            notices.push(format!("tool calls that were interrupted: {}", self.pairing.at_end));
        }
        notices
    }
}

/// Opens the session in the file `path` to go on with it, for this process alone.
///
/// A torn last line is set aside to `<path>.torn-<n>`. Broken lines are left out, and what followed them follows the
/// last good entry. Tool calls that never got a result get one that says so, and it is appended. `workspace` is the
/// session's when the file does not say which it has, because its first line is lost.
///
/// # Errors
/// The session is in use, or has another version, or is no session, or cannot be read or written. Nothing was changed
/// then, except that what a full disk allowed of the above may be done.
pub fn open_to_continue(path: &Path, workspace: &Path) -> Result<Opened, SessionError> {
    let file = lock::open_locked(path)?;
    let mut transcript = Transcript::read(path, file)?;
    let mut recovery = Recovery { bad_lines: transcript.bad_lines().clone(), ..Recovery::default() };
    let last_loop = last_loop(&mut transcript);
    let mut messages = transcript.branch().messages(&mut recovery.bad_lines)?;
    let (mut file, index) = transcript.into_parts();
    recovery.torn = settle_tail(path, &mut file, &index)?;
    let session = Session::resume(path, header(path, workspace, &index), &index, file);
    recovery.pairing = repair_pairing(&mut messages, format::now());
    for message in &messages[messages.len() - recovery.pairing.at_end..] {
        session.append_message(message)?;
    }
    sort_results(&mut messages);
    Ok(Opened { session, messages, loops: index.loops(), last_loop, recovery })
}

/// The loop that began last on the branch; none when its record cannot be read.
fn last_loop(transcript: &mut Transcript) -> Option<LoopStart> {
    let index = transcript.index();
    let nodes = index.branch(index.position());
    let last = nodes.into_iter().rfind(|node| node.kind == Kind::Record(RecordKind::LoopStart))?;
    match transcript.entries(vec![last]).next()?.ok()?.payload {
        Payload::Record(Record::LoopStart(start)) => Some(start),
        _ => None,
    }
}

/// The file's header, or the best that can be made of its name and surroundings.
fn header(path: &Path, workspace: &Path, index: &Index) -> Header {
    match &index.header {
        HeaderState::Good(header) => Header::clone(header),
        HeaderState::Missing | HeaderState::Broken => Header::named(files::id_of(path), workspace),
    }
}

/// Makes the file end with a whole line. Says where to what did not belong to one was moved.
fn settle_tail(path: &Path, file: &mut File, index: &Index) -> Result<Option<PathBuf>, SessionError> {
    match index.tail {
        Tail::None => Ok(None),
        Tail::Unended => file.write_all(b"\n").map(|()| None).map_err(SessionError::io("append to", path)),
        Tail::Torn => {
            let (aside_path, mut aside) = files::create_aside(path)?;
            copy_from(file, index.end, &mut aside).map_err(SessionError::io("write", &aside_path))?;
            file.set_len(index.end).map_err(SessionError::io("truncate", path))?;
            Ok(Some(aside_path))
        }
    }
}

fn copy_from(file: &mut File, offset: u64, to: &mut File) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    io::copy(file, to)?;
    to.sync_data()
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
