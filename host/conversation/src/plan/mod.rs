//! `pinion --plan` and `pinion --execute`: the agent writes a plan, a person reviews it, and the agent executes it.
//!
//! The file is the only link between the two, so the execution does not see the conversation that led to the plan. This
//! program writes the file; no tool does.

mod execute;
mod file;
mod make;

pub(crate) use execute::Execution;
pub(crate) use execute::execute;
pub(crate) use file::{DIRECTORY, PlanFile, list_plans};
pub(crate) use make::make;

use pinion_agent::text::one_line;
use pinion_agent::{Agent, Outcome, RunEnd, RunErrorKind};
use pinion_app::failure::with_causes;
use pinion_console::args::{GlobalArgs, RunArgs};
use pinion_console::output::shell_word;
use pinion_orchestration::{AnswerError, Plan, Step};
use std::io::{self, IsTerminal as _};

/// Characters of the title of a plan without a title.
const MAX_TITLE: usize = 80;

/// Returns the plan in a text that a model wrote instead of giving its plan as an answer; `None` if the text has no steps.
fn with_steps(text: &str) -> Option<Plan> {
    Plan::parse(text).ok().filter(|plan| !plan.steps.is_empty())
}

/// Returns the plan in such a text, with the whole text as its only step if it has no steps; `None` if the text is
/// empty.
pub(crate) fn plan_of_text(text: &str) -> Option<Plan> {
    let first = text.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty())?;
    Some(with_steps(text).unwrap_or_else(|| Plan {
        title: one_line(first, MAX_TITLE),
        summary: String::new(),
        steps: vec![Step { title: "Carry out the plan".to_owned(), description: text.to_owned(), ..Step::default() }],
    }))
}

/// Returns how a run without an answer ended.
pub(crate) fn end_of(error: AnswerError) -> RunEnd {
    match error {
        AnswerError::Ended { end } => end,
        other => RunEnd::failed(RunErrorKind::Other, with_causes(&other)),
    }
}

/// Sums up all runs of an agent whose last run ended like this.
pub(crate) fn total(agent: &Agent, end: RunEnd) -> Outcome {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_a_plan_with_its_steps_or_with_one() {
        let text = "# Faster\n\nWhy.\n\n## Step 1: Measure\n\nRun it.\n\n## Step 2: Change\n";
        let plan = plan_of_text(text).unwrap();
        assert_eq!((plan.title.as_str(), plan.steps.len()), ("Faster", 2));
        let plan = plan_of_text("I would do this:\n1. measure\n2. change\n").unwrap();
        assert_eq!((plan.title.as_str(), plan.steps.len()), ("I would do this:", 1));
        assert!(plan.steps[0].description.contains("2. change"));
        assert!(Plan::parse(&plan.to_markdown()).is_ok_and(|read| read.steps.len() == 1));
        assert!(plan_of_text(" \n").is_none() && with_steps("1. measure").is_none());
    }
}
