//! A single run without a conversation: the answer on stdout, everything else on stderr.

use crate::cost::TurnMeter;
use crate::images::with_images_named_in;
use crate::patch::{FinishedPatch, RunPatch};
use crate::prompt_input::{naming_text, no_prompt, read_prompt};
use crate::render::{Detail, Renderer};
use crate::run_end::{self, error_kind, problem, stop_reason};
use crate::runs::Runs;
use crate::streamed::Streamed;
use crate::waiting::WaitingForModel;
use futures_util::future::BoxFuture;
use pinion_agent::approval::{ApprovalMode, Approver, Decision, DeniedCall, Question};
use pinion_agent::channel::EventReceiver;
use pinion_agent::content::text_of;
use pinion_agent::dialog::UserInterface;
use pinion_agent::message::StopReason;
use pinion_agent::text::one_line;
use pinion_agent::{Agent, Event, EventKind, Outcome, RunEnd, RunErrorKind};
use pinion_app::approve::Person;
use pinion_app::approve::permissions::CallPermissions;
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::plugins::sources::Purpose;
use pinion_app::run::notices::{describe, describe_problem};
use pinion_app::run::setup::Ready;
use pinion_app::workspace_base::Base;
use pinion_console::args::{GlobalArgs, OutputFormat, RunArgs};
use pinion_console::output::terminal::Style;
use pinion_console::output::{self, Text, note, text};
use pinion_console::process::signals::{self, interruptible};
use pinion_plugin_runtime::{Notice, NoticeEvent, Watch};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Maximum number of events that wait for stdout.
const CHANNEL: usize = 256;
/// Maximum characters of the summary of a call, and of its result's summary.
const INPUT_SUMMARY: usize = 100;
const OUTPUT_SUMMARY: usize = 80;
/// Arguments that summarize a call; the first one present is shown.
const TELLING: [&str; 5] = ["command", "path", "query", "pattern", "url"];
/// Time that an interrupted run has for its output.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time before plugin files are watched: shorter runs need no watcher.
const WATCH_AFTER: Duration = Duration::from_millis(500);

pub(crate) async fn run(base: &Base, args: &RunArgs, global: &GlobalArgs) -> Result<()> {
    let prompt = match read_prompt(args, global)? {
        None if !args.continues() => return Err(no_prompt()),
        prompt => prompt,
    };
    let headless =
        Headless::begin(base, args, global, deny_unattended(base.config.approve, base.permissions.clone())).await?;
    let (ready, agent) = (&headless.ready, headless.ready.agent.clone());
    if prompt.is_none() && !ready.is_unfinished() {
        return Err(Failure::usage("no prompt, and the session has no unfinished run to continue")
            .hint("add a prompt: `pinion -p -c \"TASK\"`"));
    }
    let message = prompt.map(|prompt| {
        let naming = naming_text(args, &prompt);
        let (message, problems) = with_images_named_in(base, &ready.info.model(), prompt.into(), &naming);
        problems.iter().filter(|_| !global.quiet).for_each(|problem| note(&text!("! {}", problem)));
        message
    });
    let meter = TurnMeter::begin(base, &agent);
    let (outcome, was_interrupted) = interruptible(&agent, ready.work(message.into_iter().collect())).await;
    let outcome = outcome.map_err(Failure::from)?;
    // Cleaned again, because a secret may be spread over parts of a message.
    let text = base.secrets.clean(&outcome.text()).into_owned();
    let text = if is_on_screen(args.output_format, global) { String::new() } else { text };
    let finished = headless.end().await?;
    finished.answer(&text, &outcome, Map::new())?;
    if !global.quiet {
        finished.remark(&outcome);
    }
    say_turn_cost(base, global, meter, &outcome);
    if !was_interrupted && let Some(notice) = finished.ready.compile_later(base).filter(|_| !global.quiet) {
        note(&text!("! {}", Text::block(notice)));
    }
    finished.verdict(outcome, was_interrupted)
}

/// Writes the line about the turn to stderr in a detailed run.
fn say_turn_cost(base: &Base, global: &GlobalArgs, meter: TurnMeter, outcome: &Outcome) {
    let (line, _) = meter.end(outcome);
    let is_wanted = base.config.turn_cost && global.verbose > 0 && !global.quiet;
    line.filter(|_| is_wanted).into_iter().for_each(|line| note(&Style::of_stderr().dim(line)));
}

/// Returns whether a run succeeded without an answer, which would look like a failure of the command.
fn is_silent(outcome: &Outcome) -> bool {
    matches!(outcome.end, RunEnd::Done { .. }) && outcome.text().trim().is_empty()
}

/// An agent without a conversation, and the task that writes its events.
pub(crate) struct Headless<'a> {
    base: &'a Base,
    format: OutputFormat,
    global: &'a GlobalArgs,
    pub(crate) ready: Ready,
    patch: Option<RunPatch>,
    started: Instant,
    writing: JoinHandle<io::Result<bool>>,
    is_over: CancellationToken,
    /// Reloads plugins whose files change.
    _watch: Watch,
}

/// Denies calls that need approval, with a hint on how to allow them.
pub(crate) fn deny_unattended(mode: ApprovalMode, permissions: Arc<CallPermissions>) -> Arc<dyn Person> {
    Arc::new(Unattended { remedy: remedy(mode), permissions })
}

/// The reason of a denial. The model also gets the remedies, which the user reads once, at the end.
const UNATTENDED: &str = "no one can be asked in this run";

/// The approver of a run without a user to ask.
struct Unattended {
    remedy: &'static str,
    permissions: Arc<CallPermissions>,
}

impl Approver for Unattended {
    fn decide<'a>(&'a self, question: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        let reason = match question.notes.iter().find(|note| note.asks()) {
            // No option answers a plugin's question for the user.
            Some(note) => format!("{UNATTENDED}, and {note}"),
            None => match self.permissions.missing_sandbox(&question) {
                Some(problem) => {
                    format!("{UNATTENDED}, and the command cannot be left to the sandbox: {problem}; {}", self.remedy)
                }
                None => format!("{UNATTENDED}; {}", self.remedy),
            },
        };
        Box::pin(async { Decision::Unanswered { reason } })
    }
}

impl UserInterface for Unattended {}

/// Returns the ways to have calls approved, the narrowest first.
pub(crate) fn remedy(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Ask | ApprovalMode::Confirm | ApprovalMode::Edits | ApprovalMode::Plan => {
            "run without -p on a terminal to be asked, or allow what the sandbox confines with --approve smart, or every \
             call with --approve all"
        }
        ApprovalMode::Smart | ApprovalMode::All => {
            "run without -p on a terminal to be asked, or allow every call with --approve all"
        }
    }
}

/// Returns the calls that were denied because no one could be asked.
fn unanswered(agent: &Agent) -> Vec<DeniedCall> {
    let mut denied = agent.config().ports.approval.denied();
    denied.retain(|call| call.is_unanswered);
    denied
}

impl<'a> Headless<'a> {
    pub(crate) async fn begin(
        base: &'a Base,
        args: &RunArgs,
        global: &'a GlobalArgs,
        approver: Arc<dyn Person>,
    ) -> Result<Self> {
        let is_over = CancellationToken::new();
        let is_late = is_over.clone();
        // The end of the program cancels unfinished loads, which is not a problem of the run.
        let amount = detail(global);
        let report = move |notice| {
            if !is_late.is_cancelled() {
                report_notice(&notice, amount);
            }
        };
        let ready = base.ready(&args.options(), Purpose::Run, approver, report).await?;
        let patch = RunPatch::begin(base, args, &ready).await?;
        if !global.quiet {
            let notices = ready.notices(base).into_iter();
            notices.for_each(|notice| note(&text!("! {}", Text::block(notice))));
        }
        let format = args.output_format;
        let streamed = streams(base, args, global).then(Streamed::new);
        let prints_previews = streamed.is_some() || detail(global) >= Detail::Conversation;
        let events = match format == OutputFormat::StreamJson || prints_previews {
            true => ready.agent.subscribe(CHANNEL),
            false => ready.agent.subscribe(CHANNEL).without_previews(),
        };
        let writing = output::showing(write(events, format, streamed, global.clone(), is_over.clone()));
        let watch = ready.runtime.watch_after(WATCH_AFTER, base.plugin_directories(&args.options()));
        Ok(Self { base, format, global, ready, patch, started: Instant::now(), writing, is_over, _watch: watch })
    }

    /// Completes the output and the session. Called when the agent is done, with any outcome.
    pub(crate) async fn end(self) -> Result<FinishedAgent> {
        self.ready.runtime.deliver_events().await;
        self.ready.keeper.end_turn().await;
        let patch = match self.patch {
            Some(patch) => patch.finish(self.global.quiet).await.map(Some),
            None => Ok(None),
        };
        let saved = self.ready.session.sync().and(self.base.exchanges.finish());
        let (patch, saved) = match patch {
            Ok(patch) => (patch, saved),
            Err(failure) => (None, saved.and(Err(failure))),
        };
        // The reader of the output may have stopped reading.
        signals::end_if_asked(PATIENCE);
        self.is_over.cancel();
        let written = self.writing.await.map_err(|error| Failure::failed("the output failed").because(error))?;
        let notices = self.ready.keeper.take_notices().into_iter().chain(self.base.exchanges.notice());
        notices.filter(|_| !self.global.quiet).for_each(|notice| note(&text!("! {}", Text::block(notice))));
        let (elapsed, remedy) = (self.started.elapsed(), remedy(self.base.config.approve));
        let is_quiet = self.global.quiet;
        Ok(FinishedAgent { format: self.format, is_quiet, ready: self.ready, patch, elapsed, written, saved, remedy })
    }
}

/// The remains of a finished agent, for its answer.
pub(crate) struct FinishedAgent {
    format: OutputFormat,
    is_quiet: bool,
    ready: Ready,
    /// The changes of the run, if the user wants them.
    patch: Option<FinishedPatch>,
    elapsed: Duration,
    /// Whether stdout has the text of the last message, or the failure to write to it.
    written: io::Result<bool>,
    /// The failure to save the session, the recording or the patch, reported after the answer, which is paid for.
    saved: Result<()>,
    /// The ways to have denied calls approved.
    remedy: &'static str,
}

impl FinishedAgent {
    pub(crate) fn format(&self) -> OutputFormat {
        self.format
    }

    /// Writes the rest of stdout: the text unless it is there, or one JSON object that contains it and `more`.
    pub(crate) fn answer(&self, text: &str, outcome: &Outcome, more: Map<String, Value>) -> Result<()> {
        let on_stdout = self.patch.as_ref().filter(|patch| patch.is_on_stdout);
        let answer = |has_text| match (self.format, on_stdout) {
            (OutputFormat::Text, Some(patch)) => patch.print(text, self.is_quiet),
            (OutputFormat::Text, None) if has_text => Ok(()),
            (OutputFormat::Text, None) => output::answer(text),
            (OutputFormat::Json | OutputFormat::StreamJson, _) => {
                let mut fields = self.summary(text, outcome);
                fields.extend(more);
                output::result(&fields)
            }
        };
        match &self.written {
            Ok(has_text) => output::written(answer(*has_text)),
            Err(error) => output::written(Err(io::Error::new(error.kind(), error.to_string()))),
        }
    }

    /// Reports on stderr facts that the answer does not show.
    pub(crate) fn remark(&self, outcome: &Outcome) {
        if is_silent(outcome) {
            note(&text!("! the model ended its reply without an answer"));
        }
        if matches!(outcome.end, RunEnd::Done { stop_reason: StopReason::Length }) {
            let limit = "the model reached its output limit (`max-output-tokens`)";
            note(&text!("! the answer was cut off: {}", limit));
        }
        let (asked, answered) = (self.ready.info.model(), self.ready.info.answering(&outcome.messages));
        if asked != answered {
            note(&text!("! `{}` failed, and the fallback `{}` answered (-v tells why)", asked, answered));
        }
    }

    fn summary(&self, text: &str, outcome: &Outcome) -> Map<String, Value> {
        let Self { ready, elapsed, .. } = self;
        let saving = self.saved.as_ref().err().map(Failure::message);
        let end = self.end_of(outcome);
        let mut summary = fields([
            ("type", json!("result")),
            ("result", json!(text)),
            ("stop_reason", json!(stop_reason(&end))),
            ("error", json!(problem(&end).or(saving))),
            ("error_kind", json!(error_kind(&end))),
            ("denied", json!(unanswered(&ready.agent))),
            ("usage", json!(outcome.spend.usage)),
            ("cost", json!(outcome.spend.cost.map(|cost| cost.total()))),
            ("session_id", json!(ready.session.id)),
            ("model", json!(ready.info.answering(&outcome.messages))),
            ("turns", json!(outcome.turns)),
            ("duration_ms", json!(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))),
        ]);
        summary.extend(self.patch.iter().flat_map(FinishedPatch::fields));
        summary
    }

    /// Checks whether the loss of a built-in plugin ended the run. A plugin that was lost after the last turn began did not: the
    /// code of one that the run never called may still be loading when the answer is there.
    fn check_built_ins(&self, outcome: &Outcome) -> Result<()> {
        if matches!(outcome.end, RunEnd::Done { .. }) { Ok(()) } else { self.ready.check_built_ins() }
    }

    /// Returns how the run ended: with a failure if it lost a built-in plugin, which ends it.
    fn end_of(&self, outcome: &Outcome) -> RunEnd {
        let lost = self.check_built_ins(outcome).err();
        lost.map_or(outcome.end.clone(), |failure| RunEnd::failed(RunErrorKind::Other, failure.message()))
    }

    /// Turns the outcome into the result of the command. A run that ended by itself but had calls denied because no one
    /// could be asked is denied; any other end keeps its own status. A success fails if it could not be saved.
    pub(crate) fn verdict(self, outcome: Outcome, was_interrupted: bool) -> Result<()> {
        if !was_interrupted {
            self.check_built_ins(&outcome)?;
        }
        let is_done = matches!(outcome.end, RunEnd::Done { .. });
        run_end::verdict(outcome.end, was_interrupted).map_err(|failure| self.ready.session.explain(failure))?;
        self.saved?;
        self.ready.leak();
        if is_done { denied(&unanswered(&self.ready.agent), self.remedy) } else { Ok(()) }
    }
}

/// Returns whether the text of the model goes to stdout while it arrives: on request, or where a person waits for it. The
/// answer of a plan is another text.
fn streams(base: &Base, args: &RunArgs, global: &GlobalArgs) -> bool {
    let is_structured = args.plan || args.execute.is_some() || args.output_schema.is_some();
    let is_answer = !is_structured && args.patch.as_deref() != Some(Path::new("-"));
    let is_text = args.output_format == OutputFormat::Text && is_answer;
    let is_wanted = base.config.stream.unwrap_or_else(|| io::stdout().is_terminal());
    is_text && is_wanted && !is_on_screen(args.output_format, global)
}

/// Returns whether the text of the model was written to the terminal that stdout is, while it arrived.
fn is_on_screen(format: OutputFormat, global: &GlobalArgs) -> bool {
    format == OutputFormat::Text
        && detail(global) >= Detail::Conversation
        && io::stdout().is_terminal()
        && io::stderr().is_terminal()
}

/// Returns the amount of detail on stderr. A person at a terminal sees at least that the run makes progress.
fn detail(global: &GlobalArgs) -> Detail {
    match global.verbose {
        0 if io::stderr().is_terminal() => Detail::Progress,
        0 => Detail::Notices,
        1 => Detail::Conversation,
        _ => Detail::Ledgers,
    }
}

/// Reports plugins that were not loaded, or that do not have all their grants, and in a detailed run those that were reloaded.
fn report_notice(notice: &Notice, detail: Detail) {
    let is_reload = matches!(notice.event, NoticeEvent::Loaded { generation: 2.., .. });
    match describe_problem(notice) {
        Some(problem) => note(&problem),
        None if is_reload && detail >= Detail::Conversation => note(&describe(notice)),
        None => {}
    }
}

/// Writes events until the run is over, then the remaining ones. Returns whether stdout has the text of the last message.
async fn write(
    mut events: EventReceiver,
    format: OutputFormat,
    mut streamed: Option<Streamed>,
    global: GlobalArgs,
    is_over: CancellationToken,
) -> io::Result<bool> {
    let mut stderr = Renderer::new(output::StandardError, Style::of_stderr(), detail(&global));
    let (mut runs, mut denials, mut waiting) = (Runs::default(), Denials::default(), WaitingForModel::default());
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            () = is_over.cancelled() => events.try_recv(),
            () = waiting.due(), if detail(&global) >= Detail::Progress && !global.quiet => {
                note(&text!("{}", waiting.report()));
                continue;
            }
        };
        waiting.observe_event(event.as_ref().filter(|event| runs.is_main(event)));
        let Some(event) = event else { return Ok(streamed.is_some_and(|streamed| streamed.has_last())) };
        if format == OutputFormat::StreamJson {
            output::json(&stream_event(&event)?)?;
        }
        if let Some(streamed) = streamed.as_mut().filter(|_| runs.is_main(&event)) {
            streamed.event(&event.kind)?;
        }
        if let Some(notice) = denials.notice(&event).filter(|_| !global.quiet) {
            note(&text!("! {}", Text::block(notice)));
        }
        // The exit status and its message report the end. The choice among branches is reported here.
        let is_end = runs.is_end(&event) && matches!(event.kind, EventKind::AgentEnd { .. });
        if is_end || matches!(event.kind, EventKind::InputRejected { .. }) {
            stderr.pass(&event);
        } else if !global.quiet {
            // stderr may be closed.
            let _ = stderr.event(&event);
        }
    }
}

/// Finds the first denial of each tool that had no user to ask.
#[derive(Default)]
struct Denials {
    /// Tools of the calls that wait for approval.
    asked: HashMap<(Arc<str>, String), String>,
    reported: HashSet<String>,
}

impl Denials {
    fn notice(&mut self, event: &Event) -> Option<String> {
        match &event.kind {
            EventKind::ApprovalRequested { call_id, tool, .. } => {
                self.asked.insert((event.run_id.clone(), call_id.clone()), tool.clone());
                None
            }
            EventKind::ApprovalResolved { call_id, unanswered, .. } => {
                let tool = self.asked.remove(&(event.run_id.clone(), call_id.clone()))?;
                let reason = unanswered.as_ref()?;
                // The remedies follow at the end of the run.
                let is_plain = reason.strip_prefix(UNATTENDED).is_some_and(|rest| rest.starts_with("; "));
                let reason = if is_plain { UNATTENDED } else { reason.as_str() };
                self.reported.insert(tool.clone()).then(|| format!("denied `{tool}`: {reason}"))
            }
            _ => None,
        }
    }
}

/// Converts an event to JSON. The last one leaves out the messages, which were written one by one. Events of calls have
/// a summary for people.
fn stream_event(event: &Event) -> io::Result<Value> {
    let mut value = serde_json::to_value(event)?;
    let Some(fields) = value.as_object_mut() else { return Ok(value) };
    let summary = match &event.kind {
        EventKind::AgentEnd { .. } => {
            fields.remove("messages");
            None
        }
        EventKind::ToolExecutionStart { tool, arguments, .. } => Some(input_summary(tool, arguments)),
        EventKind::ToolExecutionEnd { content, .. } => Some(one_line(&text_of(content), OUTPUT_SUMMARY)),
        _ => None,
    };
    fields.extend(summary.map(|summary| ("summary".to_owned(), json!(summary))));
    Ok(value)
}

/// Summarizes a call by its tool and the first of the telling arguments that it has.
fn input_summary(tool: &str, arguments: &Value) -> String {
    let telling = TELLING.iter().find_map(|name| arguments.get(*name)?.as_str().filter(|text| !text.is_empty()));
    let text = telling.map_or_else(|| tool.to_owned(), |text| format!("{tool}: {text}"));
    one_line(&text, INPUT_SUMMARY)
}

/// Builds the fields of a JSON object.
pub(crate) fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn denied(calls: &[DeniedCall], remedy: &str) -> Result<()> {
    let mut tools: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
    tools.sort_unstable();
    tools.dedup();
    let count = match calls.len() {
        0 => return Ok(()),
        1 => "1 call was".to_owned(),
        count => format!("{count} calls were"),
    };
    let text = format!("{count} denied because no one could be asked: `{}`", tools.join("`, `"));
    Err(Failure::new(Status::Denied, text).hint(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_a_call_has_its_tool_and_most_telling_argument() {
        let both = json!({ "pattern": "fn main", "path": "src", "command": "" });
        assert_eq!(input_summary("search", &both), "search: src");
        assert_eq!(input_summary("now", &json!({ "path": 3 })), "now");
        let long = input_summary("bash", &json!({ "command": "x".repeat(200) }));
        assert!(long.chars().count() == INPUT_SUMMARY + 1 && long.ends_with('…'), "{long}");
    }
}
