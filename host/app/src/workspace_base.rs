//! The data that every command in a workspace shares: paths, config and secrets.
//!
//! A [`Base`] is data. The parts of a run are made from it where they belong: plugins in [`crate::plugins`], models in
//! [`crate::model`], agents in [`crate::run`].

use crate::approve::audit::Audit;
use crate::approve::permissions::CallPermissions;
use crate::config::Config;
use crate::config::secrets::add_files;
use crate::failure::Result;
use crate::files::output_directories::SpillDirectory;
use crate::files::paths::Paths;
use crate::files::private::read_or_create;
use crate::mcp::lazy_servers::LazyServers;
use crate::model::exchanges::Exchanges;
use crate::model::in_process::InProcessModels;
use crate::model::run_surroundings::run_surroundings;
use crate::options::{RunOptions, SandboxMode};
use crate::output::text;
use crate::plugins::grants::{GrantsFile, PinCache, Pins};
use crate::plugins::package_lock::PackageLockCache;
use crate::plugins::secrets::PluginSecrets;
use crate::process::credentials::ProgramCredentials;
use crate::process::hardening::variables;
use crate::process::key_commands::KeyCommandSandbox;
use crate::process::network::ProgramNetwork;
use crate::screen::Screen;
use pinion_agent::secrets::Secrets;
use pinion_attribution::RequestLedger;
use pinion_orchestration::RunningAgents;
use pinion_plugin_runtime::{CacheKey, GrantContext, GrantTable, Grants, HostDirectories, PluginStorage, SecretSource};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The paths, config and secrets of a command that works in a directory.
#[derive(Clone)]
pub struct Base {
    /// The directories of the user's files.
    pub paths: Paths,
    /// The directory that the agent works in.
    pub workspace: PathBuf,
    /// The directory that the workspace is a copy of, which nothing in the workspace reaches.
    pub copied_from: Option<PathBuf>,
    /// The settings in effect.
    pub config: Config,
    /// The way to models: live, recorded or replayed.
    pub exchanges: Exchanges,
    /// The account of all requests to models.
    pub requests: Arc<RequestLedger>,
    /// All credentials that this process has seen.
    pub secrets: Secrets,
    /// The secrets that plugins may use by name.
    pub plugin_secrets: Arc<PluginSecrets>,
    /// Directory for long output of programs.
    pub output: Arc<SpillDirectory>,
    /// Decides on calls by rules.
    pub permissions: Arc<CallPermissions>,
    /// The network of programs.
    pub network: Arc<ProgramNetwork>,
    /// The lock file of packages, as it was read last.
    pub package_lock: Arc<PackageLockCache>,
    /// `grants.toml`, as it was read last.
    pub pins: Arc<PinCache>,
    /// `--base-url`.
    pub base_url: Option<String>,
    /// The MCP servers, once something asks for them.
    pub mcp: Arc<LazyServers>,
    /// The models that run in this process, if the application has some.
    pub in_process: Option<Arc<dyn InProcessModels>>,
    /// The sub-agents that run.
    pub running_agents: RunningAgents,
    /// Shows notes to the user.
    pub screen: Arc<dyn Screen>,
}

impl Base {
    /// Completes a loaded config, with the vendors' own servers. Programs and MCP servers start when something asks.
    pub fn new(
        paths: Paths,
        workspace: PathBuf,
        config: Config,
        secrets: Secrets,
        output: Arc<SpillDirectory>,
        screen: Arc<dyn Screen>,
    ) -> Self {
        let audit = Arc::new(Audit::new(paths.audit_file(), secrets.clone()));
        let sandbox = KeyCommandSandbox::new(&config.sandbox, &paths, &audit);
        let plugin_secrets = Arc::new(PluginSecrets::new(&paths, &config.secrets, &secrets, sandbox));
        let permissions = Arc::new(CallPermissions::new(&paths, &workspace, &config, audit.clone()));
        let credentials = ProgramCredentials::new(config.credentials.clone(), plugin_secrets.clone());
        let denied = config.denied.hosts.clone();
        let network = Arc::new(ProgramNetwork::new(&config.sandbox, denied, credentials, audit));
        let (exchanges, base_url, counter) = (Exchanges::Live, None, config.counter);
        let mcp = Arc::new(LazyServers::new(screen.clone()));
        Self {
            paths,
            workspace,
            copied_from: None,
            config,
            exchanges,
            requests: Arc::new(RequestLedger::new(Arc::new(counter))),
            secrets,
            plugin_secrets,
            output,
            permissions,
            network,
            package_lock: Arc::default(),
            pins: Arc::default(),
            base_url,
            mcp,
            in_process: None,
            running_agents: RunningAgents::default(),
            screen,
        }
    }

    /// Completes a loaded config for a run with these options. Secrets of the user's files are added to `secrets`. Without a
    /// directory for long output of programs, there is a new one.
    ///
    /// # Errors
    /// A recording or a script that the options name cannot be used.
    pub fn open(
        paths: Paths,
        workspace: PathBuf,
        config: Config,
        options: &RunOptions,
        secrets: Secrets,
        output: Option<Arc<SpillDirectory>>,
        screen: Arc<dyn Screen>,
    ) -> Result<Self> {
        let exchanges = Exchanges::from_args(options, |date| run_surroundings(&paths, &workspace, date))?;
        add_files(&secrets, &paths, &config);
        let output = output.unwrap_or_else(|| Arc::new(SpillDirectory::new(paths.output())));
        let base = Self::new(paths, workspace, config, secrets, output, screen);
        Ok(Self { exchanges, base_url: options.base_url.clone(), ..base })
    }

    /// Returns whether the user grants hooks to any plugin.
    pub fn grants_hooks(&self) -> bool {
        let grants_hooks = |table: &GrantTable| table.asks().hooks;
        // A file that cannot be read may have granted some.
        self.config.user_plugins.values().any(|plugin| grants_hooks(&plugin.grants))
            || self.pins().map_or(true, |pins| pins.all.iter().any(|pin| grants_hooks(&pin.grants)))
    }

    /// Returns the grants that are bound to plugin files, reading them again only if the file has changed.
    pub(crate) fn pins(&self) -> io::Result<Arc<Pins>> {
        self.pins.read(&GrantsFile::new(self.paths.grants_file()))
    }

    /// Returns the directories that plugins may not use, and those among them that hold long output and skills for the model.
    pub fn host_directories(&self) -> HostDirectories {
        let Paths { config, data, cache } = self.paths.clone();
        let handed_out =
            std::iter::once(self.output.directory().to_owned()).chain(self.readable_for_skills()).collect();
        HostDirectories {
            private: vec![config, data, cache],
            handed_out,
            closed: self.copied_from.clone().into_iter().collect(),
        }
    }

    /// Returns the cache directory for compiled code and the secret that seals it.
    pub fn compiled_code(&self) -> Option<(PathBuf, CacheKey)> {
        cache_key(&self.paths, &*self.screen).map(|key| (self.paths.components(), key))
    }

    /// Resolves a grants table for this workspace and environment.
    pub fn grants(&self, table: &GrantTable) -> Grants {
        // In the sandbox, each program gets placeholders instead.
        let granted = || match self.config.sandbox.mode {
            SandboxMode::Off => {
                let all: Vec<_> = variables().into_iter().collect();
                self.network.credentials().removed(&all).into_iter().collect()
            }
            _ => variables(),
        };
        let secrets: Arc<dyn SecretSource> = self.plugin_secrets.clone();
        table.resolve(&GrantContext {
            workspace: &self.workspace,
            usual_variables: &self.config.process_environment,
            variables: &granted,
            output: self.output.directory(),
            storage: &self.paths.plugin_storage(),
            secrets: &secrets,
        })
    }

    /// The values that plugins store.
    pub fn plugin_storage(&self) -> PluginStorage {
        PluginStorage::new(self.paths.plugin_storage())
    }

    /// Returns notices about the content of the project and about the settings that it may not make.
    pub fn project_notices(&self) -> Vec<String> {
        self.config
            .project
            .notices()
            .into_iter()
            .chain(self.config.notices.iter().cloned())
            .chain(self.permissions.notices.iter().cloned())
            .chain(self.broken_grants())
            .chain(self.project_package_notice())
            .collect()
    }

    /// Returns a notice if `grants.toml` cannot be read, which also hides grants of plugins that are not installed now.
    fn broken_grants(&self) -> Option<String> {
        let error = self.pins().err()?;
        let path = self.paths.grants_file();
        let path = path.display();
        Some(format!("no plugin has the grants in `{path}`: {error}; correct the file or move it away"))
    }
}

/// Returns the secret that seals compiled code, creating it on first use and replacing a damaged one. If it can be
/// neither read nor created, this is logged and nothing is cached.
fn cache_key(paths: &Paths, screen: &dyn Screen) -> Option<CacheKey> {
    let file = paths.cache_key_file();
    let secret = read_or_create(&file)
        .inspect_err(|error| tracing::warn!(file = %file.display(), %error, "compiled code is not cached"))
        .ok()?;
    if let Some(damage) = secret.repaired {
        screen.note(&text!("! replaced the cache key `{}`, so plugins compile again: {}", file, damage));
    }
    Some(CacheKey::new(secret.bytes))
}
