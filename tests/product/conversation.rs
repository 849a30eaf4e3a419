//! Conversations on a terminal: the facts that they show about themselves, and events from outside.

use crate::product::providers::{Vendor, reply};
use pinion_tests::{Pinion, Terminal, call, guest, say, wait_until};
use serde_json::{Value, json};

/// Starts a conversation that asks for no approval.
fn conversation(pinion: &Pinion, replies: &[Value]) -> Terminal {
    let script = pinion.script(replies);
    let command = pinion.command(["--approve", "all", "--replay", script.to_str().unwrap()]);
    let terminal = Terminal::start(&command, (80, 24), "");
    terminal.wait_for("› ");
    terminal
}

/// Types a line, and waits for `shown` and the next prompt.
fn enter(terminal: &mut Terminal, line: &str, shown: &str) {
    terminal.keys(&format!("{line}\r"));
    terminal.wait_for_then(shown, "› ");
}

#[test]
fn reader_form_writes_nothing_but_lines() {
    let pinion = Pinion::default();
    let call = json!({ "calls": [{ "tool": "bash", "arguments": { "command": "touch wanted" } }] });
    let script = pinion.script(&[call, say("finished"), say("later")]);
    let arguments = ["--ui", "reader", "--approve", "ask", "--replay", script.to_str().unwrap(), "go"];
    let mut terminal = Terminal::start(&pinion.default_command(arguments), (80, 24), "");
    terminal.wait_for("[y] yes");
    terminal.keys("y");
    terminal.wait_for("finished");
    terminal.keys("one \\\nmessage\n");
    terminal.wait_for("later");
    terminal.keys("/help\n");
    terminal.wait_for("/tools");
    terminal.keys("/context\n");
    terminal.wait_for("number: 1 call");
    let (code, seen) = terminal.exit();
    // A screen reader would name the shape of each of these.
    assert!(!seen.contains(['█', '│', '┊', '●', '✓', '✗']), "{seen}");
    assert!(seen.contains("| \"command\": touch wanted"), "{seen}");
    assert!(code == Some(0) && pinion.workspace().join("wanted").exists(), "{seen}");
    let is_linear = !seen.contains(['\x1b', '\x08']) && !seen.replace("\r\n", "").contains('\r');
    assert!(is_linear, "{seen:?}");
    let id = pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
    assert!(pinion.run(["session", "show", &id]).stdout.contains("one \nmessage"));
}

#[test]
fn reports_of_the_terminal_are_no_part_of_a_message() {
    for form in ["line", "reader"] {
        let pinion = Pinion::default();
        let script = pinion.script(&[say("hello")]);
        let arguments = ["--ui", form, "--approve", "all", "--replay", script.to_str().unwrap()];
        let mut terminal = Terminal::start(&pinion.default_command(arguments), (80, 24), "");
        terminal.wait_for("› ");
        terminal.keys("\x1b[?2026;2$yhi\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\ there\x1b[?997;1n\r");
        terminal.wait_for_then("hello", "› ");
        terminal.exit();
        let id = pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
        let shown = pinion.run(["session", "show", &id]).stdout;
        assert!(shown.contains("hi there") && !shown.contains("2026;2") && !shown.contains("rgb"), "{form}: {shown}");
        assert!(!shown.contains("997"), "{form}: {shown}");
    }
}

#[test]
fn greeting_names_session_context_files_and_tools() {
    let pinion = Pinion::default();
    pinion.write("AGENTS.md", "Be brief.");
    let mut terminal = conversation(&pinion, &[say("hello")]);
    enter(&mut terminal, "hi", "hello");
    let (_, seen) = terminal.exit();
    let id = &pinion.run(["session", "list"]).stdout[..8];
    for part in ["runs every call without asking", &format!("session {id}"), "AGENTS.md", "tools"] {
        assert!(seen.split("› ").next().unwrap().contains(part), "`{part}` is not in:\n{seen}");
    }
    assert!(seen.contains(&format!("Resume with: pinion -r {id}")), "{seen}");
}

#[test]
fn limit_in_a_conversation_says_how_to_continue() {
    let pinion = Pinion::default();
    pinion.config("[limits]\nmax-turns = 1\n");
    let replies = [call("list", json!({ "path": "." })), say("the rest")];
    let mut terminal = conversation(&pinion, &replies);
    enter(&mut terminal, "go", "send a message to continue");
    enter(&mut terminal, "go on", "the rest");
    terminal.exit();
}

#[test]
fn prompt_after_a_pause_begins_another_session_if_the_config_says_so() {
    let pinion = Pinion::default();
    // Any pause is longer.
    pinion.config("new-session-after-hours = 1e-9\n");
    let mut terminal = conversation(&pinion, &[say("reply 1"), say("reply 2"), say("reply 3")]);
    enter(&mut terminal, "prompt one", "reply 1");
    let original = pinion.run(["session", "list"]).stdout[..8].to_owned();
    enter(&mut terminal, "prompt two", "reply 2");
    let (_, seen) = terminal.exit();
    let remark = format!("/resume {original} returns to the one before");
    let at = |part: &str| seen.find(part).unwrap_or_else(|| panic!("`{part}` is not in:\n{seen}"));
    assert!(at("reply 1") < at("new session after a long pause: ") && at(&remark) < at("reply 2"), "{seen}");
    assert_eq!(pinion.run(["session", "list"]).stdout.lines().count(), 2);
}

#[test]
fn commands_switch_the_session() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("reply 1"), say("reply 2"), say("reply 3"), say("reply 4")]);
    enter(&mut terminal, "prompt one", "reply 1");
    let original = pinion.run(["session", "list"]).stdout[..8].to_owned();
    enter(&mut terminal, "/fork", "forked session: ");
    enter(&mut terminal, "prompt two", "reply 2");
    enter(&mut terminal, "/clear", "new session: ");
    enter(&mut terminal, "prompt three", "reply 3");
    enter(&mut terminal, "/resume", "resume one by a prefix");
    enter(&mut terminal, &format!("/resume {original}"), &format!("resumed session: {original}"));
    enter(&mut terminal, "prompt four", "reply 4");
    terminal.exit();
    let listed = pinion.run(["session", "list"]).stdout;
    let prompts = |id: &str| {
        let shown = pinion.run(["session", "export", id, "--format", "markdown"]).stdout;
        ["one", "two", "three", "four"].map(|number| shown.contains(&format!("prompt {number}")))
    };
    let mut found: Vec<_> = listed.lines().filter_map(|line| line.get(..8)).map(prompts).collect();
    found.sort_unstable();
    let [cleared, resumed, forked] =
        [[false, false, true, false], [true, false, false, true], [true, true, false, false]];
    assert_eq!((found, prompts(&original)), (vec![cleared, resumed, forked], resumed), "{listed}");
}

#[test]
fn output_of_own_commands_stays_in_its_conversation() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("reply 1"), say("reply 2"), say("reply 3"), say("reply 4")]);
    enter(&mut terminal, "!echo seen-$((1 + 1))", "seen-2");
    enter(&mut terminal, "prompt one", "reply 1");
    enter(&mut terminal, "!echo left-$((1 + 1))", "left-2");
    enter(&mut terminal, "/new", "new session: ");
    enter(&mut terminal, "prompt two", "reply 2");
    enter(&mut terminal, "prompt three", "reply 3");
    enter(&mut terminal, "!echo undone-$((1 + 1))", "undone-2");
    enter(&mut terminal, "/undo", "↑ brings the message back");
    enter(&mut terminal, "prompt four", "reply 4");
    terminal.exit();
    let listed = pinion.run(["session", "list"]).stdout;
    let ids = listed.lines().filter_map(|line| line.get(..8));
    let sessions: Vec<String> =
        ids.map(|id| pinion.run(["session", "export", id, "--format", "markdown"]).stdout).collect();
    let text = sessions.join("\n");
    assert_eq!(sessions.len(), 2, "{listed}");
    assert!(text.contains("seen-2") && text.contains("prompt four"), "{text}");
    assert!(!text.contains("left-2") && !text.contains("undone-2"), "{text}");
}

#[test]
fn changed_context_file_counts_from_the_next_prompt() {
    let pinion = Pinion::default();
    let vendor = Vendor::answering(vec![reply(&json!({ "content": "hello" }), "stop")]);
    pinion.write("AGENTS.md", "Be brief.");
    let command = pinion.command(["-m", "openai-chat/m", "--base-url", &vendor.url]);
    let mut terminal = Terminal::start(&command, (80, 24), "");
    terminal.wait_for("› ");
    enter(&mut terminal, "one", "hello");
    pinion.write("AGENTS.md", "Be verbose.");
    enter(&mut terminal, "two", "! `AGENTS.md` changed");
    enter(&mut terminal, "three", "hello");
    let (_, seen) = terminal.exit();
    assert_eq!(seen.matches("`AGENTS.md` changed").count(), 1, "{seen}");
    let bodies = vendor.bodies.lock().unwrap();
    let told = |text: &str| bodies.iter().map(|body| body.contains(text)).collect::<Vec<_>>();
    assert_eq!((told("Be brief."), told("Be verbose.")), (vec![true, false, false], vec![false, true, true]));
}

#[test]
fn reload_is_reported_while_a_run_works() {
    let pinion = Pinion::default();
    std::fs::create_dir_all(pinion.home().join("plugins")).unwrap();
    let waits = "touch begun; until [ -e go ]; do sleep 0.01; done";
    let mut terminal = conversation(&pinion, &[call("bash", json!({ "command": waits })), say("finished")]);
    terminal.keys("go\r");
    wait_until("the program runs", || pinion.workspace().join("begun").exists());
    std::fs::copy(guest("echo"), pinion.home().join("plugins/echo.wasm")).unwrap();
    let seen = terminal.wait_for("loaded plugin `echo`");
    assert!(!seen.contains("finished"), "{seen}");
    pinion.write("go", "");
    terminal.wait_for_then("finished", "› ");
    terminal.exit();
}

#[test]
fn grants_reach_a_running_conversation() {
    let pinion = Pinion::default();
    let plugins = pinion.home().join("plugins");
    std::fs::create_dir_all(&plugins).unwrap();
    std::fs::copy(guest("grow_one"), plugins.join("grow.wasm")).unwrap();
    pinion.load_plugins();
    let run = || call("run", json!({ "script": format!("touch {}/made", pinion.workspace().display()) }));
    let made = || std::fs::remove_file(pinion.workspace().join("made")).is_ok();
    let replies = [run(), say("reply 1"), run(), say("reply 2"), run(), say("reply 3")];
    let mut terminal = conversation(&pinion, &replies);
    enter(&mut terminal, "run it", "reply 1");
    assert!(!made());
    assert_eq!(pinion.run(["plugin", "grant", "grow", "process"]).code, Some(0));
    terminal.wait_for("reloaded plugin `grow`");
    enter(&mut terminal, "run it", "reply 2");
    assert!(made());
    assert_eq!(pinion.run(["plugin", "revoke", "grow"]).code, Some(0));
    terminal.wait_for_nth("reloaded plugin `grow`", 2);
    enter(&mut terminal, "run it", "reply 3");
    assert!(!made());
    terminal.exit();
}

#[test]
fn details_of_a_plugin_fit_the_terminal_and_end_with_its_digest() {
    let pinion = Pinion::default();
    let (code, seen) = Terminal::start(&pinion.command(["plugin", "info", "fs"]), (80, 24), "").end();
    assert!(code == Some(0) && seen.lines().all(|line| line.trim_end().chars().count() <= 80), "{seen}");
    assert!(seen.lines().last().unwrap().trim_start().starts_with("digest"), "{seen}");
}

#[test]
fn command_of_a_plugin_cannot_change_the_mode() {
    for ui in ["line", "full"] {
        let pinion = Pinion::default();
        std::fs::create_dir_all(pinion.home().join("plugins")).unwrap();
        std::fs::copy(guest("lister"), pinion.home().join("plugins/lister.wasm")).unwrap();
        let command = |name: &str, extra: &str, action: &str| {
            format!("[[plugins.lister.config.commands]]\nname = \"{name}\"\ndescription = \"Mine\"\n{extra}{action}\n")
        };
        let (named, returned) = (r#"extra = '{"action":"mode"}'"#, r#"action = ["mode", "all"]"#);
        let harmless = r#"extra = '{"action":"context"}'"#;
        let commands = [command("aa", named, ""), command("bb", "", returned), command("cc", harmless, "")];
        pinion.config(&commands.concat());
        // Compiles the plugin, so that the conversation begins with its commands.
        let info = pinion.run(["plugin", "info", "lister"]);
        assert!(info.code == Some(0) && info.stdout.contains("lister"), "{info:?}");
        let script = pinion.script(&[]);
        let arguments = ["--ui", ui, "--approve", "ask", "--replay", script.to_str().unwrap()];
        let mut terminal = Terminal::start(&pinion.default_command(arguments), (100, 40), "");
        terminal.wait_for("›");
        for line in ["/aa all", "/bb"] {
            terminal.keys(&format!("{line}\r"));
            terminal.wait_for(&format!("{}: the plugin `lister` may not perform `mode`", &line[..3]));
        }
        terminal.keys("/cc\r");
        terminal.wait_for("system prompt");
        terminal.keys("/mode\r");
        terminal.wait_for("→ ask");
        assert_eq!(terminal.exit().0, Some(0), "{ui}");
    }
}
