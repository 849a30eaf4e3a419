//! The server over HTTP.

use super::{GRANTS, meta, with};
use pinion_tests::{Pinion, guest};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Child;

/// A server over HTTP.
struct Http {
    child: Child,
    address: String,
    token: String,
}

impl Http {
    fn start(pinion: &Pinion, arguments: &[&str]) -> Self {
        let mut child =
            pinion.command(["mcp", "serve", "--http", "127.0.0.1:0"].iter().chain(arguments)).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let url =
            lines.by_ref().find_map(|line| Some(line.strip_prefix("serving MCP on http://")?.to_owned())).unwrap();
        let address = url.strip_suffix("/mcp").unwrap().to_owned();
        let token = if arguments.contains(&"--token-file") {
            String::new()
        } else {
            lines.find_map(|line| Some(line.split_once("Bearer ")?.1.to_owned())).unwrap()
        };
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, token }
    }

    /// Sends a request and returns its status and its body.
    fn post(&self, headers: &[(&str, &str)], body: &Value) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = body.to_string();
        let mut request = "POST /mcp HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n\
                           Accept: application/json, text/event-stream\r\n"
            .to_owned();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request.push_str(&format!("Host: {}\r\n", self.address));
        }
        headers.iter().for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
        write!(stream, "{request}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stateless(method: &str, more: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": with(more, json!({ "_meta": meta(json!({})) })) })
}

#[test]
fn requests_over_http_need_token_host_and_origin() {
    let pinion = Pinion::default();
    let server = Http::start(&pinion, &["--allow-origin", "http://good.example:80"]);
    let bearer = format!("Bearer {}", server.token);
    let list = stateless("tools/list", json!({}));
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let method = ("Mcp-Method", "tools/list");
    let status = |headers: &[(&str, &str)]| {
        let headers: Vec<_> = headers.iter().copied().chain([version, method]).collect();
        server.post(&headers, &list).0
    };
    let good = ("Authorization", bearer.as_str());
    assert_eq!(status(&[good]), 200);
    assert_eq!(status(&[good, ("Origin", "http://good.example")]), 200);
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&[("Authorization", "Bearer wrong")]), 401);
    assert_eq!(status(&[("Authorization", "Bearer ")]), 401);
    assert_eq!(status(&[good, ("Host", "evil.example")]), 403);
    assert_eq!(status(&[good, ("Origin", "http://evil.example")]), 403);
    assert_eq!(status(&[good, ("Origin", "null")]), 403);
    let (status, _) = server.post(
        &[good],
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } }),
    );
    assert_eq!(status, 200);
}

#[cfg(unix)]
#[test]
fn token_comes_from_a_private_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let pinion = Pinion::default();
    let file = pinion.write("../token", "0123456789abcdef-token\n");
    let arguments = ["--token-file", file.to_str().unwrap()];
    let readable = pinion.run(["mcp", "serve", "--http", "127.0.0.1:0"].iter().chain(&arguments));
    assert!(readable.code == Some(2) && readable.stderr.contains("0600"), "{readable:?}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let server = Http::start(&pinion, &arguments);
    let headers = [
        ("Authorization", "Bearer 0123456789abcdef-token"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/list"),
    ];
    assert_eq!(server.post(&headers, &stateless("tools/list", json!({}))).0, 200);
}

#[test]
fn header_of_an_argument_must_say_what_the_request_says() {
    let pinion = Pinion::default();
    pinion.config(GRANTS);
    let plugin = guest("conformant");
    let server = Http::start(&pinion, &["--plugin", plugin.to_str().unwrap(), "--no-builtin-plugins"]);
    let bearer = format!("Bearer {}", server.token);
    let call = stateless("tools/call", json!({ "name": "test_x_mcp_header", "arguments": { "region": "north" } }));
    let status = |region: Option<&str>| {
        let base = [
            ("Authorization", bearer.as_str()),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "test_x_mcp_header"),
        ];
        let region = region.map(|region| ("Mcp-Param-Region", region));
        server.post(&base.into_iter().chain(region).collect::<Vec<_>>(), &call)
    };
    assert_eq!([status(Some("north")).0, status(Some("=?base64?bm9ydGg=?=")).0], [200, 200]);
    for wrong in [None, Some("south"), Some("=?base64?bm9ydGg?=")] {
        let (status, answer) = status(wrong);
        assert!(status == 400 && answer.contains("-32020"), "{wrong:?}: {answer}");
    }
}
