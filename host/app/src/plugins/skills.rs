//! The directories of skills and of prompts, for the built-in plugin `skills`.
//!
//! A skill is a directory with a `SKILL.md` (<https://agentskills.io/specification>). They are found in these directories and
//! below them; of two with one name, the first counts:
//!
//! 1. the user's own: `skills` in the config directory, and `.agents/skills` and `.claude/skills` in the home directory;
//!    then the skills of installed packages
//! 2. the repository's: `.pinion/skills` of a trusted project, and `.agents/skills` and `.claude/skills` in the workspace and in
//!    the directories above it, up to the root of the repository
//!
//! Prompts that the user wrote down are `NAME.md` in `prompts` of the config directory and, in a trusted project, in
//! `.pinion/prompts`.
//!
//! So a repository cannot take the place of a skill of the user. Its skills are untrusted text, as are its context files. This
//! module only finds directories; the plugin reads them, within its grants. In a repository, a link is followed if it stays
//! inside; the plugin reports one that leads out.

use crate::files::paths;
use crate::files::repository::Repository;
use crate::workspace_base::Base;
use pinion_packages::LockedRelease;
use pinion_plugin_runtime::FileAccess;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// File that makes a directory a skill.
const SKILL_MD: &str = "SKILL.md";
/// Directories of skills that all agents share, and of one agent that many people use.
const SHARED: [&str; 2] = [".agents/skills", ".claude/skills"];
/// Directory of skills of a project for this program.
const PROJECTS: &str = ".pinion/skills";

/// Directory of prompts of a project.
const PROJECTS_PROMPTS: &str = ".pinion/prompts";

/// Maximum prompts; others are not found.
const MAX_PROMPTS: usize = 256;
/// Maximum skills; others are not found.
const MAX_SKILLS: usize = 256;
/// Maximum directories above the workspace.
const MAX_ABOVE: usize = 16;
/// Maximum directories between one of skills and a skill.
const MAX_DEPTH: usize = 3;
/// Maximum entries of all directories of skills together. Each may be a directory to watch, and the system can watch
/// only few.
const MAX_ENTRIES: usize = 2_000;

/// The skills and prompts that there are.
#[derive(Debug, Default)]
pub struct Skills {
    found: Vec<Skill>,
    prompts: Vec<PathBuf>,
    /// Everything whose change may change the skills or prompts.
    watched: Vec<PathBuf>,
    grants: BTreeMap<PathBuf, FileAccess>,
    entries: usize,
}

#[derive(Debug)]
struct Skill {
    directory: PathBuf,
    is_users: bool,
    /// Distinguishes the states of its `SKILL.md`.
    stamp: String,
    /// The reason why it is not used; usually `None`.
    problem: Option<&'static str>,
}

/// The problem of a link of a repository.
const LEADS_OUT: &str = "it is a link that leads out of the repository, or to nothing";

impl Base {
    /// Returns the directories of the user's skills and prompts, which the plugin may read although they are the host's.
    pub fn readable_for_skills(&self) -> Vec<PathBuf> {
        self.users_skills().into_iter().chain(self.users_prompts()).collect()
    }

    /// Returns the directories of the user's skills.
    fn users_skills(&self) -> Vec<PathBuf> {
        let shared = paths::home().into_iter().flat_map(|home| SHARED.map(|name| home.join(name)));
        let packages =
            self.package_directories(|release| release.skills.then(|| "skills".to_owned()).into_iter().collect());
        std::iter::once(self.paths.config.join("skills")).chain(shared).chain(packages).collect()
    }

    /// Returns whether there is a directory of skills or of prompts.
    pub fn has_skills(&self) -> bool {
        self.skill_directories().iter().any(|(directory, _)| directory.is_dir())
            || self.prompt_directories().iter().any(|directory| directory.is_dir())
    }

    /// Finds the skills and prompts.
    pub fn skills(&self) -> Skills {
        let mut skills = Skills::default();
        let root = Repository::around(&self.workspace, paths::home().as_deref()).ok();
        let root = root.and_then(|repository| repository.root().canonicalize().ok());
        for (directory, is_users) in self.skill_directories() {
            if skills.is_full() {
                break;
            }
            let Ok(real) = directory.canonicalize() else { continue };
            if is_users {
                skills.grants.insert(real.clone(), FileAccess::Read);
                skills.add_all(&real, None, MAX_DEPTH);
            } else if let Some(root) = root.as_ref().filter(|root| real.starts_with(root)) {
                // The root, beneath which the runtime finds everything that the plugin opens.
                skills.grants.insert(root.clone(), FileAccess::Read);
                skills.add_all(&real, Some(root), MAX_DEPTH);
            } else {
                skills.add_problem(directory);
            }
        }
        // A directory of a project is used as it is only if no link leads there.
        for directory in self.prompt_directories() {
            match directory.canonicalize() {
                Ok(real) if real == directory || !directory.starts_with(&self.workspace) => skills.add_prompts(&real),
                _ => {}
            }
        }
        skills
    }

    /// Returns the directories that may contain prompts.
    fn prompt_directories(&self) -> Vec<PathBuf> {
        let mut directories = self.users_prompts();
        if self.config.project.is_trusted() {
            directories.push(self.workspace.join(PROJECTS_PROMPTS));
        }
        directories
    }

    /// Returns the directories of the user's own prompts and of installed packages.
    fn users_prompts(&self) -> Vec<PathBuf> {
        let packages = self.package_directories(|release| release.prompts.clone());
        std::iter::once(self.paths.config.join("prompts")).chain(packages).collect()
    }

    /// Returns directories of packages that are active here: the project's versions in place of the user's.
    fn package_directories(&self, named: impl Fn(&LockedRelease) -> Vec<String>) -> Vec<PathBuf> {
        let (installed, projects) = (self.installed_packages(), self.project_releases());
        let is_replaced = |release: &LockedRelease| projects.iter().any(|new| new.replaces == release.digest);
        let active = installed.iter().flat_map(|installed| &installed.content);
        let active = active.filter(|(release, _)| !is_replaced(release)).map(|(release, root)| (release, root));
        let all = active.chain(projects.iter().map(|new| (&new.release, &new.directory)));
        all.flat_map(|(release, root)| named(release).into_iter().map(move |name| root.join(name))).collect()
    }

    /// Returns the directories that may contain skills, and whether they are the user's own.
    fn skill_directories(&self) -> Vec<(PathBuf, bool)> {
        let home = paths::home();
        let mut directories: Vec<_> = self.users_skills().into_iter().map(|directory| (directory, true)).collect();
        if self.config.project.is_trusted() {
            directories.push((self.workspace.join(PROJECTS), false));
        }
        let repository = Repository::around(&self.workspace, home.as_deref());
        let root = repository.map_or_else(|_| self.workspace.clone(), |repository| repository.root().to_owned());
        let above = self.workspace.ancestors().take_while(|directory| directory.starts_with(&root)).take(MAX_ABOVE);
        directories.extend(above.flat_map(|directory| SHARED.map(|name| (directory.join(name), false))));
        // The workspace may be the home directory.
        let mut seen = HashSet::new();
        directories.retain(|(directory, _)| seen.insert(directory.clone()));
        directories
    }
}

impl Skills {
    /// Adds the skills in a directory, and in the directories below it. A repository's skills lie beneath its `root`;
    /// the user's own skills have no root.
    fn add_all(&mut self, directory: &Path, root: Option<&Path>, depth: usize) {
        self.watched.push(directory.to_owned());
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut entries: Vec<_> = entries.take(MAX_ENTRIES + 1).collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        let is_inside = |real: &Path| root.is_none_or(|root| real.starts_with(root));
        for entry in entries {
            self.entries += 1;
            if self.is_full() {
                tracing::warn!(directory = %directory.display(), "there are more skills than can be used");
                return;
            }
            let path = entry.path();
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let real = match path.canonicalize() {
                Ok(real) if is_inside(&real) => real,
                Ok(real) if !real.is_dir() => continue,
                _ if is_link && root.is_some() => {
                    self.add_problem(path);
                    continue;
                }
                _ => continue,
            };
            if !real.is_dir() {
                continue;
            }
            let file = real.join(SKILL_MD);
            match file.metadata() {
                Ok(_) if !file.canonicalize().is_ok_and(|file| is_inside(&file)) => self.add_problem(path),
                Ok(metadata) if metadata.is_file() => self.add(real, root.is_none(), is_link, &metadata),
                _ if depth > 0 && !is_link => self.add_all(&path, root, depth - 1),
                // Each directory that a link of the user leads to needs a separate grant.
                _ if depth > 0 && root.is_some() => self.add_all(&real, root, depth - 1),
                _ => {}
            }
        }
    }

    /// Returns whether no more skills are looked for.
    fn is_full(&self) -> bool {
        self.entries > MAX_ENTRIES || self.found.len() >= MAX_SKILLS
    }

    /// Adds a link of a repository that is not used, for a notice.
    fn add_problem(&mut self, directory: PathBuf) {
        self.found.push(Skill { directory, is_users: false, stamp: String::new(), problem: Some(LEADS_OUT) });
    }

    fn add(&mut self, directory: PathBuf, is_users: bool, is_link: bool, metadata: &Metadata) {
        let stamp = stamp(metadata);
        if is_link && is_users {
            self.grants.insert(directory.clone(), FileAccess::Read);
        }
        self.watched.extend([directory.clone(), directory.join(SKILL_MD)]);
        self.found.push(Skill { directory, is_users, stamp, problem: None });
    }

    /// Adds the files in a directory of prompts.
    fn add_prompts(&mut self, directory: &Path) {
        self.grants.insert(directory.to_owned(), FileAccess::Read);
        self.watched.push(directory.to_owned());
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let is_prompt = |path: &PathBuf| path.extension().is_some_and(|end| end == "md") && path.is_file();
        let mut files: Vec<PathBuf> = entries.take(MAX_PROMPTS).map(|entry| entry.path()).filter(is_prompt).collect();
        files.sort_unstable();
        self.watched.extend(files.iter().cloned());
        self.prompts.extend(files);
    }

    /// Returns the settings of the plugin.
    pub fn config(&self) -> Value {
        let skill = |skill: &Skill| {
            let directory = skill.directory.to_string_lossy();
            json!({
                "directory": directory, "users": skill.is_users, "stamp": skill.stamp, "problem": skill.problem,
            })
        };
        let prompt = |file: &PathBuf| {
            let stamp = file.metadata().map(|about| stamp(&about)).ok();
            json!({ "file": file.to_string_lossy(), "stamp": stamp })
        };
        let skills: Vec<Value> = self.found.iter().map(skill).collect();
        json!({ "skills": skills, "prompts": self.prompts.iter().map(prompt).collect::<Vec<_>>() })
    }

    /// Returns the directories that the plugin may read.
    pub fn grants(&self) -> &BTreeMap<PathBuf, FileAccess> {
        &self.grants
    }

    /// Returns the files and directories whose change may change the skills.
    pub fn watched(self) -> Vec<PathBuf> {
        self.watched
    }
}

/// Distinguishes the states of a file.
fn stamp(metadata: &Metadata) -> String {
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    format!("{}-{}", modified.as_nanos(), metadata.len())
}
