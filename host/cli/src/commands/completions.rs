//! `pinion completions`: a completion script for a shell.

use crate::commands::Cli;
use clap::{Args, CommandFactory as _};
use pinion_app::failure::Result;
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, print};

/// The arguments of `pinion completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to complete for
    shell: clap_complete::Shell,
}

impl Completions {
    pub(crate) async fn run(self, _: &Invocation) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "pinion", &mut script);
        print(&Text::complete(&String::from_utf8_lossy(&script)))
    }
}
