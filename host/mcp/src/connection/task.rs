//! Tasks: long requests whose result is fetched later (extension `io.modelcontextprotocol/tasks`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rmcp::model::{
    CancelTaskParams, CancelTaskRequest, ClientRequest, CustomResult, GetTaskParams, GetTaskRequest, InputRequests,
    JsonObject, ServerResult, Task, TaskPayload, UpdateTaskParams, UpdateTaskRequest,
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::early_task::EarlyState;
use super::handler::RequestProgress;
use super::{CANCEL_WAIT, Connection, RequestFailure, reply};
use crate::error::{McpError, quoted};
use crate::limits::{MAX_INPUT_ROUNDS, MAX_QUESTIONS};
use crate::questions::Questions;
use crate::request::{CallContext, Request};
use crate::tasks::Followed;

/// Bounds of the time between two looks at a task, and the time if the server does not name one.
const POLL_MIN: Duration = Duration::from_millis(100);
const POLL_MAX: Duration = Duration::from_secs(10);
const POLL_DEFAULT: Duration = Duration::from_secs(1);

impl Connection {
    /// Keeps a task that the server has begun for a call, and waits for its end.
    pub(super) async fn begin_task(
        &self,
        request: &Request,
        task: Task,
        call: &CallContext,
        limit: Duration,
        questions: &Questions,
    ) -> Result<String, RequestFailure> {
        let tool = if let Request::CallTool { name, .. } = request { name } else { "" };
        let followed = self.tasks.begin(&self.identity, &task.task_id, tool);
        self.follow(followed, pause(&task), call, limit, questions).await
    }

    /// Looks at a task again, over this connection, and waits for its end.
    pub(crate) async fn resume_task(
        &self,
        followed: Followed,
        call: &CallContext,
        limit: Duration,
        questions: &Questions,
    ) -> Result<String, RequestFailure> {
        let _in_flight = self.begin();
        self.follow(followed, Duration::ZERO, call, limit, questions).await
    }

    /// Waits for the end of a task and returns its result as JSON. The task goes on at the server if the caller's time is
    /// over, if it stops waiting, or if the connection is lost; it is cancelled if the call is.
    pub(super) async fn follow(
        &self,
        followed: Followed,
        first: Duration,
        call: &CallContext,
        limit: Duration,
        questions: &Questions,
    ) -> Result<String, RequestFailure> {
        let id = followed.id.clone();
        let mut answered = BTreeSet::new();
        let mut rounds = 0;
        let mut wait = first;
        loop {
            tokio::select! {
                biased;
                () = call.cancel.cancelled() => {
                    self.cancel_task(followed);
                    return Err(McpError::Cancelled { request_sent: true }.into());
                }
                () = sleep_until(call.deadline) => return Err(self.still_working().into()),
                () = sleep(wait) => {}
            }
            let message = GetTaskRequest::new(GetTaskParams::new(id.clone())).into();
            let found = match self.send(message, call, limit, "tasks/get").await {
                Ok(ServerResult::GetTaskResult(found)) => found.task,
                Ok(ServerResult::CustomResult(CustomResult(state))) if EarlyState::from_state(&state).is_some() => {
                    let Some(EarlyState::Working { pause, text }) = EarlyState::from_state(&state) else {
                        return self.early_result(followed, call, limit).await;
                    };
                    wait = pause;
                    report(call, text.as_deref());
                    continue;
                }
                Ok(_) => {
                    self.cancel_task(followed);
                    return Err(McpError::sent(&self.server, "answered `tasks/get` with another result").into());
                }
                Err(RequestFailure::Lost(error)) => return Err(RequestFailure::Task(followed, error)),
                Err(RequestFailure::Error(McpError::Cancelled { .. })) => continue,
                Err(RequestFailure::Error(McpError::TimedOut { .. })) if call.deadline <= Instant::now() => {
                    return Err(self.still_working().into());
                }
                // The server knows no such task any more.
                Err(RequestFailure::Error(error @ McpError::Server { .. })) => {
                    followed.end();
                    return Err(error.into());
                }
                Err(failure) => return Err(failure),
            };
            wait = pause(&found.task);
            let task = found.task;
            match found.payload {
                TaskPayload::Working => report(call, task.status_message.as_deref()),
                TaskPayload::InputRequired { input_requests } => {
                    // A task repeats its questions until it has taken note of the answers.
                    let asked = input_requests.into_iter().filter(|(key, _)| !answered.contains(key));
                    let asked: InputRequests = asked.collect();
                    if asked.is_empty() {
                        continue;
                    }
                    if rounds == MAX_INPUT_ROUNDS || asked.len() > MAX_QUESTIONS {
                        self.cancel_task(followed);
                        return Err(McpError::sent(&self.server, "asked for input too often during a task").into());
                    }
                    rounds += 1;
                    answered.extend(asked.keys().cloned());
                    let update = async {
                        let message = self.during(call, self.update(&id, asked, questions)).await?;
                        self.send(message, call, limit, "tasks/update").await
                    };
                    match update.await {
                        Ok(_) => {}
                        Err(RequestFailure::Lost(error)) => return Err(RequestFailure::Task(followed, error)),
                        // The task is cancelled at the beginning of the loop.
                        Err(RequestFailure::Error(McpError::Cancelled { .. })) => {}
                        Err(failure) => return Err(failure),
                    }
                }
                payload => {
                    followed.end();
                    return self.end_of_task(payload).map_err(RequestFailure::from);
                }
            }
        }
    }

    /// Cancels a task at the server, without waiting for that, and forgets it.
    pub(super) fn cancel_task(&self, followed: Followed) {
        let (peer, request) = (self.peer.clone(), CancelTaskRequest::new(CancelTaskParams::new(followed.id.clone())));
        followed.end();
        tokio::spawn(async move { timeout(CANCEL_WAIT, peer.send_request(request.into())).await });
    }

    pub(super) fn still_working(&self) -> McpError {
        let message = format!(
            "MCP server `{}` still works on the task when the time of the call is over; its result can be fetched later",
            self.server
        );
        McpError::TimedOut { message, request_sent: true }
    }

    async fn update(&self, id: &str, asked: InputRequests, questions: &Questions) -> Result<ClientRequest, McpError> {
        let mut responses = BTreeMap::new();
        for (key, request) in asked {
            responses.insert(key, self.answer_one(request, questions).await?);
        }
        Ok(UpdateTaskRequest::new(UpdateTaskParams::new(id, responses)).into())
    }

    fn end_of_task(&self, payload: TaskPayload) -> Result<String, McpError> {
        let server = &self.server;
        match payload {
            TaskPayload::Completed { result } => serde_json::to_string(&reply::tool_result(result.into()))
                .map_err(|error| McpError::sent(server, error.to_string())),
            TaskPayload::Failed { error } => Err(failure(server, &error)),
            _ => Err(McpError::sent(server, "cancelled the task")),
        }
    }
}

/// Reports a server's text about its work.
fn report(call: &CallContext, text: Option<&str>) {
    if let (Some(on_progress), Some(text)) = (call.progress(), text) {
        on_progress(RequestProgress { fraction: None, message: Some(quoted(text)) });
    }
}

/// Returns the time until the next look at a task.
fn pause(task: &Task) -> Duration {
    pause_of(task.poll_interval_ms)
}

/// Returns the time until the next look, for the milliseconds that a server names.
pub(super) fn pause_of(wanted: Option<u64>) -> Duration {
    wanted.map_or(POLL_DEFAULT, Duration::from_millis).clamp(POLL_MIN, POLL_MAX)
}

fn failure(server: &str, error: &JsonObject) -> McpError {
    McpError::Server {
        server: server.to_owned(),
        code: error.get("code").and_then(serde_json::Value::as_i64).unwrap_or_default(),
        message: quoted(error.get("message").and_then(serde_json::Value::as_str).unwrap_or("the task failed")),
        data: error.get("data").map(ToString::to_string),
    }
}
