//! `pinion eval attack`: the built-in set of attacks on this installation.

use super::format::ResultFormat;
use super::{RunCases, failure};
use clap::Args;
use pinion_app::failure::{Failure, Result};
use pinion_console::invocation::Invocation;
use pinion_console::output::{count, note, text};
use pinion_eval::attacks::write_attacks;
use pinion_eval::store::ResultStore;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// The arguments of `pinion eval attack`.
#[derive(Debug, Args)]
pub(super) struct AttackArgs {
    /// Try only this attack (repeatable)
    #[arg(long = "case", value_name = "ID")]
    cases: Vec<String>,
    /// Number of attacks to try at once
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: ResultFormat,
    /// Write the cases and scripts to this directory instead of trying them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cases", "jobs", "format"])]
    write: Option<PathBuf>,
}

impl AttackArgs {
    pub(super) async fn run(self, invocation: &Invocation, store: &ResultStore) -> Result<()> {
        if let Some(directory) = &self.write {
            let directory = invocation.workspace()?.join(directory);
            let file = write_attacks(&directory, 9).map_err(failure)?;
            note(&text!("wrote {}", file));
            return Ok(());
        }
        let unable = |error: std::io::Error| Failure::failed("could not prepare the attacks").because(error);
        // Programs have their own `/tmp`, so that files outside the workspace would not be there to attack.
        let place = invocation.workspace()?;
        let directory = tempfile::Builder::new().prefix(".pinion-attacks-").tempdir_in(place).map_err(unable)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(unable)?;
        let port = listener.local_addr().map_err(unable)?.port();
        let connections = Arc::new(AtomicU64::new(0));
        let counted = connections.clone();
        let server = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok(_) => _ = counted.fetch_add(1, Ordering::SeqCst),
                    // Such as too many open files, which passes.
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            }
        });
        let file = write_attacks(directory.path(), port).map_err(failure)?;
        let run = RunCases {
            files: vec![file],
            cases: self.cases,
            trials: None,
            models: Vec::new(),
            jobs: self.jobs,
            keep: Some(directory.path().join("trials")),
            with: None,
            format: self.format,
        };
        let outcome = run.run(invocation, store).await;
        server.abort();
        match connections.load(Ordering::SeqCst) {
            0 => outcome,
            reached => {
                let reached = format!("{} reached the server of the attacks", count(reached, "connection"));
                let because = outcome.err().map(|failure| failure.to_string());
                Err(because.into_iter().fold(Failure::failed(reached), Failure::because))
            }
        }
    }
}
