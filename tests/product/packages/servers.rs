//! MCP servers of packages: agreement, names, updates, switches and removal. No server starts.

use super::add;
use pinion_tests::Pinion;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Writes version `version` of the package `kit` with these servers.
fn kit(pinion: &Pinion, version: &str, servers: &Value) -> PathBuf {
    let manifest = json!({ "name": "kit", "version": version, "mcpServers": servers });
    pinion.write("kit/server.js", "");
    pinion.write("kit/skills/hello/SKILL.md", "---\nname: hello\ndescription: Says hello\n---\nSay hello.\n");
    let hooks = json!({ "Stop": [{ "hooks": [{ "type": "command", "command": "touch x" }] }] });
    pinion.write("kit/hooks/hooks.json", json!({ "hooks": hooks }).to_string());
    pinion.write("kit/.claude-plugin/plugin.json", manifest.to_string())
}

/// Returns the servers with their states.
fn servers(pinion: &Pinion) -> Vec<(String, bool)> {
    let ended = pinion.run(["mcp", "list", "--json"]);
    let list: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let servers = list["servers"].as_array().unwrap().iter();
    servers.map(|server| (server["name"].as_str().unwrap().to_owned(), server["state"] == "enabled")).collect()
}

fn states(states: &[(&str, bool)]) -> Vec<(String, bool)> {
    states.iter().map(|(name, enabled)| ((*name).to_owned(), *enabled)).collect()
}

#[test]
fn servers_of_a_package_are_offered_once_agreed_to() {
    let pinion = Pinion::default();
    let db =
        json!({ "command": "node", "args": ["${CLAUDE_PLUGIN_ROOT}/server.js"], "env": { "T": "${DB_TOKEN:-none}" } });
    kit(&pinion, "1.0.0", &json!({ "db": db, "bad": { "command": "../run" } }));
    let held = pinion.run(["plugin", "add", "./kit"]);
    assert_eq!(held.code, Some(4), "{held:?}");
    for part in ["kit:db: node", "reads your environment: DB_TOKEN", "`bad`", "hook Stop: command `touch x`"] {
        assert!(held.stderr.contains(part), "{part}: {held:?}");
    }
    assert_eq!(servers(&pinion), []);
    assert_eq!(add(&pinion, "./kit").code, Some(0));
    assert_eq!(servers(&pinion), states(&[("kit:db", true)]));
    let info = pinion.run(["plugin", "info", "kit"]);
    assert!(info.stdout.contains("kit:db (enabled)"), "{info:?}");
    let kept = pinion.run(["mcp", "remove", "kit:db"]);
    assert!(kept.code == Some(2) && kept.stderr.contains("belongs to the package"), "{kept:?}");
    assert_eq!(pinion.run(["plugin", "remove", "kit"]).code, Some(0));
    assert_eq!(servers(&pinion), []);
}

#[test]
fn server_of_a_package_does_not_replace_one_of_the_user() {
    let pinion = Pinion::default();
    kit(&pinion, "1.0.0", &json!({ "db": { "command": "node" }, "web": { "command": "node" } }));
    assert_eq!(add(&pinion, "./kit").code, Some(0));
    // Rules name both servers `kit_db`.
    assert_eq!(pinion.run(["mcp", "add", "kit_db", "--", "cat"]).code, Some(0));
    assert_eq!(servers(&pinion), states(&[("kit_db", true), ("kit:web", true)]));
    let refused = pinion.run(["mcp", "add", "kit:web", "--", "cat"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

#[test]
fn update_with_another_server_is_held_back_and_switches_stay() {
    let pinion = Pinion::default();
    kit(&pinion, "1.0.0", &json!({ "db": { "command": "node" } }));
    assert_eq!(add(&pinion, "./kit").code, Some(0));
    assert_eq!(pinion.run(["mcp", "disable", "kit:db"]).code, Some(0));
    assert_eq!(servers(&pinion), states(&[("kit:db", false)]));
    kit(&pinion, "2.0.0", &json!({ "db": { "command": "node" }, "web": { "url": "https://example.com/mcp" } }));
    let held = pinion.run(["plugin", "update"]);
    assert!(held.code == Some(4) && held.stderr.contains("+ MCP server `kit:web` is new"), "{held:?}");
    assert_eq!(servers(&pinion), states(&[("kit:db", false)]));
    assert_eq!(pinion.run(["plugin", "update", "--yes"]).code, Some(0));
    assert_eq!(servers(&pinion), states(&[("kit:db", false), ("kit:web", true)]));
    assert_eq!(pinion.run(["mcp", "enable", "kit:db"]).code, Some(0));
    assert_eq!(servers(&pinion), states(&[("kit:db", true), ("kit:web", true)]));
}
