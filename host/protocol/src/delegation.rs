//! Sub-agents, as tool calls start them: assignments, reports and errors. `pinion-orchestration` runs them.

use crate::authority::Authority;
use crate::choice::ChoiceName;
use crate::message::{Message, StopReason};
use crate::model::Model;
use crate::outcome::{Limit, Outcome, RunEnd};
use crate::provider::Provider;
use crate::usage::{Cost, Usage};
use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How deep sub-agents may be nested, whatever a policy says.
pub const MAX_AGENT_DEPTH: u32 = 3;

/// Attempts at one task.
pub const MAX_ATTEMPTS: u32 = 8;

/// What agents the tools of a loop may start.
#[derive(Clone)]
pub struct SubAgentPolicy {
    /// How deep they may be nested, up to [`MAX_AGENT_DEPTH`]; 0 for none at all.
    pub max_depth: u32,
    /// Turns of one that is given no other number.
    pub max_turns: u32,
    /// How many one call may start.
    pub max_per_call: u32,
    /// Those that the user has set up.
    pub kinds: Vec<AgentKind>,
    /// Finds the models that kinds name; without it, none can have another one than its parent.
    pub models: Option<Arc<dyn ModelSource>>,
}

impl Default for SubAgentPolicy {
    fn default() -> Self {
        Self { max_depth: 1, max_turns: 10, max_per_call: 16, kinds: Vec::new(), models: None }
    }
}

impl fmt::Debug for SubAgentPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SubAgentPolicy");
        debug.field("max_depth", &self.max_depth).field("max_turns", &self.max_turns).field("kinds", &self.kinds);
        debug.finish_non_exhaustive()
    }
}

/// Finds a model by the name that users give it.
pub trait ModelSource: Send + Sync {
    /// The model, and who is to be asked for it. The error is for people.
    fn model<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<FoundModel, String>>;
}

/// A model, and who is to be asked for it.
#[derive(Clone)]
pub struct FoundModel {
    /// Who is asked.
    pub provider: Arc<dyn Provider>,
    /// What for.
    pub model: Model,
}

/// A sub-agent that the user has set up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentKind {
    /// Its name.
    pub name: String,
    /// What it is for: for the model that may start it.
    pub description: String,
    /// What it is told besides its parent's system prompt.
    pub instructions: Option<String>,
    /// Its tools; all that its parent has when none are named.
    pub tools: Option<Vec<String>>,
    /// Its model, as users name it; its parent's when there is none. With several, each of them makes an attempt.
    pub models: Vec<String>,
    /// Its turns.
    pub max_turns: Option<u32>,
    /// Attempts that it makes when the assignment says nothing of them.
    pub attempts: Option<Attempts>,
    /// The model that judges them, as users name it; that of the first attempt when none is.
    pub judge: Option<String>,
}

/// The same task, worked on side by side; one report counts. Attempts get no tool that changes, runs or sends anything,
/// as they work in the same folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    /// 1 to [`MAX_ATTEMPTS`].
    pub count: u32,
    /// Which report counts.
    pub choice: ChoiceName,
}

/// What a sub-agent is to do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assignment {
    /// All that it is told of the task.
    pub prompt: String,
    /// One that the user has set up.
    pub kind: Option<String>,
    /// Its tools, of those that it could have at most; all of these when none are named.
    pub tools: Option<Vec<String>>,
    /// Its turns; no more than the user has set up.
    pub max_turns: Option<u32>,
    /// How long it may take; as long as the call when nothing is said.
    pub max_time: Option<Duration>,
    /// How often it is tried side by side; once when nothing is said.
    pub attempts: Option<Attempts>,
}

/// What became of a sub-agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The last thing that it said; empty when it said nothing.
    pub text: String,
    /// How it ended.
    pub end: RunEnd,
    /// Its loop.
    pub loop_id: Arc<str>,
    /// Its turns.
    pub turns: u32,
    /// Tokens of all its requests.
    pub usage: Usage,
    /// What they cost; none when that is not known.
    pub cost: Option<Cost>,
}

/// A sub-agent was not started, or was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubAgentError {
    /// There is no task.
    #[error("the prompt is empty: say what the sub-agent is to do, and all that it has to know")]
    NoPrompt,
    /// The user has set up no such sub-agent.
    #[error("there is no agent `{name}`; {}", listed("there are", known))]
    UnknownKind {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It would get a tool that there is not, or that this call may not pass on.
    #[error("a sub-agent cannot get the tool `{name}` here; {}", listed("it can get", known))]
    UnknownTool {
        /// What was asked for.
        name: String,
        /// Those that it could get.
        known: Vec<String>,
    },
    /// It would be tried too often, or never.
    #[error("a task is tried 1 to {MAX_ATTEMPTS} times, and not {count} times")]
    Attempts {
        /// How often it would be.
        count: u32,
    },
    /// This call has started as many as it may.
    #[error("this call has started {limit} sub-agents, which is as many as it may")]
    TooMany {
        /// How many.
        limit: u32,
    },
    /// Its model cannot be asked.
    #[error("the model `{name}` of the sub-agent cannot be used: {message}")]
    Model {
        /// Which one.
        name: String,
        /// Why.
        message: String,
    },
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
}

fn listed(what: &str, names: &[String]) -> String {
    if names.is_empty() { format!("{what} none") } else { format!("{what} `{}`", names.join("`, `")) }
}

/// The way from a tool call to sub-agents of the loop that made it. Cheap to clone.
#[derive(Clone)]
pub struct SubAgents(Arc<dyn Delegate>);

/// Starts sub-agents for one tool call: the port behind [`SubAgents`].
pub trait Delegate: Send + Sync {
    /// Runs a sub-agent within `ceiling` and waits for its report.
    fn run(&self, assignment: Assignment, ceiling: Ceiling) -> BoxFuture<'_, Result<Report, SubAgentError>>;

    /// What may be started.
    fn policy(&self) -> &SubAgentPolicy;

    /// Returns the id of the run that the latest sub-agent makes or made.
    fn last_loop(&self) -> Option<Arc<str>>;

    /// Sleeps for `time`, not counting the time in which a person is asked about a call of this session.
    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()>;
}

/// The most that a sub-agent may get.
pub struct Ceiling {
    /// The authority that bounds each of its tools.
    pub authority: Authority,
    /// Returns whether it may use the tool of this name.
    pub may_use: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

impl SubAgents {
    /// Wraps a delegate.
    pub fn new(delegate: impl Delegate + 'static) -> Self {
        Self(Arc::new(delegate))
    }

    /// How deep the sub-agents may be nested that are started by this: at least 1.
    pub fn depth_left(&self) -> u32 {
        self.0.policy().max_depth
    }

    /// Those that the user has set up.
    pub fn kinds(&self) -> &[AgentKind] {
        &self.0.policy().kinds
    }

    /// Lets a sub-agent work on a task, and waits for it. It gets no tool that can do more than `at_most`, and of these
    /// only those that `may_use` likes.
    ///
    /// Dropping the future cancels it; the loop of its parent ends after it all the same.
    ///
    /// # Errors
    /// It was not started, or was cancelled: see [`SubAgentError`]. However else it ends is a report.
    pub async fn run(
        &self,
        assignment: Assignment,
        at_most: Authority,
        may_use: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<Report, SubAgentError> {
        self.0.run(assignment, Ceiling { authority: at_most, may_use: Box::new(may_use) }).await
    }

    /// Returns the id of the run that the latest sub-agent makes or made.
    pub fn last_loop(&self) -> Option<Arc<str>> {
        self.0.last_loop()
    }

    /// Sleeps for `time`, not counting the time in which a person is asked about a call of this session: for deadlines of
    /// calls that wait for sub-agents.
    pub async fn sleep(&self, time: Duration) {
        self.0.sleep(time).await;
    }
}

impl fmt::Debug for SubAgents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubAgents").field("policy", self.0.policy()).finish_non_exhaustive()
    }
}

impl Report {
    /// Reports the outcome of a run.
    pub fn of(outcome: Outcome, loop_id: Arc<str>) -> Self {
        let said = outcome.messages.iter().rev().filter_map(|message| match &**message {
            Message::Assistant(message) => Some(message.text()),
            _ => None,
        });
        let text = said.into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default();
        let Outcome { end, usage, cost, turns, .. } = outcome;
        Self { text, end, loop_id, turns, usage, cost }
    }

    /// Why it is not what it could have been; none when it ended of its own accord.
    pub fn shortfall(&self) -> Option<String> {
        Some(match &self.end {
            RunEnd::Done { stop_reason: StopReason::Length } => {
                "its last message was cut off by the output limit".into()
            }
            RunEnd::Done { .. } => return None,
            RunEnd::Limit { limit: Limit::Turns(n) } => format!("it was stopped after {n} turns, which was its limit"),
            RunEnd::Limit { limit: Limit::Time(n) } => format!("it was stopped after {n} seconds, which was its limit"),
            RunEnd::Limit { limit: Limit::Tokens(_) | Limit::Cost(_) } => {
                "it was stopped because the tokens or the money for this run are used up".into()
            }
            RunEnd::Error { message } => format!("it failed: {message}"),
            RunEnd::Aborted => "it was aborted".into(),
            RunEnd::Rejected { reason } => format!("it was refused: {reason}"),
        })
    }

    /// What the parent's model is told.
    pub fn for_model(&self) -> String {
        let text = if self.text.is_empty() { "(the sub-agent said nothing)" } else { &self.text };
        match self.shortfall() {
            None => text.to_owned(),
            Some(shortfall) => format!("{text}\n\n[The sub-agent did not come to its end: {shortfall}.]"),
        }
    }
}
