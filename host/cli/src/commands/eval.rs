//! `pinion eval`: measures agents.

use crate::commands::swe_bench::SweBench;
use crate::invocation::Invocation;
use clap::{Args, Subcommand};
use pinion_app::failure::Result;

/// The arguments of `pinion eval`.
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    command: EvalCommand,
}

#[derive(Debug, Subcommand)]
enum EvalCommand {
    /// Solve the instances of SWE-bench and write predictions for its harness
    SweBench(SweBench),
}

impl EvalArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        match self.command {
            EvalCommand::SweBench(bench) => bench.run(invocation).await,
        }
    }
}
