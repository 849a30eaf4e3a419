//! Trials as processes of this program: `pinion -p --output-format stream-json`.
//!
//! A process per trial isolates a crash, a runaway memory and the signals of one trial from the others, and runs the
//! same code as a run of the user.

use futures_util::future::BoxFuture;
use pinion_agent::Event;
use pinion_agent::Usage;
use pinion_app::failure::{Failure, Result};
use pinion_console::output::line;
use pinion_eval::engine::{
    AgentTask, EngineFuture, JournalReplay, ScoringCall, SpendReport, TrialEngine, WorkspaceCommand,
};
use pinion_eval::evaluators::{CommandOutcome, RepeatedCalls};
use pinion_eval::trajectory::{EventCollector, Trajectory};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

/// Time that a stopped process has to end because of the terminal's signal, and then because of the runner's.
const NOTICE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit of a command that checks a workspace.
const CHECK: Duration = Duration::from_secs(600);
/// Maximum bytes of the arguments of a function, as the system limits an argument of a process.
const MAX_ARGUMENTS: usize = 120 << 10;
/// Bytes at the end of an output that are kept.
const KEPT: usize = 4 << 10;
/// Bytes of a report on repeated calls.
const MAX_REPORT: usize = 16 << 20;

/// Runs agents and commands in processes of this program.
pub(in crate::commands) struct ProcessEngine {
    program: PathBuf,
    /// A component that agents load besides the user's plugins.
    plugin: Option<PathBuf>,
}

impl ProcessEngine {
    pub(in crate::commands) fn new() -> Result<Self> {
        let program = std::env::current_exe();
        let program = program.map_err(|error| Failure::failed("could not find this program").because(error))?;
        Ok(Self { program, plugin: None })
    }

    /// Runs another version of this program.
    pub(super) fn from_program(program: PathBuf) -> Self {
        Self { program, plugin: None }
    }

    /// Loads a plugin for the agents.
    pub(in crate::commands) fn with_plugin(self, component: PathBuf) -> Self {
        Self { plugin: Some(component), ..self }
    }

    fn command(&self, workspace: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-C").arg(workspace).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    /// Returns the command that runs an agent on the prompt of this number, or on the plan.
    fn agent(&self, task: &AgentTask<'_>, number: usize) -> Command {
        let mut command = self.command(task.workspace);
        command.envs(task.environment.into_iter().flatten());
        command.args(["-p", "--quiet", "--output-format", "stream-json"]);
        command.arg("--session").arg(task.scratch.join("session.jsonl"));
        if let Some(plugin) = &self.plugin {
            command.arg("--plugin").arg(plugin);
        }
        if let Some(replay) = task.replay.get(number) {
            command.arg("--replay").arg(replay);
        }
        let limits = task.limits;
        let options = [
            ("--model", task.model.map(str::to_owned)),
            ("--system-prompt", task.system_prompt.map(str::to_owned)),
            ("--approve", task.approve.map(str::to_owned)),
            ("--max-turns", limits.turns.map(|n| n.to_string())),
            ("--max-tokens", limits.tokens.map(|n| n.to_string())),
            ("--max-input-tokens", limits.input_tokens.map(|n| n.to_string())),
            ("--max-output-tokens", limits.output_tokens.map(|n| n.to_string())),
            ("--max-cost", limits.cost.map(|n| n.to_string())),
            ("--timeout", limits.seconds.map(|n| n.to_string())),
        ];
        for (name, value) in options.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            command.arg(format!("{name}={value}"));
        }
        match task.tools {
            Some([]) => drop(command.arg("--no-tools")),
            Some(tools) => drop(command.arg(format!("--tools={}", tools.join(",")))),
            None => {}
        }
        match (task.execute, task.prompts.get(number)) {
            (Some(plan), _) => drop(command.arg(format!("--execute={plan}"))),
            (None, Some(prompt)) => drop(command.arg("--").arg(prompt)),
            (None, None) => {}
        }
        command
    }
}

impl TrialEngine for ProcessEngine {
    fn run<'a>(
        &'a self,
        task: AgentTask<'a>,
        spent: SpendReport<'a>,
        stop: &'a CancellationToken,
    ) -> EngineFuture<'a, Trajectory> {
        Box::pin(async move {
            let mut whole = Trajectory::default();
            for number in 0..task.prompts.len() + usize::from(task.execute.is_some()) {
                let before = (whole.usage, if number == 0 { Some(0.0) } else { whole.cost });
                let sum = |(usage, cost): (Usage, Option<f64>)| {
                    spent(before.0.combine(&usage), before.1.zip(cost).map(|(one, other)| one + other));
                };
                let workspace = task.workspace.to_string_lossy();
                let trajectory = follow(self.agent(&task, number), &workspace, &sum, stop).await?;
                let is_done = matches!(trajectory.end, Some(pinion_agent::RunEnd::Done { .. }));
                whole.append(trajectory);
                if !is_done {
                    break;
                }
            }
            Ok(whole)
        })
    }

    fn call<'a>(&'a self, call: ScoringCall<'a>, stop: &'a CancellationToken) -> EngineFuture<'a, String> {
        let mut process = self.command(call.workspace);
        let (function, arguments) = (call.function, call.arguments.to_string());
        process.args(["--quiet", "plugin", "call", &function.plugin, &function.tool, &arguments]);
        Box::pin(async move {
            if arguments.len() > MAX_ARGUMENTS {
                return Err(format!("its arguments are longer than {MAX_ARGUMENTS} bytes"));
            }
            let ended = run_to_end(process, KEPT, stop).await?;
            if ended.status.success() { Ok(ended.out) } else { Err(line(problem_in(&ended.err))) }
        })
    }

    fn repeat<'a>(&'a self, replay: JournalReplay<'a>, stop: &'a CancellationToken) -> EngineFuture<'a, RepeatedCalls> {
        let mut process = self.command(replay.directory);
        process.args(["--quiet", "plugin", "replay", "--json"]);
        if let Some(component) = replay.component {
            process.arg("--with").arg(component);
        }
        process.arg("--").arg(replay.session);
        Box::pin(async move {
            let ended = run_to_end(process, MAX_REPORT, stop).await?;
            // The status is 1 if a call differs.
            RepeatedCalls::from_report(&ended.out).map_err(|error| match problem_in(&ended.err) {
                "" => error,
                problem => line(problem.split("\nhint: ").next().unwrap_or(problem)),
            })
        })
    }

    fn check<'a>(
        &'a self,
        command: WorkspaceCommand<'a>,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, CommandOutcome> {
        let mut process = self.command(command.workspace);
        process.args(["--quiet", "sandbox", "--", "sh", "-c", command.command]);
        Box::pin(async move {
            let failed = |report: String| CommandOutcome { succeeded: false, report };
            match run_to_end(process, KEPT, stop).await {
                Ok(ended) if ended.status.success() => CommandOutcome { succeeded: true, report: String::new() },
                Ok(ended) => failed(line(&format!("{}\n{}", ended.out.trim(), ended.err.trim()))),
                Err(problem) => failed(problem),
            }
        })
    }
}

/// A process that ended, with the ends of its outputs.
struct EndedProcess {
    status: ExitStatus,
    out: String,
    err: String,
}

/// Runs a process that answers in its output, of which the last `kept` bytes are returned.
async fn run_to_end(
    mut process: Command,
    kept: usize,
    stop: &CancellationToken,
) -> std::result::Result<EndedProcess, String> {
    let mut child = process.spawn().map_err(|error| format!("could not start it: {error}"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let ended = async { tokio::join!(child.wait(), end_of(out, kept), end_of(err, KEPT)) };
    let (status, out, err) = tokio::select! {
        ended = tokio::time::timeout(CHECK, ended) => {
            ended.map_err(|_| format!("it took more than {} seconds", CHECK.as_secs()))?
        }
        () = stop.cancelled() => return Err("stopped".to_owned()),
    };
    let status = status.map_err(|error| error.to_string())?;
    Ok(EndedProcess { status, out, err })
}

/// Returns the error in the error output of a command, without the notices before it.
fn problem_in(output: &str) -> &str {
    let start = output.find("error: ").map_or(0, |at| at + "error: ".len());
    output[start..].trim()
}

/// Reads a stream to its end, and returns the last `kept` bytes as text.
async fn end_of(stream: Option<impl AsyncRead + Unpin>, kept: usize) -> String {
    let (mut end, mut buffer) = (Vec::new(), vec![0; KEPT]);
    let Some(mut stream) = stream else { return String::new() };
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        end.extend_from_slice(&buffer[..read]);
        end.drain(..end.len().saturating_sub(kept));
    }
    String::from_utf8_lossy(&end).into_owned()
}

/// Runs an agent and collects its events. The last line is the result of the command.
async fn follow(
    mut command: Command,
    workspace: &str,
    spent: &(dyn Fn((Usage, Option<f64>)) + Send + Sync),
    stop: &CancellationToken,
) -> std::result::Result<Trajectory, String> {
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("could not start the agent: {error}"))?;
    let errors = tokio::spawn(end_of(child.stderr.take(), KEPT));
    let Some(out) = child.stdout.take() else { return Err("the agent has no output".to_owned()) };
    let mut lines = BufReader::new(out).lines();
    let (mut collector, mut outcome) = (EventCollector::new(Some(workspace)), Value::Null);
    // The number of the next signal, and its time, once the agent is to stop.
    let (mut signals, mut wake) = (0, tokio::time::Instant::now());
    loop {
        let next = tokio::select! {
            next = lines.next_line() => next,
            () = stop.cancelled(), if signals == 0 => {
                // A signal of the terminal reaches the agent, too.
                (signals, wake) = (1, tokio::time::Instant::now() + NOTICE);
                continue;
            }
            () = tokio::time::sleep_until(wake), if (1..=2).contains(&signals) => {
                // The process has not been waited for, so its id is its own.
                signal(&child, signals == 2);
                (signals, wake) = (signals + 1, tokio::time::Instant::now() + PATIENCE);
                continue;
            }
        };
        let Some(text) = next.map_err(|error| format!("could not read the agent's output: {error}"))? else { break };
        let Ok(mut value) = serde_json::from_str::<Value>(&text) else { continue };
        if value["type"] == "result" {
            outcome = value;
            continue;
        }
        // The stream leaves out the messages of a run at its end, because it had them before.
        if value["type"] == "agent_end" {
            value["messages"] = Value::Array(Vec::new());
        }
        if let Ok(event) = serde_json::from_value::<Event>(value) {
            collector.record_event(&event, started.elapsed());
            spent(collector.spent());
        }
    }
    let status = child.wait().await.map_err(|error| format!("could not wait for the agent: {error}"))?;
    let errors = errors.await.unwrap_or_default();
    let trajectory = collector.finish();
    if trajectory.end.is_some() || signals > 0 {
        return Ok(trajectory);
    }
    let problem = outcome["error"].as_str().map_or_else(|| errors.trim().to_owned(), str::to_owned);
    Err(format!("the agent failed ({status}): {}", line(&problem)))
}

/// Asks a process to end, or ends it.
#[cfg(unix)]
fn signal(child: &Child, is_last: bool) {
    use rustix::process::{Pid, Signal, kill_process};
    let signal = if is_last { Signal::KILL } else { Signal::INT };
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    // It may have ended already.
    let _ = id.map(|id| kill_process(id, signal));
}

#[cfg(not(unix))]
fn signal(_: &Child, _: bool) {}
