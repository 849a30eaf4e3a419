//! The plans of a workspace.

use super::DIRECTORY;
use pinion_console::output::age;
use pinion_tui::PickChoice;
use std::path::Path;
use std::time::SystemTime;

/// Lists the files of plans, the latest first.
pub(crate) fn list_plans(workspace: &Path) -> Vec<PickChoice> {
    let entries = std::fs::read_dir(workspace.join(DIRECTORY)).into_iter().flatten().filter_map(Result::ok);
    let plan = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| name.ends_with(".md"))?;
        Some((entry.metadata().ok()?.modified().ok()?, format!("{DIRECTORY}/{name}")))
    };
    let mut plans: Vec<(SystemTime, String)> = entries.filter_map(plan).collect();
    plans.sort_unstable_by(|a, b| b.cmp(a));
    let seconds = |time: SystemTime| i64::try_from(time.elapsed().unwrap_or_default().as_secs()).unwrap_or(i64::MAX);
    let choice = |(modified, file): (SystemTime, String)| PickChoice {
        label: file.clone(),
        value: file,
        detail: age(seconds(modified)),
    };
    plans.into_iter().map(choice).collect()
}
