//! A request of a client while it runs or waits.

use super::client::Client;
use super::progress::{Report, Reports};
use super::question::Question;
use super::{OfferedReply, PromptPart};
use futures_util::future::BoxFuture;
use rmcp::model::{ClientCapabilities, ErrorData};
use std::collections::HashMap;
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

/// The end of a request.
pub(super) enum Finished {
    Call(Box<OfferedReply>),
    Prompt(Result<Vec<PromptPart>, String>),
}

impl Finished {
    fn is_failure(&self) -> bool {
        match self {
            Self::Call(reply) => reply.output.is_error,
            Self::Prompt(text) => text.is_err(),
        }
    }
}

/// The next thing that happens to a request.
pub(super) enum Event {
    Done(Result<Finished, ErrorData>),
    Report(Report),
    /// The call waits for answers.
    Asked(Vec<Question>),
}

/// A request that runs or waits. Dropping it cancels the call.
pub(super) struct Request {
    running: BoxFuture<'static, Finished>,
    reports: Reports,
    questions: mpsc::Receiver<Vec<Question>>,
    /// The number of questions of each name so far.
    names: HashMap<String, u32>,
    /// A capability of the client that a question needed and that it does not have.
    lacked: Option<ClientCapabilities>,
    _stop: DropGuard,
}

impl Request {
    /// Begins a request. `stop` cancels its call.
    pub(super) fn begin(
        reports: Reports,
        stop: DropGuard,
        run: impl FnOnce(Client) -> BoxFuture<'static, Finished>,
    ) -> Self {
        let (client, questions) = Client::channel();
        Self { running: run(client), reports, questions, names: HashMap::new(), lacked: None, _stop: stop }
    }

    /// Runs the request until something happens.
    pub(super) async fn next(&mut self) -> Event {
        tokio::select! {
            biased;
            finished = &mut self.running => Event::Done(match self.lacked.take().filter(|_| finished.is_failure()) {
                Some(lacked) => Err(ErrorData::missing_required_client_capability(lacked)),
                None => Ok(finished),
            }),
            Some(report) = self.reports.next() => Event::Report(report),
            Some(questions) = self.questions.recv() => Event::Asked(self.named(questions)),
        }
    }

    /// Returns the next report that is there already.
    pub(super) fn waiting(&mut self) -> Option<Report> {
        self.reports.waiting()
    }

    /// Returns those questions that a client can be asked, and refuses the others. A call that then fails lacked a capability,
    /// unless it was refused for want of an approval.
    pub(super) fn askable(&mut self, questions: Vec<Question>, client: &ClientCapabilities) -> Vec<Question> {
        let (askable, others): (Vec<_>, Vec<_>) =
            questions.into_iter().partition(|question| question.kind.is_supported_by(client));
        for question in others {
            if !question.is_approval() {
                self.lacked = Some(question.kind.needs());
            }
            question.refuse();
        }
        askable
    }

    /// Gives questions whose name has come before another one.
    fn named(&mut self, mut questions: Vec<Question>) -> Vec<Question> {
        for question in &mut questions {
            let number = self.names.entry(question.name.clone()).or_default();
            *number += 1;
            if *number > 1 {
                question.name = format!("{}-{number}", question.name);
            }
        }
        questions
    }
}
