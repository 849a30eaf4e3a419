//! `pinion config`: the config in effect and the paths of its files.

use crate::base::Base;
use crate::failure::Result;
use crate::files::paths::Paths;
use crate::invocation::Invocation;
use crate::output::{Text, print, text};
use clap::{Args, Subcommand};

/// The arguments of `pinion config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print the config in effect
    Show,
    /// Print the paths of the config, the data, the cache and the user's plugins
    Path,
}

impl ConfigArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        match self.command {
            ConfigCommand::Show => print(&Text::complete(&base.config.merged.to_string())),
            ConfigCommand::Path => print(&paths(&base)),
        }
    }
}

fn paths(base: &Base) -> Text {
    let Paths { data, cache, .. } = &base.paths;
    let (config, plugins) = (base.paths.config_file(), base.paths.plugins());
    text!("config  {}\ndata    {}\ncache   {}\nplugins {}\n", config, data, cache, plugins)
}
