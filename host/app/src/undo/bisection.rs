//! A binary search for the first state of the files in which a command fails.
//!
//! The last state comes first: a command that succeeds there has nothing to find. The first state also comes before the
//! search, unless there are so many states that the search needs all of its runs. The search ends only between two states
//! that were tested, so it never names a call whose effect was not seen.

use std::collections::BTreeSet;

/// Runs of the command for the largest number of states that still gets a test of the first state in advance: one for
/// each end, and seven for 128 changes.
const MAX_CHANGES_WITH_START: usize = 128;

/// The result of the command in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateTest {
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It could not decide.
    Skipped,
}

/// The next step of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BisectStep {
    /// Test the state of this number.
    Test(usize),
    /// The search is over.
    Done(BisectEnd),
}

/// The end of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BisectEnd {
    /// The command succeeds in the state before this one, and fails in this one.
    FirstFailing(usize),
    /// The command fails in the first state.
    FailsAtStart,
    /// The command succeeds in the last state.
    SucceedsAtEnd,
    /// The command could not decide in the last state.
    SkippedAtEnd,
    /// The command fails in the state `failing`, and could not decide in the states after `succeeding`, or in all before
    /// `failing`.
    Undecided {
        /// The last state in which it succeeds.
        succeeding: Option<usize>,
        /// The first state in which it fails.
        failing: usize,
    },
}

/// A search among the states of the files.
#[derive(Debug)]
pub struct Bisection {
    last: usize,
    succeeding: Option<usize>,
    failing: Option<usize>,
    skipped: BTreeSet<usize>,
    succeeds_at_end: bool,
}

impl Bisection {
    /// Begins a search among this number of states, of which there is at least one.
    pub fn new(states: usize) -> Self {
        let (last, skipped) = (states.saturating_sub(1), BTreeSet::new());
        Self { last, succeeding: None, failing: None, skipped, succeeds_at_end: false }
    }

    /// Returns the next step.
    pub fn next_step(&self) -> BisectStep {
        let Some(failing) = self.failing else {
            return match (self.succeeds_at_end, self.skipped.contains(&self.last)) {
                (true, _) => BisectStep::Done(BisectEnd::SucceedsAtEnd),
                (_, true) => BisectStep::Done(BisectEnd::SkippedAtEnd),
                _ => BisectStep::Test(self.last),
            };
        };
        let first = self.succeeding.map_or(0, |succeeding| succeeding + 1);
        if first == failing {
            let is_start = self.succeeding.is_none();
            return BisectStep::Done(if is_start { BisectEnd::FailsAtStart } else { BisectEnd::FirstFailing(failing) });
        }
        let is_start_open = self.succeeding.is_none() && !self.skipped.contains(&0);
        if is_start_open && failing == self.last && self.last <= MAX_CHANGES_WITH_START {
            return BisectStep::Test(0);
        }
        // Without a state that succeeds, the first one may fail as well.
        let middle = if self.succeeding.is_none() { (failing - 1) / 2 } else { first + (failing - first) / 2 };
        let middle = middle.clamp(first, failing - 1);
        let below = (first..=middle).rev().find(|state| !self.skipped.contains(state));
        let above = (middle..failing).find(|state| !self.skipped.contains(state));
        let nearest = below.into_iter().chain(above).min_by_key(|state| state.abs_diff(middle));
        match nearest {
            Some(state) => BisectStep::Test(state),
            None => BisectStep::Done(BisectEnd::Undecided { succeeding: self.succeeding, failing }),
        }
    }

    /// Adds the result of the state of this number.
    pub fn add(&mut self, state: usize, test: StateTest) {
        match test {
            StateTest::Skipped => {
                self.skipped.insert(state);
            }
            StateTest::Failed => self.failing = Some(self.failing.map_or(state, |known| known.min(state))),
            StateTest::Succeeded if state == self.last => self.succeeds_at_end = true,
            StateTest::Succeeded => {
                self.succeeding = Some(self.succeeding.map_or(state, |known| known.max(state)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with a command; returns the end and the number of runs.
    fn search(states: usize, test: impl Fn(usize) -> StateTest) -> (BisectEnd, usize) {
        let (mut bisection, mut runs) = (Bisection::new(states), 0);
        loop {
            match bisection.next_step() {
                BisectStep::Done(end) => return (end, runs),
                BisectStep::Test(state) => {
                    runs += 1;
                    assert!(runs <= states, "state {state} is tested again");
                    bisection.add(state, test(state));
                }
            }
        }
    }

    fn fails_from(first: usize) -> impl Fn(usize) -> StateTest {
        move |state| if state < first { StateTest::Succeeded } else { StateTest::Failed }
    }

    #[test]
    fn first_failing_call_of_200_is_found_in_nine_runs() {
        // Twenty of them, from the first to the last call.
        for first in (0..20).map(|number| 1 + number * 199 / 19) {
            let (end, runs) = search(201, fails_from(first));
            assert_eq!(end, BisectEnd::FirstFailing(first));
            assert!(runs <= 9, "{runs} runs for call {first}");
        }
    }

    #[test]
    fn every_number_of_calls_up_to_255_needs_at_most_nine_runs() {
        for changes in 1..=255 {
            for first in 0..=changes {
                let (end, runs) = search(changes + 1, fails_from(first));
                let expected = if first == 0 { BisectEnd::FailsAtStart } else { BisectEnd::FirstFailing(first) };
                assert_eq!(end, expected, "{changes} changes");
                assert!(runs <= 9, "{runs} runs for call {first} of {changes}");
            }
        }
    }

    #[test]
    fn ends_that_make_a_search_pointless_are_reported() {
        assert_eq!(search(201, |_| StateTest::Succeeded), (BisectEnd::SucceedsAtEnd, 1));
        assert_eq!(search(201, |_| StateTest::Skipped), (BisectEnd::SkippedAtEnd, 1));
        assert_eq!(search(50, |_| StateTest::Failed), (BisectEnd::FailsAtStart, 2));
        assert_eq!(search(201, |_| StateTest::Failed).0, BisectEnd::FailsAtStart);
        assert_eq!(search(1, |_| StateTest::Failed), (BisectEnd::FailsAtStart, 1));
    }

    #[test]
    fn skipped_states_are_avoided_and_named_when_they_hide_the_end() {
        let skipping = |from: usize, to: usize, first: usize| {
            move |state: usize| if (from..to).contains(&state) { StateTest::Skipped } else { fails_from(first)(state) }
        };
        assert_eq!(search(201, skipping(90, 110, 40)).0, BisectEnd::FirstFailing(40));
        assert_eq!(search(201, skipping(90, 110, 150)).0, BisectEnd::FirstFailing(150));
        let hidden = BisectEnd::Undecided { succeeding: Some(89), failing: 110 };
        assert_eq!(search(201, skipping(90, 110, 100)).0, hidden);
        let start = BisectEnd::Undecided { succeeding: None, failing: 5 };
        assert_eq!(search(201, skipping(0, 5, 3)).0, start);
        assert_eq!(search(20, skipping(0, 5, 3)).0, start);
    }
}
