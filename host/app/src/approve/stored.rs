//! `permissions.toml`: rules that answers to questions have added.
//!
//! A rule belongs to one project, or to all of them.

use crate::files::records::{RecordFile, TableRecord};
use pinion_permissions::Verdict;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A rule in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StoredRule {
    /// The project's directory, without links; all projects when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// The decision about calls that match.
    pub effect: Effect,
    /// The rule in the form of the config.
    pub rule: String,
    /// Digest of the tool's definition, if the rule is about one: the rule covers only this definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
}

/// The effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Runs the call without a question.
    Allow,
    /// Asks the user in any case.
    Ask,
    /// Denies the call.
    Deny,
    /// Definition of a tool that a rule of the config allows, as it was at the first call; no rule.
    Bound,
}

impl From<Effect> for Verdict {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Allow => Self::Allow,
            // It is left out where rules are read, and a question where it is not.
            Effect::Ask | Effect::Bound => Self::Ask,
            Effect::Deny => Self::Deny,
        }
    }
}

impl TableRecord for StoredRule {
    const TABLE: &'static str = "rule";
    const COMMENT: &'static str = "Written by questions about calls. `pinion permissions` lists and removes the rules.";
}

/// Handle to `permissions.toml`.
pub type StoredRules = RecordFile<StoredRule>;

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(project: Option<&str>) -> StoredRule {
        StoredRule {
            project: project.map(PathBuf::from),
            effect: Effect::Allow,
            rule: "cargo test".to_owned(),
            definition: None,
        }
    }

    #[test]
    fn rules_are_added_once() {
        let directory = tempfile::tempdir().unwrap();
        let file = StoredRules::new(directory.path().join("data/permissions.toml"));
        assert_eq!(file.read().unwrap(), []);
        for added in [rule(None), rule(Some("/p")), rule(None)] {
            file.add(added).unwrap();
        }
        assert_eq!(file.read().unwrap(), [rule(None), rule(Some("/p"))]);
    }
}
