//! Requests of plugins to models: runs of a single reply, with the limits of the run whose call made them.

use crate::structured::{AnswerError, answer};
use futures_util::future::BoxFuture;
use pinion_agent::config::ChildKind;
use pinion_agent::spawn::Completer;
use pinion_agent::{Agent, Context, LoopConfig};
use pinion_protocol::content::Content;
use pinion_protocol::function::NoTools;
use pinion_protocol::limits::Budget;
use pinion_protocol::message::{AssistantMessage, Message, StopReason, UserMessage};
use pinion_protocol::outcome::{Limit, Outcome, RunEnd};
use pinion_protocol::provider::ToolChoice;
use pinion_protocol::services::{CompletionAnswer, CompletionError, CompletionTask};
use pinion_protocol::store::NoStore;
use pinion_protocol::usage::{Spend, Usage};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Further attempts at a structured answer.
const RETRIES: u32 = 1;

/// Returns the completer of runs, which [`LoopConfig`] takes as a port.
pub fn completions() -> Arc<dyn Completer> {
    Arc::new(Completions)
}

struct Completions;

impl Completer for Completions {
    fn complete<'a>(
        &'a self,
        config: &'a LoopConfig,
        task: CompletionTask,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, (Result<CompletionAnswer, CompletionError>, Spend)> {
        Box::pin(async move {
            match configured(config, &task, token).await {
                Ok(config) => ask(config, task, token).await,
                Err(error) => (Err(error), Spend::default()),
            }
        })
    }
}

/// Returns the config of the request.
async fn configured(
    config: &LoopConfig,
    task: &CompletionTask,
    token: &CancellationToken,
) -> Result<LoopConfig, CompletionError> {
    let mut config = config.child(ChildKind::Task);
    if let Some(name) = &task.model {
        let invalid = |message: String| CompletionError::Invalid { message: format!("cannot use `{name}`: {message}") };
        let models = config.ports.models.clone().ok_or_else(|| invalid("no models are configured".to_owned()))?;
        let found = token.run_until_cancelled(models.model(name)).await.ok_or(CompletionError::Cancelled)?;
        config = config.with_model(found.map_err(invalid)?);
        // The key of the run's requests belongs to the run's provider.
        config.policy.options.api_key = None;
    }
    if !task.meters.is_empty() {
        let whole = config.budget.take().unwrap_or_default();
        config.budget = Some(Arc::new(Budget::part_of(&whole, task.meters.clone())));
    }
    let most = config.policy.options.max_output_tokens.unwrap_or(u64::MAX);
    config.policy.options.max_output_tokens = Some(task.max_tokens.min(most));
    config.policy.limits.max_turns = Some(RETRIES + 2);
    config.policy.limits.max_time = None;
    config.policy.compaction.automatic = false;
    config.ports.tools = Arc::new(NoTools);
    // The session shows the call's result, not the model's answer.
    config.ports.store = Arc::new(NoStore);
    if task.schema.is_none() {
        config.policy.tool_choice = ToolChoice::None;
    }
    Ok(config)
}

async fn ask(
    config: LoopConfig,
    task: CompletionTask,
    token: &CancellationToken,
) -> (Result<CompletionAnswer, CompletionError>, Spend) {
    let (secrets, provider, model) =
        (config.ports.secrets.clone(), config.ports.provider.clone(), config.policy.model.name.clone());
    let CompletionTask { system, turns, schema, .. } = task;
    let mut messages = messages(turns, provider.name(), &model);
    let prompt: Vec<Message> = messages.pop().into_iter().collect();
    let session = config.policy.options.session_id.clone().unwrap_or_default();
    let context = Context { messages: messages.into_iter().map(Arc::new).collect(), ..Context::new(system, session) };
    let agent = Agent::new(config, context);
    let asking = async {
        match schema {
            None => agent.run(prompt).await.map_err(AnswerError::from).map(|outcome| (None, outcome)),
            Some(schema) => answer(&agent, prompt, schema, RETRIES).await.map(|a| (Some(a.value), a.outcome)),
        }
    };
    tokio::pin!(asking);
    let asked = tokio::select! {
        biased;
        asked = &mut asking => asked,
        () = token.cancelled() => {
            agent.abort();
            asking.await
        }
    };
    let spend = agent.totals().spend;
    let answer = match asked {
        Ok((value, outcome)) => answered(value.map(|value| value.to_string()), &outcome, spend.usage),
        Err(AnswerError::Ended { end }) => Err(ended(&end, spend.usage)),
        Err(AnswerError::Schema(error)) => Err(CompletionError::Invalid { message: error.to_string() }),
        Err(error) => Err(CompletionError::Failed { message: error.to_string(), usage: spend.usage }),
    };
    let clean =
        |answer: CompletionAnswer| CompletionAnswer { text: secrets.clean(&answer.text).into_owned(), ..answer };
    (answer.map(clean), spend)
}

fn answered(value: Option<String>, outcome: &Outcome, usage: Usage) -> Result<CompletionAnswer, CompletionError> {
    if value.is_none() && !matches!(outcome.end, RunEnd::Done { .. }) {
        return Err(ended(&outcome.end, usage));
    }
    let model = outcome.messages.iter().rev().find_map(|message| match &**message {
        Message::Assistant(reply) => Some(reply.model.clone()),
        _ => None,
    });
    let text = value.unwrap_or_else(|| outcome.text());
    Ok(CompletionAnswer { text, model: model.unwrap_or_default(), usage })
}

fn ended(end: &RunEnd, usage: Usage) -> CompletionError {
    match end {
        RunEnd::Aborted => CompletionError::Cancelled,
        RunEnd::Limit { limit } if !matches!(limit, Limit::Turns(_)) => CompletionError::Limit { limit: *limit },
        other => CompletionError::Failed { message: other.to_string(), usage },
    }
}

/// Creates the messages of a conversation that the user begins and ends.
fn messages(turns: Vec<Vec<Content>>, provider: &str, model: &str) -> Vec<Message> {
    let timestamp = pinion_agent::jiff::Timestamp::now();
    let message = |(at, content): (usize, Vec<Content>)| match at % 2 {
        0 => Message::User(UserMessage { content, label: None, timestamp }),
        _ => Message::Assistant(AssistantMessage {
            content,
            stop_reason: StopReason::Stop,
            provider: provider.to_owned(),
            model: model.to_owned(),
            requested_model: None,
            usage: Usage::default(),
            cost: None,
            error: None,
            timestamp,
        }),
    };
    turns.into_iter().enumerate().map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_of_a_run_that_did_not_end_well_is_an_error() {
        let outcome = |end: RunEnd| Outcome::new(end, Spend::default(), 1);
        let asked = |end: RunEnd| answered(None, &outcome(end), Usage::default());
        let done = asked(RunEnd::Done { stop_reason: StopReason::Stop }).unwrap();
        assert_eq!((done.text.as_str(), done.model.as_str()), ("", ""));
        assert!(matches!(asked(RunEnd::Aborted), Err(CompletionError::Cancelled)));
        assert!(matches!(asked(RunEnd::Limit { limit: Limit::Turns(1) }), Err(CompletionError::Failed { .. })));
        // A value that was accepted counts, however the run ended after it.
        let value = answered(Some("{}".to_owned()), &outcome(RunEnd::Aborted), Usage::default());
        assert_eq!(value.unwrap().text, "{}");
    }
}
