//! Requests on their way to an answer, and those that wait for their client.
//!
//! Since protocol 2026-07-28 a server asks by returning a result that lists its questions, and the client repeats the
//! request with the answers. The call that asked waits meanwhile, so that nothing runs twice; the state that the client
//! returns is a random key to it. Clients of older protocols are asked by separate requests.

use super::expiring::Expiring;
use super::progress::ProgressReport;
use super::question::{ClientQuestion, QuestionKind};
use super::request::{FinishedRequest, RequestEvent, RunningRequest};
use rmcp::model::{ErrorData, InputRequests, InputRequiredResult, InputResponses, ProtocolVersion};
use rmcp::service::{RequestContext, RoleServer};
use std::time::Duration;

/// Requests that wait at a time; the oldest ones are given up for further ones.
const MAX_HELD: usize = 64;
/// Time that a request waits.
const HELD_TIME: Duration = Duration::from_secs(600);
/// Time until a call becomes a task, if it may.
const TASK_AFTER: Duration = Duration::from_secs(2);

/// The next step of a request.
pub(super) enum RequestStep {
    Done(FinishedRequest),
    Ask(InputRequiredResult),
    /// The call takes long. The client can fetch its result later.
    Task(Box<LongCall>),
}

/// A call that becomes a task.
pub(super) struct LongCall {
    pub(super) request: RunningRequest,
    /// Its last line of progress.
    pub(super) message: Option<String>,
    /// Its end, if it is over already.
    pub(super) done: Option<Result<FinishedRequest, ErrorData>>,
}

/// A request that waits for answers.
struct WaitingRequest {
    /// Method and name, which a repeated request must have as well.
    subject: String,
    request: RunningRequest,
    open: Vec<ClientQuestion>,
}

/// A request that a client begins, or continues with answers.
pub(super) struct Continued {
    subject: String,
    request: RunningRequest,
    open: Vec<ClientQuestion>,
    given: InputResponses,
}

impl Continued {
    pub(super) fn begin(subject: String, request: RunningRequest, given: InputResponses) -> Self {
        Self { subject, request, open: Vec::new(), given }
    }
}

/// All waiting requests of a server.
pub(super) struct HeldRequests(Expiring<WaitingRequest>);

impl Default for HeldRequests {
    fn default() -> Self {
        Self(Expiring::new(MAX_HELD, HELD_TIME))
    }
}

impl HeldRequests {
    /// Takes the request that a client continues.
    ///
    /// # Errors
    /// The state was changed, belongs to another request, or its request waits no longer.
    pub(super) fn take_request(
        &self,
        state: &str,
        subject: String,
        given: InputResponses,
    ) -> Result<Continued, ErrorData> {
        let waiting = self.0.take_value(state, |waiting| waiting.subject == subject);
        let unknown = || ErrorData::invalid_params("unknown or expired `requestState`", None);
        let WaitingRequest { request, open, .. } = waiting.ok_or_else(unknown)?;
        Ok(Continued { subject, request, open, given })
    }

    /// Runs a request until it ends, needs answers, or becomes a task.
    pub(super) async fn step(
        &self,
        continued: Continued,
        may_be_task: bool,
        context: &RequestContext<RoleServer>,
    ) -> Result<RequestStep, ErrorData> {
        let Continued { subject, mut request, open, mut given } = continued;
        // Questions whose answer is missing or unclear are asked again.
        let open: Vec<ClientQuestion> =
            open.into_iter().filter_map(|question| answered(question, &mut given)).collect();
        if !open.is_empty() {
            return self.hold(subject, request, open);
        }
        let takes_long = async {
            match may_be_task {
                true => tokio::time::sleep(TASK_AFTER).await,
                false => std::future::pending().await,
            }
        };
        tokio::pin!(takes_long);
        loop {
            let event = tokio::select! {
                event = request.next() => event,
                () = &mut takes_long => return Ok(long(request, None, None)),
                () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
            };
            match event {
                RequestEvent::Report(ProgressReport::Progress { message, .. }) if may_be_task => {
                    return Ok(long(request, Some(message), None));
                }
                RequestEvent::Report(report) => report.send(&context.peer).await,
                RequestEvent::Asked(questions) => {
                    let client = context.client_capabilities().unwrap_or_default();
                    let mut open = Vec::new();
                    for question in request.askable(questions, &client) {
                        // An approval given before the question was seen does not count.
                        let early = if question.is_approval() { &mut InputResponses::new() } else { &mut given };
                        open.extend(answered(question, early));
                    }
                    match context.protocol_version() {
                        _ if open.is_empty() => {}
                        Some(version) if version >= ProtocolVersion::V_2026_07_28 => {
                            return self.hold(subject, request, open);
                        }
                        _ => tokio::select! {
                            // A client that did not answer by then gives no answer.
                            _ = tokio::time::timeout(HELD_TIME, ask_directly(open, context)) => {}
                            () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
                        },
                    }
                }
                RequestEvent::Done(done) => {
                    while let Some(report) = request.waiting() {
                        match report {
                            ProgressReport::Progress { message, .. } if may_be_task => {
                                return Ok(long(request, Some(message), Some(done)));
                            }
                            report => report.send(&context.peer).await,
                        }
                    }
                    return done.map(RequestStep::Done);
                }
            }
        }
    }

    /// Keeps a request until its client continues it.
    fn hold(
        &self,
        subject: String,
        request: RunningRequest,
        open: Vec<ClientQuestion>,
    ) -> Result<RequestStep, ErrorData> {
        let requests = input_requests(&open);
        let failed = || ErrorData::internal_error("the question cannot be asked", None);
        let state = self.0.insert(WaitingRequest { subject, request, open }, |_| true).map_err(|_| failed())?;
        Ok(RequestStep::Ask(InputRequiredResult::new(Some(requests), Some(state))))
    }
}

fn long(
    request: RunningRequest,
    message: Option<String>,
    done: Option<Result<FinishedRequest, ErrorData>>,
) -> RequestStep {
    RequestStep::Task(Box::new(LongCall { request, message, done }))
}

/// Returns questions as requests to their client.
pub(super) fn input_requests(questions: &[ClientQuestion]) -> InputRequests {
    questions.iter().filter_map(|question| Some((question.name.clone(), question.input_request()?))).collect()
}

/// Answers a question with its client's response. Gives it back if there is no answer that fits.
pub(super) fn answered(question: ClientQuestion, given: &mut InputResponses) -> Option<ClientQuestion> {
    match given.remove(&question.name) {
        Some(answer) => question.accept_answer(&answer).err(),
        None => Some(question),
    }
}

/// Asks a client of an older protocol, one question after another.
#[expect(deprecated, reason = "older clients are asked this way")]
async fn ask_directly(questions: Vec<ClientQuestion>, context: &RequestContext<RoleServer>) {
    for question in questions {
        let params = question.request()["params"].take();
        let answer = match &question.kind {
            QuestionKind::Dialog(_) | QuestionKind::Form(_) | QuestionKind::Approval(_) => {
                match serde_json::from_value(params) {
                    Ok(params) => context.peer.create_elicitation(params).await.ok().map(serde_json::to_value),
                    Err(_) => None,
                }
            }
            QuestionKind::Completion(_) => match serde_json::from_value(params) {
                Ok(params) => context.peer.create_message(params).await.ok().map(serde_json::to_value),
                Err(_) => None,
            },
            QuestionKind::Directories => context.peer.list_roots().await.ok().map(serde_json::to_value),
        };
        let refused = match answer {
            Some(Ok(answer)) => question.accept_answer(&answer).err(),
            Some(Err(_)) | None => Some(question),
        };
        refused.into_iter().for_each(ClientQuestion::refuse);
    }
}
