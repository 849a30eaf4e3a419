//! How much a run may use.

use pinion_protocol::outcome::Limit;
use pinion_protocol::usage::Spend;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limits of a run; none means no limit.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLimits {
    /// Turns.
    pub max_turns: Option<u32>,
    /// Tokens of all requests together. What comes from the vendor's cache does not count: it would count the same
    /// conversation once for each turn.
    pub max_tokens: Option<u64>,
    /// Time from the run's start, without the time that people take to answer questions.
    pub max_time: Option<Duration>,
    /// US dollars. Holds only for models whose prices are known.
    pub max_cost: Option<f64>,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            max_turns: Some(50),
            max_tokens: Some(1_000_000),
            max_time: Some(Duration::from_secs(600)),
            max_cost: None,
        }
    }
}

/// What loops that belong together have used: a run, its sub-agents and its branches, while they work. Tokens and money
/// are limited together, so that many at once get no more than one alone.
#[derive(Debug, Default)]
pub struct Budget(Mutex<Spend>);

impl Budget {
    pub(crate) fn add(&self, spend: Spend) {
        self.spent().add(spend);
    }

    /// Nothing is left half-done in it when a thread panics.
    fn spent(&self) -> MutexGuard<'_, Spend> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunLimits {
    /// The limit that leaves no room for one more turn. Time is not looked at: a timer does that.
    pub(crate) fn reached(&self, turns: u32, budget: &Budget) -> Option<Limit> {
        let spent = *budget.spent();
        let (tokens, cost) = (spent.limited_tokens(), spent.dollars());
        let turns = self.max_turns.filter(|max| turns >= *max).map(Limit::Turns);
        let tokens = self.max_tokens.filter(|max| tokens >= *max).map(Limit::Tokens);
        let cost = self.max_cost.filter(|max| cost >= *max).map(Limit::Cost);
        turns.or(tokens).or(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_protocol::usage::{Cost, Usage};

    #[test]
    fn each_limit_is_reached_by_itself() {
        let limits = RunLimits { max_cost: Some(1.0), ..RunLimits::default() };
        let budget = |usage: Usage, cost| {
            let budget = Budget::default();
            budget.add(Spend { usage, cost });
            budget
        };
        let fresh = Budget::default();
        assert_eq!(limits.reached(0, &fresh), None);
        assert_eq!(limits.reached(50, &fresh), Some(Limit::Turns(50)));
        let usage = Usage { input: 999_999, output: 1, ..Usage::default() };
        assert_eq!(limits.reached(0, &budget(usage, None)), Some(Limit::Tokens(1_000_000)));
        let cost = Some(Cost { output: 1.5, ..Cost::default() });
        assert_eq!(limits.reached(0, &budget(Usage::default(), cost)), Some(Limit::Cost(1.0)));
    }

    #[test]
    fn tokens_from_the_cache_do_not_count() {
        let budget = Budget::default();
        let usage = Usage { cache_read: u64::MAX, ..Usage::default() };
        budget.add(Spend { usage, cost: None });
        assert_eq!(RunLimits::default().reached(0, &budget), None);
    }
}
