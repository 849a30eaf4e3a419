//! The command as a newcomer meets it: help, mistakes on the command line, and output for people and for programs.

use crate::product::command::assert_error;
use pinion_tests::{Ended, Pinion, Terminal, say};
use serde_json::{Value, json};
use std::process::Command;

/// Runs scripted replies with these options.
fn scripted(pinion: &Pinion, replies: &[Value], options: &[&str]) -> Command {
    let script = pinion.script(replies);
    pinion.command(["--replay", script.to_str().unwrap()].iter().chain(options))
}

/// Runs a command on a terminal of 80 columns and returns its exit status and output.
fn on_terminal(command: &Command) -> (Option<i32>, String) {
    Terminal::start(command, (80, 24), "").end()
}

fn result(ended: &Ended) -> Value {
    serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap()
}

#[test]
fn help_fits_80_columns_and_has_a_short_and_a_long_form() {
    let pinion = Pinion::default();
    let (short, long) = (pinion.run(["-h"]).stdout, pinion.run(["--help"]).stdout);
    assert_eq!(
        (pinion.run(["help", "-h"]).stdout, pinion.run(["help", "--help"]).stdout),
        (short.clone(), long.clone())
    );
    for line in short.lines().chain(long.lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(short.lines().count() * 2 < long.lines().count(), "{short}");
    for part in ["Examples:", "Exit status:", "PINION_HOME", "auth.toml"] {
        assert!(long.contains(part) && !short.contains(part), "{part}");
    }
}

#[test]
fn word_near_a_command_is_not_sent_to_a_model() {
    let pinion = Pinion::default();
    assert_error(&pinion.run(["doctr"]), 2, &["no command `doctr`", "`pinion doctor`", "`pinion -p doctr`"]);
    assert_error(&pinion.run(["-m", "x/y", "models"]), 2, &["`pinion model`"]);
    let sent = scripted(&pinion, &[say("sent")], &["-p", "doctr"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&sent.stdout), "sent\n");
}

#[test]
fn command_may_follow_options_of_every_command() {
    let pinion = Pinion::default();
    let elsewhere = pinion.home();
    let ended = pinion.run(["-C", elsewhere.to_str().unwrap(), "config", "path"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
}

#[test]
fn json_output_reports_wrong_usage_and_config() {
    let pinion = Pinion::default();
    for arguments in [&["-p", "--nonsense"][..], &["-p", "-m", "nonsense", "hi"], &["-p"]] {
        for format in ["json", "stream-json"] {
            let ended = pinion.run([&["--output-format", format], arguments].concat());
            assert_eq!(ended.code, Some(2), "{ended:?}");
            let result = result(&ended);
            assert_eq!((&result["type"], &result["stop_reason"]), (&json!("result"), &json!("error")));
            assert!(!result["error"].as_str().unwrap().is_empty());
        }
    }
    pinion.config("nonsense = 1\n");
    let ended = pinion.run(["-p", "--output-format", "json", "hi"]);
    assert!(result(&ended)["error"].as_str().unwrap().contains("config.toml"), "{ended:?}");
}

#[test]
fn json_output_has_one_result_when_the_run_fails() {
    let pinion = Pinion::default();
    let endless = json!({ "calls": [{ "tool": "list", "arguments": { "path": "." } }] });
    let options = ["-p", "--output-format", "json", "--max-turns", "1", "go"];
    let output = scripted(&pinion, &[endless.clone(), endless], &options).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(3), 1), "{text}");
    assert!(text.contains("reached the limit of 1 turn (--max-turns)"), "{text}");
}

#[test]
fn closed_pipe_is_silent_and_keeps_the_exit_status() {
    let pinion = Pinion::default();
    for options in [
        &["-p", "hi"][..],
        &["-p", "--stream", "hi"],
        &["-p", "--output-format", "json", "hi"],
        &["-p", "--output-format", "stream-json", "hi"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = scripted(&pinion, &[say("an answer")], options).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""), "{options:?}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = pinion.command(["demo"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""));
}

#[test]
fn verbose_run_on_a_terminal_prints_the_answer_once() {
    let pinion = Pinion::default();
    let (code, seen) = on_terminal(&scripted(&pinion, &[say("a certain answer")], &["-v", "-p", "hi"]));
    assert_eq!((code, seen.matches("a certain answer").count()), (Some(0), 1), "{seen}");
}

#[test]
fn run_on_a_terminal_shows_progress() {
    let pinion = Pinion::default();
    let list = json!({ "calls": [{ "tool": "list", "arguments": { "path": "." } }] });
    let (code, seen) = on_terminal(&scripted(&pinion, &[list, say("done")], &["-p", "hi"]));
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("is working") && seen.contains("list") && seen.contains("done"), "{seen}");
}

#[test]
fn doctor_survives_a_broken_config_and_explains_it() {
    let pinion = Pinion::default();
    pinion.config("modle = \"x\"\n");
    let ended = pinion.run(["doctor"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for part in ["✗ invalid config", "did you mean `model`?", "✓ plugin fs", "not ready, 1 problem"] {
        assert!(ended.stdout.contains(part), "`{part}` is not in {}", ended.stdout);
    }
}

#[test]
fn doctor_reports_settings_without_effect() {
    let pinion = Pinion::default();
    pinion.config("fallback = [\"gpt-0\"]\n[plugins.fss.grants]\nfiles = {}\n");
    let auth = pinion.home().join("auth.toml");
    std::fs::write(&auth, "[anthropc]\nkey = \"sk-0123456789\"\n").unwrap();
    private(&auth);
    let ended = pinion.run(["doctor"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for part in
        ["`[plugins.fss]`", "did you mean `fs`?", "`[anthropc]`", "did you mean `anthropic`?", "the fallback `gpt-0`"]
    {
        assert!(ended.stdout.contains(part), "`{part}` is not in {}", ended.stdout);
    }
}

#[cfg(unix)]
fn private(file: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn doctor_knows_fallbacks_on_servers_of_the_user() {
    let pinion = Pinion::default();
    pinion.config("fallback = ['box/other', 'bax/other']\n[providers.box]\nformat = 'openai-chat'\nbase-url = 'http://127.0.0.1:1'\n");
    let shown = pinion.run(["doctor"]).stdout;
    assert!(shown.contains("`bax/other`") && !shown.contains("✗ the fallback `box/other`"), "{shown}");
}

#[test]
fn doctor_reports_a_broken_key_file_once() {
    let pinion = Pinion::default();
    std::fs::write(pinion.home().join("auth.toml"), "[anthropic]\nkey = \"x\"\n").unwrap();
    let ended = pinion.run(["doctor"]);
    assert_eq!((ended.code, ended.stdout.matches("auth.toml").count()), (Some(1), 1), "{}", ended.stdout);
    assert!(ended.stdout.contains("not ready, 1 problem"), "{}", ended.stdout);
}

#[test]
fn sessions_are_listed_with_age_turns_and_model() {
    let pinion = Pinion::default();
    scripted(&pinion, &[say("hello")], &["-p", "-m", "tiny", "what is it"]).output().unwrap();
    let listed = pinion.run(["session", "list"]).stdout;
    assert!(listed.contains(" now ") && listed.contains(" 1 ") && listed.ends_with("what is it\n"), "{listed}");
    let (_, seen) = on_terminal(&pinion.command(["session", "list"]));
    let rows: Vec<&str> = seen.lines().collect();
    assert!(rows[0].starts_with("id       last used") && rows.len() == 2, "a heading for people: {seen}");
    assert!(rows.iter().all(|row| row.chars().count() <= 80), "{seen}");
}

#[test]
fn deleted_session_is_named() {
    let pinion = Pinion::default();
    scripted(&pinion, &[say("hello")], &["-p", "hi"]).output().unwrap();
    let id = pinion.run(["session", "list"]).stdout[..8].to_owned();
    let ended = pinion.run(["session", "delete", &id]);
    assert_eq!((ended.code, ended.stderr), (Some(0), format!("deleted session {id}\n")));
}

#[test]
fn deletion_on_a_terminal_asks_first() {
    let pinion = Pinion::default();
    scripted(&pinion, &[say("hello")], &["-p", "hi"]).output().unwrap();
    let id = pinion.run(["session", "list"]).stdout[..8].to_owned();
    let mut terminal = Terminal::start(&pinion.command(["session", "delete", &id]), (80, 24), "");
    terminal.wait_for("[n] no");
    terminal.keys("n");
    let (code, seen) = terminal.end();
    assert!(code == Some(0) && seen.contains("nothing was deleted"), "{seen}");
    assert_eq!(pinion.run(["session", "list"]).stdout.lines().count(), 1);
}

#[test]
fn export_refuses_an_unknown_extension() {
    let pinion = Pinion::default();
    scripted(&pinion, &[say("hello")], &["-p", "hi"]).output().unwrap();
    let id = pinion.run(["session", "list"]).stdout[..8].to_owned();
    assert_error(&pinion.run(["session", "export", &id, "-o", "s.pdf"]), 2, &["s.pdf", "--format"]);
    assert!(!pinion.workspace().join("s.pdf").exists());
}

/// Starts a conversation.
fn conversation(pinion: &Pinion, replies: &[Value]) -> Terminal {
    Terminal::start(&scripted(pinion, replies, &[]), (80, 24), "")
}

#[test]
fn path_is_a_message_and_exit_ends_the_conversation() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("I see the path")]);
    let greeting = terminal.wait_for("›");
    assert!(greeting.contains("asks before calls that leave the sandbox"), "{greeting}");
    terminal.keys("/etc/hosts is broken\r");
    terminal.wait_for("I see the path");
    terminal.keys("exit\r");
    let (code, seen) = terminal.end();
    assert!(code == Some(0) && !seen.contains("no command"), "{seen}");
}

#[test]
fn prompt_of_the_command_line_is_shown_as_if_it_had_been_typed() {
    let pinion = Pinion::default();
    let mut terminal = Terminal::start(&scripted(&pinion, &[say("hello")], &["first\x1b[2J", "words"]), (80, 24), "");
    let seen = terminal.wait_for("hello");
    assert!(seen.find("› first␛[2J words").is_some_and(|at| at < seen.find("hello").unwrap()), "{seen}");
    terminal.keys("exit\r");
    terminal.end();
}

#[test]
fn backslash_that_continues_a_line_is_not_sent() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("both")]);
    terminal.wait_for("›");
    terminal.keys("line one\\\r");
    terminal.keys("line two \\ here\r");
    terminal.wait_for("both");
    terminal.exit();
    let id = pinion.run(["session", "list"]).stdout[..8].to_owned();
    let shown = pinion.run(["session", "export", &id, "--format", "html"]).stdout;
    assert!(shown.contains("line one\nline two \\ here"), "{shown}");
}

#[test]
fn interrupt_clears_the_line_first() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("still here")]);
    terminal.wait_for("›");
    terminal.keys("half a thought");
    terminal.wait_for("half a thought");
    terminal.keys("\x03");
    terminal.wait_for_nth("›", 2);
    terminal.keys("another");
    terminal.wait_for("another");
    terminal.keys("\x03");
    terminal.wait_for_nth("›", 3);
    terminal.keys("hello\r");
    terminal.wait_for("still here");
    let (code, seen) = terminal.exit();
    assert!(code == Some(0) && !seen.contains("again to exit"), "{seen}");
}

#[test]
fn unknown_command_gets_a_suggestion() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[]);
    terminal.wait_for("›");
    terminal.keys("/hlep\r");
    terminal.wait_for("did you mean `/help`?");
    terminal.exit();
}

#[test]
fn reload_is_reported_while_the_user_types() {
    let pinion = Pinion::default();
    let plugins = pinion.home().join("plugins");
    std::fs::create_dir_all(&plugins).unwrap();
    let mut terminal = conversation(&pinion, &[]);
    terminal.wait_for("›");
    terminal.keys("unfinished");
    terminal.wait_for("unfinished");
    std::fs::copy(pinion_tests::guest("echo"), plugins.join("echo.wasm")).unwrap();
    terminal.wait_for("loaded plugin `echo`");
    terminal.keys("\x03");
    terminal.exit();
}

#[test]
fn demo_shows_the_fix_a_denied_call_and_the_next_step() {
    let shown = Pinion::default().run(["demo"]).stdout;
    for part in [
        "✓ - total=$((total - number))",
        "    + total=$((total + number))",
        "✗ Denied: plugin `fs` may not read `/etc/passwd`",
        "Next: ",
        "ANTHROPIC_API_KEY",
    ] {
        assert!(shown.contains(part), "`{part}` is not in:\n{shown}");
    }
}

#[test]
fn models_fit_80_columns_and_can_be_filtered() {
    let pinion = Pinion::default();
    let all = pinion.run(["model", "list"]).stdout;
    assert!(all.lines().all(|line| line.chars().count() <= 80), "{all}");
    let some = pinion.run(["model", "list", "Sonnet"]).stdout;
    assert!(some.lines().skip(1).take(3).all(|line| line.contains("sonnet")) && some.len() < all.len(), "{some}");
    assert_error(&pinion.run(["model", "list", "nonsense"]), 2, &["no known model contains `nonsense`"]);
}

#[test]
fn config_is_changed_key_by_key_and_stays_valid() {
    let pinion = Pinion::default();
    pinion.config("# mine\nmodel = \"box/q\"\n");
    let set = pinion.run(["config", "set", "limits.max-turns", "7"]);
    assert_eq!((set.code, set.stderr.as_str()), (Some(0), ""), "{set:?}");
    let config = || std::fs::read_to_string(pinion.home().join("config.toml")).unwrap();
    assert_eq!(config(), "# mine\nmodel = \"box/q\"\n\n[limits]\nmax-turns = 7\n");
    let wrong = ["config", "set", "limits.max-turn", "8"];
    assert_error(&pinion.run(wrong), 2, &["unknown field `max-turn`", "did you mean `max-turns`?"]);
    assert_eq!(pinion.run(["config", "unset", "model"]).code, Some(0));
    assert_eq!(config(), "# mine\n\n[limits]\nmax-turns = 7\n");
    assert_error(&pinion.run(["update"]), 2, &["comes from a build of the sources", "git pull"]);
}

#[test]
fn doctor_marks_a_malformed_table_of_models() {
    let pinion = Pinion::default();
    pinion.config("model = 'groq/m'\n");
    std::fs::write(pinion.home().join("models.toml"), "context-window = 3\n").unwrap();
    let ended = pinion.run(["doctor"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stdout.contains("malformed model table") && ended.stdout.contains("[[PROVIDER.models]]"),
        "{ended:?}"
    );
    assert!(!ended.stdout.contains("no model selected"), "{ended:?}");
}
