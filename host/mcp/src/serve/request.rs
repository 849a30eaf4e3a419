//! A request of a client while it runs or waits.

use super::client::Client;
use super::offered::{OfferedReply, PromptPart};
use super::progress::{ProgressReport, Reports};
use super::question::ClientQuestion;
use futures_util::future::BoxFuture;
use rmcp::model::{ClientCapabilities, ErrorData};
use std::collections::HashMap;
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

/// The end of a request.
pub(super) enum FinishedRequest {
    Call(Box<OfferedReply>),
    Prompt(Result<Vec<PromptPart>, String>),
}

impl FinishedRequest {
    fn is_failure(&self) -> bool {
        match self {
            Self::Call(reply) => reply.output.is_error,
            Self::Prompt(text) => text.is_err(),
        }
    }
}

/// The next thing that happens to a request.
pub(super) enum RequestEvent {
    Done(Result<FinishedRequest, ErrorData>),
    Report(ProgressReport),
    /// The call waits for answers.
    Asked(Vec<ClientQuestion>),
}

/// A request that runs or waits. Dropping it cancels the call.
pub(super) struct RunningRequest {
    running: BoxFuture<'static, FinishedRequest>,
    reports: Reports,
    questions: mpsc::Receiver<Vec<ClientQuestion>>,
    /// Questions that wait until the reports before them are returned.
    asked: Option<Vec<ClientQuestion>>,
    /// The number of questions of each name so far.
    names: HashMap<String, u32>,
    /// A capability of the client that a question needed and that it does not have.
    lacked: Option<ClientCapabilities>,
    _stop: DropGuard,
}

impl RunningRequest {
    /// Begins a request. `stop` cancels its call.
    pub(super) fn begin(
        reports: Reports,
        stop: DropGuard,
        run: impl FnOnce(Client) -> BoxFuture<'static, FinishedRequest>,
    ) -> Self {
        let (client, questions) = Client::channel();
        let (running, names) = (run(client), HashMap::new());
        Self { running, reports, questions, asked: None, names, lacked: None, _stop: stop }
    }

    /// Runs the request until something happens.
    pub(super) async fn next(&mut self) -> RequestEvent {
        if self.asked.is_none() {
            tokio::select! {
                biased;
                finished = &mut self.running => return RequestEvent::Done(self.done(finished)),
                Some(report) = self.reports.next() => return RequestEvent::Report(report),
                Some(questions) = self.questions.recv() => self.asked = Some(questions),
            }
        }
        // The call may report something and ask while it runs on another thread, after the reports were looked at.
        match self.reports.waiting() {
            Some(report) => RequestEvent::Report(report),
            None => {
                let questions = self.asked.take().unwrap_or_default();
                RequestEvent::Asked(self.named(questions))
            }
        }
    }

    fn done(&mut self, finished: FinishedRequest) -> Result<FinishedRequest, ErrorData> {
        match self.lacked.take().filter(|_| finished.is_failure()) {
            Some(lacked) => Err(ErrorData::missing_required_client_capability(lacked)),
            None => Ok(finished),
        }
    }

    /// Returns the next report that is there already.
    pub(super) fn waiting(&mut self) -> Option<ProgressReport> {
        self.reports.waiting()
    }

    /// Returns those questions that a client can be asked, and refuses the others. A call that then fails lacked a
    /// capability, unless it was refused because an approval was missing.
    pub(super) fn askable(
        &mut self,
        questions: Vec<ClientQuestion>,
        client: &ClientCapabilities,
    ) -> Vec<ClientQuestion> {
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
    fn named(&mut self, mut questions: Vec<ClientQuestion>) -> Vec<ClientQuestion> {
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

#[cfg(test)]
mod tests {
    use super::super::question::QuestionKind;
    use super::*;
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn reports_come_before_the_questions_that_follow_them() {
        let (progress, reports) = Reports::channel(None, None);
        let stop = CancellationToken::new().drop_guard();
        let mut request = RunningRequest::begin(reports, stop, |_| Box::pin(std::future::pending()));
        let (question, _answer) = ClientQuestion::new("first".to_owned(), QuestionKind::Directories);
        // The question has arrived although the report was not there yet when the reports were looked at.
        request.asked = Some(vec![question]);
        progress.report("working".to_owned());
        assert!(
            matches!(request.next().await, RequestEvent::Report(ProgressReport::Progress { message, .. }) if message == "working")
        );
        assert!(
            matches!(request.next().await, RequestEvent::Asked(asked) if asked.len() == 1 && asked[0].name == "first")
        );
    }
}
