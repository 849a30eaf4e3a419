//! The test kit for authors, `pinion-plugin-test`: its scripts, its records, and the errors of a wrong test.

use pinion_plugin_test::{
    Authority, DialogAnswer, DialogError, Hooked, HostAction, PartialLimits, Plugin, TestError, ToolOutput, json,
    response,
};
use pinion_tests::{Pinion, guest};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

fn plugin(name: &str) -> Plugin {
    Plugin::load(guest(name)).cache(env!("CARGO_TARGET_TMPDIR"))
}

fn steps(steps: Value) -> Value {
    json!({ "steps": steps })
}

#[tokio::test]
async fn scripted_user_answers_and_is_recorded() -> Result<(), TestError> {
    let plugin = plugin("talker").grant("ui").answer(DialogAnswer::Confirmed(true)).dismiss().start().await?;
    let does = json!([{ "confirm": "one?" }, { "confirm": "two?" }, { "confirm": "three?" }, { "notify": ["hello", 1] },
        { "status": "busy" }, { "draw": "drawn" }]);
    let text = plugin.call("talk", steps(does)).await.text()?;
    assert!(text.starts_with("Ok(true)\nErr(UiError::Dismissed)\nErr(UiError::Headless)\n"), "{text}");
    let seen = plugin.seen();
    let questions: Vec<&str> = seen.asked.iter().map(|asked| asked.dialog.question.as_str()).collect();
    assert_eq!(questions, ["one?", "two?", "three?"]);
    assert_eq!(seen.asked[2].answer, Err(DialogError::Headless));
    assert_eq!((seen.notices, seen.segments), (vec!["hello".to_owned()], vec![Some("busy".to_owned())]));
    assert!(seen.drawings.len() == 2 && seen.drawings[0].to_string().contains("drawn"), "{:?}", seen.drawings);
    Ok(())
}

#[tokio::test]
async fn scripted_models_and_tools_answer_within_the_authority_of_the_call() -> Result<(), TestError> {
    let echo = |arguments: &Value| Ok(ToolOutput::text(format!("got {arguments}")));
    let plugin =
        plugin("talker").grant("model").grant("invoke").completion("forty-two").failed_completion("overloaded");
    let plugin = plugin.tool("look", Authority::READ_ONLY, echo).tool("bash", Authority::ALL, echo);
    let plugin = plugin.tool("broken", Authority::default(), |_| Err("no luck".to_owned())).start().await?;
    let ask = json!({ "complete": { "prompt": "6 * 7?" } });
    let does = json!([ask, ask, ask, "tools", { "call": ["look", { "a": 1 }] }, { "call": ["bash", {}] },
        { "call": ["broken", {}] }]);
    let reply = plugin.call("talk_delegating", steps(does)).await;
    let text = reply.text()?;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("forty-two") && lines[1].contains("overloaded"), "{text}");
    assert!(lines[2].contains("the test scripts no more completions"), "{text}");
    // The tool that calls may read and delegate, and no more.
    assert_eq!(lines[3], "look broken");
    assert!(text.contains("got {\\\"a\\\":1}") && text.contains("no luck"), "{text}");
    assert!(text.contains("There is no tool `bash`") || text.contains("no tool `bash`"), "{text}");
    assert_eq!((reply.ledger.counts["completion"], plugin.seen().completions.len()), (3, 3));
    let called: Vec<String> = plugin.seen().called.into_iter().map(|call| call.tool).collect();
    assert_eq!(called, ["look", "bash", "broken"]);
    Ok(())
}

#[tokio::test]
async fn scripted_servers_answer_under_the_rules_of_the_grant() -> Result<(), TestError> {
    let plugin = plugin("fetcher").grant("http=https://api.example.com/v1/").grant("http=http://db.example.com:8080");
    let plugin = plugin.grant("http=https://other.example.com");
    let plugin = plugin.server("https://api.example.com", |request| match request.uri().path() {
        "/v1/moved" => response(302, &[("location", "https://api.example.com/v2/secret")], ""),
        path => response(200, &[("x-answer", "yes")], format!("{} {path}", request.method())),
    });
    let plugin = plugin.server("http://db.example.com:8080", |_| response(404, &[], "nothing")).start().await?;
    let get = |url: &str| json!({ "url": url });
    let requests = [
        get("https://api.example.com/v1/items"),
        get("http://db.example.com:8080/x"),
        get("https://api.example.com/v2/secret"),
        get("https://api.example.com/v1/moved"),
        get("https://other.example.com/"),
    ];
    let reply = plugin.call("fetch", json!({ "requests": requests })).await;
    let outcomes: Vec<Value> = serde_json::from_str(&reply.text()?).unwrap();
    assert_eq!((&outcomes[0]["status"], &outcomes[0]["body"]), (&json!(200), &json!("GET /v1/items")));
    assert_eq!(outcomes[1]["status"], json!(404));
    assert!(outcomes[2]["denied"].is_string() && outcomes[3]["denied"].is_string(), "{outcomes:?}");
    assert!(outcomes[4]["failed"].as_str().unwrap().contains("scripts no server"), "{outcomes:?}");
    let received: Vec<String> = plugin.received().iter().map(|request| request.uri().to_string()).collect();
    let expected =
        ["https://api.example.com/v1/items", "http://db.example.com:8080/x", "https://api.example.com/v1/moved"];
    assert_eq!(received, expected);
    assert_eq!(reply.ledger.requests, 3);
    Ok(())
}

#[tokio::test]
async fn plugin_has_its_settings_storage_session_and_secrets() -> Result<(), TestError> {
    let configured = plugin("configured").settings(json!({ "greeting": "hello" })).start().await?;
    assert_eq!(configured.call("greeting", json!({})).await.text()?, "hello");
    let keeper = plugin("keeper").grant("storage").grant("secrets=github").secret("github", "Zq7Xw3Vb9Nm2Kp5L", &[]);
    let keeper = keeper.grant("process").start().await?;
    let does = json!([
        ["set", "plugin", "a", "1"],
        ["get", "plugin", "a"],
        ["set", "session", "a", "2"],
        ["has", "github"],
        ["has", "other"]
    ]);
    let text = keeper.call("keep", steps(does)).await.text()?;
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!((lines[0], lines[2], lines[3]), ("ok 1", "ok true", "ok false"));
    let printed = keeper.call("keep_running", steps(json!([["run", "github", "printf %s $TOKEN"]]))).await.text()?;
    assert!(printed.starts_with("ok ") && !printed.contains("Z.q.7"), "{printed}");
    let talker = plugin("talker").grant("session=write").message("Hello there").start().await?;
    let does = json!([{ "entries": ["", 10] }, { "append": { "mine": true } }]);
    assert!(talker.call("talk", steps(does)).await.text()?.contains("Hello there"));
    assert!(
        talker.entries()?.iter().any(|entry| entry.to_string().contains("\"mine\":true")),
        "{:?}",
        talker.entries()
    );
    Ok(())
}

#[tokio::test]
async fn commands_dialogs_and_completions_of_arguments_run() -> Result<(), TestError> {
    let plugin = plugin("talker").grant("ui").answer(DialogAnswer::Confirmed(true)).start().await?;
    let actions = plugin.command("talk", r#"[{ "confirm": "ok?" }, { "draw": "x" }]"#).await?;
    assert!(matches!(&actions[..], [HostAction::Print(text)] if text.starts_with("Ok(true)\n")), "{actions:?}");
    assert!(plugin.seen().drawings.is_empty() && plugin.complete("talk", "x").await.len() == 1);
    let error = plugin.command("tolk", "").await.unwrap_err().to_string();
    assert!(error.ends_with("hint: its commands are: talk"), "{error}");
    Ok(())
}

#[tokio::test]
async fn limits_and_cancellation_end_calls_with_what_was_used() -> Result<(), TestError> {
    let limits = PartialLimits { fuel: Some(50_000_000), ..PartialLimits::default() };
    let plugin = plugin("talker").grant("ui").limits(limits).start().await?;
    let reply = plugin.call("talk", steps(json!(["spin"]))).await;
    let error = reply.error()?;
    assert!(error.contains("fuel") && error.contains("limits"), "{error}");
    assert!(reply.ledger.fuel >= 50_000_000, "{:?}", reply.ledger);
    let token = CancellationToken::new();
    token.cancel();
    let cancelled = plugin.call_until("talk", steps(json!(["spin"])), token).await;
    assert!(cancelled.error()?.contains("cancelled"));
    Ok(())
}

#[tokio::test]
async fn wrong_tests_are_explained() {
    let error = |started: Result<pinion_plugin_test::Running, TestError>| started.err().unwrap().to_string();
    let missing = error(Plugin::load("build/none.wasm").start().await);
    assert!(
        missing.contains("build/none.wasm") && missing.ends_with("hint: build it before the test: pinion plugin build")
    );
    let unasked = error(plugin("echo").grant("process").start().await);
    assert!(
        unasked.starts_with("the plugin asks only for files=read: other grants have no effect\nhint: "),
        "{unasked}"
    );
    let unknown = error(plugin("echo").grant("fs=read").start().await);
    assert!(unknown.contains("`fs=read` is not a capability\nhint: the capabilities are files=read"), "{unknown}");
    let outside = error(plugin("echo").file("../a", "x").start().await);
    assert_eq!(outside, "`../a` is not a path inside the workspace");
    let echo = plugin("echo").start().await.unwrap();
    let no_tool = echo.call("ekko", json!({})).await.error().unwrap();
    assert!(no_tool.starts_with("plugin `echo` has no tool `ekko`\nhint: its tools are: echo, fail"), "{no_tool}");
    let wrong = echo.call("echo", json!({ "massage": "x" })).await.error().unwrap();
    assert!(wrong.starts_with("the arguments do not match the schema: ") && wrong.contains("\nhint: the schema: {"));
    let failed = echo.call("fail", json!({ "message": "out of luck" })).await;
    assert!(failed.error().unwrap().contains("out of luck") && failed.text().is_err());
}

#[tokio::test]
async fn hooks_answer_as_in_a_run() -> Result<(), TestError> {
    let executes = Authority { executes: true, ..Authority::default() };
    let plugin = plugin("guide").grant("hooks").tool("deploy", executes, |_| Ok(ToolOutput::default())).start().await?;
    let asks = Hooked::Asks("this command names the production system".to_owned());
    assert_eq!(plugin.before_tool_call("deploy", json!({ "to": "production" })).await?, asks);
    assert_eq!(plugin.before_tool_call("deploy", json!({ "to": "staging" })).await?, Hooked::Proceeds);
    let output = |text: &str| ToolOutput::text(text);
    let revised = plugin.after_tool_call("deploy", json!({}), output("db.internal.example")).await?;
    assert_eq!(revised, Hooked::Revises(output("db.[internal]")));
    let failed = ToolOutput { is_error: true, ..output("db.internal.example") };
    assert_eq!(plugin.after_tool_call("deploy", json!({}), failed).await?, Hooked::Proceeds);
    let Hooked::Adds(context) = plugin.before_prompt("deploy it").await? else { panic!("no context") };
    assert!(context.contains("Deployments are frozen until Monday.") && context.contains("`guide`"), "{context}");
    let added = plugin.before_compaction(5, 1_000, None).await?;
    assert!(matches!(&added, Hooked::Adds(text) if text.contains("Keep the names of all migrations.")), "{added:?}");
    let unknown = plugin.before_tool_call("bash", json!({})).await.unwrap_err().to_string();
    assert!(unknown.starts_with("there is no tool `bash`\nhint: script it: .tool(\"bash\", "), "{unknown}");
    Ok(())
}

#[tokio::test]
async fn hooks_that_refuse_rewrite_or_fail_are_told_apart() -> Result<(), TestError> {
    let plugin = plugin("hooked").grant("hooks").tool("look", Authority::default(), |_| Ok(ToolOutput::default()));
    let plugin = plugin.start().await?;
    let mut answers = Vec::new();
    for (act, text) in [("deny", "not now"), ("rewrite", "{\"a\": 2}"), ("rewrite", "no JSON"), ("trap", "no luck")] {
        plugin.reload_with(json!({ "before_call": { "act": act, "text": text } })).await?;
        answers.push(plugin.before_tool_call("look", json!({ "a": 1 })).await?);
    }
    assert!(matches!(&answers[0], Hooked::Denies(text) if text.contains("not now")), "{answers:?}");
    assert_eq!(answers[1], Hooked::Rewrites(json!({ "a": 2 })));
    assert!(matches!(&answers[2], Hooked::Fails(text) if text.contains("not JSON")), "{answers:?}");
    assert!(matches!(&answers[3], Hooked::Fails(text) if text.contains("no luck")), "{answers:?}");
    let mut answers = Vec::new();
    for act in ["warn", "reject"] {
        plugin.reload_with(json!({ "before_prompt": { "act": act, "text": "careful" } })).await?;
        answers.push(plugin.before_prompt("hello").await?);
    }
    assert_eq!(answers[0], Hooked::Warns("careful".to_owned()));
    assert!(matches!(&answers[1], Hooked::Rejects(reason) if reason.contains("careful")), "{answers:?}");
    let silent = Plugin::load(guest("hooked")).cache(env!("CARGO_TARGET_TMPDIR")).start().await?;
    let error = silent.before_prompt("hello").await.unwrap_err().to_string();
    assert!(
        error.starts_with("the hook `before-prompt` is not called: ") && error.contains(".grant(\"hooks\")"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn offers_state_and_events_of_a_plugin_that_stays() -> Result<(), TestError> {
    let board = plugin("guide_session").start().await?;
    assert_eq!(board.tools(), ["new_list"]);
    board.call("new_list", json!({ "name": "risks" })).await.text()?;
    board.offers("list_risks").await?;
    board.reload_with(json!({ "anything": 1 })).await?;
    assert_eq!(board.info().generation, 1, "as it was at the start");
    assert_eq!(board.call("list_risks", json!({})).await.text()?, "the list risks is empty");
    let pinion = Pinion::default();
    let hooked = guest("hooked");
    let pack = ["plugin", "pack", hooked.to_str().unwrap(), "--name", "observer", "--lifetime", "session"];
    let packed = pinion.run(pack.iter().chain(&["--ask", "hooks", "--ask", "files=write", "--out", "observer.wasm"]));
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let component = pinion.workspace().join("observer.wasm");
    let observer = Plugin::load(component).cache(env!("CARGO_TARGET_TMPDIR")).grant("hooks").grant("files=write");
    let observer = observer.start().await?;
    let log = observer.workspace().join("events.log");
    observer.reload_with(json!({ "events": { "act": "log", "text": log } })).await?;
    observer.session_events(&[json!({ "type": "turn_start" }), json!({ "type": "turn_end" })]).await?;
    assert_eq!(observer.read("events.log")?, "{\"type\":\"turn_start\"}\n{\"type\":\"turn_end\"}\n");
    Ok(())
}

/// The snippets of the guide, which are only compiled.
mod guide {
    use pinion_plugin_test::{Authority, Hooked, ToolOutput};
    use pinion_plugin_test::{DialogAnswer, Plugin, TestError, json, response};

    #[allow(dead_code, reason = "there is no such plugin")]
    async fn commands_about_production_are_asked_about() -> Result<(), TestError> {
        let executes = Authority { executes: true, ..Authority::default() };
        let plugin = Plugin::load("build/guard.wasm").grant("hooks");
        let plugin = plugin.tool("bash", executes, |_| Ok(ToolOutput::default())).start().await?;
        let answer = plugin.before_tool_call("bash", json!({ "command": "reboot production" })).await?;
        assert_eq!(answer, Hooked::Asks("this command names the production system".to_owned()));
        Ok(())
    }

    #[allow(dead_code, reason = "there is no such plugin")]
    async fn weather_is_asked_for_once() -> Result<(), TestError> {
        let plugin = Plugin::load("build/weather.wasm")
            .file("cities.txt", "Oslo") // the workspace, a new directory
            .grant("files=read") // the words of `--grant`
            .grant("http=https://api.example.com/v1/")
            .grant("secrets=weather")
            .settings(json!({ "unit": "C" }))
            .secret("weather", "Zq7Xw3Vb9Nm2", &["https://api.example.com/"])
            .server("https://api.example.com", |request| match request.headers().get("authorization") {
                Some(_) => response(200, &[], "7"),
                None => response(401, &[], ""),
            })
            .answer(DialogAnswer::Confirmed(true)) // of the next dialog
            .completion("It is cold.") // of the next request to a model
            .start()
            .await?;
        let reply = plugin.call("weather", json!({ "file": "cities.txt" })).await;
        assert_eq!(reply.text()?, "Oslo: 7 C");
        assert_eq!((reply.ledger.requests, reply.ledger.bytes_written), (1, 0));
        assert_eq!(plugin.received()[0].uri(), "https://api.example.com/v1/oslo");
        assert_eq!(plugin.seen().asked.len(), 1);
        Ok(())
    }
}
