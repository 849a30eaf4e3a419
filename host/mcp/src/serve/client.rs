//! The client of a call, as the call asks it: its user, its model, and its directories.

use super::question::{ClientAnswer, ClientQuestion, QuestionKind};
use futures_util::future::BoxFuture;
use pinion_protocol::services::{CallServices, CompletionAnswer, CompletionError, CompletionTask};
use pinion_protocol::store::NoStore;
use pinion_protocol::{
    BatchAnswer, BatchQuestion, Dialog, DialogAnswer, DialogError, DialogForm, DrawingBlock, DrawnPart, Services,
    SessionStore, Severity,
};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The client of a call. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    questions: mpsc::Sender<Vec<ClientQuestion>>,
}

impl Client {
    /// Creates both ends.
    pub(super) fn channel() -> (Self, mpsc::Receiver<Vec<ClientQuestion>>) {
        let (questions, receiver) = mpsc::channel(1);
        (Self { questions }, receiver)
    }

    /// Asks the user of the client whether a call may run. The text is the host's.
    ///
    /// # Errors
    /// The client cannot ask its user, or the user gave no answer.
    pub async fn approves(&self, text: String) -> Result<bool, DialogError> {
        match self.ask(QuestionKind::Approval(text)).await {
            Some(ClientAnswer::Approval(answer)) => answer,
            Some(_) | None => Err(DialogError::Headless),
        }
    }

    /// Returns the services that a call uses to ask the client.
    pub fn services(&self) -> Services {
        Services::new(ClientServices(self.clone()))
    }

    async fn ask(&self, kind: QuestionKind) -> Option<ClientAnswer> {
        let name = kind.name();
        self.ask_all(vec![(name, kind)]).await.pop()?
    }

    async fn ask_all(&self, questions: Vec<(String, QuestionKind)>) -> Vec<Option<ClientAnswer>> {
        let named = questions.into_iter().map(|(name, kind)| ClientQuestion::new(name, kind));
        let (questions, answers): (Vec<_>, Vec<oneshot::Receiver<_>>) = named.unzip();
        // Without a receiver, no answer comes.
        let _ = self.questions.send(questions).await;
        futures_util::future::join_all(answers).await.into_iter().map(Result::ok).collect()
    }
}

struct ClientServices(Client);

impl CallServices for ClientServices {
    fn ask(&self, dialog: Dialog) -> BoxFuture<'_, Result<DialogAnswer, DialogError>> {
        Box::pin(async move {
            match self.0.ask(QuestionKind::Dialog(dialog)).await {
                Some(ClientAnswer::Dialog(answer)) => answer,
                Some(_) | None => Err(DialogError::Headless),
            }
        })
    }

    fn fill(&self, form: DialogForm) -> BoxFuture<'_, Option<Result<Value, DialogError>>> {
        Box::pin(async move {
            Some(match self.0.ask(QuestionKind::Form(form)).await {
                Some(ClientAnswer::Form(answer)) => answer,
                Some(_) | None => Err(DialogError::Headless),
            })
        })
    }

    fn ask_all(&self, questions: Vec<(String, BatchQuestion)>) -> BoxFuture<'_, Option<Vec<BatchAnswer>>> {
        let kind = |question| match question {
            BatchQuestion::Form(form) => QuestionKind::Form(form),
            BatchQuestion::Completion(task) => QuestionKind::Completion(task),
            BatchQuestion::Directories => QuestionKind::Directories,
        };
        Box::pin(async move {
            let questions = questions.into_iter().map(|(name, question)| (name, kind(question))).collect();
            let answers = self.0.ask_all(questions).await.into_iter();
            let answer = |answer| match answer {
                Some(ClientAnswer::Form(answer)) => BatchAnswer::Form(answer),
                Some(ClientAnswer::Completion(answer)) => BatchAnswer::Completion(answer),
                Some(ClientAnswer::Directories(answer)) => BatchAnswer::Directories(answer),
                Some(ClientAnswer::Dialog(_) | ClientAnswer::Approval(_)) | None => {
                    BatchAnswer::Form(Err(DialogError::Cancelled))
                }
            };
            Some(answers.map(answer).collect())
        })
    }

    fn complete(&self, task: CompletionTask) -> BoxFuture<'_, Result<CompletionAnswer, CompletionError>> {
        Box::pin(async move {
            match self.0.ask(QuestionKind::Completion(task)).await {
                Some(ClientAnswer::Completion(answer)) => answer,
                Some(_) | None => Err(CompletionError::Cancelled),
            }
        })
    }

    fn notify(&self, plugin: &str, severity: Severity, text: &str) {
        tracing::info!(plugin, ?severity, text, "notice of a plugin");
    }

    fn status(&self, _plugin: &str, _text: Option<&str>) {}

    fn draw(&self, _plugin: &str, _part: DrawnPart, _blocks: Vec<DrawingBlock>) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }

    fn session(&self) -> Arc<dyn SessionStore> {
        Arc::new(NoStore)
    }

    /// The application redacts secrets in results itself.
    fn clean(&self, text: &str) -> String {
        text.to_owned()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}
