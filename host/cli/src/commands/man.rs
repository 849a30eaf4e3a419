//! `pinion man`: the manual pages.

use crate::commands::Cli;
use clap::{Args, CommandFactory as _};
use clap_mangen::Man;
use pinion_app::failure::{Failure, Result};
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, print, text};
use std::path::PathBuf;

/// The arguments of `pinion man`.
#[derive(Debug, Args)]
#[command(after_help = "`pinion man plugin build | man -l -` shows a page.")]
pub(crate) struct ManualPage {
    /// The command to describe, such as `plugin build` [default: pinion itself]
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "words")]
    all: Option<PathBuf>,
}

impl ManualPage {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let mut command = Cli::command();
        command.build();
        if let Some(directory) = &self.all {
            let directory = invocation.base()?.workspace.join(directory);
            let failed = |error| Failure::failed(format!("could not write to {}", directory.display())).because(error);
            std::fs::create_dir_all(&directory).map_err(failed)?;
            clap_mangen::generate_to(command, &directory).map_err(failed)?;
            return print(&text!("wrote the manual pages to {}\n", directory.display().to_string()));
        }
        let mut at = &command;
        for word in &self.words {
            at = at.find_subcommand(word).ok_or_else(|| {
                Failure::usage(format!("no command `{}`", self.words.join(" ")))
                    .hint("`pinion --help` lists the commands")
            })?;
        }
        let mut page = Vec::new();
        let rendered = Man::new(at.clone()).render(&mut page);
        rendered.map_err(|error| Failure::failed("could not write the page").because(error))?;
        print(&Text::complete(&String::from_utf8_lossy(&page)))
    }
}
