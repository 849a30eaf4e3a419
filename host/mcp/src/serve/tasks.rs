//! Calls whose results clients fetch later: the extension `io.modelcontextprotocol/tasks`.
//!
//! A task goes on without its client, and waits for the answers to its questions. One that its client does not ask
//! about for [`TASK_TIME`] is cancelled, or forgotten if it has ended.

use super::convert;
use super::expiring::Expiring;
use super::held_requests::{LongCall, answered, input_requests};
use super::progress::ProgressReport;
use super::question::ClientQuestion;
use super::request::{FinishedRequest, RequestEvent, RunningRequest};
use jiff::Timestamp;
use rmcp::model::{
    ClientCapabilities, CreateTaskResult, DetailedTask, ErrorData, GetTaskResult, InputResponses, JsonObject, Task,
    TaskPayload, TaskStatus,
};
use serde::Serialize;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::AbortOnDropHandle;

/// Tasks at a time; those that have ended make room for further ones.
const MAX_TASKS: usize = 64;
/// Time that a task is kept after its client has asked about it.
const TASK_TIME: Duration = Duration::from_secs(600);
/// Time until a client should ask again, in milliseconds.
const POLL_MS: u64 = 1_000;

/// The tasks of a server.
pub(super) struct Tasks(Expiring<RunningTask>);

impl Default for Tasks {
    fn default() -> Self {
        Self(Expiring::new(MAX_TASKS, TASK_TIME))
    }
}

/// A task. Dropping it cancels its call.
struct RunningTask {
    state: Arc<TaskState>,
    /// `None` once the task was cancelled.
    driver: Option<AbortOnDropHandle<()>>,
}

struct TaskState {
    created: Timestamp,
    now: Mutex<Now>,
    /// Notified when the last open question was answered.
    answered: Notify,
}

/// The state of a task that changes.
struct Now {
    status: ServedTaskStatus,
    message: Option<String>,
    updated: Timestamp,
}

enum ServedTaskStatus {
    Working,
    /// Waits for the answers to these questions.
    Asking(Vec<ClientQuestion>),
    Completed(JsonObject),
    Failed(JsonObject),
    Cancelled,
}

impl TaskState {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the status, unless the task is over.
    fn set(&self, status: ServedTaskStatus) {
        let mut now = self.now();
        if !now.status.is_over() {
            (now.status, now.updated) = (status, Timestamp::now());
        }
    }

    fn set_message(&self, message: String) {
        let mut now = self.now();
        (now.message, now.updated) = (Some(message), Timestamp::now());
    }

    fn finish(&self, done: Result<FinishedRequest, ErrorData>) {
        let failed = |error: &ErrorData| ServedTaskStatus::Failed(object(error));
        self.set(match done {
            Ok(FinishedRequest::Call(reply)) if reply.is_fault => {
                failed(&ErrorData::internal_error(convert::text(&reply.output), None))
            }
            Ok(FinishedRequest::Call(reply)) => ServedTaskStatus::Completed(object(&convert::result(*reply))),
            Ok(FinishedRequest::Prompt(_)) => failed(&ErrorData::internal_error("another request", None)),
            Err(error) => failed(&error),
        });
    }
}

fn object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

impl Tasks {
    /// Returns whether there is room for another task.
    pub(super) fn have_room(&self) -> bool {
        self.0.have_room(RunningTask::is_over)
    }

    /// Continues a call as a task.
    ///
    /// # Errors
    /// There are too many tasks.
    pub(super) fn begin(
        &self,
        call: LongCall,
        client: ClientCapabilities,
        calls: Arc<Semaphore>,
    ) -> Result<CreateTaskResult, ErrorData> {
        let LongCall { request, message, done } = call;
        let created = Timestamp::now();
        let now = Mutex::new(Now { status: ServedTaskStatus::Working, message, updated: created });
        let state = Arc::new(TaskState { created, now, answered: Notify::new() });
        let driver = match done {
            Some(done) => {
                state.finish(done);
                None
            }
            None => Some(AbortOnDropHandle::new(tokio::spawn(drive(request, state.clone(), client, calls)))),
        };
        let task = RunningTask { state: state.clone(), driver };
        let id =
            self.0.insert(task, RunningTask::is_over).map_err(|_| ErrorData::internal_error("too many tasks", None))?;
        Ok(CreateTaskResult::new(state.task(&id, TASK_TIME)))
    }

    /// Returns the state of a task.
    pub(super) fn get(&self, id: &str) -> Result<GetTaskResult, ErrorData> {
        let detailed = self.0.with(id, |task, time| {
            let payload = match &task.state.now().status {
                ServedTaskStatus::Working => TaskPayload::Working,
                ServedTaskStatus::Asking(open) => TaskPayload::InputRequired { input_requests: input_requests(open) },
                ServedTaskStatus::Completed(result) => TaskPayload::Completed { result: result.clone() },
                ServedTaskStatus::Failed(error) => TaskPayload::Failed { error: error.clone() },
                ServedTaskStatus::Cancelled => TaskPayload::Cancelled,
            };
            DetailedTask::new(task.state.task(id, time), payload)
        });
        detailed.map(GetTaskResult::new).ok_or_else(unknown)
    }

    /// Answers questions of a task. Those that are not answered, or not in a form that fits, stay open; other answers are
    /// ignored.
    pub(super) fn update(&self, id: &str, mut given: InputResponses) -> Result<(), ErrorData> {
        let update = |task: &mut RunningTask, _| {
            let mut now = task.state.now();
            let ServedTaskStatus::Asking(open) = &mut now.status else { return };
            *open = std::mem::take(open).into_iter().filter_map(|question| answered(question, &mut given)).collect();
            if open.is_empty() {
                now.status = ServedTaskStatus::Working;
                task.state.answered.notify_one();
            }
            now.updated = Timestamp::now();
        };
        self.0.with(id, update).ok_or_else(unknown)
    }

    /// Cancels a task that has not ended.
    pub(super) fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        let cancel = |task: &mut RunningTask, _| {
            task.state.set(ServedTaskStatus::Cancelled);
            task.driver = None;
        };
        self.0.with(id, cancel).ok_or_else(unknown)
    }
}

impl ServedTaskStatus {
    fn is_over(&self) -> bool {
        !matches!(self, Self::Working | Self::Asking(_))
    }
}

impl RunningTask {
    fn is_over(&self) -> bool {
        self.state.now().status.is_over()
    }
}

impl TaskState {
    /// Returns the task without the details of its status. It is kept for `time` from now on at least.
    fn task(&self, id: &str, time: Duration) -> Task {
        let now = self.now();
        let status = match now.status {
            ServedTaskStatus::Working => TaskStatus::Working,
            ServedTaskStatus::Asking(_) => TaskStatus::InputRequired,
            ServedTaskStatus::Completed(_) => TaskStatus::Completed,
            ServedTaskStatus::Failed(_) => TaskStatus::Failed,
            ServedTaskStatus::Cancelled => TaskStatus::Cancelled,
        };
        let age = Timestamp::now().as_millisecond().saturating_sub(self.created.as_millisecond());
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let task = Task::new(id, status, self.created.to_string(), now.updated.to_string())
            .with_ttl_ms(time.saturating_add(u64::try_from(age).unwrap_or_default()))
            .with_poll_interval_ms(POLL_MS);
        match &now.message {
            Some(message) => task.with_status_message(message.clone()),
            None => task,
        }
    }
}

/// Runs a request to its end. It counts among the calls while it does not wait for answers.
async fn drive(mut request: RunningRequest, state: Arc<TaskState>, client: ClientCapabilities, calls: Arc<Semaphore>) {
    loop {
        let permit = calls.acquire().await;
        loop {
            match request.next().await {
                RequestEvent::Done(done) => return state.finish(done),
                RequestEvent::Report(ProgressReport::Progress { message, .. }) => state.set_message(message),
                // There is no request that could carry it.
                RequestEvent::Report(ProgressReport::Line(..)) => {}
                RequestEvent::Asked(questions) => {
                    let open = request.askable(questions, &client);
                    if !open.is_empty() {
                        state.set(ServedTaskStatus::Asking(open));
                        break;
                    }
                }
            }
        }
        drop(permit);
        state.answered.notified().await;
    }
}

fn unknown() -> ErrorData {
    ErrorData::invalid_params("unknown or expired task", None)
}
