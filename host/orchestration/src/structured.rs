//! An answer as JSON that fits a schema.
//!
//! The model is offered one more tool, whose arguments are the answer, and the run ends when it was called. Arguments that
//! do not fit the schema are refused as those of any tool are, so that the model mends them. A model that stops without
//! the call is told to make it, and from then on it has to call that tool.

use crate::plan::PlanError;
use futures_util::future::BoxFuture;
use pinion_agent::Context;
use pinion_agent::LoopConfig;
use pinion_agent::{Agent, AgentError};
use pinion_agent::{Flow, Hooks};
use pinion_protocol::approval::DeniedCall;
use pinion_protocol::authority::Authority;
use pinion_protocol::definition::Execution;
use pinion_protocol::definition::ToolDefinition;
use pinion_protocol::message::Message;
use pinion_protocol::outcome::{Outcome, RunEnd};
use pinion_protocol::provider::ToolChoice;
use pinion_protocol::schema::{SchemaError, check_schema};
use pinion_protocol::tool::{ANSWER_TOOL, ToolExecutor, ToolInvocation, ToolOutput, ToolProgress, ToolReply};
use pinion_protocol::usage::Usage;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

const REMINDER: &str = "Give your answer now, by a call of the tool `final_answer`.";

/// An answer, and the run that led to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<T = Value> {
    /// Fits the schema.
    pub value: T,
    /// The last of the runs that it took.
    pub outcome: Outcome,
}

/// There is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// No run was begun.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A tool has the name that is needed.
    #[error("there is a tool `{ANSWER_TOOL}` already")]
    NameTaken,
    /// A run ended in another way.
    #[error("the run ended without an answer: {end:?}")]
    Ended {
        /// How.
        end: RunEnd,
    },
    /// The model did not give one, however often it was told to.
    #[error("the model gave no answer in {attempts} attempts")]
    NoAnswer {
        /// How often it was asked.
        attempts: u32,
    },
    /// The schema is too large or too complex to be checked against.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// It fits the schema, but not the type.
    #[error("the answer is not what the program expects")]
    Type(#[from] serde_json::Error),
    /// Calls of a step were denied, so that it does not count as done, whatever the model reports.
    #[error("calls were denied: {}", listed(calls))]
    Denied {
        /// The calls.
        calls: Vec<DeniedCall>,
        /// What the model reports.
        report: String,
    },
    /// A plan has no such step to be worked on.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl AnswerError {
    /// Was the run that should have led to the answer aborted?
    pub fn is_abort(&self) -> bool {
        matches!(self, Self::Ended { end: RunEnd::Aborted })
    }
}

/// Runs an agent until it gives an answer that fits a JSON Schema, whose root must be an object. A model that stops
/// without one is reminded, up to `max_retries` times.
///
/// # Errors
/// See [`AnswerError`]. What was said until then is in the history.
pub async fn answer(
    agent: &Agent,
    prompts: Vec<Message>,
    schema: Value,
    max_retries: u32,
) -> Result<Answer, AnswerError> {
    answer_with(agent, agent.config(), None, prompts, schema, max_retries).await
}

/// Gives an answer as [`answer`] does, with another config and more for the end of the system prompt.
pub(crate) async fn answer_with(
    agent: &Agent,
    config: LoopConfig,
    instructions: Option<&str>,
    prompts: Vec<Message>,
    schema: Value,
    max_retries: u32,
) -> Result<Answer, AnswerError> {
    if config.ports.tools.definitions().iter().any(|tool| tool.name == ANSWER_TOOL) {
        return Err(AnswerError::NameTaken);
    }
    check_schema(&schema)?;
    let tools = Arc::new(WithAnswer::new(config.ports.tools.clone(), schema));
    let mut config = config;
    config.ports.tools = tools.clone();
    config.ports.hooks.push(Arc::new(StopWhenAnswered(tools.clone())));
    let mut prompts = prompts;
    for _ in 0..=max_retries {
        let outcome = agent.run_with(&config, instructions, prompts).await?;
        if let Some(value) = tools.take() {
            return Ok(Answer { value, outcome });
        }
        if !matches!(outcome.end, RunEnd::Done { .. }) {
            return Err(AnswerError::Ended { end: outcome.end });
        }
        prompts = vec![Message::user(REMINDER)];
        config.policy.tool_choice = ToolChoice::Tool(ANSWER_TOOL.to_owned());
    }
    Err(AnswerError::NoAnswer { attempts: max_retries.saturating_add(1) })
}

/// Gives an answer as [`answer`] does, as a value of a type; `schema` is the schema of that type.
///
/// # Errors
/// See [`AnswerError`].
pub async fn answer_as<T: DeserializeOwned>(
    agent: &Agent,
    prompts: Vec<Message>,
    schema: Value,
    max_retries: u32,
) -> Result<Answer<T>, AnswerError> {
    let answer = answer(agent, prompts, schema, max_retries).await?;
    Ok(Answer { value: serde_json::from_value(answer.value)?, outcome: answer.outcome })
}

/// The tools of denied calls, each once, in backticks.
fn listed(calls: &[DeniedCall]) -> String {
    let mut tools: Vec<&str> = Vec::new();
    for call in calls {
        if !tools.contains(&call.tool.as_str()) {
            tools.push(&call.tool);
        }
    }
    format!("`{}`", tools.join("`, `"))
}

/// The tools, and one for the answer.
struct WithAnswer {
    tools: Arc<dyn ToolExecutor>,
    definition: Arc<ToolDefinition>,
    answer: Mutex<Option<Value>>,
}

impl WithAnswer {
    fn new(tools: Arc<dyn ToolExecutor>, schema: Value) -> Self {
        let definition = ToolDefinition {
            name: ANSWER_TOOL.to_owned(),
            label: "Final answer".to_owned(),
            description: "Gives the final answer. Call it once, when the work is done.".to_owned(),
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

    fn take(&self) -> Option<Value> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ToolExecutor for WithAnswer {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        let mut definitions = self.tools.definitions();
        // A plugin that is loaded meanwhile cannot take the name.
        definitions.retain(|tool| tool.name != ANSWER_TOOL);
        definitions.push(self.definition.clone());
        definitions
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        if !Arc::ptr_eq(&call.tool, &self.definition) {
            return self.tools.call(call, progress);
        }
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(call.arguments);
        Box::pin(async { Ok(ToolOutput::text("The answer was taken.")).into() })
    }
}

struct StopWhenAnswered(Arc<WithAnswer>);

impl Hooks for StopWhenAnswered {
    fn after_turn<'a>(&'a self, _: &'a Context, _: &'a Usage) -> BoxFuture<'a, Flow> {
        let flow = if self.0.is_answered() { Flow::Stop } else { Flow::Continue };
        Box::pin(async move { flow })
    }
}
