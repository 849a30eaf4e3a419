//! Input that a server wants before it answers a request.

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::model::{ElicitRequestParams, ErrorData, InputRequest, InputRequiredResult};
use serde::Deserialize;
use tokio::time::sleep_until;

use super::{Connection, RequestFailure};
use crate::error::{McpError, quoted};
use crate::limits::MAX_QUESTIONS;
use crate::questions::Questions;
use crate::request::{CallContext, InputAnswers};

/// Error of servers of protocol 2025-11-25 that want the user to visit an address first.
const URL_ELICITATION_REQUIRED: i64 = -32042;

/// Returns the questions of an error that says that the user has to visit addresses first.
pub(super) fn wanted(error: &McpError) -> Option<Vec<ElicitRequestParams>> {
    #[derive(Deserialize)]
    struct Data {
        elicitations: Vec<ElicitRequestParams>,
    }
    let McpError::Server { code: URL_ELICITATION_REQUIRED, data: Some(data), .. } = error else { return None };
    let Data { elicitations } = serde_json::from_str(data).ok()?;
    let is_page = |question: &ElicitRequestParams| matches!(question, ElicitRequestParams::UrlElicitationParams { .. });
    let is_sound = (1..=MAX_QUESTIONS).contains(&elicitations.len()) && elicitations.iter().all(is_page);
    is_sound.then_some(elicitations)
}

impl Connection {
    /// Waits for the user as long as the call does.
    pub(super) async fn during<T>(
        &self,
        call: &CallContext,
        answer: impl Future<Output = Result<T, McpError>>,
    ) -> Result<T, RequestFailure> {
        tokio::select! {
            biased;
            () = call.cancel.cancelled() => Err(McpError::Cancelled { request_sent: true }.into()),
            () = sleep_until(call.deadline) => {
                let message = format!("MCP server `{}` asked the user, and the time of the call was over", self.server);
                Err(McpError::TimedOut { message, request_sent: true }.into())
            }
            answer = answer => Ok(answer?),
        }
    }

    /// Asks the user to visit pages.
    pub(super) async fn visit(&self, pages: Vec<ElicitRequestParams>, questions: &Questions) -> Result<(), McpError> {
        match questions.visit_all(pages).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(McpError::sent(&self.server, "wants the user to visit a page, which the user declined")),
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Answers the questions of one round.
    pub(super) async fn answer(
        &self,
        required: InputRequiredResult,
        questions: &Questions,
        round: usize,
    ) -> Result<InputAnswers, McpError> {
        let asked = required.input_requests.unwrap_or_default();
        if asked.len() > MAX_QUESTIONS {
            let problem = format!("asked {} questions at once, the limit is {MAX_QUESTIONS}", asked.len());
            return Err(McpError::sent(&self.server, problem));
        }
        if asked.is_empty() {
            tokio::time::sleep(Duration::from_millis(50 << round.min(5))).await;
        }
        let mut responses = BTreeMap::new();
        for (key, request) in asked {
            responses.insert(key, self.answer_one(request, questions).await?);
        }
        Ok(InputAnswers { responses: (!responses.is_empty()).then_some(responses), state: required.request_state })
    }

    pub(super) async fn answer_one(
        &self,
        request: InputRequest,
        questions: &Questions,
    ) -> Result<serde_json::Value, McpError> {
        questions.answer(request).await.map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &ErrorData) -> McpError {
        McpError::sent(&self.server, format!("asked a question that was refused: {}", quoted(&error.message)))
    }
}
