//! The course of a run: its start, repeated requests, its end; and prompts that were refused.

use super::{RecordType, cut};
use crate::id::RunName;
use pinion_protocol::delegation::WorkDirectory;
use pinion_protocol::{Continuation, Cost, EventKind, RunEnd, TurnTrigger, Usage};
use serde::{Deserialize, Serialize};

/// A run started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The run's id, `SESSION.CONFIG.NUMBER`; see [`crate::RunName`].
    pub run_id: String,
    /// The agent that ran, where agents have ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The run that it continues, or whose sub-agent it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The relation to its parent; `None` for the first run of a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<Continuation>,
    /// The cause of its first turn. All further turns are continuations.
    #[serde(default)]
    pub trigger: TurnTrigger,
    /// The provider of its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that it asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Directory that it worked in.
    #[serde(default, skip_serializing_if = "WorkDirectory::is_parent")]
    pub directory: WorkDirectory,
}

impl RecordType for RunStarted {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::AgentStart {
            agent_id, parent_run_id, continuation, trigger, provider, model, directory, ..
        } = event
        else {
            return None;
        };
        Some(Self {
            run_id: run_id.to_owned(),
            agent_id: Some(agent_id.to_string()),
            parent_run_id: parent_run_id.as_deref().map(str::to_owned),
            continuation: continuation.clone(),
            trigger: *trigger,
            provider: Some(provider.clone()),
            model: Some(model.clone()),
            directory: *directory,
        })
    }

    fn into_event(self) -> Option<EventKind> {
        let session = RunName::parse(&self.run_id).map_or("", |name| name.session);
        Some(EventKind::AgentStart {
            agent_id: self.agent_id.unwrap_or_default().into(),
            session_id: session.into(),
            parent_run_id: self.parent_run_id.map(Into::into),
            call_id: None,
            continuation: self.continuation,
            trigger: self.trigger,
            provider: self.provider.unwrap_or_default(),
            model: self.model.unwrap_or_default(),
            directory: self.directory,
        })
    }

    fn describe(&self) -> String {
        match &self.parent_run_id {
            Some(parent) => format!("Run {} started, after {parent}", self.run_id),
            None => format!("Run {} started", self.run_id),
        }
    }
}

/// A run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    /// The run's id.
    pub run_id: String,
    /// The outcome of the run.
    pub end: RunEnd,
    /// Tokens of its requests together.
    pub usage: Usage,
    /// The cost of these tokens; `None` when the model's prices are unknown.
    #[serde(default, skip_serializing_if = "is_unwritable")]
    pub cost: Option<Cost>,
    /// The number of its turns.
    pub turns: u32,
    /// The number of messages that it added, without those that a compaction replaced.
    pub messages: u64,
}

/// Returns whether the cost is absent or not finite: JSON has no such number, and the record would be unreadable.
fn is_unwritable(cost: &Option<Cost>) -> bool {
    !cost.is_some_and(|cost| cost.total().is_finite())
}

impl RecordType for RunEnded {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::AgentEnd { end, messages, usage, cost, turns, .. } = event else { return None };
        Some(Self {
            run_id: run_id.to_owned(),
            end: end.clone(),
            usage: *usage,
            cost: *cost,
            turns: *turns,
            messages: messages.len() as u64,
        })
    }

    fn into_event(self) -> Option<EventKind> {
        let Self { end, usage, cost, turns, .. } = self;
        Some(EventKind::AgentEnd { end, messages: Vec::new(), usage, cost, turns })
    }

    fn describe(&self) -> String {
        format!("Run {} ended: {}, turns: {}", self.run_id, self.end, self.turns)
    }
}

/// A request to the model failed and was sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The run that sent it.
    pub run_id: String,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The last attempt that the policy allows.
    pub max_attempts: u32,
    /// The wait before this attempt, in milliseconds.
    pub delay_ms: u64,
    /// The failure, cut to [`Record::MAX_TEXT`](super::Record::MAX_TEXT).
    pub cause: String,
}

impl RecordType for Retry {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::Retry { attempt, max_attempts, delay_ms, cause, .. } = event else { return None };
        Some(Self {
            run_id: run_id.to_owned(),
            attempt: *attempt,
            max_attempts: *max_attempts,
            delay_ms: *delay_ms,
            cause: cut(cause),
        })
    }

    fn into_event(self) -> Option<EventKind> {
        let Self { attempt, max_attempts, delay_ms, cause, .. } = self;
        Some(EventKind::Retry { attempt, max_attempts, delay_ms, cause })
    }

    fn describe(&self) -> String {
        let seconds = self.delay_ms as f64 / 1e3;
        format!("Retry {} of {} after {seconds:.1} s: {}", self.attempt, self.max_attempts, self.cause)
    }
}

/// A filter refused a prompt before anything was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The run of the prompt.
    pub run_id: String,
    /// The filter's reason, cut to [`Record::MAX_TEXT`](super::Record::MAX_TEXT).
    pub reason: String,
}

impl RecordType for Rejected {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::InputRejected { reason, .. } = event else { return None };
        Some(Self { run_id: run_id.to_owned(), reason: cut(reason) })
    }

    fn into_event(self) -> Option<EventKind> {
        Some(EventKind::InputRejected { reason: self.reason })
    }

    fn describe(&self) -> String {
        format!("The prompt was refused: {}", self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Record, RecordKind};
    use pinion_protocol::StopReason;

    #[test]
    fn infinite_cost_is_left_out_of_the_file() {
        let end = RunEnd::Done { stop_reason: StopReason::Stop };
        let cost = Some(Cost { input: f64::INFINITY, ..Cost::default() });
        let record = RunEnded { run_id: "s.c.1".into(), end, usage: Usage::default(), cost, turns: 1, messages: 2 };
        let data = serde_json::to_string(&record).unwrap();
        assert_eq!(RecordKind::RunEnded.decode(&data).unwrap(), Record::RunEnded(RunEnded { cost: None, ..record }));
    }
}
