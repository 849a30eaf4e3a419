//! The import `model`. The run that made the call asks the model, with its own budget.

use super::{Model, UsedTokens};
use crate::bindings::pinion::plugin::model::{self, Completion, CompletionRequest, ModelError, Role};
use crate::calls::state::State;
use crate::convert;
use pinion_plugin_journal::linker::Linker;
use pinion_protocol::services::{CompletionAnswer, CompletionError, CompletionTask};
use serde_json::Value;
use std::sync::Arc;
use wasmtime::component::HasSelf;

/// Messages and bytes of a request.
const MAX_MESSAGES: usize = 200;
const MAX_BYTES: usize = 1024 * 1024;
/// Bytes of the schema of an answer.
const MAX_SCHEMA: usize = 64 * 1024;

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    model::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl model::Host for State {
    async fn complete(&mut self, request: CompletionRequest) -> wasmtime::Result<Result<Completion, ModelError>> {
        self.spend_output(request_bytes(&request))?;
        Ok(match self.reserve_completion(request) {
            Ok(reserved) => self.complete_reserved(reserved).await,
            Err(error) => Err(error),
        })
    }
}

/// A request that may be sent, with its tokens reserved. All of them count as used when it is dropped without an answer.
pub(crate) struct Reserved {
    pub(crate) task: CompletionTask,
    tokens: Arc<UsedTokens>,
    plugin: Arc<str>,
    used: u64,
}

impl Reserved {
    /// Counts the resources used for an answer.
    pub(crate) fn settle(
        mut self,
        answer: Result<CompletionAnswer, CompletionError>,
    ) -> Result<Completion, ModelError> {
        let answer = answer.map_err(|failed| {
            self.used = failed.used();
            error(failed)
        })?;
        self.used = answer.usage.total();
        let (input, output) = (answer.usage.total() - answer.usage.output, answer.usage.output);
        Ok(Completion {
            text: answer.text,
            model: answer.model,
            input_tokens: convert::count(input),
            output_tokens: convert::count(output),
        })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.tokens.settle(&self.plugin, self.task.max_tokens, self.used);
    }
}

impl State {
    /// Checks whether a request may be sent, and reserves its tokens.
    pub(crate) fn reserve_completion(&mut self, request: CompletionRequest) -> Result<Reserved, ModelError> {
        let denied = |text: String| Err(ModelError::Denied(text));
        let bytes = request_bytes(&request);
        if bytes > MAX_BYTES {
            return Err(ModelError::Invalid(format!("a request of {bytes} bytes, of at most {MAX_BYTES}")));
        }
        let grant = match self.call.authority.check::<Model>() {
            Ok(grant) => grant.clone(),
            Err(reason) => return denied(reason.to_string()),
        };
        if self.call.services.is_none() {
            return denied("no model can be asked outside conversations".to_owned());
        }
        if let Some(name) = request.model.as_ref().filter(|name| !grant.models.contains(*name)) {
            let allowed: Vec<&str> = grant.models.iter().map(String::as_str).collect();
            return denied(format!(
                "the grant of `{}` does not name the model `{name}`; it names: {}",
                self.plugin,
                if allowed.is_empty() { "none but that of the conversation".to_owned() } else { allowed.join(", ") }
            ));
        }
        let wanted = u64::from(request.max_tokens);
        let meters = self.meters().map_err(ModelError::BudgetExceeded)?;
        let mut task = CompletionTask { meters, ..task(request)? };
        let Some(reserved) = self.used_tokens.reserve(&self.plugin, wanted, grant.max_tokens) else {
            let limit = grant.max_tokens.unwrap_or_default();
            return Err(ModelError::BudgetExceeded(format!("the {limit} tokens of the grant are used up")));
        };
        task.max_tokens = reserved;
        self.account.capabilities.model.requests += 1;
        Ok(Reserved { task, tokens: self.used_tokens.clone(), plugin: self.plugin.clone(), used: reserved })
    }

    /// Sends a request and waits for the answer.
    pub(crate) async fn complete_reserved(&mut self, reserved: Reserved) -> Result<Completion, ModelError> {
        let Some(services) = self.call.services.clone() else { return Err(ModelError::Cancelled) };
        let answer = services.complete(reserved.task.clone()).await;
        reserved.settle(answer)
    }
}

/// Returns the bytes of a request.
pub(crate) fn request_bytes(request: &CompletionRequest) -> usize {
    let messages: usize = request.messages.iter().map(|message| convert::contents_bytes(&message.content) + 64).sum();
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    messages + text(&request.system) + text(&request.model) + text(&request.schema) + text(&request.extra)
}

/// Converts a request.
fn task(request: CompletionRequest) -> Result<CompletionTask, ModelError> {
    let invalid = |text: String| Err(ModelError::Invalid(text));
    let CompletionRequest { system, messages, model, max_tokens, schema, .. } = request;
    if max_tokens == 0 {
        return invalid("`max-tokens` must be at least 1".to_owned());
    }
    let is_alternating = messages.iter().enumerate().all(|(at, message)| (message.role == Role::User) == (at % 2 == 0));
    if messages.len() % 2 == 0 || messages.len() > MAX_MESSAGES || !is_alternating {
        return invalid(format!(
            "the messages must alternate, begin and end with the user's, and be at most {MAX_MESSAGES}"
        ));
    }
    let schema: Option<Value> = match schema {
        Some(schema) if schema.len() > MAX_SCHEMA => {
            return invalid(format!("a schema of {} bytes, of at most {MAX_SCHEMA}", schema.len()));
        }
        Some(schema) => match serde_json::from_str::<Value>(&schema) {
            Ok(schema) if schema.get("type") == Some(&Value::from("object")) => Some(schema),
            Ok(_) => return invalid("the schema must have the type `object`".to_owned()),
            Err(error) => return invalid(format!("the schema is not JSON: {error}")),
        },
        None => None,
    };
    let mut turns = Vec::with_capacity(messages.len());
    for message in messages {
        let mut content = Vec::with_capacity(message.content.len());
        for part in message.content {
            let part = convert::content(part);
            if let pinion_protocol::Content::Image(image) = &part {
                image.check_format().map_err(|problem| ModelError::Invalid(format!("an image: {problem}")))?;
            }
            content.push(part);
        }
        turns.push(content);
    }
    let (system, max_tokens) = (system.unwrap_or_default(), u64::from(max_tokens));
    Ok(CompletionTask { system, turns, model, max_tokens, schema, meters: Vec::new() })
}

fn error(error: CompletionError) -> ModelError {
    let text = error.to_string();
    match error {
        CompletionError::Invalid { .. } => ModelError::Invalid(text),
        CompletionError::Limit { .. } => ModelError::BudgetExceeded(text),
        CompletionError::Cancelled => ModelError::Cancelled,
        CompletionError::Failed { .. } => ModelError::Failed(text),
    }
}
