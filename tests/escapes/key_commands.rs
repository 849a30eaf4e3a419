//! Commands that print keys: in the sandbox, each with its own grants.

use crate::product::providers::{Vendor, ended, reply};
use pinion_tests::{Ended, Pinion, has_namespaces};
use serde_json::{Value, json};
use std::os::unix::net::UnixListener;

/// Prints a key with the names of all that succeeded. A file is opened for writing without a change, so that a failure of the
/// sandbox does no harm.
const PROBE: &str = r#"
key=probed; try() { if (eval "$2") > /dev/null 2>&1; then key="$key-$1"; fi; }
connect() { python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$1"; }
try credential 'cat "$HOME/.aws/credentials"'
try agent 'connect "$HOME/.gnupg/S.gpg-agent"'
try socket 'connect "$HOME/socket"'
try network 'python3 -c "import socket; socket.create_connection((\"127.0.0.1\", PORT))"'
try temporary 'mktemp'
try shared 'cat "$HOME/../ticket"'
try system ': >> /etc/passwd'
try keys 'cat "$PINION_HOME/auth.toml"'
try sessions 'ls "$PINION_HOME/sessions" | grep .'
try processes 'test -d /proc/PARENT'
try code 'touch "$HOME/.azure/cliextensions/new"'
try protected 'touch "$HOME/tool/.envrc"'
echo "$key"
"#;

struct Probe {
    pinion: Pinion,
    vendor: Vendor,
    _sockets: [UnixListener; 2],
}

impl Probe {
    fn new() -> Self {
        let pinion = Pinion::default();
        for (path, text) in [
            (".aws/credentials", "mine"),
            (".aws/cli/cache/token", "mine"),
            (".azure/cliextensions/one", "mine"),
            (".gnupg/gpg.conf", "mine"),
            ("tool/state", "mine"),
            ("sessions/one", "mine"),
            // Next to the home directory, which is in the machine's directory for temporary files.
            ("../ticket", "mine"),
        ] {
            pinion.write(&format!("../home/{path}"), text);
        }
        let auth = pinion.write("../home/auth.toml", "[other]\nkey = \"Zq7Xw3Vb9Nm2Kp5L\"\n");
        std::fs::set_permissions(auth, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let sockets =
            [".gnupg/S.gpg-agent", "socket"].map(|path| UnixListener::bind(pinion.home().join(path)).unwrap());
        Self {
            pinion,
            vendor: Vendor::answering(vec![reply(&json!({ "content": "hello" }), "stop")]),
            _sockets: sockets,
        }
    }

    /// Runs a turn whose key a command with these grants prints.
    fn ask(&self, command: &str, grants: &str, options: &[&str]) -> Ended {
        let port = self.vendor.url.rsplit(':').next().unwrap();
        let command = command.replace("PORT", port).replace("PARENT", &std::process::id().to_string());
        let script = self.pinion.write("../home/print-key", command);
        self.pinion.config(&format!(
            "[providers.openai-chat]\nbase-url = '{}'\nkey-command = 'sh {}'\n{grants}\n",
            self.vendor.url,
            script.display()
        ));
        let arguments = [&["-p", "-m", "openai-chat/m"], options, &["hi"]].concat();
        ended(self.pinion.command(arguments))
    }

    /// Returns the actions that the probe could do.
    fn done(&self, grants: &str, options: &[&str]) -> String {
        let run = self.ask(PROBE, grants, options);
        assert_eq!(run.code, Some(0), "{run:?}");
        let head = self.vendor.asked.lock().unwrap().last().unwrap().clone();
        let (_, key) = head.split_once("authorization: bearer probed").unwrap_or_else(|| panic!("{head}"));
        key.split("\r\n").next().unwrap().to_owned()
    }
}

#[test]
fn key_command_reads_credentials_and_changes_nothing() {
    if !has_namespaces() {
        return;
    }
    let probe = Probe::new();
    assert_eq!(probe.done("", &[]), "-credential-agent-network-temporary-shared");
    let status = probe.pinion.run(["sandbox", "--status"]).stdout;
    let state = probe.pinion.home().join(".aws/cli/cache");
    let line = status
        .lines()
        .find(|line| line.starts_with("key command of [providers.openai-chat]: network, all credentials, "));
    assert!(line.is_some_and(|line| line.contains(state.to_str().unwrap())), "{status}");
}

#[test]
fn grants_of_a_key_command_narrow_it() {
    if !has_namespaces() {
        return;
    }
    let probe = Probe::new();
    let grants = "key-command-grants = { network = false, readable = [], writable = [] }";
    assert_eq!(probe.done(grants, &[]), "-temporary-shared");
    let status = probe.pinion.run(["sandbox", "--status"]).stdout;
    assert!(status.contains(": no network, no credentials, writes /tmp, /var/tmp\n"), "{status}");
    let named = "key-command-grants = { readable = [\"~/socket\"] }";
    let state = "mkdir \"$HOME/.azure/tokens\" && echo probed-state";
    assert_eq!(probe.done(named, &[]), "-socket-network-temporary-shared");
    assert_eq!(probe.ask(state, named, &[]).code, Some(0));
    assert!(probe.pinion.home().join(".azure/tokens").exists());
}

#[test]
fn protected_paths_in_directories_of_a_key_command_are_moved_away() {
    let probe = Probe::new();
    let tool = probe.pinion.home().join("tool");
    probe.done("key-command-grants = { writable = [\"~/tool\"] }", &[]);
    assert!(!tool.join(".envrc").exists() && tool.join("state").exists());
}

#[test]
fn key_command_leaves_the_sandbox_only_by_the_users_config() {
    if !has_namespaces() {
        return;
    }
    let probe = Probe::new();
    let all = "-credential-agent-socket-network-temporary-shared-system-keys-sessions-processes-code-protected";
    let is_root = rustix::process::geteuid().is_root();
    let all = if is_root { all.to_owned() } else { all.replace("-system", "") };
    assert_eq!(probe.done("key-command-grants = { sandbox = false }", &[]), all);
    assert_eq!(probe.done("", &["--no-sandbox"]), all);
    let status = probe.pinion.run(["sandbox", "--status"]).stdout;
    assert!(status.contains("key command of [providers.openai-chat]: network, "), "{status}");
}

#[test]
fn failed_key_command_names_its_grants() {
    let probe = Probe::new();
    let failed = probe.ask("exit 3", "", &[]);
    let hint = "if it succeeds in a shell, its sandbox allows too little: extend `key-command-grants` of `[providers.openai-chat]` in \
                the config";
    assert!(failed.code != Some(0) && failed.stderr.contains("exit status: 3"), "{failed:?}");
    assert!(failed.stderr.contains(hint), "{failed:?}");
    let outside = probe.ask("exit 3", "key-command-grants = { sandbox = false }", &[]);
    assert!(!outside.stderr.contains("sandbox allows"), "{outside:?}");
    let wrong = probe.ask("exit 3", "key-command-grants = { writable = [\"tool\"] }", &[]);
    assert!(wrong.stderr.contains("`tool` is not an absolute path"), "{wrong:?}");
}

#[test]
fn starts_of_servers_and_key_commands_are_logged() {
    let probe = Probe::new();
    let pinion = &probe.pinion;
    let secret = "echo probed; : tiger-in-the-line";
    for grants in ["", "key-command-grants = { network = false }", "key-command-grants = { sandbox = false }"] {
        assert_eq!(probe.ask(secret, grants, &[]).code, Some(0));
    }
    pinion.config("");
    let server = json!({ "command": "sh", "args": ["-c", "echo x > .envrc"], "write": true });
    let missing = json!({ "command": "no-such-program" });
    let servers = json!({ "mcpServers": { "one": server, "two": missing } });
    std::fs::write(pinion.home().join("mcp.json"), servers.to_string()).unwrap();
    ["one", "two"].iter().for_each(|name| drop(pinion.run(["mcp", "test", name])));
    let log = pinion.run(["audit", "--json"]).stdout;
    let entries: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |event: &str| entries.iter().filter(|entry| entry["event"] == event).collect::<Vec<_>>();
    let key = ("key command with `key-command-grants` of `[providers.openai-chat]`", &json!(true));
    // A server that ends is started again.
    let mut starts = of("start");
    starts.dedup_by(|next, before| next["what"] == before["what"] && next["what"] != key.0);
    let started: Vec<_> = starts.iter().map(|entry| (entry["what"].as_str().unwrap(), &entry["allowed"])).collect();
    let servers = [("MCP server `one`", &json!(true)), ("MCP server `two`", &json!(false))];
    assert_eq!(started, [[key; 3].as_slice(), &servers].concat(), "{log}");
    let sandboxes: Vec<_> = starts.iter().map(|entry| entry["grants"]["sandbox"].to_string()).collect();
    if has_namespaces() {
        assert!(sandboxes[0].starts_with("\"network, ") && sandboxes[1].starts_with("\"no network, "), "{log}");
    }
    assert_eq!(sandboxes[2..], ["\"no sandbox\"", "true", "true"]);
    assert!(starts.iter().all(|entry| entry["command"]["blake3"].is_string()), "{log}");
    let left = of("protected");
    let is_named = |entry: &&Value| entry["what"].as_str().unwrap().contains(".envrc");
    assert!(left.iter().any(is_named) && left[0]["by"] == "MCP server `one`", "{log}");
    assert!(!log.contains("tiger"), "{log}");
    let shown = pinion.run(["audit"]).stdout;
    assert!(shown.contains(" started MCP server `one` (network: no, write: yes, sandbox: yes)"), "{shown}");
    assert!(shown.contains(" denied MCP server `two`") && shown.contains("no such program"), "{shown}");
}
