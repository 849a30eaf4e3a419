//! The sandbox of the programs that plugins start.
//!
//! A policy is made for every program, because protected paths come and go. What the machine offers is checked once, before
//! the first program; a machine without a sandbox runs no program unless the user says so.

use crate::args::SandboxMode;
use crate::base::Base;
use crate::files::paths;
use crate::files::spill::TEMPORARY;
use crate::plugins::runtime::own_command;
use pinion_plugin_runtime::{ConfinedProgram, Confinement, PlainProgram};
use pinion_sandbox::{
    Enforcement, Launcher, Layers, Limits, Policy, Program, Protection, Repository, SandboxError, Support, hint,
    protected_in, secret_paths,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// First argument with which this program confines itself and then runs a program.
pub(crate) const RUN_IN_SANDBOX: &str = "run-in-sandbox-for-parent";

/// Programs in sandboxes, with the settings of the config.
pub(crate) struct SandboxedPrograms {
    launcher: Launcher,
    /// The parts of policies that stay the same.
    policy: Policy,
    workspace: PathBuf,
    /// Directory for what programs create at protected paths. It is never emptied, because it may have been the user.
    removed: PathBuf,
    checked: OnceLock<Result<Support, String>>,
}

impl Base {
    /// Returns the confinement of programs; none if the user turned it off.
    pub(crate) fn confinement(&self) -> Option<Arc<dyn Confinement>> {
        let programs = self.sandbox()?;
        Some(Arc::new(programs))
    }

    /// Returns the sandbox of the config; none if it is off.
    pub(crate) fn sandbox(&self) -> Option<SandboxedPrograms> {
        let settings = &self.config.sandbox;
        let enforcement = match settings.mode {
            SandboxMode::Require => Enforcement::Require,
            SandboxMode::BestEffort => Enforcement::BestEffort,
            SandboxMode::Off => return None,
        };
        let usual = Limits::default();
        let host = self.host_directories();
        let hidden =
            secret_paths(paths::home().as_deref()).into_iter().chain(host.private).chain(settings.hidden.clone());
        let policy = Policy {
            writable: settings.writable.iter().filter_map(|path| path.canonicalize().ok()).collect(),
            read_only: Vec::new(),
            hidden: without_links(hidden),
            visible: without_links(settings.readable.iter().cloned()),
            temporary: None,
            network: settings.network,
            limits: Limits { processes: settings.max_processes.unwrap_or(usual.processes), ..usual },
            enforcement,
        };
        // Without the path of this program, every program is refused.
        let (helper, arguments) = own_command(RUN_IN_SANDBOX).unwrap_or_default();
        let launcher = Launcher::new(helper, arguments);
        Some(SandboxedPrograms {
            launcher,
            policy,
            workspace: self.workspace.clone(),
            removed: self.paths.removed(),
            checked: OnceLock::new(),
        })
    }
}

/// Returns the paths that exist, without links in them.
fn without_links(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    paths.filter_map(|path| path.canonicalize().ok()).collect()
}

impl SandboxedPrograms {
    /// Returns the policy for a program. `scratch` is the private directory of the session.
    pub(crate) fn policy(&self, scratch: &Path) -> Policy {
        let mut policy = self.policy.clone();
        policy.writable.push(self.workspace.clone());
        let protected: Vec<PathBuf> = policy.writable.iter().flat_map(|path| protected_in(path)).collect();
        policy.read_only = protected;
        if let Repository::Elsewhere(repository) = Repository::of(&self.workspace) {
            policy.read_only.extend(protected_in(&repository));
            policy.writable.push(repository);
        }
        let temporary = scratch.join(TEMPORARY);
        policy.temporary = private_directory(&temporary).and_then(|()| temporary.canonicalize()).ok();
        policy.visible.extend(scratch.canonicalize());
        policy
    }

    /// Checks the layers of this machine, once.
    ///
    /// # Errors
    /// A layer that the mode requires is missing.
    pub(crate) fn support(&self, policy: &Policy) -> Result<&Support, String> {
        let checked = self.checked.get_or_init(|| self.launcher.support(policy).map_err(|error| error.to_string()));
        checked.as_ref().map_err(Clone::clone)
    }

    /// Returns the command of a program in the sandbox.
    ///
    /// # Errors
    /// There is no sandbox.
    pub(crate) fn command(&self, program: Program<'_>, policy: &Policy) -> Result<std::process::Command, String> {
        let support = self.support(policy)?;
        let layers = Layers { namespaces: support.namespaces.is_ok(), landlock: support.landlock.is_some() };
        let command = self.launcher.clone().with_layers(layers).command(program, policy);
        command.map_err(|error: SandboxError| error.to_string())
    }
}

impl Confinement for SandboxedPrograms {
    fn confine(&self, program: &PlainProgram<'_>) -> Result<ConfinedProgram, String> {
        let policy = self.policy(program.scratch);
        let PlainProgram { program, arguments, directory, environment, .. } = *program;
        let command = self.command(Program { program, arguments, directory, environment }, &policy)?;
        let protection = Protection::before(&policy);
        let removed_to = self.removed.clone();
        let ended = move |succeeded: bool, stderr: &str| {
            let mut lines: Vec<String> = protection.revert(&removed_to).iter().map(removed).collect();
            if !succeeded {
                lines.extend(hint(stderr, &policy).map(|(_, text)| format!("hint: {text}")));
            }
            lines
        };
        Ok(ConfinedProgram { command, ended: Box::new(ended) })
    }
}

/// Reports a protected path that a program created.
fn removed((path, moved): &(PathBuf, Option<PathBuf>)) -> String {
    let path = path.display();
    match moved {
        Some(to) => {
            format!("sandbox: `{path}` is protected, and what the program created there is now `{}`", to.display())
        }
        None => format!("sandbox: `{path}` is protected, and what the program created there was removed"),
    }
}

#[cfg(unix)]
fn private_directory(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn private_directory(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path)
}
