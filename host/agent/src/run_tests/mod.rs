//! The loop against a scripted model and scripted tools, a file for each group of rows. The rows come from the
//! requirements.

mod abort;
mod api;
mod approval;
mod compaction;
mod dispatch;
mod events;
mod hook_answers;
mod hooks_and_filters;
mod notes;
mod retries_and_limits;
mod steering;
mod streams;

use crate::*;

fn done(outcome: &Outcome) -> bool {
    outcome.end == RunEnd::Done { stop_reason: StopReason::Stop }
}
