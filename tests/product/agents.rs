//! Sub-agents started by plugins, with real components: their abilities and limits.

use crate::product::providers::{Vendor, answer, reply};
use pinion_agent::approval::{Approval, ApprovalMode, DenyAll};
use pinion_agent::message::StopReason;
use pinion_agent::provider::Request;
use pinion_agent::{Agent, Content, Context, LoopConfig, Message, Model, Outcome, Provider, RunEnd, ToolExecutor as _};
use pinion_plugin_runtime::EngineLimits;
use pinion_tests::{Pinion, Sandbox, SandboxBuilder, Say, Thinker, builtin, call, guest};
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

fn is_sub_agent(request: &Request) -> bool {
    request.system.contains("You are a sub-agent")
}

/// Returns the text of the last tool result, if any.
fn last_result(request: &Request) -> Option<String> {
    match &**request.messages.last()? {
        Message::ToolResult(result) => Some(result.content.iter().filter_map(Content::as_text).collect()),
        _ => None,
    }
}

/// Makes the parent call one tool and the sub-agent another; each then reports the result.
fn relay(parent: (&'static str, Value), child: (&'static str, Value)) -> impl Fn(&Request) -> Say + Send + Sync {
    move |request| match last_result(request) {
        Some(result) => Say::Text(result),
        None if is_sub_agent(request) => Say::Call(child.0, child.1.clone()),
        None => Say::Call(parent.0, parent.1.clone()),
    }
}

struct Run {
    outcome: Outcome,
    offered: Vec<Vec<String>>,
}

async fn run(sandbox: &Sandbox, think: impl Fn(&Request) -> Say + Send + Sync + 'static) -> Run {
    let model = Thinker::new(think);
    let config = config(sandbox, model.clone());
    let agent = Agent::new(config, Context::new("You are a test.", "s"));
    let outcome = agent.run(vec![Message::user("go")]).await.unwrap();
    let offered = model.offered();
    Run { outcome, offered }
}

fn config(sandbox: &Sandbox, model: Arc<dyn Provider>) -> LoopConfig {
    let approval = Approval::new(ApprovalMode::All, Arc::new(DenyAll::default()));
    let spawner = Some(pinion_orchestration::sub_agents(pinion_agent::delegation::SubAgentPolicy::default()));
    let mut config = LoopConfig::new(model, Model::default(), sandbox.runtime.clone());
    (config.ports.approval, config.ports.spawner) = (approval, spawner);
    config
}

/// The `delegator` guest and the built-in file tools.
fn delegator() -> SandboxBuilder {
    SandboxBuilder::default().guest("delegator").file(builtin("fs")).trust("fs")
}

fn write() -> (&'static str, Value) {
    ("write", json!({ "path": "made.txt", "content": "by a sub-agent" }))
}

fn prompt() -> Value {
    json!({ "prompt": "make a file" })
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agent_uses_the_agents_tools() {
    let sandbox = delegator().agents("delegator", None).build().await;
    let run = run(&sandbox, relay(("delegate", prompt()), write())).await;
    assert_eq!(run.outcome.end, RunEnd::Done { stop_reason: StopReason::Stop }, "{}", run.outcome.text());
    assert_eq!(sandbox.read("made.txt"), "by a sub-agent");
    assert!(run.offered[1].contains(&"write".to_owned()));
    assert!(!run.offered[1].iter().any(|tool| tool.starts_with("delegate")), "it starts no others");
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agent_needs_a_grant_and_error_says_how() {
    let sandbox = delegator().build().await;
    let run = run(&sandbox, relay(("delegate", prompt()), write())).await;
    let text = run.outcome.text();
    assert!(
        text.contains("may not start agents") && text.contains("[plugins.delegator.grants] agents = true"),
        "{text}"
    );
    assert_eq!(run.offered.len(), 2, "no sub-agent asked the model");
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agent_is_limited_to_effects_of_its_tool() {
    let sandbox = delegator().agents("delegator", None).build().await;
    for (tool, expected) in [
        ("delegate_reading", vec!["undeclared", "read", "list", "find", "search"]),
        ("delegate_nothing", vec!["undeclared"]),
    ] {
        let run = run(&sandbox, relay((tool, prompt()), write())).await;
        assert_eq!(run.offered[1], expected, "{tool}");
        assert!(run.outcome.text().contains("There is no tool `write`"), "{}", run.outcome.text());
        assert!(!sandbox.workspace().join("made.txt").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_that_does_not_declare_delegates_starts_no_agent() {
    let sandbox = delegator().agents("delegator", None).build().await;
    let run = run(&sandbox, relay(("undeclared", prompt()), write())).await;
    let text = run.outcome.text();
    assert!(text.contains("this tool does not declare the effect `delegates`"), "{text}");
    assert_eq!(run.offered.len(), 2, "no sub-agent asked the model");
    let authority = |name: &str| {
        let tools = sandbox.runtime.definitions();
        tools.iter().find(|tool| tool.name == name).map(|tool| tool.authority.delegates)
    };
    assert_eq!([authority("delegate"), authority("undeclared")], [Some(true), Some(false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agent_gets_only_tools_named_in_the_grant() {
    let sandbox = delegator().agents("delegator", Some(&["read", "list"])).build().await;
    let seen = run(&sandbox, relay(("delegate", prompt()), write())).await;
    assert_eq!(seen.offered[1], ["read", "list"]);
    let asked = json!({ "prompt": "make a file", "tools": ["write"] });
    let refused = run(&sandbox, relay(("delegate", asked), write())).await;
    let text = refused.outcome.text();
    assert!(text.contains("cannot get the tool `write` here; available: `read`, `list`"), "{text}");
    assert!(!sandbox.workspace().join("made.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn call_starts_at_most_sixteen_sub_agents() {
    let sandbox = delegator().agents("delegator", None).build().await;
    let often = json!({ "prompt": "say hello", "times": 20 });
    let run = run(&sandbox, move |request| match last_result(request) {
        Some(result) => Say::Text(result),
        None if is_sub_agent(request) => Say::Text("hello".into()),
        None => Say::Call("delegate", often.clone()),
    })
    .await;
    assert!(run.outcome.text().contains("already started 16 sub-agents"), "{}", run.outcome.text());
    assert_eq!(run.offered.len(), 2 + 16);
}

#[tokio::test(flavor = "multi_thread")]
async fn command_cannot_start_sub_agents() {
    let sandbox = delegator().agents("delegator", None).build().await;
    let error =
        sandbox.runtime.run_command("delegate", "hello", "s", None, CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("only calls of tools may"), "{error}");
}

/// As `wit/agents.wit` says. The second call runs on the instance of the first.
#[tokio::test(flavor = "multi_thread")]
async fn plugin_of_lifetime_reused_starts_sub_agents() {
    let (pinion, component) = (Pinion::default(), guest("delegator"));
    let pack = ["plugin", "pack", component.to_str().unwrap(), "--name", "again", "--lifetime", "reused"];
    let packed = pinion.run(pack.iter().chain(&["--ask", "agents", "--out", "again.wasm"]));
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let builder = SandboxBuilder::default().file(pinion.workspace().join("again.wasm")).agents("again", None);
    let sandbox = builder.file(builtin("fs")).trust("fs").build().await;
    for name in ["one.txt", "two.txt"] {
        let wanted = json!({ "path": name, "content": "by a sub-agent" });
        let run = run(&sandbox, relay(("delegate", prompt()), ("write", wanted))).await;
        assert!(sandbox.workspace().join(name).exists(), "{}", run.outcome.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_plugin_cannot_start_agents_that_call_it() {
    let sandbox = SandboxBuilder::default().guest("resident").agents("resident", None).build().await;
    let run = run(&sandbox, relay(("resident", prompt()), ("resident", prompt()))).await;
    assert!(run.outcome.text().contains("no agents can be started here"), "{}", run.outcome.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_calls_do_not_block_their_sub_agents() {
    let engine = EngineLimits { concurrent_calls: 1, ..EngineLimits::default() };
    let sandbox = delegator().agents("delegator", None).engine(engine).build().await;
    sandbox.write("a.txt", "contents");
    let reading = relay(("delegate", prompt()), ("read", json!({ "path": "a.txt" })));
    let model = Thinker::new(reading);
    let agents: Vec<Agent> =
        (0..8).map(|n| Agent::new(config(&sandbox, model.clone()), Context::new("", format!("s{n}")))).collect();
    let runs = agents.iter().map(|agent| agent.run(vec![Message::user("go")]));
    for outcome in futures_util::future::join_all(runs).await {
        assert!(outcome.unwrap().text().contains("contents"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_sub_agent_ends_with_its_parent() {
    let sandbox = delegator().agents("delegator", None).build().await;
    let (asked, mut was_asked) = tokio::sync::mpsc::unbounded_channel();
    let think = move |request: &Request| {
        if is_sub_agent(request) {
            asked.send(()).unwrap();
            return Say::Nothing;
        }
        Say::Call("delegate", prompt())
    };
    let model = Thinker::new(think);
    let agent = Agent::new(config(&sandbox, model), Context::new("", "s"));
    let aborting = async {
        was_asked.recv().await;
        agent.abort();
    };
    let (outcome, ()) = tokio::join!(agent.run(vec![Message::user("go")]), aborting);
    assert_eq!(outcome.unwrap().end, RunEnd::Aborted);
}

/// One scripted reply that calls a tool.
fn events(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn task_session_is_linked_with_its_parent() {
    let pinion = Pinion::default();
    pinion.write("a.txt", "the answer is 42\n");
    let script = pinion.script(&[
        call("task", json!({ "prompt": "What does a.txt say?" })),
        call("read", json!({ "path": "a.txt" })),
        json!({ "text": "It says 42." }),
        json!({ "text": "The answer is 42." }),
    ]);
    let script = script.to_str().unwrap();
    let ended = pinion.run(["-p", "--replay", script, "--output-format", "stream-json", "ask somebody"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let events = events(&ended.stdout);
    let starts: Vec<&Value> = events.iter().filter(|event| event["type"] == "agent_start").collect();
    assert_eq!((starts.len(), &starts[1]["parent_run_id"]), (2, &starts[0]["run_id"]));
    let end = events.iter().find(|event| event["type"] == "tool_execution_end" && event["tool"] == "task").unwrap();
    assert_eq!(end["child_run_id"], starts[1]["run_id"]);
    assert_eq!((&end["ledger"]["agents"], &end["content"][0]["text"]), (&json!(1), &json!("It says 42.")));
    let result = events.last().unwrap();
    assert_eq!((&result["result"], &result["turns"]), (&json!("The answer is 42."), &json!(2)));
    let child = starts[1]["session_id"].as_str().unwrap();
    let shown = pinion.run(["session", "show", child]);
    assert!(shown.stdout.contains("What does a.txt say?") && shown.stdout.contains("It says 42."), "{}", shown.stdout);
    let listed = pinion.run(["session", "list"]);
    assert!(!listed.stdout.contains(&child[..8]), "{}", listed.stdout);
}

#[test]
fn headless_sub_agent_is_denied_what_needs_approval() {
    let pinion = Pinion::default();
    let script = pinion.script(&[
        call("task", json!({ "prompt": "write it" })),
        call("bash", json!({ "command": "touch made.txt" })),
        json!({ "text": "I may not." }),
        json!({ "text": "It may not." }),
    ]);
    let ended = pinion.run(["-p", "-v", "--approve", "edits", "--replay", script.to_str().unwrap(), "write a file"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), "It may not.\n"), "{}", ended.stderr);
    assert!(!pinion.workspace().join("made.txt").exists());
    assert!(ended.stderr.contains("1│ ● bash") && ended.stderr.contains("1│ ✗ Denied"), "{}", ended.stderr);
}

#[test]
fn config_sets_up_agents_and_attempts() {
    let pinion = Pinion::default();
    pinion.config(
        "[agents.kinds.counter]\ndescription = \"counts things\"\ninstructions = \"Count twice.\"\n\
         tools = [\"list\"]\nattempts = 2\nchoose = \"most-tokens\"\n",
    );
    let said = |text: &str, output: u64| json!({ "text": text, "usage": { "input": 1, "output": output } });
    let script = pinion.script(&[
        call("task", json!({ "prompt": "count", "agent": "counter" })),
        said("three", 3),
        said("four", 4),
        json!({ "text": "done" }),
    ]);
    let ended = pinion.run(["-p", "--replay", script.to_str().unwrap(), "--output-format", "stream-json", "how many?"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let events = events(&ended.stdout);
    let end = events.iter().find(|event| event["type"] == "tool_execution_end").unwrap();
    assert_eq!(end["content"][0]["text"], "four");
    assert_eq!(events.iter().filter(|event| event["agent_id"] == "counter").count(), 2);
    let wrong = pinion.script(&[call("task", json!({ "prompt": "x", "agent": "nobody" })), json!({ "text": "oh" })]);
    let ended = pinion.run(["-p", "-v", "--replay", wrong.to_str().unwrap(), "how many?"]);
    assert!(ended.stderr.contains("there is no agent `nobody`; available: `counter`"), "{}", ended.stderr);
}

/// Configures the model `good/x`, the default, and `bad/y`, which fails for good.
fn with_a_model_that_fails(pinion: &Pinion, replies: Vec<String>, more: &str) -> Vendor {
    let good = Vendor::answering(replies);
    let bad = Vendor::answering(vec![answer("404 Not Found", "application/json", "{\"error\":\"no such model\"}")]);
    let provider = |name: &str, url: &str| format!("[providers.{name}]\nformat = 'openai-chat'\nbase-url = '{url}'\n");
    pinion.config(&format!(
        "model = 'good/x'\nfallback = ['good/x']\n{}{}{more}",
        provider("good", &good.url),
        provider("bad", &bad.url)
    ));
    good
}

#[test]
fn fallback_that_answered_and_a_cut_answer_are_named() {
    let pinion = Pinion::default();
    let _good = with_a_model_that_fails(&pinion, vec![reply(&json!({ "content": "half" }), "length")], "");
    let ended = pinion.run(["-p", "-m", "bad/y", "--output-format", "json", "go"]);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((ended.code, &result["model"], &result["stop_reason"]), (Some(0), &json!("good/x"), &json!("length")));
    for part in ["! `bad/y` failed, and the fallback `good/x` answered", "! the answer was cut off"] {
        assert!(ended.stderr.contains(part), "{ended:?}");
    }
}

#[test]
fn model_of_a_kind_of_agent_has_the_users_fallback() {
    let pinion = Pinion::default();
    let arguments = json!({ "prompt": "count", "agent": "helper" }).to_string();
    let task = json!({ "index": 0, "type": "function", "function": { "name": "task", "arguments": arguments } });
    let says = |text: &str| reply(&json!({ "content": text }), "stop");
    let replies = vec![reply(&json!({ "tool_calls": [task] }), "tool_calls"), says("by the fallback"), says("done")];
    let kind = "[agents.kinds.helper]\ndescription = 'helps'\nmodel = 'bad/y'\n";
    let good = with_a_model_that_fails(&pinion, replies, kind);
    let ended = pinion.run(["-p", "go"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "done\n"), "{ended:?}");
    let bodies = good.bodies.lock().unwrap();
    assert!(bodies[1].contains("You are a sub-agent") && bodies[2].contains("by the fallback"), "{bodies:?}");
}

#[test]
fn model_of_a_branch_has_the_users_fallback() {
    let pinion = Pinion::default();
    let replies = vec![reply(&json!({ "content": "by the fallback" }), "stop")];
    let branches = "[branches]\nmodels = ['bad/y', 'bad/z']\nchoose = 'first'\n";
    let good = with_a_model_that_fails(&pinion, replies, branches);
    let ended = pinion.run(["-p", "go"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "by the fallback\n"), "{ended:?}");
    assert_eq!(good.asked.lock().unwrap().len(), 2);
}

#[test]
fn task_whose_sub_agent_fails_is_an_error() {
    let pinion = Pinion::default();
    let refused = json!({ "error": { "kind": "api", "message": "no such model" } });
    let script = pinion.script(&[call("task", json!({ "prompt": "count" })), refused, json!({ "text": "done" })]);
    let ended = pinion.run(["-p", "--replay", script.to_str().unwrap(), "--output-format", "stream-json", "how many?"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let events = events(&ended.stdout);
    let end = events.iter().find(|event| event["type"] == "tool_execution_end").unwrap();
    let text = end["content"][0]["text"].as_str().unwrap();
    assert!(end["is_error"] == true && text.contains("it failed: no such model"), "{end}");
}

#[test]
fn task_without_grant_does_nothing() {
    let pinion = Pinion::default();
    pinion.config("[plugins.task.grants]\nagents = false\n");
    let script = pinion.script(&[call("task", json!({ "prompt": "x" })), json!({ "text": "oh" })]);
    let ended = pinion.run(["-p", "-v", "--replay", script.to_str().unwrap(), "go"]);
    assert!(ended.stderr.contains("[plugins.task.grants] agents = true"), "{}", ended.stderr);
    assert_eq!(fs::read_dir(pinion.workspace()).unwrap().count(), 0);
}

#[test]
fn configured_branches_run_and_session_continues_from_the_chosen_one() {
    let pinion = Pinion::default();
    pinion.config("[branches]\nattempts = 2\nchoose = \"judge\"\n");
    let script =
        pinion.script(&[json!({ "text": "by hand" }), json!({ "text": "by machine" }), json!({ "text": "2" })]);
    let script = script.to_str().unwrap().to_owned();
    let ended = pinion.run(["-p", "--replay", &script, "how?"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "by machine\n"), "{}", ended.stderr);
    let next = pinion.script(&[json!({ "text": "one" }), json!({ "text": "two" }), json!({ "text": "none" })]);
    let ended = pinion.run(["-p", "-c", "--replay", next.to_str().unwrap(), "and then?"]);
    assert_eq!(ended.stdout, "one\n", "{}", ended.stderr);
    assert!(ended.stderr.contains("! "), "the undecided judge is reported: {}", ended.stderr);
    let id = pinion.run(["session", "list"]).stdout;
    let shown = pinion.run(["session", "show", id.split_whitespace().next().unwrap()]).stdout;
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("no {text:?} in {shown}"));
    assert!(at("how?") < at("by machine") && at("by machine") < at("and then?"));
    assert!(!shown.contains("by hand"));
}

#[test]
fn branches_are_read_only_by_default() {
    for (more, is_made) in [("", false), ("write = true\n", true)] {
        let pinion = Pinion::default();
        pinion.config(&format!("approve = \"all\"\n[branches]\nattempts = 2\nchoose = \"first\"\n{more}"));
        let write = call("write", json!({ "path": "made.txt", "content": "x" }));
        let done = json!({ "text": "done" });
        let script = pinion.script(&[write.clone(), write, done.clone(), done]);
        let ended = pinion.run(["-p", "--replay", script.to_str().unwrap(), "write a file"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "done\n"), "{}", ended.stderr);
        assert_eq!(pinion.workspace().join("made.txt").exists(), is_made);
    }
}
