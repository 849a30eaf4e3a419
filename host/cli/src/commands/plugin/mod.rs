//! `pinion plugin`: creates, builds, inspects and runs plugins.

mod binary;
mod build;
mod call;
mod consent;
mod grant;
mod new;
mod show;
mod storage;

use crate::failure::Result;
use crate::invocation::Invocation;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The arguments of `pinion plugin`.
#[derive(Debug, Args)]
pub(crate) struct Plugin {
    #[command(subcommand)]
    command: PluginCommand,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// Create a plugin in Rust in a new directory
    New {
        /// Name of the plugin and of its directory
        name: String,
    },
    /// Build the plugin in a directory
    Build {
        /// Directory with the plugin's Cargo.toml
        #[arg(default_value = ".", value_name = "DIR")]
        directory: PathBuf,
        /// Write the component to this file [default: target/pinion/NAME.wasm in DIR]
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Install the component for the user, which reloads it in every running pinion
        #[arg(long, conflicts_with = "out")]
        install: bool,
    },
    /// Add a manifest to a component built by other means
    Pack {
        /// File of the component
        file: PathBuf,
        /// Name of the plugin
        #[arg(long)]
        name: String,
        /// Version of the plugin
        #[arg(long, value_name = "VERSION", default_value = "0.1.0")]
        plugin_version: String,
        /// Description of the plugin in one line
        #[arg(long, default_value = "")]
        description: String,
        #[arg(long = "ask", value_name = "CAPABILITY", help = capabilities("Capability that the plugin asks for"))]
        asks: Vec<String>,
        /// Write the result to this file [default: FILE itself]
        #[arg(short, long, value_name = "OUT")]
        out: Option<PathBuf>,
    },
    /// Check that a component loads, without granting it anything
    Check {
        /// File of the component
        file: PathBuf,
    },
    /// List the plugins that a run would load
    List,
    /// Show a plugin's details
    Info {
        /// Name or file of the plugin
        plugin: String,
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
        #[arg(long = "grant", value_name = "CAPABILITY", help = capabilities("Capability to add for this call"))]
        grants: Vec<String>,
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
    /// Show what plugins store, or remove it
    ///
    /// Values belong to a plugin in one file: another file of the same name has its own. They stay when the file is removed.
    Storage {
        /// Name, file or key of the plugin [default: all plugins]
        plugin: Option<String>,
        /// Permanently remove all values of the plugin, in every workspace and session
        #[arg(long, requires = "plugin")]
        clear: bool,
        /// Do not ask for confirmation
        #[arg(short, long, requires = "clear")]
        yes: bool,
    },
}

/// Names all capabilities at the end of a help text.
fn capabilities(about: &str) -> String {
    format!("{about}: {}", pinion_plugin_runtime::capability_forms().join(", "))
}

impl Plugin {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = &invocation.base()?;
        match self.command {
            PluginCommand::New { name } => new::run(base, &name),
            PluginCommand::Build { directory, out, install } => build::run(base, &directory, out, install).await,
            PluginCommand::Pack { file, name, plugin_version, description, asks, out } => {
                let about = binary::About {
                    name,
                    version: plugin_version,
                    description,
                    asks: grant::parse(base, &asks)?.asks(),
                };
                let out = out.map(|out| base.workspace.join(out));
                binary::pack(&base.workspace, &base.workspace.join(file), about, out)
            }
            PluginCommand::Check { file } => show::check(base, &base.workspace.join(file)).await,
            PluginCommand::List => show::list(base).await,
            PluginCommand::Info { plugin } => show::info(base, &plugin).await,
            PluginCommand::Grant { plugin, capabilities } => consent::grant(base, &plugin, &capabilities).await,
            PluginCommand::Revoke { plugin, capabilities } => consent::revoke(base, &plugin, &capabilities).await,
            PluginCommand::Storage { plugin, clear, yes } => storage::run(base, plugin.as_deref(), clear, yes),
            PluginCommand::Call { plugin, tool, arguments, grants } => {
                call::run(base, &plugin, &tool, &arguments, &grants).await
            }
        }
    }
}
