//! Approval of tool calls in the UI.

use crate::full::ui_inbox::UiInbox;
use pinion_agent::Approver;
use pinion_agent::approval::{CallRules as _, Decision, Question};
use pinion_agent::dialog::{Dialog, DialogAnswer, DialogError, Severity, UserInterface};
use pinion_agent::futures_util::future::BoxFuture;
use pinion_app::approve::permissions::CallPermissions;
use pinion_console::approve::change;
use pinion_tui::{ApprovalAnswer, DialogReply, Input, Tone};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// A question for the UI, and the way back for its answer.
pub(super) enum UiQuestion {
    Call(Box<pinion_tui::ApprovalQuestion>, oneshot::Sender<ApprovalAnswer>),
    Plugin(u64, Dialog, oneshot::Sender<DialogReply>),
}

/// The way back for the answer to a question.
pub(super) enum AnswerChannel {
    Call(oneshot::Sender<ApprovalAnswer>),
    Plugin(oneshot::Sender<DialogReply>),
}

/// Waits until the answer to the open question no longer matters.
pub(super) async fn withdrawn(open: &mut Option<(u64, AnswerChannel)>) {
    match open {
        Some((_, AnswerChannel::Call(reply))) => reply.closed().await,
        Some((_, AnswerChannel::Plugin(reply))) => reply.closed().await,
        None => std::future::pending().await,
    }
}

/// Passes questions to the UI, one at a time.
pub(super) struct UiApprover {
    questions: mpsc::Sender<UiQuestion>,
    said: Arc<UiInbox>,
    permissions: Arc<CallPermissions>,
    number: AtomicU64,
    turn: tokio::sync::Mutex<()>,
}

impl UiApprover {
    pub(super) fn new(
        questions: mpsc::Sender<UiQuestion>,
        said: Arc<UiInbox>,
        permissions: Arc<CallPermissions>,
    ) -> Self {
        Self { questions, said, permissions, number: AtomicU64::new(0), turn: tokio::sync::Mutex::default() }
    }
}

impl Approver for UiApprover {
    fn decide<'a>(&'a self, question: Question<'a>, token: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        Box::pin(async move {
            let offer = self.permissions.offer(&question);
            let reason = self.permissions.explained(&question);
            let reach = self.permissions.reach(&question);
            let change = change(self.permissions.workspace(), &question);
            let ask = async {
                let _turn = self.turn.lock().await;
                let (answer, answered) = oneshot::channel();
                let id = self.number.fetch_add(1, Ordering::Relaxed);
                let question =
                    pinion_tui::ApprovalQuestion { change, ..pinion_tui::ApprovalQuestion::new(id, &question) };
                let shown = offer.as_ref().map(|offer| offer.shown.clone());
                let question = question.explained(reason, shown).reaching(reach);
                self.questions.send(UiQuestion::Call(Box::new(question), answer)).await.ok()?;
                answered.await.ok()
            };
            // The UI notices that a question was dropped because its answer no longer matters.
            let answer = tokio::select! {
                answer = ask => answer,
                () = token.cancelled() => return deny("the run was interrupted"),
            };
            match answer {
                Some(ApprovalAnswer::Yes) => Decision::Allow,
                Some(ApprovalAnswer::Always) => Decision::AllowForSession,
                Some(ApprovalAnswer::Rule) => {
                    if let Some(Err(error)) = offer.map(|offer| self.permissions.allow(offer)) {
                        self.said.push_input(Input::Note(Tone::Warning, format!("the rule was not kept: {error}")));
                    }
                    Decision::Allow
                }
                Some(ApprovalAnswer::No(None)) => deny("the user denied it"),
                Some(ApprovalAnswer::No(Some(words))) => deny(&format!("the user denied it and says: {words}")),
                Some(ApprovalAnswer::Interrupt) => deny("the user interrupted it"),
                None => Decision::Unanswered { reason: "the user could not be asked: the terminal is gone".to_owned() },
            }
        })
    }
}

impl UserInterface for UiApprover {
    fn ask<'a>(
        &'a self,
        dialog: &'a Dialog,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<DialogAnswer, DialogError>> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            let (answer, answered) = oneshot::channel();
            let id = self.number.fetch_add(1, Ordering::Relaxed);
            let asked = UiQuestion::Plugin(id, dialog.clone(), answer);
            self.questions.send(asked).await.map_err(|_| DialogError::Headless)?;
            // The agent drops this future once the answer no longer matters, which the UI notices.
            answered.await.unwrap_or(Err(DialogError::Dismissed))
        })
    }

    fn notify(&self, plugin: &str, severity: Severity, text: &str) {
        let tone = match severity {
            Severity::Info => Tone::Plain,
            Severity::Warning => Tone::Warning,
            Severity::Error => Tone::Error,
        };
        self.said.push_input(Input::Note(tone, format!("{plugin}: {text}")));
    }

    fn status(&self, plugin: &str, text: Option<&str>) {
        self.said.segment(plugin, text);
    }
}

fn deny(reason: &str) -> Decision {
    Decision::Deny { reason: reason.to_owned() }
}
