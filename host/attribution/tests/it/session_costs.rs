//! Costs from the events of a conversation.

use crate::requests::{call, reply, result, text_reply, user};
use pinion_attribution::{OwnerGroup, OwnerSpend, spend_by, turn_costs};
use pinion_protocol::{Content, Cost, Event, EventKind, Message, RunEnd, StopReason, TurnTrigger, Usage};
use std::sync::Arc;

fn event(run: &str, kind: EventKind) -> Event {
    Event { run_id: run.into(), kind }
}

fn start(run: &str, call_id: Option<&str>) -> Event {
    event(
        run,
        EventKind::AgentStart {
            agent_id: "agent".into(),
            session_id: "s".into(),
            parent_run_id: None,
            call_id: call_id.map(Into::into),
            continuation: None,
            trigger: TurnTrigger::User,
            provider: "vendor".into(),
            model: "large".into(),
            directory: Default::default(),
        },
    )
}

fn end(run: &str, usage: Usage, dollars: f64) -> Event {
    let cost = Some(Cost { input: dollars, ..Cost::default() });
    let end = RunEnd::Done { stop_reason: StopReason::Stop };
    event(run, EventKind::AgentEnd { end, messages: Vec::new(), usage, cost, turns: 1 })
}

fn message(run: &str, message: Arc<Message>) -> Event {
    event(run, EventKind::MessageEnd { message })
}

fn spent(content: Vec<Content>, cache_read: u64, input: u64, output: u64) -> Arc<Message> {
    let usage = Usage { input, output, cache_read, cache_write: 0 };
    let cost = Cost {
        input: input as f64 * 1e-5,
        output: output as f64 * 5e-5,
        cache_read: cache_read as f64 * 1e-6,
        cache_write: 0.0,
    };
    reply(content, usage, Some(cost))
}

/// A turn with a call and a sub-agent, and a short one that a second run continues.
fn events() -> Vec<Event> {
    let usage = Usage { input: 5_000, output: 60, ..Usage::default() };
    vec![
        start("r1", None),
        message("r1", user("read it")),
        message("r1", spent(vec![call("1", "read", "src/a.rs"), call("2", "issues__list", "")], 0, 1_000, 20)),
        message("r1", result("1", "read", &"x".repeat(4_000))),
        start("child", Some("9")),
        message("child", user("task")),
        message("child", spent(vec![Content::text("done")], 0, 500, 5)),
        end("child", usage, 0.5),
        message("r1", result("2", "issues__list", &"y".repeat(400))),
        message("r1", spent(vec![Content::text("ok")], 1_000, 1_200, 10)),
        end("r1", usage, 1.0),
        start("r2", None),
        message("r2", user("thanks")),
        message("r2", spent(vec![Content::text("welcome")], 2_000, 250, 5)),
        end("r2", usage, 0.25),
        start("r3", None),
        message("r3", text_reply("still there")),
        end("r3", usage, 0.25),
    ]
}

#[test]
fn each_turn_has_its_requests_tokens_and_cost() {
    let turns = turn_costs(&events());
    let rows: Vec<_> = turns.iter().map(|turn| (&*turn.prompt, turn.requests, turn.by_others)).collect();
    assert_eq!(rows, [("read it", 3, 1), ("thanks", 2, 0)]);
    assert!((turns[0].spend.dollars() - 1.0).abs() < 1e-9, "the end of a run counts its sub-agents: {turns:?}");
    assert!((turns[1].spend.dollars() - 0.5).abs() < 1e-9, "{turns:?}");
    assert!(turn_costs(&[]).is_empty());
}

#[test]
fn messages_without_runs_are_turns_of_the_session() {
    let messages: Vec<Event> = events().into_iter().filter(|event| event.run_id.starts_with('r')).collect();
    let messages: Vec<Event> =
        messages.into_iter().filter(|event| matches!(event.kind, EventKind::MessageEnd { .. })).collect();
    let turns = turn_costs(&messages);
    let rows: Vec<_> = turns.iter().map(|turn| (&*turn.prompt, turn.requests, turn.spend.usage.input)).collect();
    assert_eq!(rows, [("read it", 2, 2_200), ("thanks", 2, 250)]);
}

fn owner<'a>(owners: &'a [OwnerSpend], name: &str) -> &'a OwnerSpend {
    owners.iter().find(|owner| owner.owner == name).unwrap_or_else(|| panic!("{name}: {owners:?}"))
}

#[test]
fn results_cost_in_every_later_request() {
    let owners = spend_by(OwnerGroup::Tool, &events());
    let read = owner(&owners, "results of `read`");
    // About 1,000 tokens, in the second request in full and in the third from the cache.
    assert!(read.items == 1 && (1_800..2_300).contains(&read.input), "{read:?}");
    assert!(read.cached > 700 && read.cached < read.input, "{read:?}");
    assert!(read.cost > owner(&owners, "results of `issues__list`").cost);
    assert!(owner(&owners, "replies").output >= 35);
    assert!(owners.windows(2).all(|pair| pair[0].cost >= pair[1].cost));
}

#[test]
fn shares_of_all_owners_are_the_whole_cost() {
    for group in [OwnerGroup::Tool, OwnerGroup::Server, OwnerGroup::File] {
        let owners = spend_by(group, &events());
        let sum: f64 = owners.iter().map(|owner| owner.cost).sum();
        let replies = events().into_iter().filter_map(|event| match event.kind {
            EventKind::MessageEnd { message } => match &*message {
                Message::Assistant(reply) => Some(reply.cost?.total()),
                _ => None,
            },
            _ => None,
        });
        let total: f64 = replies.sum();
        assert!((sum - total).abs() / total < 0.03, "{group:?}: {sum} of {total}");
    }
}

#[test]
fn results_are_grouped_by_server_and_by_file() {
    let servers = spend_by(OwnerGroup::Server, &events());
    assert_eq!(owner(&servers, "results of MCP server `issues`").items, 1);
    assert_eq!(owner(&servers, "results of other tools").items, 1);
    let files = spend_by(OwnerGroup::File, &events());
    assert_eq!(owner(&files, "`src/a.rs`").items, 1);
    assert_eq!(owner(&files, "results without a file").items, 1);
}
