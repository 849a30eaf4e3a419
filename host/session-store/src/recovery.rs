//! Opens a session to continue it, in any state that the last process may have left.

use crate::error::{BadLines, SessionError};
use crate::files;
use crate::format::{self, EntryKind, Payload};
use crate::header::SessionHeader;
use crate::index::{EntryIndex, HeaderState, Tail};
use crate::lock::{self, OpenSession};
use crate::pairing::{Pairing, repair_pairing};
use crate::record::{GroupEnd, Record, RecordKind, RunStarted};
use crate::replay::{History, add_record};
use crate::session::Session;
use crate::transcript::Transcript;
use pinion_protocol::{Message, RunNumbers, Totals, sort_results};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A session that can be continued.
#[derive(Debug)]
pub struct ResumableSession {
    /// The session itself, to append to.
    pub session: Session,
    /// The messages from the root of the tree to the position of the conversation. Every tool call is followed by its
    /// result.
    pub messages: Vec<Arc<Message>>,
    /// The records of this branch, each with the number of messages before it.
    pub records: Vec<(usize, Record)>,
    /// All requests so far, on all branches.
    pub totals: Totals,
    /// The numbers of the runs so far, on all branches, for the ids of further runs.
    pub runs: RunNumbers,
    /// The last run of this branch, which the next run continues. It may be the run that was chosen from a group.
    pub last_run: Option<RunStarted>,
    /// The repairs.
    pub recovery: Recovery,
}

/// The repairs that were needed to open a session.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The file with the torn last line, where there was one.
    pub torn: Option<PathBuf>,
    /// The lines that were skipped because they are broken. They stay in the session.
    pub bad_lines: BadLines,
    /// The repairs of calls without results, and of results without calls.
    pub pairing: Pairing,
}

impl Recovery {
    /// Describes the repairs for the user, one sentence each; empty for a session that ended well.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if let Some(path) = &self.torn {
            notices.push(format!("the last line of the session was incomplete and was moved to `{}`", path.display()));
        }
        if let Some(first) = self.bad_lines.first().first() {
            let count = self.bad_lines.count();
            notices.push(format!("skipped broken lines of the session: {count}; the first is {first}"));
        }
        if self.pairing.at_end > 0 {
            notices.push(format!("interrupted tool calls: {}", self.pairing.at_end));
        }
        notices
    }
}

/// Opens the session in the file `path` for continuing, for this process alone.
///
/// Moves a torn last line to `<path>.torn-<n>`. Skips broken lines; their followers follow the last good entry. Appends
/// a result for each tool call that never got one. `workspace` is used when the file does not name its own because the
/// first line is lost.
///
/// # Errors
/// The session is in use, has another version, is not a session, or cannot be read or written. It is unchanged then,
/// but on a full disk some of the repairs may be done.
pub fn open_to_continue(path: &Path, workspace: &Path) -> Result<ResumableSession, SessionError> {
    let file = lock::open_locked(path)?;
    let mut transcript = Transcript::read(path, file)?;
    let mut recovery = Recovery { bad_lines: transcript.bad_lines().clone(), ..Recovery::default() };
    let history = transcript.branch().history(&mut recovery.bad_lines)?;
    let last_run = last_run(&mut transcript, &history)?;
    let totals = totals(&mut transcript, &history);
    let History { mut messages, records } = history;
    let runs = transcript.run_numbers()?;
    let (mut file, index) = transcript.into_parts();
    recovery.torn = settle_tail(path, &mut file, &index)?;
    let session = Session::resume(path, header(path, workspace, &index), &index, file);
    recovery.pairing = repair_pairing(&mut messages, format::now());
    for message in &messages[messages.len() - recovery.pairing.at_end..] {
        session.append_message(message)?;
    }
    sort_results(&mut messages);
    Ok(ResumableSession { session, messages, records, totals, runs, last_run, recovery })
}

/// Returns the last run of the branch.
///
/// # Errors
/// The file can no longer be read.
fn last_run(transcript: &mut Transcript, history: &History) -> Result<Option<RunStarted>, SessionError> {
    let (mut last, mut group): (Option<RunStarted>, &[String]) = (None, &[]);
    for (_, record) in &history.records {
        match record {
            Record::GroupStart(start) => group = &start.run_ids,
            Record::RunStarted(start) if !group.contains(&start.run_id) => last = Some(start.clone()),
            // The records of a group's runs are not on its branches.
            Record::GroupEnd(GroupEnd { chosen: Some(chosen), .. }) => {
                let runs = transcript.runs()?;
                let start = runs.get(chosen).and_then(|run| run.start.as_ref()).map(|start| start.start.clone());
                last = Some(start.unwrap_or_else(|| RunStarted { run_id: chosen.clone(), ..RunStarted::default() }));
            }
            _ => {}
        }
    }
    Ok(last)
}

/// Returns the requests on all branches. Runs that were killed count on the current one only.
fn totals(transcript: &mut Transcript, history: &History) -> Totals {
    let mut totals = history.totals();
    let index = transcript.index();
    let here: HashSet<u64> = index.branch(index.position()).iter().map(|node| node.offset).collect();
    let accounts = [RecordKind::RunEnded, RecordKind::GroupEnd, RecordKind::Compacted].map(EntryKind::Record);
    let elsewhere = index.nodes.iter().filter(|node| accounts.contains(&node.kind) && !here.contains(&node.offset));
    let elsewhere = elsewhere.copied().collect();
    for entry in transcript.entries(elsewhere).flatten() {
        if let Payload::Record(record) = &entry.payload {
            add_record(&mut totals, record);
        }
    }
    totals
}

/// Returns the file's header, or one made from its name and `workspace`.
fn header(path: &Path, workspace: &Path, index: &EntryIndex) -> SessionHeader {
    match &index.header {
        HeaderState::Good(header) => SessionHeader::clone(header),
        HeaderState::Missing | HeaderState::Broken => SessionHeader::named(files::id_of(path), workspace),
    }
}

/// Makes the file end with a complete line. Returns the file with the torn line, where there was one.
fn settle_tail(path: &Path, file: &mut OpenSession, index: &EntryIndex) -> Result<Option<PathBuf>, SessionError> {
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

fn copy_from(file: &mut OpenSession, offset: u64, to: &mut File) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    io::copy(file, to)?;
    to.sync_data()
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
