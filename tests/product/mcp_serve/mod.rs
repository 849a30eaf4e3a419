//! `pinion mcp serve`: another agent uses plugins over MCP.

mod approvals;
mod guesses;
mod http;
mod questions;
mod resources;
mod tasks;

use pinion_tests::{Pinion, guest, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout};

/// A client over stdio.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// Notifications and requests of the server.
    other: Vec<Value>,
    last: u64,
}

impl Client {
    fn start(pinion: &Pinion, arguments: &[&str]) -> Self {
        Self::spawn(pinion.command(["mcp", "serve"].iter().chain(arguments)))
    }

    fn spawn(mut command: std::process::Command) -> Self {
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout, other: Vec::new(), last: 0 }
    }

    /// Begins as a client of protocol 2025-11-25.
    fn initialized(pinion: &Pinion, arguments: &[&str], capabilities: Value) -> Self {
        let mut client = Self::start(pinion, arguments);
        client.initialize(capabilities);
        client
    }

    fn initialize(&mut self, capabilities: Value) {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
                             "clientInfo": { "name": "test", "version": "1" } });
        let answer = self.request("initialize", params);
        assert_eq!(answer["result"]["serverInfo"]["name"], "pinion", "{answer}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the server ended");
        serde_json::from_str(&line).unwrap()
    }

    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.read();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.other.push(message);
        }
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))["result"].clone()
    }

    /// Returns the next question of the server. Notices may come before it, such as that a slow plugin has joined.
    fn question(&mut self) -> Value {
        loop {
            let message = self.read();
            if message.get("id").is_some() {
                return message;
            }
            self.other.push(message);
        }
    }

    /// Answers the next question of the server and returns it.
    fn answer_question(&mut self, answer: Value) -> Value {
        let question = self.question();
        self.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }));
        question
    }

    fn tools(&mut self) -> Vec<String> {
        let listed = self.request("tools/list", json!({}));
        listed["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Closes stdin and returns the exit status.
    fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// The metadata of a request of protocol 2026-07-28.
fn meta(capabilities: Value) -> Value {
    json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities })
}

/// Adds members to an object.
fn with(object: Value, more: Value) -> Value {
    let Value::Object(mut members) = object else { panic!("{object}") };
    members.extend(more.as_object().unwrap().clone());
    members.into()
}

/// Starts a server with the guest of the conformance suite alone.
fn conformant(pinion: &Pinion) -> [String; 3] {
    pinion.config(GRANTS);
    ["--plugin".to_owned(), guest("conformant").to_str().unwrap().to_owned(), "--no-builtin-plugins".to_owned()]
}

/// Grants the access that the tools of `echo` declare.
const READS: &str = "[plugins.echo.grants]\nfiles = { \".\" = \"read\" }\n";

#[test]
fn tools_of_plugins_are_listed_and_called_over_stdio() {
    let pinion = Pinion::default();
    pinion.config(READS);
    pinion.write("a.txt", "content of a file");
    let echo = guest("echo");
    let mut client = Client::initialized(&pinion, &["--plugin", echo.to_str().unwrap()], json!({}));
    let tools = client.tools();
    assert!(tools.contains(&"read".to_owned()) && tools.contains(&"echo".to_owned()), "{tools:?}");
    let result = client.call("echo", json!({ "message": "hello" }));
    assert_eq!((text(&result), &result["isError"]), ("hello", &json!(false)));
    assert_eq!(result["_meta"]["dev.pinion/ledger"]["plugin"], "echo");
    assert!(text(&client.call("read", json!({ "path": "a.txt" }))).contains("content of a file"));
    let details = client.call("details", json!({ "message": "m" }));
    assert_eq!(details["_meta"]["dev.pinion/details"], json!({ "message": "m" }));
    assert_eq!(client.end(), Some(0));
}

#[test]
fn client_that_prefers_structured_content_gets_the_text() {
    // Some clients give their model the structured content in place of the content.
    let preferred = |result: &Value| match result.get("structuredContent") {
        Some(structured) => structured.to_string(),
        None => text(result).to_owned(),
    };
    let pinion = Pinion::default();
    pinion.write("a.txt", "content of a file");
    let mut client = Client::initialized(&pinion, &["--approve", "all"], json!({}));
    let read = client.call("read", json!({ "path": "a.txt" }));
    assert!(preferred(&read).contains("content of a file"), "{read}");
    assert_eq!(read["_meta"]["dev.pinion/details"]["path"], "a.txt");
    let ran = client.call("bash", json!({ "command": "echo made" }));
    assert!(preferred(&ran).contains("made"), "{ran}");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn message_that_is_too_long_gets_an_error_and_the_next_one_a_result() {
    let pinion = Pinion::default();
    pinion.write("a.txt", "content of a file");
    let mut client = Client::initialized(&pinion, &[], json!({}));
    let long = json!({ "name": "read", "arguments": { "path": "x".repeat(17 << 20) } });
    let id = client.begin("tools/call", long);
    let answer = client.answer(id);
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("bytes"), "{answer}");
    assert!(text(&client.call("read", json!({ "path": "a.txt" }))).contains("content of a file"));
    assert_eq!(client.end(), Some(0));
}

#[test]
fn failures_are_results_that_the_model_can_read() {
    let pinion = Pinion::default();
    let echo = guest("echo");
    let mut client = Client::initialized(&pinion, &["--plugin", echo.to_str().unwrap()], json!({}));
    let failed = client.call("fail", json!({ "message": "broken" }));
    assert!(failed["isError"] == true && text(&failed).contains("broken"), "{failed}");
    let invalid = client.call("echo", json!({ "message": 1 }));
    assert!(invalid["isError"] == true && text(&invalid).contains("message"), "{invalid}");
    let unknown = client.request("tools/call", json!({ "name": "bash", "arguments": { "command": "id" } }));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[test]
fn clients_of_the_stateless_protocol_need_no_handshake() {
    let pinion = Pinion::default();
    pinion.config(READS);
    let echo = guest("echo");
    let mut client = Client::start(&pinion, &["--plugin", echo.to_str().unwrap(), "--no-builtin-plugins"]);
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                       "io.modelcontextprotocol/clientCapabilities": {},
                       "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" } });
    let discovered = client.request("server/discover", json!({ "_meta": meta }));
    assert!(
        discovered["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")),
        "{discovered}"
    );
    let listed = client.request("tools/list", json!({ "_meta": meta }));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 4, "{listed}");
    assert!(listed["result"]["ttlMs"].is_number() && listed["result"]["cacheScope"] == "private", "{listed}");
    let called =
        client.request("tools/call", json!({ "name": "echo", "arguments": { "message": "m" }, "_meta": meta }));
    assert_eq!(text(&called["result"]), "m", "{called}");
}

/// Grants the guest everything that it asks for.
const GRANTS: &str = "[plugins.conformant.grants]\nui = true\nmodel = true\n";

#[test]
fn commands_are_prompts_and_progress_is_passed_on() {
    let pinion = Pinion::default();
    pinion.config(GRANTS);
    let guest = guest("conformant");
    let mut client = Client::initialized(&pinion, &["--plugin", guest.to_str().unwrap()], json!({}));
    let listed = client.request("prompts/list", json!({}));
    let names: Vec<_> =
        listed["result"]["prompts"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    // Commands of built-in plugins act on conversations and are not among them.
    assert_eq!(names.len(), 5, "{names:?}");
    let arguments = json!({ "arg2": "two", "arg1": "one" });
    let prompt = client.request("prompts/get", json!({ "name": "test_prompt_with_arguments", "arguments": arguments }));
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "Prompt with arguments: one two", "{prompt}");
    let reference = json!({ "type": "ref/prompt", "name": "test_prompt_with_arguments" });
    let mut complete = |name: &str, before: Value| {
        let argument = json!({ "name": name, "value": "par" });
        let params = json!({ "ref": reference, "argument": argument, "context": { "arguments": before } });
        client.request("completion/complete", params)["result"]["completion"]["values"].clone()
    };
    assert_eq!(complete("arg1", json!({})), json!(["paris", "park", "party"]));
    assert_eq!(complete("arg2", json!({ "arg1": "near" })), json!(["paris", "park", "party"]));
    assert_eq!([complete("arg2", json!({})), complete("other", json!({}))], [json!([]), json!([])]);
    let meta = json!({ "progressToken": "p" });
    client.request("tools/call", json!({ "name": "test_tool_with_progress", "arguments": {}, "_meta": meta }));
    let progress = client.other.iter().filter(|message| message["method"] == "notifications/progress");
    assert_eq!(progress.map(|message| message["params"]["message"].as_str().unwrap()).collect::<Vec<_>>().len(), 3);
}

#[test]
fn client_gets_the_log_of_a_call_from_its_level_up() {
    let pinion = Pinion::default();
    pinion.config(GRANTS);
    let guest = guest("conformant");
    let arguments = ["--plugin", guest.to_str().unwrap(), "--no-builtin-plugins"];
    let mut client = Client::initialized(&pinion, &arguments, json!({}));
    let mut lines = |level: Option<&str>| {
        if let Some(level) = level {
            let set = client.request("logging/setLevel", json!({ "level": level }));
            assert_eq!(set["result"], json!({}), "{set}");
        }
        client.other.clear();
        client.call("test_tool_with_logging", json!({}));
        let lines = client.other.iter().filter(|message| message["method"] == "notifications/message");
        lines.map(|line| (line["params"]["level"].clone(), line["params"]["data"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(lines(None), [], "nobody asked for it");
    let expected = ["Tool execution started", "Tool processing data", "Tool execution completed"];
    assert_eq!(lines(Some("info")), expected.map(|line| (json!("info"), json!(line))));
    assert_eq!(lines(Some("warning")), []);
}

#[test]
fn prompt_has_the_content_that_only_the_protocol_has() {
    let pinion = Pinion::default();
    pinion.config(GRANTS);
    let guest = guest("conformant");
    let arguments = ["--plugin", guest.to_str().unwrap(), "--no-builtin-plugins"];
    let mut client = Client::initialized(&pinion, &arguments, json!({}));
    let image = client.request("prompts/get", json!({ "name": "test_prompt_with_image" }));
    let messages = &image["result"]["messages"];
    assert_eq!(
        (&messages[0]["content"]["type"], &messages[0]["content"]["mimeType"]),
        (&json!("image"), &json!("image/png"))
    );
    assert_eq!(messages[1]["content"]["text"], "Please analyze the image above.", "{image}");
    let arguments = json!({ "resourceUri": "test://x" });
    let request = json!({ "name": "test_prompt_with_embedded_resource", "arguments": arguments });
    let embedded = client.request("prompts/get", request);
    assert_eq!(embedded["result"]["messages"][0]["content"]["resource"]["uri"], "test://x", "{embedded}");
}

#[cfg(target_os = "linux")]
#[test]
fn cancelled_call_ends_and_others_continue() {
    let pinion = Pinion::default();
    pinion.config("[sandbox]\nmode = \"off\"\n");
    let mut client = Client::initialized(&pinion, &["--approve", "all"], json!({}));
    let arguments = json!({ "command": "echo $$ > pid; exec sleep 300" });
    let id = client.begin("tools/call", json!({ "name": "bash", "arguments": arguments }));
    let file = pinion.workspace().join("pid");
    let pid = || std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
    wait_until("the program runs", || pid().is_some());
    let pid = pid().unwrap();
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    assert!(!client.tools().is_empty());
    wait_until("the program is gone", || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(" Z ")
    });
}

#[test]
fn reloaded_plugin_is_announced() {
    let pinion = Pinion::default();
    let file = pinion.home().join("plugins/greet.wasm");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::copy(guest("greet_one"), &file).unwrap();
    let mut client = Client::initialized(&pinion, &["--approve", "all"], json!({}));
    assert!(text(&client.call("greet", json!({}))).contains("version one"));
    std::fs::copy(guest("greet_two"), &file).unwrap();
    loop {
        let message = client.read();
        if message["method"] == "notifications/tools/list_changed" {
            break;
        }
    }
    assert!(text(&client.call("greet", json!({}))).contains("version two"));
}

#[test]
fn call_right_after_a_save_gets_the_new_version() {
    let pinion = Pinion::default();
    let file = pinion.write("greet.wasm", std::fs::read(guest("greet_one")).unwrap());
    let mut client = Client::initialized(&pinion, &["--approve", "all", "--plugin", file.to_str().unwrap()], json!({}));
    for (version, said) in [("greet_two", "version two"), ("greet_one", "version one"), ("greet_two", "version two")] {
        let new = pinion.write("new", std::fs::read(guest(version)).unwrap());
        std::fs::rename(new, &file).unwrap();
        assert!(text(&client.call("greet", json!({}))).contains(said), "{version}");
    }
}

#[test]
fn server_ends_when_its_client_is_gone() {
    let pinion = Pinion::default();
    let mut client = Client::initialized(&pinion, &[], json!({}));
    drop(client.stdin.take());
    wait_until("the server has ended", || client.child.try_wait().unwrap().is_some());
}
