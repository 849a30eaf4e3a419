//! `--execute`: runs the steps of a plan one by one.
//!
//! The file is read again before each step, so changes by the user apply from the next step on. The host marks each
//! step when it begins and when it ends. A step whose run was interrupted, or killed with this program, stays
//! `running`: it may be half done, and the next run of it learns this. A step with a denied call is `failed`, even if
//! the model reports success.

use super::file::PlanFile;
use super::{command, end_of, gap, total};
use crate::print::{FinishedAgent, Headless, deny_unattended, fields, remedy};
use pinion_agent::approval::{ApprovalMode, DeniedCall};
use pinion_agent::message::StopReason;
use pinion_agent::step::StepStatus;
use pinion_agent::{Agent, Outcome, RunEnd, RunErrorKind};
use pinion_app::approve::Person;
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::workspace_base::Base;
use pinion_console::approve::TerminalApprover;
use pinion_console::args::{GlobalArgs, OutputFormat, RunArgs};
use pinion_console::output::terminal::is_interactive;
use pinion_console::output::{self, count, note, text, written};
use pinion_console::process::signals::interruptible_runs;
use pinion_orchestration::{AnswerError, Plan, execute_step};
use serde::Serialize;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) async fn execute(base: &Base, args: &RunArgs, global: &GlobalArgs, path: &Path) -> Result<()> {
    let file = PlanFile::new(&base.workspace, path);
    let (_, plan) = file.read()?;
    if plan.next_step().is_none() {
        return nothing_left(&file, &plan, args.output_format, global);
    }
    let headless = Headless::begin(base, args, global, approver(base)).await?;
    if !headless.ready.session.messages.is_empty() {
        return Err(Failure::usage("the session is not empty: a plan is executed in a new session"));
    }
    let agent = headless.ready.agent.clone();
    let mut execution = Execution { file: &file, agent: &agent, completed: Vec::new() };
    let (end, was_interrupted) = interruptible_runs(&agent, |interrupted| execution.all(interrupted)).await;
    let completed = execution.completed;
    let finished = headless.end().await?;
    let (end, failure) = match end {
        Ok(end) => (end, None),
        Err(failure) => (RunEnd::failed(RunErrorKind::Other, failure.to_string()), Some(failure)),
    };
    let outcome = total(&agent, end);
    answer(&finished, &file, &completed, &outcome)?;
    let ended = failure.map_or_else(|| finished.verdict(outcome, was_interrupted), Err);
    ended.map_err(|failure| failure.or_hint(hint(base, args, &file, global)))
}

/// Asks on the terminal if there is one.
fn approver(base: &Base) -> Arc<dyn Person> {
    if is_interactive() {
        Arc::new(TerminalApprover::new(base.permissions.clone()))
    } else {
        deny_unattended(base.config.approve, base.permissions.clone())
    }
}

/// Returns the remedy for an unfinished step.
fn hint(base: &Base, args: &RunArgs, file: &PlanFile, global: &GlobalArgs) -> String {
    let more = match base.config.approve {
        mode if mode != ApprovalMode::All && !is_interactive() => format!("; {}", remedy(base.config.approve)),
        _ => String::new(),
    };
    format!("`{}` continues with this step{more}", command(file, args, global))
}

fn nothing_left(file: &PlanFile, plan: &Plan, format: OutputFormat, global: &GlobalArgs) -> Result<()> {
    let steps = count(plan.steps.len() as u64, "step");
    let text = format!("nothing to do: all {steps} of `{}` are done", file.shown);
    if format != OutputFormat::Text {
        let fields = json!({
            "type": "result", "result": text, "stop_reason": "stop", "error": null, "plan": file.path.display().to_string(), "steps": [],
        });
        return written(output::result(&fields));
    }
    if !global.quiet {
        note(&text!("{}", text));
    }
    Ok(())
}

/// Writes the reports of the finished steps. The report of a failed one comes with the error.
fn answer(finished: &FinishedAgent, file: &PlanFile, completed: &[StepReport], outcome: &Outcome) -> Result<()> {
    let section = |completed: &StepReport| {
        format!("## Step {}: {}\n\n{}\n", completed.step, completed.title, completed.report.trim_end())
    };
    let done = completed.iter().filter(|completed| completed.status == StepStatus::Done);
    let text = done.map(section).collect::<Vec<_>>().join("\n");
    // JSON contains the bare text.
    let text =
        if text.is_empty() || finished.format() != OutputFormat::Text { text } else { format!("{0}{text}{0}", gap()) };
    let path = file.path.display().to_string();
    finished.answer(&text, outcome, fields([("plan", json!(path)), ("steps", json!(completed))]))
}

/// The result of a step.
#[derive(Debug, Serialize)]
pub(crate) struct StepReport {
    /// Counted from 1.
    step: usize,
    title: String,
    status: StepStatus,
    report: String,
}

/// The execution of a plan.
pub(crate) struct Execution<'a> {
    pub(crate) file: &'a PlanFile,
    pub(crate) agent: &'a Arc<Agent>,
    /// The steps that were run.
    pub(crate) completed: Vec<StepReport>,
}

impl Execution<'_> {
    /// Runs all unfinished steps, and returns how the last run ended.
    pub(crate) async fn all(&mut self, interrupted: Arc<AtomicBool>) -> Result<RunEnd> {
        // Bounded, because the file may gain steps as fast as they are done.
        for _ in 0..Plan::MAX_STEPS {
            if interrupted.load(Ordering::Acquire) {
                return Ok(RunEnd::Aborted);
            }
            let (text, plan) = self.file.read()?;
            let Some(index) = plan.next_step() else {
                return Ok(RunEnd::Done { stop_reason: StopReason::Stop });
            };
            self.file.begin(&text, index)?;
            if let Some(end) = self.step(&plan, index).await? {
                return Ok(end);
            }
        }
        Err(Failure::failed(format!("{} steps are done and more remain", Plan::MAX_STEPS)))
    }

    /// Runs a step. Returns how the run ended if the step is not done.
    async fn step(&mut self, plan: &Plan, index: usize) -> Result<Option<RunEnd>> {
        let (step, title) = (index + 1, plan.steps[index].title.clone());
        let named = format!("step {step} of {}, `{title}`,", plan.steps.len());
        let mut unanswered = None;
        let (status, report, end) = match execute_step(self.agent, plan, index).await {
            Ok(answer) if answer.value.done => (StepStatus::Done, answer.value.report, None),
            Ok(answer) => {
                let report = answer.value.report;
                let message = format!("{named} is not done: {report}");
                (StepStatus::Failed, report, Some(RunEnd::failed(RunErrorKind::Other, message)))
            }
            Err(AnswerError::Denied { calls, report }) => {
                let (message, is_unanswered) = denied(&calls);
                let message = format!("{named} is not done: {message}; {report}");
                unanswered = is_unanswered.then(|| Failure::new(Status::Denied, &message));
                (StepStatus::Failed, report, Some(RunEnd::failed(RunErrorKind::Other, message)))
            }
            Err(error) if error.is_abort() => return Ok(Some(RunEnd::Aborted)),
            Err(error) => {
                let report = if let AnswerError::NoAnswer { text, .. } = &error { text.clone() } else { String::new() };
                (StepStatus::Failed, report, Some(end_of(error)))
            }
        };
        let marked = self.file.finish(index, &title, status);
        self.completed.push(StepReport { step, title: title.clone(), status, report });
        marked.map_err(|failure| {
            let text = format!("step {step}, `{title}`, is {status}, but the plan could not be updated: {failure}");
            Failure::new(failure.status, text)
        })?;
        unanswered.map_or(Ok(end), Err)
    }
}

/// Explains why a step with denied calls failed, and returns whether no one could be asked.
fn denied(calls: &[DeniedCall]) -> (String, bool) {
    let is_unanswered = calls.iter().any(|call| call.is_unanswered);
    let mut tools: Vec<&str> =
        calls.iter().filter(|call| call.is_unanswered == is_unanswered).map(|call| call.tool.as_str()).collect();
    tools.sort_unstable();
    tools.dedup();
    let why = if is_unanswered { "no one could be asked about calls of" } else { "you denied calls of" };
    (format!("{why} `{}`", tools.join("`, `")), is_unanswered)
}
