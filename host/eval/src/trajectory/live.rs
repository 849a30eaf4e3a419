//! Trajectories from the events of runs.

use super::{PlanProgress, Trajectory, TrajectoryCall, TrajectoryTurn, clean, clean_value, effects_of, is_denial};
use crate::case::CallEffect;
use pinion_protocol::content::text_of;
use pinion_protocol::{AssistantMessage, Event, EventKind, Message, Usage};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Collects a trajectory from the events of a run and its sub-agents.
#[derive(Debug, Default)]
pub struct EventCollector {
    workspace: Option<String>,
    trajectory: Trajectory,
    runs: HashMap<Arc<str>, RunProgress>,
    effects: HashMap<String, BTreeSet<CallEffect>>,
    started: HashMap<String, Duration>,
    durations: HashMap<String, Duration>,
    denied: HashSet<String>,
    last: Duration,
}

/// The state of a run whose events arrive.
#[derive(Debug, Default)]
struct RunProgress {
    number: usize,
    is_sub_agent: bool,
    prompts: Vec<String>,
    turn_began: Duration,
}

impl EventCollector {
    /// Creates a collector. Texts do not contain the path `workspace`.
    pub fn new(workspace: Option<&str>) -> Self {
        Self { workspace: workspace.map(str::to_owned), ..Self::default() }
    }

    /// Records an event that arrived at a time since the start.
    pub fn record_event(&mut self, event: &Event, at: Duration) {
        self.last = self.last.max(at);
        let number = self.runs.len();
        let run = self.runs.entry(event.run_id.clone()).or_insert_with(|| RunProgress { number, ..Default::default() });
        match &event.kind {
            EventKind::AgentStart { call_id, provider, session_id, .. } => {
                run.is_sub_agent = call_id.is_some();
                if !run.is_sub_agent {
                    self.trajectory.provider.clone_from(provider);
                    self.trajectory.session_id = session_id.to_string();
                }
            }
            EventKind::TurnStart { .. } => run.turn_began = at,
            EventKind::MessageEnd { message } => {
                if let Message::User(message) = &**message {
                    run.prompts.push(clean(&text_of(&message.content), self.workspace.as_deref()));
                }
            }
            EventKind::ApprovalResolved { call_id, allowed: false, .. } => drop(self.denied.insert(call_id.clone())),
            EventKind::ToolExecutionStart { call_id, .. } => drop(self.started.insert(call_id.clone(), at)),
            EventKind::ToolExecutionEnd { call_id, ledger, .. } => {
                let began = self.started.get(call_id).copied().unwrap_or(at);
                self.durations.insert(call_id.clone(), at.saturating_sub(began));
                self.effects.insert(call_id.clone(), ledger.as_ref().map(effects_of).unwrap_or_default());
            }
            EventKind::TurnEnd { turn, reply, results, .. } => {
                let (run_number, is_sub_agent) = (run.number, run.is_sub_agent);
                let (prompts, began) = (std::mem::take(&mut run.prompts), run.turn_began);
                let reply = reply.as_deref().and_then(|message| match message {
                    Message::Assistant(reply) => Some(reply),
                    _ => None,
                });
                let turn = TrajectoryTurn {
                    run: run_number,
                    is_sub_agent,
                    number: *turn,
                    prompts,
                    duration_ms: milliseconds(at.saturating_sub(began)),
                    ..self.turn(reply, results)
                };
                self.trajectory.turns.push(turn);
            }
            EventKind::PlanStep { step, steps, title, status } => self.trajectory.plan.push(PlanProgress {
                step: *step,
                steps: *steps,
                title: clean(title, self.workspace.as_deref()),
                status: *status,
            }),
            EventKind::AgentEnd { end, .. } if !run.is_sub_agent => self.trajectory.end = Some(end.clone()),
            _ => {}
        }
    }

    fn turn(&self, reply: Option<&AssistantMessage>, results: &[Arc<Message>]) -> TrajectoryTurn {
        let Some(reply) = reply else { return TrajectoryTurn::default() };
        let workspace = self.workspace.as_deref();
        let calls = reply.tool_calls().map(|call| {
            let result = results.iter().find_map(|message| match &**message {
                Message::ToolResult(result) if result.call_id == call.id => Some(result),
                _ => None,
            });
            let text = result.map(|result| clean(&text_of(&result.content), workspace));
            let is_error = result.is_none_or(|result| result.is_error);
            let is_denied = is_denial(&call.name, is_error, text.as_deref().unwrap_or_default());
            TrajectoryCall {
                id: call.id.clone(),
                tool: call.name.clone(),
                arguments: clean_value(&call.arguments, workspace),
                is_error,
                is_denied: is_denied || self.denied.contains(&call.id),
                effects: self.effects.get(&call.id).cloned().unwrap_or_default(),
                duration_ms: self.durations.get(&call.id).copied().map_or(0, milliseconds),
                result: text,
            }
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

    /// Returns the tokens and the cost of all requests so far.
    pub fn spent(&self) -> (Usage, Option<f64>) {
        let turns = &self.trajectory.turns;
        let usage = turns.iter().fold(Usage::default(), |sum, turn| sum.combine(&turn.usage));
        (usage, turns.iter().map(|turn| turn.cost).sum())
    }

    /// Returns the trajectory up to the last event.
    pub fn finish(self) -> Trajectory {
        let mut trajectory = self.trajectory;
        trajectory.sum_up();
        trajectory.duration_ms = milliseconds(self.last);
        trajectory
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_protocol::{RunEnd, StopReason};
    use serde_json::{Value, json};

    /// The lines of `stream-json` of a run with a sub-agent and a denied call.
    fn events() -> Vec<Event> {
        let time = "2026-01-02T03:04:05Z";
        let reply = |content: Value, input: u64, cost: f64| {
            json!({ "role": "assistant", "content": content, "stop_reason": "stop", "provider": "p", "model": "m", "timestamp": time,
                "usage": { "input": input, "output": 2 }, "cost": { "input": cost, "output": 0.0, "cache_read": 0.0, "cache_write": 0.0 } })
        };
        let call = |id: &str, name: &str, arguments: Value| json!({ "type": "tool_call", "id": id, "name": name, "arguments": arguments });
        let result = |id: &str, tool: &str, text: &str, is_error: bool| {
            json!({ "role": "tool_result", "call_id": id, "tool_name": tool, "content": [{ "type": "text", "text": text }],
                "is_error": is_error, "timestamp": time })
        };
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        let start = |run: &str, call: Value| {
            json!({ "run_id": run, "type": "agent_start", "agent_id": "a", "session_id": run, "call_id": call, "trigger": "user",
                "provider": "p", "model": "m" })
        };
        let usage = json!({ "input": 0, "output": 0 });
        let lines = [
            start("r", Value::Null),
            json!({ "run_id": "r", "type": "turn_start", "turn": 1, "trigger": "user" }),
            json!({ "run_id": "r", "type": "message_end", "message": { "role": "user", "content": text("look at /w/a"), "timestamp": time } }),
            json!({ "run_id": "r", "type": "tool_execution_start", "call_id": "1", "tool": "task", "arguments": {} }),
            start("c", json!("1")),
            json!({ "run_id": "c", "type": "turn_start", "turn": 1, "trigger": "user" }),
            json!({ "run_id": "c", "type": "turn_end", "turn": 1, "stop_reason": "stop", "reply": reply(text("child"), 5, 0.25) }),
            json!({ "run_id": "c", "type": "agent_end", "end": { "how": "aborted" }, "messages": [], "usage": usage, "cost": null, "turns": 1 }),
            json!({ "run_id": "r", "type": "tool_execution_end", "call_id": "1", "tool": "task", "is_error": false, "content": [],
                "ledger": { "plugin": "agents", "generation": 1, "fuel": 1, "time_us": 1, "memory": 1, "host_calls": 1, "bytes_read": 0,
                    "bytes_written": 3, "files": 0, "processes": 0, "agents": 1, "output": 0 } }),
            json!({ "run_id": "r", "type": "approval_resolved", "call_id": "2", "allowed": false }),
            json!({ "run_id": "r", "type": "turn_end", "turn": 1, "stop_reason": "tool_use",
                "reply": reply(json!([call("1", "task", json!({ "path": "/w/b" })), call("2", "bash", json!({}))]), 10, 0.5),
                "results": [result("1", "task", "in /w", false), result("2", "bash", "no", true)] }),
            json!({ "run_id": "r", "type": "turn_start", "turn": 2, "trigger": "continuation" }),
            json!({ "run_id": "r", "type": "turn_end", "turn": 2, "stop_reason": "stop", "reply": reply(text("done"), 20, 1.0) }),
            json!({ "run_id": "r", "type": "agent_end", "end": { "how": "done", "stop_reason": "stop" }, "messages": [], "usage": usage,
                "cost": null, "turns": 2 }),
        ];
        lines
            .into_iter()
            .map(|line| serde_json::from_value(line.clone()).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }

    #[test]
    fn events_become_turns_with_calls_of_sub_agents_and_denials() {
        let mut collector = EventCollector::new(Some("/w"));
        for (second, event) in events().iter().enumerate() {
            collector.record_event(event, Duration::from_secs(second as u64));
        }
        let trajectory = collector.finish();
        let turns: Vec<_> = trajectory
            .turns
            .iter()
            .map(|turn| (turn.run, turn.is_sub_agent, turn.number, turn.text.as_str()))
            .collect();
        assert_eq!(turns, [(1, true, 1, "child"), (0, false, 1, ""), (0, false, 2, "done")]);
        let first = &trajectory.turns[1];
        assert_eq!(first.prompts, ["look at $WORKSPACE/a"]);
        assert_eq!((first.duration_ms, trajectory.duration_ms), (9_000, 13_000));
        let [task, bash] = &first.calls[..] else { panic!("{first:?}") };
        assert_eq!(
            (task.arguments["path"].as_str(), task.result.as_deref()),
            (Some("$WORKSPACE/b"), Some("in $WORKSPACE"))
        );
        assert_eq!(task.effects, [CallEffect::Writes, CallEffect::Delegates].into());
        assert_eq!((task.duration_ms, task.is_denied, bash.is_denied, bash.is_error), (5_000, false, true, true));
        assert_eq!((trajectory.usage.input, trajectory.usage.output, trajectory.cost), (35, 6, Some(1.75)));
        assert_eq!((trajectory.answer.as_str(), trajectory.session_id.as_str()), ("done", "r"));
        assert_eq!(trajectory.end, Some(RunEnd::Done { stop_reason: StopReason::Stop }));
    }

    #[test]
    fn later_prompt_continues_the_trajectory() {
        let collect = || {
            let mut collector = EventCollector::new(None);
            events().iter().for_each(|event| collector.record_event(event, Duration::from_secs(1)));
            collector.finish()
        };
        let mut whole = Trajectory::default();
        whole.append(collect());
        assert_eq!(whole, collect());
        whole.append(Trajectory { cost: None, ..collect() });
        assert_eq!(whole.turns.iter().map(|turn| turn.run).collect::<Vec<_>>(), [1, 0, 0, 3, 2, 2]);
        assert_eq!((whole.usage.input, whole.cost, whole.duration_ms), (70, None, 2_000));
    }
}
