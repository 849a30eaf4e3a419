//! Terminal input, and the display of runs.

use crate::Result;
use pinion_agent::channel::EventReceiver;
use pinion_agent::event::ContentDelta;
use pinion_agent::identity::TurnTrigger;
use pinion_agent::message::StopReason;
use pinion_agent::{Agent, Content, Event, EventKind, Message, Outcome, RunEnd};
use std::io::{self, Write as _};
use std::process::ExitCode;
use tokio::sync::mpsc;

/// Maximum number of characters of a call or result to show.
const MAX_LETTERS: usize = 100;

/// Returns the lines of standard input. A separate thread reads them, so that the program can end while it waits.
pub fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Writes text to standard output at once, without control characters.
///
/// # Errors
/// Standard output is closed.
pub fn print(text: &str) -> io::Result<()> {
    let text: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Converts a result to an exit code; prints an error to standard error.
pub fn exit(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is no better place to report it.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a prompt and shows the reply as it streams, and one line per call and result. Ctrl-C aborts the run.
///
/// # Errors
/// Another run is active, or standard output is closed. Any other end of the run is shown and returned.
pub async fn run_shown(agent: &Agent, prompt: &str) -> Result<Outcome> {
    // A buffer of one event keeps the run in step with the display, so that a question follows the text before it.
    let (events, run) = agent.stream(vec![Message::user(prompt)], 1);
    let shown = async {
        let shown = each_event(events, |event| show(&event.kind)).await;
        if shown.is_err() {
            agent.abort();
        }
        shown
    };
    let work = async { tokio::join!(run, shown) };
    tokio::pin!(work);
    let (outcome, shown) = tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => {
            agent.abort();
            work.await
        }
        done = &mut work => done,
    };
    let outcome = outcome?;
    shown?;
    if let Some(why) = describe(&outcome.end) {
        print(&format!("[{why}]\n"))?;
    }
    Ok(outcome)
}

/// Passes each event to `show`, including events of sub-agents, until the stream ends.
///
/// # Errors
/// The first error of `show`.
pub async fn each_event(mut events: EventReceiver, mut show: impl FnMut(&Event) -> io::Result<()>) -> io::Result<()> {
    while let Some(event) = events.recv().await {
        show(&event)?;
    }
    Ok(())
}

fn show(event: &EventKind) -> io::Result<()> {
    match event {
        EventKind::MessageUpdate { delta: ContentDelta::Text { delta }, .. } => print(delta),
        EventKind::MessageEnd { message } if is_text(message) => print("\n"),
        other => line(other).map_or(Ok(()), |line| print(&format!("{line}\n"))),
    }
}

fn is_text(message: &Message) -> bool {
    matches!(message, Message::Assistant(reply) if !reply.text().is_empty())
}

/// Formats an event as one line; most have no line.
pub fn line(event: &EventKind) -> Option<String> {
    Some(match event {
        EventKind::AgentStart { trigger: TurnTrigger::SubAgent, .. } => "+ a sub-agent begins".to_owned(),
        EventKind::ToolExecutionStart { tool, arguments, .. } => short(&format!("→ {tool} {arguments}")),
        // Calls that were denied or skipped have a result too, but no separate events.
        EventKind::MessageEnd { message } => {
            let Message::ToolResult(result) = &**message else { return None };
            let text: String = result.content.iter().filter_map(Content::as_text).collect();
            short(&format!("{} {}: {text}", if result.is_error { "✗" } else { "←" }, result.tool_name))
        }
        EventKind::Retry { cause, .. } => format!("… {cause}; it is tried again"),
        _ => return None,
    })
}

/// Shortens a text to one line.
fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_LETTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Describes why a run ended early; `None` if the model finished.
pub fn describe(end: &RunEnd) -> Option<String> {
    Some(match end {
        RunEnd::Done { stop_reason: StopReason::Length } => "the output limit was reached".to_owned(),
        RunEnd::Done { .. } => return None,
        other => other.to_string(),
    })
}
