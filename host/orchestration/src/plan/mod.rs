//! Plans: one agent writes them, a person reviews and edits them, and another agent executes them step by step.
//!
//! [`make_plan`] explores the project with read-only authority and returns a [`Plan`]. [`execute_step`] executes one
//! step; its agent gets the plan and the project, but not the conversation that led to the plan. In between, the plan
//! is a Markdown file: `write.rs` writes it, `read.rs` parses it and updates statuses, `line.rs` classifies its lines.
//!
//! ```markdown
//! # Title of the plan
//!
//! Summary, any Markdown.
//!
//! ## Step 1: Title of the step
//! Status: open
//!
//! Description, any Markdown.
//!
//! Files:
//! - src/main.rs
//!
//! Done when:
//! - the tests pass
//! ```
//!
//! A second-level heading starts a step; its number is for people and is ignored. A step without a status is open. All
//! text outside the lists is part of the description, wherever it stands. Lines in code blocks are always text.
//!
//! The normal form of a plan is the form that round-trips through a file: titles and list items are single lines, empty
//! items are removed, empty titles become `Untitled`, and texts use line feeds without surrounding blank lines. Writing
//! escapes a text line that would be parsed as syntax with a backslash (`\## like this`, `Files\:`), and also the start
//! of a code block that is not closed within its text; reading removes the backslash.
//!
//! This module performs no file I/O; the application does.

mod agents;
#[cfg(test)]
mod agents_tests;
mod line;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use agents::{StepReport, execute_step, make_plan};
use pinion_protocol::step::StepStatus;
pub use read::PlanError;

use serde::{Deserialize, Serialize};

/// A task, divided into steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Title, one line.
    pub title: String,
    /// The goal, the findings and the decisions, in Markdown.
    pub summary: String,
    /// Steps in the order of execution.
    pub steps: Vec<Step>,
}

/// A part of a plan that can be executed and verified on its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Title, one line.
    pub title: String,
    /// The work to do, with all information that it requires, in Markdown.
    pub description: String,
    /// Files that the step touches, one line each.
    pub files: Vec<String>,
    /// Acceptance criteria, one line each.
    pub acceptance: Vec<String>,
    /// Progress of the step.
    #[serde(default)]
    pub status: StepStatus,
}

impl Plan {
    /// Maximum size of a plan file in bytes.
    pub const MAX_BYTES: usize = 1024 * 1024;
    /// Maximum number of steps of a plan.
    pub const MAX_STEPS: usize = 200;

    /// Returns the index of the first step that is not done.
    pub fn next_step(&self) -> Option<usize> {
        self.steps.iter().position(|step| step.status != StepStatus::Done)
    }
}
