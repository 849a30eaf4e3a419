//! Sub-agents of the built-in tool `task`: their start, model, budget, and their work in the background.

use pinion_agent::approval::{Approval, ApprovalMode, DenyAll};
use pinion_agent::delegation::SubAgentPolicy;
use pinion_agent::provider::Request;
use pinion_agent::{Agent, Content, Context, LoopConfig, Message, Model, Outcome};
use pinion_plugin_runtime::SessionAccess;
use pinion_tests::{Pinion, Sandbox, SandboxBuilder, Say, Thinker, builtin, call, say};
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns the texts of the messages that the model sees.
fn texts(request: &Request) -> Vec<String> {
    let text = |content: &[Content]| content.iter().filter_map(Content::as_text).collect::<String>();
    let of = |message: &Arc<Message>| match &**message {
        Message::User(message) => text(&message.content),
        Message::Assistant(message) => message.text(),
        Message::ToolResult(message) => text(&message.content),
        Message::Extension(_) => String::new(),
    };
    request.messages.iter().map(of).collect()
}

fn is_sub_agent(request: &Request) -> bool {
    request.system.contains("You are a sub-agent")
        || texts(request).iter().any(|text| text.contains("You are a sub-agent"))
}

/// Builds the tool `task` with this access to the conversation.
async fn task_with(access: SessionAccess) -> Sandbox {
    let builder = SandboxBuilder::default().file(builtin("task")).agents("task", None);
    builder.grant("task", |grants| grants.session = access).build().await
}

async fn run(sandbox: &Sandbox, think: impl Fn(&Request) -> Say + Send + Sync + 'static) -> Outcome {
    let mut config = LoopConfig::new(Thinker::new(think), Model::default(), sandbox.runtime.clone());
    config.ports.approval = Approval::new(ApprovalMode::All, Arc::new(DenyAll::default()));
    config.ports.spawner = Some(pinion_orchestration::sub_agents(SubAgentPolicy::default()));
    Agent::new(config, Context::new("You are a test.", "s")).run(vec![Message::user("remember 42")]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn task_starts_from_the_conversation_only_if_it_may_read_it() {
    for (access, expected) in [
        (SessionAccess::Read, "it sees: remember 42"),
        (SessionAccess::None, "[plugins.task.grants] session = \"read\""),
    ] {
        let sandbox = task_with(access).await;
        let outcome = run(&sandbox, |request| match texts(request) {
            texts if is_sub_agent(request) => Say::Text(format!("it sees: {}", texts[0])),
            texts if texts.len() > 1 => Say::Text(texts[2].clone()),
            _ => Say::Call("task", json!({ "prompt": "what was said?", "context": "conversation" })),
        })
        .await;
        assert!(outcome.text().contains(expected), "{}", outcome.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn report_of_a_task_in_the_background_comes_as_a_message() {
    let sandbox = task_with(SessionAccess::None).await;
    let outcome = run(&sandbox, |request| match texts(request) {
        _ if is_sub_agent(request) => Say::Text("seen".into()),
        texts if texts.last().unwrap().contains("in the background has ended") => {
            Say::Text(format!("told: {}", texts.last().unwrap()))
        }
        texts if texts.len() > 1 => Say::Text(texts[2].clone()),
        _ => Say::Call("task", json!({ "prompt": "look", "background": true })),
    })
    .await;
    assert!(outcome.text().starts_with("told: ") && outcome.text().ends_with("seen"), "{}", outcome.text());
}

fn events(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn headless_run_waits_for_a_task_in_the_background() {
    let pinion = Pinion::default();
    // Parent and sub-agent ask at the same time, so both get the same replies.
    let script = pinion.script(&[
        call("task", json!({ "prompt": "look", "background": true })),
        say("well"),
        say("well"),
        say("well"),
    ]);
    let ended = pinion.run(["-p", "--replay", script.to_str().unwrap(), "--output-format", "stream-json", "go"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let events = events(&ended.stdout);
    let of = |name: &str| events.iter().filter(|event| event["type"] == name).collect::<Vec<_>>();
    let (starts, ends) = (of("agent_start"), of("agent_end"));
    assert_eq!(starts.len(), 2);
    assert_eq!([&ends[0]["run_id"], &ends[1]["run_id"]], [&starts[1]["run_id"], &starts[0]["run_id"]]);
    let report = events.iter().any(|event| event.to_string().contains("in the background has ended"));
    assert!(report && events.last().unwrap()["result"] == "well", "{}", ended.stdout);
}

#[test]
fn model_of_a_task_must_be_listed() {
    for (config, expected) in [
        ("", "the user allows no model `openai/gpt-5.5` for sub-agents (`models` of `[agents]` in the config)"),
        ("[agents]\nmodels = [\"openai/gpt-5.5\"]\n", "seen"),
    ] {
        let pinion = Pinion::default();
        pinion.config(config);
        let task = call("task", json!({ "prompt": "look", "model": "openai/gpt-5.5" }));
        let script = pinion.script(&[task, say("seen"), say("done")]);
        let ended = pinion.run(["-p", "-v", "--replay", script.to_str().unwrap(), "go"]);
        assert!(ended.code == Some(0) && ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

#[test]
fn budgets_end_a_task_or_deny_it_and_the_agent_continues() {
    for (config, expected) in [
        ("[plugins.task]\nmax-cost = 0.0\n", "plugin `task` may spend nothing more"),
        ("[plugins.task]\nmax-cost-per-day = 0.0\n", "(`plugins.task.max-cost-per-day`)"),
        ("[agents]\nmax-tokens = 1\n", "the limit of 1 token was reached (`agents.max-tokens`)"),
    ] {
        let pinion = Pinion::default();
        pinion.config(config);
        let mut read = call("list", json!({}));
        read["usage"] = json!({ "input": 1, "output": 1 });
        let replies = match config.contains("agents") {
            true => vec![call("task", json!({ "prompt": "look" })), read, say("done")],
            false => vec![call("task", json!({ "prompt": "look" })), say("done")],
        };
        let script = pinion.script(&replies);
        let ended = pinion.run(["-p", "-v", "--replay", script.to_str().unwrap(), "go"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "done\n"), "{}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}
