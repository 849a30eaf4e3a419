//! Asking the user, on the terminal, whether a call may run.

use crate::render::{authority, summary};
use crate::terminal::Style;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use futures_util::future::BoxFuture;
use pinion_agent::{Approver, Decision, Question};
use pinion_session_store::printable;
use serde_json::Value;
use std::io::{self, Write as _};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// How often a question that waits looks whether it still matters.
const LOOK: Duration = Duration::from_millis(50);
/// Lines of arguments that are shown; the rest is counted.
const MAX_LINES: usize = 20;

/// Asks on the terminal, one question at a time.
#[derive(Default)]
pub(crate) struct TerminalApprover {
    turn: Mutex<()>,
}

/// What the user pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Yes,
    Always,
    No,
    Interrupt,
}

impl Approver for TerminalApprover {
    fn decide<'a>(&'a self, question: Question<'a>, token: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            let text = ask(&question, Style::of_stdout());
            let token = token.clone();
            // Keys are read where waiting for them holds nobody up.
            let answered = tokio::task::spawn_blocking(move || {
                print(&text)?;
                let key = key(&token);
                print(&format!("{}\n", key.as_ref().map_or("", |key| key.word())))?;
                key
            });
            match answered.await {
                Ok(Ok(Key::Yes)) => Decision::Allow,
                Ok(Ok(Key::Always)) => Decision::AllowForSession,
                Ok(Ok(Key::No)) => deny("the user said no"),
                Ok(Ok(Key::Interrupt)) => {
                    // Raw mode swallows the signal; here it is.
                    interrupt();
                    deny("the user interrupted")
                }
                Ok(Err(error)) => Decision::Unanswered { reason: format!("the user could not be asked: {error}") },
                Err(error) => Decision::Unanswered { reason: format!("the user could not be asked: {error}") },
            }
        })
    }
}

fn deny(reason: &str) -> Decision {
    Decision::Deny { reason: reason.to_owned() }
}

#[cfg(unix)]
fn interrupt() {
    // To oneself, which cannot fail.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
}

#[cfg(not(unix))]
fn interrupt() {}

impl Key {
    fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Always => "always",
            Self::No | Self::Interrupt => "no",
        }
    }
}

/// What is asked: the tool, all of its arguments, and what the call could do.
fn ask(question: &Question<'_>, style: Style) -> String {
    let name = style.bold(printable(&question.tool.label));
    let can = style.yellow(authority(question.tool.authority));
    let arguments: String = arguments(&question.call.arguments).iter().map(|line| format!("  {line}\n")).collect();
    let keys = style.bold("y");
    let (always, no) = (style.bold("a"), style.bold("n"));
    format!("\n? {name} ({can})\n{arguments}  {keys} yes   {always} always in this session   {no} no  ")
}

fn arguments(arguments: &Value) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    match arguments {
        Value::Object(fields) => {
            for (name, value) in fields {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let mut text = text.lines().map(|line| printable(line).into_owned());
                lines.push(format!("{}: {}", printable(name), text.next().unwrap_or_default()));
                lines.extend(text.map(|line| format!("    {line}")));
            }
        }
        other => lines.push(summary(other)),
    }
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(format!("… {more} more lines"));
    }
    lines
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Waits for a key that answers. Gives up, with no, when the answer does not matter any more.
fn key(token: &CancellationToken) -> io::Result<Key> {
    enable_raw_mode()?;
    let key = loop {
        match poll(LOOK) {
            Ok(true) => {}
            Ok(false) if token.is_cancelled() => break Ok(Key::No),
            Ok(false) => continue,
            Err(error) => break Err(error),
        }
        match read() {
            Ok(Event::Key(event)) => {
                if let Some(key) = meaning(event) {
                    break Ok(key);
                }
            }
            Ok(_) => {}
            Err(error) => break Err(error),
        }
    };
    disable_raw_mode()?;
    key
}

fn meaning(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    match event.code {
        KeyCode::Char('c' | 'd') if event.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Interrupt),
        KeyCode::Char('y' | 'Y') => Some(Key::Yes),
        KeyCode::Char('a' | 'A') => Some(Key::Always),
        KeyCode::Char('n' | 'N') | KeyCode::Esc => Some(Key::No),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_question_shows_every_argument_and_no_control_sequence() {
        let lines = arguments(&json!({ "command": "ls\n\x1b[2Jrm -rf /", "timeout": 5 }));
        assert_eq!(lines.len(), 3);
        assert_eq!((lines[0].as_str(), lines[2].as_str()), ("command: ls", "timeout: 5"));
        assert!(lines[1].contains("rm -rf /") && !lines[1].contains('\x1b'), "{lines:?}");
    }

    #[test]
    fn long_arguments_are_counted() {
        let lines = arguments(&json!({ "content": "x\n".repeat(1000) }));
        assert_eq!((lines.len(), lines.last().unwrap().as_str()), (MAX_LINES + 1, "… 980 more lines"));
    }

    #[test]
    fn only_keys_that_answer_are_answers() {
        let key = |code| meaning(KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!((key(KeyCode::Enter), key(KeyCode::Char(' '))), (None, None));
        assert_eq!(key(KeyCode::Char('y')), Some(Key::Yes));
        assert_eq!(meaning(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Some(Key::Interrupt));
    }
}
