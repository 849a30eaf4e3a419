//! MCP servers of the user, through the real command: this program serves as one for itself.

#[cfg(target_os = "linux")]
use pinion_tests::Terminal;
use pinion_tests::{Ended, Pinion, binary, call, guest, has_namespaces, say, wait_until};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A separate home for the server, whose entry is added under the name `own`.
fn with_server(pinion: &Pinion, more: &[&str]) {
    pinion.config("[sandbox]\nmode = \"off\"\n");
    let grants = "[plugins.echo.grants]\nfiles = { \".\" = \"read\" }\n";
    let home = pinion.write("../server/config.toml", grants).parent().unwrap().to_owned();
    let (program, plugin) = (binary(), guest("echo"));
    // Compiles the plugin, so that the server starts quickly.
    let serve = ["mcp", "serve", "--no-builtin-plugins", "--plugin", plugin.to_str().unwrap()];
    assert!(pinion.command(serve).env("PINION_HOME", &home).status().unwrap().success());
    let home = format!("PINION_HOME={}", home.display());
    let mut arguments = vec!["mcp", "add", "own", "--env", &home, "--", program.to_str().unwrap(), "mcp", "serve"];
    arguments.extend(["--no-builtin-plugins", "--plugin", plugin.to_str().unwrap()]);
    arguments.extend(more);
    ok(&pinion.run(arguments));
}

fn ok(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// Returns the name of a tool that the model sees.
fn offered(tool: &str) -> String {
    format!("own__{tool}")
}

/// Runs a script of the model and returns the events.
fn events(pinion: &Pinion, replies: &[Value], more: &[&str]) -> (Ended, Vec<Value>) {
    let script = pinion.script(replies);
    let mut arguments = vec!["-p", "--output-format", "stream-json", "--replay", script.to_str().unwrap()];
    arguments.extend(more);
    arguments.push("go");
    let ended = pinion.run(arguments);
    let events = ended.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    (ended, events)
}

#[test]
fn server_is_tested_listed_and_called() {
    let pinion = Pinion::default();
    with_server(&pinion, &[]);
    let before: Value = serde_json::from_str(&pinion.run(["mcp", "list", "--json"]).stdout).unwrap();
    assert_eq!(before["servers"][0]["tools"], Value::Null);
    let tested = pinion.run(["mcp", "test", "own", "--json"]);
    let tested: Value = serde_json::from_str(&tested.stdout).unwrap_or_else(|_| panic!("{tested:?}"));
    assert_eq!(tested["tools"], json!(["echo", "fail", "peek", "details"]));
    assert!(
        tested["protocol"] == "2026-07-28" && tested["software"].as_str().unwrap().starts_with("pinion "),
        "{tested}"
    );
    // The offer of a server is known from then on.
    let after: Value = serde_json::from_str(&pinion.run(["mcp", "list", "--json"]).stdout).unwrap();
    assert!(
        after["servers"][0]["tools"].as_array().unwrap().len() == 4
            && after["servers"][0]["tokens"].as_u64() > Some(10)
    );
    let called = pinion.run(["mcp", "call", "own", "echo", "{\"message\": \"hello\"}"]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "hello\n"), "{called:?}");
    let failed = pinion.run(["mcp", "call", "own", "fail", "{\"message\": \"broken\"}"]);
    assert!(failed.code == Some(1) && failed.stdout.contains("broken"), "{failed:?}");
    let tools = pinion.run(["mcp", "tools", "own"]);
    assert!(tools.stdout.contains("echo") && tools.stdout.contains("Repeats a message."), "{tools:?}");
    let invalid = pinion.run(["mcp", "call", "own", "echo", "[1]"]);
    assert_eq!(invalid.code, Some(2));
    ok(&pinion.run(["mcp", "disable", "own"]));
    let disabled = pinion.run(["mcp", "test", "own"]);
    assert!(disabled.stderr.contains("pinion mcp enable own"), "{disabled:?}");
}

#[test]
fn model_calls_the_tool_of_a_server() {
    let pinion = Pinion::default();
    with_server(&pinion, &[]);
    ok(&pinion.run(["mcp", "test", "own"]));
    let replies = [call(&offered("echo"), json!({ "message": "from the model" })), say("done")];
    let (ended, seen) = events(&pinion, &replies, &["--approve", "all"]);
    ok(&ended);
    let result = seen.iter().find(|event| event["type"] == "tool_execution_end").unwrap_or_else(|| panic!("{ended:?}"));
    assert!(result["is_error"] == false && result.to_string().contains("from the model"), "{result}");
}

/// The bridge is not loaded without servers. The file is looked at before each prompt, and by `/mcp reload`.
#[cfg(target_os = "linux")]
#[test]
fn first_server_joins_the_conversation_that_runs() {
    for before in [None, Some("/mcp reload")] {
        let pinion = Pinion::default();
        pinion.config("[sandbox]\nmode = \"off\"\n");
        let replies = [say("nothing yet"), call(&offered("echo"), json!({ "message": "from the model" })), say("done")];
        let script = pinion.script(&replies);
        let command = pinion.command(["--approve", "all", "--replay", script.to_str().unwrap()]);
        let mut terminal = Terminal::start(&command, (100, 30), "");
        terminal.wait_for("› ");
        terminal.keys("go\r");
        terminal.wait_for_then("nothing yet", "› ");
        with_server(&pinion, &[]);
        ok(&pinion.run(["mcp", "test", "own"]));
        if let Some(typed) = before {
            terminal.keys(&format!("{typed}\r"));
            terminal.wait_for_then("changed these MCP servers: own", "› ");
        }
        terminal.keys("go on\r");
        terminal.wait_for_then("done", "› ");
        let (_, seen) = terminal.exit();
        assert!(seen.contains("own__echo") && seen.contains("changed these MCP servers: own"), "{seen}");
        let sessions = pinion.home().join("sessions");
        assert!(stored(&sessions).contains("from the model\"}]"), "no result of the server in {}", stored(&sessions));
    }
}

/// Removes everything of a terminal's output but its words.
#[cfg(target_os = "linux")]
fn join_words(seen: &str) -> String {
    let mut text = String::new();
    let mut rest = seen.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => drop(rest.by_ref().skip(1).find(char::is_ascii_alphabetic)),
            '│' | '|' => text.push(' '),
            c => text.push(c),
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(target_os = "linux")]
#[test]
fn tools_of_a_server_are_listed_with_the_tokens_of_the_context() {
    let pinion = Pinion::default();
    with_server(&pinion, &[]);
    ok(&pinion.run(["mcp", "test", "own"]));
    ok(&pinion.run(["mcp", "disable", "own", "fail"]));
    let script = pinion.script(&[call(&offered("echo"), json!({ "message": "x" })), say("done")]);
    let command = pinion.command(["--approve", "all", "--replay", script.to_str().unwrap()]);
    let mut terminal = Terminal::start(&command, (120, 60), "");
    terminal.wait_for("› ");
    // A call waits until the bridge has confirmed its offer.
    terminal.keys("go\r");
    terminal.wait_for_then("done", "› ");
    terminal.keys("/mcp tools own\r");
    terminal.wait_for_then("in the prompt, ", "› ");
    terminal.keys("/context\r");
    terminal.wait_for_then("results of ", "› ");
    for (typed, hint) in [
        ("/mcp tools ow", "did you mean \x1b[0;35mown\x1b[m?"),
        ("/mcp tools", "lists the servers"),
        ("/mcp disable own eco", "did you mean \x1b[0;35mecho\x1b[m?"),
        ("/mcp logout own", "needs no login"),
        ("/mcp nothing", "[tools|reload"),
    ] {
        terminal.keys(&format!("{typed}\r"));
        terminal.wait_for_then(hint, "› ");
    }
    let (_, seen) = terminal.exit();
    let seen = join_words(&seen);
    let after = |text: &str| seen.split_once(text).unwrap_or_else(|| panic!("no `{text}`: {seen}")).1.to_owned();
    let tokens = after("3 tools in the prompt, ");
    let tokens = tokens.split_once(" tokens").unwrap().0;
    assert!(after("tools of MCP server own").trim_start().starts_with(&format!("3 tools {tokens} ")), "{seen}");
    assert!(seen.contains("fail disabled") && seen.contains("Repeats a message."), "{seen}");
}

/// Returns the text of all files in a directory.
#[cfg(target_os = "linux")]
fn stored(directory: &std::path::Path) -> String {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .map(|path| if path.is_dir() { stored(&path) } else { std::fs::read_to_string(path).unwrap_or_default() })
        .collect()
}

#[test]
fn call_that_nobody_approves_is_denied() {
    let pinion = Pinion::default();
    with_server(&pinion, &[]);
    ok(&pinion.run(["mcp", "test", "own"]));
    let replies = [call(&offered("echo"), json!({ "message": "x" })), say("done")];
    let (ended, _) = events(&pinion, &replies, &[]);
    assert!(ended.code == Some(4) && ended.stderr.contains("own__echo"), "{ended:?}");
}

#[test]
fn disabled_tool_is_not_offered() {
    let pinion = Pinion::default();
    with_server(&pinion, &[]);
    ok(&pinion.run(["mcp", "test", "own"]));
    ok(&pinion.run(["mcp", "disable", "own", "echo"]));
    let replies = [call(&offered("echo"), json!({ "message": "x" })), say("done")];
    let (ended, seen) = events(&pinion, &replies, &["--approve", "all"]);
    ok(&ended);
    assert!(!seen.iter().any(|event| event["type"] == "tool_execution_start"), "{ended:?}");
}

#[test]
fn fifty_servers_start_nothing() {
    let pinion = Pinion::default();
    let marks: PathBuf = pinion.workspace().join("started");
    let server = json!({ "command": "sh", "args": ["-c", format!("touch {}", marks.display())] });
    let servers: serde_json::Map<String, Value> = (0..50).map(|n| (format!("s{n}"), server.clone())).collect();
    std::fs::write(pinion.home().join("mcp.json"), json!({ "mcpServers": servers }).to_string()).unwrap();
    let (ended, _) = events(&pinion, &[say("done")], &[]);
    ok(&ended);
    ok(&pinion.run(["mcp", "list"]));
    ok(&pinion.run(["plugin", "list"]));
    assert!(!marks.exists());
}

#[test]
fn server_that_fails_is_named_with_its_words() {
    let pinion = Pinion::default();
    pinion.config("[sandbox]\nmode = \"off\"\n");
    ok(&pinion.run(["mcp", "add", "bad", "--", "sh", "-c", "printf 'no \\033[31mkey\\n' >&2; exit 3"]));
    let failed = pinion.run(["mcp", "test", "bad"]);
    assert!(failed.code == Some(1) && failed.stderr.contains("`bad`") && failed.stderr.contains("key"), "{failed:?}");
    assert!(!failed.stderr.contains("hint:") && !failed.stderr.contains('\u{1b}'), "{failed:?}");
    ok(&pinion.run(["mcp", "add", "none", "--", "no-such-program-here"]));
    let missing = pinion.run(["mcp", "test", "none"]);
    assert!(missing.stderr.contains("no such program: `no-such-program-here`"), "{missing:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn server_dies_with_a_host_that_is_killed() {
    let pinion = Pinion::default();
    pinion.config("[sandbox]\nmode = \"off\"\n");
    let file = pinion.workspace().join("pid");
    ok(&pinion.run(["mcp", "add", "mute", "--", "sh", "-c", "echo $$ > pid; sleep 300 & wait"]));
    let mut host = pinion.start(["mcp", "test", "mute"]);
    let pid = || std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
    wait_until("the server runs", || pid().is_some());
    host.kill().unwrap();
    host.wait().unwrap();
    let pid = pid().unwrap();
    wait_until("the server is gone", || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    });
}

#[cfg(target_os = "linux")]
#[test]
fn server_runs_in_the_sandbox_without_a_network() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    let probe = "touch inside; touch \"$HOME/outside\" 2>/dev/null; echo mark > \"$npm_config_cache.mark\"; \
                 cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' \\n' > interfaces; exit 1";
    ok(&pinion.run(["mcp", "add", "probe", "--", "sh", "-c", probe]));
    let failed = pinion.run(["mcp", "test", "probe"]);
    assert!(failed.stderr.contains("`probe`"), "{failed:?}");
    assert!(pinion.workspace().join("inside").exists() && !pinion.home().join("outside").exists());
    assert_eq!(std::fs::read_to_string(pinion.workspace().join("interfaces")).unwrap(), "lo");
    // Downloads of a package manager stay in the server's own directory.
    let directories = std::fs::read_dir(pinion.home().join("mcp-servers")).unwrap();
    let kept = directories.flatten().any(|directory| directory.path().join("tmp/npm.mark").exists());
    assert!(kept && !std::path::Path::new("/tmp/npm.mark").exists());
    ok(&pinion.run(["mcp", "add", "shut", "--read-only", "--", "sh", "-c", "touch refused; exit 1"]));
    pinion.run(["mcp", "test", "shut"]);
    assert!(!pinion.workspace().join("refused").exists());
}

/// Adds a server that says something on standard error and ends.
fn add_failing(pinion: &Pinion, name: &str, says: &str) {
    ok(&pinion.run(["mcp", "add", name, "--", "sh", "-c", &format!("echo \"{says}\" >&2; exit 1")]));
}

#[test]
fn failing_server_gets_the_hint_of_its_cause() {
    let pinion = Pinion::default();
    add_failing(&pinion, "keyless", "MY_API_KEY environment variable is required");
    let keyless = pinion.run(["mcp", "test", "keyless"]);
    assert!(keyless.stderr.contains("--env 'MY_API_KEY=${MY_API_KEY}'"), "{keyless:?}");
    assert!(!keyless.stderr.contains("network"), "{keyless:?}");
    add_failing(&pinion, "offline", "getaddrinfo EAI_AGAIN registry.npmjs.org");
    let offline = pinion.run(["mcp", "test", "offline"]);
    assert!(offline.stderr.contains("\"network\": true"), "{offline:?}");
    add_failing(&pinion, "broken", "AttributeError: it has no attribute");
    let broken = pinion.run(["mcp", "test", "broken"]);
    assert!(broken.stderr.contains("AttributeError") && !broken.stderr.contains("hint:"), "{broken:?}");
    for _ in 0..2 {
        let listed = pinion.run(["mcp", "list", "--check"]);
        assert_eq!(listed.stdout.matches("ends with: AttributeError").count(), 1, "{listed:?}");
    }
}

#[test]
fn server_that_never_answers_ends_at_its_limit_with_a_word() {
    let pinion = Pinion::default();
    let entry = "{\"command\": \"sh\", \"args\": [\"-c\", \"sleep 100\"], \"startupTimeoutSeconds\": 4}";
    ok(&pinion.run(["mcp", "add-json", "mute", entry]));
    let mute = pinion.run(["mcp", "test", "mute"]);
    assert!(mute.code == Some(1) && mute.stderr.contains("was not ready within 4 s"), "{mute:?}");
    assert!(mute.stderr.contains("waiting for MCP server `mute`"), "{mute:?}");
}
