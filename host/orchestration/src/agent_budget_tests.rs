//! Budgets of single sub-agents.

use crate::sub_agents_tests::{delegate, parent, task};
use crate::testing::{calls, letters, says};
use crate::*;
use serde_json::json;

#[tokio::test]
async fn sub_agent_ends_at_its_own_limit_and_its_parent_continues() {
    let read = |n: u32| calls(&[("read", json!({ "text": n.to_string() }))]);
    let replies = || std::iter::once(delegate()).chain((0..30).map(read)).collect::<Vec<_>>();
    let kind = AgentKind { name: "reader".into(), max_tokens: Some(45), ..AgentKind::default() };
    for (name, setting, requests) in
        [(None, "agents.max-tokens", 2), (Some("reader"), "agents.kinds.reader.max-tokens", 3_u32)]
    {
        let mut setup = parent(Assignment { kind: name.map(str::to_owned), ..task("read on") }, replies());
        // Each reply uses 15 tokens.
        setup.sub_agents.max_tokens = Some(30);
        setup.sub_agents.kinds = vec![kind.clone()];
        setup.limits.max_turns = Some(1);
        let harness = setup.build();
        let outcome = harness.prompt("go").await;
        assert_eq!(harness.requests(), 1 + requests as usize);
        let told = letters(&outcome.messages[2]);
        assert!(told.contains(&format!("tokens was reached (`{setting}`)")), "{told}");
        assert_eq!(outcome.end, RunEnd::Limit { limit: Limit::Turns(1) }, "not the sub-agent's limit");
        assert_eq!(outcome.spend.usage.total(), (1 + u64::from(requests)) * 15, "its spend counts for the run");
    }
}

#[tokio::test]
async fn limit_of_the_run_is_not_taken_for_the_sub_agents() {
    let reads = (0..30).map(|n| calls(&[("read", json!({ "text": n.to_string() }))]));
    let mut setup = parent(task("read on"), std::iter::once(delegate()).chain(reads).chain([says("x")]).collect());
    setup.sub_agents.max_tokens = Some(1_000);
    setup.limits.max_tokens = Some(60);
    let harness = setup.build();
    let outcome = harness.prompt("go").await;
    assert_eq!((outcome.end, harness.requests()), (RunEnd::Limit { limit: Limit::Tokens(60) }, 4));
}
