//! Requests to servers and their form in the protocol.

use std::fmt;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelTaskParams, CancelTaskRequest, ClientRequest, CompleteRequest,
    CompleteRequestParams, GetPromptRequest, GetPromptRequestParams, GetTaskParams, GetTaskRequest, InputResponses,
    JsonObject, ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams, ReadResourceRequest,
    ReadResourceRequestParams, ServerResult,
};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::connection::handler::{OnProgress, RequestProgress};
use crate::limits::MAX_ARGUMENTS;
pub use pinion_protocol::mcp::McpRequest as Request;

/// Conditions of one request.
#[derive(Clone)]
pub struct CallContext {
    /// Cancels the request, also at the server.
    pub cancel: CancellationToken,
    /// Limit on the request, including connecting and questions to the user.
    pub deadline: Instant,
    /// Receives the request's progress.
    pub on_progress: Option<Arc<dyn Fn(RequestProgress) + Send + Sync>>,
    /// True if only an open connection may be used, and the user must not be asked: the request fails where others
    /// would wait, connect, log in or answer questions.
    pub only_connected: bool,
}

impl CallContext {
    /// Returns a context that ends after `limit`.
    #[must_use]
    pub fn within(limit: std::time::Duration) -> Self {
        Self {
            cancel: CancellationToken::new(),
            deadline: Instant::now() + limit,
            on_progress: None,
            only_connected: false,
        }
    }

    pub(crate) fn progress(&self) -> Option<OnProgress> {
        self.on_progress.clone()
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// Answers to a server's questions, sent along when a request is repeated.
#[derive(Clone, Debug, Default)]
pub(crate) struct InputAnswers {
    pub(crate) responses: Option<InputResponses>,
    pub(crate) state: Option<String>,
}

/// The form of a request in the protocol.
pub(crate) trait Outgoing {
    /// Returns the method of the protocol.
    fn method(&self) -> &'static str;

    /// Returns whether the request has no effect, for any claims of the server about its tools, so that it may be
    /// repeated.
    fn only_reads(&self) -> bool;

    /// Returns the message of the protocol; `None` for [`Request::Connect`].
    ///
    /// # Errors
    /// A text is not the JSON it should be.
    fn message(&self, inputs: InputAnswers) -> Result<Option<ClientRequest>, String>;

    /// Returns whether a result can be one of this request. Results of unknown form count, for servers that stretch the
    /// protocol.
    fn accepts(&self, result: &ServerResult) -> bool;
}

impl Outgoing for Request {
    fn method(&self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::CallTool { .. } => "tools/call",
            Self::GetPrompt { .. } => "prompts/get",
            Self::ListResources { .. } => "resources/list",
            Self::ListResourceTemplates { .. } => "resources/templates/list",
            Self::ReadResource { .. } => "resources/read",
            Self::FollowTask { .. } => "tasks/get",
            Self::CancelTask { .. } => "tasks/cancel",
            Self::Complete { .. } => "completion/complete",
        }
    }

    fn only_reads(&self) -> bool {
        !matches!(self, Self::CallTool { .. })
    }

    fn message(&self, inputs: InputAnswers) -> Result<Option<ClientRequest>, String> {
        let InputAnswers { responses, state } = inputs;
        let page =
            |cursor: &Option<String>| cursor.clone().map(|c| PaginatedRequestParams::default().with_cursor(Some(c)));
        Ok(Some(match self {
            Self::Connect => return Ok(None),
            Self::FollowTask { id } => GetTaskRequest::new(GetTaskParams::new(id.clone())).into(),
            Self::CancelTask { id } => CancelTaskRequest::new(CancelTaskParams::new(id.clone())).into(),
            Self::CallTool { name, arguments } => {
                let mut params = CallToolRequestParams::new(name.clone());
                // Servers of some SDKs reject calls without arguments.
                params.arguments = Some(object(arguments)?.unwrap_or_default());
                params.input_responses = responses;
                params.request_state = state;
                CallToolRequest::new(params).into()
            }
            Self::GetPrompt { name, arguments } => {
                let mut params = GetPromptRequestParams::new(name.clone());
                params.arguments = object(arguments)?;
                params.input_responses = responses;
                params.request_state = state;
                GetPromptRequest::new(params).into()
            }
            Self::ListResources { cursor } => {
                ListResourcesRequest { params: page(cursor), ..Default::default() }.into()
            }
            Self::ListResourceTemplates { cursor } => {
                ListResourceTemplatesRequest { params: page(cursor), ..Default::default() }.into()
            }
            Self::ReadResource { uri } => {
                let mut params = ReadResourceRequestParams::new(uri.clone());
                params.input_responses = responses;
                params.request_state = state;
                ReadResourceRequest::new(params).into()
            }
            Self::Complete { reference, argument } => {
                let reference =
                    serde_json::from_str(reference).map_err(|e| format!("the reference is invalid: {e}"))?;
                let invalid = |e: serde_json::Error| format!("the argument is invalid: {e}");
                let mut argument = object(argument)?.unwrap_or_default();
                let context = argument.remove("context").map(serde_json::from_value).transpose().map_err(invalid)?;
                let argument = serde_json::from_value(Value::Object(argument)).map_err(invalid)?;
                let mut params = CompleteRequestParams::new(reference, argument);
                params.context = context;
                CompleteRequest::new(params).into()
            }
        }))
    }

    fn accepts(&self, result: &ServerResult) -> bool {
        use ServerResult as R;
        match (self, result) {
            (_, R::CustomResult(_)) => true,
            // A result without `content`.
            (Self::CallTool { .. }, R::CallToolResult(_) | R::EmptyResult(_) | R::TaskAckResult(_)) => true,
            (Self::GetPrompt { .. }, R::GetPromptResult(_)) => true,
            (Self::ListResources { .. }, R::ListResourcesResult(_)) => true,
            (Self::ListResourceTemplates { .. }, R::ListResourceTemplatesResult(_)) => true,
            (Self::ReadResource { .. }, R::ReadResourceResult(_)) => true,
            (Self::Complete { .. }, R::CompleteResult(_)) => true,
            (Self::CancelTask { .. }, R::EmptyResult(_) | R::TaskAckResult(_)) => true,
            _ => false,
        }
    }
}

fn object(text: &str) -> Result<Option<JsonObject>, String> {
    if text.len() > MAX_ARGUMENTS {
        return Err(format!("the arguments have {} bytes, the limit is {MAX_ARGUMENTS}", text.len()));
    }
    if text.trim().is_empty() {
        return Ok(None);
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(Value::Null) => Ok(None),
        Ok(_) => Err("the arguments are not a JSON object".to_owned()),
        Err(error) => Err(format!("the arguments are not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_other_arguments_are_the_context_of_a_completion() {
        let completion = |argument: &str| Request::Complete {
            reference: r#"{"type":"ref/prompt","name":"p"}"#.into(),
            argument: argument.into(),
        };
        let message = |argument: &str| completion(argument).message(InputAnswers::default());
        let with = message(r#"{"name":"b","value":"x","context":{"arguments":{"a":"1"}}}"#).unwrap();
        let params = serde_json::to_value(with.unwrap()).unwrap()["params"].take();
        assert_eq!(params["argument"], serde_json::json!({"name": "b", "value": "x"}));
        assert_eq!(params["context"], serde_json::json!({"arguments": {"a": "1"}}));
        let without = serde_json::to_value(message(r#"{"name":"b","value":""}"#).unwrap().unwrap()).unwrap();
        assert_eq!(without["params"].get("context"), None);
        for invalid in ["{}", "[]", r#"{"name":"b","value":"x","context":{"arguments":{"a":1}}}"#] {
            assert!(message(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn arguments_must_be_an_object() {
        let call = |arguments: &str| Request::CallTool { name: "t".into(), arguments: arguments.into() };
        assert!(call("{\"a\":1}").message(InputAnswers::default()).is_ok());
        assert!(call("").message(InputAnswers::default()).is_ok());
        for arguments in ["[1]", "{", "\"x\"", &"x".repeat(MAX_ARGUMENTS + 1)] {
            assert!(call(arguments).message(InputAnswers::default()).is_err());
        }
    }
}
