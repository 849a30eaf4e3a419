//! The `pinion` command.
//!
//! [`commands`] declares the command line. The crate `pinion-conversation` puts the agent to work, `pinion-console` has the
//! options and the terminal, and `pinion-app` has the rest: config, trust, plugins and the assembly of a run.

mod command_line;
mod commands;
#[cfg(feature = "local-models")]
mod local_models;
mod mcp;

use crate::commands::Cli;
use pinion_app::config::{Config, secrets};
use pinion_app::failure::{Failure, MORE_THREADS, Result, Status};
use pinion_app::files::paths::Paths;
use pinion_app::process::own_command::COMPILE_PLUGINS;
use pinion_app::process::{begin, hardening, own_command};
use pinion_console::args::OutputFormat;
use pinion_console::invocation::Invocation;
use pinion_console::output::{self, Text, note, text};
use pinion_console::process::closed_stdout::stdout_was_closed;
use pinion_console::process::{logging, signals};
use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// Time that the end of the program waits for threads. A guest in a system call may take longer.
const SHUTDOWN: Duration = Duration::from_millis(200);

/// Threads for plugin calls, loads, questions and the line editor. Each call may hold a thread until its deadline. At
/// most about 250 calls run at once.
const MAX_BLOCKING_THREADS: usize = 512;

/// The least address space to start in: a refused allocation in the middle of a run would abort the program. The program
/// and its threads take about 150 MiB.
const MIN_ADDRESS_SPACE: u64 = 512 << 20;

/// The least number of open files to start with: below it, the runtime cannot begin, and says so by a panic.
const MIN_OPEN_FILES: u64 = 16;

/// The remedy if the runtime cannot begin.
const MORE_RESOURCES: &str = "raise the limits on open files (`ulimit -n 1024`) and on processes (`ulimit -u`)";

/// Bytes of the stack that commands run on.
const STACK: usize = 8 << 20;

/// Exit status after a panic, as the standard library has it.
const PANICKED: u8 = 101;

fn main() -> ExitCode {
    output::report_panics();
    // Not among the commands that clap knows, because only this program uses them.
    if let Some(code) = begin(|problem| note(&Text::block(problem))) {
        return code;
    }
    on_stack(run_program)
}

/// Runs the program on a stack of the usual size. The first thread's stack is as small as the limit of the shell
/// (`ulimit -s`), and an overflow would end the program without a hint.
fn on_stack(program: fn() -> ExitCode) -> ExitCode {
    let thread = std::thread::Builder::new().name("main".to_owned()).stack_size(STACK).spawn(program);
    match thread.map_err(|error| Failure::failed("could not start a thread").because(error).hint(MORE_THREADS)) {
        // The hook has reported a panic.
        Ok(thread) => thread.join().unwrap_or(ExitCode::from(PANICKED)),
        Err(failure) => {
            output::report(&failure, OutputFormat::Text);
            status(&failure)
        }
    }
}

fn run_program() -> ExitCode {
    if let Err(failure) = check_open_files(hardening::open_files()) {
        output::report(&failure, command_line::output_format(&std::env::args_os().collect::<Vec<_>>()));
        return status(&failure);
    }
    if let Err(error) = signals::install() {
        // Signals still end the program, but without restoring its terminal.
        note(&text!("! could not handle signals: {}", error.to_string()));
    }
    let mut args: Vec<_> = std::env::args_os().collect();
    let _turn = match args.iter().skip(1).eq([COMPILE_PLUGINS]).then(own_command::compile_turn) {
        Some(None) => return ExitCode::SUCCESS,
        Some(turn) => {
            args = own_command::compile_command_line();
            turn
        }
        None => None,
    };
    let format = command_line::output_format(&args);
    if format != OutputFormat::Text {
        signals::at_end(move || output::report_result(&Failure::new(Status::Interrupted, "interrupted"), format));
    }
    let cli = match command_line::parse(args.clone()) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, format),
    };
    let checked = check_environment(SystemTime::now(), hardening::address_space())
        .and_then(|()| command_line::check_prompt(&cli, &args));
    match checked.and_then(|()| start(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::report(&failure, format);
            status(&failure)
        }
    }
}

/// Fails if the output would be lost, if memory could not be allocated, or if times cannot be represented.
fn check_environment(now: SystemTime, address_space: Option<u64>) -> Result<()> {
    if stdout_was_closed() {
        let closed = Failure::failed("could not write to stdout: it is closed");
        return Err(closed.hint("redirect it, for example with `> /dev/null`"));
    }
    if let Some(limit) = address_space.filter(|limit| *limit < MIN_ADDRESS_SPACE) {
        let (limit, least) = (limit >> 20, MIN_ADDRESS_SPACE >> 20);
        let low = Failure::failed(format!("the limit on address space is {limit} MiB, of which pinion needs {least}"));
        return Err(low.hint("raise it with `ulimit -v unlimited`; control groups limit memory without it"));
    }
    let in_range = jiff::Timestamp::try_from(now).map(drop);
    in_range.map_err(|error| Failure::failed("could not use the system's clock").because(error).hint("set the clock"))
}

/// Fails if even the handlers of signals could not start.
fn check_open_files(limit: Option<u64>) -> Result<()> {
    let Some(limit) = limit.filter(|limit| *limit < MIN_OPEN_FILES) else { return Ok(()) };
    let low = Failure::failed(format!("too many open files: the limit is {limit}, of which a run needs 64"));
    Err(low.hint("raise it with `ulimit -n 1024`"))
}

/// The exit status of a failure. An interruption reports its signal in the way that shells expect, and so does a
/// failure because the terminal was closed.
fn status(failure: &Failure) -> ExitCode {
    match (failure.status, signals::last()) {
        (Status::Interrupted, Some(signal)) => ExitCode::from(128 + signal),
        (Status::Failed, Some(signal)) if signals::is_final() => ExitCode::from(128 + signal),
        (status, _) => status.into(),
    }
}

/// Writes help and version to stdout, wrong usage to stderr. Either may be closed.
fn usage(error: &clap::Error, format: OutputFormat) -> ExitCode {
    let written = output::usage(error);
    match written {
        _ if error.use_stderr() => {
            output::report_usage(error, format);
            Status::Usage.into()
        }
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::report(&output::stdout_failure(error), format);
            Status::Failed.into()
        }
    }
}

/// Starts the asynchronous runtime, and runs the command on it.
fn start(mut cli: Cli) -> Result<()> {
    if cli.global.verbose == 0
        && !cli.global.quiet
        && Paths::from_environment().is_ok_and(|paths| Config::is_verbose(&paths))
    {
        cli.global.verbose = 1;
    }
    let secrets = secrets::of_environment();
    output::keep_out(secrets.clone());
    logging::start(cli.global.verbose, cli.global.quiet);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("pinion")
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .build()
        .map_err(|error| Failure::failed("could not start").because(error).hint(MORE_RESOURCES))?;
    let invocation = Invocation::new(cli.run, cli.global, secrets);
    #[cfg(feature = "local-models")]
    let invocation = invocation.completed_by(local_models::attached);
    let done = runtime.block_on(async {
        // Boxed, because the future of all commands is large, and is moved before it runs.
        match cli.command {
            Some(command) => Box::pin(command.run(&invocation)).await,
            None => Box::pin(pinion_conversation::run(&invocation, commands::offer_packages)).await,
        }
    });
    invocation.close();
    runtime.shutdown_timeout(SHUTDOWN);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_beyond_all_calendars_is_an_error() {
        assert!(check_environment(SystemTime::now(), None).is_ok());
        let beyond = SystemTime::UNIX_EPOCH + Duration::from_secs(300_000_000_000);
        assert!(check_environment(beyond, None).unwrap_err().to_string().contains("could not use the system's clock"));
    }

    #[test]
    fn address_space_that_is_too_small_is_an_error() {
        let checked = |mebibytes: u64| check_environment(SystemTime::now(), Some(mebibytes << 20));
        assert!(checked(200).unwrap_err().to_string().contains("is 200 MiB"));
        assert!(checked(512).is_ok());
    }

    #[test]
    fn too_few_open_files_are_an_error() {
        let checked = |files: u64| check_open_files(Some(files));
        assert!(checked(6).unwrap_err().to_string().contains("the limit is 6"));
        assert!(checked(16).is_ok());
    }
}
