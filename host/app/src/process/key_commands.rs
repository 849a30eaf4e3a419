//! The sandbox of the commands in the user's config that print keys and secrets.
//!
//! Such a command reads credentials, which is its purpose, and uses the network. It changes nothing but the state of its tool
//! and `/tmp`, sees neither other processes nor the sessions and keys of Pinion, and ends with all that it started. `/tmp` is
//! the machine's own, because tickets of Kerberos and caches of tools are there.

use crate::approve::audit::Audit;
use crate::config::sandbox::{AbsolutePath, CommandGrants, SandboxSettings};
use crate::files::paths::{self, Paths};
use crate::options::SandboxMode;
use crate::process::running_programs::RunningProgram;
use crate::process::sandbox_parts::{helper, limits, without_links};
use pinion_agent::serde_json::json;
use pinion_providers::{KeyCommand, KeyCommandLauncher, LaunchedKeyCommand, ShellLauncher};
use pinion_sandbox::{
    Enforcement, Launcher, Layers, Network, Program, Protected, ProtectedPlaces, SandboxPolicy, Support, nearby,
    secret_paths,
};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Directories with the tokens and caches of tools that print keys, below the home directory.
const STATE: &[&str] =
    &[".aws/cli/cache", ".aws/sso/cache", ".azure", ".config/Bitwarden CLI", ".config/gcloud", ".config/op"];
/// Code of these tools, which stays read-only: it runs later, outside of the sandbox.
const CODE: &[&str] = &[".azure/cliextensions", ".config/gcloud/virtenv"];
/// Sockets of agents that unlock keys, below the home directory and below the directory of the session's sockets.
const AGENTS: [(&str, &str); 2] =
    [(".gnupg/S.gpg-agent", "gnupg/S.gpg-agent"), (".gnupg/S.keyboxd", "gnupg/S.keyboxd")];
/// Directories for temporary files.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// Starts key commands, in the sandbox unless the user turned it off.
#[derive(Clone)]
pub struct KeyCommandSandbox {
    /// None if the sandbox is off.
    on: Option<Arc<On>>,
    audit: Arc<Audit>,
}

struct On {
    launcher: Launcher,
    enforcement: Enforcement,
    settings: SandboxSettings,
    /// Sessions, keys and caches of Pinion.
    own: Vec<PathBuf>,
    /// The directories of Pinion, which no command changes.
    unwritten: Vec<PathBuf>,
    /// Directory for files that commands create at protected paths.
    removed: PathBuf,
    audit: Arc<Audit>,
    checked: OnceLock<Result<Support, String>>,
}

impl KeyCommandSandbox {
    /// Uses the sandbox of the config, and logs each start.
    pub fn new(settings: &SandboxSettings, paths: &Paths, audit: &Arc<Audit>) -> Self {
        let audit = audit.clone();
        let enforcement = match settings.mode {
            SandboxMode::Require => Enforcement::Require,
            SandboxMode::BestEffort => Enforcement::BestEffort,
            SandboxMode::Off => return Self { on: None, audit },
        };
        // Without the path of this program, every command is refused.
        let (helper, arguments) = helper().unwrap_or_default();
        // A script that prints a key may lie next to the config.
        let data = Some(paths.data.clone()).filter(|data| !paths.config.starts_with(data));
        let own = [paths.cache.clone(), paths.sessions(), paths.auth_file(), paths.mcp_tokens_file()];
        let on = On {
            launcher: Launcher::new(helper, arguments),
            enforcement,
            settings: settings.clone(),
            own: own.into_iter().chain(data).collect(),
            unwritten: vec![paths.config.clone(), paths.data.clone()],
            removed: paths.removed(),
            audit: audit.clone(),
            checked: OnceLock::new(),
        };
        Self { on: Some(Arc::new(on)), audit }
    }

    /// Runs commands without a sandbox.
    #[cfg(test)]
    pub fn without_sandbox() -> Self {
        Self { on: None, audit: Arc::new(Audit::new(PathBuf::new(), Default::default())) }
    }

    /// Returns a command with its grants. `setting` names them in the config, for the error of a command that fails.
    pub fn key_command(&self, line: &str, grants: &CommandGrants, setting: &str) -> KeyCommand {
        let launcher: Arc<dyn KeyCommandLauncher> = match &self.on {
            Some(on) if grants.sandbox != Some(false) => {
                let remedy =
                    format!("if it succeeds in a shell, its sandbox allows too little: extend {setting} in the config");
                Arc::new(Sandboxed { on: on.clone(), grants: grants.clone(), remedy })
            }
            _ => Arc::new(ShellLauncher),
        };
        let (sandbox, grants, setting) = (self.clone(), grants.clone(), setting.to_owned());
        KeyCommand::new(line).launched_by(Arc::new(Logged { launcher, sandbox, grants, setting }))
    }

    /// Describes the grants of a command in a line.
    pub fn describe(&self, grants: &CommandGrants) -> String {
        let Some(on) = self.on.as_ref().filter(|_| grants.sandbox != Some(false)) else {
            return "no sandbox".to_owned();
        };
        let (policy, _) = on.policy(grants);
        let network = if policy.network == Network::On { "network" } else { "no network" };
        let list =
            |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        let read = match &grants.readable {
            None => "all credentials".to_owned(),
            Some(_) if policy.visible.is_empty() => "no credentials".to_owned(),
            Some(_) => format!("reads {}", list(&policy.visible)),
        };
        format!("{network}, {read}, writes {}", list(&policy.writable))
    }
}

impl On {
    /// Returns the policy of a command, and the protected paths in it.
    fn policy(&self, grants: &CommandGrants) -> (SandboxPolicy, Protected) {
        let home = paths::home();
        let below = |name: &&str| home.as_ref().map(|home| home.join(name));
        let state = || without_links(STATE.iter().filter_map(below));
        let mut writable = grants.writable.as_deref().map_or_else(state, existing);
        let code = CODE.iter().filter_map(below);
        let closed = without_links(code.chain(self.unwritten.iter().cloned()));
        let repositories: Vec<PathBuf> = writable.iter().flat_map(|root| nearby(root)).collect();
        let user = paths::git_user();
        let mut protected = Protected::find(ProtectedPlaces {
            roots: &writable,
            repositories: &repositories,
            settings: &[],
            user: &user,
        });
        protected.also(closed);
        writable.extend(without_links(TEMPORARY.iter().map(PathBuf::from)));
        writable.sort();
        writable.dedup();
        let (secret, visible) = match grants.readable.as_deref() {
            Some(listed) => {
                let visible = existing(listed);
                let open: Vec<PathBuf> = writable.iter().chain(&visible).cloned().collect();
                (secret_paths(home.as_deref(), &open), visible)
            }
            None => (Vec::new(), agents(home.as_deref())),
        };
        // A tool reads and writes its own state even if other paths are closed.
        let hidden = secret.into_iter().chain(self.own.iter().cloned()).chain(self.settings.hidden.iter().cloned());
        let policy = SandboxPolicy {
            writable,
            read_only: protected.closed().cloned().collect(),
            hidden: without_links(hidden),
            visible,
            network: if grants.network == Some(false) { Network::Off } else { Network::On },
            limits: limits(&self.settings),
            enforcement: self.enforcement,
            ..SandboxPolicy::default()
        };
        (policy, protected)
    }

    fn launch(&self, line: &str, grants: &CommandGrants) -> Result<LaunchedKeyCommand, String> {
        let (policy, protected) = self.policy(grants);
        let checked = self.checked.get_or_init(|| self.launcher.support(&policy).map_err(|error| error.to_string()));
        let support = checked.as_ref().map_err(Clone::clone)?;
        let layers = Layers { namespaces: support.namespaces.is_ok(), landlock: support.landlock.is_some() };
        // As without the sandbox: the keys of providers are gone from it.
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let environment: Vec<(String, String)> = std::env::vars_os().filter_map(text).collect();
        let arguments = ["-c".to_owned(), line.to_owned()];
        let program =
            Program { program: "sh", arguments: &arguments, directory: Path::new("/"), environment: &environment };
        let launcher = self.launcher.clone().with_layers(layers);
        let command = launcher.command(program, &policy).map_err(|error| error.to_string())?;
        let ended = Box::new(ProtectedPathCleanup(Some(RunningProgram::begin(
            &protected,
            &self.removed,
            None,
            "a key command",
            &self.audit,
        ))));
        Ok(LaunchedKeyCommand { command, ended })
    }
}

/// Returns the paths that exist, without links in them.
fn existing(listed: &[AbsolutePath]) -> Vec<PathBuf> {
    without_links(listed.iter().map(|path| path.0.clone()))
}

/// Returns the sockets of agents that unlock keys.
fn agents(home: Option<&Path>) -> Vec<PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let found = AGENTS.iter().flat_map(|(below_home, below_session)| {
        let in_session = session.as_ref().map(|session| session.join(below_session));
        home.map(|home| home.join(below_home)).into_iter().chain(in_session)
    });
    without_links(found)
}

/// A command in the sandbox, with its grants.
struct Sandboxed {
    on: Arc<On>,
    grants: CommandGrants,
    remedy: String,
}

impl fmt::Debug for Sandboxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandboxed").field("grants", &self.grants).finish_non_exhaustive()
    }
}

impl KeyCommandLauncher for Sandboxed {
    fn launch(&self, line: &str) -> io::Result<LaunchedKeyCommand> {
        self.on.launch(line, &self.grants).map_err(io::Error::other)
    }

    fn remedy(&self) -> Option<&str> {
        Some(&self.remedy)
    }
}

/// A command whose starts are logged. Its text is not, because it may contain a secret that redaction does not know.
struct Logged {
    launcher: Arc<dyn KeyCommandLauncher>,
    sandbox: KeyCommandSandbox,
    grants: CommandGrants,
    setting: String,
}

impl fmt::Debug for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logged").field("setting", &self.setting).finish_non_exhaustive()
    }
}

impl KeyCommandLauncher for Logged {
    fn launch(&self, line: &str) -> io::Result<LaunchedKeyCommand> {
        let launched = self.launcher.launch(line);
        let program = line.split_whitespace().next().unwrap_or_default();
        let command = json!({ "program": program, "blake3": blake3::hash(line.as_bytes()).to_hex().as_str() });
        let grants = json!({ "sandbox": self.sandbox.describe(&self.grants) });
        let refused = launched.as_ref().err().map(ToString::to_string);
        let what = format!("key command with {}", self.setting);
        self.sandbox.audit.started(&what, &command, &grants, refused.as_deref());
        launched
    }

    fn remedy(&self) -> Option<&str> {
        self.launcher.remedy()
    }
}

/// Moves away files that a command created at protected paths, once it has ended.
struct ProtectedPathCleanup(Option<RunningProgram>);

impl Drop for ProtectedPathCleanup {
    fn drop(&mut self) {
        for line in self.0.take().into_iter().flat_map(RunningProgram::revert) {
            tracing::warn!("a key command: {line}");
        }
    }
}
