//! MCP servers and hooks of packages, as a table of attacks and of ordinary use.

use crate::support::{PlainReader, TestStore, files, package, request};
use pinion_packages::{Marketplace, Package, PackageError, PackagedServer, StoreError, check_directory};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

const AGENT: &str =
    r#"{"$schema":"https://agent-plugins.org/schemas/1.0.0/plugin.schema.json","name":"kit","version":"2.0.0"}"#;

/// Reads a package of Claude with these servers in `.mcp.json`.
fn vendor(servers: &Value) -> Package {
    let text = json!({ "mcpServers": servers }).to_string();
    package(&[
        (".claude-plugin/plugin.json", r#"{"name":"kit","version":"1"}"#),
        ("skills/a/SKILL.md", "text"),
        ("tools/run", "program"),
        (".mcp.json", &text),
    ])
}

/// Reads a package of Agent Plugins with these servers in `mcp.json`.
fn agent(servers: &Value) -> Package {
    let text = json!({ "mcpServers": servers }).to_string();
    package(&[("plugin.json", AGENT), ("skills/a/SKILL.md", "text"), ("tools/run", "program"), ("mcp.json", &text)])
}

fn entry(server: &PackagedServer) -> Value {
    serde_json::from_str(&server.entry).unwrap()
}

fn names(package: &Package) -> Vec<&str> {
    package.servers.iter().map(|server| server.name.as_str()).collect()
}

#[test]
fn placeholders_of_all_formats_name_the_directories_of_the_package() {
    let kit = vendor(&json!({
        "db": {
            "command": "${CLAUDE_PLUGIN_ROOT}/tools/run", "args": ["${CLAUDE_PLUGIN_ROOT}/db", 5432],
            "env": { "TOKEN": "${DB_TOKEN}", "STATE": "${CLAUDE_PLUGIN_DATA}/s" }, "network": true,
        },
        "web": { "type": "http", "url": "https://example.com/mcp", "headers": { "X-Key": "Bearer ${WEB_KEY:-none}" } },
    }));
    assert_eq!((names(&kit), kit.notices.len()), (vec!["db", "web"], 0), "{:?}", kit.notices);
    let expected = json!({
        "command": "${PLUGIN_ROOT}/tools/run", "args": ["${PLUGIN_ROOT}/db", "5432"], "network": true, "write": false,
        "env": {
            "TOKEN": "${DB_TOKEN}", "STATE": "${PLUGIN_DATA}/s", "PLUGIN_ROOT": "${PLUGIN_ROOT}",
            "PLUGIN_DATA": "${PLUGIN_DATA}", "CLAUDE_PLUGIN_ROOT": "${PLUGIN_ROOT}",
            "CLAUDE_PLUGIN_DATA": "${PLUGIN_DATA}",
        },
    });
    assert_eq!((entry(&kit.servers[0]), &kit.servers[0].variables[..]), (expected, &["DB_TOKEN".to_owned()][..]));
    assert_eq!(kit.servers[1].variables, ["WEB_KEY"]);
    let summary = kit.servers[0].summary();
    for part in ["/tools/run", "5432", "TOKEN=${DB_TOKEN}", "reads your environment: DB_TOKEN", "uses the network"] {
        assert!(summary.contains(part), "{summary}");
    }
    assert!(!summary.contains("writes the workspace") && kit.servers[1].summary().contains("https://example.com/mcp"));
}

#[test]
fn servers_of_agent_plugins_read_no_variables_of_the_environment() {
    let text = AGENT.replace("}", r#","extensions":{"dev.pinion":{"mcpServers":{"db":{"network":true}}}}}"#);
    let servers =
        json!({ "mcpServers": { "db": { "type": "stdio", "command": "./tools/run", "env": { "A": "${HOME}" } } } });
    let kit = package(&[("plugin.json", &text), ("tools/run", ""), ("mcp.json", &servers.to_string())]);
    let server = entry(&kit.servers[0]);
    assert_eq!((&server["cwd"], &server["network"]), (&json!("${PLUGIN_ROOT}"), &json!(true)), "{:?}", kit.notices);
    assert!(kit.servers[0].variables.is_empty());
}

#[test]
fn broken_server_costs_only_itself() {
    let broken = [
        json!({ "command": "../run" }),
        json!({ "command": "./tools/../../run" }),
        json!({ "command": "${CLAUDE_PLUGIN_ROOT}/../run" }),
        json!({ "command": "${CLAUDE_PLUGIN_ROOT}/missing" }),
        json!({ "command": "/bin/sh" }),
        json!({ "command": "~/run" }),
        json!({ "command": "sh -c x" }),
        json!({ "command": "${SHELL}" }),
        json!({ "command": "-x" }),
        json!({ "command": "" }),
        json!({ "command": ["sh"] }),
        json!({ "command": "node", "args": ["${CLAUDE_PLUGIN_ROOT}/../../x.js"] }),
        json!({ "command": "node", "args": ["--config=${CLAUDE_PLUGIN_ROOT}/a/../../b"] }),
        json!({ "command": "node", "args": "x" }),
        json!({ "command": "node", "args": ["${A B}"] }),
        json!({ "command": "node", "args": ["${A"] }),
        json!({ "command": "node", "env": { "CLAUDE_PLUGIN_ROOT": "/" } }),
        json!({ "command": "node", "env": { "A=B": "x" } }),
        json!({ "command": "node", "cwd": ".." }),
        json!({ "command": "node", "cwd": "/etc" }),
        json!({ "command": "node", "cwd": "${CLAUDE_PLUGIN_ROOT}/../x" }),
        json!({ "command": "node", "cwd": "${CLAUDE_PLUGIN_ROOT}x" }),
        json!({ "command": "node", "network": "yes" }),
        json!({ "command": "node", "url": "https://example.com" }),
        json!({ "type": "http", "command": "node" }),
        json!({ "type": "ftp", "url": "https://example.com" }),
        json!({ "url": "http://example.com" }),
        json!({ "url": "https://user:password@example.com" }),
        json!({ "url": "file:///etc/passwd" }),
        json!({ "url": "https://${HOST}/mcp" }),
        json!({ "url": "https://example.com", "headers": { "a b": "x" } }),
        json!("node"),
        json!({}),
    ];
    for server in broken {
        let kit =
            vendor(&json!({ "bad": server, "good": { "command": "node", "args": ["${CLAUDE_PLUGIN_ROOT}/s.js"] } }));
        assert_eq!((names(&kit), kit.notices.len()), (vec!["good"], 1), "{server} {:?}", kit.notices);
        assert!(kit.notices[0].contains("`bad`"), "{:?}", kit.notices);
    }
    for name in ["", "a b", "a:b", "a/b", "../a", "ä"] {
        let kit = vendor(&json!({ name: { "command": "node" }, "good": { "command": "node" } }));
        assert_eq!((names(&kit), kit.notices.len()), (vec!["good"], 1), "{name}");
    }
}

#[test]
fn entry_with_a_foreign_member_is_skipped_in_the_closed_format() {
    let kit = agent(&json!({
        "a": { "type": "stdio", "command": "node", "network": true, "shell": true },
        "b": { "command": "node" },
        "c": { "type": "sse", "url": "https://example.com/sse" },
    }));
    assert_eq!((names(&kit), kit.notices.len()), (vec!["c"], 2), "{:?}", kit.notices);
    let open = vendor(&json!({ "a": { "command": "node", "shell": true, "autoApprove": ["all"] } }));
    assert_eq!((names(&open), open.notices.len()), (vec!["a"], 2), "{:?}", open.notices);
}

#[test]
fn places_that_define_a_server_differently_are_refused() {
    let manifest = |servers: &str| format!(r#"{{"name":"kit","mcpServers":{servers}}}"#);
    let read = |manifest: &str, file: &str| {
        let entries = [(".claude-plugin/plugin.json", manifest), (".mcp.json", file), ("extra.json", file)];
        Package::read(files(&entries), "x", &PlainReader)
    };
    let file = r#"{"mcpServers":{"db":{"command":"node","args":["a"]}}}"#;
    for other in [
        r#"{"db":{"command":"node","args":["b"]}}"#,
        r#"{"db":{"url":"https://example.com"}}"#,
        r#"{"DB":{"command":"node","args":["a"]}}"#,
    ] {
        let refused = read(&manifest(other), file);
        assert!(matches!(refused, Err(PackageError::Manifest { .. })), "{other}: {refused:?}");
    }
    let same = read(&manifest(r#"{"db":{"command":"node","args":["a"]},"web":{"url":"https://example.com"}}"#), file);
    assert_eq!(names(&same.unwrap()), ["db", "web"]);
    // A manifest names a file, or several places.
    let listed = read(&manifest(r#"["./extra.json",{"web":{"url":"https://example.com"}}]"#), file).unwrap();
    assert_eq!((names(&listed), listed.notices.len()), (vec!["db", "web"], 0), "{:?}", listed.notices);
    for wrong in [r#""../mcp.json""#, r#""/etc/mcp.json""#, r#""missing.json""#, "7"] {
        let read = read(&manifest(wrong), file).unwrap();
        assert_eq!((names(&read), read.notices.len()), (vec!["db"], 1), "{wrong}");
    }
}

#[test]
fn entry_of_a_marketplace_stands_for_a_missing_manifest_only() {
    let text = json!({ "name": "m", "plugins": [{
        "name": "kit", "source": "./kit", "version": "3", "strict": false,
        "mcpServers": { "db": { "command": "node" } }, "hooks": { "Stop": [] },
    }]});
    let list = Marketplace::parse(text.to_string().as_bytes()).unwrap();
    let entry = list.entry("kit").unwrap();
    let mut without = files(&[("skills/a/SKILL.md", "text")]);
    assert_eq!(entry.complete(&mut without).unwrap(), None);
    let kit = Package::read(without, "x", &PlainReader).unwrap();
    assert_eq!((kit.name.as_str(), kit.version.as_str(), names(&kit)), ("kit", "3", vec!["db"]));
    let mut with = files(&[("plugin.json", AGENT), ("skills/a/SKILL.md", "text")]);
    assert!(entry.complete(&mut with).unwrap().unwrap().contains("plugin.json"));
    assert!(Package::read(with, "x", &PlainReader).unwrap().servers.is_empty());
}

#[test]
fn hooks_are_listed_and_never_used() {
    let hooks = json!({ "description": "x", "hooks": {
        "PreToolUse": [{ "matcher": "Bash", "hooks": [
            { "type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/check.sh" },
            { "type": "http", "url": "https://example.com" },
            { "type": "telepathy" },
        ] }],
        "WhenItRains": [{ "hooks": [{ "type": "prompt", "prompt": "p" }] }],
        "Stop": 7,
        "SessionEnd": [{ "matcher": "x" }],
    }});
    let manifest =
        r#"{"name":"kit","hooks":["./hooks/hooks.json",{"SessionStart":[{"hooks":[{"type":"agent","prompt":"p"}]}]}]}"#;
    let kit = package(&[
        (".claude-plugin/plugin.json", manifest),
        ("skills/a/SKILL.md", "text"),
        ("hooks/hooks.json", &hooks.to_string()),
    ]);
    let listed: Vec<String> = kit.hooks.iter().map(pinion_packages::PackagedHook::summary).collect();
    let expected = [
        "PreToolUse (Bash): command `${CLAUDE_PLUGIN_ROOT}/check.sh`",
        "PreToolUse (Bash): http `https://example.com`",
        "WhenItRains: prompt `p`",
        "SessionStart: agent `p`",
    ];
    assert_eq!(listed, expected);
    for part in ["known `type`", "`WhenItRains`", "`Stop`", "`SessionEnd`"] {
        assert!(kit.notices.iter().any(|notice| notice.contains(part)), "{part}: {:?}", kit.notices);
    }
    // Hooks alone are nothing to install.
    let alone = [(".claude-plugin/plugin.json", r#"{"name":"kit"}"#), ("hooks/hooks.json", "{}")];
    assert!(matches!(Package::read(files(&alone), "x", &PlainReader), Err(PackageError::Empty)));
}

fn locked(test: &TestStore) -> Vec<(String, bool)> {
    let lock = test.store.read().unwrap();
    let active = lock.package("kit").unwrap().active_release().unwrap().clone();
    active.servers.into_iter().map(|server| (server.name, server.enabled)).collect()
}

fn states(states: &[(&str, bool)]) -> Vec<(String, bool)> {
    states.iter().map(|(name, enabled)| ((*name).to_owned(), *enabled)).collect()
}

#[test]
fn server_that_an_update_adds_or_changes_is_off_without_an_agreement() {
    let test = TestStore::new();
    let one = vendor(&json!({ "a": { "command": "node" }, "b": { "command": "node" } }));
    assert!(!test.store.may_have_servers());
    let mut first = request(&one, None);
    first.servers = vec!["a".to_owned(), "b".to_owned()];
    test.store.install(&first, &PlainReader).unwrap();
    assert!(test.store.may_have_servers());
    assert_eq!(locked(&test), states(&[("a", true), ("b", true)]));
    // `b` reads a variable now, and `c` is new.
    let two = vendor(&json!({
        "a": { "command": "node" }, "b": { "command": "node", "env": { "T": "${TOKEN}" } }, "c": { "command": "node" },
    }));
    test.store.install(&request(&two, Some(one.digest.clone())), &PlainReader).unwrap();
    assert_eq!(locked(&test), states(&[("a", true), ("b", false), ("c", false)]));
    test.store.switch("kit", None, &BTreeMap::new()).unwrap();
    assert_eq!(locked(&test), states(&[("a", true), ("b", true)]));
    let mut agreed = request(&two, Some(one.digest.clone()));
    agreed.servers = ["a", "b", "c"].map(str::to_owned).to_vec();
    test.store.install(&agreed, &PlainReader).unwrap();
    assert_eq!(locked(&test), states(&[("a", true), ("b", true), ("c", true)]));
}

#[test]
fn server_that_the_user_switched_off_stays_off() {
    let test = TestStore::new();
    let one = vendor(&json!({ "a": { "command": "node" } }));
    let agreed = |package: &Package, seen| {
        let mut request = request(package, seen);
        request.servers = vec!["a".to_owned()];
        test.store.install(&request, &PlainReader).unwrap();
    };
    agreed(&one, None);
    assert!(test.store.switch_server("kit", "a", false).unwrap());
    assert!(!test.store.switch_server("kit", "none", true).unwrap());
    assert!(matches!(test.store.switch_server("other", "a", true), Err(StoreError::Unknown(_))));
    let two = vendor(&json!({ "a": { "command": "node", "args": ["2"] } }));
    agreed(&two, Some(one.digest.clone()));
    assert_eq!(locked(&test), states(&[("a", false)]));
    assert!(test.store.switch_server("kit", "a", true).unwrap());
    // The earlier version has another entry, which was switched off.
    test.store.switch("kit", None, &BTreeMap::new()).unwrap();
    assert_eq!(locked(&test), states(&[("a", false)]));
    test.store.remove("kit").unwrap();
    assert!(!test.store.may_have_servers());
}

#[test]
fn directory_of_a_version_is_checked_before_its_programs_start() {
    let test = TestStore::new();
    let one = vendor(&json!({ "a": { "command": "${CLAUDE_PLUGIN_ROOT}/tools/run" } }));
    test.install(&one).unwrap();
    let root = test.store.directory(&one.digest);
    check_directory(&root).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("tools/run"), mode(".mcp.json")), (0o700, 0o600));
    }
    fs::write(root.join("added.js"), "x").unwrap();
    assert!(matches!(check_directory(&root), Err(StoreError::Tampered { .. })));
    fs::remove_file(root.join("added.js")).unwrap();
    fs::write(root.join("tools/run"), "other").unwrap();
    assert!(matches!(check_directory(&root), Err(StoreError::Tampered { .. })));
}

#[test]
fn lock_file_of_an_earlier_version_switches_no_server_on() {
    let test = TestStore::new();
    let one = vendor(&json!({ "a": { "command": "node" } }));
    test.install(&one).unwrap();
    let (begin, _) =
        test.text().split_once("[[package.release.server]]").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let former = begin.replace("skills = true", "skills = true\nservers = \".mcp.json\"");
    fs::write(test.path("plugins.lock"), former).unwrap();
    let lock = test.store.read_unsealed().unwrap();
    assert!(lock.package("kit").unwrap().active_release().unwrap().servers.is_empty());
}
