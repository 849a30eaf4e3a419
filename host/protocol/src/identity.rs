//! The relations between runs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The relation of a run to its parent run, when it has no separate prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Continuation {
    /// Resumes the parent run.
    Default,
    /// Repeats the parent run from the same context.
    Rerun {
        /// Distinguishes this run from others of the same kind; a timestamp by default.
        tag: String,
    },
    /// Tries an alternative from the same context.
    Branch {
        /// Distinguishes this run from others of the same kind; a timestamp by default.
        tag: String,
    },
}

impl Continuation {
    /// Creates a rerun that is tagged with the current time.
    pub fn rerun() -> Self {
        Self::Rerun { tag: Timestamp::now().to_string() }
    }

    /// Creates a branch that is tagged with the current time.
    pub fn branch() -> Self {
        Self::Branch { tag: Timestamp::now().to_string() }
    }
}

/// The cause of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnTrigger {
    /// A prompt of the user.
    #[default]
    User,
    /// A prompt of an agent for its sub-agent.
    SubAgent,
    /// Earlier events: tool results, a steering or follow-up message, or a resumed run.
    Continuation,
    /// The start of a branch.
    Branch,
}

/// Creates the id of an agent: 128 random bits in hexadecimal.
pub fn new_agent_id() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// The numbers of the last runs in a session, by the configuration that their ids name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunNumbers(BTreeMap<String, u32>);

impl RunNumbers {
    /// Returns the number of the next run with this configuration, from 1.
    pub fn next(&self, config: &str) -> u32 {
        self.0.get(config).copied().unwrap_or_default().saturating_add(1)
    }

    /// Counts a run with this configuration.
    pub fn count(&mut self, config: &str) {
        let number = self.next(config);
        self.0.insert(config.to_owned(), number);
    }

    /// Returns whether no run was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the numbers that are not yet counted in `known`.
    #[must_use]
    pub fn beyond(self, known: &Self) -> Self {
        self.into_iter().filter(|(config, number)| *number >= known.next(config)).collect()
    }

    /// Returns the sum of the numbers, which grows with each run.
    pub fn total(&self) -> u32 {
        self.0.values().fold(0, |sum, number| sum.saturating_add(*number))
    }
}

impl Extend<(String, u32)> for RunNumbers {
    /// Takes note of runs, in any order.
    fn extend<T: IntoIterator<Item = (String, u32)>>(&mut self, runs: T) {
        for (config, number) in runs {
            let last = self.0.entry(config).or_default();
            *last = number.max(*last);
        }
    }
}

impl FromIterator<(String, u32)> for RunNumbers {
    fn from_iter<T: IntoIterator<Item = (String, u32)>>(runs: T) -> Self {
        let mut numbers = Self::default();
        numbers.extend(runs);
        numbers
    }
}

impl IntoIterator for RunNumbers {
    type Item = (String, u32);
    type IntoIter = std::collections::btree_map::IntoIter<String, u32>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_counts_its_own_runs() {
        let mut numbers: RunNumbers =
            [("a".to_owned(), 3), ("b".to_owned(), 1), ("a".to_owned(), 2)].into_iter().collect();
        numbers.count("b");
        numbers.count("c");
        assert_eq!(["a", "b", "c", "d"].map(|config| numbers.next(config)), [4, 3, 2, 1]);
        assert_eq!(numbers.total(), 6);
        let known: RunNumbers = [("a".to_owned(), 3), ("b".to_owned(), 1)].into_iter().collect();
        let new: RunNumbers = [("b".to_owned(), 2), ("c".to_owned(), 1)].into_iter().collect();
        assert_eq!(numbers.clone().beyond(&known), new);
        assert!(!new.is_empty() && numbers.clone().beyond(&numbers).is_empty());
    }

    #[test]
    fn agents_get_different_ids() {
        let (one, two) = (new_agent_id(), new_agent_id());
        assert_ne!(one, two);
        assert_eq!((one.len(), two.len()), (32, 32));
    }
}
