//! The guard of a set's budget.

use crate::case::SetBudget;
use pinion_protocol::Usage;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Sums the spend of all trials while they run, and stops them when the budget is spent.
#[derive(Debug)]
pub(crate) struct SpendMeter {
    budget: SetBudget,
    spent: Mutex<HashMap<usize, (u64, f64)>>,
    stop: CancellationToken,
}

impl SpendMeter {
    /// Creates a meter that cancels `stop` when the budget is spent.
    pub(crate) fn new(budget: SetBudget, stop: CancellationToken) -> Self {
        Self { budget, spent: Mutex::default(), stop }
    }

    /// Sets the spend of a part of the work so far. An unknown cost counts as 0.
    pub(crate) fn set(&self, part: usize, usage: Usage, cost: Option<f64>) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = usage.total().saturating_sub(usage.cache_read);
        spent.insert(part, (tokens, cost.unwrap_or_default()));
        let tokens = spent.values().fold(0_u64, |sum, (tokens, _)| sum.saturating_add(*tokens));
        let cost: f64 = spent.values().map(|(_, cost)| cost).sum();
        let is_over = self.budget.tokens.is_some_and(|most| tokens >= most);
        if is_over || self.budget.cost.is_some_and(|most| cost >= most) {
            self.stop.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_stops_all_trials_once_it_is_spent() {
        let usage = |input| Usage { input, cache_read: 1_000, ..Usage::default() };
        let stop = CancellationToken::new();
        let meter = SpendMeter::new(SetBudget { cost: Some(1.0), tokens: Some(100) }, stop.clone());
        meter.set(0, usage(40), Some(0.5));
        meter.set(1, usage(50), None);
        meter.set(0, usage(49), Some(0.9));
        assert!(!stop.is_cancelled());
        meter.set(2, usage(1), Some(0.0));
        assert!(stop.is_cancelled());
        let stop = CancellationToken::new();
        let meter = SpendMeter::new(SetBudget { cost: Some(1.0), tokens: None }, stop.clone());
        meter.set(0, usage(1_000_000), Some(0.75));
        assert!(!stop.is_cancelled());
        meter.set(1, usage(0), Some(0.25));
        assert!(stop.is_cancelled());
    }
}
