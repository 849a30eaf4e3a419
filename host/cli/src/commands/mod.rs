//! The subcommands of `pinion`: one module and one row of the table each.
//!
//! The module of a command declares its arguments, a type that derives [`clap::Args`] and has a method `async fn
//! run(self, invocation: &Invocation) -> Result<()>`.

mod audit;
mod completions;
mod config;
mod demo;
mod doctor;
mod eval;
mod login;
mod man;
mod mcp;
#[cfg(test)]
mod mentions_tests;
mod model;
mod permissions;
mod plugin;
mod recorded_imports;
mod report;
mod rewind;
mod sandbox;
mod session;
mod session_bisect;
mod session_step;
mod swe_bench;
mod trust;
mod update;

use clap::{Parser, Subcommand};
use futures_util::future::BoxFuture;
use pinion_app::failure::Result;
use pinion_app::workspace_base::Base;
use pinion_console::args::{GlobalArgs, RunArgs};
use pinion_console::invocation::Invocation;

/// Offers to install the packages that a project names, before a conversation begins.
pub(crate) fn offer_packages(base: &Base) -> BoxFuture<'_, Result<()>> {
    Box::pin(plugin::packages::offer_at_start(base))
}

/// A coding agent for the terminal whose every tool is a sandboxed WebAssembly component
#[derive(Debug, Parser)]
#[command(
    name = "pinion",
    version,
    max_term_width = 80,
    args_conflicts_with_subcommands = true,
    after_help = "`pinion --help` explains all options, with examples, exit statuses and files.",
    after_long_help = include_str!("help.txt")
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Declares an enum of commands from their names, types and help texts.
macro_rules! commands {
    ($(#[doc = $help:literal] $name:ident($args:path)),* $(,)?) => {
        // Most runs name no command: the arguments of one are declared when it is parsed.
        #[derive(Debug, Subcommand)]
        #[command(defer = true)]
        pub(crate) enum Command {
            $(#[doc = $help] $name($args)),*
        }

        impl Command {
            pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
                match self {
                    $(Self::$name(args) => args.run(invocation).await),*
                }
            }
        }
    };
}

commands! {
    /// Watch a scripted model fix a bug in a scratch directory, with no key and no network
    Demo(demo::Demo),
    /// Create, build, inspect and run plugins
    Plugin(plugin::Plugin),
    /// Add, inspect and use MCP servers, or offer plugins as one
    Mcp(mcp::Mcp),
    /// Manage which projects may use their own config and plugins
    Trust(trust::Trust),
    /// List, remove or test permission rules
    Permissions(permissions::Permissions),
    /// Show the audit log: decisions and resource use of each call
    Audit(audit::AuditArgs),
    /// Run a command in the sandbox, or show its layers
    Sandbox(sandbox::Sandbox),
    /// List, show, compare, export, fork and delete sessions
    Session(session::SessionArgs),
    /// Write a bundle to repeat a session's plugin calls on another machine
    Report(report::ReportArgs),
    /// Evaluate agents: run cases, and list, show and compare the results
    Eval(eval::EvalArgs),
    /// Store the key of a provider
    Login(login::LoginArgs),
    /// Remove the stored key of a provider
    Logout(login::Logout),
    /// List models
    Model(model::ModelArgs),
    /// Show the config
    Config(config::ConfigArgs),
    /// Check the installation, keys and plugins
    Doctor(doctor::Doctor),
    /// Update Pinion, if it was installed from an archive
    Update(update::UpdateArgs),
    /// Print a shell completion script
    Completions(completions::Completions),
    /// Print a manual page
    Man(man::ManualPage),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn command_line_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn build_directory_is_not_the_workspace() {
        let cli = Cli::parse_from(["pinion", "plugin", "build", "here"]);
        assert_eq!(cli.global.work_in, None);
    }

    /// Shows how to add a command: its type and one row of a table.
    mod fake {
        use super::super::{Invocation, Result};
        use clap::{Args, Parser, Subcommand};
        use pinion_app::failure::Failure;

        #[derive(Debug, Args)]
        pub(crate) struct Greet {
            name: String,
        }

        impl Greet {
            async fn run(self, invocation: &Invocation) -> Result<()> {
                Err(Failure::failed(format!("hello {}, {}", self.name, invocation.global.verbose)))
            }
        }

        commands! {
            /// Greet someone
            Greet(Greet),
        }

        #[derive(Debug, Parser)]
        pub(super) struct Cli {
            #[command(subcommand)]
            pub(super) command: Command,
        }
    }

    #[tokio::test]
    async fn added_command_is_parsed_and_run() {
        let cli = fake::Cli::parse_from(["pinion", "greet", "you"]);
        let global = GlobalArgs { work_in: None, verbose: 2, quiet: false };
        let invocation = Invocation::new(RunArgs::default(), global, Default::default());
        assert_eq!(cli.command.run(&invocation).await.unwrap_err().to_string(), "hello you, 2");
    }
}
