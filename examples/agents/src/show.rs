//! The terminal: what is read from it, and how a run is shown on it.

use crate::Result;
use pinion_agent::{
    Agent, Content, Delta, Event, EventKind, EventReceiver, Message, Outcome, RunEnd, StopReason, TurnTrigger,
};
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Letters of a call or result that are shown.
const MAX_LETTERS: usize = 100;

/// The lines of standard input, read by a thread of its own, so that the program can end while it waits for one.
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

/// Writes text to standard output at once, without what could steer a terminal.
///
/// # Errors
/// Nobody reads any more.
pub fn print(text: &str) -> io::Result<()> {
    let text: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The end of a program: an error goes to standard error.
pub fn exit(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is no other place to complain at.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Works a prompt off, and shows the model's words as they come, and a line for each call and each result. Ctrl-C aborts
/// it.
///
/// # Errors
/// A run is under way already, or nobody reads what is shown. However else the run ends is shown, and its outcome.
pub async fn run_shown(agent: &Agent, prompt: &str) -> Result<Outcome> {
    // With room for one event, the run is never ahead of what is shown: a question comes after the words before it.
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

/// Hands on each event of the next run, to its end. Those of its sub-agents come too.
///
/// # Errors
/// The first that `show` gives.
pub async fn each_event(mut events: EventReceiver, mut show: impl FnMut(&Event) -> io::Result<()>) -> io::Result<()> {
    let mut first: Option<Arc<str>> = None;
    while let Some(event) = events.recv().await {
        show(&event)?;
        let is_own = *first.get_or_insert_with(|| event.loop_id.clone()) == event.loop_id;
        if is_own && matches!(event.kind, EventKind::AgentEnd { .. }) {
            break;
        }
    }
    Ok(())
}

fn show(event: &EventKind) -> io::Result<()> {
    match event {
        EventKind::MessageUpdate { delta: Delta::Text { delta }, .. } => print(delta),
        EventKind::MessageEnd { message } => match &**message {
            Message::Assistant(message) if !message.text().is_empty() => print("\n"),
            _ => Ok(()),
        },
        other => line(other).map_or(Ok(()), |line| print(&format!("{line}\n"))),
    }
}

/// An event as one line; none for most.
pub fn line(event: &EventKind) -> Option<String> {
    Some(match event {
        EventKind::AgentStart { trigger: TurnTrigger::SubAgent, .. } => "+ a sub-agent begins".to_owned(),
        EventKind::ToolExecutionStart { tool, arguments, .. } => short(&format!("→ {tool} {arguments}")),
        EventKind::ToolExecutionEnd { tool, is_error, content, .. } => {
            let text: String = content.iter().filter_map(Content::as_text).collect();
            short(&format!("{} {tool}: {text}", if *is_error { "✗" } else { "←" }))
        }
        EventKind::Retry { cause, .. } => format!("… {cause}; it is tried again"),
        _ => return None,
    })
}

/// The beginning of a text, on one line.
fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_LETTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Why a run ended, when it was not because the model was done.
pub fn describe(end: &RunEnd) -> Option<String> {
    Some(match end {
        RunEnd::Done { stop_reason: StopReason::Length } => "the output limit was reached".to_owned(),
        RunEnd::Done { .. } => return None,
        RunEnd::Limit { limit } => limit.to_string(),
        RunEnd::Error { message } => message.clone(),
        RunEnd::Aborted => "aborted".to_owned(),
        RunEnd::Rejected { reason } => reason.clone(),
    })
}
