//! A grant belongs to a component: its source and, for files, its digest.

mod reloads;

use pinion_plugin_runtime::NoticeEvent;
use pinion_tests::{Ended, Pinion, Sandbox, SandboxBuilder, guest};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The user's grants for a plugin called `grow`.
const CONFIG: &str = "[plugins.grow.grants]\nprocess = true\n";

/// Returns a guest with another manifest: the last section of its kind applies.
pub(super) fn packed(name: &str, manifest: &Value) -> Vec<u8> {
    let mut bytes = std::fs::read(guest(name)).unwrap();
    let (section, data) = ("pinion:manifest", manifest.to_string());
    let mut body = vec![u8::try_from(section.len()).unwrap()];
    body.extend(section.as_bytes());
    body.extend(data.as_bytes());
    let length = u16::try_from(body.len()).unwrap();
    bytes.push(0);
    bytes.extend([u8::try_from(length & 0x7f).unwrap() | 0x80, u8::try_from(length >> 7).unwrap()]);
    bytes.extend(body);
    bytes
}

pub(super) fn manifest(name: &str, asks: Value) -> Value {
    json!({ "manifest": 1, "api": "0.1.0", "name": name, "version": "1.0.0", "capabilities": asks })
}

/// Returns the guest `grow-one` under another name.
fn named(name: &str) -> Vec<u8> {
    packed("grow_one", &manifest(name, json!({ "files": "read", "process": true })))
}

fn grow(version: &str) -> Vec<u8> {
    std::fs::read(guest(&format!("grow_{version}"))).unwrap()
}

/// Returns the same program with other bytes.
fn rebuilt(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0, 2, 1, b'x']].concat()
}

fn install(pinion: &Pinion, file: &str, bytes: &[u8]) -> PathBuf {
    let directory = pinion.home().join("plugins");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(file), bytes).unwrap();
    directory.join(file)
}

/// Calls the tool `run` of a plugin, by name or file; returns whether the program ran.
fn runs(pinion: &Pinion, plugin: &str) -> (bool, Ended) {
    calls(pinion, plugin, "run", &[])
}

fn calls(pinion: &Pinion, plugin: &str, tool: &str, more: &[&str]) -> (bool, Ended) {
    let made = pinion.workspace().join("made");
    let _ = std::fs::remove_file(&made);
    let script = json!({ "script": format!("touch {}", made.display()) }).to_string();
    let ended = pinion.run(["plugin", "call", plugin, tool, &script].iter().chain(more));
    (made.exists(), ended)
}

/// Calls tools one after another in a run that asks for no approval.
fn replay(pinion: &Pinion, options: &[&str], tool_calls: &[(&str, Value)]) -> Ended {
    let mut replies: Vec<Value> = tool_calls
        .iter()
        .map(|(tool, arguments)| json!({ "calls": [{ "tool": tool, "arguments": arguments }] }))
        .collect();
    replies.push(json!({ "text": "done" }));
    let script = pinion.script(&replies);
    let arguments = ["-p", "--approve", "all", "--output-format", "stream-json", "--replay", script.to_str().unwrap()];
    pinion.run(arguments.iter().chain(options).chain(&["go"]))
}

fn touch(name: &str) -> Value {
    json!({ "script": format!("touch {name}"), "command": format!("touch {name}") })
}

fn made(pinion: &Pinion, name: &str) -> bool {
    pinion.workspace().join(name).exists()
}

fn trust(pinion: &Pinion, config: &str) {
    pinion.config(&format!("trusted = [{:?}]\n{config}", pinion.workspace()));
}

#[test]
fn file_cannot_imitate_a_built_in_name() {
    let pinion = Pinion::default();
    for name in
        ["shell", "Shell", "SHELL", "sh-ell", "she11", "_shell_", "sheIl", "fs", "F_S", "f5", "task", "c0mmands"]
    {
        let file = pinion.write("x.wasm", named(name));
        let (ran, ended) = runs(&pinion, file.to_str().unwrap());
        assert!(!ran && ended.stderr.contains("is reserved for the built-in plugin"), "{name}: {ended:?}");
    }
}

#[test]
fn built_in_names_stay_reserved_without_built_ins() {
    let pinion = Pinion::default();
    let file = pinion.write("x.wasm", named("shell"));
    let options = ["--no-builtin-plugins", "--plugin", file.to_str().unwrap()];
    let ended = replay(&pinion, &options, &[("run", touch("made"))]);
    assert!(ended.code == Some(2) && ended.stderr.contains("reserved") && !made(&pinion, "made"), "{ended:?}");
    pinion.config("[plugins.shell]\nenabled = false\n");
    let ended = replay(&pinion, &options[1..], &[("run", touch("made"))]);
    assert!(ended.code == Some(2) && !made(&pinion, "made"), "{ended:?}");
}

#[test]
fn installed_and_project_plugins_cannot_use_built_in_names() {
    let pinion = Pinion::default();
    trust(&pinion, "");
    install(&pinion, "a.wasm", &named("shell"));
    pinion.write(".pinion/plugins/b.wasm", named("Shell"));
    let ended = replay(&pinion, &["--no-builtin-plugins"], &[("run", touch("made"))]);
    assert!(!made(&pinion, "made") && ended.stderr.matches("reserved").count() == 2, "{ended:?}");
}

#[test]
fn project_plugin_gets_no_grants_of_its_name() {
    let pinion = Pinion::default();
    trust(&pinion, CONFIG);
    let file = pinion.write(".pinion/plugins/grow.wasm", grow("one"));
    // Also if the user's plugin of that name is missing or disabled, and with any name of the project's file.
    replay(&pinion, &[], &[("run", touch("made"))]);
    assert!(!made(&pinion, "made"));
    for path in [".pinion/plugins/grow.wasm", file.to_str().unwrap(), "./.pinion/../.pinion/plugins/grow.wasm"] {
        assert!(!runs(&pinion, path).0, "{path}");
        replay(&pinion, &["--plugin", path], &[("run", touch("made"))]);
        assert!(!made(&pinion, "made"), "{path}");
    }
    symlink(&file, pinion.workspace().join("link.wasm")).unwrap();
    assert!(!runs(&pinion, "./link.wasm").0);
    let users = install(&pinion, "grow.wasm", &grow("one"));
    assert!(runs(&pinion, users.to_str().unwrap()).0);
    assert!(!runs(&pinion, file.to_str().unwrap()).0);
}

#[test]
fn named_file_gets_no_grants_of_the_installed_plugin() {
    let pinion = Pinion::default();
    pinion.config(CONFIG);
    install(&pinion, "any-name.wasm", &grow("one"));
    let file = pinion.write("x.wasm", rebuilt(&grow("one")));
    let (ran, ended) = runs(&pinion, file.to_str().unwrap());
    assert!(!ran && ended.stderr.contains("hint: pinion plugin grant"), "{ended:?}");
    let ended = replay(&pinion, &["--no-plugins", "--plugin", "x.wasm"], &[("run", touch("made"))]);
    assert!(!made(&pinion, "made") && ended.stderr.contains("any-name.wasm"), "{ended:?}");
    assert!(runs(&pinion, "grow").0);
}

#[test]
fn config_grants_bind_to_the_first_file_of_a_name() {
    let pinion = Pinion::default();
    pinion.config(CONFIG);
    let first = pinion.write("first.wasm", grow("one"));
    let second = pinion.write("second.wasm", grow("one"));
    let other_case = pinion.write("third.wasm", named("Grow"));
    assert!(runs(&pinion, first.to_str().unwrap()).0);
    let (ran, ended) = runs(&pinion, second.to_str().unwrap());
    assert!(!ran && ended.stderr.contains("first.wasm") && ended.stderr.contains("pinion plugin grant"), "{ended:?}");
    assert!(!runs(&pinion, other_case.to_str().unwrap()).0);
    // The user can move them explicitly.
    let granted = pinion.run(["plugin", "grant", "second.wasm"]);
    assert!(granted.code == Some(0) && granted.stdout.contains("granted: process"), "{granted:?}");
    assert!(runs(&pinion, second.to_str().unwrap()).0 && !runs(&pinion, first.to_str().unwrap()).0);
}

#[test]
fn file_replaced_between_runs_loses_grants_until_confirmed() {
    let pinion = Pinion::default();
    pinion.config(CONFIG);
    let file = install(&pinion, "grow.wasm", &grow("one"));
    assert!(runs(&pinion, "grow").0);
    std::fs::write(&file, rebuilt(&grow("one"))).unwrap();
    let (ran, ended) = runs(&pinion, "grow");
    assert!(!ran && ended.stderr.contains("has changed since it was granted"), "{ended:?}");
    let listed = pinion.run(["plugin", "list"]);
    assert!(listed.stdout.contains("has changed since it was granted; hint: pinion plugin grant"), "{listed:?}");
    assert_eq!(pinion.run(["plugin", "grant", "grow"]).code, Some(0));
    assert!(runs(&pinion, "grow").0);
}

#[test]
fn replaced_file_of_another_name_starts_without_grants() {
    let pinion = Pinion::default();
    pinion.config(&format!("{CONFIG}[plugins.other.grants]\nprocess = true\n"));
    let file = install(&pinion, "grow.wasm", &grow("one"));
    assert!(runs(&pinion, "grow").0);
    std::fs::write(&file, named("other")).unwrap();
    let (ran, ended) = runs(&pinion, "other");
    assert!(!ran && ended.stderr.contains("was granted as plugin `grow`"), "{ended:?}");
}

#[test]
fn two_installed_files_of_one_name_get_no_grants() {
    let pinion = Pinion::default();
    pinion.config(CONFIG);
    install(&pinion, "a.wasm", &rebuilt(&grow("one")));
    install(&pinion, "grow.wasm", &grow("one"));
    let (ran, ended) = runs(&pinion, "grow");
    assert!(!ran && ended.stderr.contains("has the same name"), "{ended:?}");
}

#[test]
fn retargeted_link_is_another_component() {
    let pinion = Pinion::default();
    pinion.config(CONFIG);
    let good = pinion.write("good.wasm", grow("one"));
    let bad = pinion.write("bad.wasm", rebuilt(&grow("one")));
    let link = install(&pinion, "grow.wasm", b"");
    std::fs::remove_file(&link).unwrap();
    symlink(good, &link).unwrap();
    assert!(runs(&pinion, "grow").0);
    std::fs::remove_file(&link).unwrap();
    symlink(bad, &link).unwrap();
    assert!(!runs(&pinion, "grow").0);
}

#[test]
fn config_does_not_restore_revoked_grants() {
    let pinion = Pinion::default();
    pinion.config(CONFIG);
    install(&pinion, "grow.wasm", &grow("one"));
    assert_eq!(pinion.run(["plugin", "revoke", "grow"]).code, Some(0));
    assert!(!runs(&pinion, "grow").0);
    assert_eq!(pinion.run(["plugin", "grant", "grow", "process"]).code, Some(0));
    assert!(runs(&pinion, "grow").0);
    let revoked = pinion.run(["plugin", "revoke", "grow", "process"]);
    assert!(revoked.stdout.contains("still granted: nothing"), "{revoked:?}");
    assert!(!runs(&pinion, "grow").0);
}

#[test]
fn writable_or_broken_grants_file_grants_nothing() {
    let pinion = Pinion::default();
    pinion.config(CONFIG);
    install(&pinion, "grow.wasm", &grow("one"));
    assert!(runs(&pinion, "grow").0);
    let file = pinion.home().join("grants.toml");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let (ran, ended) = runs(&pinion, "grow");
    assert!(!ran && ended.stderr.contains("grants.toml"), "{ended:?}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&file, "version = 1\n[[component]]\nname = 3\n").unwrap();
    let (ran, ended) = runs(&pinion, "grow");
    assert!(!ran && ended.stderr.contains("grants.toml"), "{ended:?}");
}

#[test]
fn project_plugin_grant_needs_a_trusted_project() {
    let pinion = Pinion::default();
    let file = pinion.write(".pinion/plugins/grow.wasm", grow("one"));
    let grant = ["plugin", "grant", ".pinion/plugins/grow.wasm", "process"];
    let refused = pinion.run(grant);
    assert!(refused.code == Some(4) && refused.stderr.contains("trusted project"), "{refused:?}");
    trust(&pinion, "");
    let granted = pinion.run(grant);
    assert!(granted.code == Some(0) && granted.stdout.contains("project directory"), "{granted:?}");
    assert!(runs(&pinion, "grow").0);
    pinion.config("");
    assert!(!runs(&pinion, file.to_str().unwrap()).0);
    trust(&pinion, "");
    std::fs::write(&file, rebuilt(&grow("one"))).unwrap();
    assert!(!runs(&pinion, "grow").0);
}

#[test]
fn project_config_grants_nothing_to_anyone() {
    let pinion = Pinion::default();
    trust(&pinion, "");
    let all = "[plugins.grow.grants]\nprocess = true\nfiles = { \"/\" = \"write\" }\n";
    pinion.write(".pinion/config.toml", all);
    install(&pinion, "grow.wasm", &grow("one"));
    assert!(!runs(&pinion, "grow").0);
    std::fs::remove_file(pinion.home().join("plugins/grow.wasm")).unwrap();
    pinion.write(".pinion/plugins/grow.wasm", grow("one"));
    assert!(!runs(&pinion, "grow").0);
    let listed = pinion.run(["plugin", "list"]);
    assert!(!listed.stdout.contains("grow.wasm (project directory), may"), "{listed:?}");
}

#[test]
fn user_config_does_not_apply_to_a_project_plugin() {
    let pinion = Pinion::default();
    trust(&pinion, "[plugins.configured.config]\ngreeting = \"secret\"\n");
    pinion.write(".pinion/plugins/x.wasm", std::fs::read(guest("configured")).unwrap());
    let ended = pinion.run(["plugin", "call", "configured", "greeting"]);
    assert!(!ended.stdout.contains("secret"), "{ended:?}");
}

#[test]
fn manifest_name_decides_what_is_disabled() {
    let pinion = Pinion::default();
    trust(&pinion, "[plugins.grow]\nenabled = false\n");
    pinion.write(".pinion/config.toml", "[plugins.grow]\nenabled = true\n");
    install(&pinion, "other.wasm", &grow("one"));
    install(&pinion, "grow.wasm", &named("harmless"));
    pinion.write(".pinion/plugins/more.wasm", named("gr-ow"));
    let listed = pinion.run(["plugin", "list"]);
    assert!(listed.stdout.contains("harmless"), "{listed:?}");
    assert!(!listed.stdout.contains("other.wasm") && !listed.stdout.contains("more.wasm"), "{listed:?}");
    let ended = replay(&pinion, &["--plugin", "../home/plugins/other.wasm"], &[("run", touch("made"))]);
    assert!(ended.code == Some(2) && ended.stderr.contains("disabled in the config"), "{ended:?}");
}

#[test]
fn inspecting_a_plugin_binds_no_grants() {
    let pinion = Pinion::default();
    pinion.config(CONFIG);
    let file = pinion.write("x.wasm", grow("one"));
    for command in ["check", "info"] {
        assert_eq!(pinion.run(["plugin", command, file.to_str().unwrap()]).code, Some(0));
    }
    assert_eq!(pinion.run(["plugin", "list"]).code, Some(0));
    assert!(!pinion.home().join("grants.toml").exists());
}

#[test]
fn file_named_like_a_plugin_is_not_that_plugin() {
    let pinion = Pinion::default();
    install(&pinion, "grow.wasm", &grow("one"));
    pinion.write("grow", packed("grow_two", &manifest("grow", json!({ "process": true }))));
    let (ran, ended) = calls(&pinion, "grow", "extra", &["--grant", "process"]);
    assert!(!ran && ended.stderr.contains("has no tool `extra`"), "{ended:?}");
}

#[test]
fn plugin_call_grants_apply_to_one_call_and_component() {
    let pinion = Pinion::default();
    let file = pinion.write("x.wasm", grow("one"));
    assert!(calls(&pinion, file.to_str().unwrap(), "run", &["--grant", "process"]).0);
    assert!(!runs(&pinion, file.to_str().unwrap()).0);
    let ended = pinion.run(["plugin", "grant", "x.wasm", "files=write"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("it asks for files=read process"), "{ended:?}");
    let ended = pinion.run(["plugin", "grant", "shell", "process"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("[plugins.shell.grants]"), "{ended:?}");
}

#[test]
fn binding_follows_only_reloads_that_do_not_grow() {
    let pinion = Pinion::default();
    // The tool `look` reads files too.
    pinion.config(&format!("{CONFIG}files = {{ \".\" = \"read\" }}\n"));
    install(&pinion, "grow.wasm", &grow("one"));
    pinion.write("same.wasm", rebuilt(&grow("one")));
    pinion.write("grown.wasm", grow("two"));
    let swap = |file: &str| {
        let command = format!("cp {file} {}", pinion.home().join("plugins/grow.wasm").display());
        ("bash", json!({ "command": command }))
    };
    // The program that replaces the plugin stands for the user.
    let ended = replay(&pinion, &["--no-sandbox"], &[("run", touch("one")), swap("same.wasm"), ("run", touch("two"))]);
    assert!(made(&pinion, "one") && made(&pinion, "two"), "{ended:?}");
    assert!(runs(&pinion, "grow").0);
    let calls = [
        ("look", touch("look-before")),
        ("run", touch("three")),
        swap("grown.wasm"),
        ("run", touch("four")),
        ("look", touch("look-after")),
        ("extra", touch("extra-after")),
    ];
    let ended = replay(&pinion, &["--no-sandbox"], &calls);
    assert!(made(&pinion, "three") && made(&pinion, "four"), "{ended:?}");
    assert!(
        !made(&pinion, "look-before") && !made(&pinion, "look-after") && !made(&pinion, "extra-after"),
        "{ended:?}"
    );
    assert!(ended.stderr.contains("held back: tool `extra`: runs programs"), "{ended:?}");
    // Withheld grants stay withheld in the next process until the user confirms them.
    let script = |tool| self::calls(&pinion, "grow", tool, &[]).0;
    assert!(script("run") && !script("extra") && !script("look"));
    assert_eq!(pinion.run(["plugin", "grant", "grow"]).code, Some(0));
    assert!(script("extra") && script("look"));
}

#[test]
fn name_alone_grants_nothing_to_a_project_plugin() {
    let pinion = Pinion::default();
    trust(&pinion, "");
    pinion.write(".pinion/plugins/x.wasm", grow("one"));
    let ended = pinion.run(["plugin", "grant", "grow", "process"]);
    assert!(ended.code == Some(2) && ended.stderr.contains(".pinion/plugins/x.wasm files=read process"), "{ended:?}");
    assert!(!calls(&pinion, "grow", "run", &["--grant", "process"]).0);
    assert!(calls(&pinion, ".pinion/plugins/x.wasm", "run", &["--grant", "process"]).0);
}

#[test]
fn plugin_failing_without_config_says_it_is_held_back() {
    let pinion = Pinion::default();
    pinion.config("[plugins.broken.grants]\nprocess = true\n");
    let working = packed("grow_one", &manifest("broken", json!({ "process": true })));
    let file = install(&pinion, "broken.wasm", &working);
    assert!(runs(&pinion, "broken").0);
    std::fs::write(&file, packed("broken", &manifest("broken", json!({ "process": true })))).unwrap();
    let ended = pinion.run(["plugin", "info", "broken"]);
    assert!(ended.stderr.contains("has changed since it was granted"), "{ended:?}");
}

#[test]
fn reload_does_not_follow_a_link() {
    let pinion = Pinion::default();
    pinion.config(CONFIG);
    let file = install(&pinion, "grow.wasm", &grow("one"));
    let other = pinion.write("other.wasm", rebuilt(&grow("one")));
    let link = format!("ln -sf {} {}", other.display(), file.display());
    let calls = [("run", touch("one")), ("bash", json!({ "command": link })), ("run", touch("two"))];
    let ended = replay(&pinion, &["--no-sandbox"], &calls);
    assert!(made(&pinion, "one") && !made(&pinion, "two"), "{ended:?}");
    assert!(ended.stderr.contains("has changed since it was granted"), "{ended:?}");
}
