//! Programs that use credentials through placeholders, with real clients, and those that look for the secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinion_tests::{Ended, Pinion, call, has_namespaces, say};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

const SECRET: &str = "Zq7Xw3Vb9Nm2Kp5Ld8Rt";

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../host/egress/tests/fixtures/tls")
        .join(name)
        .canonicalize()
        .unwrap()
}

/// A server at `localhost` that answers those who know the secret, repeats the requests, and keeps their heads.
struct Forge {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Forge {
    fn start() -> Self {
        let certificate = CertificateDer::from_pem_file(fixture("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = Arc::new(config.with_single_cert(vec![certificate], key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = heads.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, kept) = (config.clone(), kept.clone());
                std::thread::spawn(move || answer(stream, config, &kept));
            }
        });
        Self { port, heads }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    fn received(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Writes a config with the credential of this server.
    fn configure(&self, pinion: &Pinion, sandbox: &str) {
        let url = self.url("/v1");
        pinion.config(&format!(
            "[process]\nenvironment = [\"*\"]\n[secrets.forge]\nenv = \"FORGE_TOKEN\"\nhosts = [\"{url}\"]\n\
             [sandbox]\ncredentials = [\"forge\"]\n{sandbox}\n"
        ));
    }

    fn allowed(&self, pinion: &Pinion) {
        self.configure(pinion, &format!("hosts = [\"localhost:{}\"]", self.port));
    }
}

fn answer(stream: TcpStream, config: Arc<ServerConfig>, heads: &Mutex<Vec<String>>) {
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    heads.lock().unwrap().push(head.clone());
    let sent = head.lines().find_map(|line| line.to_lowercase().starts_with("authorization:").then(|| &line[15..]));
    let known = [format!("Bearer {SECRET}"), format!("Basic {}", STANDARD.encode(format!("git:{SECRET}")))];
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (status, body) = match sent {
        Some(sent) if known.iter().any(|known| known == sent) => ("200 OK", format!("REACHED {sent}\n")),
        _ => ("401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"forge\"", format!("you sent {sent:?}\n")),
    };
    let body = match path.split('?').next().unwrap_or_default() {
        "/v1/repo.git/info/refs" => format!("{}\trefs/heads/main\n", "1".repeat(40)),
        "/v1/repo.git/HEAD" => "ref: refs/heads/main\n".to_owned(),
        _ => body,
    };
    let length = body.len();
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

/// Runs the command in an environment with the secret, where servers need the certificate of the forge.
fn run(pinion: &Pinion, arguments: &[&str]) -> Ended {
    let mut command = pinion.command(arguments);
    command
        .env("FORGE_TOKEN", SECRET)
        .env("FORGE_URL", format!("https://git:{SECRET}@localhost/"))
        .env("SSL_CERT_FILE", fixture("authority.pem"));
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn inside(pinion: &Pinion, script: &str) -> Ended {
    run(pinion, &["sandbox", "--", "bash", "-c", script])
}

/// Begins a script whose clients use the proxy for `localhost`, too.
const EVERYWHERE: &str = "export NO_PROXY= no_proxy= GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1;";

#[test]
fn programs_use_a_credential_that_they_never_see() {
    if !has_namespaces() {
        return;
    }
    let (pinion, forge) = (Pinion::default(), Forge::start());
    forge.allowed(&pinion);
    let url = forge.url("/v1/items");
    let python = format!(
        "python3 -c 'import os, urllib.request as r; q = r.Request(\"{url}\", headers={{\"Authorization\": \"Bearer \" + \
         os.environ[\"FORGE_TOKEN\"]}}); print(r.urlopen(q, timeout=20).read())'"
    );
    for (client, script, expected) in [
        (
            "curl with a header",
            format!("curl -sS --max-time 20 -H \"Authorization: Bearer $FORGE_TOKEN\" {url}"),
            "REACHED Bearer pinion-credential-forge-",
        ),
        ("curl with a password", format!("curl -sS --max-time 20 -u \"git:$FORGE_TOKEN\" {url}"), "REACHED Basic "),
        (
            "curl by SOCKS",
            format!("curl -sS -x socks5h://127.0.0.1:3128 -H \"Authorization: Bearer $FORGE_TOKEN\" {url}"),
            "REACHED Bearer pinion-credential-forge-",
        ),
        ("Python", python, "REACHED Bearer pinion-credential-forge-"),
        (
            "git",
            format!("git ls-remote https://git:$FORGE_TOKEN@localhost:{}/v1/repo.git", forge.port),
            "1111\trefs/heads/main",
        ),
        ("another variable with the secret", "echo $FORGE_URL".to_owned(), "https://git:pinion-credential-forge-"),
    ] {
        let ended = inside(&pinion, &format!("{EVERYWHERE} {script}"));
        assert!(ended.stdout.contains(expected), "{client}: {ended:?}");
        assert!(!ended.stdout.contains(SECRET) && !ended.stderr.contains(SECRET), "{client}: {ended:?}");
    }
    let received = forge.received();
    assert!(received.iter().filter(|head| head.contains(&format!("Bearer {SECRET}"))).count() == 3, "{received:?}");
    assert!(!received.concat().contains("pinion-credential"), "{received:?}");
    let status = run(&pinion, &["sandbox", "--status"]);
    let line = format!("credential  forge in FORGE_TOKEN for {}/*\n", forge.url("/v1"));
    assert!(status.stdout.contains(&line) && !status.stdout.contains(SECRET), "{status:?}");
    let audit = run(&pinion, &["audit"]).stdout;
    assert!(audit.contains(&format!("reached localhost:{} by GET with forge", forge.port)), "{audit}");
}

#[test]
fn command_that_prints_a_credential_is_in_the_sandbox() {
    if !has_namespaces() {
        return;
    }
    let (pinion, forge) = (Pinion::default(), Forge::start());
    let command = format!("(: >> /etc/passwd) && echo no-such-token || echo {SECRET}");
    let request = format!("{EVERYWHERE} curl -sS -H \"Authorization: Bearer $FORGE\" {}", forge.url("/v1/x"));
    let reaches = |grants: &str| {
        pinion.config(&format!(
            "[secrets.forge]\ncommand = \"{command}\"\nplaceholder = \"FORGE\"\nhosts = [\"{}\"]\n{grants}\n[sandbox]\n\
             credentials = [\"forge\"]\nhosts = [\"localhost:{}\"]\n",
            forge.url("/v1"),
            forge.port
        ));
        inside(&pinion, &request).stdout.contains("REACHED")
    };
    assert!(reaches(""));
    assert_eq!(reaches("command-grants = { sandbox = false }"), !rustix::process::geteuid().is_root());
    let status = run(&pinion, &["sandbox", "--status"]).stdout;
    assert!(status.contains("key command of [secrets.forge]: no sandbox\n"), "{status}");
}

#[test]
fn model_reads_the_placeholder() {
    if !has_namespaces() {
        return;
    }
    let (pinion, forge) = (Pinion::default(), Forge::start());
    forge.allowed(&pinion);
    let command = format!("{EVERYWHERE} curl -sS -H \"Authorization: Bearer $FORGE_TOKEN\" {}", forge.url("/v1/x"));
    let replay = pinion.script(&[call("bash", json!({ "command": command })), say("done")]);
    let ended = run(&pinion, &["-p", "--replay", replay.to_str().unwrap(), "--output-format", "stream-json", "go"]);
    assert!(ended.stdout.contains("REACHED Bearer pinion-credential-forge-"), "{ended:?}");
    assert!(!ended.stdout.contains(SECRET) && forge.received().concat().contains(SECRET), "{ended:?}");
}

#[test]
fn program_finds_neither_the_secret_nor_the_key_of_the_authority() {
    if !has_namespaces() {
        return;
    }
    let (pinion, forge) = (Pinion::default(), Forge::start());
    forge.allowed(&pinion);
    let (covered, other) = (forge.url("/v1/x"), forge.url("/v2/x"));
    let auth = "-H \"Authorization: Bearer $FORGE_TOKEN\"";
    // The secret was sent and is in the memory of the process outside.
    let begin = format!("{EVERYWHERE} curl -sS {auth} {covered} | grep -o REACHED");
    for (what, script) in [
        ("print the environment", "env; set; export -p".to_owned()),
        ("read the processes", "cat /proc/*/environ /proc/*/cmdline /proc/*/task/*/environ 2>/dev/null".to_owned()),
        ("read the directory of the certificates", "cat \"$(dirname \"$SSL_CERT_FILE\")\"/*".to_owned()),
        (
            "read around the certificates",
            "grep -rsh -e 'PRIVATE KEY' -e Zq7Xw3 \"$(dirname \"$SSL_CERT_FILE\")/..\"".to_owned(),
        ),
        ("ask for another path", format!("curl -sS {auth} {other}")),
        ("ask for another path in disguise", format!("curl -sS --path-as-is {auth} {}", forge.url("/v1/../v2/x"))),
        ("encode the other path", format!("curl -sS --path-as-is {auth} {}", forge.url("/v1/..%2fv2/x"))),
        ("let another method count", format!("curl -sS {auth} -H 'X-HTTP-Method-Override: DELETE' {covered}")),
        ("name another host", format!("curl -sS {auth} -H 'Host: evil.example' {covered}")),
        ("hide the placeholder in the body", format!("curl -sS {auth} -d \"$FORGE_TOKEN\" {covered}")),
        (
            "let the server repeat it",
            format!("curl -sSi {auth} {covered}; curl -sSi -u \"git:$FORGE_TOKEN\" {covered}"),
        ),
        ("ask for an encoding", format!("curl -sS {auth} -H 'Accept-Encoding: br' {covered}")),
        ("change the certificates", "echo x >> \"$SSL_CERT_FILE\" && echo ESCAPED".to_owned()),
        ("replace the certificates", "cp \"$SSL_CERT_FILE\" x; mv -f x \"$SSL_CERT_FILE\" && echo ESCAPED".to_owned()),
        ("remove the certificates", "rm -f \"$SSL_CERT_FILE\" && echo ESCAPED".to_owned()),
    ] {
        let ended = inside(&pinion, &format!("{begin}; {script}\necho tried"));
        assert!(ended.stdout.starts_with("REACHED\n") && ended.stdout.ends_with("tried\n"), "{what}: {ended:?}");
        let encoded = STANDARD.encode(format!("git:{SECRET}"));
        for found in ["ESCAPED", "PRIVATE KEY", SECRET, &SECRET[..8], &encoded[..16]] {
            assert!(!ended.stdout.contains(found) && !ended.stderr.contains(found), "{what}: {ended:?}");
        }
    }
    let misled = |head: &&String| !head.contains(" /v1/x HTTP") && head.contains(SECRET);
    assert_eq!(forge.received().iter().find(misled), None);
}

#[test]
fn variable_of_a_secret_is_empty_where_nothing_inserts_it() {
    if !has_namespaces() {
        return;
    }
    let (pinion, forge) = (Pinion::default(), Forge::start());
    for sandbox in ["", "network = true"] {
        forge.configure(&pinion, sandbox);
        let ended = inside(&pinion, "echo \"<$FORGE_TOKEN$FORGE_URL> $SSL_CERT_FILE\"");
        assert_eq!(ended.stdout, format!("<> {}\n", fixture("authority.pem").display()), "{sandbox}: {ended:?}");
        let status = run(&pinion, &["sandbox", "--status"]);
        assert!(status.stdout.contains("(off: needs allowed hosts)"), "{status:?}");
    }
    forge.allowed(&pinion);
    let echo = call("bash", json!({ "command": "echo \"<$FORGE_TOKEN$FORGE_URL>\"" }));
    let replay = pinion.script(&[echo, say("done")]);
    let options = ["--no-sandbox", "--approve", "all", "--output-format", "stream-json"];
    let ended = run(&pinion, &[&["-p", "--replay", replay.to_str().unwrap()], &options[..], &["go"]].concat());
    assert!(ended.stdout.contains("<>") && !ended.stdout.contains("pinion-credential"), "{ended:?}");
}

#[test]
fn problems_with_a_credential_are_said_with_the_remedy() {
    if !has_namespaces() {
        return;
    }
    let (pinion, forge) = (Pinion::default(), Forge::start());
    forge.allowed(&pinion);
    let auth = "-H \"Authorization: Bearer $FORGE_TOKEN\"";
    let curl = format!("{EVERYWHERE} curl -sS {auth} {}", forge.url("/v1/x"));
    pinion.write("ca.crt", std::fs::read(fixture("authority.pem")).unwrap());
    let script = format!("{EVERYWHERE} curl -sS --cacert ca.crt {}", forge.url("/v1/x"));
    let untrusting = inside(&pinion, &script);
    let expected = "sandbox: the program does not trust the certificate of the proxy";
    assert!(untrusting.stderr.contains(expected), "{untrusting:?}");
    assert!(untrusting.stderr.contains("`SSL_CERT_FILE`"), "{untrusting:?}");
    let mut unset = pinion.command(["sandbox", "--", "bash", "-c", &curl]);
    let unset = unset.env("SSL_CERT_FILE", fixture("authority.pem")).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&unset.stdout), String::from_utf8_lossy(&unset.stderr));
    assert!(stdout.contains("pinion: the secret `forge` has no value"), "{stdout} {stderr}");
    assert!(stderr.contains("hint: set the variable FORGE_TOKEN before the start"), "{stderr}");
    pinion.config("[sandbox]\ncredentials = [\"forge\"]\n");
    let undefined = run(&pinion, &["sandbox", "--status"]);
    assert!(undefined.code == Some(2) && undefined.stderr.contains("no secret `forge`"), "{undefined:?}");
    assert!(undefined.stderr.contains("hint: add `[secrets.forge]`"), "{undefined:?}");
}

#[test]
fn project_cannot_list_credentials() {
    let (pinion, forge) = (Pinion::default(), Forge::start());
    forge.configure(&pinion, "");
    let text = std::fs::read_to_string(pinion.home().join("config.toml")).unwrap();
    pinion.config(&text.replace("credentials = [\"forge\"]", ""));
    pinion.write(
        ".pinion/config.toml",
        "[sandbox]\ncredentials = [\"forge\"]\n[secrets.forge]\nhosts = [\"https://evil.example\"]\n",
    );
    assert_eq!(run(&pinion, &["trust", "add", "--yes"]).code, Some(0));
    let status = run(&pinion, &["sandbox", "--status"]);
    assert!(status.stdout.contains("network     off") && !status.stdout.contains("credential "), "{status:?}");
}
