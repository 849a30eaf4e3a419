//! The settings of a repository and of its user, and the files that they name.

use crate::command::{CommandContext, files_of_command};
use crate::config::{ConfigEntry, parse};
use crate::harmless_settings::holds_no_command;
use crate::layout::common;
use crate::look_budget::{Exhausted, LookBudget};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a value that is looked at.
const MAX_VALUE: usize = 4_096;
/// Hooks of a directory that are looked at.
const MAX_HOOKS: usize = 100;
/// Settings that hold a command: sections, with the names in them; no names stand for all. Of others that may hold a
/// command, only the files that exist count.
const COMMANDS: &[(&str, &[&str])] = &[
    ("alias", &[]),
    ("browser", &["cmd", "path"]),
    ("core", &["alternaterefscommand", "askpass", "editor", "fsmonitor", "gitproxy", "pager", "sshcommand"]),
    ("credential", &["helper"]),
    ("diff", &["command", "external", "textconv"]),
    ("difftool", &["cmd", "path"]),
    ("filter", &["clean", "process", "smudge"]),
    ("gpg", &["defaultkeycommand", "program"]),
    ("guitool", &["cmd"]),
    ("hook", &["command"]),
    ("interactive", &["difffilter"]),
    ("lfs", &["clean", "path", "smudge"]),
    ("man", &["cmd", "path"]),
    ("merge", &["driver"]),
    ("mergetool", &["cmd", "path"]),
    ("pager", &[]),
    ("remote", &["receivepack", "uploadpack"]),
    ("sendemail", &["cccmd", "headercmd", "sendmailcmd", "smtpserver", "tocmd"]),
    ("sequence", &["editor"]),
    ("submodule", &["update"]),
    ("tar", &["command"]),
    ("trailer", &["cmd", "command"]),
    ("uploadpack", &["packobjectshook"]),
];

/// Files with the settings of git's user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitUser {
    /// The directory that `~` stands for.
    pub home: Option<PathBuf>,
    /// Configs that hold for all repositories of the user, whether they exist or not.
    pub configs: Vec<PathBuf>,
    /// A config with the settings of the environment (`GIT_CONFIG_COUNT`).
    pub environment: Vec<u8>,
}

/// The settings of one or more configs, with those that they include. Conditions of includes are not looked at.
#[derive(Debug, Clone, Default)]
pub struct GitSettings {
    entries: Vec<ConfigEntry>,
    /// Files that are included, whether they exist or not.
    included: BTreeSet<PathBuf>,
}

/// A path that settings name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// A directory of hooks.
    Hooks(PathBuf),
    /// Anything else.
    Other(PathBuf),
}

impl GitSettings {
    /// Reads the settings that hold for all repositories of a user.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub fn of_user(user: &GitUser, look: &mut LookBudget) -> Result<Self, Exhausted> {
        let mut settings = Self::default();
        let included = settings.add(parse(&user.environment), None, user, look)?;
        settings.read(user.configs.iter().cloned().chain(included).collect(), user, look)?;
        Ok(settings)
    }

    /// Reads the settings of a repository, with those that it shares with others.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub fn of_repository(git: &Path, user: &GitUser, look: &mut LookBudget) -> Result<Self, Exhausted> {
        let shared = common(git).unwrap_or_else(|| git.to_owned());
        let configs = ["config", "config.worktree"].iter().flat_map(|name| [shared.join(name), git.join(name)]);
        let configs: BTreeSet<PathBuf> = configs.collect();
        let mut settings = Self::default();
        settings.read(configs.into_iter().collect(), user, look)?;
        Ok(settings)
    }

    fn read(&mut self, mut left: Vec<PathBuf>, user: &GitUser, look: &mut LookBudget) -> Result<(), Exhausted> {
        while let Some(config) = left.pop() {
            match look.read(&config)? {
                Some(text) => left.extend(self.add(parse(&text), config.parent(), user, look)?),
                // Git reads also those that are too long for this.
                None if config.is_file() => return Err(Exhausted),
                None => {}
            }
        }
        Ok(())
    }

    /// Adds settings, and returns the configs that they include for the first time.
    fn add(
        &mut self,
        entries: Vec<ConfigEntry>,
        directory: Option<&Path>,
        user: &GitUser,
        look: &mut LookBudget,
    ) -> Result<Vec<PathBuf>, Exhausted> {
        let mut included = Vec::new();
        // An empty value names nothing, and a value that is so long is not a path.
        let is_usable = |entry: &ConfigEntry| (1..=MAX_VALUE).contains(&entry.text().len());
        for entry in entries.into_iter().filter(is_usable) {
            if entry.is("include", "path") || entry.is("includeif", "path") {
                look.spend(1)?;
                let file = path(entry.text(), directory.unwrap_or(Path::new("/")), user.home.as_deref());
                if self.included.insert(file.clone()) {
                    included.push(file);
                }
            } else {
                self.entries.push(entry);
            }
        }
        Ok(included)
    }

    /// Returns the files and directories in a working tree of the repository `git`, and elsewhere, that decide which
    /// programs git runs because of these settings: included configs, directories of hooks, targets of hooks that are
    /// links, and files among the words of commands. Links on the way are among them. They need not exist.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub fn named(
        &self,
        git: &Path,
        tree: &Path,
        user: &GitUser,
        look: &mut LookBudget,
    ) -> Result<BTreeSet<Named>, Exhausted> {
        let mut named = BTreeSet::new();
        for file in &self.included {
            named.extend(look.resolve(file)?.into_iter().map(Named::Other));
        }
        let shared = common(git).unwrap_or_else(|| git.to_owned());
        let mut hooks = BTreeSet::from([shared.join("hooks")]);
        let place = CommandContext { tree, git, home: user.home.as_deref() };
        for entry in &self.entries {
            // Git starts programs, and looks for hooks, in the working tree.
            if entry.is("core", "hookspath") {
                hooks.insert(path(entry.text(), tree, user.home.as_deref()));
            } else if entry.is("init", "templatedir") {
                // Hooks are copied from there into new repositories.
                let directory = path(entry.text(), tree, user.home.as_deref());
                named.extend(look.resolve(&directory)?.into_iter().map(Named::Other));
            } else if !holds_no_command(entry) {
                for file in files_of_command(entry.text(), place, is_command(entry), look)? {
                    named.extend(look.resolve(&file)?.into_iter().map(Named::Other));
                }
            }
        }
        for directory in hooks {
            let mut way = look.resolve(&directory)?;
            let real = way.pop().unwrap_or(directory);
            named.extend(way.into_iter().map(Named::Other));
            look.spend(1)?;
            for entry in fs::read_dir(&real).into_iter().flatten().flatten().take(MAX_HOOKS) {
                look.spend(1)?;
                if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                    named.extend(look.resolve(&entry.path())?.into_iter().map(Named::Other));
                }
            }
            named.insert(Named::Hooks(real));
        }
        Ok(named)
    }
}

/// Returns whether a setting is known to hold a command. An alias is one if it begins with `!`.
fn is_command(entry: &ConfigEntry) -> bool {
    let is_known = COMMANDS.iter().any(|(section, names)| {
        entry.section == *section && (names.is_empty() || names.contains(&entry.name.as_str()))
    });
    is_known && (entry.section != "alias" || entry.text().starts_with(b"!"))
}

/// Returns the path that a setting names.
fn path(text: &[u8], relative_to: &Path, home: Option<&Path>) -> PathBuf {
    let text = crate::command::as_path(text);
    match (text.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => relative_to.join(text),
    }
}

#[cfg(test)]
#[cfg(unix)]
#[path = "settings_tests.rs"]
mod tests;
