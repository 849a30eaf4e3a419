//! `pinion mcp serve`: another agent uses plugins over MCP.

use pinion_tests::{Pinion, guest, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
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
        let mut command = pinion.command(["mcp", "serve"].iter().chain(arguments));
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout, other: Vec::new(), last: 0 }
    }

    /// Begins as a client of protocol 2025-11-25.
    fn initialized(pinion: &Pinion, arguments: &[&str], capabilities: Value) -> Self {
        let mut client = Self::start(pinion, arguments);
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
                             "clientInfo": { "name": "test", "version": "1" } });
        let answer = client.request("initialize", params);
        assert_eq!(answer["result"]["serverInfo"]["name"], "pinion", "{answer}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
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

/// Grants what the tools of `echo` declare.
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
    assert!(!tools.contains(&"bash".to_owned()) && !tools.contains(&"write".to_owned()), "{tools:?}");
    let result = client.call("echo", json!({ "message": "hello" }));
    assert_eq!((text(&result), &result["isError"]), ("hello", &json!(false)));
    assert_eq!(result["_meta"]["dev.pinion/ledger"]["plugin"], "echo");
    assert!(text(&client.call("read", json!({ "path": "a.txt" }))).contains("content of a file"));
    let details = client.call("details", json!({ "message": "m" }));
    assert_eq!(details["structuredContent"], json!({ "message": "m" }));
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
fn calls_with_effects_need_approve_all() {
    let pinion = Pinion::default();
    let mut client = Client::initialized(&pinion, &["--approve", "all", "--tools", "write,read"], json!({}));
    assert_eq!(client.tools().len(), 2);
    let written = client.call("write", json!({ "path": "new.txt", "content": "x" }));
    assert_eq!(written["isError"], false, "{written}");
    assert!(pinion.workspace().join("new.txt").exists());
    client.end();
    let mut child = pinion.command(["mcp", "serve"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("not offered without --approve all: "), "{output:?}");
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

/// Grants the guest what it asks for.
const GRANTS: &str = "[plugins.conformant.grants]\nui = true\nmodel = true\n";

#[test]
fn dialog_of_a_plugin_is_an_elicitation() {
    let pinion = Pinion::default();
    pinion.config(GRANTS);
    let guest = guest("conformant");
    let arguments = ["--plugin", guest.to_str().unwrap(), "--no-builtin-plugins"];
    let mut client = Client::initialized(&pinion, &arguments, json!({ "elicitation": {} }));
    let id = client.begin("tools/call", json!({ "name": "test_elicitation", "arguments": {} }));
    let question = client.read();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert!(question["params"]["message"].as_str().unwrap().starts_with("The plugin conformant asks: Who are you?"));
    let result = json!({ "action": "accept", "content": { "value": "Ada" } });
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
    assert_eq!(text(&client.answer(id)["result"]), "Ada");
    // Without the capability, nobody is asked.
    let mut silent = Client::initialized(&pinion, &arguments, json!({}));
    let refused = silent.request("tools/call", json!({ "name": "test_elicitation", "arguments": {} }));
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
}

#[test]
fn stateless_client_continues_the_call_that_asked() {
    let pinion = Pinion::default();
    pinion.config(GRANTS);
    let guest = guest("conformant");
    let mut client = Client::start(&pinion, &["--plugin", guest.to_str().unwrap(), "--no-builtin-plugins"]);
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                       "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} } });
    let call = |more: Value| {
        let mut params = json!({ "name": "test_input_required_result_multi_round", "arguments": {}, "_meta": meta });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let accept = |value: &str| json!({ "action": "accept", "content": { "value": value } });
    let first = client.request("tools/call", call(json!({})))["result"].clone();
    assert_eq!(first["resultType"], "input_required", "{first}");
    assert!(first["inputRequests"]["step1"].is_object(), "{first}");
    let answer = json!({ "inputResponses": { "step1": accept("Ada") }, "requestState": first["requestState"] });
    let second = client.request("tools/call", call(answer.clone()))["result"].clone();
    assert!(second["inputRequests"]["step2"].is_object(), "{second}");
    let replayed = client.request("tools/call", call(answer));
    assert_eq!(replayed["error"]["code"], -32602, "{replayed}");
    let answer = json!({ "inputResponses": { "step2": accept("blue") }, "requestState": second["requestState"] });
    let done = client.request("tools/call", call(answer))["result"].clone();
    assert_eq!(text(&done), "Ada likes blue");
}

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
    let arguments = json!({ "arguments": "one two" });
    let prompt = client.request("prompts/get", json!({ "name": "test_prompt_with_arguments", "arguments": arguments }));
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "Prompt with arguments: one two", "{prompt}");
    let argument = json!({ "name": "arguments", "value": "par" });
    let reference = json!({ "type": "ref/prompt", "name": "test_prompt_with_arguments" });
    let completed = client.request("completion/complete", json!({ "ref": reference, "argument": argument }));
    assert_eq!(completed["result"]["completion"]["values"], json!(["paris", "park", "party"]));
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

#[test]
fn form_with_several_fields_is_one_elicitation() {
    let pinion = Pinion::default();
    pinion.config(GRANTS);
    let guest = guest("conformant");
    let arguments = ["--plugin", guest.to_str().unwrap(), "--no-builtin-plugins"];
    let mut client = Client::initialized(&pinion, &arguments, json!({ "elicitation": {} }));
    let id = client.begin("tools/call", json!({ "name": "test_elicitation_sep1034_defaults", "arguments": {} }));
    let mut ask = |answer: Value| {
        let question = client.read();
        assert_eq!(question["method"], "elicitation/create", "{question}");
        client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }));
        question["params"].clone()
    };
    let wrong = json!({ "action": "accept", "content": { "age": "old" } });
    let first = ask(wrong);
    assert_eq!(first["requestedSchema"]["properties"]["score"], json!({ "type": "number", "default": 95.5 }));
    let second = ask(json!({ "action": "accept", "content": { "name": "Ada", "age": 36, "verified": false } }));
    assert!(second["message"].as_str().unwrap().ends_with("age: it has another type"), "{second}");
    let result = client.answer(id)["result"].clone();
    assert!(text(&result).ends_with("content={\"name\":\"Ada\",\"age\":36,\"verified\":false}"), "{result}");
}

#[test]
fn form_has_titled_options_and_several_of_them() {
    let pinion = Pinion::default();
    pinion.config(GRANTS);
    let guest = guest("conformant");
    let arguments = ["--plugin", guest.to_str().unwrap(), "--no-builtin-plugins"];
    let mut client = Client::initialized(&pinion, &arguments, json!({ "elicitation": {} }));
    let id = client.begin("tools/call", json!({ "name": "test_elicitation_sep1330_enums", "arguments": {} }));
    let question = client.read();
    let properties = &question["params"]["requestedSchema"]["properties"];
    assert_eq!(properties["titledSingle"]["oneOf"][1], json!({ "const": "value2", "title": "Second Option" }));
    assert_eq!(properties["legacyEnum"]["enumNames"][0], "Option One", "{question}");
    assert_eq!(properties["titledMulti"]["items"]["anyOf"][0]["title"], "First Choice", "{question}");
    let content = json!({ "titledSingle": "value2", "untitledMulti": ["option3", "option1"], "titledMulti": [] });
    let answer = json!({ "action": "accept", "content": content });
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }));
    let result = client.answer(id)["result"].clone();
    let expected = "\"titledSingle\":\"value2\",\"untitledMulti\":[\"option3\",\"option1\"],\"titledMulti\":[]";
    assert!(text(&result).contains(expected), "{result}");
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
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                       "io.modelcontextprotocol/clientCapabilities": {} });
    let mut params = more.as_object().unwrap().clone();
    params.insert("_meta".to_owned(), meta);
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
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
fn server_ends_when_its_client_is_gone() {
    let pinion = Pinion::default();
    let mut client = Client::initialized(&pinion, &[], json!({}));
    drop(client.stdin.take());
    wait_until("the server has ended", || client.child.try_wait().unwrap().is_some());
}
