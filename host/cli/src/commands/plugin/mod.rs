//! `pinion plugin`: creates, builds, inspects and runs plugins.

mod bench;
mod binary;
mod build;
mod call;
mod consent;
mod new;
pub(super) mod packages;
pub(super) mod replay;
pub(super) mod show;
mod storage;
mod template;
mod test;
mod test_model;
mod watch;
mod wit;

use self::consent::capabilities;
use clap::{Args, Subcommand};
use pinion_app::failure::Result;
use pinion_app::workspace_base::Base;
use pinion_console::invocation::Invocation;
use pinion_console::output::result_if_none;
use std::path::PathBuf;

/// The arguments of `pinion plugin`.
#[derive(Debug, Args)]
pub(crate) struct Plugin {
    #[command(subcommand)]
    command: PluginCommand,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// Create a plugin in a new directory
    New {
        /// Name of the plugin and of its directory
        name: String,
        /// Programming language of the plugin
        #[arg(long, value_enum, value_name = "LANGUAGE", default_value = "rust")]
        lang: new::Language,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the contract with plugins as WIT files, for toolchains of any language
    ///
    /// Without a directory, prints it. In a project that has a copy of the helper for its language, updates the copy, too.
    Wit {
        /// Directory of a project, which gets `wit/world.wit` and `wit/deps/pinion-plugin`, unless it uses the SDK for Rust
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
        /// Write the contract to FILE as a WIT package in binary form, which `wkg` publishes and fetches
        #[arg(long, value_name = "FILE", conflicts_with = "directory")]
        package: Option<PathBuf>,
        /// Print the reference of the contract as Markdown
        #[arg(long, conflicts_with_all = ["directory", "package", "json"])]
        reference: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Build the plugin in a directory
    ///
    /// Runs the steps in pinion-plugin.toml, or cargo. Installs no toolchain: a missing one is reported with the command
    /// that installs it.
    Build {
        /// Directory with the plugin's pinion-plugin.toml or Cargo.toml
        #[arg(default_value = ".", value_name = "DIR")]
        directory: PathBuf,
        /// Write the component to this file [default: build/NAME.wasm in DIR, target/pinion/NAME.wasm for Rust]
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Install the component for the user, which reloads it in every running pinion
        #[arg(long, conflicts_with = "out")]
        install: bool,
        /// Run the steps even if nothing changed since the last build
        #[arg(long)]
        force: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Build and install the plugin in a directory after each change
    ///
    /// Running sessions use each new version from their next call on.
    Watch {
        /// Directory of the project
        #[arg(default_value = ".", value_name = "DIR")]
        directory: PathBuf,
        /// Print one line of JSON per build
        #[arg(long)]
        json: bool,
    },
    /// Build the plugin in a directory and run the cases in its `tests` directory
    ///
    /// Each case has a workspace, stored values, grants, secrets and servers of its own, and nothing of the user's.
    Test {
        /// Directory of the project
        #[arg(default_value = ".", value_name = "DIR")]
        directory: PathBuf,
        /// Run only cases whose name contains this
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
        /// Test the component of the last build
        #[arg(long)]
        no_build: bool,
        /// Test only that this model calls the tools for the requests in tests/prompts.yaml (repeatable)
        #[arg(short, long = "model", value_name = "[PROVIDER/]MODEL", conflicts_with = "only")]
        models: Vec<String>,
        /// Number of trials of each phrasing of a request
        #[arg(long, value_name = "N", default_value = "1", requires = "models", value_parser = clap::value_parser!(u32).range(1..=100))]
        trials: u32,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Add a manifest to a component or core module built by other means, or change the one that it has
    ///
    /// Members of a finished component's manifest stay unless an option sets them.
    Pack {
        /// File of the component, or of a core module that becomes one
        file: PathBuf,
        /// Name of the plugin [default: from the manifest]
        #[arg(long)]
        name: Option<String>,
        /// Version of the plugin [default: from the manifest, or 0.1.0]
        #[arg(long, value_name = "VERSION")]
        plugin_version: Option<String>,
        /// Description of the plugin in one line [default: from the manifest]
        #[arg(long)]
        description: Option<String>,
        #[arg(long = "ask", value_name = "CAPABILITY", help = capabilities("Capability that the plugin asks for; `http` alone asks for servers of the user's choice"))]
        asks: Vec<String>,
        /// Limit to raise, such as memory-bytes=67108864
        #[arg(long = "limit", value_name = "NAME=VALUE")]
        limits: Vec<String>,
        /// Lifetime of the plugin's instances [default: from the manifest, or call]
        #[arg(long, value_enum, value_name = "LIFETIME")]
        lifetime: Option<LifetimeArgument>,
        /// Ignore the manifest of FILE, and begin with one that asks for nothing
        #[arg(long)]
        no_manifest: bool,
        /// Directory with the WIT of a core module
        #[arg(long, value_name = "DIR", default_value = "wit")]
        wit: PathBuf,
        /// World of a core module, if its WIT has several
        #[arg(long, value_name = "NAME")]
        world: Option<String>,
        /// Write the result to this file [default: FILE itself]
        #[arg(short, long, value_name = "OUT")]
        out: Option<PathBuf>,
        /// Install the result for the user
        #[arg(long, conflicts_with = "out")]
        install: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check that a component loads, without granting it anything
    Check {
        /// File of the component
        file: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the plugins that a run would load
    List {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a plugin's details
    Info {
        /// Name or file of the plugin
        plugin: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Call a tool of a plugin and print its result and resource usage
    Call {
        /// Name or file of the plugin
        plugin: String,
        /// Tool to call
        tool: String,
        /// Arguments of the tool as a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
        #[command(flatten)]
        more: call::More,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Call a tool of a plugin many times and print times and resource usage
    Bench {
        /// Name or file of the plugin
        plugin: String,
        /// Tool to call
        tool: String,
        /// Arguments of the tool as a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
        #[command(flatten)]
        more: call::More,
        /// Number of calls
        #[arg(short = 'n', long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
        calls: u32,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Repeat the calls of a session offline, from its journal, and compare the results
    ///
    /// Needs `journal = "on"` in the config while the session runs. Exits with status 1 if a call differs.
    Replay {
        /// ID of the session, or a unique prefix of it, or the path of its file, or the directory of a report
        session: String,
        /// Repeat only the calls of the plugin in this file, with its component
        #[arg(long, value_name = "FILE")]
        with: Option<PathBuf>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Grant capabilities to a plugin file in its current version
    ///
    /// The grants apply to this path and content. Without capabilities, confirms a file that has changed: it keeps its
    /// earlier grants and those that the config has for its name. Running sessions apply the change to the next call.
    Grant {
        /// Name or file of the plugin
        plugin: String,
        #[arg(value_name = "CAPABILITY", help = capabilities("Capabilities to grant"))]
        capabilities: Vec<String>,
    },
    /// Revoke capabilities of a plugin file
    ///
    /// Running sessions apply the change to the next call.
    Revoke {
        /// Name or file of the plugin
        plugin: String,
        #[arg(value_name = "CAPABILITY", help = capabilities("Capabilities to revoke [default: all]"))]
        capabilities: Vec<String>,
    },
    /// Show, export, import or remove the stored values of plugins
    ///
    /// Values belong to a plugin in one file: another file of the same name has its own. They stay when the file is removed.
    Storage(storage::StorageArguments),
    #[command(flatten)]
    Packages(packages::PackageCommand),
}

/// `--lifetime`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LifetimeArgument {
    /// A fresh instance for each call
    Call,
    /// An earlier instance of the same session where one is idle
    Reused,
    /// One instance, one call at a time
    Session,
}

impl From<LifetimeArgument> for pinion_plugin_runtime::Lifetime {
    fn from(lifetime: LifetimeArgument) -> Self {
        match lifetime {
            LifetimeArgument::Call => Self::Call,
            LifetimeArgument::Reused => Self::Reused,
            LifetimeArgument::Session => Self::Session,
        }
    }
}

impl Plugin {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let is_json = self.command.is_json();
        let done = match invocation.base() {
            Ok(base) => self.command.run(&base).await,
            Err(failure) => Err(failure),
        };
        if let (true, Err(failure)) = (is_json, &done) {
            result_if_none(&failure.as_json());
        }
        done
    }
}

impl PluginCommand {
    /// Returns whether the result is JSON.
    fn is_json(&self) -> bool {
        match self {
            Self::New { json, .. }
            | Self::Wit { json, .. }
            | Self::Build { json, .. }
            | Self::Watch { json, .. }
            | Self::Test { json, .. }
            | Self::Pack { json, .. }
            | Self::Check { json, .. }
            | Self::List { json }
            | Self::Info { json, .. }
            | Self::Call { json, .. }
            | Self::Bench { json, .. }
            | Self::Replay { json, .. } => *json,
            Self::Packages(command) => command.is_json(),
            Self::Grant { .. } | Self::Revoke { .. } | Self::Storage(_) => false,
        }
    }

    async fn run(self, base: &Base) -> Result<()> {
        match self {
            Self::New { name, lang, json } => new::run(base, &name, lang, json),
            Self::Wit { reference: true, .. } => wit::print_reference(),
            Self::Wit { package: Some(file), json, .. } => wit::write_package(base, &file, json),
            Self::Wit { directory, json, .. } => wit::run(base, directory.as_deref(), json),
            Self::Build { directory, out, install, force, json } => {
                let steps =
                    if force { pinion_devkit::steps::Steps::Always } else { pinion_devkit::steps::Steps::IfChanged };
                let destination = match out {
                    _ if install => build::Destination::Installed,
                    Some(out) => build::Destination::File(out),
                    None => build::Destination::Project,
                };
                build::run(base, &directory, destination, steps, json).await
            }
            Self::Replay { session, with, json } => replay::run(base, &session, with.as_deref(), json).await,
            Self::Watch { directory, json } => watch::run(base, &directory, json).await,
            Self::Test { directory, no_build, models, trials, json, .. } if !models.is_empty() => {
                let options = test_model::ModelOptions { models: &models, trials, is_built: no_build, as_json: json };
                test_model::run(base, &directory, options).await
            }
            Self::Test { directory, only, no_build, json, .. } => {
                let options = test::Options { only: only.as_deref(), is_built: no_build, as_json: json };
                test::run(base, &directory, options).await
            }
            Self::Pack {
                file,
                name,
                plugin_version,
                description,
                asks,
                limits,
                lifetime,
                no_manifest,
                wit,
                world,
                out,
                install,
                json,
            } => {
                let changes = binary::ManifestChanges {
                    name,
                    version: plugin_version,
                    description,
                    asks: consent::parse_asks(base, &asks)?,
                    limits: binary::limits(&limits)?,
                    lifetime: lifetime.map(Into::into),
                    is_fresh: no_manifest,
                };
                binary::pack(base, binary::Pack { file, out, install, wit, world }, changes, json).await
            }
            Self::Packages(command) => command.run(base).await,
            Self::Check { file, json } => show::check(base, &base.workspace.join(file), json).await,
            Self::List { json } => show::list(base, json).await,
            Self::Info { plugin, json } => show::info(base, &plugin, json).await,
            Self::Grant { plugin, capabilities } => consent::grant(base, &plugin, &capabilities).await,
            Self::Revoke { plugin, capabilities } => consent::revoke(base, &plugin, &capabilities).await,
            Self::Storage(arguments) => arguments.run(base).await,
            Self::Call { plugin, tool, arguments, more, json } => {
                call::run(base, &plugin, &tool, &arguments, &more, json).await
            }
            Self::Bench { plugin, tool, arguments, more, calls, json } => {
                let calls = usize::try_from(calls).unwrap_or(usize::MAX);
                let bench = bench::Bench { plugin: &plugin, tool: &tool, arguments: &arguments, more: &more, calls };
                bench::run(base, bench, json).await
            }
        }
    }
}
