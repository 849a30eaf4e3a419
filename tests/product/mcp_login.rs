//! `pinion mcp login`, against a scripted authorization server.

use crate::product::providers::ended;
use crate::terminal::keys::{KEYRING, with_keyring};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pinion_tests::{Answer, HttpServer, Pinion, Received, answer, call, say};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

const TOKEN: &str = "Zq7Xw3Vb9Nm2Zq7Xw3Vb9Nm2";

/// The state of a server that is its own authorization server.
#[derive(Default)]
struct Provider {
    /// Challenge of the page that was opened last.
    challenge: String,
    /// Members of the metadata besides the usual ones.
    more: BTreeMap<&'static str, Value>,
    /// Redirect addresses of the registered clients.
    redirects: Vec<Value>,
    /// Rejections of exchanges, with the reason.
    rejected: Vec<&'static str>,
}

fn ok(body: &Value) -> Answer {
    answer(200, &[("Content-Type", "application/json")], body.to_string())
}

fn form(text: &str) -> BTreeMap<String, String> {
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        }
        String::from_utf8(bytes).unwrap()
    };
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

/// Starts the server.
async fn provider(more: &[(&'static str, Value)]) -> (HttpServer, Arc<Mutex<Provider>>) {
    let state = Arc::new(Mutex::new(Provider { more: more.iter().cloned().collect(), ..Provider::default() }));
    let shared = state.clone();
    let server = HttpServer::start(move |got| shared.lock().unwrap().answer(got)).await;
    (server, state)
}

impl Provider {
    fn answer(&mut self, got: &Received) -> Answer {
        let origin = format!("http://{}", got.headers()["host"].to_str().unwrap());
        let body = String::from_utf8_lossy(got.body()).into_owned();
        match got.uri().path() {
            "/mcp" if got.headers().get("authorization").is_some_and(|value| value == &format!("Bearer {TOKEN}")) => {
                tool_server(got, &body)
            }
            "/mcp" => {
                let challenge = format!("Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource\"");
                answer(401, &[("WWW-Authenticate", &challenge)], "")
            }
            "/.well-known/oauth-protected-resource" => {
                ok(&json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [origin] }))
            }
            "/.well-known/oauth-authorization-server" => {
                let mut metadata = json!({
                    "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
                    "token_endpoint": format!("{origin}/token"), "registration_endpoint": format!("{origin}/register"),
                    "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                    "authorization_response_iss_parameter_supported": true,
                });
                for (name, value) in &self.more {
                    metadata[*name] = match value.as_str() {
                        Some(path) if path.starts_with('/') => json!(format!("{origin}{path}")),
                        _ => value.clone(),
                    };
                }
                ok(&metadata)
            }
            "/register" => {
                let client: Value = serde_json::from_str(&body).unwrap();
                self.redirects.push(client["redirect_uris"].clone());
                let client = json!({ "client_id": "registered", "redirect_uris": client["redirect_uris"] });
                answer(201, &[("Content-Type", "application/json")], client.to_string())
            }
            "/device" => ok(&json!({
                "device_code": "device", "user_code": "WDJB\u{1b}[2J-MJHT", "verification_uri": "https://login.example/go",
                "expires_in": 600, "interval": 1,
            })),
            "/token" => self.exchange(&form(&body)),
            _ => answer(404, &[], ""),
        }
    }

    fn exchange(&mut self, form: &BTreeMap<String, String>) -> Answer {
        let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let verified = URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier"))) == self.challenge;
        let problem = match field("grant_type") {
            "authorization_code" if field("code") != "the-code" => Some("code"),
            "authorization_code" if !verified => Some("challenge"),
            "authorization_code" if field("client_id") != "registered" => Some("client"),
            "authorization_code" => None,
            grant => (grant != "urn:ietf:params:oauth:grant-type:device_code").then_some("grant"),
        };
        match problem {
            Some(problem) => {
                self.rejected.push(problem);
                answer(400, &[("Content-Type", "application/json")], "{\"error\":\"invalid_grant\"}")
            }
            None => {
                ok(&json!({ "access_token": TOKEN, "token_type": "Bearer", "refresh_token": "refresh-0123456789" }))
            }
        }
    }
}

/// Answers as a server of protocol 2025-11-25 without sessions.
fn tool_server(got: &Received, body: &str) -> Answer {
    let message: Value = serde_json::from_str(body).unwrap_or_default();
    let reply = |result: Value| ok(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
    match (got.method().as_str(), message["method"].as_str()) {
        ("POST", Some("server/discover")) => answer(400, &[], ""),
        ("POST", Some("initialize")) => reply(json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "fake", "version": "1" },
        })),
        ("POST", Some("tools/list")) => {
            reply(json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] }))
        }
        ("POST", Some("tools/call")) => reply(json!({ "content": [{ "type": "text", "text": "fine" }] })),
        ("POST", _) => answer(202, &[], ""),
        _ => answer(405, &[], ""),
    }
}

fn add(pinion: &Pinion, server: &HttpServer) {
    let added = pinion.run(["mcp", "add", "web", "--url", &server.url("/mcp")]);
    assert_eq!(added.code, Some(0), "{added:?}");
}

/// A login in another process.
struct LoggingIn {
    child: Child,
    lines: BufReader<std::process::ChildStderr>,
    seen: String,
}

impl LoggingIn {
    fn start(pinion: &Pinion, more: &[&str]) -> Self {
        Self::spawn(pinion.command(["mcp", "login", "web"].iter().chain(more)))
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Self { child, lines, seen: String::new() }
    }

    /// Reads until a line begins so, and returns the line.
    fn line(&mut self, beginning: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the command ended: {}", self.seen);
            self.seen.push_str(&line);
            if line.starts_with(beginning) {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Returns the exit code and everything that the command printed.
    fn end(mut self) -> (Option<i32>, String) {
        self.lines.read_to_string(&mut self.seen).unwrap();
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), self.seen + &String::from_utf8_lossy(&output.stdout))
    }
}

/// Agrees on the login page, as a browser that is redirected to this machine with these parameters.
fn agree(page: &str, state: &Mutex<Provider>, more: &str) {
    let query = form(page.split_once('?').unwrap().1);
    assert_eq!((query["code_challenge_method"].as_str(), query["response_type"].as_str()), ("S256", "code"));
    state.lock().unwrap().challenge = query["code_challenge"].clone();
    let target = query["redirect_uri"].strip_prefix("http://").unwrap().to_owned();
    let (address, path) = target.split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let target = format!("/{path}?code=the-code&state={}{more}", query["state"]);
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

/// Returns the issuer as a parameter of a redirect.
fn issuer(server: &HttpServer) -> String {
    format!("&iss={}", server.url("").replace(':', "%3A").replace('/', "%2F"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_registers_proves_its_key_and_stores_tokens_privately() {
    let (server, state) = provider(&[("device_authorization_endpoint", json!("/device"))]).await;
    let pinion = Pinion::default();
    add(&pinion, &server);
    let before = pinion.run(["mcp", "call", "web", "echo"]);
    assert!(before.code == Some(1) && before.stderr.contains("`pinion mcp login web`"), "{before:?}");
    let mut login = LoggingIn::start(&pinion, &[]);
    let page = login.line("http");
    // There is no browser here, and the server has another way.
    assert!(login.line("hint: ").contains("`pinion mcp login web --device`"));
    agree(&page, &state, &issuer(&server));
    let (code, printed) = login.end();
    assert!(code == Some(0) && printed.contains("logged in to MCP server `web`"), "{printed}");
    assert!(!printed.contains(TOKEN), "{printed}");
    let state = state.lock().unwrap();
    assert_eq!((state.redirects.len(), &state.rejected), (1, &Vec::new()));
    let redirect = state.redirects[0][0].as_str().unwrap();
    assert!(redirect.starts_with("http://127.0.0.1:") && redirect.ends_with("/callback"), "{redirect}");
    drop(state);
    let called = pinion.run(["mcp", "call", "web", "echo"]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "fine\n"), "{called:?}");
    let stored = pinion.home().join("mcp-auth.json");
    assert!(std::fs::read_to_string(&stored).unwrap().contains(TOKEN));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&stored).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(pinion.run(["mcp", "logout", "web"]).code, Some(0));
    let again = pinion.run(["mcp", "logout", "web"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(1), ""), "{again:?}");
    assert!(again.stderr.contains("MCP server `web` has no login"), "{again:?}");
    assert!(again.stderr.contains("hint: `pinion mcp login web` logs in"), "{again:?}");
    assert!(!std::fs::read_to_string(&stored).unwrap().contains(TOKEN));
    assert_eq!(pinion.run(["mcp", "call", "web", "echo"]).code, Some(1));
}

/// Logs in with this `secret-tool`, and returns the command's output.
fn log_in_with(pinion: &Pinion, server: &HttpServer, state: &Mutex<Provider>, script: &str) -> String {
    let mut login = LoggingIn::spawn(with_keyring(pinion, &["mcp", "login", "web"], script));
    let page = login.line("http");
    agree(&page, state, &issuer(server));
    let (code, printed) = login.end();
    assert!(code == Some(0) && !printed.contains(TOKEN), "{printed}");
    printed
}

fn token_file(pinion: &Pinion) -> String {
    std::fs::read_to_string(pinion.home().join("mcp-auth.json")).unwrap()
}

/// Returns the items of the scripted keyring that have tokens.
fn items(pinion: &Pinion) -> Vec<String> {
    let entries = std::fs::read_dir(pinion.home().join("../bin")).unwrap();
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok());
    texts.filter(|text| text.contains(TOKEN)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_move_to_the_keyring_and_logout_removes_them() {
    let (server, state) = provider(&[]).await;
    let pinion = Pinion::default();
    add(&pinion, &server);
    log_in_with(&pinion, &server, &state, "cat > /dev/null; exit 1");
    assert!(token_file(&pinion).contains(TOKEN));
    let with = |arguments: &[&str]| ended(with_keyring(&pinion, arguments, KEYRING));
    // The file's tokens are read while the keyring has no tokens.
    let called = with(&["mcp", "call", "web", "echo"]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "fine\n"), "{called:?}");
    let printed = log_in_with(&pinion, &server, &state, KEYRING);
    assert!(!printed.contains("keyring"), "{printed}");
    assert!(!token_file(&pinion).contains(TOKEN) && items(&pinion).len() == 1);
    let called = with(&["mcp", "call", "web", "echo"]);
    assert_eq!((called.code, called.stdout.as_str(), called.stderr.as_str()), (Some(0), "fine\n", ""), "{called:?}");
    let calls = std::fs::read_to_string(pinion.home().join("../bin/calls")).unwrap();
    assert!(calls.contains("service pinion account mcp:") && !calls.contains(TOKEN), "{calls}");
    // A command asks the keyring once, however many requests it sends.
    let lookups = || std::fs::read_to_string(pinion.home().join("../bin/calls")).unwrap().matches("lookup").count();
    let before = lookups();
    assert_eq!(with(&["mcp", "call", "web", "echo"]).code, Some(0));
    assert_eq!(lookups(), before + 1);
    assert_eq!(with(&["mcp", "logout", "web"]).code, Some(0));
    assert!(items(&pinion).is_empty() && token_file(&pinion).trim() == "{}", "{}", token_file(&pinion));
    assert_eq!(with(&["mcp", "logout", "web"]).code, Some(1));
    assert_eq!(with(&["mcp", "call", "web", "echo"]).code, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keyring_that_fails_is_reported_and_loses_no_tokens() {
    let (server, state) = provider(&[]).await;
    let pinion = Pinion::default();
    add(&pinion, &server);
    let call = |script: &str| ended(with_keyring(&pinion, &["mcp", "call", "web", "echo"], script));
    // One that fails, one that forgets, and one that cuts off its input.
    for script in ["cat > /dev/null; exit 1", "cat > /dev/null", &KEYRING.replace("cat > $f", "head -c 20 > $f")] {
        let printed = log_in_with(&pinion, &server, &state, script);
        let times = printed.matches("the keyring does not work").count();
        assert!(times == 1 && printed.contains("mcp-auth.json"), "{printed}");
        assert!(token_file(&pinion).contains(TOKEN));
        assert_eq!(call(script).stdout, "fine\n");
        // They are in the file already, so that nothing is new.
        assert!(!log_in_with(&pinion, &server, &state, script).contains("keyring"));
        assert_eq!(ended(with_keyring(&pinion, &["mcp", "logout", "web"], script)).code, Some(0));
    }
    log_in_with(&pinion, &server, &state, KEYRING);
    // A locked keyring whose question is closed: the tokens stay where they are, and work when it is open again.
    let locked = call("exit 1");
    assert!(locked.code == Some(1) && locked.stderr.contains("is locked"), "{locked:?}");
    assert_eq!(call(KEYRING).stdout, "fine\n");
    let printed = log_in_with(&pinion, &server, &state, "cat > /dev/null; exit 1");
    assert!(printed.contains("the keyring does not work"), "{printed}");
    assert_eq!(call("exit 1").stdout, "fine\n");
    // The older ones go with a logout, too.
    assert_eq!(items(&pinion).len(), 1);
    assert_eq!(ended(with_keyring(&pinion, &["mcp", "logout", "web"], KEYRING)).code, Some(0));
    assert!(items(&pinion).is_empty() && token_file(&pinion).trim() == "{}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_over_http_works_without_a_login() {
    let server = HttpServer::start(|got| tool_server(got, &String::from_utf8_lossy(got.body()))).await;
    let pinion = Pinion::default();
    add(&pinion, &server);
    let tested = pinion.run(["mcp", "test", "web"]);
    assert!(tested.code == Some(0) && tested.stdout.contains("echo"), "{tested:?}");
    let called = pinion.run(["mcp", "call", "web", "echo"]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "fine\n"), "{called:?}");
    let script = pinion.script(&[call("web__echo", json!({})), say("done")]);
    let run = ["-p", "--approve", "all", "--output-format", "stream-json", "--replay", script.to_str().unwrap(), "go"];
    let ended = pinion.run(run);
    let events = ended.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let results: Vec<Value> = events.filter(|event| event["type"] == "tool_execution_end").collect();
    assert!(results.len() == 1 && results[0]["is_error"] == false, "{ended:?}");
    assert!(results[0].to_string().contains("fine"), "{results:?}");
    let login = pinion.run(["mcp", "login", "web"]);
    assert!(login.code == Some(1) && login.stderr.contains("`web`"), "{login:?}");
    assert!(server.requests().iter().all(|request| !request.headers().contains_key("authorization")));
    ok_all(&pinion, &[&["mcp", "list"], &["mcp", "get", "web"], &["mcp", "remove", "web"]]);
}

fn ok_all(pinion: &Pinion, commands: &[&[&str]]) {
    for command in commands {
        let ended = pinion.run(*command);
        assert_eq!(ended.code, Some(0), "{command:?}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_of_another_or_no_issuer_gets_no_tokens() {
    let (server, state) = provider(&[]).await;
    let pinion = Pinion::default();
    add(&pinion, &server);
    for more in ["&iss=https%3A%2F%2Fevil.example", ""] {
        let mut login = LoggingIn::start(&pinion, &[]);
        let page = login.line("http");
        agree(&page, &state, more);
        let (code, printed) = login.end();
        assert!(code == Some(1) && printed.contains("`web` login failed") && printed.contains("issuer"), "{printed}");
    }
    assert!(!server.lines().iter().any(|line| line.contains("/token")), "{:?}", server.lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_by_device_shows_a_code_and_waits() {
    let (server, _state) = provider(&[("device_authorization_endpoint", json!("/device"))]).await;
    let pinion = Pinion::default();
    add(&pinion, &server);
    let login = LoggingIn::start(&pinion, &["--device"]);
    let (code, printed) = login.end();
    assert!(code == Some(0) && printed.contains("https://login.example/go"), "{printed}");
    assert!(printed.contains("-MJHT within 10 min") && !printed.contains('\u{1b}'), "{printed}");
    let called = pinion.run(["mcp", "call", "web", "echo"]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "fine\n"), "{called:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn document_of_the_client_is_its_id() {
    let (server, _state) = provider(&[("client_id_metadata_document_supported", json!(true))]).await;
    let pinion = Pinion::default();
    let entry =
        json!({ "url": server.url("/mcp"), "oauth": { "clientMetadataUrl": "https://me.example/pinion.json" } });
    assert_eq!(pinion.run(["mcp", "add-json", "web", &entry.to_string()]).code, Some(0));
    let mut login = LoggingIn::start(&pinion, &[]);
    let page = login.line("http");
    assert_eq!(form(page.split_once('?').unwrap().1)["client_id"], "https://me.example/pinion.json");
    assert!(!server.lines().iter().any(|line| line.contains("/register")));
    login.child.kill().unwrap();
    login.child.wait().unwrap();
    let plain = json!({ "url": server.url("/mcp"), "oauth": { "clientMetadataUrl": "http://me.example/" } });
    let refused = pinion.run(["mcp", "add-json", "other", &plain.to_string()]);
    assert!(
        refused.code == Some(2) && refused.stderr.contains("`clientMetadataUrl` must begin with https"),
        "{refused:?}"
    );
}
