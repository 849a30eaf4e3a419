//! Plans: what one agent writes, a person reviews and edits, and another agent carries out, step by step.
//!
//! [`make_plan`] looks at the project with read-only authority and answers with a [`Plan`]. [`execute_step`] does
//! one step of it; that agent knows the plan and the project, never the talk that led to the plan. In between the plan is
//! a Markdown file: `write.rs` makes it, `read.rs` reads it and marks steps in it, `line.rs` says what each line is.
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
//! A heading of the second level begins a step; its number is for people and is not read. A step without a status is
//! open. What a list does not take up is part of the description, wherever it stands. Lines in code fences are never read
//! as anything but text.
//!
//! The normal form of a plan is what remains of it in a file: titles and items of lists on one line each, without empty
//! ones; titles that are empty say so; texts with line feeds alone, without blank lines around them. A line of a text that
//! would be read as something else gets a backslash when it is written (`\## so`, `Files\:`), and loses one when it is
//! read; so does the beginning of a code fence that does not end within its text.
//!
//! Files are not opened here: that is the application's.
//!
//!

mod carry_out;
#[cfg(test)]
mod carry_out_tests;
mod line;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use carry_out::{StepReport, execute_step, make_plan};
use pinion_protocol::step::StepStatus;
pub use read::PlanError;

use serde::{Deserialize, Serialize};

/// What is to be done, in steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// One line.
    pub title: String,
    /// What it is about, and what was found out and decided. Markdown.
    pub summary: String,
    /// In the order in which they are to be done.
    pub steps: Vec<Step>,
}

/// A part of a plan that can be done and checked by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// One line.
    pub title: String,
    /// What is to be done, and all that is needed to know for it. Markdown.
    pub description: String,
    /// The files that it touches, one line each.
    pub files: Vec<String>,
    /// How to see that it is done, one line each.
    pub acceptance: Vec<String>,
    /// How far it is.
    #[serde(default)]
    pub status: StepStatus,
}

impl Plan {
    /// The most bytes of a plan file.
    pub const MAX_BYTES: usize = 1024 * 1024;
    /// The most steps of a plan.
    pub const MAX_STEPS: usize = 200;

    /// The first step that is not done, counted from 0.
    pub fn next_step(&self) -> Option<usize> {
        self.steps.iter().position(|step| step.status != StepStatus::Done)
    }
}
