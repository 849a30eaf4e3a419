//! Files that look like credentials, of tools that no list names.
//!
//! Tools keep theirs in a directory whose name begins with a dot, or below `.config` and the like: in a file whose name says
//! so, or in one that only the user may read, although the user's other files are open to all.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories of tools besides those directly in the home directory.
const AROUND: &[&str] = &[".config", ".local/share", ".local/state"];
/// Directories of tools that contain the files of toolchains, so that only names count.
const TOOLCHAINS: &[&str] = &[
    ".asdf",
    ".bun",
    ".cabal",
    ".cache",
    ".cargo",
    ".config",
    ".conda",
    ".deno",
    ".dotnet",
    ".elan",
    ".ghcup",
    ".git",
    ".go",
    ".gradle",
    ".ivy2",
    ".java",
    ".julia",
    ".konan",
    ".local",
    ".m2",
    ".mix",
    ".nix-defexpr",
    ".nix-profile",
    ".npm",
    ".nuget",
    ".nvm",
    ".opam",
    ".oh-my-zsh",
    ".pnpm-store",
    ".pub-cache",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sbt",
    ".sdkman",
    ".stack",
    ".swiftpm",
    ".volta",
    ".vscode",
    ".vscode-server",
    ".yarn",
    "cargo",
    "containers",
    "fnm",
    "gem",
    "pipx",
    "pnpm",
    "rustup",
    "uv",
    "virtualenv",
];
/// Settings of programs that run in the sandbox, which are not credentials, with any mode.
const OPEN: &[&str] = &[
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".curlrc",
    ".editorconfig",
    ".gdbinit",
    ".gitattributes",
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".hushlogin",
    ".inputrc",
    ".nanorc",
    ".profile",
    ".screenrc",
    ".tmux.conf",
    ".tool-versions",
    ".vimrc",
    ".wgetrc",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "git",
    "go",
    "mise",
    "fish",
    "nvim",
    "pip",
    "nix",
    "fontconfig",
    "direnv",
    "rustfmt",
    "ruff",
    "black",
    "clangd",
    "cmake",
];
/// Words in the names of files with credentials.
const WORDS: &[&str] = &[
    "accesskey",
    "api-key",
    "api_key",
    "apikey",
    "cookie",
    "credential",
    "passwd",
    "password",
    "private_key",
    "secret",
    "token",
];
/// Names of such files without their extension, and ends of names.
const NAMES: &[&str] = &[
    "auth",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "keyring",
    "keystore",
    "login",
    "oauth",
    "session",
    "wallet",
];
const ENDS: &[&str] =
    &[".gpg", ".jks", ".kdbx", ".key", ".keystore", ".p12", ".pem", ".pfx", ".ppk", "_history", "_rsa"];
/// Maximum number of entries of directories that are looked at, of one tool and of all; and of paths.
const MAX_OF_TOOL: usize = 300;
const MAX_ENTRIES: usize = 6_000;
const MAX_PATHS: usize = 300;

/// Returns the files and directories in a home directory that look like credentials, except for those below `open`.
pub(super) fn credentials(home: &Path, open: &[PathBuf]) -> Vec<PathBuf> {
    let mut search =
        SecretSearch { is_private_telling: is_private_telling(home), left: MAX_ENTRIES, open, found: Vec::new() };
    search.search_directory(home, SecretDirectoryKind::Home);
    for around in AROUND {
        search.search_directory(&home.join(around), SecretDirectoryKind::Around);
    }
    search.found
}

/// Returns whether a mode without rights for others says something about a file: if the user's ordinary files have some.
fn is_private_telling(home: &Path) -> bool {
    let known = [".bash_profile", ".bashrc", ".profile", ".zprofile", ".zshrc"];
    let files: Vec<bool> =
        known.iter().filter_map(|name| fs::metadata(home.join(name)).ok()).map(|file| is_private(&file)).collect();
    if files.is_empty() { !new_files_are_private() } else { files.iter().filter(|is| **is).count() * 2 < files.len() }
}

/// Returns whether files that this user creates have no rights for others; assumed where the system does not tell.
fn new_files_are_private() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).is_none_or(|mask| mask & 0o077 == 0o077)
}

#[cfg(unix)]
fn is_private(file: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    // Programs are no credentials.
    file.permissions().mode() & 0o177 == 0
}
#[cfg(not(unix))]
fn is_private(_: &fs::Metadata) -> bool {
    false
}

/// The meaning of a directory's entries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretDirectoryKind {
    /// Names with a dot belong to tools.
    Home,
    /// All names belong to tools.
    Around,
    /// All names belong to one tool, with this many levels below.
    Tool { levels: u8, counts_mode: bool },
}

struct SecretSearch<'a> {
    is_private_telling: bool,
    left: usize,
    open: &'a [PathBuf],
    found: Vec<PathBuf>,
}

impl SecretSearch<'_> {
    fn search_directory(&mut self, directory: &Path, place: SecretDirectoryKind) {
        let most = if matches!(place, SecretDirectoryKind::Tool { .. }) { MAX_OF_TOOL } else { MAX_ENTRIES };
        for entry in fs::read_dir(directory).into_iter().flatten().flatten().take(most) {
            if self.left == 0 || self.found.len() >= MAX_PATHS {
                return;
            }
            self.left -= 1;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(kind) = entry.file_type() else { continue };
            if (place == SecretDirectoryKind::Home && !name.starts_with('.')) || OPEN.contains(&&*name) {
                continue;
            }
            let path = entry.path();
            // The links of a directory with settings lead to files that are looked at there.
            if self.open.iter().any(|open| path.starts_with(open)) {
                continue;
            }
            if kind.is_dir() {
                self.enter(&path, &name, place);
            } else if kind.is_file() {
                let counts_mode =
                    !matches!(place, SecretDirectoryKind::Tool { counts_mode: false, .. }) && self.is_private_telling;
                // A part of settings, such as `.gitconfig-work`.
                let is_part = || OPEN.iter().any(|open| open.starts_with('.') && name.starts_with(open));
                let is_private = || counts_mode && !is_part() && entry.metadata().is_ok_and(|file| is_private(&file));
                if !is_public(&name) && (is_credential(&name) || is_private()) {
                    self.found.push(path);
                }
            }
        }
    }

    fn enter(&mut self, path: &Path, name: &str, place: SecretDirectoryKind) {
        let is_toolchain = TOOLCHAINS.contains(&name);
        match place {
            SecretDirectoryKind::Home if matches!(name, ".config" | ".local" | ".cache" | ".git") => {}
            SecretDirectoryKind::Home | SecretDirectoryKind::Around => {
                let levels = if is_toolchain { 0 } else { 1 };
                self.search_directory(path, SecretDirectoryKind::Tool { levels, counts_mode: !is_toolchain });
            }
            SecretDirectoryKind::Tool { .. }
                if is_credential(name) && !self.open.iter().any(|open| open.starts_with(path)) =>
            {
                self.found.push(path.to_owned());
            }
            SecretDirectoryKind::Tool { levels: 1.., counts_mode } => {
                self.search_directory(path, SecretDirectoryKind::Tool { levels: 0, counts_mode })
            }
            SecretDirectoryKind::Tool { .. } => {}
        }
    }
}

/// Returns whether a file or directory of this name usually holds credentials.
fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let stem = name.trim_start_matches('.').split('.').next().unwrap_or_default();
    WORDS.iter().any(|word| name.contains(word)) || NAMES.contains(&stem) || ENDS.iter().any(|end| name.ends_with(end))
}

/// Returns whether a file is code or a text about something, or the public part of a key.
fn is_public(name: &str) -> bool {
    const ENDS: &[&str] = &[
        ".c", ".css", ".d.ts", ".go", ".h", ".html", ".js", ".lua", ".md", ".mjs", ".pub", ".py", ".rb", ".rs", ".ts",
        ".vim",
    ];
    ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn write(home: &Path, path: &str, mode: u32) {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    const HIDDEN: &[&str] = &[
        ".newtool/config.json",
        ".newtool/state/session.json",
        ".config/newtool/hosts.yml",
        ".config/newtool/deep/keys.json",
        ".local/share/newtool/auth.json",
        ".newtoolrc",
    ];
    const NAMED: &[&str] =
        &[".othertool/credentials", ".config/othertool/access_token.json", ".npm/_auth_token", ".x_history"];
    const OPEN_FILES: &[&str] = &[
        ".cargo/config.toml",
        ".cargo/registry/index/cache",
        ".rustup/settings.toml",
        ".npm/_cacache/index",
        ".config/git/config",
        ".config/pip/x",
        ".config/go/env",
        ".gitconfig",
        ".gitconfig-work",
        ".pyenv/version",
        ".newtool/tokenizer.py",
        "project/token",
    ];

    #[test]
    fn files_that_look_like_credentials_are_found_and_toolchains_stay() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        write(home, ".bashrc", 0o644);
        HIDDEN.iter().for_each(|path| write(home, path, 0o600));
        NAMED.iter().for_each(|path| write(home, path, 0o644));
        OPEN_FILES.iter().for_each(|path| write(home, path, 0o600));
        write(home, ".newtool/plain.json", 0o644);
        let found = credentials(home, &[]);
        let is_found = |path: &str| found.iter().any(|found| home.join(path).starts_with(found));
        for path in HIDDEN.iter().chain(NAMED) {
            assert!(is_found(path), "{path}");
        }
        for path in OPEN_FILES.iter().chain(&[".newtool/plain.json"]) {
            assert!(!is_found(path), "{path}");
        }
        let open = credentials(home, &[home.join(".newtool"), home.join(".config/newtool/hosts.yml")]);
        assert!(!open.iter().any(|path| path.starts_with(home.join(".newtool")) || path.ends_with("hosts.yml")));
    }

    #[test]
    fn mode_says_nothing_where_all_files_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        write(home, ".bashrc", 0o600);
        HIDDEN.iter().chain(NAMED).for_each(|path| write(home, path, 0o600));
        let found = credentials(home, &[]);
        assert!(
            !found.contains(&home.join(".newtool/config.json")) && found.contains(&home.join(".othertool/credentials"))
        );
    }
}
