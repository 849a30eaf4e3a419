//! The config: the schema of its files ([`mod@file`]) and the settings in effect ([`Config`]).
//!
//! The layers are, each over the one before: `defaults.toml`, the user's file, the file of a project that the user
//! trusts, and the command line. A table is merged with the one below it; any other value replaces the one below. Each
//! file is checked by itself first, so that an error names the file and the line.
//!
//! The file of a project stays untrusted input: it may set only the keys that [`crate::config::project`] lists, and a
//! notice names each ignored one. Grants, endpoints, commands and approval therefore always come from the user.

pub mod credentials;
pub mod denied;
pub mod edit;
mod exclude;
pub mod file;
pub mod permissions;
pub mod plugin_secrets;
pub mod project;
pub mod providers;
pub mod sandbox;
pub mod secrets;
pub mod undo;

use crate::config::credentials::ProgramCredential;
use crate::config::denied::Denied;
use crate::config::exclude::PatternList;
use crate::config::file::{CacheSetting, File, FileBranches, FileLimits, FileMcp, FilePlugin, FileProvider, FileTui};
use crate::config::permissions::{FilePermissions, PermissionSettings};
use crate::config::plugin_secrets::DefinedSecrets;
use crate::config::project::{Restricted, restrict};
use crate::config::sandbox::SandboxSettings;
use crate::config::undo::UndoSettings;
use crate::failure::{Failure, Result};
use crate::files::paths::CONFIG;
use crate::files::paths::{self, Paths};
use crate::files::private::read_settings;
use crate::names::nearest;
use crate::options::{RunOptions, UiForm};
use crate::output::line;
use crate::trust::Project;
use pinion_agent::approval::ApprovalMode;
use pinion_agent::compaction::CompactionPolicy;
use pinion_agent::delegation::SubAgentPolicy;
use pinion_agent::limits::RunLimits;
use pinion_agent::provider::{CachePolicy, ThinkingLevel};
use pinion_agent::retry::Backoff;
use pinion_agent::tokens::ByteCounter;
use pinion_exclusions::{Finder, InvalidPattern};
use pinion_journal::writer::JournalMode;
use pinion_plugin_runtime::EngineLimits;
use pinion_providers::Registry;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const DEFAULTS: &str = include_str!("defaults.toml");

/// The settings in effect.
#[derive(Debug, Clone)]
pub struct Config {
    /// `NAME` or `PROVIDER/NAME`, if any layer sets it.
    pub model: Option<String>,
    /// The provider from the command line.
    pub provider: Option<String>,
    /// Models to ask, in order, when the model fails permanently.
    pub fallback: Vec<String>,
    /// Thinking level of the model.
    pub thinking: ThinkingLevel,
    /// Tokens for thinking, at any level.
    pub thinking_budget: Option<u64>,
    /// Tokens for thinking, by level.
    pub thinking_budgets: BTreeMap<ThinkingLevel, u64>,
    /// Temperature of the model, from 0 to 2.
    pub temperature: Option<f64>,
    /// Maximum tokens of a reply.
    pub max_output_tokens: Option<u64>,
    /// Pauses between attempts of a request.
    pub retry: Backoff,
    /// Use of the vendor's prompt cache.
    pub cache: CachePolicy,
    /// When and how a conversation is summarized.
    pub compaction: CompactionPolicy,
    /// Estimates tokens.
    pub counter: ByteCounter,
    /// The model that writes summaries, as [`Self::model`].
    pub summary_model: Option<String>,
    /// Models and kinds of sub-agents.
    pub sub_agents: SubAgentPolicy,
    /// Branches on which each prompt runs.
    pub branches: FileBranches,
    /// Calls that need approval.
    pub approve: ApprovalMode,
    /// The tools to offer, unless an option names them; `None` for all.
    pub tools: Option<Vec<String>>,
    /// Tools that are not offered.
    pub exclude_tools: Vec<String>,
    /// The form of conversations, unless an option or the environment names another.
    pub ui: UiForm,
    /// Keys of actions in the full-screen UI, by the action's name.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Settings of the full-screen UI.
    pub tui: FileTui,
    /// Whether `-p` prints the text of the model while it arrives; `None` does so only on a terminal.
    pub stream: Option<bool>,
    /// Shows the requests, tokens and cost of each turn of the user.
    pub turn_cost: bool,
    /// Whether the calls of plugins are recorded.
    pub journal: JournalMode,
    /// The minimum pause before a prompt begins another session; `None` if no pause does.
    pub new_session_after: Option<Duration>,
    /// Limits of a run.
    pub limits: RunLimits,
    /// US dollars that all processes of the user may spend on a day.
    pub daily_limit: Option<f64>,
    /// The sections of providers.
    pub providers: BTreeMap<String, FileProvider>,
    /// All providers, including the user's own.
    pub registry: Registry,
    /// The sections of plugins.
    pub plugins: BTreeMap<String, FilePlugin>,
    /// The defaults and the user's file, the only layers that grant anything.
    pub user_plugins: BTreeMap<String, FilePlugin>,
    /// The file of a trusted project alone, reduced to the settings that it may change.
    pub project_plugins: BTreeMap<String, FilePlugin>,
    /// The secrets in the user's file.
    pub secrets: DefinedSecrets,
    /// Variables that programs get without a grant.
    pub process_environment: Vec<String>,
    /// Rules about calls.
    pub permissions: PermissionSettings,
    /// Files that rules deny.
    pub denied: Denied,
    /// The secrets that programs use through placeholders.
    pub credentials: Vec<ProgramCredential>,
    /// The sandbox of programs.
    pub sandbox: SandboxSettings,
    /// Snapshots of the workspace; `None` if they are off.
    pub undo: Option<UndoSettings>,
    /// Limits of the engine that runs plugins.
    pub engine_limits: Option<EngineLimits>,
    /// Settings of MCP servers in the user's file.
    pub mcp: FileMcp,
    /// Files that neither plugins nor programs read or change.
    pub exclusions: Arc<Finder>,
    /// The content of the project, and whether the user trusts it.
    pub project: Project,
    /// Notices about ignored settings of the project.
    pub notices: Vec<String>,
    /// All layers except the command line, for `pinion config show`.
    pub merged: toml::Table,
}

impl Config {
    /// Loads all layers.
    ///
    /// # Errors
    /// A file cannot be read, or is invalid; the error names the file, the line and the key.
    pub fn load(paths: &Paths, workspace: &Path, options: &RunOptions) -> Result<Self> {
        Self::over(users_over(defaults(options.is_conversation)?, paths)?, paths, workspace, options)
    }

    /// Loads everything except the user's file, for commands that explain the problem with that file.
    pub fn without_users_file(paths: &Paths, workspace: &Path, options: &RunOptions) -> Result<Self> {
        Self::over(defaults(options.is_conversation)?, paths, workspace, options)
    }

    /// Returns the config for a copy of the workspace. The same patterns and rules exclude files there.
    ///
    /// # Errors
    /// The patterns cannot be compiled.
    pub(crate) fn for_copy(&self, copy: &Path) -> std::result::Result<Self, InvalidPattern> {
        let unwritten = Finder::new(self.denied.unwritten.exclusions().for_workspace(copy)?);
        let denied = Denied { unwritten, ..self.denied.clone() };
        Ok(Self { exclusions: exclude::finder_in(&self.exclusions, copy)?, denied, ..self.clone() })
    }

    /// Loads the project's layer and the command line over the user's layers.
    fn over(mut merged: toml::Table, paths: &Paths, workspace: &Path, options: &RunOptions) -> Result<Self> {
        // Trust is the user's decision, so it is looked up before the project may set anything.
        let user = typed(&merged)?;
        let project = Project::open(paths, workspace, &user.trusted)?;
        let of_project = merge_project(&mut merged, &project)?;
        let (project_plugins, of_project, patterns, mut notices) = of_project;
        let text = read(&paths.config_file()).unwrap_or_default();
        let (own, others) = (paths.config_file(), workspace.join(CONFIG));
        let of_user = PatternList { patterns: &user.exclude, file: &own, text: text.as_deref() };
        let listed = PatternList { patterns: &patterns, file: &others, text: project.config() };
        let permissions = PermissionSettings {
            user: user.permissions.clone().checked(paths::home().as_deref())?,
            project: of_project,
        };
        let denied = Denied::new(paths, workspace, &permissions, &mut notices).map_err(Failure::usage)?;
        let exclusions = exclude::finder(workspace, &user, &of_user, &listed, &denied, &mut notices)?;
        let file = typed(&merged)?;
        let new_session_after = file.new_session_after()?;
        let (secrets, sandbox) = (plugin_secrets::defined(user.secrets)?, file.sandbox.settings(options));
        Ok(Self {
            model: options.model.clone().or(file.model),
            provider: options.provider.clone(),
            fallback: file.fallback,
            thinking: options.thinking.or(file.thinking).unwrap_or_default(),
            thinking_budget: file.thinking_budget,
            thinking_budgets: file.thinking_budgets,
            temperature: temperature(file.temperature)?,
            max_output_tokens: file.max_output_tokens,
            retry: file.retry.policy()?,
            cache: match file.cache {
                Some(CacheSetting::Off) => CachePolicy::Off,
                Some(CacheSetting::Auto) | None => CachePolicy::Auto,
            },
            summary_model: file.compaction.model.clone(),
            counter: file.compaction.counter(|name| std::env::var(name).ok())?,
            compaction: file.compaction.policy(),
            sub_agents: file.agents.policy()?,
            branches: file.branches,
            approve: options.approve.or(file.approve).map(ApprovalMode::from).unwrap_or_default(),
            tools: file.tools,
            exclude_tools: file.exclude_tools,
            ui: file.ui.unwrap_or_default(),
            keys: file.keys,
            tui: file.tui,
            stream: if options.stream { Some(true) } else { user.stream },
            turn_cost: user.turn_cost.unwrap_or(true),
            journal: user.journal.unwrap_or_default(),
            new_session_after,
            limits: limits(&file.limits, options),
            daily_limit: file.limits.max_cost_per_day.filter(|limit| *limit > 0.0),
            registry: providers::registry(&user.providers)?,
            providers: file.providers.into_iter().map(|(name, said)| (name, said.below(&paths.config))).collect(),
            plugins: file.plugins,
            user_plugins: user.plugins,
            project_plugins,
            process_environment: file.process.environment,
            permissions,
            denied,
            credentials: credentials::listed(&sandbox.credentials, &secrets)?,
            secrets,
            sandbox,
            undo: file.undo.settings(),
            engine_limits: file.engine.limits,
            mcp: user.mcp.below(&paths.config),
            exclusions,
            project,
            notices,
            merged,
        })
    }
}

impl Config {
    /// Returns whether the user's config asks for more output. Errors in the file are reported when it is loaded.
    pub fn is_verbose(paths: &Paths) -> bool {
        users(paths).and_then(|table| typed(&table)).is_ok_and(|file| file.verbose == Some(true))
    }

    /// Returns the entries of `trusted` in the user's config.
    pub fn trusted(paths: &Paths) -> Result<Vec<PathBuf>> {
        Ok(typed(&users(paths)?)?.trusted)
    }

    /// Returns the plugins in the user's config as the file is now.
    pub fn plugins_of_user(paths: &Paths) -> Result<BTreeMap<String, FilePlugin>> {
        Ok(typed(&users(paths)?)?.plugins)
    }

    /// Returns the secrets in the user's config as the file is now.
    pub fn secrets_of_user(paths: &Paths) -> Result<DefinedSecrets> {
        plugin_secrets::defined(typed(&users(paths)?)?.secrets)
    }

    /// Returns the settings that a project's config would change if it were trusted, and the ignored ones.
    pub fn preview(paths: &Paths, text: &str) -> Result<Restricted> {
        Ok(restrict(text, &users(paths)?))
    }
}

/// Merges the layers that belong to the user: the defaults and the user's file over them.
fn users(paths: &Paths) -> Result<toml::Table> {
    users_over(defaults(false)?, paths)
}

/// Returns the built-in defaults. The limits among them are for runs that no person watches.
fn defaults(is_watched: bool) -> Result<toml::Table> {
    let mut defaults = layer(DEFAULTS, "the built-in defaults")?;
    if is_watched {
        defaults.remove("limits");
    }
    Ok(defaults)
}

/// Merges the user's file over the layer below.
fn users_over(mut merged: toml::Table, paths: &Paths) -> Result<toml::Table> {
    if let Some(text) = read(&paths.config_file())? {
        merge(&mut merged, layer(&text, &paths.config_file().display().to_string())?);
    }
    Ok(merged)
}

fn read(path: &Path) -> Result<Option<String>> {
    read_settings(path)
        .map_err(|error| Failure::usage(format!("could not read the config `{}`", path.display())).because(error))
        .map_err(|failure| failure.hint("fix the file, or set PINION_HOME to a directory of your own"))
}

/// Parses one file and checks it by itself.
fn layer(text: &str, name: &str) -> Result<toml::Table> {
    let failed = |error: toml::de::Error| invalid(name, &error);
    toml::from_str::<File>(text).map_err(failed)?;
    toml::from_str(text).map_err(failed)
}

/// Describes an error in a file with its place. A mistyped key gets a suggestion instead of a list of all keys.
fn invalid(name: &str, error: &toml::de::Error) -> Failure {
    let (text, message) = (error.to_string(), error.message());
    let mut names = message.split('`').skip(1).step_by(2);
    let typed = names.next().filter(|_| message.starts_with("unknown field") || message.starts_with("unknown variant"));
    let meant = typed.and_then(|typed| nearest(typed, names));
    let shorter = meant.and(message.split_once(", ")).map_or(message, |(mistake, _)| mistake);
    let shorter = TYPES.iter().fold(shorter.to_owned(), |text, (rust, plain)| text.replace(rust, plain));
    let failure = Failure::usage(format!("invalid config `{name}`\n{}", text.trim_end().replace(message, &shorter)));
    match meant {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure,
    }
}

/// Names of types in the parser's messages, with names for people.
const TYPES: &[(&str, &str)] = &[
    ("expected f64", "expected a number"),
    ("expected u32", "expected a whole number"),
    ("expected u64", "expected a whole number"),
    ("expected usize", "expected a whole number"),
];

/// Converts the merged layers; each is valid by itself.
fn typed(merged: &toml::Table) -> Result<File> {
    let file = toml::Value::Table(merged.clone()).try_into();
    file.map_err(|error| Failure::usage("invalid config").because(error))
}

/// Lists whose entries in all layers add up.
const ADDED: [&str; 4] = ["exclude-tools", "exclude", "ask", "deny"];

fn merge(below: &mut toml::Table, above: toml::Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            // Grants replace each other as a whole: the user's are not added to the default ones.
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) if key != "files" => merge(below, above),
            (Some(toml::Value::Array(below)), toml::Value::Array(above)) if ADDED.contains(&&*key) => {
                below.extend(above)
            }
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

/// The plugin sections, the rules and the exclusions of a project, and notices about ignored settings.
type OfProject = (BTreeMap<String, FilePlugin>, FilePermissions, Vec<String>, Vec<String>);

/// Merges the permitted settings of a trusted project over the layers below, and returns its own sections and
/// notices about ignored settings. An invalid file is ignored as a whole, because it must not keep the user from
/// working.
fn merge_project(merged: &mut toml::Table, project: &Project) -> Result<OfProject> {
    let Some(text) = project.config() else { return Ok(Default::default()) };
    let Restricted { table, mut notices } = restrict(text, merged);
    match toml::Value::Table(table.clone()).try_into::<File>() {
        Ok(file) => {
            merge(merged, table);
            Ok((file.plugins, file.permissions, file.exclude, notices))
        }
        Err(error) => {
            notices.push(format!("`{CONFIG}` is not used: {}", line(error.message())));
            Ok((BTreeMap::new(), FilePermissions::default(), Vec::new(), notices))
        }
    }
}

fn temperature(said: Option<f64>) -> Result<Option<f64>> {
    match said {
        Some(temperature) if !(0.0..=2.0).contains(&temperature) => {
            Err(Failure::usage(format!("`temperature` is {temperature}")).hint("choose a number from 0 to 2"))
        }
        said => Ok(said),
    }
}

fn limits(file: &FileLimits, options: &RunOptions) -> RunLimits {
    RunLimits {
        max_turns: options.max_turns.or(file.max_turns),
        max_tokens: options.max_tokens.or(file.max_tokens),
        max_input_tokens: options.max_input_tokens.or(file.max_input_tokens),
        max_output_tokens: options.max_output_tokens.or(file.max_output_tokens),
        max_cost: options.max_cost.or(file.max_cost).filter(|max| *max > 0.0),
        max_time: options.timeout.or(file.timeout_seconds).map(Duration::from_secs),
        ends_between_turns: options.is_conversation,
    }
}

#[cfg(test)]
mod tests;
