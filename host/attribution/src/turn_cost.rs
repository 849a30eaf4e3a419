//! The cost of each turn of the user, from the events of a conversation.

use pinion_protocol::{Event, EventKind, Message, Spend, is_summary};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// A turn of the user: a prompt with everything that the agent did for it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnCost {
    /// The text of the prompt, or the words that stand for it.
    pub prompt: String,
    /// Requests, including requests of sub-agents and branches.
    pub requests: u64,
    /// Requests of sub-agents and branches.
    pub by_others: u64,
    /// Tokens and cost, with sub-agents and branches.
    pub spend: Spend,
    /// Time from the prompt to the last message.
    pub duration: Duration,
}

/// Returns the turns of a conversation. `events` are the events of its runs and of their sub-agents, as a session replays
/// them; a run that continues the one before belongs to the same turn.
pub fn turn_costs(events: &[Event]) -> Vec<TurnCost> {
    let mut turns = TurnReader::default();
    events.iter().for_each(|event| turns.read(event));
    turns.turns
}

#[derive(Default)]
struct TurnReader {
    turns: Vec<TurnCost>,
    /// Runs of sub-agents and branches.
    others: HashSet<Arc<str>>,
    /// Time of the first and the last message of the turn in seconds.
    began: Option<f64>,
    /// Whether the run in progress has no prompt yet.
    is_new_run: bool,
    /// Whether a run is in progress. Messages between runs, such as pinned texts, take no time.
    is_running: bool,
    /// Whether there are runs. A session that is not saved has only messages.
    has_runs: bool,
}

impl TurnReader {
    fn read(&mut self, event: &Event) {
        let is_other = self.others.contains(&event.run_id);
        match &event.kind {
            EventKind::AgentStart { call_id: Some(_), .. } => drop(self.others.insert(event.run_id.clone())),
            EventKind::ParallelStart { run_ids, .. } => self.others.extend(run_ids.iter().cloned()),
            EventKind::AgentStart { .. } if !is_other => {
                (self.is_new_run, self.is_running, self.has_runs) = (true, true, true);
            }
            EventKind::MessageEnd { message } => self.message(message, is_other),
            EventKind::AgentEnd { usage, cost, .. } if !is_other => {
                self.is_running = false;
                self.turn().spend.add(Spend { usage: *usage, cost: *cost });
            }
            EventKind::Compaction { spend, .. } if spend.usage.total() > 0 && !is_other => self.turn().requests += 1,
            EventKind::ParallelEnd { usage, .. } => self.turn().spend.add(Spend { usage: *usage, cost: None }),
            _ => {}
        }
    }

    fn message(&mut self, message: &Arc<Message>, is_other: bool) {
        match &**message {
            Message::User(user) if !is_other && (self.is_new_run || !self.has_runs) && !is_summary(message) => {
                self.is_new_run = false;
                self.began = None;
                let text = pinion_protocol::content::text_of(&user.content);
                self.turns.push(TurnCost { prompt: user.label.clone().unwrap_or(text), ..TurnCost::default() });
            }
            Message::Assistant(reply) => {
                // A run without a prompt continues the turn before.
                self.is_new_run &= is_other;
                let has_runs = self.has_runs;
                let turn = self.turn();
                turn.requests += 1;
                turn.by_others += u64::from(is_other);
                if !has_runs {
                    turn.spend.add(Spend { usage: reply.usage, cost: reply.cost });
                }
            }
            _ => {}
        }
        if !is_other && (self.is_running || !self.has_runs) && !self.turns.is_empty() {
            let time = message.timestamp().as_millisecond() as f64 / 1e3;
            let began = *self.began.get_or_insert(time);
            self.turn().duration = Duration::try_from_secs_f64(time - began).unwrap_or_default();
        }
    }

    fn turn(&mut self) -> &mut TurnCost {
        if self.turns.is_empty() {
            self.turns.push(TurnCost::default());
        }
        let last = self.turns.len() - 1;
        &mut self.turns[last]
    }
}
