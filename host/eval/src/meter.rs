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
    spent: Mutex<HashMap<usize, (Usage, f64)>>,
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
        spent.insert(part, (usage, cost.unwrap_or_default()));
        let usage = spent.values().fold(Usage::default(), |sum, (usage, _)| sum.combine(usage));
        let cost: f64 = spent.values().map(|(_, cost)| cost).sum();
        let input = usage.limited_input();
        let counts = [
            (self.budget.tokens, input.saturating_add(usage.output)),
            (self.budget.input_tokens, input),
            (self.budget.output_tokens, usage.output),
        ];
        let is_over = counts.into_iter().any(|(most, count)| most.is_some_and(|most| count >= most));
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
        let meter =
            SpendMeter::new(SetBudget { cost: Some(1.0), tokens: Some(100), ..SetBudget::default() }, stop.clone());
        meter.set(0, usage(40), Some(0.5));
        meter.set(1, usage(50), None);
        meter.set(0, usage(49), Some(0.9));
        assert!(!stop.is_cancelled());
        meter.set(2, usage(1), Some(0.0));
        assert!(stop.is_cancelled());
        let stop = CancellationToken::new();
        let meter = SpendMeter::new(SetBudget { cost: Some(1.0), ..SetBudget::default() }, stop.clone());
        meter.set(0, usage(1_000_000), Some(0.75));
        assert!(!stop.is_cancelled());
        meter.set(1, usage(0), Some(0.25));
        assert!(stop.is_cancelled());
    }

    #[test]
    fn input_and_output_tokens_are_counted_apart() {
        let is_over = |budget| {
            let stop = CancellationToken::new();
            let meter = SpendMeter::new(budget, stop.clone());
            meter.set(0, Usage { input: 30, output: 5, cache_read: 900, cache_write: 10 }, None);
            meter.set(1, Usage { input: 10, output: 5, ..Usage::default() }, None);
            stop.is_cancelled()
        };
        let budget = |input_tokens, output_tokens| SetBudget { input_tokens, output_tokens, ..SetBudget::default() };
        assert!(!is_over(budget(Some(51), Some(11))));
        assert!(is_over(budget(Some(50), None)));
        assert!(is_over(budget(None, Some(10))));
    }
}
