//! The `pinion` command.
//!
//! `args` says what can be asked for, `config` what holds, `compose` puts the parts together; `print`, `plan` and `chat` are
//! the ways of running them, and each other command has a file of its own.

mod approve;
mod args;
mod commands;
mod config;
mod failure;
mod files;
mod model;
mod output;
mod plugins;
mod process;
mod prompt;
mod run;
mod trust;

use crate::args::{Cli, Command, ConfigCommand, GlobalArgs, RunArgs};
use crate::commands::{demo, doctor, plugin, session};
use crate::config::Config;
use crate::config::secrets;
use crate::failure::{Failure, Result, Status};
use crate::files::paths;
use crate::files::paths::Paths;
use crate::files::spill::Output;
use crate::model::exchanges::Exchanges;
use crate::output::terminal;
use crate::output::{Text, note, text};
use crate::process::{hardening, logging, signals};
use crate::run::compose::{Base, COMPILE_COMPONENT};
use crate::run::{chat, plan, print};
use clap::{CommandFactory as _, Parser as _};
use pinion_agent::Secrets;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// A guest that sits in a system call is not waited for when the program ends.
const SHUTDOWN: Duration = Duration::from_millis(200);

/// Threads for calls of plugins, each of which may have one for as long as its deadline allows; for loads, questions and
/// the line editor. About 250 calls run at once at most.
const MAX_BLOCKING_THREADS: usize = 512;

fn main() -> ExitCode {
    output::report_panics();
    hardening::start();
    // Not among the commands that clap knows: nobody but this program says it.
    if std::env::args_os().skip(1).eq([COMPILE_COMPONENT]) {
        return compile_component();
    }
    if let Err(error) = signals::install() {
        // Signals end the program all the same, without its terminal restored.
        note(&text!("! signals are not handled: {}", error.to_string()));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let secrets = secrets::of_environment();
    output::keep_out(secrets.clone());
    logging::start(cli.global.verbose, cli.global.quiet);
    match run(cli, &secrets) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            status(&failure)
        }
    }
}

/// Compiles the component that comes through stdin. Signals do to this process what they do to any.
fn compile_component() -> ExitCode {
    match pinion_plugin_runtime::compile_for_parent() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The parent reads it.
            note(&Text::block(format!("{error:#}")));
            Status::Failed.into()
        }
    }
}

/// The exit status of a failure; that of an interruption says which signal it was, as shells expect.
fn status(failure: &Failure) -> ExitCode {
    match (failure.status, signals::last()) {
        (Status::Interrupted, Some(signal)) => ExitCode::from(128 + signal),
        (status, _) => status.into(),
    }
}

/// Help and version go to stdout, wrong usage to stderr; either may be closed.
fn usage(error: &clap::Error) -> ExitCode {
    match output::usage(error) {
        Ok(()) if error.use_stderr() => Status::Usage.into(),
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => Status::Failed.into(),
    }
}

fn report(failure: &Failure) {
    let style = terminal::Style::of_stderr();
    note(&text!("{} {}", style.red("error:"), failure.text()));
}

fn run(cli: Cli, secrets: &Secrets) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("pinion")
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .build()
        .map_err(|error| Failure::failed(format!("could not start: {error}")))?;
    let done = runtime.block_on(dispatch(cli, secrets));
    runtime.shutdown_timeout(SHUTDOWN);
    done
}

async fn dispatch(cli: Cli, secrets: &Secrets) -> Result<()> {
    let Cli { run, global, command } = cli;
    match command {
        Some(Command::Completions { shell }) => return completions(shell),
        Some(Command::Demo) => return demo::run(&global).await,
        _ => {}
    }
    let paths = Paths::from_environment()?;
    let workspace = paths::workspace(global.work_in.as_deref())?;
    if let Some(Command::Trust(command)) = &command {
        return commands::trust::run(&paths, &workspace, command);
    }
    let mut config = Config::load(&paths, &workspace, &run)?;
    if command.is_none() && is_conversation(&run) && commands::trust::ask_again(&paths, &workspace, &config)? {
        config = Config::load(&paths, &workspace, &run)?;
    }
    let exchanges = Exchanges::of(&run)?;
    secrets::add_files(secrets, &paths, &config);
    let output = Arc::new(Output::new(paths.output()));
    let (secrets, base_url) = (secrets.clone(), run.base_url.clone());
    let base = Base { paths, workspace, config, exchanges, secrets, output, base_url };
    let done = match command {
        None => work(&base, &run, &global).await,
        Some(Command::Plugin(command)) => plugin::run(&base, command).await,
        Some(Command::Session(command)) => session::run(&base, command),
        Some(Command::Model(command)) => commands::model::run(&base, command).await,
        Some(Command::Config(command)) => show_config(&base, &command),
        Some(Command::Doctor) => doctor::run(&base).await,
        Some(Command::Demo | Command::Trust(_) | Command::Completions { .. }) => Ok(()),
    };
    base.output.close();
    done
}

/// Says whether a person at the terminal takes part.
fn is_conversation(args: &RunArgs) -> bool {
    let is_one_run = args.print || args.plan || args.execute.is_some();
    !is_one_run && terminal::is_interactive()
}

/// The ways to put the agent to work.
async fn work(base: &Base, args: &RunArgs, global: &GlobalArgs) -> Result<()> {
    match &args.execute {
        Some(plan) => plan::execute(base, args, global, plan).await,
        None if args.plan => plan::make(base, args, global).await,
        None if is_conversation(args) => chat::run(base, args, global).await,
        None => print::run(base, args, global).await,
    }
}

fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "pinion", &mut script);
    output::print(&Text::whole(&String::from_utf8_lossy(&script)))
}

fn show_config(base: &Base, command: &ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::Show => output::print(&Text::whole(&base.config.merged.to_string())),
        ConfigCommand::Path => output::print(&text!(
            "config {}\ndata   {}\ncache  {}\n",
            base.paths.config_file(),
            base.paths.data,
            base.paths.cache
        )),
    }
}
