//! Requests that wait for their client to answer a question.
//!
//! Since protocol 2026-07-28 a server asks by returning a result that says what it needs, and the client repeats the request
//! with the answers. The call that asked waits meanwhile, so that nothing runs twice; the state that the client returns is
//! a random key to it. Clients of older protocols are asked by a request of their own.

use super::PromptPart;
use super::dialog::{Question, QuestionKind};
use super::progress::Reports;
use futures_util::future::BoxFuture;
use pinion_protocol::ToolReply;
use rmcp::model::{ClientCapabilities, ErrorData, InputRequiredResult, InputResponses, ProtocolVersion};
use rmcp::service::{RequestContext, RoleServer};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

/// Requests that wait at a time; the oldest ones are given up for further ones.
const MAX_HELD: usize = 64;
/// Time for which a request waits.
const HELD_TIME: Duration = Duration::from_secs(600);

/// The end of a request.
pub(super) enum Finished {
    Tool(Box<ToolReply>),
    Prompt(Result<Vec<PromptPart>, String>),
}

/// A request that runs or waits.
pub(super) struct Request {
    /// Method and name, which a repeated request must have as well.
    pub(super) subject: String,
    pub(super) running: BoxFuture<'static, Finished>,
    pub(super) reports: Reports,
    pub(super) questions: mpsc::Receiver<Question>,
    /// Answers that came with the request.
    pub(super) given: InputResponses,
    pub(super) open: Option<Question>,
    /// A capability of the client that a question needed and that it does not have.
    pub(super) lacked: Option<ClientCapabilities>,
    /// Cancels the call when the request is given up.
    pub(super) _stop: DropGuard,
}

impl Finished {
    fn is_failure(&self) -> bool {
        match self {
            Self::Tool(reply) => reply.result.as_ref().map_or(true, |output| output.is_error),
            Self::Prompt(text) => text.is_err(),
        }
    }
}

/// The next step of a request.
pub(super) enum Step {
    Done(Finished),
    Ask(InputRequiredResult),
}

/// All waiting requests of a server.
#[derive(Default)]
pub(super) struct Held(Mutex<HashMap<String, (Instant, Request)>>);

impl Held {
    /// Takes the request that a client continues.
    ///
    /// # Errors
    /// The state was changed, belongs to another request, or its request waits no longer.
    pub(super) fn take(&self, state: &str, subject: &str) -> Result<Request, ErrorData> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of_subject = held.get(state).is_some_and(|(_, request)| request.subject == subject);
        let request = held.remove(state).filter(|_| is_of_subject).map(|(_, request)| request);
        request.ok_or_else(|| ErrorData::invalid_params("unknown or expired `requestState`", None))
    }

    /// Keeps a request until its client continues it.
    fn put(&self, request: Request) -> Option<InputRequiredResult> {
        let state = random_key()?;
        let required = request.open.as_ref()?.required(&state)?;
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        held.retain(|_, (since, _)| now.duration_since(*since) < HELD_TIME);
        if held.len() >= MAX_HELD {
            let oldest = held.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| key.clone());
            oldest.and_then(|key| held.remove(&key));
        }
        held.insert(state, (now, request));
        Some(required)
    }

    /// Runs a request until it ends or needs an answer.
    pub(super) async fn step(
        &self,
        mut request: Request,
        context: &RequestContext<RoleServer>,
    ) -> Result<Step, ErrorData> {
        if let Some(open) = request.open.take() {
            match request.given.remove(&open.name()).and_then(|given| open.read(&given)) {
                Some(answer) => open.answer(answer),
                // A client that leaves out what is needed is asked again.
                None => return self.ask(request, open),
            }
        }
        loop {
            tokio::select! {
                biased;
                finished = &mut request.running => {
                    while let Some(report) = request.reports.waiting() {
                        report.send(&context.peer).await;
                    }
                    return match request.lacked.take().filter(|_| finished.is_failure()) {
                        Some(lacked) => Err(ErrorData::missing_required_client_capability(lacked)),
                        None => Ok(Step::Done(finished)),
                    };
                }
                Some(report) = request.reports.next() => report.send(&context.peer).await,
                Some(question) = request.questions.recv() => {
                    let given = request.given.remove(&question.name());
                    if let Some(answer) = given.and_then(|given| question.read(&given)) {
                        question.answer(answer);
                        continue;
                    }
                    match way(&question, context) {
                        Way::Rounds => return self.ask(request, question),
                        Way::Request => ask_directly(question, context).await,
                        Way::None => {
                            request.lacked = Some(needed(&question));
                            question.refuse();
                        }
                    }
                }
                () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
            }
        }
    }

    fn ask(&self, mut request: Request, question: Question) -> Result<Step, ErrorData> {
        request.open = Some(question);
        self.put(request).map(Step::Ask).ok_or_else(|| ErrorData::internal_error("the question cannot be asked", None))
    }
}

/// The way in which a client can be asked.
enum Way {
    Rounds,
    Request,
    None,
}

fn way(question: &Question, context: &RequestContext<RoleServer>) -> Way {
    let capabilities = context.client_capabilities().unwrap_or_default();
    let is_able = match &question.kind {
        QuestionKind::Dialog(_) | QuestionKind::Form(_) => capabilities.elicitation.is_some(),
        QuestionKind::Completion(_) => capabilities.sampling.is_some(),
    };
    match context.protocol_version() {
        _ if !is_able => Way::None,
        Some(version) if version >= ProtocolVersion::V_2026_07_28 => Way::Rounds,
        _ => Way::Request,
    }
}

/// Returns the capability that a question needs.
#[expect(deprecated, reason = "clients still offer sampling")]
fn needed(question: &Question) -> ClientCapabilities {
    let builder = ClientCapabilities::builder();
    match &question.kind {
        QuestionKind::Dialog(_) | QuestionKind::Form(_) => builder.enable_elicitation().build(),
        QuestionKind::Completion(_) => builder.enable_sampling().build(),
    }
}

/// Asks a client of an older protocol.
#[expect(deprecated, reason = "older clients are asked this way")]
async fn ask_directly(question: Question, context: &RequestContext<RoleServer>) {
    let params = question.request()["params"].take();
    let answer = match &question.kind {
        QuestionKind::Dialog(_) | QuestionKind::Form(_) => match serde_json::from_value(params) {
            Ok(params) => context.peer.create_elicitation(params).await.ok().and_then(|a| serde_json::to_value(a).ok()),
            Err(_) => None,
        },
        QuestionKind::Completion(_) => match serde_json::from_value(params) {
            Ok(params) => context.peer.create_message(params).await.ok().and_then(|a| serde_json::to_value(a).ok()),
            Err(_) => None,
        },
    };
    match answer.and_then(|answer| question.read(&answer)) {
        Some(answer) => question.answer(answer),
        None => question.refuse(),
    }
}

/// Returns 256 random bits in hexadecimal.
fn random_key() -> Option<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(blake3::Hash::from_bytes(bytes).to_hex().to_string())
}
