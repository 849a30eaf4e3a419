//! Programs that reach allowed hosts through the proxy of the command, and nothing else.

use super::command::without_namespaces;
use pinion_tests::{Ended, Pinion, Terminal, call, has_namespaces, say};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// A server of the machine that answers every request and counts the connections.
struct Machine {
    port: u16,
    connections: Arc<AtomicU32>,
}

impl Machine {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicU32::new(0));
        let counted = connections.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let mut head = [0; 4096];
                let _ = stream.read(&mut head);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nREACHED");
            }
        });
        Self { port, connections }
    }

    fn count(&self) -> u32 {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Runs a script as the agent would.
fn inside(pinion: &Pinion, options: &[&str], script: &str) -> Ended {
    let arguments = [&["sandbox"], options, &["--", "bash", "-c", script]].concat();
    pinion.run(arguments)
}

/// Returns the result of a command that a model reads, in the mode `smart`.
fn result_of(pinion: &Pinion, command: &str) -> String {
    let replay = pinion.script(&[call("bash", json!({ "command": command })), say("done")]);
    let ended = pinion.run(["-p", "--replay", replay.to_str().unwrap(), "--output-format", "stream-json", "go"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let events = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == "tool_execution_end").map(|event| event.to_string()).collect()
}

fn curl(url: &str) -> String {
    // The sandbox has a private `localhost`, which programs connect to directly.
    format!("curl -sS --max-time 10 --noproxy '' {url}")
}

#[test]
fn allowed_host_is_reached_and_others_are_not() {
    if !has_namespaces() {
        return;
    }
    let (pinion, machine) = (Pinion::default(), Machine::start());
    let (host, url) = (format!("localhost:{}", machine.port), format!("http://localhost:{}/", machine.port));
    let reached = inside(&pinion, &["--net", &host], &curl(&url));
    assert!(reached.stdout.contains("REACHED"), "{reached:?}");
    let socks = inside(&pinion, &["--net", &host], &curl(&format!("-x socks5h://127.0.0.1:3128 {url}")));
    assert!(socks.stdout.contains("REACHED"), "{socks:?}");
    let tunnel = inside(&pinion, &["--net", &host], &curl(&format!("--proxytunnel {url}")));
    assert!(tunnel.stdout.contains("REACHED"), "{tunnel:?}");
    let python = format!(
        "python3 -c 'import urllib.request as r, os; os.environ[\"no_proxy\"] = \"\"; \
         print(r.urlopen(\"{url}\", timeout=10).read())'"
    );
    let python = inside(&pinion, &["--net", &host], &python);
    assert!(python.stdout.contains("REACHED"), "{python:?}");
    assert_eq!(machine.count(), 4);
    let other = inside(&pinion, &["--net", "crates.io"], &curl(&url));
    assert!(other.stdout.contains("is not an allowed host"), "{other:?}");
    assert!(other.stderr.contains(&format!("`/net allow {host}`")), "{other:?}");
    let off = inside(&pinion, &[], &curl(&url));
    assert!(!off.stdout.contains("REACHED") && off.code == Some(1), "{off:?}");
    assert_eq!(machine.count(), 4);
}

#[test]
fn host_that_a_rule_denies_is_refused_whatever_allows_it() {
    if !has_namespaces() {
        return;
    }
    let (pinion, machine) = (Pinion::default(), Machine::start());
    let url = format!("http://localhost:{}/", machine.port);
    pinion.config("[permissions]\ndeny = [\"net:localhost\"]\n");
    let refused = inside(&pinion, &["--net", &format!("localhost:{}", machine.port)], &curl(&url));
    assert!(!refused.stdout.contains("REACHED") && machine.count() == 0, "{refused:?}");
    pinion.config("");
    pinion.write(".pinion/config.toml", "[permissions]\ndeny = [\"net:localhost\"]\n");
    assert_eq!(pinion.run(["trust", "add", "--yes"]).code, Some(0));
    let refused = inside(&pinion, &["--net", &format!("localhost:{}", machine.port)], &curl(&url));
    assert!(!refused.stdout.contains("REACHED") && machine.count() == 0, "{refused:?}");
}

#[test]
fn config_allows_hosts_and_the_model_reads_what_was_refused() {
    if !has_namespaces() {
        return;
    }
    let (pinion, machine) = (Pinion::default(), Machine::start());
    pinion.config(&format!("[sandbox]\nhosts = [\"localhost:{}\"]\n", machine.port));
    let url = format!("http://localhost:{}/", machine.port);
    // In `smart`, a program that reaches only allowed hosts needs no approval.
    let result = result_of(&pinion, &format!("{}; {}; true", curl(&url), curl("http://evil.example/")));
    assert!(result.contains("REACHED"), "{result}");
    assert!(result.contains("`evil.example:80` is not an allowed host"), "{result}");
    assert!(result.contains("/net allow evil.example"), "{result}");
    let audit = pinion.run(["audit"]).stdout;
    assert!(audit.contains(&format!("reached localhost:{} by GET", machine.port)), "{audit}");
    assert!(audit.contains("denied evil.example:80 by GET"), "{audit}");
}

#[test]
fn missing_network_is_named_for_a_program_that_fails_in_silence() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    let silent = |url: &str| result_of(&pinion, &format!("sh -c 'exit 6' # as curl -s {url} does"));
    let result = silent("https://crates.io/api");
    assert!(result.contains("the sandbox has no network") && result.contains("/net allow crates.io"), "{result}");
    let result = silent("http://localhost:3000/");
    assert!(result.contains("[exit code 6]") && !result.contains("network"), "{result}");
}

#[test]
fn host_is_allowed_and_withdrawn_within_a_conversation() {
    if !has_namespaces() {
        return;
    }
    let (pinion, machine) = (Pinion::default(), Machine::start());
    let host = format!("localhost:{}", machine.port);
    let get =
        |file: &str| call("bash", json!({ "command": format!("{} > {file}; true", curl(&format!("http://{host}/"))) }));
    let replies = [get("one"), say("first"), get("two"), say("second"), get("three"), say("third"), get("four")];
    let script = pinion.script(&replies);
    let command = pinion.command(["--replay", script.to_str().unwrap(), "go"]);
    let mut terminal = Terminal::start(&command, (80, 30), "");
    terminal.wait_for("first");
    terminal.keys(&format!("/net allow {host}\r"));
    terminal.wait_for("programs reach these hosts");
    terminal.keys("again\r");
    terminal.wait_for("second");
    terminal.keys("/net off\r");
    terminal.wait_for("off; hosts that");
    terminal.keys("again\r");
    terminal.wait_for("third");
    terminal.keys("/net allow https://x\r");
    terminal.wait_for("write the host alone");
    terminal.keys("/net on\r");
    terminal.wait_for("whole network");
    // With the whole network, `smart` asks.
    terminal.keys("again\r");
    terminal.wait_for("no, and say why");
    terminal.keys("n");
    terminal.exit();
    let reached = |file: &str| std::fs::read_to_string(pinion.workspace().join(file)).unwrap().contains("REACHED");
    assert_eq!(["one", "two", "three"].map(reached), [false, true, false]);
    assert!(machine.count() == 1 && !pinion.workspace().join("four").exists());
}

#[test]
fn user_is_asked_about_a_refused_host_when_the_call_is_repeated() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    let command = "echo 'curl: (6) Could not resolve host: crates.example' >&2; exit 6";
    let fetch = || call("bash", json!({ "command": command }));
    let script = pinion.script(&[fetch(), fetch(), say("done")]);
    let options = ["--approve", "smart", "--replay", script.to_str().unwrap(), "go"];
    let mut terminal = Terminal::start(&pinion.command(options), (120, 40), "");
    let seen = terminal.wait_for("always in this session");
    assert!(seen.contains("could not reach `crates.example`: yes allows it"), "{seen}");
    terminal.keys("y");
    terminal.wait_for_then("done", "› ");
    terminal.keys("/net\r");
    terminal.wait_for_then("programs reach these hosts", "crates.example");
    terminal.exit();
    // No user can be asked.
    let ended = pinion.run(["-p"].iter().chain(&options));
    assert!(ended.code == Some(0) && !ended.stderr.contains("denied"), "{ended:?}");
}

#[test]
fn programs_reach_nothing_but_the_proxy() {
    if !has_namespaces() {
        return;
    }
    let (pinion, machine) = (Pinion::default(), Machine::start());
    static SOCKET: OnceLock<UnixListener> = OnceLock::new();
    let name = format!("pinion-net-{}", std::process::id());
    SOCKET.get_or_init(|| UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap());
    let port = machine.port;
    for (what, script) in [
        ("connect directly", format!("echo x > /dev/tcp/127.0.0.1/{port} && echo ESCAPED")),
        ("connect by IPv6", format!("echo x > /dev/tcp/::1/{port} && echo ESCAPED")),
        ("connect to the internet", "timeout 2 bash -c 'echo x > /dev/tcp/1.1.1.1/443' && echo ESCAPED".to_owned()),
        ("resolve a name", "timeout 2 getent ahostsv4 example.com && echo ESCAPED".to_owned()),
        (
            "send a datagram",
            "python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
             s.sendto(b\"x\", (\"1.1.1.1\", 53)); print(\"ESCAPED\")'"
                .to_owned(),
        ),
        (
            "connect to an abstract socket",
            format!(
                "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"\\0{name}\"); print(\"ESCAPED\")'"
            ),
        ),
        (
            "find a socket of the parent",
            "ls -l /proc/self/fd /proc/1/fd 2>/dev/null | grep socket: && echo ESCAPED".to_owned(),
        ),
        ("name the machine in the URL", format!("{} | grep REACHED && echo ESCAPED", curl(&format!("http://127.0.0.1:{port}/")))),
        ("spell the machine", format!("{} | grep REACHED && echo ESCAPED", curl(&format!("http://2130706433:{port}/")))),
        (
            "map the machine",
            format!("{} | grep REACHED && echo ESCAPED", curl(&format!("'http://[::ffff:127.0.0.1]:{port}/'"))),
        ),
        (
            "end a name early",
            format!(
                "python3 -c 'import socket; s = socket.create_connection((\"127.0.0.1\", 3128)); \
                 n = b\"localhost\\0.crates.io\"; \
                 s.sendall(b\"\\5\\1\\0\\5\\1\\0\\3\" + bytes([len(n)]) + n + ({port}).to_bytes(2, \"big\")); \
                 s.settimeout(5); r = s.recv(2) + s.recv(10); print(\"ESCAPED\" if r[3] == 0 else r)'"
            ),
        ),
        ("change the port of the proxy", "python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 3128)); s.listen(); print(\"ESCAPED\")'".to_owned()),
    ] {
        let ended = inside(&pinion, &["--net", &format!("*:{port}"), "--net", "crates.io"], &format!("{script}\necho tried"));
        assert!(ended.stdout.contains("tried") && !ended.stdout.contains("ESCAPED"), "{what}: {ended:?}");
    }
    assert_eq!(machine.count(), 0);
}

#[test]
fn tunnels_end_with_their_program() {
    if !has_namespaces() {
        return;
    }
    let (pinion, machine) = (Pinion::default(), Machine::start());
    let host = format!("localhost:{}", machine.port);
    let script = format!(
        "python3 -c 'import socket, time; s = socket.create_connection((\"127.0.0.1\", 3128)); \
         s.sendall(b\"CONNECT {host} HTTP/1.1\\r\\n\\r\\n\"); print(s.recv(20)); time.sleep(1000)' & sleep 0.5; echo end"
    );
    let ended = inside(&pinion, &["--net", &host], &script);
    assert!(ended.code == Some(0) && ended.stdout.contains("end"), "{ended:?}");
}

#[test]
fn hosts_are_out_of_reach_without_namespaces_and_the_line_says_why() {
    if !has_namespaces() {
        return;
    }
    let (pinion, machine) = (Pinion::default(), Machine::start());
    pinion.config(&format!("[sandbox]\nmode = \"best-effort\"\nhosts = [\"localhost:{}\"]\n", machine.port));
    let status = without_namespaces(&pinion, "sandbox --status");
    assert!(status.stdout.contains("network     off: allowed hosts need namespaces"), "{status:?}");
    let script =
        format!("sandbox -- bash -c 'echo x > /dev/tcp/127.0.0.1/{} && echo ESCAPED; echo tried'", machine.port);
    let ended = without_namespaces(&pinion, &script);
    assert!(ended.stdout.contains("tried") && !ended.stdout.contains("ESCAPED"), "{ended:?}");
    assert!(ended.stderr.contains("need a network namespace") && ended.stderr.contains("/net on"), "{ended:?}");
    assert_eq!(machine.count(), 0);
}

#[test]
fn project_cannot_allow_hosts() {
    let pinion = Pinion::default();
    pinion.write(".pinion/config.toml", "[sandbox]\nhosts = [\"*\"]\n");
    assert_eq!(pinion.run(["trust", "add", "--yes"]).code, Some(0));
    let shown = pinion.run(["config", "show"]).stdout;
    assert!(shown.contains("hosts = []"), "{shown}");
    let status = pinion.run(["sandbox", "--status"]).stdout;
    assert!(status.contains("network     off"), "{status}");
}
