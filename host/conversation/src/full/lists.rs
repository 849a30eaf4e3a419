//! The lists that the user picks from: models, sessions, files and commands.

use crate::actions::definition::{ActionTable, find_action};
use crate::full::local_choices::local_choices;
use crate::full::ui_inbox::UiInbox;
use pinion_agent::delegation::MAX_AGENT_DEPTH;
use pinion_agent::jiff::Timestamp;
use pinion_app::files::paths::shown_directory;
use pinion_app::files::repository::{Links, Repository};
use pinion_app::model::info::SessionInfo;
use pinion_app::sessions::short_id;
use pinion_app::workspace_base::Base;
use pinion_console::output::{age, tokens};
use pinion_exclusions::Finder;
use pinion_plugin_runtime::{CommandDefinition, FileList, HostInfo as _, Runtime, list_files};
use pinion_providers::ThinkingStyle;
use pinion_session_store::{ListScope, SessionDirectory, Summary};
use pinion_tui::{Input, NESTED, Pick, PickChoice, SlashCommand, Tone};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time limit for listing the files of the workspace, which may be on a slow disk.
const LISTING: Duration = Duration::from_secs(10);
/// Maximum bytes of the file that names the current branch.
const MAX_HEAD: u64 = 4_096;
/// Sessions whose sub-agents' sessions are looked for.
const MAX_PARENTS: usize = 200;
/// Generations that are indented.
const MAX_INDENT: usize = 4;

/// Lists models: the one in use, models of servers on this machine and in the config, models of providers with a key, and all others. Of a
/// family, the latest by name comes first.
pub(super) async fn models(base: &Base, current: &str) -> Vec<PickChoice> {
    let Ok(models) = base.models() else { return Vec::new() };
    let (origins, local) = tokio::join!(base.key_origins(), local_choices(base));
    let is_local: Vec<String> = local.iter().map(|choice| choice.value.clone()).collect();
    let has_key = |name: &str| origins.iter().any(|(info, origin)| info.name == name && matches!(origin, Ok(Some(_))));
    let choice = |model: &pinion_providers::ModelSpec| {
        let name = format!("{}/{}", model.provider, model.id);
        let key = if has_key(&model.provider) { "key set" } else { "no key" };
        PickChoice { value: name.clone(), label: name, detail: format!("{key} · {}", abilities(model)) }
    };
    let mut listed: Vec<_> = models.iter().collect();
    listed.sort_by(|a, b| a.provider.cmp(&b.provider).then_with(|| by_number(&b.id, &a.id)));
    let listed = listed.into_iter().map(|model| choice(model));
    let configured = base
        .config
        .providers
        .iter()
        .filter_map(|(name, said)| Some(choice(&models.find(name, said.default_model.as_deref()?))));
    let in_use = current.split_once('/').map(|(provider, name)| choice(&models.find(provider, name)));
    let mut choices: Vec<PickChoice> = Vec::new();
    for choice in local.into_iter().chain(in_use).chain(configured).chain(listed) {
        if !choices.iter().any(|other| other.value == choice.value) {
            choices.push(choice);
        }
    }
    let is_own = |choice: &PickChoice| {
        choice.value.split_once('/').is_some_and(|(provider, _)| base.config.providers.contains_key(provider))
    };
    choices.sort_by_key(|choice| match () {
        () if choice.value == current => 0,
        () if is_own(choice) || is_local.contains(&choice.value) => 1,
        () if choice.detail.starts_with("key set") => 2,
        () => 3,
    });
    choices
}

/// Compares names with their numbers by value, so that `gpt-5.10` is greater than `gpt-5.5`.
fn by_number(a: &str, b: &str) -> Ordering {
    let parts = |name: &str| -> Vec<(u64, String)> {
        let chunks = name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
        let text = |chunk: &[u8]| String::from_utf8_lossy(chunk).into_owned();
        chunks.map(|chunk| (text(chunk).parse().unwrap_or_default(), text(chunk))).collect()
    };
    parts(a).cmp(&parts(b))
}

/// Describes the abilities and the prices of a model.
pub(super) fn abilities(model: &pinion_providers::ModelSpec) -> String {
    let images = if model.images { " · images" } else { "" };
    let thinks = if model.thinking == ThinkingStyle::None { "" } else { " · thinking" };
    // Of a short prompt.
    let prices = model.prices(0).map(|prices| format!(" · ${} in, ${} out", prices.input, prices.output));
    format!("{} context{images}{thinks}{}", tokens(model.context_window), prices.unwrap_or_default())
}

/// A session in the list.
struct ListedSession {
    summary: Summary,
    /// Id of the session that it was forked from, or that started it, and a word for that.
    origin: Option<(String, &'static str)>,
}

/// Lists the sessions of the workspace or of all, the latest first, each with its forks and the sessions of its sub-agents
/// below it. Blocks.
pub(crate) fn sessions(base: &Base, pick: Pick) -> Vec<PickChoice> {
    let directory = SessionDirectory::new(base.paths.sessions());
    let scope = if pick == Pick::AllSessions { ListScope::All } else { ListScope::Workspace(&base.workspace) };
    let Ok(listing) = directory.list(scope) else { return Vec::new() };
    let mut listed = Vec::new();
    for (at, summary) in listing.sessions.into_iter().enumerate() {
        let fork = summary.header.as_ref().and_then(|header| header.forked_from.as_ref());
        let origin = fork.map(|origin| (origin.session.clone(), "fork · "));
        let depth = if at < MAX_PARENTS { MAX_AGENT_DEPTH } else { 0 };
        add(&directory, ListedSession { summary, origin }, depth, &mut listed);
    }
    let origins: Vec<_> = listed
        .iter()
        .map(|listed| (listed.summary.id.as_str(), listed.origin.as_ref().map(|(origin, _)| origin.as_str())))
        .collect();
    let choice = |(at, depth): (usize, usize)| {
        let ListedSession { summary, origin } = &listed[at];
        let (mark, kind) = match (depth, origin) {
            (0, _) | (_, None) => (String::new(), ""),
            (_, Some((_, kind))) => (format!("{}{NESTED}", "  ".repeat(depth.min(MAX_INDENT) - 1)), *kind),
        };
        let title = summary.title.as_deref().unwrap_or("(no prompt)");
        let age = age(Timestamp::now().duration_since(summary.last_activity).as_secs());
        let workspace = summary.header.as_ref().filter(|_| pick == Pick::AllSessions);
        let place = workspace.map(|header| format!("{} · ", shown_directory(&header.workspace))).unwrap_or_default();
        PickChoice {
            value: short_id(&summary.id).to_owned(),
            label: format!("{mark}{title}"),
            detail: format!("{place}{kind}{age} · {}", short_id(&summary.id)),
        }
    };
    nested(&origins).into_iter().map(choice).collect()
}

/// Adds a session and its sub-agents' sessions, of at most `depth` generations.
fn add(directory: &SessionDirectory, session: ListedSession, depth: u32, listed: &mut Vec<ListedSession>) {
    let (id, path) = (session.summary.id.clone(), session.summary.path.clone());
    listed.push(session);
    if depth == 0 {
        return;
    }
    for summary in directory.children(&path).unwrap_or_default().sessions {
        add(directory, ListedSession { summary, origin: Some((id.clone(), "sub-agent · ")) }, depth - 1, listed);
    }
}

/// Orders sessions, given as ids with the ids of their origins, so that each follows its origin. The first session of a family
/// decides on its place. Returns the indices with their depths.
fn nested(sessions: &[(&str, Option<&str>)]) -> Vec<(usize, usize)> {
    let at: HashMap<&str, usize> = sessions.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
    let origin = |session: usize| sessions[session].1.and_then(|origin| at.get(origin)).copied();
    let mut below = vec![Vec::new(); sessions.len()];
    (0..sessions.len()).rev().for_each(|session| below[origin(session).unwrap_or(session)].push(session));
    let mut order = Vec::new();
    let mut is_placed = vec![false; sessions.len()];
    for session in 0..sessions.len() {
        // Headers are not trusted: origins may form a circle.
        let mut first = session;
        for _ in 0..sessions.len() {
            match origin(first).filter(|_| !is_placed[session]) {
                Some(before) => first = before,
                None => break,
            }
        }
        let mut left = vec![(first, 0)];
        while let Some((session, depth)) = left.pop() {
            if !std::mem::replace(&mut is_placed[session], true) {
                order.push((session, depth));
                left.extend(below[session].iter().map(|session| (*session, depth + 1)));
            }
        }
    }
    order
}

/// Offers the files of the workspace for completion, in the background. Reports a failure.
pub(super) fn offer_files(said: Arc<UiInbox>, base: &Base) {
    let (workspace, exclusions) = (base.workspace.clone(), base.config.exclusions.clone());
    tokio::task::spawn_blocking(move || {
        said.push_input(match files(&workspace, &exclusions) {
            Ok(FileList { paths, is_cut }) => Input::Files { paths: Arc::new(paths), is_cut },
            Err(error) => Input::Note(Tone::Warning, format!("could not list files: {error}")),
        });
    });
}

/// Lists the files of the workspace that neither its ignore files nor the config exclude. Blocks.
///
/// # Errors
/// The workspace cannot be read, or takes longer than ten seconds.
fn files(workspace: &Path, exclusions: &Finder) -> io::Result<FileList> {
    let mut files = list_files(workspace, LISTING)?;
    if !exclusions.is_empty() {
        let found = exclusions.find_excluded().map_err(io::Error::other)?;
        let is_other_name = |path: &Path| found.places.binary_search_by(|place| place.path.as_path().cmp(path)).is_ok();
        files.paths.retain(|file| {
            let path = workspace.join(file);
            exclusions.exclusions().find_pattern(&path, false).is_none() && !is_other_name(&path)
        });
    }
    Ok(files)
}

/// Returns the branch of the repository that the workspace is in.
pub(super) fn branch(base: &Base) -> Option<String> {
    branch_of(&Repository::around(&base.workspace, pinion_app::files::paths::home().as_deref()).ok()?)
}

fn branch_of(repository: &Repository) -> Option<String> {
    let text = |repository: &Repository, path: &str| {
        String::from_utf8(repository.read(Path::new(path), Links::Never, MAX_HEAD).ok()??).ok()
    };
    let head = match text(repository, ".git") {
        // Of a linked worktree or a submodule, whose repository is elsewhere.
        Some(pointer) => {
            let directory = repository.root().join(pointer.trim_end().strip_prefix("gitdir: ")?);
            text(&Repository::at(&directory).ok()?, "HEAD")?
        }
        None => text(repository, ".git/HEAD")?,
    };
    let branch = head.trim().strip_prefix("ref: refs/heads/");
    Some(branch.map_or_else(|| head.chars().take(8).collect(), str::to_owned))
}

/// Lists all slash commands that this form of conversation can carry out.
pub(super) fn commands(runtime: &Runtime, info: &SessionInfo, actions: ActionTable) -> Vec<SlashCommand> {
    let infos = info.actions();
    let ui_command =
        |name: &Option<String>| find_action(actions, name.as_deref()?).and_then(|action| action.on_screen());
    let command = |command: CommandDefinition| SlashCommand {
        action: ui_command(&command.action),
        bare_action: ui_command(&command.bare_action),
        name: command.name,
        hint: command.argument_hint.unwrap_or_default(),
        description: command.description,
    };
    let offered = runtime.commands().into_iter().filter(|command| command.is_offered(&infos));
    let mut commands: Vec<SlashCommand> = offered.map(command).collect();
    commands.sort_by(|a, b| a.name.cmp(&b.name));
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_is_that_of_the_worktree() {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("main/.git/HEAD", "ref: refs/heads/main\n");
        write("main/.git/worktrees/fix/HEAD", "ref: refs/heads/fix/one\n");
        write("beside/.git", "gitdir: ../main/.git/worktrees/fix\n");
        write("detached/.git/HEAD", "0123456789abcdef\n");
        write("broken/.git", "elsewhere\n");
        std::fs::create_dir(directory.path().join("none")).unwrap();
        let branch = |name: &str| branch_of(&Repository::at(&directory.path().join(name)).unwrap());
        let found = ["main", "beside", "detached", "broken", "none"].map(branch);
        assert_eq!(
            found,
            ["main", "fix/one", "01234567", "", ""].map(|name| (!name.is_empty()).then(|| name.to_owned()))
        );
    }

    #[test]
    fn sessions_follow_their_origins() {
        let sessions = [
            ("fork", Some("old")),
            ("new", None),
            ("agent", Some("new")),
            ("old", None),
            ("fork of fork", Some("fork")),
            ("other", Some("gone")),
        ];
        let order: Vec<_> = nested(&sessions).into_iter().map(|(at, depth)| (sessions[at].0, depth)).collect();
        let expected = [("old", 0), ("fork", 1), ("fork of fork", 2), ("new", 0), ("agent", 1), ("other", 0)];
        assert_eq!(order, expected);
    }

    #[test]
    fn each_session_of_a_circle_is_listed_once() {
        let sessions = [("a", Some("b")), ("b", Some("c")), ("c", Some("b")), ("d", Some("d"))];
        let mut order: Vec<usize> = nested(&sessions).into_iter().map(|(at, _)| at).collect();
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3]);
    }
}
