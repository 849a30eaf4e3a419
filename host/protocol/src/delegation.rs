//! Sub-agents that tool calls start: assignments, reports and errors. `pinion-orchestration` runs them.

use crate::authority::Authority;
use crate::message::{Message, StopReason};
use crate::outcome::{Limit, Outcome, RunEnd};
use crate::provider::{Model, Provider, ThinkingLevel};
use crate::spend_meter::{MeterLimit, SpendMeter};
use crate::text::count;
use crate::usage::Spend;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Maximum nesting depth of sub-agents, regardless of the policy.
pub const MAX_AGENT_DEPTH: u32 = 3;

/// Maximum number of attempts at one task.
pub const MAX_ATTEMPTS: u32 = 8;

/// Limits on the sub-agents that the tools of a run may start.
#[derive(Clone)]
pub struct SubAgentPolicy {
    /// Nesting depth, up to [`MAX_AGENT_DEPTH`]; 0 disables sub-agents.
    pub max_depth: u32,
    /// Turn limit of a sub-agent without a separate limit.
    pub max_turns: u32,
    /// Maximum tokens of a sub-agent without a separate limit, as in [`crate::limits::RunLimits`].
    pub max_tokens: Option<u64>,
    /// Maximum cost in US dollars of a sub-agent without a separate limit.
    pub max_cost: Option<f64>,
    /// Number of sub-agents that one call may start.
    pub max_per_call: u32,
    /// Sub-agents that the user has configured.
    pub kinds: Vec<AgentKind>,
    /// Models that an assignment may name.
    pub model_names: Vec<String>,
    /// Resolves the models that kinds name; without it, every sub-agent uses the model of its parent.
    pub models: Option<Arc<dyn ModelSource>>,
}

impl Default for SubAgentPolicy {
    fn default() -> Self {
        Self {
            max_depth: 1,
            max_turns: 50,
            max_tokens: None,
            max_cost: None,
            max_per_call: 16,
            kinds: Vec::new(),
            model_names: Vec::new(),
            models: None,
        }
    }
}

impl fmt::Debug for SubAgentPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SubAgentPolicy");
        debug.field("max_depth", &self.max_depth).field("max_turns", &self.max_turns).field("kinds", &self.kinds);
        debug.finish_non_exhaustive()
    }
}

/// Resolves model names.
pub trait ModelSource: Send + Sync {
    /// Returns the model that users call `name`, with its provider. The error is a text for people.
    fn model<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<FoundModel, String>>;
}

/// A model and its provider.
#[derive(Clone)]
pub struct FoundModel {
    /// Provider of the model.
    pub provider: Arc<dyn Provider>,
    /// The model.
    pub model: Model,
}

/// A sub-agent that the user has configured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentKind {
    /// Name of the sub-agent.
    pub name: String,
    /// Purpose of the sub-agent, for the model that may start it.
    pub description: String,
    /// System prompt; `None` for its parent's prompt. The text for all sub-agents and `instructions` follow it.
    pub system_prompt: Option<String>,
    /// Instructions appended to the system prompt.
    pub instructions: Option<String>,
    /// Thinking level; `None` for its parent's level.
    pub thinking: Option<ThinkingLevel>,
    /// Names of its tools; `None` for all tools of its parent.
    pub tools: Option<Vec<String>>,
    /// Names of its models; empty for the model of its parent. With several, each makes an attempt.
    pub models: Vec<String>,
    /// Directory that it works in.
    pub directory: WorkDirectory,
    /// Turn limit.
    pub max_turns: Option<u32>,
    /// Maximum tokens.
    pub max_tokens: Option<u64>,
    /// Maximum cost in US dollars.
    pub max_cost: Option<f64>,
    /// Attempts for assignments that do not specify any.
    pub attempts: Option<ParallelAttempts>,
    /// Name of the model that judges the attempts; `None` for the model of the first attempt.
    pub judge: Option<String>,
}

/// Directory that a sub-agent works in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkDirectory {
    /// The directory of its parent.
    #[default]
    Parent,
    /// A copy of it, which is removed when the run ends. The changes stay as snapshots.
    Copy,
}

impl WorkDirectory {
    /// Returns whether it is the parent's directory.
    pub fn is_parent(&self) -> bool {
        *self == Self::Parent
    }
}

/// Concurrent attempts at the same task; one of their reports is chosen. Attempts get no tool that writes, executes or
/// uses the network, because they share a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelAttempts {
    /// Number of attempts, 1 to [`MAX_ATTEMPTS`].
    pub count: u32,
    /// Strategy that chooses the report.
    pub choice: ChoiceName,
}

/// A task for a sub-agent.
#[derive(Debug, Clone, Default)]
pub struct Assignment {
    /// The complete description of the task.
    pub prompt: String,
    /// Name of the [`AgentKind`] to start.
    pub kind: Option<String>,
    /// Names of its tools, a subset of the tools it may get; `None` for all of these.
    pub tools: Option<Vec<String>>,
    /// Turn limit; cannot exceed the limit that the user has configured.
    pub max_turns: Option<u32>,
    /// Time limit; `None` for the time limit of the call.
    pub max_time: Option<Duration>,
    /// Concurrent attempts; `None` for the kind's setting, or a single attempt.
    pub attempts: Option<ParallelAttempts>,
    /// Conversation that it starts from.
    pub start: AgentStart,
    /// Name of its model, in place of the kind's: one of [`SubAgentPolicy::model_names`].
    pub model: Option<String>,
    /// The call gets a report as soon as the sub-agent has started. The parent's run gets the actual report as a message, and
    /// does not end before its sub-agents.
    pub background: bool,
    /// Sums that its spend counts against, besides its own and the run's.
    pub meters: Vec<Arc<dyn SpendMeter>>,
}

/// Conversation that a sub-agent starts from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AgentStart {
    /// An empty one: it gets only the prompt.
    #[default]
    Empty,
    /// The parent's, up to the reply that makes the call. Its requests begin like the parent's, where its kind, tools and
    /// model are the parent's, so that the vendor's cache counts for both.
    Conversation,
}

/// The result of a sub-agent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SubAgentReport {
    /// Its last non-empty message; empty without one.
    pub text: String,
    /// The reason its run ended.
    pub end: RunEnd,
    /// Id of its run.
    pub run_id: Arc<str>,
    /// Number of turns.
    pub turns: u32,
    /// Tokens and cost of all requests.
    pub spend: Spend,
    /// The limit of this sub-agent, or of its plugin, that was reached.
    pub exhausted: Option<MeterLimit>,
}

/// The reason a sub-agent was not started or did not report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubAgentError {
    /// The prompt is empty.
    #[error("the prompt is empty: describe the task and everything the sub-agent needs to know")]
    NoPrompt,
    /// The user has configured no sub-agent of this name.
    #[error("there is no agent `{name}`; {}", listed("available:", known))]
    UnknownKind {
        /// The requested name.
        name: String,
        /// The names of the configured sub-agents.
        known: Vec<String>,
    },
    /// The requested tool does not exist, or the call may not pass it on.
    #[error("a sub-agent cannot get the tool `{name}` here; {}", listed("available:", known))]
    UnknownTool {
        /// The requested name.
        name: String,
        /// The names of the tools it could get.
        known: Vec<String>,
    },
    /// The number of attempts is out of range.
    #[error("the number of attempts must be 1 to {MAX_ATTEMPTS}, not {count}")]
    Attempts {
        /// The requested number of attempts.
        count: u32,
    },
    /// The call has reached its limit of sub-agents.
    #[error("this call has already started {limit} sub-agents, the maximum")]
    TooMany {
        /// The limit per call.
        limit: u32,
    },
    /// The model of the sub-agent is unavailable.
    #[error("cannot use the sub-agent's model `{name}`: {message}")]
    Model {
        /// Name of the model.
        name: String,
        /// The cause.
        message: String,
    },
    /// The user has not listed the model for sub-agents.
    #[error(
        "the user allows no model `{name}` for sub-agents (`models` of `[agents]` in the config); {}",
        listed("available:", known)
    )]
    ModelNotListed {
        /// Name of the model.
        name: String,
        /// The listed models.
        known: Vec<String>,
    },
    /// Several attempts cannot work in the background.
    #[error("several attempts cannot work in the background; start them without `background`")]
    BackgroundAttempts,
    /// The run has reached its limit of sub-agents in the background.
    #[error("{limit} sub-agents already work in the background, the maximum; wait for the report of one")]
    BackgroundFull {
        /// The limit per run.
        limit: usize,
    },
    /// The sub-agent cannot have a separate directory.
    #[error("the sub-agent cannot work in a copy of the directory: {message}")]
    Directory {
        /// The cause.
        message: String,
    },
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
}

fn listed(what: &str, names: &[String]) -> String {
    if names.is_empty() { format!("{what} none") } else { format!("{what} `{}`", names.join("`, `")) }
}

/// Handle that a tool call uses to start sub-agents of its run. Cheap to clone.
#[derive(Clone)]
pub struct SubAgents(Arc<dyn Delegate>);

/// Starts sub-agents for one tool call: the port behind [`SubAgents`].
pub trait Delegate: Send + Sync {
    /// Runs a sub-agent within `ceiling` and waits for its report.
    fn run(&self, assignment: Assignment, ceiling: Ceiling) -> BoxFuture<'_, Result<SubAgentReport, SubAgentError>>;

    /// Returns the policy that limits the sub-agents.
    fn policy(&self) -> &SubAgentPolicy;

    /// Returns the id of the run of the sub-agent that was started last.
    fn last_run(&self) -> Option<Arc<str>>;

    /// Sleeps for `time`, not counting the time during which a person is asked about a call of this session.
    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()>;
}

/// Upper bound on the tools of a sub-agent.
pub struct Ceiling {
    /// Authority that bounds each tool.
    pub authority: Authority,
    /// Returns whether the sub-agent may use the tool of this name.
    pub may_use: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

impl SubAgents {
    /// Wraps a delegate.
    pub fn new(delegate: impl Delegate + 'static) -> Self {
        Self(Arc::new(delegate))
    }

    /// Returns the nesting depth that remains for sub-agents started with this handle: at least 1.
    pub fn depth_left(&self) -> u32 {
        self.0.policy().max_depth
    }

    /// Returns the sub-agents that the user has configured.
    pub fn kinds(&self) -> &[AgentKind] {
        &self.0.policy().kinds
    }

    /// Runs a sub-agent and waits for its report. It gets only tools that stay within `at_most` and match `may_use`.
    ///
    /// Dropping the future cancels the sub-agent; the run of its parent still waits for it to end.
    ///
    /// # Errors
    /// Fails if the sub-agent was not started, or was cancelled: see [`SubAgentError`]. Every other end is a report.
    pub async fn run(
        &self,
        assignment: Assignment,
        at_most: Authority,
        may_use: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<SubAgentReport, SubAgentError> {
        self.0.run(assignment, Ceiling { authority: at_most, may_use: Box::new(may_use) }).await
    }

    /// Returns the id of the run of the sub-agent that was started last.
    pub fn last_run(&self) -> Option<Arc<str>> {
        self.0.last_run()
    }

    /// Sleeps for `time`, not counting the time during which a person is asked about a call of this session. For
    /// deadlines of calls that wait for sub-agents.
    pub async fn sleep(&self, time: Duration) {
        self.0.sleep(time).await;
    }
}

impl fmt::Debug for SubAgents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubAgents").field("policy", self.0.policy()).finish_non_exhaustive()
    }
}

impl SubAgentReport {
    /// Creates the report of a run.
    pub fn from_outcome(outcome: Outcome, run_id: Arc<str>) -> Self {
        let said = outcome.messages.iter().rev().filter_map(|message| match &**message {
            Message::Assistant(message) => Some(message.text()),
            _ => None,
        });
        let text = said.into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default();
        let Outcome { end, spend, turns, .. } = outcome;
        Self { text, end, run_id, turns, spend, exhausted: None }
    }

    /// Creates the report of a run that has started in the background.
    pub fn of_start(run_id: Arc<str>) -> Self {
        let text = format!("The sub-agent works in the background as `{run_id}`. Its report comes as a later message.");
        let end = RunEnd::Done { stop_reason: StopReason::Stop };
        Self { text, end, run_id, turns: 0, spend: Spend::default(), exhausted: None }
    }

    /// Returns the reason the report is incomplete; `None` when the sub-agent finished on its own.
    pub fn shortfall(&self) -> Option<String> {
        Some(match &self.end {
            RunEnd::Done { stop_reason: StopReason::Length } => {
                "its last message was truncated by the output limit".into()
            }
            RunEnd::Done { .. } => return None,
            RunEnd::Limit { limit: Limit::Turns(n) } => {
                format!("it reached its limit of {}", count(u64::from(*n), "turn"))
            }
            RunEnd::Limit { limit: Limit::Time(n) } => format!("it reached its time limit of {}", count(*n, "second")),
            RunEnd::Limit {
                limit: limit @ (Limit::Tokens(_) | Limit::InputTokens(_) | Limit::OutputTokens(_) | Limit::Cost(_)),
            } => match &self.exhausted {
                Some(own) if own.limit == *limit => own.to_string(),
                _ => "it reached the token or cost limit of this run".into(),
            },
            RunEnd::Failed(error) => format!("it failed: {error}"),
            RunEnd::Aborted => "it was aborted".into(),
            RunEnd::Rejected { reason } => format!("it was rejected: {reason}"),
        })
    }

    /// Returns the text that the parent's model gets.
    pub fn for_model(&self) -> String {
        let text = if self.text.is_empty() { "(the sub-agent returned no text)" } else { &self.text };
        match self.shortfall() {
            None => text.to_owned(),
            Some(shortfall) => format!("{text}\n\n[The sub-agent did not finish: {shortfall}.]"),
        }
    }
}

/// The built-in strategies by name, for configs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChoiceName {
    /// The first branch that succeeded.
    #[default]
    First,
    /// The branch that used the fewest tokens.
    FewestTokens,
    /// The branch that used the most tokens.
    MostTokens,
    /// The branch that a model judges to be the best.
    Judge,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;
    use crate::message::AssistantMessage;
    use crate::usage::Usage;
    use jiff::Timestamp;

    fn build_reply(text: &str) -> Arc<Message> {
        Arc::new(Message::Assistant(AssistantMessage {
            content: vec![Content::text(text)],
            stop_reason: StopReason::Stop,
            provider: String::new(),
            model: String::new(),
            requested_model: None,
            usage: Usage::default(),
            cost: None,
            error: None,
            timestamp: Timestamp::UNIX_EPOCH,
        }))
    }

    #[test]
    fn report_is_the_last_message_with_text() {
        let mut outcome = Outcome::new(RunEnd::Done { stop_reason: StopReason::Stop }, Spend::default(), 3);
        outcome.messages =
            vec![build_reply("first"), build_reply("last"), build_reply(" \n"), Arc::new(Message::user("more"))];
        assert_eq!(SubAgentReport::from_outcome(outcome.clone(), "l".into()).text, "last");
        outcome.messages.clear();
        assert_eq!(SubAgentReport::from_outcome(outcome, "l".into()).text, "");
    }
}
