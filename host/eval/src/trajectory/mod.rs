//! The path of an agent through a task: its turns with their calls and results.

mod live;
mod session;

pub use self::live::EventCollector;
pub use self::session::from_session;

use crate::case::CallEffect;
use pinion_protocol::{Ledger, RunEnd, StepStatus, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// Stands for the directory of the workspace in texts, so that equal runs leave equal trajectories.
pub const WORKSPACE: &str = "$WORKSPACE";
/// Maximum bytes of a text in a trajectory; longer ones are cut.
const MAX_TEXT: usize = 64 << 10;

/// The work of an agent on a case, with its sub-agents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// All turns in the order of their ends. A sub-agent's turns come before the end of the turn that started it.
    pub turns: Vec<TrajectoryTurn>,
    /// The text of the last reply of the agent itself.
    pub answer: String,
    /// The end of the last run; `None` if it did not end.
    pub end: Option<RunEnd>,
    /// The provider that answered.
    pub provider: String,
    /// The model that answered.
    pub model: String,
    /// Tokens of all requests.
    pub usage: Usage,
    /// Cost of all requests in US dollars; `None` when a price is unknown.
    pub cost: Option<f64>,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Id of the session.
    pub session_id: String,
    /// Starts and ends of the steps of an executed plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlanProgress>,
}

/// The start or the end of a step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanProgress {
    /// Number of the step, counted from 1.
    pub step: usize,
    /// Number of steps in the plan.
    pub steps: usize,
    /// Title of the step.
    pub title: String,
    /// Status of the step from now on.
    pub status: StepStatus,
}

/// One request to a model, its reply, and the calls in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryTurn {
    /// Number of the run, in the order of starts: 0 is the first run of the agent.
    pub run: usize,
    /// Whether a sub-agent's run contains the turn.
    pub is_sub_agent: bool,
    /// Number of the turn in its run, counted from 1.
    pub number: u32,
    /// Messages of the user before the reply.
    pub prompts: Vec<String>,
    /// The text of the reply.
    pub text: String,
    /// The calls in the reply, in its order.
    pub calls: Vec<TrajectoryCall>,
    /// Name of the model that wrote the reply.
    pub model: String,
    /// Tokens of the request.
    pub usage: Usage,
    /// Cost of the request in US dollars; `None` when the price is unknown.
    pub cost: Option<f64>,
    /// Duration of the request and its calls, in milliseconds.
    pub duration_ms: u64,
}

/// A tool call and its result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryCall {
    /// Id of the call.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: Value,
    /// Text of the result for the model; `None` without a result.
    pub result: Option<String>,
    /// Whether the call failed or did not run.
    pub is_error: bool,
    /// Whether a person, a rule or a hook denied the call.
    pub is_denied: bool,
    /// Effects that the call had, as its ledger counted them.
    pub effects: BTreeSet<CallEffect>,
    /// Duration in milliseconds; 0 for a call that did not run.
    pub duration_ms: u64,
}

impl Trajectory {
    /// Returns all calls in order, or only the calls of the agent itself.
    pub fn calls(&self, with_sub_agents: bool) -> impl Iterator<Item = &TrajectoryCall> {
        self.turns.iter().filter(move |turn| with_sub_agents || !turn.is_sub_agent).flat_map(|turn| &turn.calls)
    }

    /// Adds the work on a later prompt of the same conversation.
    pub fn append(&mut self, later: Self) {
        let runs = self.turns.iter().map(|turn| turn.run + 1).max().unwrap_or_default();
        let is_first = self.turns.is_empty();
        self.plan.extend(later.plan);
        self.turns.extend(later.turns.into_iter().map(|turn| TrajectoryTurn { run: turn.run + runs, ..turn }));
        self.cost = if is_first { later.cost } else { self.cost.zip(later.cost).map(|(one, other)| one + other) };
        self.usage = self.usage.combine(&later.usage);
        self.duration_ms = self.duration_ms.saturating_add(later.duration_ms);
        (self.answer, self.end) = (later.answer, later.end);
        (self.provider, self.model, self.session_id) = (later.provider, later.model, later.session_id);
    }

    /// Computes the sums from the turns.
    fn sum_up(&mut self) {
        self.usage = self.turns.iter().fold(Usage::default(), |sum, turn| sum.combine(&turn.usage));
        self.cost = self.turns.iter().map(|turn| turn.cost).sum();
        let own = self.turns.iter().rev().find(|turn| !turn.is_sub_agent);
        self.answer = own.map(|turn| turn.text.clone()).unwrap_or_default();
        self.model = own.map(|turn| turn.model.clone()).unwrap_or_default();
    }
}

/// Returns the effects that a call had. A program may do more than its start: its own writes count as `executes`.
fn effects_of(ledger: &Ledger) -> BTreeSet<CallEffect> {
    let effects = [
        (ledger.files > 0 || ledger.bytes_read > 0, CallEffect::Reads),
        (ledger.bytes_written > 0, CallEffect::Writes),
        (ledger.processes > 0, CallEffect::Executes),
        (ledger.requests > 0, CallEffect::Network),
        (ledger.agents > 0, CallEffect::Delegates),
    ];
    effects.into_iter().filter_map(|(has, effect)| has.then_some(effect)).collect()
}

/// Returns whether a result says that its call was denied. Calls that are unknown, invalid or skipped have other texts.
fn is_denial(tool: &str, is_error: bool, text: &str) -> bool {
    is_error && text.strip_prefix(&format!("`{tool}`: denied: ")).is_some()
}

/// Replaces the workspace in a text and bounds its length.
fn clean(text: &str, workspace: Option<&str>) -> String {
    let mut text = match workspace.filter(|workspace| workspace.len() > 1) {
        Some(workspace) => text.replace(workspace, WORKSPACE),
        None => text.to_owned(),
    };
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.push('…');
    }
    text
}

/// Replaces the workspace in all texts of a value.
fn clean_value(value: &Value, workspace: Option<&str>) -> Value {
    match value {
        Value::String(text) => Value::String(clean(text, workspace)),
        Value::Array(items) => items.iter().map(|item| clean_value(item, workspace)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), clean_value(value, workspace))).collect()
        }
        plain => plain.clone(),
    }
}
