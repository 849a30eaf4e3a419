//! Keys that Pinion stores: the setup of a first conversation, `pinion login` and `pinion logout`.

use crate::product::command::assert_error;
use crate::product::providers::{Vendor, all_files, answer, ended, reply};
use pinion_tests::{Ended, Pinion, Terminal};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const SIZE: (u16, u16) = (80, 24);
const KEY: &str = "gsk-Zq7Xw3Vb9Nm2Kp5Ld8Rt";
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
/// Bracketed paste.
const PASTE: (&str, &str) = ("\x1b[200~", "\x1b[201~");

fn auth_file(pinion: &Pinion) -> PathBuf {
    pinion.home().join("auth.toml")
}

fn login(pinion: &Pinion, provider: &str, key: &str) -> Ended {
    pinion.run_with_stdin(["login", provider], format!("{key}\n").as_bytes())
}

/// Returns the command with a `secret-tool` that runs this script, with its directory as `$d`.
pub(crate) fn with_keyring(pinion: &Pinion, arguments: &[&str], script: &str) -> Command {
    let program = pinion.write("../bin/secret-tool", format!("#!/bin/sh\nd=$(dirname \"$0\")\n{script}\n"));
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = pinion.command(arguments);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
    command
}

/// A keyring that works and writes down how it was called.
pub(crate) const KEYRING: &str = "echo \"$@\" >> $d/calls\nshift_to_account() { for a; do :; done; echo \"$a\"; }\n\
                       f=$d/key-$(shift_to_account \"$@\")\n\
                       case $1 in store) cat > $f;; lookup) [ -f $f ] && cat $f;; clear) rm $f;; esac";

/// Defines a server of the user's with two models, whose key is in no variable.
fn server(pinion: &Pinion, vendor: &Vendor) {
    pinion.config(&format!(
        "[providers.box]\nformat = 'openai-chat'\nbase-url = '{}'\nkey-variable = 'BOX_KEY'\ndefault-model = 'qwen'\n\
         [[providers.box.models]]\nid = 'qwen'\n[[providers.box.models]]\nid = 'other'\n\
         prices = {{ input = 1.5, output = 2.5 }}\n",
        vendor.url
    ));
}

#[test]
fn first_conversation_asks_for_a_key_and_a_model() {
    let vendor = Vendor::answering(vec![reply(&json!({ "content": format!("is {KEY} it? over") }), "stop")]);
    let pinion = Pinion::default();
    server(&pinion, &vendor);
    let mut terminal = Terminal::start(&pinion.default_command([""; 0]), SIZE, "");
    terminal.wait_for("No provider has a key yet");
    terminal.keys("box\r");
    terminal.wait_for("enter stores the key");
    terminal.keys(&format!("{}{KEY}{}", PASTE.0, PASTE.1));
    terminal.wait_for("24 characters");
    terminal.keys("\r");
    terminal.wait_for_then("box/other", "$1.5 in, $2.5 out");
    terminal.keys("other\r");
    terminal.wait_for("lists commands");
    terminal.keys("hi\r");
    terminal.wait_for("it? over");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && seen.matches(ENTER).count() == 2 && seen.matches(LEAVE).count() >= 2, "{seen}");
    assert!(!seen.contains(KEY) && seen.contains("[redacted]"), "{seen}");
    assert!(vendor.asked.lock().unwrap()[0].contains(&format!("bearer {}", KEY.to_lowercase())));
    assert!(vendor.bodies.lock().unwrap()[0].contains(r#""model":"other""#));
    let config = std::fs::read_to_string(pinion.home().join("config.toml")).unwrap();
    assert!(config.starts_with("model = \"box/other\"\n[providers.box]"), "{config}");
    assert_private(&pinion, "box");
}

/// Checks that the key of a provider is only in `auth.toml`, and readable for the user alone.
fn assert_private(pinion: &Pinion, provider: &str) {
    let text = std::fs::read_to_string(auth_file(pinion)).unwrap();
    assert_eq!(text, format!("[{provider}]\nkey = \"{KEY}\"\n"));
    assert_eq!(std::fs::metadata(auth_file(pinion)).unwrap().permissions().mode() & 0o777, 0o600);
    for file in all_files(&pinion.home()).into_iter().filter(|file| !file.ends_with("auth.toml")) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(KEY), "{}", file.display());
    }
}

#[test]
fn escape_leaves_the_setup_with_the_hint() {
    for keys in ["\x1b", "\x03"] {
        let pinion = Pinion::default();
        let mut terminal = Terminal::start(&pinion.default_command([""; 0]), SIZE, "");
        terminal.wait_for("No provider has a key yet");
        terminal.keys(keys);
        let (status, seen) = terminal.end();
        assert_eq!(status, Some(2), "{seen}");
        let left = seen.rsplit_once(LEAVE).unwrap().1;
        assert!(left.contains("no model selected") && left.contains("ANTHROPIC_API_KEY"), "{left}");
        assert!(!auth_file(&pinion).exists());
    }
}

#[test]
fn named_model_asks_only_for_the_key_of_its_provider() {
    let pinion = Pinion::default();
    let mut terminal = Terminal::start(&pinion.default_command(["-m", "groq/m"]), SIZE, "");
    terminal.wait_for("needs a key for groq");
    terminal.keys(&format!("{KEY}\r"));
    terminal.wait_for("lists commands");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && seen.contains("groq/m") && !seen.contains(KEY), "{seen}");
    assert_private(&pinion, "groq");
    assert!(!pinion.home().join("config.toml").exists());
}

#[test]
fn setup_is_restored_after_a_signal() {
    let pinion = Pinion::default();
    let terminal = Terminal::start(&pinion.default_command([""; 0]), SIZE, "");
    terminal.wait_for("No provider has a key yet");
    let process = rustix::process::Pid::from_raw(terminal.pid().cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    terminal.wait_for(LEAVE);
    assert!(terminal.is_restored());
    assert_eq!(terminal.end().0, Some(143));
}

#[test]
fn key_from_stdin_is_stored_found_and_removed() {
    let pinion = Pinion::default();
    let stored = login(&pinion, "groq", KEY);
    let said = format!("stored the key of groq in `{}`\n", auth_file(&pinion).display());
    assert_eq!((stored.code, stored.stdout, stored.stderr.as_str()), (Some(0), said, ""));
    assert_private(&pinion, "groq");
    let origin = |command| {
        let lines = ended(command).stdout;
        lines.lines().find(|line| line.contains("key for groq")).unwrap_or_default().to_owned()
    };
    assert!(origin(pinion.command(["doctor"])).ends_with("auth.toml"));
    let with_variable = |arguments: &[&str]| {
        let mut command = pinion.command(arguments);
        command.env("GROQ_API_KEY", "gsk-of-the-environment-1");
        command
    };
    assert!(origin(with_variable(&["doctor"])).ends_with("GROQ_API_KEY"));
    let removed = ended(with_variable(&["logout"]));
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(
        removed.stdout.contains("removed the key of groq from") && removed.stderr.contains("GROQ_API_KEY is still")
    );
    assert_eq!(std::fs::read_to_string(auth_file(&pinion)).unwrap(), "");
    assert_error(&pinion.run(["logout", "groq"]), 1, &["no stored key of `groq`"]);
    assert_error(&pinion.run(["logout"]), 1, &["no stored keys"]);
}

#[test]
fn server_of_the_user_that_asks_for_a_key_gets_the_stored_one() {
    let refusal = answer("401 Unauthorized", "application/json", "{\"error\":\"no key\"}");
    let vendor = Vendor::answering(vec![refusal, reply(&json!({ "content": "hello" }), "stop")]);
    let pinion = Pinion::default();
    let url = &vendor.url;
    pinion.config(&format!("model = 'box/q'\n[providers.box]\nformat = 'openai-chat'\nbase-url = '{url}'\n"));
    assert_error(&pinion.run(["-p", "go"]), 1, &["requires a key", "`pinion login box`", "`key-variable`"]);
    assert_eq!(login(&pinion, "box", KEY).code, Some(0));
    assert_private(&pinion, "box");
    let ended = pinion.run(["-p", "go"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "hello\n"), "{ended:?}");
    assert!(vendor.asked.lock().unwrap()[1].contains(&format!("bearer {}", KEY.to_lowercase())));
}

#[test]
fn mistaken_login_is_refused_and_stores_nothing() {
    let pinion = Pinion::default();
    assert_error(&login(&pinion, "grok", KEY), 2, &["grok"]);
    assert_error(&login(&pinion, "replay", KEY), 2, &["takes no key"]);
    assert_error(&login(&pinion, "groq", ""), 2, &["the key is empty"]);
    assert_error(&login(&pinion, "groq", "a\x1b[2Jb"), 2, &["control characters"]);
    assert_error(&pinion.run_with_stdin(["login"], KEY.as_bytes()), 2, &["the provider is missing", "groq"]);
    assert!(!auth_file(&pinion).exists());
    std::fs::write(auth_file(&pinion), "").unwrap();
    std::fs::set_permissions(auth_file(&pinion), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_error(&login(&pinion, "groq", KEY), 2, &["accessible to other users", "chmod 600"]);
    std::fs::remove_file(auth_file(&pinion)).unwrap();
    let elsewhere = pinion.write("mine.toml", "");
    std::fs::set_permissions(&elsewhere, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&elsewhere, auth_file(&pinion)).unwrap();
    assert_error(&login(&pinion, "groq", KEY), 1, &["is a link"]);
    assert_eq!(std::fs::read_to_string(elsewhere).unwrap(), "");
}

#[test]
fn terminal_does_not_show_the_key_of_a_login() {
    // Without a key as with one: no test of it.
    let models = || answer("200 OK", "application/json", "{\"data\":[]}");
    let vendor = Vendor::with_lists(Vec::new(), vec![models(), models()]);
    let pinion = Pinion::default();
    server(&pinion, &vendor);
    let mut terminal = Terminal::start(&pinion.command(["login"]), SIZE, "");
    terminal.wait_for("Which one");
    terminal.keys("box\n");
    terminal.wait_for("does not show it");
    terminal.keys(&format!("{KEY}\n"));
    let (status, seen) = terminal.end();
    assert!(status == Some(0) && seen.contains("stored the key of box") && !seen.contains(KEY), "{seen}");
    assert!(seen.contains("not tested: the server answers without a key, too"), "{seen}");
    assert_private(&pinion, "box");
    let terminal = Terminal::start(&pinion.command(["login", "groq"]), SIZE, "");
    terminal.wait_for("does not show it");
    let process = rustix::process::Pid::from_raw(terminal.pid().cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    pinion_tests::wait_until("the terminal is restored", || terminal.is_restored());
    assert_eq!(terminal.end().0, Some(143));
}

#[test]
fn login_at_a_terminal_tests_the_key_first() {
    let refusal = || answer("401 Unauthorized", "application/json", "{\"error\":{\"message\":\"no such key\"}}");
    let models = answer("200 OK", "application/json", "{\"data\":[]}");
    let vendor = Vendor::with_lists(Vec::new(), vec![refusal(), models, refusal(), refusal()]);
    let pinion = Pinion::default();
    server(&pinion, &vendor);
    let log_in = |answer: &str| {
        let mut terminal = Terminal::start(&pinion.command(["login", "box"]), SIZE, "");
        terminal.wait_for("does not show it");
        terminal.keys(&format!("{KEY}\n"));
        if !answer.is_empty() {
            terminal.wait_for("[y/N]");
            terminal.keys(answer);
        }
        terminal.end()
    };
    let (status, seen) = log_in("\n");
    assert!(status == Some(1) && seen.contains("no such key") && !seen.contains(KEY), "{seen}");
    assert!(!auth_file(&pinion).exists());
    let (status, seen) = log_in("");
    assert!(status == Some(0) && seen.contains("box accepts the key."), "{seen}");
    assert_private(&pinion, "box");
    let (status, seen) = log_in("y\n");
    assert!(status == Some(0) && seen.contains("stored the key of box"), "{seen}");
}

#[test]
fn keyring_gets_the_key_and_the_file_does_not() {
    let pinion = Pinion::default();
    login(&pinion, "groq", "gsk-older-0123456789");
    let with = |arguments: &[&str]| with_keyring(&pinion, arguments, KEYRING);
    let mut command = with(&["login", "groq"]);
    let input = pinion.write("../input", KEY);
    command.stdin(std::fs::File::open(input).unwrap());
    let stored = ended(command);
    assert_eq!(
        (stored.code, stored.stdout.as_str()),
        (Some(0), "stored the key of groq in the keyring\n"),
        "{stored:?}"
    );
    assert_eq!(std::fs::read_to_string(auth_file(&pinion)).unwrap(), "");
    assert!(ended(with(&["doctor"])).stdout.contains("key for groq: keyring"));
    let calls = std::fs::read_to_string(pinion.home().join("../bin/calls")).unwrap();
    assert!(
        calls.contains("store --label pinion: groq service pinion account groq") && !calls.contains(KEY),
        "{calls}"
    );
    let removed = ended(with(&["logout", "groq"]));
    assert_eq!((removed.code, removed.stdout.as_str()), (Some(0), "removed the key of groq from the keyring\n"));
    assert!(!ended(with(&["doctor"])).stdout.contains("key for groq"));
}

#[test]
fn keyring_that_does_not_work_leaves_the_key_to_the_file() {
    // No service behind the program, and one that forgets.
    for script in ["cat > /dev/null; exit 1", "cat > /dev/null; exit 0"] {
        let pinion = Pinion::default();
        let mut command = with_keyring(&pinion, &["login", "groq"], script);
        command.stdin(std::fs::File::open(pinion.write("../input", KEY)).unwrap());
        let stored = ended(command);
        assert!(stored.code == Some(0) && stored.stdout.contains("auth.toml"), "{stored:?}");
        assert_private(&pinion, "groq");
    }
}

#[test]
fn stored_key_is_out_of_reach_of_plugins_and_programs() {
    let pinion = Pinion::default();
    assert_eq!(login(&pinion, "groq", KEY).code, Some(0));
    let file = auth_file(&pinion);
    let call =
        |tool: &str, arguments: serde_json::Value| json!({ "calls": [{ "tool": tool, "arguments": arguments }] });
    let tries = format!("echo ran; test -s {0} && echo reach''able; cat {0} | tr a-z A-Z; base64 {0}", file.display());
    pinion
        .config(&format!("[plugins.fs.grants]\nfiles = {{ \".\" = \"write\", \"{}\" = \"read\" }}\n", outside(&file)));
    let replies = [
        call("read", json!({ "path": file })),
        call("search", json!({ "pattern": "gsk", "path": pinion.home(), "hidden": true })),
        call("bash", json!({ "command": tries })),
        json!({ "text": "done" }),
    ];
    let script = pinion.script(&replies);
    let options =
        ["-p", "--approve", "all", "--output-format", "stream-json", "--replay", script.to_str().unwrap(), "go"];
    let run = pinion.run(options);
    assert!(run.code == Some(0) && run.stdout.contains("ran"), "{run:?}");
    let encoded = ["reachable", "[redacted]", &KEY.to_uppercase(), "GROQ]", KEY];
    assert!(encoded.iter().all(|text| !run.stdout.contains(text)), "{run:?}");
}

/// Returns the directory around the home of a file.
fn outside(file: &Path) -> String {
    file.parent().unwrap().parent().unwrap().display().to_string()
}
