//! The whole of Pinion in another program: `cargo run --release -p pinion-examples --bin embedded -- PROMPT`.
//!
//! The user's config, keys, trust, plugins and sandbox, and a saved session. With `PINION_SCRIPT`, a script replaces the model.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is how the program speaks")]

use pinion_agent::approval::DenyAll;
use pinion_app::failure::Result;
use pinion_app::options::RunOptions;
use pinion_app::{App, process};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    if let Some(code) = process::begin(|problem| eprintln!("{problem}")) {
        return code;
    }
    let prompt = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    work(&prompt).map_or_else(|failure| failure.status.into(), |()| ExitCode::SUCCESS)
}

#[tokio::main]
async fn work(prompt: &str) -> Result<()> {
    let script = std::env::var_os("PINION_SCRIPT").map(Into::into);
    let app = App::open(".", RunOptions { replay: script, ..RunOptions::default() })?;
    let agent = app.start(Arc::new(DenyAll { reason: "no user is here".to_owned() })).await?;
    agent.notices().iter().for_each(|notice| eprintln!("{notice}"));
    println!("{}", agent.run(prompt).await?.text());
    agent.end().await?;
    app.close().await;
    Ok(())
}
