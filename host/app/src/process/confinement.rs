//! The sandbox of the programs that plugins start.
//!
//! A policy is made for every program, because protected paths come and go. The abilities of the machine are checked
//! once, before the first program; a machine without a sandbox runs no program unless the user says so.

use crate::approve::audit::Audit;
use crate::config::denied::Denied;
use crate::config::sandbox::SandboxSettings;
use crate::files::output_directories::TEMPORARY;
use crate::files::paths;
use crate::files::private::create_directory;
use crate::mcp::lazy_servers::LazyServers;
use crate::options::SandboxMode;
use crate::process::network::{ProgramNetwork, ProgramProxy, with_proxy};
use crate::process::repositories::{Looks, OtherRepositories, nested_settings, repositories};
use crate::process::running_programs::RunningProgram;
use crate::process::sandbox_parts::{helper, limits, without_links};
use crate::workspace_base::Base;
use pinion_exclusions::{ExcludedPaths, ExcludedPlace, Finder};
use pinion_plugin_runtime::{ConfinedProgram, Confinement, PlainProgram, is_host_part};
use pinion_sandbox::{
    Denial, Enforcement, Launcher, Layers, Network, Program, Protected, ProtectedPlaces, Repository, ResourceLimits,
    SandboxError, SandboxPolicy, Support, hides_failure, hint, no_network, quiet_host, secret_paths, tracing_hint,
    unreachable_host,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Excluded files that are kept from programs (each is a mount), and bytes of their paths with the paths around them.
const MAX_EXCLUDED: usize = 1000;
const MAX_EXCLUDED_BYTES: usize = 200_000;
/// Excluded files of a directory that may have more of them where there are too many.
const FEW_EXCLUDED: usize = 50;
/// Texts of programs that were refused a file, in lower case.
const REFUSALS: &[&str] = &[
    "permission denied",
    "eacces",
    "operation not permitted",
    "eperm",
    "device or resource busy",
    "ebusy",
    "cross-device",
    "exdev",
    "can only add regular files",
];

/// Programs in sandboxes, with the settings of the config.
pub struct SandboxedPrograms {
    launcher: Launcher,
    settings: SandboxSettings,
    enforcement: Enforcement,
    /// The limits on each program, which do not change.
    limits: OnceLock<ResourceLimits>,
    workspace: PathBuf,
    /// The host's directories.
    own: Vec<PathBuf>,
    /// The directory that the workspace is a copy of.
    original: Option<PathBuf>,
    /// Files that programs neither read nor change, and repositories of the workspace.
    exclusions: Arc<Finder>,
    /// Repositories of other writable directories.
    others: Arc<OtherRepositories>,
    /// Files that rules deny.
    denied: Denied,
    /// MCP servers; programs cannot change the servers' programs.
    servers: Arc<LazyServers>,
    /// Directory for files that programs create at protected paths. It is never emptied, because it may have been the
    /// user.
    removed: PathBuf,
    network: Arc<ProgramNetwork>,
    audit: Arc<Audit>,
    checked: OnceLock<Result<Support, String>>,
}

/// The policy of a program, and the paths that it was made from.
pub struct Planned {
    /// The policy of the sandbox.
    pub policy: SandboxPolicy,
    /// Protected paths, which are among the read-only ones.
    pub protected: Protected,
    /// Files that are excluded from it.
    pub found: Arc<ExcludedPaths>,
}

impl Base {
    /// Returns the confinement of programs; `None` if the user turned it off.
    pub fn confinement(&self) -> Option<Arc<dyn Confinement>> {
        let programs = self.sandbox()?;
        // The first look takes longest. Each program looks again, and waits for this one if it has to.
        let exclusions = programs.exclusions.clone();
        let _ = std::thread::Builder::new().spawn(move || drop(exclusions.find_excluded()));
        Some(Arc::new(programs))
    }

    /// Returns why allowed hosts cannot be reached on this machine; `None` if they can, or if there is no sandbox.
    pub fn hosts_are_out_of_reach(&self) -> Option<String> {
        let programs = self.sandbox()?;
        programs.hosts_are_out_of_reach(&programs.policy_of_paths(self.output.directory()))
    }

    /// Tells the rules about calls whether programs start in a complete sandbox. It is checked when the first program comes up.
    pub fn tell_permissions(&self) {
        if let Some(programs) = self.sandbox() {
            let (output, confines) = (self.output.clone(), OnceLock::new());
            self.permissions.use_sandbox(move || {
                if !programs.network.is_limited() {
                    return Err("programs have the whole network".to_owned());
                }
                confines.get_or_init(|| programs.confines(output.directory())).clone()
            });
        }
    }

    /// Returns the sandbox of the config; `None` if it is off.
    pub fn sandbox(&self) -> Option<SandboxedPrograms> {
        let settings = self.config.sandbox.clone();
        let enforcement = match settings.mode {
            SandboxMode::Require => Enforcement::Require,
            SandboxMode::BestEffort => Enforcement::BestEffort,
            SandboxMode::Off => return None,
        };
        // Without the path of this program, every program is refused.
        let (helper, arguments) = helper().unwrap_or_default();
        // Later readers see changes; the first one reads.
        self.mcp_config();
        Some(SandboxedPrograms {
            launcher: Launcher::new(helper, arguments),
            settings,
            enforcement,
            limits: OnceLock::new(),
            workspace: self.workspace.clone(),
            own: self.host_directories().private,
            original: self.copied_from.clone(),
            exclusions: self.config.exclusions.clone(),
            others: Arc::default(),
            denied: self.config.denied.clone(),
            servers: self.mcp.clone(),
            removed: self.paths.removed(),
            network: self.network.clone(),
            audit: self.permissions.audit.clone(),
            checked: OnceLock::new(),
        })
    }
}

impl SandboxedPrograms {
    /// Returns the policy for a program that starts now. `scratch` is the private directory of the session.
    ///
    /// # Errors
    /// The workspace cannot be searched for excluded files, or has too many of them.
    pub fn policy(&self, scratch: &Path) -> Result<Planned, String> {
        if let Some(problem) = &self.denied.problem {
            return Err(format!("no program can start: {problem}"));
        }
        let mut policy = self.policy_of_paths(scratch);
        if without_links(self.own.iter().cloned()).iter().any(|own| is_host_part(own, &self.workspace)) {
            return Err(format!(
                "no program can start: the workspace `{}` holds Pinion's own files, which programs cannot see\nhint: start \
                 Pinion in another directory",
                self.workspace.display()
            ));
        }
        let found = self.exclusions.find_excluded().map_err(|error| {
            format!("no sandbox: {error}\nhint: turn exclusions off with `exclude-defaults = false` in the config")
        })?;
        let unwritten = self.denied.unwritten.find_excluded().map_err(|error| format!("no sandbox: {error}"))?;
        let protected = self.protected(&policy, &found, &unwritten);
        self.deny(&mut policy);
        policy.read_only = protected.closed().cloned().collect();
        exclude(&mut policy, &found, &self.workspace)?;
        Ok(Planned { policy, protected, found })
    }

    /// Returns the protected paths in the directories that a policy lets a program write.
    fn protected(&self, policy: &SandboxPolicy, found: &ExcludedPaths, unwritten: &ExcludedPaths) -> Protected {
        let others: Vec<PathBuf> = policy.writable.iter().filter(|root| **root != self.workspace).cloned().collect();
        let mut repositories = repositories(found, &self.workspace);
        repositories.extend(self.others.find_repositories(&others));
        let user = paths::git_user();
        let settings = nested_settings(found);
        let (roots, repositories, settings) = (&policy.writable, &repositories, &settings);
        let mut protected = Protected::find(ProtectedPlaces { roots, repositories, settings, user: &user });
        let servers = self.servers.known();
        protected.also(servers.iter().flat_map(|config| config.programs(&self.workspace)));
        protected.also(self.denied.read_only.iter().cloned());
        protected.also(unwritten.places.iter().map(|place| place.path.clone()));
        protected
    }

    /// Returns the policy without the parts that depend on the content of writable directories.
    fn policy_of_paths(&self, scratch: &Path) -> SandboxPolicy {
        let own = without_links(self.own.iter().cloned());
        let mut writable = without_links(self.settings.writable.iter().cloned());
        // Credentials can be handed out, the host's own files cannot.
        writable.retain(|path| !own.iter().any(|own| is_host_part(own, path)));
        writable.retain(|path| !self.is_in_original(path));
        writable.push(self.workspace.clone());
        // A copy has no repository, whatever a file `.git` in it says.
        if self.original.is_none()
            && let Repository::Elsewhere(repository) = Repository::for_workspace(&self.workspace)
        {
            writable.push(repository);
        }
        // Credentials may come and go while the session lasts.
        let mut visible = without_links(self.settings.readable.iter().cloned());
        visible.retain(|path| !self.is_in_original(path));
        let open: Vec<PathBuf> = writable.iter().chain(&visible).cloned().collect();
        let secret = secret_paths(paths::home().as_deref(), &open).into_iter();
        let hidden = without_links(secret.chain(self.settings.hidden.iter().cloned()).chain(linked(&own)));
        let temporary = scratch.join(TEMPORARY);
        let temporary = create_directory(&temporary).and_then(|()| temporary.canonicalize()).ok();
        visible.extend(scratch.canonicalize());
        SandboxPolicy {
            writable,
            hidden: hidden.into_iter().chain(own).chain(self.original.clone()).collect(),
            visible,
            temporary,
            devices: self.settings.devices(),
            network: self.network.for_program(),
            limits: self.limits.get_or_init(|| limits(&self.settings)).clone(),
            enforcement: self.enforcement,
            ..SandboxPolicy::default()
        }
    }

    fn is_in_original(&self, path: &Path) -> bool {
        self.original.as_ref().is_some_and(|original| path.starts_with(original))
    }

    /// Applies the rules that deny files to a policy.
    fn deny(&self, policy: &mut SandboxPolicy) {
        policy.hidden.extend(self.denied.hidden.iter().filter(|path| path.exists()).cloned());
        let is_denied = |path: &PathBuf| self.denied.hidden.iter().any(|denied| path.starts_with(denied));
        policy.visible.retain(|path| !is_denied(path));
        policy.writable.retain(|path| !is_denied(path));
        let is_unwritten = |path: &PathBuf| self.denied.read_only.iter().any(|denied| path.starts_with(denied));
        // They are read all the same, wherever they lie.
        let unwritten: Vec<PathBuf> = policy.writable.extract_if(.., |path| is_unwritten(path)).collect();
        policy.visible.extend(unwritten);
    }

    /// Checks the layers of this machine, once.
    ///
    /// # Errors
    /// A layer that the mode requires is missing.
    pub fn support(&self, policy: &SandboxPolicy) -> Result<&Support, String> {
        let checked = self.checked.get_or_init(|| self.launcher.support(policy).map_err(|error| error.to_string()));
        checked.as_ref().map_err(Clone::clone)
    }

    /// Checks that a program would be confined to the workspace and to the allowed network.
    ///
    /// # Errors
    /// A layer is missing.
    pub fn confines(&self, scratch: &Path) -> Result<(), String> {
        let policy = self.policy_of_paths(scratch);
        let support = self.support(&policy)?;
        // Landlock alone knows no read-only paths in writable directories, and leaves these open unless they are required.
        let has_landlock = support.landlock.is_some() && policy.enforcement == Enforcement::Require;
        match &support.namespaces {
            _ if cfg!(target_os = "macos") => Ok(()),
            _ if !support.seccomp => Err("the sandbox is incomplete: this machine has no seccomp".to_owned()),
            Err(reason) if !has_landlock => {
                Err(format!("the sandbox is incomplete: this machine has no namespaces ({reason})"))
            }
            _ => Ok(()),
        }
    }

    /// Returns why allowed hosts cannot be reached on this machine; `None` if they can.
    ///
    /// Landlock alone could open the port of a proxy, but at every address.
    fn hosts_are_out_of_reach(&self, policy: &SandboxPolicy) -> Option<String> {
        let reason = self.support(policy).ok()?.namespaces.as_ref().err()?;
        Some(format!(
            "allowed hosts need a network namespace, which this machine does not offer ({reason}), so programs have no \
             network\nhint: allow user namespaces, or give programs the whole network with `/net on`"
        ))
    }

    /// Prepares a program under the policy of all programs.
    ///
    /// # Errors
    /// There is no sandbox.
    pub fn prepare(&self, program: Program<'_>, scratch: &Path) -> Result<PreparedProgram, String> {
        let Planned { mut policy, protected, found } = self.policy(scratch)?;
        let by = format!("`{}`", program.program);
        let mut out_of_reach = None;
        if policy.network == Network::Proxied {
            out_of_reach = self.hosts_are_out_of_reach(&policy);
            if out_of_reach.is_none() {
                let environment = with_proxy(program.environment, self.launcher.ssh());
                let environment = self.network.credentials().inserted(environment, scratch)?;
                let program = Program { environment: &environment, ..program };
                let (command, socket) = self
                    .launcher(&policy)?
                    .proxied(program, &policy)
                    .map_err(|error: SandboxError| error.to_string())?;
                let proxy = Some(self.network.serve(socket)?);
                let running = self.running(&protected, &found, &by);
                return Ok(PreparedProgram { command, policy, running, found, proxy, out_of_reach });
            }
            policy.network = Network::Off;
        }
        let environment = self.network.credentials().removed(program.environment);
        let program = Program { environment: &environment, ..program };
        let command = self.command(program, &policy)?;
        let running = self.running(&protected, &found, &by);
        Ok(PreparedProgram { command, policy, running, found, proxy: None, out_of_reach })
    }

    fn launcher(&self, policy: &SandboxPolicy) -> Result<Launcher, String> {
        let support = self.support(policy)?;
        let layers = Layers { namespaces: support.namespaces.is_ok(), landlock: support.landlock.is_some() };
        Ok(self.launcher.clone().with_layers(layers))
    }

    /// Returns the command of a program in the sandbox.
    ///
    /// # Errors
    /// There is no sandbox.
    pub fn command(&self, program: Program<'_>, policy: &SandboxPolicy) -> Result<std::process::Command, String> {
        self.launcher(policy)?.command(program, policy).map_err(|error: SandboxError| error.to_string())
    }
}

/// Returns the directories that are closed as a whole because too many files are excluded: those with more than a few, so
/// that a program cannot keep all later ones from starting.
fn flooded(found: &ExcludedPaths, workspace: &Path) -> Vec<PathBuf> {
    let bytes: usize = found.places.iter().map(|place| 2 * place.path.as_os_str().len()).sum();
    if found.places.len() <= MAX_EXCLUDED && bytes <= MAX_EXCLUDED_BYTES {
        return Vec::new();
    }
    let mut counts: BTreeMap<&Path, usize> = BTreeMap::new();
    for place in &found.places {
        // The directories at the top of the workspace: a flood may have a directory for each file.
        let top = place.path.ancestors().find(|path| path.parent() == Some(workspace));
        if let Some(top) = top.filter(|top| *top != place.path) {
            *counts.entry(top).or_default() += 1;
        }
    }
    counts.into_iter().filter(|(_, count)| *count > FEW_EXCLUDED).map(|(path, _)| path.to_owned()).collect()
}

/// Keeps excluded files from a program.
///
/// # Errors
/// There are too many.
fn exclude(policy: &mut SandboxPolicy, found: &ExcludedPaths, workspace: &Path) -> Result<(), String> {
    let mut bytes = 0;
    let whole = flooded(found, workspace);
    let is_apart = |place: &&ExcludedPlace| !whole.iter().any(|directory| place.path.starts_with(directory));
    for (number, place) in found.places.iter().filter(is_apart).enumerate() {
        bytes += 2 * place.path.as_os_str().len();
        if number + whole.len() >= MAX_EXCLUDED || bytes > MAX_EXCLUDED_BYTES {
            return Err(format!(
                "no sandbox: more than {number} files are excluded, among them `{}`: {}\nhint: exclude a directory \
                 around them instead, except some with `!`, or remove those that a command created",
                place.path.display(),
                place.pattern
            ));
        }
        policy.excluded.push(place.path.clone());
        if !place.is_by_name {
            let around = place.path.ancestors().skip(1).take_while(|path| *path != workspace);
            policy.pinned.extend(around.filter(|path| path.starts_with(workspace)).map(Path::to_owned));
        }
    }
    policy.excluded.extend(whole);
    policy.pinned.sort();
    policy.pinned.dedup();
    Ok(())
}

/// Returns the host's own files that are links: they may lie in a workspace, as with people who keep them in a repository.
fn linked(own: &[PathBuf]) -> Vec<PathBuf> {
    let entries = own.iter().flat_map(|own| {
        let entries = std::fs::read_dir(own).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| is_host_part(own, path))
    });
    entries.filter(|path| path.is_symlink() && path.is_file()).collect()
}

/// A program that is ready to start.
pub struct PreparedProgram {
    /// The command that runs the program confined.
    pub command: std::process::Command,
    /// The policy of the sandbox.
    pub policy: SandboxPolicy,
    /// The protection against files that it could create.
    pub running: RunningProgram,
    /// Files that are excluded from it.
    pub found: Arc<ExcludedPaths>,
    /// Its proxy, which ends when this is dropped.
    pub proxy: Option<ProgramProxy>,
    /// The reason why it has no network although hosts are allowed.
    pub out_of_reach: Option<String>,
}

impl Confinement for SandboxedPrograms {
    fn confine(&self, program: &PlainProgram<'_>) -> Result<ConfinedProgram, String> {
        let PlainProgram { program, arguments, directory, environment, scratch } = *program;
        let program = Program { program, arguments, directory, environment };
        let PreparedProgram { command, policy, running, found, proxy, out_of_reach } =
            self.prepare(program, scratch)?;
        let gap = self.gap(&policy);
        let network = self.network.clone();
        let quiet = arguments.iter().find_map(|argument| quiet_host(argument).map(str::to_owned));
        let quiet = quiet.filter(|_| policy.network == Network::Off);
        let is_hidden = arguments.iter().any(|argument| hides_failure(argument));
        let ended = move |succeeded: bool, stderr: &str| {
            let succeeded = succeeded && !is_hidden;
            let mut lines: Vec<String> = running.revert();
            lines.extend(gap);
            lines.extend(proxy.iter().flat_map(ProgramProxy::lines));
            if let Some(line) = exclusion(stderr, &found) {
                lines.push(line);
            } else if let Some(hint) = tracing_hint(stderr) {
                lines.push(format!("hint: {hint}"));
            } else if !succeeded {
                let said = hint(stderr, &policy);
                let quiet = quiet.filter(|_| said.is_none());
                if let (Some(host), None) = (&quiet, &out_of_reach) {
                    network.was_missed(host);
                }
                let hint = said.or_else(|| quiet.map(|host| (Denial::Network, no_network(&host))));
                if let (Some((Denial::Network, _)), Network::Off, None) = (&hint, policy.network, &out_of_reach) {
                    unreachable_host(stderr).into_iter().for_each(|host| network.was_missed(host));
                }
                lines.extend(match (hint, out_of_reach) {
                    (Some((Denial::Network, _)), Some(reason)) => Some(format!("sandbox: {reason}")),
                    (hint, _) => hint.map(|(_, text)| format!("hint: {text}")),
                });
            }
            lines
        };
        Ok(ConfinedProgram { command, ended: Box::new(ended) })
    }
}

impl SandboxedPrograms {
    /// Protects the paths where a program could create files while it runs. `by` names it in the log.
    pub fn running(&self, protected: &Protected, found: &Arc<ExcludedPaths>, by: &str) -> RunningProgram {
        let looks = Looks { workspace: self.exclusions.clone(), others: self.others.clone(), before: found.clone() };
        RunningProgram::begin(protected, &self.removed, Some(looks), by, &self.audit)
    }

    /// Returns the line that tells that programs can use excluded files, if they can.
    pub fn gap(&self, policy: &SandboxPolicy) -> Option<String> {
        let has_namespaces = self.support(policy).is_ok_and(|support| support.namespaces.is_ok());
        let is_held = has_namespaces || policy.enforcement == Enforcement::Require || cfg!(target_os = "macos");
        (!is_held && !policy.excluded.is_empty()).then(|| {
            "sandbox: excluded files are not kept from programs: this machine has no namespaces, and `mode` of `[sandbox]` is \
             `best-effort`"
                .to_owned()
        })
    }
}

/// Returns the reason why a program could not use an excluded file, according to its messages.
fn exclusion(stderr: &str, found: &ExcludedPaths) -> Option<String> {
    let is_refusal = |line: &str| {
        let line = line.to_lowercase();
        REFUSALS.iter().any(|refusal| line.contains(refusal))
    };
    let names = |line: &str, place: &ExcludedPlace| {
        let mut words = line.split(|c: char| c.is_whitespace() || "'\"`‘’:,()=".contains(c)).map(Path::new);
        let name = place.path.file_name();
        let is_in_directory = |word: &Path| place.path.is_dir() && word.iter().any(|part| Some(part) == name);
        words.any(|word| word.file_name() == name || word.starts_with(&place.path) || is_in_directory(word))
    };
    // An excluded directory is empty.
    let is_missing = |line: &str, place: &ExcludedPlace| line.contains("No such file") && place.path.is_dir();
    let place = stderr.lines().rev().take(200).find_map(|line| {
        let is_refusal = is_refusal(line);
        found.places.iter().find(|place| (is_refusal || is_missing(line, place)) && names(line, place))
    })?;
    let path = place.path.display();
    Some(format!("sandbox: programs cannot use `{path}`: {}\nhint: {}", place.pattern, place.pattern.remedy()))
}
