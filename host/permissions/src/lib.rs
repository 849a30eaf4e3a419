//! Permissions of shell commands.
//!
//! [`shell::parse`] splits a line into its simple commands with the grammar of bash, [`PermissionRules`] say which of them run,
//! and [`judge()`] decides on the line and explains the decision. Nothing here runs a program, and nothing is decided
//! by the text of a line: if the parser and a second reading of a word disagree, the user is asked.

mod command_scene;
mod excluded;
mod excluded_git;
mod git;
mod git_reads;
mod hazards;
mod judge;
mod launchers;
mod offered_rule;
mod options;
mod readers;
mod readonly;
mod repository;
mod rule;
mod rules;
pub mod shell;
mod tool_rule;
mod words;

pub use command_scene::{Scene, normal};
pub use judge::{CommandVerdict, Judgement, ModePolicy, Otherwise, Verdict, VerdictReason, judge};
pub use offered_rule::offer;
pub use rule::{Rule, RuleError};
pub use rules::{BUILT_IN_RULES, Effective, PermissionRules, RuleSource};
pub use tool_rule::ToolName;
pub use words::is_secret_name;

#[cfg(test)]
mod details_tests;
#[cfg(test)]
mod evasions_tests;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod observed_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod sandbox_tests;
#[cfg(test)]
mod spellings_tests;
#[cfg(test)]
mod tests;
