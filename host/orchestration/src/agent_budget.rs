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

/// Returns the report of a run, with the limit of the sub-agent that it reached.
pub(crate) fn reported(outcome: Outcome, run_id: Arc<str>, budget: Option<&Budget>) -> SubAgentReport {
    let exhausted = budget.and_then(Budget::exhausted);
    let mut report = SubAgentReport::from_outcome(outcome, run_id);
    report.exhausted = exhausted;
    report
}
