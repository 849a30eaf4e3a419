//! The tool calls of a session, with the snapshots around them while the journal is on.
//!
//! A call that runs alone has the checkpoints before and after it. At the end of a call that others outlast, there is one
//! more snapshot: concurrent calls are in the order in which they ended, and each has the changes since the end before it.

use crate::undo::keeper::{Keeper, blocking, lost};
use crate::workspace_base::Base;
use pinion_agent::Message;
use pinion_agent::content::{ToolCall, text_of};
use pinion_checkpoints::{CheckpointStore, Diff, Digest, Error, WorkChanges};
use pinion_session_store::record::CallSnapshots;
use pinion_session_store::{Payload, Record, SessionError, Transcript};
use std::collections::HashMap;
use std::path::Path;

/// Bytes of a result that are kept.
const MAX_RESULT: usize = 2_000;
/// Bytes of the differences of a call.
const MAX_DIFF: usize = 64 * 1024;

/// The calls of a session, and the store of its snapshots.
#[derive(Debug)]
pub struct CallHistory {
    /// The id of the session; empty if its first line is lost.
    pub session: String,
    /// The calls, in the order in which they ended.
    pub calls: Vec<SessionCall>,
    /// The snapshots; `None` if checkpoints are off.
    pub store: Option<CheckpointStore>,
}

impl CallHistory {
    /// Reads the current branch of the session in the file `path`.
    ///
    /// # Errors
    /// The session cannot be read.
    pub fn read(base: &Base, path: &Path) -> Result<Self, SessionError> {
        let mut transcript = Transcript::open(path)?;
        let header = transcript.header();
        let workspace = header.map_or_else(|| base.workspace.clone(), |header| header.workspace.clone());
        let session = header.map_or_else(String::new, |header| header.id.clone());
        let store = base.checkpoints(&workspace, path, &[]);
        Ok(Self { session, calls: session_calls(&mut transcript), store })
    }
}

/// Returns the differences between two snapshots.
///
/// # Errors
/// A snapshot was removed, or is damaged.
pub fn diff_between(store: &CheckpointStore, before: Digest, after: Digest) -> Result<Diff, Error> {
    let mut changes = WorkChanges::default();
    if before != after {
        changes.add(&store.tree(before)?, &store.tree(after)?);
    }
    Ok(store.diff(&changes, MAX_DIFF))
}

/// A tool call of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCall {
    /// Its id.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The beginning of the arguments, as JSON.
    pub arguments: String,
    /// The result; `None` for a call whose result is not in the session: of a sub-agent, or of another call.
    pub result: Option<ShortResult>,
    /// The snapshots before and after it, if there are any.
    pub snapshots: Option<(Digest, Digest)>,
}

/// The beginning of a call's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortResult {
    /// The text, cut to 2,000 bytes.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}

/// Returns the calls on the current branch, in the order in which they ended. Entries that cannot be read are skipped.
fn session_calls(transcript: &mut Transcript) -> Vec<SessionCall> {
    let (mut calls, mut arguments): (Vec<SessionCall>, HashMap<String, String>) = Default::default();
    for entry in transcript.branch().flatten() {
        match entry.payload {
            Payload::Record(Record::CallSnapshots(found)) => calls.push(call_of(found)),
            Payload::Message(Message::Assistant(message)) => {
                let of_message = message.tool_calls();
                arguments.extend(of_message.map(|call| (call.id.clone(), shortened(&call.arguments.to_string()))));
            }
            Payload::Message(Message::ToolResult(result)) => {
                let text = text_of(&result.content);
                let text = text[..text.floor_char_boundary(MAX_RESULT)].to_owned();
                let result_text = Some(ShortResult { text, is_error: result.is_error });
                let is_same = |call: &&mut SessionCall| {
                    call.result.is_none() && call.id == result.call_id && call.tool == result.tool_name
                };
                if let Some(call) = calls.iter_mut().rev().find(is_same) {
                    call.result = result_text;
                    continue;
                }
                let arguments = arguments.get(&result.call_id).cloned().unwrap_or_default();
                let (id, tool) = (result.call_id, result.tool_name);
                calls.push(SessionCall { id, tool, arguments, result: result_text, snapshots: None });
            }
            _ => {}
        }
    }
    calls
}

fn call_of(found: CallSnapshots) -> SessionCall {
    let snapshots = Digest::parse(&found.before).zip(Digest::parse(&found.after));
    SessionCall { id: found.call_id, tool: found.tool, arguments: found.arguments, result: None, snapshots }
}

/// A state of the files in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedState {
    /// The name of the snapshot.
    pub tree: Digest,
    /// The reason for the state.
    pub origin: StateOrigin,
}

/// The reason why the files are in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateOrigin {
    /// No call has changed files yet.
    Start,
    /// The call at this position of the list changed them.
    Call(usize),
    /// Something else changed them before the call at this position.
    Others(usize),
}

/// Returns the different states of the files, in order. Calls that changed nothing have no state.
pub fn recorded_states(calls: &[SessionCall]) -> Vec<RecordedState> {
    let mut states: Vec<RecordedState> = Vec::new();
    for (position, call) in calls.iter().enumerate() {
        let Some((before, after)) = call.snapshots else { continue };
        let origin = if states.is_empty() { StateOrigin::Start } else { StateOrigin::Others(position) };
        for (tree, origin) in [(before, origin), (after, StateOrigin::Call(position))] {
            if states.last().is_none_or(|last| last.tree != tree) {
                states.push(RecordedState { tree, origin });
            }
        }
    }
    states
}

/// Bytes of arguments that a record keeps.
const MAX_ARGUMENTS: usize = 160;

impl Keeper {
    /// Takes the snapshot at the end of a call while others are at work. Without it, the changes count as changes of the
    /// call that ends next.
    pub(super) async fn snapshot_among_calls(&self) -> Option<Digest> {
        let store = self.kept()?.1.patient();
        let taken = blocking(move || store.snapshot()).await;
        taken.inspect_err(|problem| tracing::debug!(problem, "no snapshot at the end of a call")).ok().map(|it| it.id)
    }

    /// Records the snapshots around a call.
    pub(super) fn record_call(&self, call: &ToolCall, before: Digest, after: Digest) {
        let Some((session, _)) = self.kept() else { return };
        let arguments = self.base.secrets.clean(&call.arguments.to_string()).into_owned();
        let record = Record::CallSnapshots(CallSnapshots {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            arguments: shortened(&arguments),
            before: before.to_string(),
            after: after.to_string(),
        });
        if let Err(error) = session.record(&record) {
            self.notice(lost(&error));
        }
    }
}

/// Cuts the arguments of a call to the beginning that records keep.
pub(super) fn shortened(arguments: &str) -> String {
    let end = arguments.floor_char_boundary(MAX_ARGUMENTS);
    format!("{}{}", &arguments[..end], if end < arguments.len() { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u8) -> Digest {
        Digest::parse(&format!("{number:02x}").repeat(32)).unwrap()
    }

    fn call(snapshots: Option<(u8, u8)>) -> SessionCall {
        let snapshots = snapshots.map(|(before, after)| (digest(before), digest(after)));
        SessionCall { id: "c".into(), tool: "t".into(), arguments: String::new(), result: None, snapshots }
    }

    #[test]
    fn states_name_the_calls_that_changed_files_and_the_changes_between_them() {
        let calls = [call(None), call(Some((1, 2))), call(Some((2, 2))), call(Some((3, 4))), call(Some((4, 1)))];
        let states: Vec<_> = recorded_states(&calls).iter().map(|state| (state.tree, state.origin)).collect();
        let expected = [
            (digest(1), StateOrigin::Start),
            (digest(2), StateOrigin::Call(1)),
            (digest(3), StateOrigin::Others(3)),
            (digest(4), StateOrigin::Call(3)),
            (digest(1), StateOrigin::Call(4)),
        ];
        assert_eq!(states, expected);
    }
}
