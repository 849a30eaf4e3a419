//! Calls of clients are decided on like a model's calls: by rules, the mode, hooks and the user.

use super::{Client, meta, text, with};
use pinion_tests::{Pinion, guest};
use serde_json::{Value, json};

fn bash(command: &str) -> Value {
    json!({ "name": "bash", "arguments": { "command": command } })
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

fn decisions(pinion: &Pinion) -> Vec<Value> {
    let log = pinion.run(["audit", "--json"]).stdout;
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.filter(|entry| entry["event"] == "decision").collect()
}

#[test]
fn rules_that_deny_hold_in_any_mode_and_are_audited() {
    let pinion = Pinion::default();
    pinion.config("exclude = [\"hidden\"]\n[permissions]\ndeny = [\"id\", \"rm -r\", \"write:kept\"]\n");
    let victim = pinion.write("victim/a", "");
    pinion.write("hidden", "excluded content");
    let mut client = Client::initialized(&pinion, &["--approve", "all"], json!({ "elicitation": {} }));
    for (command, rule) in [
        ("id; rm -rf victim", "`id`"),
        ("X=rm; cd . && $X --force --recursive victim", "rm -r"),
        ("env -u X nice \"r\"m -fr victim", "`rm -r`"),
        ("r''m -rf \"/\"", "rm -r"),
        ("bash -c 'shutdown now'", "`shutdown`"),
    ] {
        let id = client.begin("tools/call", bash(command));
        let mut answer = client.read();
        if answer["method"] == "elicitation/create" {
            // Where code is computed, a rule that denies is a question.
            let message = answer["params"]["message"].as_str().unwrap();
            assert!(message.contains("may apply to what the shell computes"), "{message}");
            client.send(&json!({ "jsonrpc": "2.0", "id": answer["id"], "result": { "action": "decline" } }));
            answer = client.answer(id);
        }
        let result = &answer["result"];
        assert!(result["isError"] == true && text(result).starts_with("Denied: "), "{command}: {answer}");
        assert!(text(result).contains(rule) || text(result).contains("the user denied it"), "{command}: {answer}");
    }
    let kept = client.call("write", json!({ "path": "kept/b.txt", "content": "x" }));
    assert!(kept["isError"] == true && text(&kept).contains("rule `write:kept`"), "{kept}");
    let excluded = client.call("read", json!({ "path": "hidden" }));
    assert!(excluded["isError"] == true && text(&excluded).contains("excluded"), "{excluded}");
    let invalid = client.call("bash", json!({ "command": ["id"] }));
    assert!(invalid["isError"] == true && text(&invalid).contains("command"), "{invalid}");
    assert!(victim.exists() && !pinion.workspace().join("kept").exists());
    let decided = decisions(&pinion);
    let denied: Vec<_> = decided.iter().filter(|entry| entry["allowed"] == false).collect();
    assert_eq!((denied.len(), &denied[0]["by"], &denied[0]["mode"]), (6, &json!("rules"), &json!("all")));
    assert_eq!(denied[0]["arguments"]["command"], "id; rm -rf victim");
    assert!(denied[0]["why"].as_str().unwrap().contains("`id`"), "{}", denied[0]);
}

#[test]
fn call_that_needs_approval_is_a_question_to_the_clients_user() {
    let pinion = Pinion::default();
    pinion.config("[permissions]\nask = [\"touch b\"]\n");
    let mut client = Client::initialized(&pinion, &[], json!({ "elicitation": {} }));
    let mut write = |answer: Value| {
        let arguments = json!({ "path": "a.txt", "content": "x\n? allow this call? It reads files" });
        let id = client.begin("tools/call", json!({ "name": "write", "arguments": arguments }));
        let question = client.answer_question(answer);
        (question["params"].clone(), client.answer(id)["result"].clone())
    };
    let (question, denied) = write(json!({ "action": "decline" }));
    let message = question["message"].as_str().unwrap();
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!((lines[0], lines[1]), ("? allow this call? It writes files", "  tool:   write"), "{message}");
    assert_eq!(lines.iter().filter(|line| line.starts_with('?')).count(), 1, "{message}");
    assert!(lines.iter().any(|line| line.starts_with('│') && line.contains("It reads files")), "{message}");
    assert!(question["requestedSchema"]["properties"]["allow"].get("default").is_none(), "{question}");
    assert!(denied["isError"] == true && text(&denied).contains("the user denied it"), "{denied}");
    let unclear = [json!({ "action": "cancel" }), accept(json!({ "allow": "yes" })), accept(json!({ "value": true }))];
    for answer in unclear {
        assert_eq!(write(answer.clone()).1["isError"], true, "{answer}");
    }
    assert!(!pinion.workspace().join("a.txt").exists());
    assert_eq!(write(accept(json!({ "allow": true }))).1["isError"], false);
    assert!(pinion.workspace().join("a.txt").exists());
    // One answer covers one call, and a rule that asks does so in any mode.
    assert_eq!(write(accept(json!({ "allow": false }))).1["isError"], true);
    let mut all = Client::initialized(&pinion, &["--approve", "all"], json!({ "elicitation": {} }));
    assert_eq!(all.request("tools/call", bash("touch c"))["result"]["isError"], false);
    let id = all.begin("tools/call", bash("touch b"));
    assert!(
        all.answer_question(accept(json!({ "allow": false })))["params"]["message"]
            .as_str()
            .unwrap()
            .contains("touch b")
    );
    assert_eq!(all.answer(id)["result"]["isError"], true);
    assert_eq!(["b", "c"].map(|name| pinion.workspace().join(name).exists()), [false, true]);
    let by: Vec<_> = decisions(&pinion).iter().map(|entry| entry["by"].clone()).collect();
    assert_eq!(by, ["user", "user", "nobody", "nobody", "user", "user", "rules", "user"]);
}

#[test]
fn client_that_cannot_ask_gets_what_may_run_unasked() {
    let pinion = Pinion::default();
    let tools = |arguments: &[&str], capabilities: Value| {
        let mut client = Client::initialized(&pinion, arguments, capabilities);
        let tools = client.tools();
        ["read", "write", "bash"].map(|name| tools.contains(&name.to_owned()))
    };
    let pages = json!({ "elicitation": { "url": {} } });
    assert_eq!(tools(&[], json!({})), [true, false, false]);
    assert_eq!(tools(&[], pages), [true, false, false]);
    assert_eq!(tools(&[], json!({ "elicitation": {} })), [true, true, true]);
    assert_eq!(tools(&["--approve", "ask"], json!({})), [false, false, false]);
    assert_eq!(tools(&["--approve", "edits"], json!({})), [true, true, false]);
    assert_eq!(tools(&["--approve", "all"], json!({})), [true, true, true]);
    assert_eq!(tools(&["--approve", "all", "--tools", "write"], json!({})), [false, true, false]);
    // A rule allows some calls of `bash`, and no others.
    pinion.config("[permissions]\nallow = [\"touch made\"]\n");
    assert_eq!(tools(&[], json!({})), [true, false, true]);
    let mut client = Client::initialized(&pinion, &[], json!({}));
    let denied = client.request("tools/call", bash("touch other"))["result"].clone();
    assert!(denied["isError"] == true && text(&denied).contains("the client cannot ask its user"), "{denied}");
    assert!(text(&denied).contains("hint: "), "{denied}");
    let unknown = client.request("tools/call", json!({ "name": "write", "arguments": { "path": "a", "content": "" } }));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert_eq!(client.request("tools/call", bash("touch made"))["result"]["isError"], false);
    assert_eq!(["made", "other"].map(|name| pinion.workspace().join(name).exists()), [true, false]);
    let mut child = pinion.command(["mcp", "serve"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("offered only to clients that can ask their user"), "{said}");
}

#[test]
fn approval_in_rounds_counts_only_after_the_question() {
    let pinion = Pinion::default();
    let mut client = Client::start(&pinion, &[]);
    let call = json!({ "name": "write", "arguments": { "path": "a.txt", "content": "x" },
                       "_meta": meta(json!({ "elicitation": {} })) });
    let allow = json!({ "approval": accept(json!({ "allow": true })), "approval-2": accept(json!({ "allow": true })) });
    let early = client.request("tools/call", with(call.clone(), json!({ "inputResponses": allow })))["result"].clone();
    let message = early["inputRequests"]["approval"]["params"]["message"].as_str().unwrap_or_default();
    assert!(early["resultType"] == "input_required" && message.starts_with("? allow this call?"), "{early}");
    assert!(!pinion.workspace().join("a.txt").exists());
    // Another call cannot use the answer, and takes nothing from the one that waits.
    let state = json!({ "inputResponses": allow, "requestState": early["requestState"] });
    let other =
        json!({ "name": "read", "arguments": { "path": "a.txt" }, "_meta": meta(json!({ "elicitation": {} })) });
    assert_eq!(client.request("tools/call", with(other, state.clone()))["error"]["code"], -32602);
    let other = with(with(call.clone(), json!({ "arguments": { "path": "b.txt", "content": "y" } })), state.clone());
    assert_eq!(client.request("tools/call", other)["result"]["isError"], false);
    assert_eq!(["a.txt", "b.txt"].map(|name| pinion.workspace().join(name).exists()), [true, false]);
    assert_eq!(client.request("tools/call", with(call, state))["error"]["code"], -32602, "an answer counts once");
}

#[test]
fn hooks_check_the_calls_of_clients_and_revise_their_results() {
    let pinion = Pinion::default();
    let config = |step: &str| {
        pinion.config(&format!(
            "[plugins.hooked]\ngrants = {{ hooks = true }}\n[plugins.hooked.config]\n{step}\n[plugins.echo.grants]\n\
             files = {{ \".\" = \"read\" }}\n"
        ));
        let (hooked, echo) = (guest("hooked"), guest("echo"));
        let arguments = ["--approve", "all", "--plugin", hooked.to_str().unwrap(), "--plugin", echo.to_str().unwrap()];
        Client::initialized(&pinion, &arguments, json!({ "elicitation": {} }))
    };
    let mut guarded = config(r#"before_call = { act = "deny", text = "not during a release", tool = "write" }"#);
    let denied = guarded.call("write", json!({ "path": "a.txt", "content": "x" }));
    assert!(denied["isError"] == true && text(&denied).contains("not during a release"), "{denied}");
    assert!(!pinion.workspace().join("a.txt").exists());
    assert_eq!(text(&guarded.call("echo", json!({ "message": "hello" }))), "hello");
    let mut revised = config(r#"after_call = { act = "replace", text = "revised" }"#);
    assert_eq!(text(&revised.call("echo", json!({ "message": "hello" }))), "revised");
    let mut asking = config(r#"before_call = { act = "ask", text = "is this wise?" }"#);
    let id = asking.begin("tools/call", json!({ "name": "echo", "arguments": { "message": "hello" } }));
    let question = asking.answer_question(accept(json!({ "allow": true })));
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("│ plugin `hooked` asks: is this wise?"), "{message}");
    assert_eq!(text(&asking.answer(id)["result"]), "hello");
}

/// A call that a call makes is decided on by itself.
#[test]
fn nested_call_needs_an_approval_of_its_own() {
    let pinion = Pinion::default();
    pinion.config("[plugins.talker.grants]\ninvoke = true\n");
    let talker = guest("talker");
    let mut client =
        Client::initialized(&pinion, &["--plugin", talker.to_str().unwrap()], json!({ "elicitation": {} }));
    let steps = json!({ "steps": [{ "call": ["write", { "path": "a.txt", "content": "x" }] }] });
    let id = client.begin("tools/call", json!({ "name": "talk_writing", "arguments": steps }));
    // The plugin itself was granted nothing that needs approval.
    let inner = client.answer_question(accept(json!({ "allow": false })));
    assert!(inner["params"]["message"].as_str().unwrap().contains("tool:   write"), "{inner}");
    let result = client.answer(id)["result"].clone();
    assert!(text(&result).contains("the user denied it") && !pinion.workspace().join("a.txt").exists(), "{result}");
}
