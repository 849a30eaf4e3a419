//! `pinion plugin add`, `remove`, `update` and the other commands of packages. They run nothing of a package.

mod add;
mod compare;
mod described_tools;
mod fetch;
mod installed_parts;
mod manage;
mod project;
mod publish;
pub(in crate::commands) mod remote;
mod review;
mod search;
mod store_failure;

use clap::Subcommand;
use pinion_app::failure::Result;
use pinion_app::workspace_base::Base;
use std::path::PathBuf;

use self::add::Answers;
pub(crate) use self::installed_parts::installed_parts;
pub(crate) use self::manage::release_built;
pub(crate) use self::project::offer_at_start;

/// The commands of packages.
#[derive(Debug, Subcommand)]
pub(crate) enum PackageCommand {
    /// Install a package of plugins
    ///
    /// SOURCE is a component, an archive or a directory, an HTTPS address, `oci://HOST/NAME:TAG`, or `MARKETPLACE#NAME`.
    /// Shows the requested capabilities, and installs nothing until you agree. Runs no part of the package.
    Add {
        /// Source of the package, or its name in a configured index
        source: String,
        /// Require a signature with this public key, or with the key in this file
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
        /// Name the package in the project's .pinion/plugins.toml, and use this version only in projects that name it
        #[arg(long)]
        project: bool,
        /// Agree to everything that is shown
        #[arg(short, long)]
        yes: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Install the packages that the project names in .pinion/plugins.toml
    ///
    /// The project must be trusted. Shows the requested capabilities of all packages that are not installed, and asks
    /// once. Refuses a package with other content than the project names.
    Install {
        /// Agree to everything that is shown
        #[arg(short, long)]
        yes: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove an installed package with all its versions
    Remove {
        /// Name of the package
        name: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Update packages to the current versions of their sources
    ///
    /// Shows only additions. A version that asks for no more than the previous one needs no agreement.
    Update {
        /// Names of packages [default: all]
        names: Vec<String>,
        /// Agree to everything that is shown
        #[arg(short, long)]
        yes: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// List installed packages that have a newer version in an index
    Outdated {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Search the configured indexes for packages
    Search {
        /// Words in the name or description
        words: Vec<String>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the additions of a package or component compared with an earlier one
    ///
    /// Loads the components without granting them anything, to compare their tools. Lists changed texts, too.
    Diff {
        /// Source or installed `NAME[@VERSION]` of the old package
        old: String,
        /// Source or installed `NAME[@VERSION]` of the new package
        new: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare installed packages with the digests in the lock file
    Verify {
        /// Show a lock file that another program changed, and accept it if you agree
        #[arg(long)]
        accept: bool,
        /// Agree to everything that is shown
        #[arg(short, long, requires = "accept")]
        yes: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Activate a kept version of a package
    ///
    /// Running sessions use it from their next call on.
    Use {
        /// Package and version, such as greet@1.0.0
        #[arg(value_name = "NAME@VERSION")]
        package: String,
    },
    /// Activate the version of a package that was active before
    Rollback {
        /// Name of the package
        name: String,
    },
    /// Show the content of a component, archive, directory or address, without running any of it
    Inspect {
        /// Source of the package, or its name in a configured index
        source: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Sign a package and push it to a registry
    ///
    /// Creates your key on first use. Prints the list that users will see.
    Publish {
        /// Component, or directory of the package
        package: PathBuf,
        /// Registry, name and tag, such as oci://ghcr.io/acme/greet:1.0.0
        #[arg(long, value_name = "REFERENCE", required_unless_present = "out")]
        to: Option<String>,
        /// Write the archive and its signature to this directory instead
        #[arg(long, value_name = "DIR", conflicts_with = "to")]
        out: Option<PathBuf>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

impl PackageCommand {
    /// Returns whether the result is JSON.
    pub(super) fn is_json(&self) -> bool {
        match self {
            Self::Add { json, .. }
            | Self::Install { json, .. }
            | Self::Remove { json, .. }
            | Self::Update { json, .. }
            | Self::Outdated { json }
            | Self::Search { json, .. }
            | Self::Diff { json, .. }
            | Self::Verify { json, .. }
            | Self::Inspect { json, .. }
            | Self::Publish { json, .. } => *json,
            Self::Use { .. } | Self::Rollback { .. } => false,
        }
    }

    pub(super) async fn run(self, base: &Base) -> Result<()> {
        match self {
            Self::Add { source, key, project, yes, json } => {
                let answers = Answers { yes, as_json: json };
                match project {
                    true => project::add(base, &source, key.as_deref(), answers).await,
                    false => add::add(base, &source, key.as_deref(), answers).await,
                }
            }
            Self::Install { yes, json } => project::install(base, Answers { yes, as_json: json }).await,
            Self::Remove { name, json } => manage::remove(base, &name, json),
            Self::Update { names, yes, json } => add::update(base, &names, Answers { yes, as_json: json }).await,
            Self::Outdated { json } => search::outdated(base, json).await,
            Self::Search { words, json } => search::search(base, &words.join(" "), json).await,
            Self::Diff { old, new, json } => compare::diff(base, &old, &new, json).await,
            Self::Verify { accept: true, yes, .. } => manage::accept(base, yes),
            Self::Verify { json, .. } => manage::verify(base, json),
            Self::Use { package } => manage::use_version(base, &package),
            Self::Rollback { name } => manage::rollback(base, &name),
            Self::Inspect { source, json } => review::inspect(base, &source, json).await,
            Self::Publish { package, to, out, json } => {
                publish::publish(base, &package, to.as_deref(), out.as_deref(), json).await
            }
        }
    }
}
