//! What a session holds besides messages: the loops that worked on it, and what happened in them.
//!
//! None of it is ever shown to a model. A record that is lost, or that an older program does not know, costs nothing but
//! itself.

use pinion_protocol::{Continuation, Cost, RunEnd, StepStatus, TurnTrigger, Usage};
use serde::{Deserialize, Serialize};

/// Something that happened in a session. One entry each.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Record {
    /// A loop began.
    LoopStart(LoopStart),
    /// A loop ended.
    LoopEnd(LoopEnd),
    /// A request to the model failed and was made again.
    Retry(Retry),
    /// The conversation was replaced by a summary, which is a message of its own.
    Compacted(Compacted),
    /// A prompt was refused before anything was sent.
    Rejected(Rejected),
    /// A step of a plan began, or ended.
    PlanStep(PlanStep),
    /// A tool call was worked on by a sub-agent, in a session of its own.
    Spawned(Spawned),
    /// Loops began that work on the same prompt side by side.
    GroupStart(GroupStart),
    /// One of them was chosen.
    GroupEnd(GroupEnd),
}

/// Which loop it is, and what made it begin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopStart {
    /// `SESSION.CONFIG.NUMBER`, see [`LoopName`].
    pub loop_id: String,
    /// The agent whose loop it is, where agents have ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The loop that it goes on from, or whose sub-agent it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_loop_id: Option<String>,
    /// How it goes on from that; none for the first loop of a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<Continuation>,
    /// What set off its first turn. All further turns are continuations.
    #[serde(default)]
    pub trigger: TurnTrigger,
    /// The provider that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// How a loop ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopEnd {
    /// Which loop.
    pub loop_id: String,
    /// How.
    pub end: RunEnd,
    /// Tokens of all its requests.
    #[serde(default)]
    pub usage: Usage,
    /// What they cost; none when that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Its turns.
    #[serde(default)]
    pub turns: u32,
    /// How many messages it added, without those that a compaction replaced.
    #[serde(default)]
    pub messages: u64,
}

/// A request that was made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// In which loop.
    pub loop_id: String,
    /// Counted from 1.
    pub attempt: u32,
    /// The most there will be.
    pub max_attempts: u32,
    /// Milliseconds until then.
    pub delay_ms: u64,
    /// Why, cut to [`Record::MAX_TEXT`].
    pub cause: String,
}

/// A compaction, as it was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// In which loop.
    pub loop_id: String,
    /// Messages that the model no longer sees.
    pub dropped: u64,
}

/// A prompt that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// In which loop.
    pub loop_id: String,
    /// Why, cut to [`Record::MAX_TEXT`].
    pub reason: String,
}

/// How far a step of a plan is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// The loop that does it first, or last.
    pub loop_id: String,
    /// Counted from 1.
    pub step: u64,
    /// How many there are.
    pub steps: u64,
    /// Its title, cut to [`Record::MAX_TEXT`].
    pub title: String,
    /// How far it is.
    pub status: StepStatus,
}

/// The link from a tool call to the sub-agent that worked on it. The link back is in the header of the sub-agent's
/// session, [`crate::Spawn`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawned {
    /// The loop that made the call.
    pub loop_id: String,
    /// The sub-agent's loop; its session is the beginning of it, see [`LoopName`].
    pub child_loop_id: String,
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
}

/// Loops that begin side by side. Each keeps its messages on a branch of its own, which begins at this entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStart {
    /// The group.
    pub group_id: String,
    /// Its loops, in the order in which the strategy knows them.
    pub loop_ids: Vec<String>,
}

/// The end of a group. It follows the chosen branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupEnd {
    /// The group.
    pub group_id: String,
    /// The loop that was chosen; none when all failed or were aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Tokens that choosing took.
    #[serde(default)]
    pub usage: Usage,
}

impl Record {
    /// How much a record keeps of a text that comes from outside, in bytes.
    pub const MAX_TEXT: usize = 2_000;

    /// The type of its entry.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::LoopStart(_) => "loop_start",
            Self::LoopEnd(_) => "loop_end",
            Self::Retry(_) => "retry",
            Self::Compacted(_) => "compacted",
            Self::Rejected(_) => "rejected",
            Self::PlanStep(_) => "plan_step",
            Self::Spawned(_) => "spawned",
            Self::GroupStart(_) => "group_start",
            Self::GroupEnd(_) => "group_end",
        }
    }

    /// Itself, without a cost that is not a number, which JSON cannot hold.
    pub(crate) fn readable(&self) -> std::borrow::Cow<'_, Self> {
        match self {
            Self::LoopEnd(end) if end.cost.is_some_and(|cost| !cost.total().is_finite()) => {
                std::borrow::Cow::Owned(Self::LoopEnd(LoopEnd { cost: None, ..end.clone() }))
            }
            _ => std::borrow::Cow::Borrowed(self),
        }
    }
}

/// The parts of a loop's id, `SESSION.CONFIG.NUMBER`. A session's id holds no dot; what says how the model is asked may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopName<'a> {
    /// The session's id.
    pub session: &'a str,
    /// How the model is asked, `PROVIDER.MODEL` unless the application named it.
    pub config: &'a str,
    /// Counted from 1 in each session.
    pub number: u64,
}

impl<'a> LoopName<'a> {
    /// Reads a loop's id; none when it has another form.
    pub fn parse(loop_id: &'a str) -> Option<Self> {
        let (session, rest) = loop_id.split_once('.')?;
        let (config, number) = rest.rsplit_once('.')?;
        let is_named = !session.is_empty() && !config.is_empty();
        is_named.then_some(()).and_then(|()| Some(Self { session, config, number: number.parse().ok()? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_named_after_its_session_its_config_and_its_number() {
        let name = LoopName::parse("0d2f-1.anthropic.claude-4.5.12").unwrap();
        assert_eq!(name, LoopName { session: "0d2f-1", config: "anthropic.claude-4.5", number: 12 });
        for wrong in ["", "a", "a.b", "a.1", ".b.1", "a..1", "a.b.", "a.b.-1", "a.b.x"] {
            assert_eq!(LoopName::parse(wrong), None, "{wrong:?}");
        }
    }
}
