//! Trajectories from session files.

use super::{PlanProgress, Trajectory, TrajectoryCall, TrajectoryTurn, clean, clean_value, effects_of, is_denial};
use crate::error::EvalError;
use pinion_protocol::content::text_of;
use pinion_protocol::{AssistantMessage, Message, ToolResultMessage};
use pinion_session_store::{Payload, Record, RunName, Transcript};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Maximum depth of sub-agents of sub-agents.
const MAX_DEPTH: usize = 16;

/// Reads the trajectory of the conversation in a session file, sub-agents included. `find` returns the file of a
/// sub-agent by the id of its session. A sub-agent without a file is left out.
///
/// # Errors
/// A file cannot be read. Entries that are broken are left out.
pub fn from_session(path: &Path, find: &dyn Fn(&str) -> Option<PathBuf>) -> Result<Trajectory, EvalError> {
    let mut reader = SessionReader { find, runs: 0, seen: HashSet::new(), trajectory: Trajectory::default() };
    reader.read(path, 0)?;
    let mut trajectory = reader.trajectory;
    trajectory.sum_up();
    Ok(trajectory)
}

/// The sessions that are read.
struct SessionReader<'a> {
    find: &'a dyn Fn(&str) -> Option<PathBuf>,
    runs: usize,
    seen: HashSet<PathBuf>,
    trajectory: Trajectory,
}

impl SessionReader<'_> {
    fn read(&mut self, path: &Path, depth: usize) -> Result<(), EvalError> {
        let failed =
            |error: &dyn std::fmt::Display| EvalError::Session { path: path.to_owned(), problem: error.to_string() };
        if depth > MAX_DEPTH || !self.seen.insert(path.to_owned()) {
            return Ok(());
        }
        let mut transcript = Transcript::open(path).map_err(|error| failed(&error))?;
        let workspace = transcript.header().map(|header| header.workspace.to_string_lossy().into_owned());
        let id = transcript.header().map(|header| header.id.clone()).unwrap_or_default();
        let is_sub_agent = depth > 0;
        let mut turns: Vec<TrajectoryTurn> = Vec::new();
        let (mut run, mut number, mut prompts) = (self.runs, 0, Vec::new());
        let (mut effects, mut children, mut first, mut last) = (HashMap::new(), Vec::new(), None, None);
        let mut results = HashMap::new();
        for entry in transcript.branch() {
            let Ok(entry) = entry else { continue };
            let before = last.replace(entry.time);
            first = first.or(Some(entry.time));
            match entry.payload {
                Payload::Message(Message::User(message)) => {
                    prompts.push(clean(&text_of(&message.content), workspace.as_deref()));
                }
                Payload::Message(Message::Assistant(reply)) => {
                    number += 1;
                    let duration = before.map_or(0, |before| entry.time.duration_since(before).as_millis());
                    turns.push(TrajectoryTurn {
                        run,
                        is_sub_agent,
                        number,
                        prompts: std::mem::take(&mut prompts),
                        duration_ms: u64::try_from(duration).unwrap_or_default(),
                        ..turn(&reply, workspace.as_deref())
                    });
                }
                Payload::Message(Message::ToolResult(result)) => drop(results.insert(result.call_id.clone(), result)),
                Payload::Record(Record::CallLedger(record)) => {
                    effects.insert(record.call_id, (effects_of(&record.ledger), record.ledger.time_us / 1_000));
                }
                Payload::Record(Record::RunStarted(start)) => {
                    (run, number) = (self.runs, 0);
                    self.runs += 1;
                    if !is_sub_agent {
                        self.trajectory.provider = start.provider.unwrap_or_default();
                    }
                }
                Payload::Record(Record::PlanStep(progress)) if !is_sub_agent => {
                    self.trajectory.plan.push(PlanProgress {
                        step: usize::try_from(progress.step).unwrap_or(usize::MAX),
                        steps: usize::try_from(progress.steps).unwrap_or(usize::MAX),
                        title: clean(&progress.title, workspace.as_deref()),
                        status: progress.status,
                    });
                }
                Payload::Record(Record::RunEnded(ended)) if !is_sub_agent => self.trajectory.end = Some(ended.end),
                Payload::Record(Record::Spawned(spawned)) => children.push((spawned.call_id, spawned.child_run_id)),
                _ => {}
            }
        }
        if !is_sub_agent {
            self.trajectory.session_id = id;
            let duration = first.zip(last).map_or(0, |(first, last)| last.duration_since(first).as_millis());
            self.trajectory.duration_ms = u64::try_from(duration).unwrap_or_default();
        }
        for mut turn in turns {
            for call in &mut turn.calls {
                if let Some(result) = results.remove(&call.id) {
                    complete(call, &result, workspace.as_deref());
                }
                (call.effects, call.duration_ms) = effects.remove(&call.id).unwrap_or_default();
                for (_, child) in children.iter().filter(|(id, _)| *id == call.id) {
                    let session = RunName::parse(child).map(|name| name.session.to_owned());
                    if let Some(path) = session.and_then(|session| (self.find)(&session)) {
                        self.read(&path, depth + 1)?;
                    }
                }
            }
            self.trajectory.turns.push(turn);
        }
        Ok(())
    }
}

fn turn(reply: &AssistantMessage, workspace: Option<&str>) -> TrajectoryTurn {
    let calls = reply.tool_calls().map(|call| TrajectoryCall {
        id: call.id.clone(),
        tool: call.name.clone(),
        arguments: clean_value(&call.arguments, workspace),
        is_error: true,
        ..TrajectoryCall::default()
    });
    TrajectoryTurn {
        text: clean(&reply.text(), workspace),
        calls: calls.collect(),
        model: reply.model.clone(),
        usage: reply.usage,
        cost: reply.cost.map(|cost| cost.total()),
        ..TrajectoryTurn::default()
    }
}

/// Adds the result to a call.
fn complete(call: &mut TrajectoryCall, result: &ToolResultMessage, workspace: Option<&str>) {
    let text = clean(&text_of(&result.content), workspace);
    call.is_error = result.is_error;
    call.is_denied = is_denial(&call.tool, result.is_error, &text);
    call.result = Some(text);
}
