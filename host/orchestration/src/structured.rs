//! Structured answers: JSON that matches a schema.
//!
//! The model gets an additional tool whose arguments are the answer; the run ends when the model calls it. Arguments
//! that do not match the schema are rejected as with any tool, so that the model can fix them. A model that stops
//! without calling the tool gets a reminder, and is then forced to call it. Both count as failed attempts, whose number
//! is limited.

use crate::plan::PlanError;
use futures_util::future::BoxFuture;
use pinion_agent::Context;
use pinion_agent::Hooks;
use pinion_agent::LoopConfig;
use pinion_agent::hooks::Flow;
use pinion_agent::{Agent, AgentError, block_on};
use pinion_protocol::approval::DeniedCall;
use pinion_protocol::authority::Authority;
use pinion_protocol::content::text_of;
use pinion_protocol::definition::{Execution, Instructions, ToolDefinition};
use pinion_protocol::identity::TurnTrigger;
use pinion_protocol::message::Message;
use pinion_protocol::outcome::{Outcome, RunEnd};
use pinion_protocol::provider::ToolChoice;
use pinion_protocol::schema::{SchemaError, check_schema};
use pinion_protocol::tool::{ANSWER_TOOL, ToolExecutor, ToolInvocation, ToolOutput, ToolProgress, ToolReply};
use pinion_protocol::usage::Usage;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

const REMINDER: &str = "Give your answer now by calling the tool `final_answer`.";

/// An answer and its run.
#[derive(Debug, Clone, PartialEq)]
pub struct StructuredAnswer<T = Value> {
    /// The answer, which matches the schema.
    pub value: T,
    /// The run that gave the answer; earlier attempts are not included.
    pub outcome: Outcome,
}

/// The reason there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// No run started.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The name of the answer tool is taken.
    #[error("the tool name `{ANSWER_TOOL}` is already in use")]
    NameTaken,
    /// A run ended for another reason.
    #[error("the run ended without an answer: {end}")]
    Ended {
        /// The reason.
        end: RunEnd,
    },
    /// The model gave no valid answer despite reminders.
    #[error("the model gave no valid answer in {attempts} attempts{}", last_problem(last_error.as_deref()))]
    NoAnswer {
        /// Number of failed attempts.
        attempts: u32,
        /// The problem with the last invalid answer; `None` if the model never called the tool.
        last_error: Option<String>,
        /// Text of the model in the first run, before the reminders.
        text: String,
    },
    /// The schema is too large or too complex.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The answer matches the schema but not the type.
    #[error("the answer does not have the expected type")]
    Type(#[from] serde_json::Error),
    /// Calls of a plan step were denied, so that the step is not done, even if the model reports that it is.
    #[error("calls were denied: {}", listed(calls))]
    Denied {
        /// The denied calls.
        calls: Vec<DeniedCall>,
        /// Report of the model.
        report: String,
    },
    /// The plan does not have the step.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl AnswerError {
    /// Returns whether the run was aborted.
    pub fn is_abort(&self) -> bool {
        matches!(self, Self::Ended { end: RunEnd::Aborted })
    }
}

/// Runs an agent until it gives an answer that matches a JSON Schema, whose root must be an object. A model that stops
/// without an answer, or gives an invalid one, gets up to `max_retries` further attempts.
///
/// # Errors
/// See [`AnswerError`]. The history contains all messages up to the error.
pub async fn answer(
    agent: &Agent,
    prompts: Vec<Message>,
    schema: Value,
    max_retries: u32,
) -> Result<StructuredAnswer, AnswerError> {
    answer_with(agent, agent.config(), None, prompts, schema, max_retries).await
}

/// Like [`answer`], but blocks the calling thread, which must not have an asynchronous runtime, until there is an answer.
///
/// # Errors
/// See [`AnswerError`]; also if the thread belongs to a runtime, or if a runtime cannot be created.
pub fn answer_blocking(
    agent: &Agent,
    prompts: Vec<Message>,
    schema: Value,
    max_retries: u32,
) -> Result<StructuredAnswer, AnswerError> {
    block_on(answer(agent, prompts, schema, max_retries))?
}

/// Like [`answer`], with another config and with `instructions` appended to the system prompt.
pub(crate) async fn answer_with(
    agent: &Agent,
    config: LoopConfig,
    instructions: Option<&str>,
    prompts: Vec<Message>,
    schema: Value,
    max_retries: u32,
) -> Result<StructuredAnswer, AnswerError> {
    if config.ports.tools.definitions().iter().any(|tool| tool.name == ANSWER_TOOL) {
        return Err(AnswerError::NameTaken);
    }
    check_schema(&schema)?;
    let tools = Arc::new(WithAnswer::new(config.ports.tools.clone(), schema));
    let mut config = config;
    config.ports.tools = tools.clone();
    let attempts = Arc::new(AttemptLimit { tools: tools.clone(), max: max_retries, failed: Mutex::default() });
    config.ports.hooks.push(attempts.clone());
    let mut prompts = prompts;
    let mut text = None;
    loop {
        let outcome = agent.run_with(&config, instructions, prompts).await?;
        if let Some(value) = tools.take_answer() {
            return Ok(StructuredAnswer { value, outcome });
        }
        if !matches!(outcome.end, RunEnd::Done { .. }) {
            return Err(AnswerError::Ended { end: outcome.end });
        }
        let text = text.get_or_insert_with(|| outcome.text());
        if let Some(Failed { count, last_error }) = attempts.end_run() {
            return Err(AnswerError::NoAnswer { attempts: count, last_error, text: std::mem::take(text) });
        }
        prompts = vec![Message::labelled("asked for the answer", REMINDER)];
        config.policy.tool_choice = ToolChoice::Tool(ANSWER_TOOL.to_owned());
    }
}

/// Like [`answer`], but deserializes the answer into `T`, which `schema` must describe.
///
/// # Errors
/// See [`AnswerError`].
pub async fn answer_as<T: DeserializeOwned>(
    agent: &Agent,
    prompts: Vec<Message>,
    schema: Value,
    max_retries: u32,
) -> Result<StructuredAnswer<T>, AnswerError> {
    let answer = answer(agent, prompts, schema, max_retries).await?;
    Ok(StructuredAnswer { value: serde_json::from_value(answer.value)?, outcome: answer.outcome })
}

/// Lists the tools of denied calls in backticks, without duplicates.
fn listed(calls: &[DeniedCall]) -> String {
    let mut tools: Vec<&str> = Vec::new();
    for call in calls {
        if !tools.contains(&call.tool.as_str()) {
            tools.push(&call.tool);
        }
    }
    format!("`{}`", tools.join("`, `"))
}

/// An executor with an additional tool for the answer.
pub(crate) struct WithAnswer {
    tools: Arc<dyn ToolExecutor>,
    definition: Arc<ToolDefinition>,
    answer: Mutex<Option<Value>>,
}

impl WithAnswer {
    pub(crate) fn new(tools: Arc<dyn ToolExecutor>, schema: Value) -> Self {
        let definition = ToolDefinition {
            name: ANSWER_TOOL.to_owned(),
            label: "Final answer".to_owned(),
            description: "Submits the final answer. Call it once, when the work is done.".to_owned(),
            input_schema: schema,
            guidelines: Vec::new(),
            authority: Authority::default(),
            execution: Execution::Sequential,
            source: Default::default(),
        };
        Self { tools, definition: Arc::new(definition), answer: Mutex::default() }
    }

    fn is_answered(&self) -> bool {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn take_answer(&self) -> Option<Value> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ToolExecutor for WithAnswer {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        let mut definitions = self.tools.definitions();
        // A plugin that is loaded during the run cannot take the name.
        definitions.retain(|tool| tool.name != ANSWER_TOOL);
        definitions.push(self.definition.clone());
        definitions
    }

    fn instructions(&self) -> Vec<Instructions> {
        self.tools.instructions()
    }

    fn withheld(&self, tool: &str) -> Option<String> {
        self.tools.withheld(tool)
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        if !Arc::ptr_eq(&call.tool, &self.definition) {
            return self.tools.call(call, progress);
        }
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(call.arguments);
        Box::pin(async { Ok(ToolOutput::text("Answer received.")).into() })
    }
}

/// Ends a run when the model has answered, or has used up its attempts.
struct AttemptLimit {
    tools: Arc<WithAnswer>,
    /// Maximum number of failed attempts before the last one.
    max: u32,
    failed: Mutex<Failed>,
}

/// The attempts that failed.
#[derive(Clone, Default)]
struct Failed {
    count: u32,
    last_error: Option<String>,
}

impl AttemptLimit {
    fn failed(&self) -> MutexGuard<'_, Failed> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a run that ended without an answer, unless its last attempt already counts. Returns the failed attempts
    /// if no further one is allowed.
    fn end_run(&self) -> Option<Failed> {
        let mut failed = self.failed();
        if failed.count <= self.max {
            failed.count += 1;
        }
        (failed.count > self.max).then(|| failed.clone())
    }
}

impl Hooks for AttemptLimit {
    fn after_turn<'a>(&'a self, context: &'a Context, _: &'a Usage, _: &'a CancellationToken) -> BoxFuture<'a, Flow> {
        let mut flow = if self.tools.is_answered() { Flow::Stop } else { Flow::Continue };
        if let (Flow::Continue, Some(problem)) = (flow, invalid_answer(context)) {
            let mut failed = self.failed();
            (failed.count, failed.last_error) = (failed.count + 1, Some(problem));
            if failed.count > self.max {
                flow = Flow::Stop;
            }
        }
        Box::pin(async move { flow })
    }
}

/// Returns the problem of the answer that the last turn gave, if it gave an invalid one. Sub-agents call the same hooks,
/// but cannot answer.
fn invalid_answer(context: &Context) -> Option<String> {
    if context.first_trigger == TurnTrigger::SubAgent {
        return None;
    }
    let results = context.messages.iter().rev().map_while(|message| match &**message {
        Message::ToolResult(result) => Some(result),
        _ => None,
    });
    let mut invalid = results.filter(|result| result.tool_name == ANSWER_TOOL && result.is_error);
    invalid.next().map(|result| text_of(&result.content))
}

fn last_problem(problem: Option<&str>) -> String {
    problem.map(|problem| format!("; the last one: {problem}")).unwrap_or_default()
}
