//! What git reads and runs because of the files of a repository: its settings, hooks, and what these name.

use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// In the directory of a repository. `commondir` would make git read another config.
const IN_REPOSITORY: [&str; 5] = ["hooks", "config", "config.worktree", "commondir", "info/attributes"];
/// Repositories of submodules and worktrees that are protected at most, and directories in which they are looked for.
const MAX_NESTED: usize = 500;
/// Configs of one repository, their settings, directories of hooks, hooks in each, and files that settings name. A program
/// can write these for a new repository in a subdirectory, and every later program starts after they were looked at.
const MAX_CONFIGS: usize = 10;
const MAX_SETTINGS: usize = 20_000;
const MAX_HOOK_DIRECTORIES: usize = 5;
const MAX_HOOKS: usize = 100;
const MAX_WORDS: usize = 1_000;
/// Bytes of a value that is looked at.
const MAX_VALUE: usize = 4_096;
/// Links on the way to a file, as in Linux.
const MAX_LINKS: usize = 40;
/// Directories of a repository that contain no others.
const CONTENT: [&str; 6] = ["objects", "refs", "logs", "hooks", "info", "worktrees"];
/// Bytes of a file of git that are read.
const MAX_GIT_BYTES: u64 = 512 * 1024;

/// Where git finds the settings of its user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitUser {
    /// What `~` stands for.
    pub home: Option<PathBuf>,
    /// Configs that hold for all repositories of the user, whether they exist or not.
    pub configs: Vec<PathBuf>,
}

/// The repository of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repository {
    /// None, or one whose directory lies in the workspace.
    Inside,
    /// The workspace is a worktree of a repository elsewhere, whose directory points back to it.
    Elsewhere(PathBuf),
}

impl Repository {
    /// Finds the repository of a workspace. A `.git` file that points to a directory which does not point back, as in a
    /// forged worktree, counts as none.
    pub fn of(workspace: &Path) -> Self {
        Self::elsewhere(workspace).map_or(Self::Inside, Self::Elsewhere)
    }

    fn elsewhere(workspace: &Path) -> Option<PathBuf> {
        let pointer = workspace.join(".git");
        let directory = pointed(&pointer)?;
        let back = PathBuf::from(first_line(&directory.join("gitdir"))?).canonicalize().ok()?;
        let common = common(&directory)?;
        let is_worktree = back == pointer.canonicalize().ok()?
            && directory.parent() == Some(common.join("worktrees").as_path())
            && ["objects", "refs"].iter().all(|part| common.join(part).is_dir())
            && common.join("HEAD").is_file();
        is_worktree.then_some(common)
    }
}

/// Returns the repository that a `.git` file names.
pub(crate) fn pointed(pointer: &Path) -> Option<PathBuf> {
    pointer.parent()?.join(first_line(pointer)?.strip_prefix("gitdir: ")?).canonicalize().ok()
}

/// Returns the directory with what a worktree shares with its repository.
fn common(git: &Path) -> Option<PathBuf> {
    git.join(first_line(&git.join("commondir"))?).canonicalize().ok()
}

/// Returns whether a directory is a repository without a working tree.
pub(crate) fn is_bare(directory: &Path) -> bool {
    // A program can rename `HEAD`, after which the config, which it cannot change, still tells.
    (directory.join("HEAD").is_file() && directory.join("objects").is_dir())
        || entries(&directory.join("config")).iter().any(|(key, _)| key == "core.repositoryformatversion")
}

/// Returns the paths in a repository, and in those of its submodules and worktrees, that decide what git runs. `users` are
/// the settings that hold for all repositories.
pub(crate) fn protected(git: &Path, tree: &Path, users: &Settings<'_>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = own(git).collect();
    found.extend(named(git, tree, users));
    let (submodules, is_complete) = submodules(git);
    for submodule in &submodules {
        found.extend(own(submodule));
        let mut trees = entries(&submodule.join("config")).into_iter().filter(|(key, _)| key == "core.worktree");
        let tree = trees.next_back().and_then(|(_, tree)| submodule.join(tree).canonicalize().ok());
        if let Some(tree) = tree {
            found.extend(named(submodule, &tree, users));
            found.push(tree.join(".git"));
        }
    }
    found.extend(Some(git.join("modules")).filter(|_| !is_complete));
    let worktrees = fs::read_dir(git.join("worktrees")).into_iter().flatten().flatten();
    for (at, entry) in worktrees.enumerate() {
        if at == MAX_NESTED {
            found.push(git.join("worktrees"));
            break;
        }
        found.extend(own(&entry.path()));
        found.push(entry.path().join("gitdir"));
    }
    found
}

/// Returns the paths in the directory of a repository that decide what git runs.
fn own(git: &Path) -> impl Iterator<Item = PathBuf> {
    // Where the directory around a file is missing, a link in its place would lead elsewhere.
    let info = Some(git.join("info")).filter(|info| fs::symlink_metadata(info).is_err());
    info.into_iter().chain(IN_REPOSITORY.iter().map(|name| git.join(name)))
}

/// Returns the repositories of submodules, which lie as deep as the paths of these, and whether these are all.
pub(crate) fn submodules(git: &Path) -> (Vec<PathBuf>, bool) {
    let (mut found, mut left, mut seen) = (Vec::new(), vec![git.join("modules")], 0);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            // A repository may be a directory of others, whatever files a program puts there.
            let is_content = CONTENT.iter().any(|name| entry.file_name() == *name);
            if is_content || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            seen += 1;
            if seen > MAX_NESTED {
                return (found, false);
            }
            let is_whole = entry.path().join("HEAD").is_file() || entry.path().join("config").is_file();
            found.extend(Some(entry.path()).filter(|_| is_whole));
            left.push(entry.path());
        }
    }
    (found, true)
}

/// Settings of one or more configs, with those that they include.
#[derive(Debug)]
pub(crate) struct Settings<'a> {
    home: Option<&'a Path>,
    /// Section and name in small letters, with a dot between them, and the value.
    entries: Vec<(String, String)>,
    /// Files that are included, whether they exist or not.
    included: Vec<PathBuf>,
    is_complete: bool,
}

impl<'a> Settings<'a> {
    pub(crate) fn of_user(user: &'a GitUser) -> Self {
        Self::of(user.configs.clone(), user.home.as_deref())
    }

    fn of(mut left: Vec<PathBuf>, home: Option<&'a Path>) -> Self {
        let mut settings = Self { home, entries: Vec::new(), included: Vec::new(), is_complete: true };
        let mut seen = 0;
        while let Some(config) = left.pop() {
            seen += 1;
            let is_long = fs::metadata(&config).is_ok_and(|found| found.len() > MAX_GIT_BYTES);
            if is_long || seen > MAX_CONFIGS || settings.entries.len() > MAX_SETTINGS {
                settings.is_complete = false;
                break;
            }
            let entries = entries(&config);
            // Conditions of includes are not looked at.
            let is_include = |key: &str| key == "include.path" || key == "includeif.path";
            let is_path = |path: &str| !path.is_empty() && path.len() <= MAX_VALUE;
            for (_, path) in entries.iter().filter(|(key, path)| is_include(key) && is_path(path)) {
                let file = settings.path(path, &config.with_file_name(""));
                if settings.included.len() > MAX_CONFIGS {
                    settings.is_complete = false;
                    break;
                }
                if !settings.included.contains(&file) {
                    left.push(file.clone());
                    settings.included.push(file);
                }
            }
            // A value that is empty names nothing, and none that is so long is a path.
            let is_usable = |(_, value): &(String, String)| !value.is_empty() && value.len() <= MAX_VALUE;
            settings.entries.extend(entries.into_iter().filter(is_usable));
        }
        settings
    }

    /// Returns the path that a setting names.
    fn path(&self, text: &str, relative_to: &Path) -> PathBuf {
        match (text.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => normal(&home.join(rest)),
            _ => normal(&relative_to.join(text)),
        }
    }
}

/// Returns what the settings of a repository make git read or run: included files, directories of hooks, files to which
/// hooks are links, and existing files among the words of other settings, as `scripts/clean.sh` for a filter. What lies
/// behind links is among them, and the links.
pub(crate) fn named(git: &Path, tree: &Path, users: &Settings<'_>) -> Vec<PathBuf> {
    let shared = common(git).unwrap_or_else(|| git.to_owned());
    let mut configs: Vec<PathBuf> =
        ["config", "config.worktree"].iter().flat_map(|name| [shared.join(name), git.join(name)]).collect();
    configs.sort();
    configs.dedup();
    let settings = Settings::of(configs, users.home);
    let mut found = Vec::new();
    let mut hooks = vec![shared.join("hooks")];
    let (mut left, mut is_complete) = (MAX_WORDS, settings.is_complete);
    for (key, value) in users.entries.iter().chain(&settings.entries) {
        // Git starts programs, and looks for hooks, in the working tree.
        match key.as_str() {
            "core.hookspath" => hooks.push(settings.path(value, tree)),
            // Hooks are copied from there into new repositories.
            "init.templatedir" => found.push(settings.path(value, tree)),
            _ => {
                for word in words(value).take(left) {
                    left -= 1;
                    found.extend(Some(settings.path(word, tree)).filter(|path| path.is_file()));
                }
            }
        }
    }
    is_complete &= left > 0 && hooks.len() <= MAX_HOOK_DIRECTORIES + 1;
    hooks.truncate(MAX_HOOK_DIRECTORIES + 1);
    let linked = |directory: &PathBuf| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(MAX_HOOKS);
        entries.map(|entry| entry.path()).filter(|path| path.is_symlink()).collect::<Vec<_>>()
    };
    found.extend(hooks.iter().flat_map(linked));
    found.extend(hooks.into_iter().skip(1));
    found.extend(users.included.iter().chain(&settings.included).cloned());
    // In a repository with more of them, nothing can be written.
    found.extend(Some(git.to_owned()).filter(|_| !is_complete));
    found.iter().flat_map(|path| with_links(path)).collect()
}

/// Returns the words of a command that have a directory.
fn words(command: &str) -> impl Iterator<Item = &str> {
    let words = command.split(|character: char| character.is_whitespace() || "!;&|<>(){}$`\"'=".contains(character));
    // Branches are named by many settings.
    words.filter(|word| word.contains('/') && !word.starts_with("refs/") && !word.starts_with("+refs/"))
}

/// Returns a path with the links on it, and with what it is without them.
fn with_links(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    found.extend(path.canonicalize());
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let mut parts: Vec<&Path> = path.ancestors().collect();
        parts.reverse();
        let Some(link) = parts.into_iter().find(|part| part.is_symlink()) else { break };
        let (Ok(target), Ok(rest)) = (fs::read_link(link), path.strip_prefix(link)) else { break };
        let next = normal(&link.with_file_name("").join(target).join(rest));
        found.extend([link.to_owned(), next.clone()]);
        path = next;
    }
    found
}

/// Returns the settings in a config, with section and name in small letters and without the name of a subsection.
///
/// The grammar is that of `git help config`: values may be quoted, have escapes, and continue after a backslash.
fn entries(config: &Path) -> Vec<(String, String)> {
    // The user's may be a link, as to a directory of dotfiles.
    let text = config.canonicalize().ok().and_then(|config| read(&config)).unwrap_or_default();
    let (mut found, mut section) = (Vec::new(), String::new());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '[' => {
                // A subsection is quoted, and may contain brackets.
                let (mut is_quoted, mut header) = (false, String::new());
                while let Some(next) = characters.next_if(|next| *next != '\n') {
                    match next {
                        ']' if !is_quoted => break,
                        '\\' => drop(characters.next()),
                        '"' => is_quoted = !is_quoted,
                        _ => header.push(next),
                    }
                }
                let name = header.split(|next: char| next.is_whitespace() || next == '.').next();
                section = name.unwrap_or_default().to_ascii_lowercase();
            }
            '#' | ';' => while characters.next_if(|next| *next != '\n').is_some() {},
            _ if character.is_whitespace() => {}
            _ => {
                let mut name = String::from(character);
                while let Some(next) = characters.next_if(|next| *next != '\n' && *next != '=') {
                    name.push(next);
                }
                let has_value = characters.next_if_eq(&'=').is_some();
                let value = if has_value { value(&mut characters) } else { String::new() };
                found.push((format!("{section}.{}", name.trim().to_ascii_lowercase()), value));
            }
        }
    }
    found
}

/// Reads a value up to the end of its line.
fn value(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let (mut value, mut is_quoted, mut is_comment) = (String::new(), false, false);
    while let Some(next) = characters.next() {
        match next {
            '\n' => break,
            _ if is_comment => {}
            '\\' => match characters.next() {
                Some('\n') | None => {}
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some(other) => value.push(other),
            },
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => is_comment = true,
            other => value.push(other),
        }
    }
    value.trim().to_owned()
}

/// Resolves `.` and `..` in the text of a path.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

fn first_line(path: &Path) -> Option<String> {
    Some(read(path)?.lines().next()?.trim_end().to_owned()).filter(|line| !line.is_empty())
}

/// Returns whether [`read`] reads the whole of a file.
pub(crate) fn is_whole(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.len() <= MAX_GIT_BYTES)
}

/// Reads the beginning of a regular file that is no link.
pub(crate) fn read(path: &Path) -> Option<String> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut options = OpenOptions::new();
    options.read(true);
    // A program may put a pipe in its place, which blocks who opens it.
    #[cfg(target_os = "linux")]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOFOLLOW);
    let mut bytes = Vec::new();
    options.open(path).ok()?.take(MAX_GIT_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(unix)]
#[cfg(test)]
#[path = "git_tests.rs"]
mod tests;
