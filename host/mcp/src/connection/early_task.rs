//! Tasks of protocol 2025-11-25: a call that asks to become a task, whose result is fetched by a separate request.
//!
//! Servers of that protocol have tools that can only be called so.

use std::time::Duration;

use rmcp::model::{ClientRequest, CustomRequest, CustomResult, ServerResult};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::task::pause_of;
use super::{Connection, RequestFailure, reply};
use crate::error::McpError;
use crate::questions::Questions;
use crate::request::{CallContext, Request};
use crate::tasks::Followed;

/// Time that a server is asked to keep a result, in milliseconds.
const KEPT: u64 = 24 * 3_600_000;
/// Code of the error for a tool that can only be called as a task.
const NO_METHOD: i64 = -32_601;

/// Returns whether a server refused a call because it was not to be a task. Nothing was done then.
pub(super) fn is_wanted(request: &Request, error: &McpError) -> bool {
    match (request, error) {
        (Request::CallTool { .. }, McpError::Server { code: NO_METHOD, message, .. }) => {
            message.to_lowercase().contains("task")
        }
        _ => false,
    }
}

/// Returns whether a result is such a refusal, which the TypeScript SDK makes a result. Its words come from the SDK, so
/// that no result of a tool that ran is taken for one.
pub(super) fn is_refusal(request: &Request, result: &ServerResult) -> bool {
    let (Request::CallTool { .. }, ServerResult::CallToolResult(result)) = (request, result) else { return false };
    let text = result.content.first().and_then(|content| content.as_text()).map(|text| text.text.as_str());
    let is_text = |text: &str| text.starts_with("MCP error -32601") && text.contains("requires task augmentation");
    result.is_error == Some(true) && result.content.len() == 1 && text.is_some_and(is_text)
}

/// Returns a call that asks to become a task.
pub(super) fn augmented(message: ClientRequest) -> ClientRequest {
    let ClientRequest::CallToolRequest(call) = &message else { return message };
    let Ok(mut params) = serde_json::to_value(&call.params) else { return message };
    params["task"] = json!({ "ttl": KEPT });
    ClientRequest::CustomRequest(CustomRequest::new("tools/call", Some(params)))
}

/// Returns the id of the task that a call has become.
pub(super) fn id(result: &Value) -> Option<&str> {
    result.pointer("/task/taskId")?.as_str()
}

/// The state of a task.
pub(super) enum EarlyState {
    Working {
        pause: Duration,
        text: Option<String>,
    },
    /// The request for the result is answered now, or after questions that the server asks meanwhile.
    HasResult,
}

impl EarlyState {
    /// Reads the answer to `tasks/get`. `None` if it is something else.
    pub(super) fn from_state(state: &Value) -> Option<Self> {
        Some(match state.get("status")?.as_str()? {
            "working" | "submitted" => Self::Working {
                pause: pause_of(state.get("pollInterval").and_then(Value::as_u64)),
                text: state.get("statusMessage").and_then(Value::as_str).map(str::to_owned),
            },
            "completed" | "failed" | "cancelled" | "input_required" => Self::HasResult,
            _ => return None,
        })
    }
}

impl Connection {
    /// Keeps the task that a call has become, and waits for its end.
    pub(super) async fn begin_early_task(
        &self,
        request: &Request,
        result: &Value,
        call: &CallContext,
        limit: Duration,
        questions: &Questions,
    ) -> Result<String, RequestFailure> {
        let tool = if let Request::CallTool { name, .. } = request { name } else { "" };
        let followed = self.tasks.begin(&self.identity, id(result).unwrap_or_default(), tool);
        let pause = pause_of(result.pointer("/task/pollInterval").and_then(Value::as_u64));
        self.follow(followed, pause, call, limit, questions).await
    }

    /// Fetches the result of a task that has ended or asks something.
    pub(super) async fn early_result(
        &self,
        followed: Followed,
        call: &CallContext,
        limit: Duration,
    ) -> Result<String, RequestFailure> {
        let message = CustomRequest::new("tasks/result", Some(json!({ "taskId": followed.id })));
        let result = match self.send(ClientRequest::CustomRequest(message), call, limit, "tasks/result").await {
            Ok(ServerResult::CustomResult(CustomResult(value))) => reply::tool_result(value),
            Ok(result) => {
                serde_json::to_value(&result).map_err(|error| McpError::sent(&self.server, error.to_string()))?
            }
            Err(RequestFailure::Lost(error)) => return Err(RequestFailure::Task(followed, error)),
            Err(RequestFailure::Error(error @ McpError::Cancelled { .. })) => {
                self.cancel_task(followed);
                return Err(error.into());
            }
            Err(RequestFailure::Error(McpError::TimedOut { .. })) if call.deadline <= Instant::now() => {
                return Err(self.still_working().into());
            }
            Err(RequestFailure::Error(error @ McpError::Server { .. })) => {
                followed.end();
                return Err(error.into());
            }
            Err(failure) => return Err(failure),
        };
        followed.end();
        Ok(result.to_string())
    }
}
