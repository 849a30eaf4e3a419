//! Approval of tool calls in the UI.

use pinion_agent::Approver;
use pinion_agent::approval::{Decision, Question};
use pinion_agent::futures_util::future::BoxFuture;
use pinion_tui::Answer;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// A question for the UI, and the way back for its answer.
pub(super) type Asked = (pinion_tui::Question, oneshot::Sender<Answer>);

/// Passes questions to the UI, one at a time.
pub(super) struct UiApprover {
    questions: mpsc::Sender<Asked>,
    number: AtomicU64,
    turn: tokio::sync::Mutex<()>,
}

impl UiApprover {
    pub(super) fn new(questions: mpsc::Sender<Asked>) -> Self {
        Self { questions, number: AtomicU64::new(0), turn: tokio::sync::Mutex::default() }
    }
}

impl Approver for UiApprover {
    fn decide<'a>(&'a self, question: Question<'a>, token: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        Box::pin(async move {
            let ask = async {
                let _turn = self.turn.lock().await;
                let (answer, answered) = oneshot::channel();
                let id = self.number.fetch_add(1, Ordering::Relaxed);
                self.questions.send((pinion_tui::Question::new(id, &question), answer)).await.ok()?;
                answered.await.ok()
            };
            // The UI notices that a question was dropped because its answer no longer matters.
            let answer = tokio::select! {
                answer = ask => answer,
                () = token.cancelled() => return deny("the run was interrupted"),
            };
            match answer {
                Some(Answer::Yes) => Decision::Allow,
                Some(Answer::Always) => Decision::AllowForSession,
                Some(Answer::No(None)) => deny("the user denied it"),
                Some(Answer::No(Some(words))) => deny(&format!("the user denied it and says: {words}")),
                Some(Answer::Interrupt) => deny("the user interrupted it"),
                None => Decision::Unanswered { reason: "the user could not be asked: the terminal is gone".to_owned() },
            }
        })
    }
}

fn deny(reason: &str) -> Decision {
    Decision::Deny { reason: reason.to_owned() }
}
