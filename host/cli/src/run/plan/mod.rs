//! `pinion --plan` and `pinion --execute`: a plan is made, a person looks at it, and then it is carried out.
//!
//! Between the two lies a file, and nothing else: whoever carries the plan out sees none of the talk that led to it. The
//! file is written by this program, never by a tool.

mod execute;
mod file;
mod make;

pub(crate) use execute::execute;
pub(crate) use make::make;

use self::file::PlanFile;
use crate::args::GlobalArgs;
use crate::failure::chain;
use pinion_agent::{Agent, Outcome, RunEnd};
use pinion_orchestration::AnswerError;
use std::io::{self, IsTerminal as _};

/// How it ended when there is no answer.
fn end_of(error: AnswerError) -> RunEnd {
    match error {
        AnswerError::Ended { end } => end,
        other => RunEnd::Error { message: chain(&other) },
    }
}

/// What came of all runs of an agent, the last of which ended so.
fn total(agent: &Agent, end: RunEnd) -> Outcome {
    let totals = agent.totals();
    let turns = u32::try_from(totals.requests).unwrap_or(u32::MAX);
    Outcome { end, messages: Vec::new(), usage: totals.usage, cost: totals.cost, turns }
}

/// The command that carries a plan out, or goes on with it.
fn command(file: &PlanFile, global: &GlobalArgs) -> String {
    let folder = global.work_in.as_ref().map(|folder| format!("-C {} ", word(&folder.display().to_string())));
    format!("pinion {}--approve all --execute {}", folder.unwrap_or_default(), word(&file.shown))
}

/// Sets what stdout gets off from what stderr gets, where a person sees both in one place.
fn gap() -> &'static str {
    let is_one_place = io::stdout().is_terminal() && io::stderr().is_terminal();
    if is_one_place { "\n" } else { "" }
}

/// A word of a command line.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(word(".pinion/plans/a-2.md"), ".pinion/plans/a-2.md");
        assert_eq!(word("my plan's.md"), r"'my plan'\''s.md'");
    }
}
