//! Hooks of plugins restrict and never allow; one that hangs, breaks down or lies harms only its own cause.

mod calls;
mod plugins;
mod runs;
mod session;

use pinion_agent::approval::{Approval, ApprovalMode, Decision, Question};
use pinion_agent::channel::EventReceiver;
use pinion_agent::hook::{HookAnswer, HookCall, HookNote, HookPoint};
use pinion_agent::provider::Request;
use pinion_agent::secrecy::SecretString;
use pinion_agent::{Agent, Approver, Content, Context, EventKind, LoopConfig, Message, Model, Outcome, RunEnd};
use pinion_plugin_runtime::{FileAccess, InvokeGrant, ModelGrant, PartialLimits, SessionAccess};
use pinion_tests::{Pinion, Sandbox, SandboxBuilder, Say, Terminal, Thinker, builtin, guest, say};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The guest with every hook, and the tools that it is tried on.
fn hooked(script: Value) -> SandboxBuilder {
    SandboxBuilder::default().guest("hooked").hooks("hooked").config("hooked", script).guest("echo").trust("echo")
}

/// Limits that end a hook soon.
fn short() -> PartialLimits {
    PartialLimits { deadline_ms: Some(300), ..PartialLimits::default() }
}

/// A copy of the guest with another manifest.
fn variant(directory: &TempDir, name: &str, version: &str, more: Value) -> PathBuf {
    let asks = json!({ "hooks": true, "files": "write" });
    let mut manifest = json!({ "manifest": 1, "api": "0.1.0", "name": name, "version": version, "capabilities": asks });
    manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut content = vec![15];
    content.extend(b"pinion:manifest");
    content.extend(manifest.to_string().bytes());
    let mut component = fs::read(guest("hooked")).unwrap();
    component.push(0);
    let mut length = content.len();
    while length >= 0x80 {
        component.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    component.push(length as u8);
    component.extend(content);
    let path = directory.path().join(format!("{name}.wasm"));
    // A new file, as compilers write it.
    let _ = fs::remove_file(&path);
    fs::write(&path, component).unwrap();
    path
}

/// A question that the user was asked.
#[derive(Debug, Clone)]
struct Asked {
    arguments: Value,
    notes: Vec<HookNote>,
}

/// Answers every question in the same way.
struct User {
    decision: Decision,
    asked: Mutex<Vec<Asked>>,
}

impl Approver for User {
    fn decide<'a>(
        &'a self,
        question: Question<'a>,
        _: &'a CancellationToken,
    ) -> pinion_agent::futures_util::future::BoxFuture<'a, Decision> {
        let asked = Asked { arguments: question.call.arguments.clone(), notes: question.notes.to_vec() };
        self.asked.lock().unwrap().push(asked);
        Box::pin(async { self.decision.clone() })
    }
}

/// An agent with the sandbox's plugins, and everything about it that tests look at.
struct Conversation {
    agent: Arc<Agent>,
    events: EventReceiver,
    user: Arc<User>,
}

/// The end of a run.
struct Ended {
    outcome: Outcome,
    /// Texts of the results of tools, in order.
    results: Vec<(String, bool)>,
    hooks: Vec<HookCall>,
    asked: Vec<Asked>,
}

impl Conversation {
    fn new(sandbox: &Sandbox, think: impl Fn(&Request) -> Say + Send + Sync + 'static) -> Self {
        Self::with(sandbox, ApprovalMode::All, Decision::Allow, think, |_| {})
    }

    fn with(
        sandbox: &Sandbox,
        mode: ApprovalMode,
        decision: Decision,
        think: impl Fn(&Request) -> Say + Send + Sync + 'static,
        change: impl FnOnce(&mut LoopConfig),
    ) -> Self {
        let user = Arc::new(User { decision, asked: Mutex::default() });
        let mut config = LoopConfig::new(Thinker::new(think), Model::default(), sandbox.runtime.clone());
        config.ports.approval = Approval::new(mode, user.clone());
        config.ports.plugin_hooks = Some(sandbox.runtime.clone());
        config.ports.spawner = Some(pinion_orchestration::sub_agents(Default::default()));
        change(&mut config);
        let agent = Arc::new(Agent::new(config, Context::new("You are a test.", "s")));
        let events = agent.subscribe(100_000);
        Self { agent, events, user }
    }

    async fn run(mut self) -> Ended {
        let outcome = self.agent.run(vec![Message::user("go")]).await.unwrap();
        let mut hooks = Vec::new();
        while let Some(event) = self.events.try_recv() {
            if let EventKind::Hook { hook, .. } = event.kind {
                hooks.push(hook);
            }
        }
        let history = self.agent.history();
        let results = history.iter().filter_map(|message| match &**message {
            Message::ToolResult(result) => {
                Some((result.content.iter().filter_map(Content::as_text).collect(), result.is_error))
            }
            _ => None,
        });
        let results = results.collect();
        Ended { outcome, results, hooks, asked: self.user.asked.lock().unwrap().clone() }
    }
}

impl Ended {
    fn result(&self) -> &str {
        &self.results[0].0
    }

    fn answers(&self, point: HookPoint) -> Vec<HookAnswer> {
        self.hooks.iter().filter(|hook| hook.point == point).map(|hook| hook.answer).collect()
    }
}

/// Makes one call and ends.
fn calling(tool: &'static str, arguments: Value) -> impl Fn(&Request) -> Say + Send + Sync {
    move |request| match request.messages.iter().any(|message| matches!(**message, Message::ToolResult(_))) {
        true => Say::Text("done".into()),
        false => Say::Call(tool, arguments.clone()),
    }
}

fn echo(message: &str) -> impl Fn(&Request) -> Say + Send + Sync + use<> {
    calling("echo", json!({ "message": message }))
}

/// Returns the text of all messages of a request.
fn text_of(request: &Request) -> String {
    let mut text = String::new();
    for message in &request.messages {
        if let Message::User(message) = &**message {
            message.content.iter().filter_map(Content::as_text).for_each(|part| text.push_str(part));
        }
    }
    text
}

/// The host serves others as before.
async fn assert_alive(sandbox: &Sandbox) {
    assert_eq!(sandbox.text("echo", json!({ "message": "alive" })).await, "alive");
}
