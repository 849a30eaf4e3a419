//! Budgets of single sub-agents, as parts of the budget of their parent's run.

use pinion_protocol::delegation::{AgentKind, Assignment, SubAgentPolicy, SubAgentReport};
use pinion_protocol::limits::Budget;
use pinion_protocol::outcome::{Limit, Outcome};
use pinion_protocol::spend_meter::{CappedSpend, SpendMeter};
use std::sync::Arc;

/// Returns the budget of a sub-agent: its parent's, within the limits of its kind or of all sub-agents, and of the plugin
/// that starts it.
pub(crate) fn within_budget(
    whole: Option<Arc<Budget>>,
    assignment: &Assignment,
    kind: &AgentKind,
    policy: &SubAgentPolicy,
) -> Option<Arc<Budget>> {
    let setting = |is_of_kind: bool, key: &str| match is_of_kind {
        true => format!("agents.kinds.{}.{key}", kind.name),
        false => format!("agents.{key}"),
    };
    let tokens = kind.max_tokens.or(policy.max_tokens).map(Limit::Tokens);
    let tokens = tokens.map(|limit| (limit, setting(kind.max_tokens.is_some(), "max-tokens")));
    let cost = kind.max_cost.or(policy.max_cost).map(Limit::Cost);
    let cost = cost.map(|limit| (limit, setting(kind.max_cost.is_some(), "max-cost")));
    let mut meters = assignment.meters.clone();
    for (limit, setting) in tokens.into_iter().chain(cost) {
        meters.push(Arc::new(CappedSpend::new(limit, setting)) as Arc<dyn SpendMeter>);
    }
    if meters.is_empty() {
        return whole;
    }
    Some(Arc::new(Budget::part_of(&whole.unwrap_or_default(), meters)))
}

/// A sub-agent whose run has ended.
pub(crate) struct EndedAgent {
    /// The outcome of the run.
    pub(crate) outcome: Outcome,
    /// The id of the run.
    pub(crate) run_id: Arc<str>,
    /// A text about the changes in its separate directory.
    pub(crate) note: Option<String>,
}

/// Returns the report of a run, with the limit of the sub-agent that it reached.
pub(crate) fn reported(ended: EndedAgent, budget: Option<&Budget>) -> SubAgentReport {
    let exhausted = budget.and_then(Budget::exhausted);
    let mut report = SubAgentReport::from_outcome(ended.outcome, ended.run_id);
    report.exhausted = exhausted;
    if let Some(note) = ended.note {
        let text = std::mem::take(&mut report.text);
        report.text = format!("{text}\n\n[{note}]").trim_start().to_owned();
    }
    report
}

#[cfg(test)]
mod tests {
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
}
