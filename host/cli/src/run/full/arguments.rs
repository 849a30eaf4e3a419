//! Completions of the arguments of pinion's own commands. Commands of plugins complete their arguments themselves.

use crate::commands::permissions;
use crate::output::age;
use crate::run::full::{lists, themes};
use crate::run::plan::DIRECTORY as PLANS;
use crate::run::{keep, mcp_command, own_commands};
use pinion_agent::approval::ApprovalMode;
use pinion_app::base::Base;
use pinion_app::options::THINKING_LEVELS;
use pinion_tui::{Pick, PickChoice};
use std::time::SystemTime;

/// Returns the arguments that a command takes; `None` if it is not a command of pinion itself. Blocks.
pub(super) fn of_own(base: &Base, command: &str) -> Option<Vec<PickChoice>> {
    Some(match command {
        "mode" => ApprovalMode::every().map(|mode| choice(mode.name(), own_commands::describe(mode))).into(),
        "net" => vec![
            choice("on", "programs use the whole network"),
            choice("off", "programs have no network"),
            choice("allow", "programs reach chosen hosts"),
        ],
        "thinking" => THINKING_LEVELS.map(|(name, _)| choice(name, "")).into(),
        keep::NAME => keep::CHOICES.map(|name| choice(name, "")).into(),
        "theme" => themes::list(base),
        "diff" => vec![choice("turn", "what the last turn changed"), choice("session", "what the session changed")],
        "execute" => plans(base),
        "resume" => lists::sessions(base, Pick::Session),
        "permissions" => permissions::removable(&base.permissions)
            .into_iter()
            .map(|(number, rule)| choice(&format!("remove {number}"), &rule))
            .collect(),
        mcp_command::NAME => servers(base),
        _ => return None,
    })
}

fn choice(value: &str, detail: &str) -> PickChoice {
    PickChoice { value: value.to_owned(), label: value.to_owned(), detail: detail.to_owned() }
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

/// Lists the actions of `/mcp`, with the names of servers.
fn servers(base: &Base) -> Vec<PickChoice> {
    let config = base.mcp_config();
    let of_server = |verb: &str| {
        config.servers.iter().map(|server| choice(&format!("{verb} {}", server.name), "")).collect::<Vec<_>>()
    };
    let verbs = ["tools", "reconnect", "enable", "disable", "login", "logout"];
    verbs.into_iter().flat_map(of_server).chain([choice("reload", "reads the files of servers again")]).collect()
}
