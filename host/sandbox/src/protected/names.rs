//! Names in writable directories that decide which programs run outside the sandbox.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

/// A file or directory of settings, relative to a writable directory.
pub(super) struct Setting {
    pub(super) name: &'static str,
    commands: Option<&'static str>,
}

impl Setting {
    /// Returns the file or directory with commands that name scripts of the project, relative to the same directory; none
    /// if the settings name none.
    pub(super) fn file_of_commands(&self) -> Option<&'static str> {
        self.commands
    }
}

/// Settings without commands that name scripts of the project.
const fn keeps(name: &'static str) -> Setting {
    Setting { name, commands: None }
}

/// Settings whose commands name scripts of the project.
const fn runs(name: &'static str) -> Setting {
    Setting { name, commands: Some(name) }
}

/// A directory of settings in which one file has such commands.
const fn runs_in(name: &'static str, file: &'static str) -> Setting {
    Setting { name, commands: Some(file) }
}

/// Files and directories of settings.
pub(super) const NAMES: &[Setting] = &[
    // This program.
    keeps(".mcp.json"),
    keeps(".pinion"),
    // Other agents.
    runs(".agent"),
    runs(".agents"),
    keeps(".aider"),
    runs(".aider.conf.yaml"),
    keeps(".aiderignore"),
    runs(".copilot"),
    runs(".augment"),
    runs(".cline"),
    runs(".codebuddy"),
    runs(".crush"),
    runs(".forge.yaml"),
    keeps(".github/agents"),
    runs(".github/hooks"),
    keeps(".github/prompts"),
    keeps(".github/skills"),
    runs(".goose"),
    keeps(".goosehints"),
    runs(".hermes"),
    runs(".iflow"),
    runs(".kimi"),
    runs(".openclaw"),
    runs(".pi"),
    runs(".qoder"),
    runs(".rovodev"),
    keeps(".skills"),
    keeps(".tabnine"),
    keeps(".warp"),
    keeps(".zencoder"),
    runs(".aider.conf.yml"),
    runs(".amazonq"),
    runs(".amp"),
    runs(".claude"),
    runs(".clinerules"),
    runs(".codex"),
    runs(".continue"),
    runs(".crush.json"),
    runs(".cursor"),
    runs(".factory"),
    runs(".gemini"),
    runs(".junie"),
    runs(".kilocode"),
    runs(".kiro"),
    runs(".openhands"),
    runs(".opencode"),
    runs(".qwen"),
    runs(".roo"),
    runs(".trae"),
    runs(".windsurf"),
    runs("crush.json"),
    runs("opencode.json"),
    runs("opencode.jsonc"),
    // Read by shells, version managers, debuggers and hooks of git when someone enters the directory or commits.
    runs(".autoenv"),
    runs(".autoenv.zsh"),
    runs(".config/mise"),
    runs(".config/mise.toml"),
    runs(".devcontainer"),
    runs(".devcontainer.json"),
    runs(".envrc"),
    runs(".gdbinit"),
    runs(".githooks"),
    runs(".cargo-husky"),
    runs(".git-hooks"),
    runs(".gitlint"),
    runs(".huskyrc"),
    runs(".huskyrc.js"),
    runs(".huskyrc.json"),
    runs(".rusty-hook.toml"),
    runs(".simple-git-hooks.cjs"),
    runs(".simple-git-hooks.js"),
    runs("captainhook.json"),
    runs("hk.pkl"),
    runs("prek.toml"),
    runs("simple-git-hooks.cjs"),
    runs("simple-git-hooks.js"),
    runs("simple-git-hooks.json"),
    runs(".husky"),
    runs(".lefthook"),
    runs(".lefthook-local"),
    runs(".lefthook-local.json"),
    runs(".lefthook-local.toml"),
    runs(".lefthook-local.yaml"),
    runs(".lefthook-local.yml"),
    runs(".lefthook.json"),
    runs(".lefthook.toml"),
    runs(".lefthook.yaml"),
    runs(".lefthook.yml"),
    runs(".lldbinit"),
    runs(".mise"),
    runs(".mise.local.toml"),
    runs(".mise.toml"),
    runs(".overcommit.yml"),
    runs(".pre-commit-config.yaml"),
    runs(".rvmrc"),
    runs(".shadowenv.d"),
    runs(".tmuxinator.yml"),
    runs(".tmuxp.json"),
    runs(".tmuxp.yaml"),
    runs(".tmuxp.yml"),
    runs(".simple-git-hooks.json"),
    keeps(".tool-versions"),
    runs("lefthook-local.json"),
    runs("lefthook-local.toml"),
    runs("lefthook-local.yaml"),
    runs("lefthook-local.yml"),
    runs("lefthook.json"),
    runs("lefthook.toml"),
    runs("lefthook.yaml"),
    runs("lefthook.yml"),
    runs("mise.local.toml"),
    runs("mise.toml"),
    // Editors.
    keeps(".atom"),
    keeps(".classpath"),
    runs(".emacs"),
    runs(".emacs.d"),
    keeps(".emacs.desktop"),
    runs(".ideavimrc"),
    keeps(".lapce"),
    runs(".nvim"),
    keeps(".project"),
    keeps(".projectile"),
    keeps(".settings"),
    runs(".spacemacs"),
    keeps(".vs"),
    keeps(".vsconfig"),
    runs(".dir-locals-2.el"),
    runs(".dir-locals.el"),
    runs(".exrc"),
    keeps(".externalToolBuilders"),
    keeps(".fleet"),
    runs(".helix"),
    runs_in(".idea", ".idea/watcherTasks.xml"),
    runs(".lvimrc"),
    runs(".kateproject"),
    runs(".lazy.lua"),
    runs(".lite_project.lua"),
    runs(".local.vimrc"),
    runs(".localvimrc"),
    runs(".vimrc.local"),
    keeps(".vimspector.json"),
    runs(".ycm_extra_conf.py"),
    runs(".nova"),
    runs(".nvim.lua"),
    runs(".nvimrc"),
    keeps(".sublime-project"),
    keeps(".theia"),
    runs(".vim"),
    runs(".vimrc"),
    runs_in(".vscode", ".vscode/tasks.json"),
    runs_in(".zed", ".zed/tasks.json"),
    // Shells and version control.
    runs(".bash_aliases"),
    runs(".kshrc"),
    runs(".mkshrc"),
    runs(".tcshrc"),
    runs(".cshrc"),
    runs(".zshrc.local"),
    runs(".xonshrc"),
    runs(".bash_login"),
    runs(".bash_logout"),
    runs(".bash_profile"),
    runs(".bashrc"),
    runs(".gitconfig"),
    runs(".hg/hgrc"),
    runs(".hg/hgrc-not-shared"),
    keeps(".hg/sharedpath"),
    keeps(".inputrc"),
    runs(".jj/repo/config.toml"),
    runs(".jj/workspace-config.toml"),
    runs(".profile"),
    runs(".sl/config"),
    keeps(".sl/sharedpath"),
    runs(".zlogin"),
    runs(".zlogout"),
    runs(".zprofile"),
    runs(".zshenv"),
    runs(".zshrc"),
    // Read by interpreters and by package managers before they do anything.
    runs(".cargo/config"),
    runs(".cargo/config.toml"),
    runs(".ghci"),
    runs(".iex.exs"),
    runs(".irbrc"),
    runs(".byebugrc"),
    runs(".octaverc"),
    runs(".pdbrc"),
    runs(".pdbrc.py"),
    runs(".rdbgrc"),
    runs(".tclshrc"),
    keeps(".ipython"),
    keeps(".jupyter"),
    runs(".npmrc"),
    runs(".ocamlinit"),
    runs(".pnpmfile.cjs"),
    runs(".pryrc"),
    runs(".psqlrc"),
    runs(".pythonrc"),
    runs(".pythonrc.py"),
    runs(".Renviron"),
    runs(".Rprofile"),
    runs(".sqliterc"),
    runs(".yarnrc"),
    runs(".yarnrc.yml"),
    runs("sitecustomize.py"),
    runs("usercustomize.py"),
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
/// Those of them that have commands.
const WITH_TASKS: &[&str] = &["code-workspace", "geany", "sublime-project"];

/// Directories with files that tools fetch and build, which come and go as a whole, and where people do not work.
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

/// The last parts of the names of [`NAMES`] in lower case, with the directories that have to be around each; empty for none.
static BY_LAST: LazyLock<HashMap<String, Vec<&'static str>>> = LazyLock::new(|| {
    let mut all: HashMap<String, Vec<&str>> = HashMap::new();
    for Setting { name, .. } in NAMES {
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

/// Returns the directory that a setting applies to, as [`is_nested_setting`] finds it: `sub` of `sub/.github/hooks`.
pub fn directory_of_setting(path: &Path) -> Option<&Path> {
    let levels = setting_levels(path.parent()?, path.file_name()?)?;
    path.ancestors().nth(levels)
}

/// Returns the number of parts in the name of a setting; `None` if it is not a setting.
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

/// Returns whether this is the name of an editor's workspace file with commands.
pub(super) fn has_tasks(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| WITH_TASKS.iter().any(|known| known.eq_ignore_ascii_case(extension)))
}

fn ends_with(directory: &Path, around: &str) -> bool {
    let mut parts = directory.iter().rev();
    let mut of_around = around.rsplit('/').filter(|part| !part.is_empty());
    of_around.all(|part| parts.next().is_some_and(|other| other.eq_ignore_ascii_case(part)))
}

/// Directories; a file with a path in their place leads to another one, with other settings.
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
