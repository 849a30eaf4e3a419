//! Approval of tool calls on the terminal.
//!
//! The host words the question: it begins in the first column with `?`, names the tool and the plugin, and lists the
//! effects of the call. Everything from a model or a guest stands behind a bar, in rows that the host has wrapped, with
//! nothing hidden (`exposed`). Yes counts only after all of it was shown, and only by a single key pressed after the
//! question has been visible for a moment. Nothing else is written to the terminal meanwhile.

pub mod confirm;
mod dialog;
mod keys;
mod question;

pub(crate) use self::keys::{AnswerKey, RawKeyboard, Typed};

pub use self::question::change;

use self::question::CallQuestion;
use crate::output::terminal::Style;
use crate::output::{Attention, Text, print_line, size, text};
use futures_util::future::BoxFuture;
use pinion_agent::Approver;
use pinion_agent::approval::{CallRules as _, Decision, Question};
use pinion_agent::dialog::{Dialog, DialogAnswer, DialogError, Severity, UserInterface};
use pinion_app::approve::permissions::CallPermissions;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Columns and lines of a terminal that does not report its size.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// Columns of a question that another program shows, which wraps it itself.
const DESCRIBED_COLUMNS: usize = 1_000;

/// Time allowed for a signal to arrive that the process sends itself.
const SIGNAL: Duration = Duration::from_secs(1);

/// Asks on the terminal, one question at a time.
pub struct TerminalApprover {
    turn: Arc<Mutex<()>>,
    permissions: Arc<CallPermissions>,
}

/// The answer to a question about a call.
enum QuestionOutcome {
    Key(AnswerKey),
    /// No, with words for the model.
    Refused(String),
}

impl TerminalApprover {
    /// Asks about calls that these rules leave to the user.
    pub fn new(permissions: Arc<CallPermissions>) -> Self {
        Self { turn: Arc::default(), permissions }
    }

    /// Waits until no question occupies the terminal. A question that no longer matters leaves it soon.
    pub async fn idle(&self) {
        drop(self.turn.lock().await);
    }
}

impl Approver for TerminalApprover {
    fn decide<'a>(&'a self, question: Question<'a>, token: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        Box::pin(async move {
            let turn = self.turn.clone().lock_owned().await;
            let offer = self.permissions.offer(&question);
            let shown = offer.as_ref().map(|offer| offer.shown.clone());
            let asked = CallQuestion::from_question(&question, self.permissions.explained(&question), shown)
                .reaching(self.permissions.reach(&question));
            let until = token.clone();
            // Waiting for a key blocks, so it happens on a blocking thread. The turn ends when that thread has left the
            // terminal, even if nothing waits for the answer any more.
            let answered = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                ask(&asked, &until, Style::of_stdout())
            });
            match answered.await {
                Ok(Ok(QuestionOutcome::Key(AnswerKey::Yes))) => Decision::Allow,
                Ok(Ok(QuestionOutcome::Key(AnswerKey::Always))) => Decision::AllowForSession,
                Ok(Ok(QuestionOutcome::Key(AnswerKey::Rule))) => {
                    if let Some(Err(error)) = offer.map(|offer| self.permissions.allow(offer)) {
                        print_line(&text!("! the rule was not kept: {}", error.to_string()));
                    }
                    Decision::Allow
                }
                Ok(Ok(QuestionOutcome::Refused(words))) => deny(&format!("the user denied it and says: {words}")),
                Ok(Ok(QuestionOutcome::Key(AnswerKey::Interrupt))) => {
                    // Raw mode turns Ctrl-C into a key, so the signal is sent here.
                    interrupt();
                    // Otherwise the next question would appear before the signal arrives.
                    let _ = tokio::time::timeout(SIGNAL, token.cancelled()).await;
                    deny("the user interrupted it")
                }
                Ok(Ok(_)) => deny("the user denied it"),
                Ok(Err(error)) => Decision::Unanswered { reason: format!("the user could not be asked: {error}") },
                Err(error) => Decision::Unanswered { reason: format!("the user could not be asked: {error}") },
            }
        })
    }
}

/// Words a question about a call for another program that shows it, with nothing hidden.
pub fn described(question: &Question<'_>, reason: Option<String>) -> String {
    let asked = CallQuestion::from_question(question, reason, None);
    let (style, columns) = (Style::Plain, DESCRIBED_COLUMNS);
    let rows = asked.head(style, columns).into_iter().chain(asked.rows(style, columns));
    rows.map(|row| row.as_str().to_owned()).collect::<Vec<_>>().join("\n")
}

impl UserInterface for TerminalApprover {
    fn ask<'a>(
        &'a self,
        dialog: &'a Dialog,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<DialogAnswer, DialogError>> {
        Box::pin(async move {
            let turn = self.turn.clone().lock_owned().await;
            let (dialog, until) = (dialog.clone(), token.clone());
            let answered = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                dialog::ask(&dialog, &until, Style::of_stdout())
            });
            match answered.await {
                Ok(Ok(dialog::DialogEnd::Answered(answer))) => Ok(answer),
                Ok(Ok(dialog::DialogEnd::Without(error))) => Err(error),
                Ok(Ok(dialog::DialogEnd::Interrupted)) => {
                    interrupt();
                    let _ = tokio::time::timeout(SIGNAL, token.cancelled()).await;
                    Err(DialogError::Dismissed)
                }
                Ok(Err(_)) | Err(_) => Err(DialogError::Headless),
            }
        })
    }

    fn notify(&self, plugin: &str, severity: Severity, text: &str) {
        print_line(&notice(Style::of_stdout(), plugin, severity, text));
    }
}

/// Renders a notice of a plugin.
pub fn notice(style: Style, plugin: &str, severity: Severity, text: &str) -> Text {
    let line = text!("{}: {}", plugin, text);
    match severity {
        Severity::Info => style.dim(text!("  {}", line)),
        Severity::Warning => text!("  {} {}", style.yellow("!"), line),
        Severity::Error => text!("  {} {}", style.red("✗"), line),
    }
}

fn deny(reason: &str) -> Decision {
    Decision::Deny { reason: reason.to_owned() }
}

#[cfg(unix)]
fn interrupt() {
    // A process can always signal itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
}

#[cfg(not(unix))]
fn interrupt() {}

/// Shows a question page by page and returns the key that answers it. Blocks until a key is pressed, or until the
/// answer no longer matters, which returns a no.
fn ask(asked: &CallQuestion, token: &CancellationToken, style: Style) -> io::Result<QuestionOutcome> {
    let mut screen = Attention::take_terminal();
    let mut keys = RawKeyboard::open(token)?;
    let (columns, lines) = size().unwrap_or(DEFAULT_SIZE);
    let head = asked.head(style, columns);
    let rows = asked.rows(style, columns);
    screen.write(&text!("\n"))?;
    head.iter().try_for_each(|row| screen.write(&text!("{}\n", row)))?;
    let mut shown = 0_usize;
    let mut next = lines.saturating_sub(head.len() + 5).max(3);
    let mut hint = None;
    loop {
        let end = rows.len().min(shown.saturating_add(next));
        rows[shown..end].iter().try_for_each(|row| screen.write(&text!("{}\n", row)))?;
        shown = end;
        let is_all = shown == rows.len();
        // Name the keys only once they count.
        if let Some(key) = keys.settle()? {
            return Ok(QuestionOutcome::Key(key));
        }
        let mut foot: Vec<Text> = match is_all {
            true => asked.choice(style, columns),
            false => question::more(shown, rows.len(), style, columns),
        };
        foot.extend(hint.map(|hint| question::hint(hint, style, columns)).into_iter().flatten());
        foot.iter().try_for_each(|row| screen.write(&text!("{}\n", row)))?;
        let key = keys.next()?;
        next = match key {
            AnswerKey::More if !is_all => lines.saturating_sub(4).max(3),
            AnswerKey::Rest if !is_all => usize::MAX,
            AnswerKey::More | AnswerKey::Rest | AnswerKey::Burst | AnswerKey::Other => 0,
            AnswerKey::Yes | AnswerKey::Always | AnswerKey::Rule if !is_all => 0,
            AnswerKey::Rule if !asked.has_rule() => 0,
            AnswerKey::Refuse => match dialog::read_refusal(&mut screen, &mut keys, columns)? {
                Some(words) => return Ok(QuestionOutcome::Refused(words)),
                None => 0,
            },
            _ => {
                let word =
                    if is_all { text!("  {}", key.word()) } else { text!("  {}, not read to its end", key.word()) };
                screen.write(&text!("{}\n", word))?;
                return Ok(QuestionOutcome::Key(key));
            }
        };
        hint = match key {
            AnswerKey::Burst => Some("several keys at once: press a single one"),
            AnswerKey::Yes | AnswerKey::Always | AnswerKey::Rule if !is_all => {
                Some("read to the end before answering yes")
            }
            AnswerKey::More | AnswerKey::Rest | AnswerKey::Other | AnswerKey::Rule if is_all => {
                Some("press y, a, n or r")
            }
            AnswerKey::Other => Some("press space, ↓, End or n"),
            _ => None,
        };
        screen.clear_above(foot.len())?;
    }
}
