//! The section `[permissions]`: rules about calls.

use crate::failure::{Failure, Result};
use pinion_permissions::Rule;
use serde::Deserialize;
use std::path::Path;

/// The section as a file has it: the beginnings of commands, `write:DIRECTORY`, `read:DIRECTORY` and `net:HOST`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FilePermissions {
    /// Calls that need no question.
    pub allow: Vec<String>,
    /// Calls that need a question in any mode.
    pub ask: Vec<String>,
    /// Calls that run in no mode.
    pub deny: Vec<String>,
}

/// The rules of all layers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionSettings {
    /// The user's rules.
    pub user: FilePermissions,
    /// A trusted project's rules, which can only narrow.
    pub project: FilePermissions,
}

impl FilePermissions {
    /// Checks the rules of the user.
    ///
    /// # Errors
    /// A text is no rule, or a rule that allows contains a star.
    pub(super) fn checked(self, home: Option<&Path>) -> Result<Self> {
        for (key, rules) in [("allow", &self.allow), ("ask", &self.ask), ("deny", &self.deny)] {
            for text in rules {
                let rule = Rule::parse(text, home).map_err(|error| invalid(key, error.to_string()))?;
                if key == "allow" && rule.has_pattern() {
                    let failure = invalid(key, format!("invalid rule `{}`: it contains `*`", rule.text()));
                    return Err(failure.hint("leave it out: a rule covers everything that follows its words"));
                }
            }
        }
        Ok(self)
    }
}

fn invalid(key: &str, error: String) -> Failure {
    Failure::usage(format!("`{key}` of `[permissions]`: {error}"))
}
