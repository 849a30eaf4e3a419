//! One run without a conversation: the answer on stdout, everything else on stderr.

use crate::args::{GlobalArgs, OutputFormat, RunArgs};
use crate::compose::{Base, For, Ready};
use crate::failure::{Failure, Result, Status};
use crate::loops::Loops;
use crate::render::{Detail, Renderer, limit_text};
use crate::signals::interruptible;
use crate::stdout_failure;
use crate::terminal::Style;
use pinion_agent::{DenyAll, Event, EventKind, EventReceiver, Message, Outcome, RunEnd, StopReason};
use pinion_plugin_runtime::{Notice, NoticeEvent};
use serde_json::{Value, json};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// More than any model takes.
const MAX_STDIN_BYTES: u64 = 16 * 1024 * 1024;
/// Events that wait for stdout.
const CHANNEL: usize = 256;

pub(crate) async fn run(base: &Base, args: &RunArgs, global: &GlobalArgs) -> Result<()> {
    let prompt = prompt(args)?;
    let approver =
        Arc::new(DenyAll { reason: "this run has nobody to ask; --approve all lets it do what it has to".to_owned() });
    let ready = base.ready(args, For::Run, approver, report_problem).await?;
    if !global.quiet {
        let notices = base.untrusted_notice().into_iter().chain(ready.session.notices.clone());
        notices.for_each(|notice| drop(writeln!(io::stderr(), "! {notice}")));
    }
    let started = Instant::now();
    let events = ready.agent.subscribe(CHANNEL);
    let writing = tokio::spawn(write(events, args.output_format, global.clone()));
    let (outcome, was_interrupted) = interruptible(&ready.agent, ready.run(vec![Message::user(prompt)])).await;
    let outcome = outcome.map_err(|error| Failure::of(Status::Failed, &error))?;
    let written = writing.await.map_err(|error| Failure::failed(format!("the output broke down: {error}")))?;
    ready.session.sync();
    if let Some(notice) = base.exchanges.notice().filter(|_| !global.quiet) {
        drop(writeln!(io::stderr(), "! {notice}"));
    }
    base.exchanges.finish()?;
    written
        .and_then(|()| answer(args.output_format, &outcome, &ready, started.elapsed()))
        .map_err(|e| stdout_failure(&e))?;
    verdict(outcome, was_interrupted)
}

/// What was said on the command line, followed by what came through the pipe.
fn prompt(args: &RunArgs) -> Result<String> {
    let mut prompt = args.prompt.join(" ");
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let mut bytes = Vec::new();
        stdin
            .lock()
            .take(MAX_STDIN_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::usage(format!("could not read stdin: {error}")))?;
        if bytes.len() as u64 > MAX_STDIN_BYTES {
            return Err(Failure::usage(format!("stdin is longer than {MAX_STDIN_BYTES} bytes")));
        }
        let text = String::from_utf8_lossy(&bytes);
        if !text.trim().is_empty() {
            if !prompt.is_empty() {
                prompt.push_str("\n\n");
            }
            prompt.push_str(text.trim_end());
        }
    }
    match prompt.trim() {
        "" => Err(Failure::usage("there is no prompt").hint("`pinion -p \"what to do\"`, or text on stdin")),
        _ => Ok(prompt),
    }
}

/// Plugins that do not load are told; those that do are not.
fn report_problem(notice: Notice) {
    if let NoticeEvent::Refused(error) = &notice.event {
        let _ = writeln!(io::stderr(), "! plugin `{}` ({}) was not loaded: {error}", notice.plugin, notice.source);
    }
}

/// Writes events until the run is over.
async fn write(mut events: EventReceiver, format: OutputFormat, global: GlobalArgs) -> io::Result<()> {
    let detail = match global.verbose {
        0 => Detail::Notices,
        1 => Detail::Conversation,
        _ => Detail::Ledgers,
    };
    let mut stderr = Renderer::new(io::stderr(), Style::of_stderr(), detail);
    let mut loops = Loops::default();
    while let Some(event) = events.recv().await {
        if format == OutputFormat::StreamJson {
            write_line(&stream_event(&event)?)?;
        }
        let is_end = loops.is_end(&event);
        // Its end is told by the exit status and the message that goes with it.
        if !global.quiet && !is_end {
            // Whoever closed stderr does not want to know.
            let _ = stderr.event(&event);
        }
        if is_end {
            break;
        }
    }
    Ok(())
}

/// One event as JSON. The last one does not repeat all messages, which were told one by one.
fn stream_event(event: &Event) -> io::Result<Value> {
    let mut value = serde_json::to_value(event)?;
    if let (EventKind::AgentEnd { .. }, Some(fields)) = (&event.kind, value.as_object_mut()) {
        fields.remove("messages");
    }
    Ok(value)
}

fn answer(format: OutputFormat, outcome: &Outcome, ready: &Ready, elapsed: Duration) -> io::Result<()> {
    match format {
        OutputFormat::Text => {
            let text = outcome.text();
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            if !text.is_empty() && !text.ends_with('\n') {
                out.write_all(b"\n")?;
            }
            out.flush()
        }
        OutputFormat::Json | OutputFormat::StreamJson => write_line(&summary(outcome, ready, elapsed)),
    }
}

fn summary(outcome: &Outcome, ready: &Ready, elapsed: Duration) -> Value {
    let (stop_reason, error) = match &outcome.end {
        RunEnd::Done { stop_reason: StopReason::Length } => ("length", None),
        RunEnd::Done { .. } => ("stop", None),
        RunEnd::Limit { limit } => ("limit", Some(limit_text(limit))),
        RunEnd::Error { message } => ("error", Some(message.clone())),
        RunEnd::Aborted => ("aborted", None),
        RunEnd::Rejected { reason } => ("rejected", Some(reason.clone())),
    };
    json!({
        "type": "result",
        "result": outcome.text(),
        "stop_reason": stop_reason,
        "error": error,
        "usage": outcome.usage,
        "cost": outcome.cost.map(|cost| cost.total()),
        "session_id": ready.session.id,
        "model": ready.info.model(),
        "turns": outcome.turns,
        "duration_ms": u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
    })
}

fn write_line(value: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The exit status, and what is said with it.
fn verdict(outcome: Outcome, was_interrupted: bool) -> Result<()> {
    match outcome.end {
        RunEnd::Aborted if was_interrupted => Err(Failure::new(Status::Interrupted, "interrupted")),
        RunEnd::Done { .. } => Ok(()),
        RunEnd::Limit { limit } => Err(Failure::new(Status::Limit, limit_text(&limit))),
        RunEnd::Error { message } => Err(Failure::failed(message)),
        RunEnd::Aborted => Err(Failure::failed("the run was aborted")),
        RunEnd::Rejected { reason } => Err(Failure::new(Status::Denied, format!("the prompt was refused: {reason}"))),
    }
}
