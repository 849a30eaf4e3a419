//! Tasks: long requests whose result is fetched later (extension `io.modelcontextprotocol/tasks`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rmcp::model::{
    CancelTaskParams, CancelTaskRequest, ClientRequest, CreateTaskResult, GetTaskParams, GetTaskRequest, InputRequests,
    JsonObject, ServerResult, Task, TaskPayload, UpdateTaskParams, UpdateTaskRequest,
};
use rmcp::service::{Peer, RoleClient};
use tokio::time::{sleep, sleep_until, timeout};

use super::handler::Progress;
use super::{CANCEL_WAIT, Connection, Failure};
use crate::error::{McpError, quoted};
use crate::limits::{MAX_INPUT_ROUNDS, MAX_QUESTIONS};
use crate::questions::Questions;
use crate::request::CallContext;

/// Bounds of the time between two looks at a task, and the time if the server names none.
const POLL_MIN: Duration = Duration::from_millis(100);
const POLL_MAX: Duration = Duration::from_secs(10);
const POLL_DEFAULT: Duration = Duration::from_secs(1);

/// Cancels a task that is dropped before its end.
struct Running<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<String>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let peer = self.peer.clone();
            runtime.spawn(async move {
                let request = CancelTaskRequest::new(CancelTaskParams::new(id));
                let _ = timeout(CANCEL_WAIT, peer.send_request(request.into())).await;
            });
        }
    }
}

impl Connection {
    /// Waits for the end of a task and returns its result as JSON. The caller's deadline limits the wait.
    pub(super) async fn follow(
        &self,
        created: CreateTaskResult,
        call: &CallContext,
        limit: Duration,
        questions: &Questions,
    ) -> Result<String, Failure> {
        let mut task = created.task;
        let id = task.task_id.clone();
        let mut running = Running { peer: self.peer(), id: Some(id.clone()) };
        let mut answered = BTreeSet::new();
        let mut rounds = 0;
        loop {
            tokio::select! {
                biased;
                () = call.cancel.cancelled() => return Err(McpError::Cancelled { request_sent: true }.into()),
                () = sleep_until(call.deadline) => return Err(self.late("tasks/get", true).into()),
                () = sleep(pause(&task)) => {}
            }
            let message = GetTaskRequest::new(GetTaskParams::new(id.clone())).into();
            let found = match self.send(message, call, limit, "tasks/get").await? {
                ServerResult::GetTaskResult(found) => found.task,
                _ => return Err(McpError::sent(&self.server, "answered `tasks/get` with another result").into()),
            };
            task = found.task;
            match found.payload {
                TaskPayload::Working => {
                    if let (Some(on_progress), Some(text)) = (call.progress(), &task.status_message) {
                        on_progress(Progress { fraction: None, message: Some(quoted(text)) });
                    }
                }
                TaskPayload::InputRequired { input_requests } => {
                    // A task repeats its questions until it has taken note of the answers.
                    let asked = input_requests.into_iter().filter(|(key, _)| !answered.contains(key));
                    let asked: InputRequests = asked.collect();
                    if asked.is_empty() {
                        continue;
                    }
                    if rounds == MAX_INPUT_ROUNDS || asked.len() > MAX_QUESTIONS {
                        return Err(McpError::sent(&self.server, "asked for input too often during a task").into());
                    }
                    rounds += 1;
                    answered.extend(asked.keys().cloned());
                    let message = tokio::select! {
                        biased;
                        () = call.cancel.cancelled() => return Err(McpError::Cancelled { request_sent: true }.into()),
                        () = sleep_until(call.deadline) => return Err(self.late("tasks/update", true).into()),
                        message = self.update(&id, asked, questions) => message?,
                    };
                    self.send(message, call, limit, "tasks/update").await?;
                }
                payload => {
                    running.id = None;
                    return self.end_of_task(payload).map_err(Failure::from);
                }
            }
        }
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
            TaskPayload::Completed { result } => {
                serde_json::to_string(&result).map_err(|error| McpError::sent(server, error.to_string()))
            }
            TaskPayload::Failed { error } => Err(failure(server, &error)),
            _ => Err(McpError::sent(server, "cancelled the task")),
        }
    }
}

/// Returns the time until the next look at a task.
fn pause(task: &Task) -> Duration {
    let wanted = task.poll_interval_ms.map_or(POLL_DEFAULT, Duration::from_millis);
    wanted.clamp(POLL_MIN, POLL_MAX)
}

fn failure(server: &str, error: &JsonObject) -> McpError {
    McpError::Server {
        server: server.to_owned(),
        code: error.get("code").and_then(serde_json::Value::as_i64).unwrap_or_default(),
        message: quoted(error.get("message").and_then(serde_json::Value::as_str).unwrap_or("the task failed")),
        data: error.get("data").map(ToString::to_string),
    }
}
