//! `pinion --plan` and `pinion --execute`: the agent writes a plan, a person reviews it, and the agent executes it.
//!
//! The file is the only link between the two, so the execution sees none of the conversation that led to the plan. This
//! program writes the file; no tool does.

mod execute;
mod file;
mod make;

pub(in crate::run) use execute::Execution;
pub(crate) use execute::execute;
pub(in crate::run) use file::{DIRECTORY, PlanFile};
pub(crate) use make::make;

use crate::args::{GlobalArgs, RunArgs};
use crate::failure::with_causes;
use crate::output::shell_word;
use pinion_agent::{Agent, Outcome, RunEnd, RunErrorKind};
use pinion_orchestration::AnswerError;
use std::io::{self, IsTerminal as _};

/// Returns how a run without an answer ended.
fn end_of(error: AnswerError) -> RunEnd {
    match error {
        AnswerError::Ended { end } => end,
        other => RunEnd::failed(RunErrorKind::Other, with_causes(&other)),
    }
}

/// Sums up all runs of an agent whose last run ended like this.
fn total(agent: &Agent, end: RunEnd) -> Outcome {
    let totals = agent.totals();
    let turns = u32::try_from(totals.requests).unwrap_or(u32::MAX);
    Outcome::new(end, totals.spend, turns)
}

/// Returns the command that executes or continues a plan with the same model.
fn command(file: &PlanFile, args: &RunArgs, global: &GlobalArgs) -> String {
    let directory = global.work_in.as_ref().map(|directory| directory.display().to_string());
    let options = [
        ("-C", directory),
        ("--provider", args.provider.clone()),
        ("-m", args.model.clone()),
        ("--base-url", args.base_url.clone()),
        ("--execute", Some(file.shown.clone())),
    ];
    let options = options.into_iter().filter_map(|(name, value)| Some(format!(" {name} {}", shell_word(&value?))));
    format!("pinion{}", options.collect::<String>())
}

/// Returns a blank line that separates stdout from stderr if both are the same terminal.
fn gap() -> &'static str {
    let is_one_place = io::stdout().is_terminal() && io::stderr().is_terminal();
    if is_one_place { "\n" } else { "" }
}
