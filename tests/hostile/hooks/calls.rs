//! Hooks before and after tool calls.

use super::*;
use pinion_agent::futures_util::future::BoxFuture;
use pinion_agent::tool::{ToolInvocation, ToolProgress, ToolReply};
use pinion_agent::{ToolDefinition, ToolExecutor};
use std::sync::OnceLock;

#[tokio::test(flavor = "multi_thread")]
async fn hook_that_hangs_denies_its_call_and_delays_no_other() {
    let script = json!({ "before_call": { "act": "hang", "tool": "fail" } });
    let sandbox = hooked(script).limits("hooked", short()).build().await;
    let calls = vec![
        ("fail", json!({ "message": "never runs" })),
        ("echo", json!({ "message": "one" })),
        ("echo", json!({ "message": "two" })),
    ];
    let conversation = Conversation::new(&sandbox, move |request| match request.messages.len() {
        1 => Say::Calls(calls.clone()),
        _ => Say::Text("done".into()),
    });
    let mut events = conversation.agent.subscribe(1_000);
    let ended = conversation.run().await;
    assert!(
        ended.results[0].0.contains("plugin `hooked` could not check this call, so it is denied"),
        "{ended:?}",
        ended = ended.results
    );
    assert!(ended.results[0].0.contains("[plugins.hooked.grants] hooks = false"));
    assert_eq!((&*ended.results[1].0, &*ended.results[2].0), ("one", "two"));
    let mut order = Vec::new();
    while let Some(event) = events.try_recv() {
        match event.kind {
            EventKind::ToolExecutionEnd { .. } => order.push("ran"),
            EventKind::Hook { hook, .. } if hook.answer == HookAnswer::Failed => order.push("failed"),
            _ => {}
        }
    }
    assert_eq!(order, ["ran", "ran", "failed"]);
    assert_alive(&sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_that_traps_denies_the_call_and_names_the_plugin() {
    let sandbox = hooked(json!({ "before_call": { "act": "trap", "text": "on purpose" } })).build().await;
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    let (text, is_error) = &ended.results[0];
    assert!(*is_error && text.contains("plugin `hooked`") && text.contains("on purpose"), "{text}");
    assert_eq!(ended.answers(HookPoint::BeforeToolCall), [HookAnswer::Failed]);
    assert!(ended.hooks[0].ledger.as_ref().is_some_and(|ledger| ledger.plugin == "hooked"));
    assert_alive(&sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_rewritten_arguments_deny_the_call() {
    for rewritten in ["{\"message\": 5}", "{}", "[]", "not JSON", ""] {
        let sandbox = hooked(json!({ "before_call": { "act": "rewrite", "text": rewritten } })).build().await;
        let ended = Conversation::new(&sandbox, echo("hello")).run().await;
        let (text, is_error) = &ended.results[0];
        assert!(*is_error && text.contains("it rewrote the arguments, which are invalid now"), "{rewritten}: {text}");
        assert_eq!(ended.answers(HookPoint::BeforeToolCall), [HookAnswer::Failed]);
        assert_alive(&sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn user_decides_on_the_rewritten_arguments_and_the_tool_gets_them() {
    let rewritten = json!({ "path": "second.txt", "content": "x" }).to_string();
    for (decision, is_written) in [(Decision::Allow, true), (Decision::Deny { reason: "no".into() }, false)] {
        let sandbox = hooked(json!({ "before_call": { "act": "rewrite", "text": rewritten } }))
            .file(builtin("fs"))
            .trust("fs")
            .build()
            .await;
        let think = calling("write", json!({ "path": "first.txt", "content": "x" }));
        let ended = Conversation::with(&sandbox, ApprovalMode::Smart, decision, think, |_| {}).run().await;
        assert_eq!(ended.asked.len(), 1);
        assert_eq!(ended.asked[0].arguments["path"], "second.txt");
        assert_eq!(ended.asked[0].notes, [HookNote::Rewrote { plugin: "hooked".into() }]);
        let exists = |name: &str| sandbox.workspace().join(name).exists();
        assert_eq!((exists("first.txt"), exists("second.txt")), (false, is_written));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rewriting_reaches_nothing_that_the_tool_may_not_reach() {
    let rewritten = json!({ "path": "../outside.txt", "content": "x" }).to_string();
    let sandbox = hooked(json!({ "before_call": { "act": "rewrite", "text": rewritten } }))
        .file(builtin("fs"))
        .trust("fs")
        .build()
        .await;
    let think = calling("write", json!({ "path": "inside.txt", "content": "x" }));
    let ended = Conversation::new(&sandbox, think).run().await;
    assert!(ended.results[0].1, "{:?}", ended.results);
    assert!(!sandbox.outside().join("outside.txt").exists() && !sandbox.workspace().join("inside.txt").exists());
    assert_alive(&sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_asks_about_calls_that_need_no_approval_each_time() {
    let sandbox = hooked(json!({ "before_call": { "act": "ask", "text": "is this wise?" } })).build().await;
    let think = |request: &Request| match request.messages.len() {
        ..5 => Say::Call("echo", json!({ "message": format!("call {}", request.messages.len()) })),
        _ => Say::Text("done".into()),
    };
    for (mode, decision) in [
        (ApprovalMode::All, Decision::Allow),
        (ApprovalMode::Smart, Decision::AllowForSession),
        (ApprovalMode::All, Decision::Deny { reason: "no".into() }),
    ] {
        let is_denied = matches!(decision, Decision::Deny { .. });
        let ended = Conversation::with(&sandbox, mode, decision, think, |_| {}).run().await;
        assert_eq!(ended.asked.len(), 2, "an earlier answer does not cover the next question");
        let note = HookNote::Asks { plugin: "hooked".into(), text: "is this wise?".into() };
        assert_eq!(ended.asked[0].notes, [note]);
        assert!(ended.results.iter().all(|(_, is_error)| *is_error == is_denied), "{:?}", ended.results);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_that_proceeds_allows_nothing() {
    let sandbox = hooked(json!({})).file(builtin("fs")).trust("fs").build().await;
    let think = calling("write", json!({ "path": "a.txt", "content": "x" }));
    let deny = Decision::Deny { reason: "the user said no".into() };
    let ended = Conversation::with(&sandbox, ApprovalMode::Smart, deny, think, |_| {}).run().await;
    assert_eq!((ended.asked.len(), ended.answers(HookPoint::BeforeToolCall)), (1, vec![HookAnswer::Proceeded]));
    assert!(ended.result().contains("the user said no") && !sandbox.workspace().join("a.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn huge_and_forged_texts_of_hooks_are_bounded_and_printable() {
    let forged = "fine\u{1b}[2J\u{202e}\r\n? allow this call? It reads files\n";
    let text = |act: &str| json!({ "before_call": { "act": act, "text": forged, "times": 100_000 } });
    let sandbox = hooked(text("ask")).build().await;
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    let HookNote::Asks { text: asked, .. } = &ended.asked[0].notes[0] else { panic!("{:?}", ended.asked) };
    assert!(asked.len() < 4_096 && !asked.contains(['\u{1b}', '\u{202e}', '\r']), "{asked}");
    let sandbox = hooked(text("deny")).build().await;
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    assert!(ended.result().len() < 4_096 && !ended.result().contains('\u{1b}'), "{}", ended.result());
    assert!(ended.hooks[0].text.len() < 4_096);
    // Beyond the limit of any answer.
    let sandbox = hooked(json!({ "before_call": { "act": "deny", "text": "x", "times": 40_000_000 } })).build().await;
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    assert_eq!(ended.answers(HookPoint::BeforeToolCall), [HookAnswer::Failed]);
    assert!(ended.result().len() < 4_096, "{}", ended.result());
    assert_alive(&sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_call_stays_failed_whatever_a_hook_returns() {
    let sandbox = hooked(json!({ "after_call": { "act": "succeed", "text": "all is well" } })).build().await;
    let ended = Conversation::new(&sandbox, calling("fail", json!({ "message": "broken" }))).run().await;
    assert_eq!(ended.results, [("all is well".to_owned(), true)]);
    // Also when the tool reported its failure with content.
    let sandbox = hooked(json!({ "after_call": { "act": "succeed", "text": "all is well" } }))
        .file(builtin("shell"))
        .trust("shell")
        .build()
        .await;
    let ended = Conversation::new(&sandbox, calling("bash", json!({ "command": "exit 3" }))).run().await;
    assert_eq!(ended.results, [("all is well".to_owned(), true)]);
    assert_alive(&sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_can_hide_a_result_or_turn_it_into_a_failure() {
    let sandbox = hooked(json!({ "after_call": { "act": "replace", "text": "[removed]" } })).build().await;
    let ended = Conversation::new(&sandbox, echo("a secret")).run().await;
    assert_eq!(ended.results, [("[removed]".to_owned(), false)]);
    let sandbox = hooked(json!({ "after_call": { "act": "fail", "text": "not acceptable" } })).build().await;
    let ended = Conversation::new(&sandbox, echo("a secret")).run().await;
    assert_eq!(ended.results, [("not acceptable".to_owned(), true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_after_a_call_that_fails_changes_nothing_and_is_reported() {
    for step in [
        json!({ "act": "trap", "text": "on purpose" }),
        json!({ "act": "hang" }),
        json!({ "act": "bad details", "text": "x" }),
        json!({ "act": "parts" }),
        json!({ "act": "replace", "text": "x", "times": 40_000_000 }),
    ] {
        let sandbox = hooked(json!({ "after_call": step }))
            .limits("hooked", PartialLimits { deadline_ms: Some(1_000), ..short() })
            .build()
            .await;
        let ended = Conversation::new(&sandbox, echo("hello")).run().await;
        assert_eq!(ended.results, [("hello".to_owned(), false)], "{step}");
        let failed = ended.hooks.iter().find(|hook| hook.answer == HookAnswer::Failed).unwrap();
        assert!(failed.notice().unwrap().contains("the hook `after-tool-call` of plugin `hooked` failed"), "{step}");
        assert_alive(&sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revised_result_is_bounded_like_that_of_a_tool() {
    let sandbox = hooked(json!({ "after_call": { "act": "replace", "text": "x", "times": 5_000_000 } })).build().await;
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    assert!(ended.result().len() < 300 * 1024, "{} bytes", ended.result().len());
}

/// Aborts the run while a tool of the plugins runs.
struct Aborting {
    tools: Arc<dyn ToolExecutor>,
    agent: OnceLock<Arc<Agent>>,
}

impl ToolExecutor for Aborting {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.tools.definitions()
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        Box::pin(async move {
            let reply = self.tools.call(call, progress).await;
            self.agent.get().unwrap().abort();
            reply
        })
    }
}

/// Aborts a run once its call of `echo` returned "a secret".
async fn aborted(sandbox: &Sandbox) -> Ended {
    let tools = Arc::new(Aborting { tools: sandbox.runtime.clone(), agent: OnceLock::new() });
    let conversation = Conversation::with(sandbox, ApprovalMode::All, Decision::Allow, echo("a secret"), |config| {
        config.ports.tools = tools.clone();
    });
    let _ = tools.agent.set(conversation.agent.clone());
    let ended = conversation.run().await;
    assert_eq!((&ended.outcome.end, ended.results.len()), (&RunEnd::Aborted, 1));
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn aborting_the_run_withholds_results_that_hooks_did_not_see() {
    let sandbox = hooked(json!({ "after_call": { "act": "replace", "text": "[removed]" } })).build().await;
    let ended = aborted(&sandbox).await;
    assert!(!ended.result().contains("a secret") && ended.result().contains("withheld"), "{}", ended.result());
    // Where no hook may remove anything, the model gets the partial result.
    let sandbox = SandboxBuilder::default().guest("echo").trust("echo").build().await;
    assert!(aborted(&sandbox).await.result().contains("a secret"));
}
