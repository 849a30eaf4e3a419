//! Limits of runs.

use crate::outcome::Limit;
use crate::spend_meter::{MeterLimit, SpendMeter};
use crate::usage::Spend;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Limits of a run. `None` and 0 mean no limit.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLimits {
    /// Maximum number of turns.
    pub max_turns: Option<u32>,
    /// Maximum tokens of all requests together, without those read from the vendor's cache, which would count the same
    /// conversation once per turn.
    pub max_tokens: Option<u64>,
    /// Maximum input tokens of all requests together, without those read from the vendor's cache.
    pub max_input_tokens: Option<u64>,
    /// Maximum output tokens of all requests together.
    pub max_output_tokens: Option<u64>,
    /// Maximum duration of the run, not counting the time that people take to answer questions.
    pub max_time: Option<Duration>,
    /// At the time limit, the run ends before its next turn: the message and the calls in progress end by themselves.
    /// Otherwise they are aborted.
    pub ends_between_turns: bool,
    /// Maximum cost in US dollars. Applies only to models with known prices.
    pub max_cost: Option<f64>,
}

impl RunLimits {
    /// No limits.
    pub const NONE: Self = Self {
        max_turns: None,
        max_tokens: None,
        max_input_tokens: None,
        max_output_tokens: None,
        max_time: None,
        max_cost: None,
        ends_between_turns: false,
    };
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            max_turns: Some(50),
            max_tokens: Some(1_000_000),
            max_time: Some(Duration::from_secs(600)),
            ..Self::NONE
        }
    }
}

/// Spend shared by related runs: a run, its sub-agents and its branches. Token and cost limits apply to the sum, so
/// that concurrent runs get no more than a single one.
#[derive(Debug, Default)]
pub struct Budget {
    spent: Mutex<Spend>,
    over: CancellationToken,
    /// Sums with their own limits that the spend also counts against.
    meters: Vec<Arc<dyn SpendMeter>>,
    /// The budget that this one is a part of.
    whole: Option<Arc<Budget>>,
}

impl Budget {
    /// Creates the budget of a part of the work, whose spend counts against `whole` and `meters`.
    pub fn part_of(whole: &Arc<Self>, meters: Vec<Arc<dyn SpendMeter>>) -> Self {
        Self { spent: Mutex::default(), over: whole.over.clone(), meters, whole: Some(whole.clone()) }
    }

    /// Returns the limit of a meter that is reached, of this part first.
    pub fn exhausted(&self) -> Option<MeterLimit> {
        let own = self.meters.iter().find_map(|meter| meter.reached());
        own.or_else(|| self.whole.as_ref()?.exhausted())
    }

    /// Returns the spend of the whole work.
    fn total(&self) -> Spend {
        match &self.whole {
            Some(whole) => whole.total(),
            None => *self.spent(),
        }
    }

    /// Returns the token that a timer cancels when the time is over and the run is to end before its next turn.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// Adds the cost of a request.
    pub fn add(&self, spend: Spend) {
        self.spent().add(spend);
        self.meters.iter().for_each(|meter| meter.add(spend));
        if let Some(whole) = &self.whole {
            whole.add(spend);
        }
    }

    /// Locks the spend. A panic leaves it consistent, so poisoning is ignored.
    fn spent(&self) -> MutexGuard<'_, Spend> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunLimits {
    /// Returns the limit that forbids another turn, of these or of a meter of the budget. The time limit does if a timer has
    /// cancelled [`Budget::over`].
    pub fn reached(&self, turns: u32, budget: &Budget) -> Option<Limit> {
        let spent = budget.total();
        let at_most = |max: Option<u64>, tokens: u64| max.filter(|max| *max > 0 && tokens >= *max);
        let turns = self.max_turns.filter(|max| *max > 0 && turns >= *max).map(Limit::Turns);
        let tokens = at_most(self.max_tokens, spent.limited_tokens()).map(Limit::Tokens);
        let input = at_most(self.max_input_tokens, spent.usage.limited_input()).map(Limit::InputTokens);
        let output = at_most(self.max_output_tokens, spent.usage.output).map(Limit::OutputTokens);
        let cost = self.max_cost.filter(|max| *max > 0.0 && spent.dollars() >= *max).map(Limit::Cost);
        let time = self.max_time.filter(|_| budget.over.is_cancelled()).map(|max| Limit::Time(max.as_secs()));
        let own = turns.or(tokens).or(input).or(output).or(cost).or(time);
        own.or_else(|| budget.exhausted().map(|reached| reached.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spend_meter::CappedSpend;
    use crate::usage::{Cost, Usage};

    #[test]
    fn each_limit_is_reached_independently() {
        let limits = RunLimits { max_cost: Some(1.0), ..RunLimits::default() };
        let budget = |usage: Usage, cost| {
            let budget = Budget::default();
            budget.add(Spend { usage, cost });
            budget
        };
        let fresh = Budget::default();
        assert_eq!(limits.reached(0, &fresh), None);
        let late = Budget::default();
        late.over().cancel();
        assert_eq!(limits.reached(0, &late), Some(Limit::Time(600)));
        assert_eq!(limits.reached(50, &fresh), Some(Limit::Turns(50)));
        let usage = Usage { input: 999_999, output: 1, ..Usage::default() };
        assert_eq!(limits.reached(0, &budget(usage, None)), Some(Limit::Tokens(1_000_000)));
        let cost = Some(Cost { output: 1.5, ..Cost::default() });
        assert_eq!(limits.reached(0, &budget(Usage::default(), cost)), Some(Limit::Cost(1.0)));
    }

    #[test]
    fn input_and_output_tokens_have_separate_limits() {
        let budget = Budget::default();
        budget.add(Spend { usage: Usage { input: 60, output: 30, cache_read: 500, cache_write: 40 }, cost: None });
        let reached = |input: u64, output: u64| {
            let (max_input_tokens, max_output_tokens) = (Some(input), Some(output));
            RunLimits { max_input_tokens, max_output_tokens, ..RunLimits::NONE }.reached(0, &budget)
        };
        assert_eq!(reached(101, 31), None);
        assert_eq!(reached(100, 31), Some(Limit::InputTokens(100)));
        assert_eq!(reached(101, 30), Some(Limit::OutputTokens(30)));
        assert_eq!(reached(0, 0), None);
    }

    #[test]
    fn part_of_a_budget_counts_for_the_whole_and_has_its_own_limit() {
        let whole = Arc::new(Budget::default());
        let meter = Arc::new(CappedSpend::new(Limit::Tokens(10), "agents.max-tokens"));
        let part = Budget::part_of(&whole, vec![meter]);
        let limits = RunLimits { max_tokens: Some(30), ..RunLimits::NONE };
        let spend = Spend { usage: Usage { input: 10, ..Usage::default() }, cost: None };
        whole.add(spend);
        assert_eq!(limits.reached(0, &part), None);
        part.add(spend);
        assert_eq!((limits.reached(0, &part), limits.reached(0, &whole)), (Some(Limit::Tokens(10)), None));
        let reached = part.exhausted().unwrap().to_string();
        assert_eq!(reached, "the limit of 10 tokens was reached (`agents.max-tokens`)");
        whole.add(spend);
        assert_eq!(limits.reached(0, &part), Some(Limit::Tokens(30)));
    }

    #[test]
    fn zero_is_no_limit() {
        let budget = Budget::default();
        let cost = Some(Cost { output: 1e6, ..Cost::default() });
        budget.add(Spend { usage: Usage { input: u64::MAX / 2, ..Usage::default() }, cost });
        let lifted = RunLimits { max_turns: Some(0), max_tokens: Some(0), max_cost: Some(0.0), ..RunLimits::NONE };
        assert_eq!(lifted.reached(u32::MAX, &budget), None);
    }

    #[test]
    fn tokens_from_the_cache_do_not_count() {
        let budget = Budget::default();
        let usage = Usage { cache_read: u64::MAX, ..Usage::default() };
        budget.add(Spend { usage, cost: None });
        assert_eq!(RunLimits::default().reached(0, &budget), None);
    }
}
