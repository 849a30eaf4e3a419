//! Requests of plugins to models: within the grant, the limits of the run, and the life of the call.

use super::talks::{ScriptedUser, Talk, steps};
use pinion_agent::RunEnd;
use pinion_agent::outcome::Limit;
use pinion_plugin_runtime::ModelGrant;
use pinion_tests::{Sandbox, SandboxBuilder, until};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

async fn granted(change: impl FnOnce(&mut ModelGrant)) -> Sandbox {
    let mut grant = ModelGrant::default();
    change(&mut grant);
    let builder = SandboxBuilder::default().guest("talker").grant("talker", |grants| grants.model = Some(grant));
    builder.watched().build().await
}

fn ask(more: Value) -> Value {
    let mut request = json!({ "prompt": "Say it." });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "complete": request })
}

fn talk(sandbox: &Sandbox, does: Value) -> Talk {
    Talk::new(sandbox, ScriptedUser::with([]), [steps("talk_delegating", does)], |_| {})
}

#[tokio::test]
async fn model_needs_a_grant_and_a_declared_effect() {
    let sandbox = SandboxBuilder::default().guest("talker").watched().build().await;
    let told = talk(&sandbox, json!([ask(json!({}))])).run().await;
    assert!(told.result().contains("may not ask models"), "{}", told.result());
    let sandbox = granted(|_| {}).await;
    let talk = Talk::new(&sandbox, ScriptedUser::with([]), [steps("talk_reading", json!([ask(json!({}))]))], |_| {});
    let model = talk.model.clone();
    let result = talk.run().await.result();
    assert!(result.contains("does not declare the effect `delegates`"), "{result}");
    assert!(model.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn completion_counts_as_the_runs_and_sees_nothing_of_it() {
    let sandbox = granted(|_| {}).await;
    let talk = talk(&sandbox, json!([ask(json!({}))]));
    let model = talk.model.clone();
    let told = talk.run().await;
    assert!(told.result().contains("answered") && told.result().contains("input-tokens: 10"), "{}", told.result());
    // Two turns and the request of the plugin, of 15 tokens each.
    assert_eq!(told.outcome.spend.usage.total(), 45);
    let asked = model.asked.lock().unwrap();
    assert_eq!((asked.len(), asked[0].messages.len(), asked[0].tools.len()), (1, 1, 0));
    assert_eq!((&*asked[0].system, asked[0].options.max_output_tokens), ("Be terse.", Some(100)));
}

#[tokio::test]
async fn grant_names_the_models() {
    let sandbox = granted(|grant| {
        grant.models.insert("named".to_owned());
    })
    .await;
    let does = json!([ask(json!({ "model": "other" })), ask(json!({ "model": "named" }))]);
    let talk = talk(&sandbox, does);
    let model = talk.model.clone();
    let result = talk.run().await.result();
    assert!(result.contains("does not name the model `other`; it names: named"), "{result}");
    assert!(result.contains("no models are configured"), "{result}");
    assert!(model.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn tokens_of_the_grant_run_out() {
    let sandbox = granted(|grant| grant.max_tokens = Some(25)).await;
    let talk = talk(&sandbox, json!([ask(json!({})), ask(json!({})), ask(json!({}))]));
    let model = talk.model.clone();
    let result = talk.run().await.result();
    assert_eq!(result.matches("the 25 tokens of the grant are used up").count(), 1, "{result}");
    let most: Vec<_> = model.asked.lock().unwrap().iter().map(|request| request.options.max_output_tokens).collect();
    assert_eq!(most, [Some(25), Some(10)]);
    // Another run of the same program gets no new ones.
    let again = self::talk(&sandbox, json!([ask(json!({}))])).run().await.result();
    assert!(again.contains("BudgetExceeded"), "{again}");
}

#[tokio::test]
async fn limits_of_the_run_apply_to_completions() {
    let sandbox = granted(|_| {}).await;
    let does = json!([ask(json!({})), ask(json!({}))]);
    let talk = Talk::new(&sandbox, ScriptedUser::with([]), [steps("talk_delegating", does)], |config| {
        config.policy.limits.max_tokens = Some(25);
    });
    let told = talk.run().await;
    assert!(told.result().contains("Ok(") && told.result().contains("BudgetExceeded"), "{}", told.result());
    assert!(matches!(told.outcome.end, RunEnd::Limit { limit: Limit::Tokens(25) }));
}

#[tokio::test]
async fn invalid_requests_are_not_sent() {
    let sandbox = granted(|_| {}).await;
    let does = json!([
        ask(json!({ "max_tokens": 0 })),
        ask(json!({ "messages": 2 })),
        ask(json!({ "messages": 0 })),
        ask(json!({ "messages": 201 })),
        ask(json!({ "bytes": 1_100_000 })),
        ask(json!({ "schema": true })),
        ask(json!({ "schema": { "type": "string" } })),
    ]);
    let talk = talk(&sandbox, does);
    let model = talk.model.clone();
    let result = talk.run().await.result();
    assert_eq!(result.matches("Invalid").count(), 7, "{result}");
    assert!(model.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn structured_answer_matches_the_schema_or_is_an_error() {
    let sandbox = granted(|_| {}).await;
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let does = json!([ask(json!({ "schema": schema })), ask(json!({ "schema": schema }))]);
    let talk = talk(&sandbox, does);
    talk.model.answers.lock().unwrap().extend([r#"{"n":"x"}"#, r#"{"n":7}"#, "{}", r#"{"n":"no"}"#].map(str::to_owned));
    let told = talk.run().await;
    assert!(told.result().contains(r#"{\"n\":7}"#), "{}", told.result());
    assert!(told.result().contains("Failed(\"the model gave no valid answer"), "{}", told.result());
    assert_eq!(told.outcome.spend.usage.total(), 2 * 15 + 4 * 15);
}

#[tokio::test]
async fn aborted_run_ends_a_completion() {
    let sandbox = granted(|_| {}).await;
    let talk = talk(&sandbox, json!([ask(json!({}))]));
    talk.model.answers.lock().unwrap().push_back(String::new());
    let (agent, model) = (talk.agent.clone(), talk.model.clone());
    let running = tokio::spawn(talk.run());
    until("the request", || !model.asked.lock().unwrap().is_empty()).await;
    agent.abort();
    assert!(matches!(running.await.unwrap().outcome.end, RunEnd::Aborted));
}

#[tokio::test]
async fn command_asks_no_model() {
    let sandbox = granted(|_| {}).await;
    let talk = talk(&sandbox, json!([]));
    let token = CancellationToken::new();
    let services = talk.agent.services_for_command(&token);
    let typed = json!([ask(json!({}))]).to_string();
    let actions = sandbox.runtime.run_command("talk", &typed, "s", Some(services), token).await.unwrap();
    assert!(format!("{actions:?}").contains("only calls of tools may"), "{actions:?}");
}
