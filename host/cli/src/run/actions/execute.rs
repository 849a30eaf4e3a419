//! Executes a plan in a new session.

use crate::output::age;
use crate::run::actions::definition::{ConversationAction, choice};
use crate::run::plan::DIRECTORY as PLANS;
use pinion_app::workspace_base::Base;
use pinion_tui::{PickChoice, UiCommand};
use std::time::SystemTime;

/// The action.
pub(super) const ACTION: ExecutePlan = ExecutePlan;

/// The action `execute`.
pub(super) struct ExecutePlan;

impl ConversationAction for ExecutePlan {
    fn name(&self) -> &'static str {
        "execute"
    }

    fn is_only_on_screen(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Execute)
    }

    fn arguments(&self, base: &Base) -> Option<Vec<PickChoice>> {
        Some(plans(base))
    }
}

/// Lists the files of plans, the latest first.
fn plans(base: &Base) -> Vec<PickChoice> {
    let entries = std::fs::read_dir(base.workspace.join(PLANS)).into_iter().flatten().filter_map(Result::ok);
    let plan = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| name.ends_with(".md"))?;
        Some((entry.metadata().ok()?.modified().ok()?, format!("{PLANS}/{name}")))
    };
    let mut plans: Vec<(SystemTime, String)> = entries.filter_map(plan).collect();
    plans.sort_unstable_by(|a, b| b.cmp(a));
    let seconds = |time: SystemTime| i64::try_from(time.elapsed().unwrap_or_default().as_secs()).unwrap_or(i64::MAX);
    plans.into_iter().map(|(modified, file)| choice(&file, &age(seconds(modified)))).collect()
}
