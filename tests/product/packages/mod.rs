//! Packages of plugins, from a source to a call: consent, updates, versions, and changes by others.

mod many;
mod pairs;
mod projects;
mod registry;
mod servers;
mod values;

use pinion_tests::{Ended, Pinion, guest};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

fn add(pinion: &Pinion, source: &str) -> Ended {
    pinion.run(["plugin", "add", source, "--yes"])
}

/// Puts a component of the tests into the workspace.
fn component(pinion: &Pinion, name: &str, file: &str) -> PathBuf {
    pinion.write(file, fs::read(guest(name)).unwrap())
}

/// Returns the entry of a plugin in the list.
fn listed(pinion: &Pinion, name: &str) -> Option<Value> {
    let ended = pinion.run(["plugin", "list", "--json"]);
    let list: Value = serde_json::from_str(&ended.stdout).unwrap();
    list["plugins"].as_array().unwrap().iter().find(|plugin| plugin["name"] == name).cloned()
}

fn granted(plugin: &Value) -> Vec<&str> {
    let capabilities = plugin["capabilities"].as_array().unwrap().iter();
    capabilities
        .filter(|capability| !capability["granted"].is_null())
        .map(|capability| capability["name"].as_str().unwrap())
        .collect()
}

fn call(pinion: &Pinion, tool: &str) -> Ended {
    pinion.run(["plugin", "call", "greet", tool, "{}"])
}

#[test]
fn nothing_is_installed_without_agreement() {
    let pinion = Pinion::default();
    component(&pinion, "greet_armed", "greet.wasm");
    let ended = pinion.run(["plugin", "add", "./greet.wasm"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stderr.contains("files=write") && ended.stderr.contains("no author"), "{ended:?}");
    assert!(!pinion.home().join("plugins.lock").exists() && listed(&pinion, "greet").is_none());
}

#[test]
fn agreed_package_is_loaded_with_what_was_shown() {
    let pinion = Pinion::default();
    component(&pinion, "greet_armed", "greet.wasm");
    let ended = add(&pinion, "./greet.wasm");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "installed greet 0.1.0\n"), "{ended:?}");
    assert_eq!(granted(&listed(&pinion, "greet").unwrap()), ["files"]);
    assert_eq!(pinion.run(["plugin", "verify"]).code, Some(0));
    assert_eq!(add(&pinion, "./greet.wasm").stdout, "greet 0.1.0 is already installed\n");
    // The source no longer matters.
    fs::remove_file(pinion.workspace().join("greet.wasm")).unwrap();
    assert_eq!(call(&pinion, "greet").code, Some(0));
    assert_eq!(pinion.run(["plugin", "remove", "greet"]).code, Some(0));
    assert!(listed(&pinion, "greet").is_none());
}

#[test]
fn update_with_more_authority_waits_and_rollback_takes_it_away() {
    let pinion = Pinion::default();
    component(&pinion, "greet_one", "greet.wasm");
    add(&pinion, "./greet.wasm");
    component(&pinion, "greet_armed", "greet.wasm");
    let held = pinion.run(["plugin", "update"]);
    assert!(held.code == Some(4) && held.stderr.contains("+ `greet` asks to write files"), "{held:?}");
    assert!(granted(&listed(&pinion, "greet").unwrap()).is_empty());
    assert_eq!(pinion.run(["plugin", "update", "--yes"]).code, Some(0));
    assert_eq!(granted(&listed(&pinion, "greet").unwrap()), ["files"]);
    assert_eq!(pinion.run(["plugin", "rollback", "greet"]).code, Some(0));
    assert!(granted(&listed(&pinion, "greet").unwrap()).is_empty());
    // No more authority, so no question.
    component(&pinion, "greet_two", "greet.wasm");
    let updated = pinion.run(["plugin", "update", "greet"]);
    assert_eq!(updated.code, Some(0), "{updated:?}");
    assert!(call(&pinion, "greet").stdout.contains("version two"));
}

#[test]
fn package_from_another_source_does_not_replace_one_without_a_question() {
    let pinion = Pinion::default();
    component(&pinion, "greet_one", "greet.wasm");
    add(&pinion, "./greet.wasm");
    component(&pinion, "greet_two", "elsewhere/greet.wasm");
    let held = pinion.run(["plugin", "add", "elsewhere/greet.wasm"]);
    assert!(held.code == Some(4) && held.stderr.contains("replaces"), "{held:?}");
    assert!(!call(&pinion, "greet").stdout.contains("version two"));
    assert_eq!(add(&pinion, "elsewhere/greet.wasm").code, Some(0));
    assert!(call(&pinion, "greet").stdout.contains("version two"));
}

/// A component of plain functions has neither SDK nor manifest, and is called like its file, also after its publication.
#[test]
fn plain_component_is_installed_and_published_by_the_name_of_its_file() {
    let pinion = Pinion::default();
    component(&pinion, "plain", "calc.wasm");
    let ended = add(&pinion, "calc.wasm");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "installed calc 1.2.0\n"), "{ended:?}");
    let tools = listed(&pinion, "calc").unwrap()["tools"].as_array().unwrap().len();
    assert!(tools > 0);
    assert_eq!(pinion.run(["plugin", "publish", "calc.wasm", "--out", "dist"]).code, Some(0));
    assert_eq!(pinion.run(["plugin", "remove", "calc"]).code, Some(0));
    let ended = add(&pinion, "dist/calc-1.2.0.tar.gz");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "installed calc 1.2.0\n"), "{ended:?}");
    assert_eq!(listed(&pinion, "calc").unwrap()["tools"].as_array().unwrap().len(), tools);
}

#[test]
fn packages_of_no_index_are_named_without_asking_their_sources() {
    let pinion = Pinion::default();
    assert_eq!(pinion.run(["plugin", "outdated"]).code, Some(0));
    component(&pinion, "greet_armed", "greet.wasm");
    assert_eq!(add(&pinion, "./greet.wasm").code, Some(0));
    let ended = pinion.run(["plugin", "outdated"]);
    let expected = "in no index: greet (ask their sources with: pinion plugin update)\n";
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), expected), "{ended:?}");
    let ended = pinion.run(["plugin", "update"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "greet 0.1.0 is up to date\n"), "{ended:?}");
    assert_eq!(pinion.run(["plugin", "verify"]).stdout, "1 package verified\n");
}

#[test]
fn component_that_something_else_replaced_is_not_loaded() {
    let pinion = Pinion::default();
    component(&pinion, "greet_one", "greet.wasm");
    add(&pinion, "./greet.wasm");
    fs::write(pinion.home().join("plugins/greet.wasm"), fs::read(guest("greet_armed")).unwrap()).unwrap();
    assert!(listed(&pinion, "greet").is_none());
    let ended = pinion.run(["plugin", "verify"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("greet.wasm"), "{ended:?}");
}

#[test]
fn edited_lock_stops_its_plugins_until_the_user_accepts_it() {
    let pinion = Pinion::default();
    component(&pinion, "greet_armed", "greet.wasm");
    add(&pinion, "./greet.wasm");
    let lock = pinion.home().join("plugins.lock");
    let text = fs::read_to_string(&lock).unwrap();
    assert!(text.contains("granted = [\"files=write\"]"), "{text}");
    fs::write(&lock, text.replace("granted = [\"files=write\"]", "granted = [\"files=write\", \"process\"]")).unwrap();
    assert!(listed(&pinion, "greet").is_none());
    let refused = add(&pinion, "./greet.wasm");
    assert!(refused.code == Some(1) && refused.stderr.contains("verify --accept"), "{refused:?}");
    let accepted = pinion.run(["plugin", "verify", "--accept", "--yes"]);
    assert!(accepted.code == Some(0) && accepted.stderr.contains("process"), "{accepted:?}");
    assert!(listed(&pinion, "greet").is_some());
}

#[test]
fn difference_names_only_what_grew() {
    let pinion = Pinion::default();
    let pairs = [
        ("greet_one", "greet_one", None),
        ("greet_armed", "greet_one", None),
        ("greet_one", "greet_armed", Some("asks to write files")),
    ];
    for (old, new, expected) in pairs {
        component(&pinion, old, "old/greet.wasm");
        component(&pinion, new, "new/greet.wasm");
        let ended = pinion.run(["plugin", "diff", "old/greet.wasm", "new/greet.wasm", "--json"]);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
        let grown: Vec<&str> = report["grown"].as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
        let asks: Vec<&&str> = grown.iter().filter(|part| part.contains("asks to")).collect();
        assert_eq!(asks.len(), usize::from(expected.is_some()), "{old} {new}: {grown:?}");
        assert!(expected.is_none_or(|expected| asks[0].contains(expected)), "{grown:?}");
    }
}

#[test]
fn rules_of_the_user_forbid_an_installation() {
    let pinion = Pinion::default();
    component(&pinion, "greet_one", "greet.wasm");
    fs::write(pinion.home().join("plugin-rules.toml"), "allowed-sources = ['oci://ghcr.io/acme']\n").unwrap();
    let ended = add(&pinion, "./greet.wasm");
    assert!(ended.code == Some(4) && ended.stderr.contains("not an allowed source"), "{ended:?}");
    assert!(listed(&pinion, "greet").is_none());
}

#[test]
fn package_of_a_marketplace_brings_skills_and_prompts() {
    let pinion = Pinion::default();
    let marketplace = json!({ "name": "m", "plugins": [{ "name": "kit", "source": "./plugins/kit" }] });
    pinion.write("m/.claude-plugin/marketplace.json", marketplace.to_string());
    pinion.write("m/plugins/kit/.claude-plugin/plugin.json", r#"{"name":"kit","version":"1.0.0"}"#);
    pinion
        .write("m/plugins/kit/skills/review/SKILL.md", "---\nname: review\ndescription: Reviews code\n---\nRead it.\n");
    pinion.write("m/plugins/kit/commands/fix.md", "Fix it.\n");
    let ended = pinion.run(["plugin", "add", "m#kit", "--yes", "--json"]);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    assert_eq!((&report["name"], &report["content"][0]["names"]), (&json!("kit"), &json!("review")));
    // The built-in plugin of skills is listed only if there is one.
    assert!(listed(&pinion, "skills").is_some());
    assert_eq!(pinion.run(["plugin", "remove", "kit"]).code, Some(0));
    assert!(listed(&pinion, "skills").is_none());
}
