//! Names in writable directories that decide what runs outside of the sandbox.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

/// Files and directories.
pub(super) const NAMES: &[&str] = &[
    // This program.
    ".mcp.json",
    ".pinion",
    // Other agents.
    ".agent",
    ".agents",
    ".aider",
    ".aider.conf.yaml",
    ".aiderignore",
    ".copilot",
    ".augment",
    ".cline",
    ".codebuddy",
    ".crush",
    ".forge.yaml",
    ".github/agents",
    ".github/hooks",
    ".github/prompts",
    ".github/skills",
    ".goose",
    ".goosehints",
    ".hermes",
    ".iflow",
    ".kimi",
    ".openclaw",
    ".pi",
    ".qoder",
    ".rovodev",
    ".skills",
    ".tabnine",
    ".warp",
    ".zencoder",
    ".aider.conf.yml",
    ".amazonq",
    ".amp",
    ".claude",
    ".clinerules",
    ".codex",
    ".continue",
    ".crush.json",
    ".cursor",
    ".factory",
    ".gemini",
    ".junie",
    ".kilocode",
    ".kiro",
    ".openhands",
    ".opencode",
    ".qwen",
    ".roo",
    ".trae",
    ".windsurf",
    "crush.json",
    "opencode.json",
    "opencode.jsonc",
    // Read by shells, version managers, debuggers and hooks of git when someone enters the directory or commits.
    ".autoenv",
    ".autoenv.zsh",
    ".config/mise",
    ".config/mise.toml",
    ".devcontainer",
    ".devcontainer.json",
    ".envrc",
    ".gdbinit",
    ".githooks",
    ".cargo-husky",
    ".git-hooks",
    ".gitlint",
    ".huskyrc",
    ".huskyrc.js",
    ".huskyrc.json",
    ".rusty-hook.toml",
    ".simple-git-hooks.cjs",
    ".simple-git-hooks.js",
    "captainhook.json",
    "hk.pkl",
    "prek.toml",
    "simple-git-hooks.cjs",
    "simple-git-hooks.js",
    "simple-git-hooks.json",
    ".husky",
    ".lefthook",
    ".lefthook-local",
    ".lefthook-local.json",
    ".lefthook-local.toml",
    ".lefthook-local.yaml",
    ".lefthook-local.yml",
    ".lefthook.json",
    ".lefthook.toml",
    ".lefthook.yaml",
    ".lefthook.yml",
    ".lldbinit",
    ".mise",
    ".mise.local.toml",
    ".mise.toml",
    ".overcommit.yml",
    ".pre-commit-config.yaml",
    ".rvmrc",
    ".shadowenv.d",
    ".tmuxinator.yml",
    ".tmuxp.json",
    ".tmuxp.yaml",
    ".tmuxp.yml",
    ".simple-git-hooks.json",
    ".tool-versions",
    "lefthook-local.json",
    "lefthook-local.toml",
    "lefthook-local.yaml",
    "lefthook-local.yml",
    "lefthook.json",
    "lefthook.toml",
    "lefthook.yaml",
    "lefthook.yml",
    "mise.local.toml",
    "mise.toml",
    // Editors.
    ".atom",
    ".classpath",
    ".emacs",
    ".emacs.d",
    ".emacs.desktop",
    ".ideavimrc",
    ".lapce",
    ".nvim",
    ".project",
    ".projectile",
    ".settings",
    ".spacemacs",
    ".vs",
    ".vsconfig",
    ".dir-locals-2.el",
    ".dir-locals.el",
    ".exrc",
    ".externalToolBuilders",
    ".fleet",
    ".helix",
    ".idea",
    ".lvimrc",
    ".kateproject",
    ".lazy.lua",
    ".lite_project.lua",
    ".local.vimrc",
    ".localvimrc",
    ".vimrc.local",
    ".vimspector.json",
    ".ycm_extra_conf.py",
    ".nova",
    ".nvim.lua",
    ".nvimrc",
    ".sublime-project",
    ".theia",
    ".vim",
    ".vimrc",
    ".vscode",
    ".zed",
    // Shells and version control.
    ".bash_aliases",
    ".kshrc",
    ".mkshrc",
    ".tcshrc",
    ".cshrc",
    ".zshrc.local",
    ".xonshrc",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".gitconfig",
    ".hg/hgrc",
    ".hg/hgrc-not-shared",
    ".hg/sharedpath",
    ".inputrc",
    ".jj/repo/config.toml",
    ".jj/workspace-config.toml",
    ".profile",
    ".sl/config",
    ".sl/sharedpath",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    // Read by interpreters and by package managers before they do anything.
    ".cargo/config",
    ".cargo/config.toml",
    ".ghci",
    ".iex.exs",
    ".irbrc",
    ".byebugrc",
    ".octaverc",
    ".pdbrc",
    ".pdbrc.py",
    ".rdbgrc",
    ".tclshrc",
    ".ipython",
    ".jupyter",
    ".npmrc",
    ".ocamlinit",
    ".pnpmfile.cjs",
    ".pryrc",
    ".psqlrc",
    ".pythonrc",
    ".pythonrc.py",
    ".Renviron",
    ".Rprofile",
    ".sqliterc",
    ".yarnrc",
    ".yarnrc.yml",
    "sitecustomize.py",
    "usercustomize.py",
];

/// The same in the home directory of the user, if programs write there.
pub(super) const IN_HOME: &[&str] = &[
    ".bash_aliases",
    ".cargo/bin",
    ".cargo/config",
    ".cargo/config.toml",
    ".config/autostart",
    ".config/environment.d",
    ".config/fish",
    ".config/git",
    ".config/hypr",
    ".config/i3",
    ".config/jj",
    ".config/nvim",
    ".config/pip",
    ".config/sway",
    ".config/systemd",
    ".config/tmux",
    ".config/zsh",
    ".emacs",
    ".emacs.d",
    ".gemrc",
    ".hgrc",
    ".local/bin",
    ".local/share/applications",
    ".local/share/systemd",
    ".npmrc",
    ".pam_environment",
    ".pip",
    ".ssh",
    ".tmux.conf",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    "Library/LaunchAgents",
    "bin",
];

/// Extensions of files that open as a workspace of an editor, with its tasks.
const WORKSPACES: &[&str] = &["code-workspace", "geany", "ipr", "iws", "iml", "sublime-project", "sublime-workspace"];
/// Directories with what tools fetch and build, which come and go as a whole, and in which nobody works.
const FOREIGN: &[&str] = &[
    ".build",
    ".bundle",
    ".cache",
    ".dart_tool",
    ".direnv",
    ".eggs",
    ".git",
    ".gradle",
    ".next",
    ".nox",
    ".nuxt",
    ".nx",
    ".pnpm-store",
    ".pub-cache",
    ".stack-work",
    ".terraform",
    ".tox",
    ".turbo",
    ".venv",
    ".yarn",
    ".zig-cache",
    "Carthage",
    "DerivedData",
    "Pods",
    "__pypackages__",
    "_build",
    "_deps",
    "bower_components",
    "dist-newstyle",
    "elm-stuff",
    "jspm_packages",
    "node_modules",
    "site-packages",
    "target",
    "vendor",
    "venv",
    "zig-cache",
];

/// The last parts of [`NAMES`] in lower case, with the directories that have to be around each; empty for none.
static BY_LAST: LazyLock<HashMap<String, Vec<&'static str>>> = LazyLock::new(|| {
    let mut all: HashMap<String, Vec<&str>> = HashMap::new();
    for name in NAMES {
        let (around, last) = name.rsplit_once('/').unwrap_or(("", name));
        all.entry(last.to_ascii_lowercase()).or_default().push(around);
    }
    all
});

/// The lengths of these names as bits, by their first byte: a look asks about each entry of a workspace.
static LENGTHS: LazyLock<[u64; 256]> = LazyLock::new(|| {
    let mut lengths = [0; 256];
    for name in BY_LAST.keys() {
        if let [first, ..] = name.as_bytes() {
            lengths[usize::from(*first)] |= 1 << name.len().min(63);
        }
    }
    lengths
});

/// Returns whether an entry of a directory inside a writable one is named as the settings that are protected directly in it.
/// `directory` is relative to the writable one.
pub fn is_nested_setting(directory: &Path, name: &OsStr) -> bool {
    setting_levels(directory, name).is_some()
        && !directory.iter().any(|part| FOREIGN.iter().any(|foreign| part.eq_ignore_ascii_case(foreign)))
}

/// Returns the directory for which a setting counts, as [`is_nested_setting`] finds it: `sub` of `sub/.github/hooks`.
pub fn directory_of_setting(path: &Path) -> Option<&Path> {
    let levels = setting_levels(path.parent()?, path.file_name()?)?;
    path.ancestors().nth(levels)
}

/// Returns the number of parts in the name of a setting; none if it is no setting.
fn setting_levels(directory: &Path, name: &OsStr) -> Option<usize> {
    let name = name.to_str().filter(|name| name.len() < 64)?;
    let first = name.as_bytes().first()?.to_ascii_lowercase();
    if (LENGTHS[usize::from(first)] >> name.len()) & 1 == 1
        && let Some(all) = BY_LAST.get(&name.to_ascii_lowercase())
    {
        // The longest one counts.
        let fitting = all.iter().filter(|around| ends_with(directory, around));
        let levels = fitting.map(|around| around.split('/').filter(|part| !part.is_empty()).count() + 1).max();
        if levels.is_some() {
            return levels;
        }
    }
    let extension = name.rsplit_once('.').map(|(_, extension)| extension)?;
    WORKSPACES.iter().any(|known| known.eq_ignore_ascii_case(extension)).then_some(1)
}

fn ends_with(directory: &Path, around: &str) -> bool {
    let mut parts = directory.iter().rev();
    let mut of_around = around.rsplit('/').filter(|part| !part.is_empty());
    of_around.all(|part| parts.next().is_some_and(|other| other.eq_ignore_ascii_case(part)))
}

/// Directories in whose place a file with a path leads to another one, with other settings.
pub(super) const LEADING: &[&str] = &[".jj/repo"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_settings_are_known_by_their_names() {
        let is_setting = |path: &str| {
            let path = Path::new(path);
            is_nested_setting(path.parent().unwrap(), path.file_name().unwrap())
        };
        for path in [
            ".vscode",
            "sub/.vscode",
            "a/b/.VSCode",
            "sub/.github/hooks",
            "sub/.config/mise.toml",
            "sub/.cargo/config.toml",
            "x/my.code-workspace",
            "sub/.envrc",
            "lib/sitecustomize.py",
        ] {
            assert!(is_setting(path), "{path}");
        }
        for path in [
            "sub/hooks",
            "sub/.github/workflows",
            "sub/config.toml",
            "node_modules/x/.vscode",
            "a/target/debug/.cargo/config.toml",
            ".venv/lib/python3/site-packages/sitecustomize.py",
            "sub/vscode",
            "sub/.vscode-test",
            "code-workspace",
        ] {
            assert!(!is_setting(path), "{path}");
        }
        let directory = |path: &'static str| directory_of_setting(Path::new(path)).and_then(Path::to_str);
        assert_eq!(directory("/w/sub/.vscode"), Some("/w/sub"));
        assert_eq!(directory("/w/sub/.github/hooks"), Some("/w/sub"));
        assert_eq!(directory("/w/sub/.cargo/config"), Some("/w/sub"));
        assert_eq!(directory("/w/my.code-workspace"), Some("/w"));
        assert_eq!(directory("/w/sub/file"), None);
    }
}
