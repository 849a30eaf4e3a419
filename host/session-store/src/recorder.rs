//! What is kept of the events of a loop, besides its messages: when it began and ended, retries, compactions, refusals,
//! steps of plans, sub-agents.

use crate::record::{Compacted, LoopEnd, LoopStart, PlanStep, Record, Rejected, Retry, Spawned};
use pinion_protocol::{EventKind, Message};

/// What is kept of an event.
pub(crate) fn record_of(loop_id: &str, kind: &EventKind) -> Option<Record> {
    let loop_id = loop_id.to_owned();
    Some(match kind {
        EventKind::AgentStart { agent_id, parent_loop_id, continuation, trigger, provider, model, .. } => {
            Record::LoopStart(LoopStart {
                loop_id,
                agent_id: Some(agent_id.to_string()),
                parent_loop_id: parent_loop_id.as_deref().map(str::to_owned),
                continuation: continuation.clone(),
                trigger: *trigger,
                provider: Some(provider.clone()),
                model: Some(model.clone()),
            })
        }
        EventKind::AgentEnd { end, messages, usage, cost, turns, .. } => Record::LoopEnd(LoopEnd {
            loop_id,
            end: end.clone(),
            usage: *usage,
            cost: *cost,
            turns: *turns,
            messages: messages.len() as u64,
        }),
        EventKind::Retry { attempt, max_attempts, delay_ms, cause, .. } => Record::Retry(Retry {
            loop_id,
            attempt: *attempt,
            max_attempts: *max_attempts,
            delay_ms: *delay_ms,
            cause: cut(cause),
        }),
        EventKind::Compaction { dropped, .. } => Record::Compacted(Compacted { loop_id, dropped: *dropped as u64 }),
        EventKind::InputRejected { reason, .. } => Record::Rejected(Rejected { loop_id, reason: cut(reason) }),
        EventKind::PlanStep { step, steps, title, status } => Record::PlanStep(PlanStep {
            loop_id,
            step: *step as u64,
            steps: *steps as u64,
            title: cut(title),
            status: *status,
        }),
        EventKind::MessageEnd { message, .. } => spawned(loop_id, message)?,
        _ => return None,
    })
}

fn spawned(loop_id: String, message: &Message) -> Option<Record> {
    let Message::ToolResult(result) = message else { return None };
    let child_loop_id = result.child_loop_id.clone()?;
    let (call_id, tool) = (result.call_id.clone(), result.tool_name.clone());
    Some(Record::Spawned(Spawned { loop_id, child_loop_id, call_id, tool }))
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(Record::MAX_TEXT)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;
    use crate::testing::{result, time, user, workspace};
    use crate::transcript::Transcript;
    use pinion_protocol::{
        CompactionReason, RunEnd, SessionStore as _, StopReason, ToolResultMessage, TurnTrigger, Usage,
    };
    use std::path::Path;
    use std::sync::Arc;
    use tempfile::TempDir;

    fn start(session: &str) -> EventKind {
        EventKind::AgentStart {
            agent_id: "agent".into(),
            session_id: session.into(),
            parent_loop_id: None,
            continuation: None,
            trigger: TurnTrigger::User,
            provider: "p".into(),
            model: "m".into(),
        }
    }

    fn end() -> EventKind {
        EventKind::AgentEnd {
            end: RunEnd::Done { stop_reason: StopReason::Stop },
            messages: vec![user("x")],
            usage: Usage { input: 3, ..Usage::default() },
            cost: None,
            turns: 2,
        }
    }

    fn retry(cause: &str) -> EventKind {
        EventKind::Retry { attempt: 1, max_attempts: 3, delay_ms: 1_000, cause: cause.into() }
    }

    fn observe(session: &Session, kinds: Vec<EventKind>) {
        kinds.iter().for_each(|kind| session.observe(&"s.c.1".into(), kind));
    }

    fn types(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.map(|line| line["type"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn what_happens_in_a_loop_is_in_its_session() {
        let folder = TempDir::new().unwrap();
        let session = Session::begin(&folder.path().join("a.jsonl"), workspace());
        session.append(&user("go")).unwrap();
        let id = session.id().to_owned();
        let Message::ToolResult(plain) = &*result("1") else { panic!() };
        let delegated = ToolResultMessage { child_loop_id: Some("k.c.1".into()), ..plain.clone() };
        let delegated = Arc::new(Message::ToolResult(ToolResultMessage { timestamp: time(), ..delegated }));
        let kinds = vec![
            start(&id),
            EventKind::TurnStart { turn: 1, trigger: TurnTrigger::User },
            retry(&"ä".repeat(Record::MAX_TEXT)),
            EventKind::Compaction {
                reason: CompactionReason::Asked,
                dropped: 4,
                summary: "…".into(),
                before: 2,
                after: 1,
            },
            EventKind::MessageEnd { message: delegated },
            end(),
        ];
        observe(&session, kinds);
        assert_eq!(types(session.path()).len(), 2 + 5);
        let loops = Transcript::open(session.path()).unwrap().loops().unwrap();
        let found = loops.get("s.c.1").unwrap();
        assert_eq!((found.retries, found.spawned[0].child_loop_id.as_str()), (1, "k.c.1"));
        let (_, ended) = found.end.as_ref().unwrap();
        assert_eq!((ended.turns, ended.messages, ended.usage.input), (2, 1, 3));
    }

    #[test]
    fn a_session_in_which_nothing_is_said_leaves_no_file_and_what_happened_before_comes_with_the_first_message() {
        let folder = TempDir::new().unwrap();
        let session = Session::begin(&folder.path().join("a.jsonl"), workspace());
        observe(&session, vec![start(session.id())]);
        assert!(!session.path().exists());
        session.append(&user("go")).unwrap();
        observe(&session, vec![end()]);
        assert_eq!(types(session.path()), ["session", "loop_start", "message", "loop_end"]);
    }

    #[test]
    fn what_waits_for_the_first_message_is_bounded() {
        let folder = TempDir::new().unwrap();
        let session = Session::begin(&folder.path().join("a.jsonl"), workspace());
        for _ in 0..10_000 {
            observe(&session, vec![retry("busy")]);
        }
        session.append(&user("go")).unwrap();
        assert!(types(session.path()).len() < 100);
    }

    #[test]
    fn a_session_that_cannot_be_written_costs_only_the_records() {
        let folder = TempDir::new().unwrap();
        let session = Session::begin(&folder.path().join("a.jsonl/b.jsonl"), workspace());
        std::fs::write(folder.path().join("a.jsonl"), "a file where a folder should be").unwrap();
        observe(&session, vec![start(session.id()), end()]);
        assert!(session.append(&user("go")).is_err());
    }

    #[test]
    fn a_sub_agents_session_lies_beside_its_parents_and_names_the_call() {
        let folder = TempDir::new().unwrap();
        let session = Session::begin(&folder.path().join("a.jsonl"), workspace());
        session.append(&crate::testing::calls(&["7"])).unwrap();
        let call = pinion_protocol::ChildCall { call_id: "7", tool: "task", loop_id: "s.c.1" };
        let child = session.child(call).unwrap();
        child.store.append(&user("look")).unwrap();
        let listing = crate::SessionFolder::new(folder.path()).children(session.path()).unwrap();
        let header = Transcript::open(&listing.sessions[0].path).unwrap().header().unwrap().clone();
        let spawn = header.spawned_by.unwrap();
        assert_eq!((header.id.as_str(), spawn.entry), (&*child.id, session.position()));
        assert_eq!((spawn.session.as_str(), spawn.call_id.as_str(), spawn.tool.as_str()), (session.id(), "7", "task"));
    }
}
