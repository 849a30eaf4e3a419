//! The plugins whose hooks are called, and their order and grants.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn hook_without_a_grant_is_never_called() {
    let script = json!({ "before_call": { "act": "deny" }, "before_prompt": { "act": "reject" } });
    let sandbox =
        SandboxBuilder::default().guest("hooked").config("hooked", script).guest("echo").trust("echo").build().await;
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    assert_eq!((ended.result(), ended.hooks.len()), ("hello", 0));
    let hooks = &sandbox.runtime.plugins()[0].hooks;
    // The hooks of `pinion:plugin`; the guest has no hook of `pinion:hooks`.
    assert_eq!(hooks.len(), 5);
    assert!(hooks.iter().all(|hook| hook.not_called.is_some()), "{hooks:?}");
    assert_alive(&sandbox).await;
}

/// A guard that loses a name still guards.
#[tokio::test(flavor = "multi_thread")]
async fn hook_of_a_plugin_that_lost_a_name_is_called() {
    let builder = SandboxBuilder::default().guest("echo").trust("echo").guest("collides").hooks("collides");
    let sandbox = builder.build().await;
    assert_eq!(sandbox.runtime.plugins()[1].left_out.len(), 1);
    let ended = Conversation::new(&sandbox, echo("forbidden")).run().await;
    assert!(ended.result().contains("this is forbidden"), "{}", ended.result());
    assert_eq!(Conversation::new(&sandbox, echo("hello")).run().await.result(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_that_its_manifest_does_not_ask_for_is_never_called() {
    let directory = TempDir::new().unwrap();
    let silent = variant(&directory, "silent", "1.0.0", json!({ "capabilities": {} }));
    let script = json!({ "before_call": { "act": "deny" } });
    let sandbox = SandboxBuilder::default()
        .file(silent)
        .hooks("silent")
        .config("silent", script)
        .guest("echo")
        .trust("echo")
        .build()
        .await;
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    assert_eq!((ended.result(), ended.hooks.len()), ("hello", 0));
    assert_eq!(sandbox.runtime.plugins()[0].hooks[0].not_called, Some("the manifest does not ask for `hooks`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_reaches_nothing_beyond_the_grants_of_its_plugin() {
    for (act, text) in [("read", "/etc/passwd"), ("read", "a.txt"), ("write", "b.txt"), ("run", ""), ("delegate", "")] {
        let script = json!({ "before_call": { "act": act, "text": text } });
        let sandbox = hooked(script).with_file("workspace/a.txt", "private").build().await;
        let ended = Conversation::new(&sandbox, echo("hello")).run().await;
        assert!(ended.result().contains("refused"), "{act} {text}: {}", ended.result());
        assert!(!ended.result().contains("private") && !sandbox.workspace().join("b.txt").exists());
        assert_alive(&sandbox).await;
    }
    // With all grants, it still starts no sub-agents: it is not a tool call.
    let script = json!({ "before_call": { "act": "delegate" } });
    let sandbox = hooked(script).trust("hooked").agents("hooked", None).build().await;
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    assert!(ended.result().contains("refused"), "{}", ended.result());
}

/// As `wit/before-tool-call.wit` says.
#[tokio::test(flavor = "multi_thread")]
async fn hook_with_all_grants_belongs_to_no_conversation() {
    let storage = TempDir::new().unwrap();
    let builder = hooked(json!({ "before_call": { "act": "converse" } })).storage("hooked", storage.path(), 1 << 20);
    let builder = builder.grant("hooked", |grants| {
        (grants.session, grants.ui) = (SessionAccess::Write, true);
        (grants.invoke, grants.model) = (Some(InvokeGrant::default()), Some(ModelGrant::default()));
    });
    let ended = Conversation::new(&builder.build().await, echo("hello")).run().await;
    for answer in [
        "session Err(SessionError::Denied(\"there is no conversation here\"))",
        "ui Err(UiError::Headless)",
        "invoke Err(\"plugin `hooked` may not call other tools",
        "model Err(ModelError::Denied(\"plugin `hooked` may not ask models",
        "storage Ok(())",
    ] {
        assert!(ended.result().contains(answer), "{answer}: {}", ended.result());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_check_the_calls_of_sub_agents() {
    let script = json!({ "before_call": { "act": "tell", "tool": "read" } });
    let sandbox = hooked(script)
        .guest("delegator")
        .agents("delegator", None)
        .file(builtin("fs"))
        .trust("fs")
        .with_file("workspace/a.txt", "private")
        .build()
        .await;
    let last = |request: &Request| match &**request.messages.last().unwrap() {
        Message::ToolResult(result) => Some(result.content.iter().filter_map(Content::as_text).collect::<String>()),
        _ => None,
    };
    let think = move |request: &Request| match last(request) {
        Some(result) => Say::Text(result),
        None if request.system.contains("You are a sub-agent") => Say::Call("read", json!({ "path": "a.txt" })),
        None => Say::Call("delegate", json!({ "prompt": "read it" })),
    };
    let ended = Conversation::new(&sandbox, think).run().await;
    assert!(ended.outcome.text().contains("fs read 1 {\"path\":\"a.txt\"}"), "{}", ended.outcome.text());
    assert!(!ended.outcome.text().contains("private"));
    // The task of a sub-agent is not a prompt of the user.
    let prompts = |ended: &Ended| ended.answers(HookPoint::BeforePrompt).len();
    assert_eq!(prompts(&ended), 1);
    assert_alive(&sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_run_in_the_order_of_loading_until_one_denies() {
    let directory = TempDir::new().unwrap();
    let append = |text: &str| json!({ "before_call": { "act": "append", "text": text } });
    let (one, two) = (variant(&directory, "one", "1.0.0", json!({})), variant(&directory, "two", "1.0.0", json!({})));
    let builder = || {
        let builder = SandboxBuilder::default().file(one.clone()).file(two.clone()).guest("echo").trust("echo");
        builder.hooks("one").hooks("two").config("one", append(" 1"))
    };
    let sandbox = builder().config("two", append(" 2")).build().await;
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    assert_eq!(ended.result(), "hello 1 2");
    let plugins: Vec<&str> = ended.hooks.iter().take(2).map(|hook| hook.plugin.as_str()).collect();
    assert_eq!(plugins, ["one", "two"]);

    let sandbox = builder().config("two", json!({ "before_call": { "act": "tell" } })).build().await;
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    assert!(
        ended.result().contains("plugin `two` denies this call: echo echo 0 {\"message\":\"hello 1\"}"),
        "{}",
        ended.result()
    );

    let sandbox = builder().config("one", json!({ "before_call": { "act": "deny", "text": "no" } })).build().await;
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    assert_eq!(ended.answers(HookPoint::BeforeToolCall), [HookAnswer::Denied]);
}

/// `cat` compiles nothing and never ends.
#[tokio::test(flavor = "multi_thread")]
async fn generation_before_answers_while_a_new_one_is_compiled() {
    let directory = TempDir::new().unwrap();
    let cache = directory.path().join("cache");
    let file = variant(&directory, "slow", "1.0.0", json!({}));
    let builder = || {
        let script = json!({ "before_call": { "act": "deny", "text": "no" } });
        let builder = SandboxBuilder::default().cache(&cache).file(file.clone()).hooks("slow").config("slow", script);
        builder.limits("slow", short()).guest("echo").trust("echo")
    };
    let compiled = builder().build().await;
    assert_eq!(Conversation::new(&compiled, echo("hello")).run().await.answers(HookPoint::BeforeToolCall).len(), 1);
    drop(compiled);

    let sandbox = builder().compiler("cat", &[]).build().await;
    let checked = async || {
        let checked = Conversation::new(&sandbox, echo("hello")).run();
        // Less than the time that a call waits for a reload of its plugin.
        let ended = tokio::time::timeout(Duration::from_secs(8), checked).await.expect("a call waits for a compile");
        assert_eq!(ended.answers(HookPoint::BeforeToolCall), [HookAnswer::Denied], "{}", ended.result());
    };
    checked().await;
    variant(&directory, "slow", "2.0.0", json!({}));
    checked().await;
    assert_eq!(sandbox.runtime.plugins()[0].version, "1.0.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn current_generation_of_a_plugin_answers() {
    let directory = TempDir::new().unwrap();
    let file = variant(&directory, "changing", "1.0.0", json!({}));
    let script = json!({ "before_call": { "act": "deny", "text": "no" } });
    let sandbox = SandboxBuilder::default()
        .file(file)
        .hooks("changing")
        .config("changing", script)
        .guest("echo")
        .trust("echo")
        .build()
        .await;
    let generation = |ended: &Ended| {
        let call = ended.hooks.iter().find(|hook| hook.point == HookPoint::BeforeToolCall).unwrap();
        call.ledger.as_ref().unwrap().generation
    };
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    assert_eq!((generation(&ended), ended.results[0].1), (1, true));
    variant(&directory, "changing", "2.0.0", json!({}));
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    assert_eq!((generation(&ended), ended.results[0].1), (2, true));
    // A generation that asks for no hooks gets no hooks.
    variant(&directory, "changing", "3.0.0", json!({ "capabilities": {} }));
    let ended = Conversation::new(&sandbox, echo("hello")).run().await;
    assert_eq!(ended.result(), "hello");
    assert_alive(&sandbox).await;
}
