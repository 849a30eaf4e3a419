//! The lists from which the user picks: models, sessions, files and commands.

use crate::base::Base;
use crate::commands::model::tokens;
use crate::commands::session::short_id;
use crate::files::repository::{Links, Repository};
use crate::model::info::SessionInfo;
use crate::output::age;
use pinion_agent::jiff::Timestamp;
use pinion_exclusions::Finder;
use pinion_plugin_runtime::{HostInfo as _, Runtime, list_files};
use pinion_session_store::{Scope, SessionDirectory};
use pinion_tui::{Choice, SlashCommand};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Time limit for listing the files of the workspace, which may be on a slow disk.
const LISTING: Duration = Duration::from_secs(10);
/// Maximum bytes of the file that names the current branch.
const MAX_HEAD: u64 = 4_096;
/// Maximum bytes of a completion.
const MAX_INSERT: usize = 4_000;

/// Lists models, those of providers with a key first.
pub(super) async fn models(base: &Base) -> Vec<Choice> {
    let Ok(models) = base.models() else { return Vec::new() };
    let origins = base.key_origins().await;
    let has_key = |name: &str| origins.iter().any(|(info, origin)| info.name == name && matches!(origin, Ok(Some(_))));
    let choice = |model: &pinion_providers::Model| {
        let name = format!("{}/{}", model.provider, model.id);
        let key = if has_key(&model.provider) { "key set" } else { "no key" };
        let images = if model.images { " · images" } else { "" };
        Choice {
            value: name.clone(),
            label: name,
            detail: format!("{key} · {} context{images}", tokens(model.context_window)),
        }
    };
    let mut choices: Vec<Choice> = models.iter().map(|model| choice(model)).collect();
    choices.sort_by_key(|choice| !choice.detail.starts_with("key set"));
    choices
}

/// Lists the sessions of the workspace, the latest first. Blocks.
pub(super) fn sessions(base: &Base) -> Vec<Choice> {
    let directory = SessionDirectory::new(base.paths.sessions());
    let Ok(listing) = directory.list(Scope::Workspace(&base.workspace)) else { return Vec::new() };
    let choice = |summary: &pinion_session_store::Summary| Choice {
        value: short_id(&summary.id).to_owned(),
        label: summary.title.clone().unwrap_or_else(|| "(no prompt)".to_owned()),
        detail: format!(
            "{} · {}",
            age(Timestamp::now().duration_since(summary.last_activity).as_secs()),
            short_id(&summary.id)
        ),
    };
    listing.sessions.iter().map(choice).collect()
}

/// Lists the files of the workspace that neither its ignore files nor the config exclude. Blocks.
///
/// # Errors
/// The workspace cannot be read, or takes longer than ten seconds.
pub(super) fn files(workspace: &Path, exclusions: &Finder) -> io::Result<Vec<String>> {
    let mut files = list_files(workspace, LISTING)?;
    if !exclusions.is_empty() {
        let found = exclusions.look().map_err(io::Error::other)?;
        let is_other_name = |path: &Path| found.places.binary_search_by(|place| place.path.as_path().cmp(path)).is_ok();
        files.retain(|file| {
            let path = workspace.join(file);
            exclusions.exclusions().of(&path, false).is_none() && !is_other_name(&path)
        });
    }
    Ok(files)
}

/// Returns the branch of the repository that the workspace is in.
pub(super) fn branch(base: &Base) -> Option<String> {
    let repository = Repository::around(&base.workspace, crate::files::paths::home().as_deref()).ok()?;
    let head = repository.read(Path::new(".git/HEAD"), Links::Never, MAX_HEAD).ok()??;
    let head = String::from_utf8(head).ok()?;
    let branch = head.trim().strip_prefix("ref: refs/heads/");
    Some(branch.map_or_else(|| head.chars().take(8).collect(), str::to_owned))
}

/// Lists all slash commands: those of plugins, and those of pinion itself.
pub(super) fn commands(runtime: &Runtime, info: &SessionInfo) -> Vec<SlashCommand> {
    let own = info.commands();
    let command = |command: pinion_plugin_runtime::CommandDefinition| SlashCommand {
        name: command.name,
        hint: command.argument_hint.unwrap_or_default(),
        description: command.description,
    };
    let of_plugins = runtime.commands().into_iter().map(command);
    let of_plugins = of_plugins.filter(|command| own.iter().all(|own| own.name != command.name));
    let mut commands: Vec<SlashCommand> = of_plugins.collect();
    commands.extend(own.iter().map(|command| SlashCommand {
        name: command.name.to_owned(),
        hint: command.hint.to_owned(),
        description: command.description.to_owned(),
    }));
    commands.sort_by(|a, b| a.name.cmp(&b.name));
    commands
}

/// Completes the argument of a slash command. Values that cannot be shown unchanged are skipped.
pub(super) async fn completions(runtime: &Runtime, command: &str, argument: &str) -> Vec<Choice> {
    let values = runtime.complete(command, argument).await;
    let is_plain = |value: &str| value.len() <= MAX_INSERT && pinion_agent::text::find_unsafe(value, false).is_none();
    let values = values.into_iter().filter(|completion| is_plain(&completion.value));
    let choice = |completion: pinion_plugin_runtime::Completion| Choice {
        label: completion.value.clone(),
        value: completion.value,
        detail: completion.description.unwrap_or_default(),
    };
    values.map(choice).collect()
}
