//! `pinion session bisect`: finds the first call after which a command fails.

use crate::commands::sandbox::{environment, run_program};
use crate::commands::session_step::{call_line, diff_lines};
use clap::{Args, ValueEnum};
use pinion_app::failure::{Failure, Result};
use pinion_app::output::{count, shell_command};
use pinion_app::undo::bisection::{BisectEnd, BisectStep, Bisection, StateTest};
use pinion_app::undo::calls::{CallHistory, RecordedState, SessionCall, StateOrigin, diff_between, recorded_states};
use pinion_app::workspace_base::Base;
use pinion_checkpoints::{CheckpointStore, Diff};
use pinion_console::output::{Text, errors_of_program, note, print, result, text, written};
use pinion_session_store::SessionDirectory;
use serde::Serialize;
use std::io;
use std::process::{Command, ExitStatus, Stdio};

/// Runs the command, and maps its exit status so that it differs from the statuses of the sandbox and of the shell.
const WRAPPER: &str = r#""$@"; case $? in 0) exit 0;; 125) exit 3;; 126|127) exit 4;; *) exit 1;; esac"#;
/// Paths without copies to name.
const MAX_NAMED: usize = 5;

/// The arguments of `pinion session bisect`.
#[derive(Debug, Args)]
pub(super) struct BisectArgs {
    /// ID of the session, or a unique prefix of it
    id: String,
    /// Format of the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output_format: BisectFormat,
    /// Command that succeeds with good files, fails with bad ones, and exits with 125 if it cannot decide
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<String>,
}

/// `session bisect --output-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BisectFormat {
    /// Lines of text
    Text,
    /// One JSON object
    Json,
}

/// The result of a search.
#[derive(Debug, Serialize)]
struct BisectReport<'a> {
    /// The number of the call, from 1.
    call: usize,
    id: &'a str,
    tool: &'a str,
    arguments: &'a str,
    /// Whether something else changed the files just before the call.
    is_before_call: bool,
    /// The runs of the command.
    runs: usize,
    diff: String,
    /// The changes that the diff leaves out, because it would be too long.
    omitted_changes: usize,
}

impl BisectArgs {
    pub(super) async fn run(self, base: &Base, directory: &SessionDirectory, is_quiet: bool) -> Result<()> {
        let path = directory.find(&self.id).map_err(Failure::from)?;
        let CallHistory { calls, store, .. } = CallHistory::read(base, &path).map_err(Failure::from)?;
        let (states, shown) = (recorded_states(&calls), shell_command(&self.command));
        let store = checked(&states, store, &self.id)?;
        let mut tester = CommandTester { base, store: &store, command: &self.command, is_quiet, names_gaps: true };
        let (mut bisection, mut runs) = (Bisection::new(states.len()), 0);
        let end = loop {
            let state = match bisection.next_step() {
                BisectStep::Done(end) => break end,
                BisectStep::Test(state) => state,
            };
            runs += 1;
            let test = tester.test(&states[state]).await?;
            if !is_quiet {
                note(&text!("run {}: {} {}", runs, described(test), moment(&states[state])));
            }
            bisection.add(state, test);
        };
        let state = first_failing(end, &states, &shown)?;
        let diff = diff_between(&store, states[state - 1].tree, states[state].tree);
        let diff = diff.map_err(|error| Failure::failed("cannot show the changes of the call").because(error))?;
        let (StateOrigin::Call(at) | StateOrigin::Others(at)) = states[state].origin else {
            return Err(Failure::failed("the first state has no call"));
        };
        let is_before_call = matches!(states[state].origin, StateOrigin::Others(_));
        let Some(call) = calls.get(at) else { return Err(Failure::failed("the session has no such call")) };
        match self.output_format {
            BisectFormat::Text => print(&lines(at + 1, call, is_before_call, runs, &diff)),
            BisectFormat::Json => {
                let SessionCall { id, tool, arguments, .. } = call;
                let (diff, omitted_changes) = (diff.text, diff.omitted);
                let call = at + 1;
                written(result(&BisectReport {
                    call,
                    id,
                    tool,
                    arguments,
                    is_before_call,
                    runs,
                    diff,
                    omitted_changes,
                }))
            }
        }
    }
}

/// Returns the store that has the snapshots of all states.
fn checked(states: &[RecordedState], store: Option<CheckpointStore>, id: &str) -> Result<CheckpointStore> {
    let store = store.ok_or_else(|| {
        let failure = Failure::usage("checkpoints are off, so the files after each call are not known");
        failure.hint("turn them on with `enabled = true` in `[undo]` of the config")
    })?;
    if states.is_empty() {
        let failure = Failure::usage(format!("the session `{id}` has no snapshots around its calls"));
        return Err(failure.hint("take them in later sessions: pinion config set journal on"));
    }
    if states.len() == 1 {
        return Err(Failure::failed("no call of the session changed files"));
    }
    match states.iter().filter(|state| !store.has_tree(state.tree)).count() {
        0 => Ok(store),
        gone => {
            let of = format!("{} of {}", gone, count(states.len() as u64, "snapshot"));
            let failure = Failure::failed(format!("{of} of the session are not kept any more"));
            Err(failure.hint("`days` and `keep-bytes` in `[undo]` of the config say how long they are kept"))
        }
    }
}

/// Returns the first state in which the command fails.
///
/// # Errors
/// There is no such state, or it is not known.
fn first_failing(end: BisectEnd, states: &[RecordedState], command: &str) -> Result<usize> {
    let at = |state: usize| states.get(state).map_or_else(String::new, moment);
    Err(match end {
        BisectEnd::FirstFailing(state) if state > 0 => return Ok(state),
        BisectEnd::FirstFailing(_) | BisectEnd::FailsAtStart => {
            Failure::failed(format!("`{command}` fails before the first call, so no call is the cause"))
        }
        BisectEnd::SucceedsAtEnd => Failure::failed(format!("`{command}` succeeds after the last call")),
        BisectEnd::SkippedAtEnd => {
            Failure::failed(format!("`{command}` cannot decide after the last call: it exits with 125"))
        }
        BisectEnd::Undecided { succeeding, failing } => {
            let good = succeeding.map_or_else(|| "in no state before".to_owned(), at);
            let failure = Failure::failed(format!("`{command}` succeeds {good} and fails {}", at(failing)));
            failure.hint("it exits with 125 in all states between, so the call cannot be determined")
        }
    })
}

fn moment(state: &RecordedState) -> String {
    match state.origin {
        StateOrigin::Start => "before the first call".to_owned(),
        StateOrigin::Call(position) => format!("after call {}", position + 1),
        StateOrigin::Others(position) => format!("before call {}", position + 1),
    }
}

fn described(test: StateTest) -> &'static str {
    match test {
        StateTest::Succeeded => "succeeds",
        StateTest::Failed => "fails",
        StateTest::Skipped => "cannot decide",
    }
}

fn lines(number: usize, call: &SessionCall, is_before_call: bool, runs: usize, diff: &Diff) -> Text {
    let (mut out, runs) = (Text::default(), count(runs as u64, "run"));
    match is_before_call {
        false => out.line(text!("the command fails after call {} ({})", number, runs)),
        true => out.line(text!(
            "the command fails before call {} ({}): you, another program or a cancelled call changed files",
            number,
            runs
        )),
    }
    out.line(call_line(number, call));
    diff_lines(&mut out, diff);
    out
}

/// Runs a command with the files of a state.
struct CommandTester<'a> {
    base: &'a Base,
    store: &'a CheckpointStore,
    command: &'a [String],
    is_quiet: bool,
    /// Paths without copies were not named yet.
    names_gaps: bool,
}

impl CommandTester<'_> {
    /// Writes the files of a state to a temporary directory and runs the command there, in the sandbox of programs.
    async fn test(&mut self, state: &RecordedState) -> Result<StateTest> {
        let failed = |error: io::Error| Failure::failed("cannot create a directory for the command").because(error);
        let directory = tempfile::Builder::new().prefix("pinion-bisect-").tempdir().map_err(failed)?;
        let workspace = directory.path().canonicalize().map_err(failed)?;
        self.check_out(state, workspace.clone()).await?;
        let base = Base { workspace, ..self.base.clone() };
        let arguments: Vec<String> = ["-c", WRAPPER, "pinion-bisect"].map(str::to_owned).to_vec();
        let arguments = [arguments.as_slice(), self.command].concat();
        let is_quiet = self.is_quiet;
        let set_streams = |command: &mut Command| streams(command, is_quiet);
        let status = match base.sandbox() {
            Some(programs) => run_program(&base, &programs, "sh", &arguments, set_streams).await?,
            None => run_unconfined(&base, arguments, set_streams).await?,
        };
        match status.code() {
            Some(0) => Ok(StateTest::Succeeded),
            Some(1) => Ok(StateTest::Failed),
            Some(3) => Ok(StateTest::Skipped),
            Some(4) => {
                let command = shell_command(self.command);
                let failure = Failure::failed(format!("`{command}` could not be run {}", moment(state)));
                Err(failure.hint("where the command cannot run, let it exit with 125"))
            }
            _ => Err(Failure::failed(format!("the command was not run {}: {status}", moment(state)))),
        }
    }

    async fn check_out(&mut self, state: &RecordedState, workspace: std::path::PathBuf) -> Result<()> {
        let (store, tree) = (self.store.clone(), state.tree);
        let written = tokio::task::spawn_blocking(move || store.check_out(&store.tree(tree)?, &workspace)).await;
        let written = written.map_err(|error| Failure::failed("could not wait").because(error))?;
        let gaps = written.map_err(|error| {
            Failure::failed(format!("cannot write the files as they were {}", moment(state))).because(error)
        })?;
        if std::mem::take(&mut self.names_gaps) && !self.is_quiet {
            for (path, reason) in gaps.iter().take(MAX_NAMED) {
                note(&text!("! no copy of `{}`: {}", path.to_string(), reason.to_string()));
            }
        }
        Ok(())
    }
}

/// Runs a program of a user who turned the sandbox off.
async fn run_unconfined(
    base: &Base,
    arguments: Vec<String>,
    set_streams: impl FnOnce(&mut Command),
) -> Result<ExitStatus> {
    let mut command = Command::new("sh");
    command.args(arguments).current_dir(&base.workspace).env_clear().envs(environment(base));
    set_streams(&mut command);
    let ended = tokio::task::spawn_blocking(move || command.status()).await;
    let status = ended.map_err(|error| Failure::failed("could not wait").because(error))?;
    status.map_err(|error| Failure::failed("could not run `sh`").because(error))
}

/// Leaves stdout to the result.
fn streams(command: &mut Command, is_quiet: bool) {
    command.stdin(Stdio::null());
    match is_quiet {
        true => command.stdout(Stdio::null()).stderr(Stdio::null()),
        false => command.stdout(errors_of_program()).stderr(errors_of_program()),
    };
}
