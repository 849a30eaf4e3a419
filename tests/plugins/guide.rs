//! The author's guide: its snippets are compiled and run, and it covers all of the contract.

use super::authors::{author, is_there, root, run};
use pinion_agent::ToolExecutor as _;
use pinion_plugin_runtime::{FileAccess, HostAction};
use pinion_tests::{Ended, Pinion, SandboxBuilder, call, document, guest, guide, say, until};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// Returns the code blocks of the guide in a language.
fn blocks(language: &str) -> Vec<String> {
    pinion_tests::blocks(&guide(), language)
}

/// Returns a text with single spaces, and without empty lines and visibility, because functions of modules differ from
/// the guide's in these. The function of the test kit is not a test here, because its plugin does not exist.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let lines = lines.filter(|line| !line.is_empty() && line != "#[tokio::test]");
    lines.collect::<Vec<_>>().join("\n").replace("pub(crate) ", "")
}

#[test]
fn every_snippet_in_rust_is_in_a_compiled_plugin() {
    let mut sources = plain(&fs::read_to_string(root().join("tests/plugins/plugin_test.rs")).unwrap());
    for guest in ["guide", "guide-session"] {
        for entry in fs::read_dir(root().join("tests/guests").join(guest).join("src")).unwrap() {
            sources.push_str(&plain(&fs::read_to_string(entry.unwrap().path()).unwrap()));
            sources.push('\n');
        }
    }
    let blocks = blocks("rust");
    assert!(blocks.len() > 15, "{} blocks", blocks.len());
    // The items of a block may be apart in the plugin.
    for item in blocks.iter().flat_map(|block| block.split("\n\n")) {
        assert!(sources.contains(&plain(item)), "no plugin has this snippet of the guide:\n{item}");
    }
}

#[tokio::test]
async fn snippets_about_tools_and_files_do_what_the_guide_says() {
    let sandbox = SandboxBuilder::default().guest("guide").trust("guide");
    let sandbox = sandbox.grant("guide", |grants| grants.ui = true).build().await;
    sandbox.write("a.csv", "name,size\nada,1\nbob,2\n");
    assert_eq!(sandbox.text("count_lines", json!({ "path": "a.csv" })).await, "3 lines");
    let output = sandbox.call("count_lines", json!({ "path": "a.csv", "text": "b" })).await.unwrap();
    assert_eq!(output.details, Some(json!({ "lines": 1 })));
    assert_eq!(sandbox.text("first_cell", json!({ "path": "a.csv", "column": 1 })).await, "size");
    let error = sandbox.error("first_cell", json!({ "path": "a.csv", "column": 2 })).await;
    assert!(error.contains("no column 2: the file has 2 columns, from 0"), "{error}");
    assert!(sandbox.error("first_cell", json!({ "path": "b.csv", "column": 0 })).await.contains("`b.csv`: "));
    sandbox.write("doc/start.md", "# Start");
    assert_eq!(sandbox.text("handbook", json!({ "page": "start" })).await, "# Start");
    assert!(sandbox.error("introduce", json!({})).await.contains("nobody can answer"));
    let actions = sandbox.runtime.run_command("count", "a.csv", "s", None, CancellationToken::new()).await.unwrap();
    assert!(matches!(&actions[..], [HostAction::Submit(text)] if text == "Count the lines of a.csv with count_lines."));
}

#[tokio::test]
async fn snippets_about_programs_and_stored_values_run() {
    let storage = tempfile::tempdir().unwrap();
    let sandbox =
        SandboxBuilder::default().guest("guide").trust("guide").storage("guide", storage.path(), 1 << 20).build().await;
    assert_eq!(sandbox.text("sorted", json!({ "text": "b\na\nc\n" })).await, "a\nb\nc\n");
    assert_eq!(sandbox.text("remember", json!({ "text": "one" })).await, "1 facts");
    assert_eq!(sandbox.text("remember", json!({ "text": "two" })).await, "2 facts");
    // No secret was granted, and no server.
    assert!(sandbox.error("run_tests", json!({})).await.contains("secret"));
    assert!(sandbox.error("latest_release", json!({})).await.contains("https://api.github.com"));
}

#[tokio::test]
async fn snippet_about_changing_tools_runs() {
    let sandbox = SandboxBuilder::default().guest("guide_session").build().await;
    assert_eq!(sandbox.text("new_list", json!({ "name": "risks" })).await, "created risks");
    let is_offered = || sandbox.runtime.definitions().iter().any(|tool| tool.name == "list_risks");
    until("the new list is a tool", is_offered).await;
    assert_eq!(sandbox.text("list_risks", json!({})).await, "the list risks is empty");
}

#[test]
fn snippets_about_hooks_run() {
    hooks_run(&Pinion::default(), "guide", &guest("guide"));
}

/// Hooks restrict the calls of a run, and add to its prompts.
pub(crate) fn hooks_run(pinion: &Pinion, name: &str, plugin: &Path) {
    pinion.config(&format!("[plugins.{name}.grants]\nhooks = true\n"));
    let bash = |command: &str| json!({ "tool": "bash", "arguments": { "command": command } });
    let calls = json!([bash("echo ran > production"), bash("echo db.internal.example")]);
    let script = pinion.script(&[json!({ "calls": calls }), json!({ "text": "done" })]);
    let base = ["-p", "--plugin", plugin.to_str().unwrap(), "--replay", script.to_str().unwrap()];
    let ended = pinion.run(base.iter().chain(&["--approve", "all", "--output-format", "stream-json", "deploy it"]));
    assert!(ended.stdout.contains("this command names the production system"), "{ended:?}");
    assert!(!pinion.workspace().join("production").exists());
    assert!(ended.stdout.contains("db.[internal]"), "{ended:?}");
    assert!(ended.stdout.contains("Deployments are frozen until Monday."), "{ended:?}");
}

/// Returns a snippet of the guide in another language than Rust.
pub(crate) fn snippet(file: &str) -> String {
    let code = fs::read_to_string(root().join("tests/fixtures/guide").join(file)).unwrap();
    let language = match file.split_once('.').unwrap().1 {
        "py" => "python",
        suffix => suffix,
    };
    assert!(blocks(language).contains(&code), "the guide has another text than `tests/fixtures/guide/{file}`");
    let most = if ["js", "python"].contains(&language) { 25 } else { 40 };
    let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= most, "{file}: {lines} lines");
    code
}

/// Returns the lines of `world.wit` that the guide has for snippets with this word.
pub(crate) fn lines_of_world(word: &str) -> String {
    blocks("wit").into_iter().find(|block| block.contains(word)).unwrap()
}

/// Creates and builds a project with this code, in place of the one that it is created with.
fn project(language: &str, code: &str, world: &str, about: &[(&str, &str)]) -> (Pinion, PathBuf) {
    let pinion = author();
    assert_eq!(run(&pinion, ["plugin", "new", "facts", "--lang", language]).code, Some(0));
    let file = pinion.workspace().join("facts/src").join(if language == "js" { "plugin.js" } else { "plugin.py" });
    fs::write(file, code).unwrap();
    let change = |file: &str, changes: &[(&str, &str)]| {
        let text = fs::read_to_string(pinion.workspace().join(file)).unwrap();
        pinion.write(file, changes.iter().fold(text, |text, (from, to)| text.replacen(from, to, 1)));
    };
    change("facts/wit/world.wit", &[("  import", &format!("  {world}  import"))]);
    change("facts/pinion-plugin.toml", about);
    let built = run(&pinion, ["plugin", "build", "facts"]);
    assert_eq!(built.code, Some(0), "{built:?}");
    let component = pinion.workspace().join("facts/build/facts.wasm");
    (pinion, component)
}

/// The guide's errors with content, in tools whose text is `line 1` and `line 2`.
const FAILURES: [(&str, &str); 2] = [
    (
        "js",
        "throw new ToolError('failed', 'exit code 1', { content: output, details: { code: 1 }, display: 'code:sh' });",
    ),
    ("python", r#"raise ToolError("exit code 1", content=output, details={"code": 1}, display="code:sh")"#),
];

/// A failure has its content, details and display, and a failure of another tool keeps them on its way through a
/// plugin.
pub(crate) fn failures_have_content(pinion: &Pinion, plugin: &Path) {
    pinion.config("[plugins.facts.grants]\ninvoke = true\n");
    let shell = |command: &str| call("shell", json!({ "command": command }));
    let script = [shell("echo out; exit 3"), shell("echo well"), call("fail", json!({})), say("done")];
    let script = pinion.script(&script);
    let base = ["-p", "--plugin", plugin.to_str().unwrap(), "--replay", script.to_str().unwrap()];
    let ended = pinion.run(base.iter().chain(&["--approve", "all", "--output-format", "stream-json", "go"]));
    let events = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events: Vec<Value> = events.filter(|event| event["type"] == "tool_execution_end").collect();
    let of = |tool: &str| events.iter().filter(|event| event["tool"] == tool).collect::<Vec<_>>();
    let ([relayed, well], [bash, _], [failed]) = (&of("shell")[..], &of("bash")[..], &of("fail")[..]) else {
        panic!("{ended:?}")
    };
    assert_eq!((&relayed["is_error"], &relayed["content"]), (&json!(true), &bash["content"]), "{ended:?}");
    assert_eq!((&relayed["details"], &bash["details"]["exit_code"]), (&bash["details"], &json!(3)), "{ended:?}");
    assert_eq!((&well["is_error"], &well["content"][0]["text"]), (&json!(false), &json!("well")), "{ended:?}");
    assert_eq!((&failed["is_error"], &failed["details"]), (&json!(true), &json!({ "code": 1 })), "{ended:?}");
    assert_ne!(failed["display"], json!({ "kind": "plain" }), "{ended:?}");
    let text = failed["content"].to_string();
    assert!(text.contains("line 1") && text.contains("line 2") && !text.contains("exit code"), "{ended:?}");
}

/// The snippets about values and hooks are one plugin, with tools that show how failures of the host arrive.
///
/// Returns the component; `None` if there is no toolchain.
fn keeps_values_and_has_hooks(language: &str, suffix: &str, tools: &str, more: &str) -> Option<(Pinion, PathBuf)> {
    let code = [snippet(&format!("facts.{suffix}")), snippet(&format!("guards.{suffix}"))].join("\n");
    let (_, failure) = FAILURES.into_iter().find(|(name, _)| *name == language).unwrap();
    assert!(blocks(language).contains(&format!("{failure}\n")), "the guide has another failure than `{failure}`");
    if !is_there(language) {
        return None;
    }
    let world =
        [&lines_of_world("storage"), &lines_of_world("before-tool-call"), "import pinion:plugin/invoke@0.1.0;\n"];
    let world = format!("{}import pinion:plugin/http@0.1.0;\n", world.map(str::to_owned).concat());
    let asks = r#"asks = { files = "read", storage = true, hooks = true, invoke = true, http = true }"#;
    let about = [("asks = { files = \"read\" }", asks), ("lifetime = \"session\"", "lifetime = \"reused\"")];
    let code = format!("{}{more}", code.replace("  tools: {\n", &format!("  tools: {{\n{tools}")));
    let code = code.replace("FAILURE", failure);
    let (pinion, component) = project(language, &code, &world, &about);
    let file = component.to_str().unwrap();
    let call = |tool: &str, input: Value, more: &[&str]| {
        run(&pinion, ["plugin", "call", file, tool, &input.to_string(), "--json"].iter().chain(more))
    };
    let text = |ended: &Ended| -> Value { serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}")) };
    let remember = |fact: &str, more: &[&str]| call("remember", json!({ "text": fact }), more);
    assert_eq!(text(&remember("grün", &["--grant", "storage"]))["text"], "1 facts\n");
    assert_eq!(text(&remember("two", &["--grant", "storage"]))["text"], "2 facts\n");
    let denied = remember("three", &[]);
    assert!(denied.code == Some(1) && denied.stderr.contains("denied"), "{denied:?}");
    // The error of another tool is a record, a failure of the network a case with one.
    let error = |ended: Ended| text(&ended)["error"].as_str().unwrap_or_else(|| panic!("{ended:?}")).to_owned();
    let relayed = error(call("relay", json!({}), &["--grant", "invoke"]));
    assert_eq!(relayed, "`relay`: denied: no tools can be called here: the call belongs to no conversation");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let grant = format!("http=http://127.0.0.1:{port}");
    let fetched = error(call("status", json!({ "url": format!("http://127.0.0.1:{port}/") }), &["--grant", &grant]));
    assert!(fetched.starts_with("`status`: could not connect") && !fetched.contains("equest"), "{fetched}");
    hooks_run(&pinion, "facts", &component);
    failures_have_content(&pinion, &component);
    Some((pinion, component))
}

#[test]
fn snippets_in_javascript_keep_values_and_guard_calls() {
    let tools = r#"    relay: { description: 'Calls a tool.', run: () => callTool('nope', '{}').content },
    status: {
      description: 'Asks a server.',
      input: { url: string('A URL') },
      effects: ['network'],
      run: ({ url }) => `${send({ method: 'GET', url, headers: [], body: new Uint8Array() }).status}`,
    },
    promise: { description: 'Promises.', run: async () => 'late' },
    shell: {
      description: 'Runs a command.',
      input: { command: string('A command') },
      effects: ['executes', 'destructive'],
      run: ({ command }) => callTool('bash', JSON.stringify({ command })).content,
    },
    fail: {
      description: 'Fails.',
      run() {
        const output = ['line 1', { tag: 'text', val: 'line 2' }];
        FAILURE
      },
    },
"#;
    let imports = "import { callTool } from 'pinion:plugin/invoke@0.1.0';\n\
                   import { send } from 'pinion:plugin/http@0.1.0';\n\
                   import { ToolError } from './pinion/index.js';\n";
    let Some((pinion, component)) = keeps_values_and_has_hooks("js", "js", tools, imports) else { return };
    let promised = run(&pinion, ["plugin", "call", component.to_str().unwrap(), "promise"]);
    assert!(
        promised.code == Some(1) && promised.stderr.contains("functions of a plugin must not be async"),
        "{promised:?}"
    );
}

/// Commands see the workspace, too.
#[tokio::test]
async fn snippets_in_python_keep_values_and_guard_calls() {
    let more = r#"
from pinion import Output, ToolError, command
from wit_world.imports import http, invoke, types


@tool(executes=True, destructive=True)
def shell(call: Call, command: str):
    """Runs a command."""
    return Output(invoke.call_tool("bash", json.dumps({"command": command})).content)


@tool()
def fail(call: Call):
    """Fails."""
    output = ["line 1", types.Content_Text("line 2")]
    FAILURE


@tool(delegates=True)
def relay(call: Call):
    """Calls a tool."""
    return str(invoke.call_tool("nope", "{}"))


@tool(network=True)
def status(call: Call, url: str):
    """Asks a server."""
    request = http.Request(method="GET", url=url, headers=[], body=b"", credential=None, timeout_ms=None,
                           max_redirects=None, max_body=None, extra=None)
    return str(http.send(request).status)


@command()
def show_note(call: Call, name):
    """Show a file of the workspace"""
    call.progress(f"opening {name}")
    return open(name).read()
"#;
    let Some((_pinion, component)) = keeps_values_and_has_hooks("python", "py", "", more) else { return };
    let sandbox = SandboxBuilder::default().file(component).files("facts", ".", FileAccess::Read).build().await;
    sandbox.write("note.txt", "relative");
    let shown =
        sandbox.runtime.run_command("show-note", "note.txt", "s", None, CancellationToken::new()).await.unwrap();
    assert!(matches!(&shown[..], [HostAction::Print(text)] if text == "relative"), "{shown:?}");
}

#[test]
fn settings_in_the_guide_are_valid() {
    let configs: Vec<String> = blocks("toml").into_iter().filter(|block| block.starts_with("[plugins.")).collect();
    assert!(!configs.is_empty());
    let pinion = Pinion::default();
    pinion.config(&configs.concat());
    let listed = pinion.run(["plugin", "list"]);
    assert!(listed.code == Some(0) && !listed.stderr.contains("unknown"), "{listed:?}");
}

#[test]
fn guide_covers_every_interface_and_every_command() {
    let guide = guide();
    let entries = ["wit", "wit/hooks"].into_iter().flat_map(|directory| fs::read_dir(root().join(directory)).unwrap());
    for file in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let text = fs::read_to_string(file).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("interface ")) {
            let name = line.trim_end_matches([' ', '{']);
            let row = |line: &str| line.starts_with('|') && line.contains(&format!("`{name}`"));
            assert!(name == "types" || guide.lines().any(row), "the guide has no row for the interface `{name}`");
        }
    }
    let help = Pinion::default().run(["plugin", "--help"]).stdout;
    let commands = help.split("Commands:\n").nth(1).unwrap().lines().take_while(|line| !line.is_empty());
    // Descriptions go on in lines that are indented further.
    let commands = commands.filter(|line| !line.starts_with("   "));
    let table = guide.split("## Commands of `pinion plugin`").nth(1).unwrap();
    for command in commands.map(|line| line.split_whitespace().next().unwrap()).filter(|name| *name != "help") {
        assert!(table.contains(&format!("`{command}`")), "the guide has no row for `pinion plugin {command}`");
    }
}

/// The limits that the guide lists have the defaults that it says.
#[test]
fn limits_in_the_guide_are_those_of_the_runtime() {
    let limits = fs::read_to_string(root().join("host/plugin-limits/src/limits.toml")).unwrap();
    let default = limits.split("[default]").nth(1).unwrap().split("[ceiling]").next().unwrap();
    let value = |key: &str| {
        let line = default.lines().find_map(|line| line.strip_prefix(&format!("{key} = "))).unwrap();
        line.replace('_', "").parse::<u64>().unwrap()
    };
    let guide = guide();
    let has = |key: &str, text: &str| {
        guide.lines().any(|line| line.starts_with('|') && line.contains(&format!("`{key}`")) && line.contains(text))
    };
    assert!(value("deadline-ms") == 120_000 && has("deadline-ms", "120 s"));
    assert!(value("fuel") == 200_000_000_000 && has("fuel", "200 billion"));
    assert!(value("memory-bytes") == 256 << 20 && has("memory-bytes", "256 MiB"));
    assert!(value("output-bytes") == 32 << 20 && has("output-bytes", "32 MiB"));
    assert!(value("bytes-written") == 1 << 30 && has("bytes-written", "1 GiB"));
    assert!(value("file-bytes") == 1 << 30 && has("file-bytes", "1 GiB"));
    assert!(value("programs") == 1_000 && has("programs", "1,000"));
    assert!(value("requests") == 1_000 && has("requests", "1,000"));
}

/// The workflow cannot be tried here, and neither can mdbook, which has to be installed.
#[test]
fn documentation_site_has_what_it_links() {
    let workflow = document(".github/workflows/docs.yml").text;
    assert!(workflow.contains("run: .ci/docs target/site\n") && workflow.contains("path: target/site\n"));
    let script = document(".ci/docs").text;
    assert!(script.contains("mdbook build") && document("book.toml").text.contains("src = \"docs\"\n"));
    // The script adds the generated reference to the summary, after this page.
    assert!(
        script.contains("/(plugins\\/contract.md)/a")
            && document("docs/SUMMARY.md").text.contains("(plugins/contract.md)")
    );
    let manifest = document("Cargo.toml").text;
    let crates = script.split("href=\"pinion_").skip(1).map(|rest| rest.split('/').next().unwrap());
    let crates: Vec<String> = crates.map(|name| format!("\npinion-{} = {{ path", name.replace('_', "-"))).collect();
    assert!(crates.len() > 5 && crates.iter().all(|name| manifest.contains(name)), "{crates:?}");
}
