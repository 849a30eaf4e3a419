//! Repositories of git where a command that reads runs only git.
//!
//! Git runs programs that the repository's own files name: in its config, in hooks, and in the repositories of submodules.
//! Only settings that are known to run nothing are accepted.

use pinion_git::{config, harmless_settings, read_at_most};
use std::fs;
use std::path::Path;

/// Maximum bytes of a config.
const MAX_CONFIG: u64 = 64 * 1024;
/// Maximum bytes of an index.
const MAX_INDEX: u64 = 64 * 1024 * 1024;
/// Maximum number of hooks and samples of hooks.
const MAX_HOOKS: usize = 100;
/// Settings that make a command that reads fetch missing objects.
const FETCHES: [(&str, &str); 2] = [("extensions", "partialclone"), ("remote", "promisor")];
/// Hooks that run when something is recorded, fetched or sent.
const HOOKS: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-merge",
    "post-rewrite",
    "pre-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
];

/// Returns whether git, started in `directory`, finds the workspace's own repository, or no repository, and runs no
/// program that it names. `compares_files` is true for commands that look at the files of the workspace, and so into
/// submodules.
pub(crate) fn is_plain(directory: &Path, workspace: &Path, compares_files: bool) -> bool {
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    let is_one = |path: &Path| exists(&path.join(".git")) || exists(&path.join("HEAD"));
    // A directory with a `HEAD` may be a repository itself.
    if directory.ancestors().take_while(|path| *path != workspace).any(is_one) || exists(&workspace.join("HEAD")) {
        return false;
    }
    let repository = workspace.join(".git");
    if !exists(&repository) {
        // Git looks for one further up.
        return !workspace.ancestors().skip(1).any(is_one);
    }
    repository.symlink_metadata().is_ok_and(|found| found.is_dir())
        && !exists(&repository.join("commondir"))
        && !exists(&repository.join("config.worktree"))
        && are_hooks_apart(&repository.join("hooks"))
        && is_plain_config(&repository.join("config"))
        && (!compares_files || !may_have_submodules(&repository))
}

/// Returns whether no hook runs when git reads, such as `post-index-change`.
fn are_hooks_apart(hooks: &Path) -> bool {
    let Ok(entries) = fs::read_dir(hooks) else { return hooks.symlink_metadata().is_err() };
    let mut number = 0;
    entries.into_iter().all(|entry| {
        number += 1;
        let name = entry.map(|entry| entry.file_name().to_string_lossy().into_owned()).unwrap_or_default();
        number <= MAX_HOOKS && (name.ends_with(".sample") || HOOKS.contains(&name.as_str()))
    })
}

fn is_plain_config(path: &Path) -> bool {
    let Some(text) = read_at_most(path, MAX_CONFIG) else { return false };
    let is_plain = |entry: &config::ConfigEntry| {
        // `ext::` in front of an address is a program.
        harmless_settings::holds_no_command(entry)
            && harmless_settings::is_address(entry.text())
            && !FETCHES.iter().any(|(section, name)| entry.is(section, name))
    };
    config::plain(&text).is_some_and(|entries| entries.iter().all(is_plain))
}

/// Returns whether the index may have an entry for another repository, which git looks into with that one's settings.
fn may_have_submodules(repository: &Path) -> bool {
    let index = repository.join("index");
    let size = match index.symlink_metadata() {
        Ok(found) if found.is_file() => found.len(),
        Ok(_) => return true,
        Err(_) => return false,
    };
    let is_split = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with("sharedindex");
    let Ok(mut entries) = fs::read_dir(repository) else { return true };
    if size > MAX_INDEX || entries.any(|entry| entry.map_or(true, is_split)) {
        return true;
    }
    // The mode of such an entry, wherever it is: another number of this value costs a question at most.
    const MODE: &[u8] = &0o160_000_u32.to_be_bytes();
    read_at_most(&index, MAX_INDEX).is_none_or(|bytes| bytes.windows(MODE.len()).any(|window| window == MODE))
}
