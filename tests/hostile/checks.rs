//! No run starts without a plugin that the user lets check calls or prompts.

use pinion_tests::{Ended, Pinion, guest, say};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

const GRANTS: &str = "[plugins.guide.grants]\nhooks = true\n";

/// Installs the plugin `guide`, whose hook asks about commands that name `production`.
fn installed(file: &str) -> (Pinion, PathBuf) {
    let pinion = Pinion::default();
    let plugin = pinion.home().join("plugins").join(file);
    fs::create_dir_all(plugin.parent().unwrap()).unwrap();
    fs::copy(guest("guide"), &plugin).unwrap();
    (pinion, plugin)
}

/// Runs a command that the check holds up, because no user can be asked.
fn run(pinion: &Pinion, options: &[&str]) -> Ended {
    let call = json!({ "tool": "bash", "arguments": { "command": "echo ran > production" } });
    let script = pinion.script(&[json!({ "calls": [call] }), say("done")]);
    let base = ["-p", "--replay", script.to_str().unwrap(), "--approve", "all"];
    pinion.run(base.iter().chain(options).chain(&["deploy it"]))
}

fn has_run(pinion: &Pinion) -> bool {
    pinion.workspace().join("production").exists()
}

fn assert_refused(pinion: &Pinion, ended: &Ended, why: &str) {
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let text = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("error: the plugin `guide` has to check what the agent does, and cannot: "), "{ended:?}");
    assert!(text.contains(why) && text.contains("hint: "), "{ended:?}");
    assert!(text.contains("`enabled = false` in [plugins.guide]"), "{ended:?}");
    assert!(!has_run(pinion));
}

fn assert_checked(pinion: &Pinion) {
    let ended = run(pinion, &[]);
    assert!(ended.code == Some(4) && ended.stderr.contains("plugin `guide` asks"), "{ended:?}");
    assert!(!has_run(pinion), "{ended:?}");
}

/// Contents that make the file of a check unusable.
fn damages() -> [(Vec<u8>, &'static str); 3] {
    let component = fs::read(guest("guide")).unwrap();
    [
        (component[..component.len() / 2].to_vec(), "component"),
        (Vec::new(), "component"),
        (b"#!/bin/sh\nexit 0\n".to_vec(), "component"),
    ]
}

#[test]
fn run_with_a_damaged_check_does_not_start() {
    for (bytes, why) in damages() {
        // Before grants are bound to the file, and after.
        for has_run_before in [false, true] {
            let (pinion, plugin) = installed("guide.wasm");
            pinion.config(GRANTS);
            if has_run_before {
                assert_checked(&pinion);
            }
            fs::write(&plugin, &bytes).unwrap();
            assert_refused(&pinion, &run(&pinion, &[]), why);
        }
    }
}

/// A file with another name than its plugin is known by its binding.
#[test]
fn damaged_check_is_known_by_its_file() {
    let (pinion, plugin) = installed("rules-for-deployment.wasm");
    pinion.config(GRANTS);
    assert_checked(&pinion);
    fs::write(&plugin, "damaged").unwrap();
    assert_refused(&pinion, &run(&pinion, &[]), "component");
    // So is one whose grants are in no config.
    let (pinion, plugin) = installed("rules-for-deployment.wasm");
    let granted = pinion.run(["plugin", "grant", plugin.to_str().unwrap(), "hooks"]);
    assert_eq!(granted.code, Some(0), "{granted:?}");
    assert_checked(&pinion);
    fs::write(&plugin, "damaged").unwrap();
    assert_refused(&pinion, &run(&pinion, &[]), "component");
}

#[test]
fn run_with_a_check_that_was_replaced_does_not_start() {
    // By another plugin, which has no hooks, and by another build of the same one.
    let mut other_build = fs::read(guest("guide")).unwrap();
    other_build.extend([0, 3, 1, b'x', b'y']);
    for bytes in [fs::read(guest("echo")).unwrap(), other_build] {
        let (pinion, plugin) = installed("guide.wasm");
        pinion.config(GRANTS);
        assert_checked(&pinion);
        fs::write(&plugin, bytes).unwrap();
        assert_refused(&pinion, &run(&pinion, &[]), "pinion plugin grant");
    }
}

#[test]
fn run_does_not_start_while_it_is_unclear_which_file_is_the_check() {
    let (pinion, plugin) = installed("guide.wasm");
    fs::copy(plugin, pinion.home().join("plugins/other.wasm")).unwrap();
    pinion.config(GRANTS);
    assert_refused(&pinion, &run(&pinion, &[]), "");
}

#[test]
fn run_does_not_start_without_the_file_that_says_what_checks() {
    let (pinion, plugin) = installed("guide.wasm");
    let granted = pinion.run(["plugin", "grant", plugin.to_str().unwrap(), "hooks"]);
    assert_eq!(granted.code, Some(0), "{granted:?}");
    assert_checked(&pinion);
    let grants = pinion.home().join("grants.toml");
    fs::write(&grants, format!("{}\n[[component]\n", fs::read_to_string(&grants).unwrap())).unwrap();
    assert_refused(&pinion, &run(&pinion, &[]), "grants.toml");
}

#[test]
fn servers_for_other_agents_do_not_start_without_their_checks() {
    let (pinion, plugin) = installed("guide.wasm");
    pinion.config(GRANTS);
    fs::write(plugin, "damaged").unwrap();
    assert_refused(&pinion, &pinion.run(["mcp", "serve"]), "component");
}

#[test]
fn conversation_does_not_start_without_its_checks() {
    let (pinion, plugin) = installed("guide.wasm");
    pinion.config(GRANTS);
    fs::write(plugin, "damaged").unwrap();
    let script = pinion.script(&[say("done")]);
    let ended = pinion.run_with_stdin(["--replay", script.to_str().unwrap()], b"hello\n");
    assert_refused(&pinion, &ended, "component");
}

/// Plugins that only observe or revise, are disabled, or are left out on purpose hold up nothing.
#[test]
fn run_needs_no_plugin_that_checks_nothing() {
    let (pinion, plugin) = installed("guide.wasm");
    fs::write(&plugin, "damaged").unwrap();
    let only_after = "[plugins.guide.grants]\nhooks = [\"after-tool-call\", \"session-events\"]\n";
    let disabled = format!("[plugins.guide]\nenabled = false\n{GRANTS}");
    for (config, options) in [
        (only_after, &[][..]),
        (&disabled, &[]),
        (GRANTS, &["--no-plugins"]),
        ("[plugins.guide.grants]\nhooks = false\n", &[]),
        ("", &[]),
    ] {
        pinion.config(config);
        let ended = run(&pinion, options);
        assert!(ended.code == Some(0) && has_run(&pinion), "{config} {options:?}: {ended:?}");
        fs::remove_file(pinion.workspace().join("production")).unwrap();
    }
    // Grants for a plugin that is not installed.
    pinion.config(GRANTS);
    fs::remove_file(&plugin).unwrap();
    assert!(run(&pinion, &[]).code == Some(0) && has_run(&pinion));
}

#[test]
fn named_plugin_checks_in_place_of_the_installed_one() {
    let (pinion, _) = installed("guide.wasm");
    pinion.config(GRANTS);
    assert_checked(&pinion);
    let named = pinion.write("build/guide.wasm", fs::read(guest("guide")).unwrap());
    let named = named.to_str().unwrap();
    // The grants are for the installed file.
    assert_refused(&pinion, &run(&pinion, &["--plugin", named]), "pinion plugin grant");
    let granted = pinion.run(["plugin", "grant", named, "hooks"]);
    assert_eq!(granted.code, Some(0), "{granted:?}");
    let ended = run(&pinion, &["--plugin", named]);
    assert!(ended.code == Some(4) && !has_run(&pinion), "{ended:?}");
}
