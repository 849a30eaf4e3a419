//! The end of a run: in words, as a stop reason in JSON, and as an exit status.

use pinion_agent::message::StopReason;
use pinion_agent::outcome::Limit;
use pinion_agent::{RunEnd, RunErrorKind};
use pinion_app::failure::{Failure, Result, Status};
use pinion_console::output::count;

/// Returns the stop reason in JSON output, which is part of the interface.
pub(crate) fn stop_reason(end: &RunEnd) -> &'static str {
    match end {
        RunEnd::Done { stop_reason: StopReason::Length } => "length",
        RunEnd::Done { .. } => "stop",
        RunEnd::Limit { .. } => "limit",
        RunEnd::Failed(_) => "error",
        RunEnd::Aborted => "aborted",
        RunEnd::Rejected { .. } => "rejected",
        _ => "other",
    }
}

/// Describes an end that is not a success. An abort has no description besides its stop reason.
pub(crate) fn problem(end: &RunEnd) -> Option<String> {
    match end {
        RunEnd::Done { .. } | RunEnd::Aborted => None,
        RunEnd::Limit { limit } => Some(limit_text(limit)),
        other => Some(other.to_string()),
    }
}

/// Returns the kind of failure in JSON output.
pub(crate) fn error_kind(end: &RunEnd) -> Option<RunErrorKind> {
    match end {
        RunEnd::Failed(error) => Some(error.kind),
        _ => None,
    }
}

/// Turns the end of a run into the result of a command. `was_interrupted` says whether a signal arrived.
pub fn verdict(end: RunEnd, was_interrupted: bool) -> Result<()> {
    match end {
        RunEnd::Done { .. } => Ok(()),
        RunEnd::Aborted if was_interrupted => Err(Failure::new(Status::Interrupted, "interrupted")),
        RunEnd::Aborted => Err(Failure::failed("the run was aborted")),
        RunEnd::Limit { limit } => Err(Failure::new(Status::Limit, limit_text(&limit))),
        RunEnd::Failed(error) => Err(error.into()),
        RunEnd::Rejected { reason } => Err(Failure::failed(format!("the prompt was refused: {reason}"))),
        other => Err(Failure::failed(other)),
    }
}

/// Names a limit and the option that raises it.
pub(crate) fn limit_text(limit: &Limit) -> String {
    match limit {
        Limit::Turns(n) => format!("reached the limit of {} (--max-turns)", count(u64::from(*n), "turn")),
        Limit::Tokens(n) => format!("reached the limit of {} (--max-tokens)", count(*n, "token")),
        Limit::InputTokens(n) => format!("reached the limit of {} (--max-input-tokens)", count(*n, "input token")),
        Limit::OutputTokens(n) => format!("reached the limit of {} (--max-output-tokens)", count(*n, "output token")),
        Limit::Time(n) => format!("reached the time limit of {} (--timeout)", count(*n, "second")),
        Limit::Cost(n) => format!("reached the limit of {n} US dollars (--max-cost)"),
        other => other.to_string(),
    }
}
