//! Questions of MCP servers in a conversation on the terminal.

use pinion_tests::{Pinion, Terminal, call, say};
use serde_json::{Value, json};

/// A server of protocol 2025-11-25 in shell, which asks `QUESTION` during each call, keeps the answer, and then
/// replies. With `PAGE`, it refuses the first call until the user visits a page.
const SERVER: &str = r#"
said() { printf '%s\n' "$1"; }
while IFS= read -r line; do
  id=${line#*'"id":'}; id=${id%%,*}; id=${id%\}}
  case $line in
    *server/discover*) said '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
    *'"method":"initialize"'*) said '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}' ;;
    *tools/list*) said '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}}' ;;
    *tools/call*)
      calling=$id
      if [ -n "$PAGE" ] && [ ! -e visited ]; then
        : > visited
        said '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32042,"message":"no","data":{"elicitations":['"$PAGE"']}}}'
      elif [ -n "$QUESTION" ]; then
        said '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":'"$QUESTION"'}'
      else
        said '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"thanks"}]}}'
      fi ;;
    *'"id":"q"'*)
      said "$line" > answer
      said '{"jsonrpc":"2.0","id":'$calling',"result":{"content":[{"type":"text","text":"thanks"}]}}' ;;
  esac
done
"#;

/// Starts a conversation whose model calls the server once.
fn conversation(pinion: &Pinion, variable: &str, question: &Value) -> Terminal {
    pinion.config("[sandbox]\nmode = \"off\"\n");
    pinion.write("server.sh", SERVER);
    let variable = format!("{variable}={question}");
    let added = pinion.run(["mcp", "add", "own", "--env", &variable, "--", "sh", "server.sh"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let tested = pinion.run(["mcp", "test", "own"]);
    assert_eq!(tested.code, Some(0), "{tested:?}");
    let script = pinion.script(&[call("own__ask", json!({})), say("finished")]);
    let command = pinion.command(["--approve", "all", "--replay", script.to_str().unwrap(), "go"]);
    Terminal::start(&command, (100, 60), "")
}

fn answer(pinion: &Pinion) -> Value {
    serde_json::from_str(&std::fs::read_to_string(pinion.workspace().join("answer")).unwrap()).unwrap()
}

#[test]
fn form_of_a_server_is_asked_for_until_its_values_fit() {
    let pinion = Pinion::default();
    let properties = json!({
        "age": { "type": "integer", "minimum": 18, "maximum": 99 },
        "colours": { "type": "array", "items": { "type": "string", "enum": ["red", "green", "blue"] }, "minItems": 1 },
        "mail": { "type": "string", "format": "email" },
    });
    let schema = json!({ "type": "object", "properties": properties, "required": ["age", "colours", "mail"] });
    let form = json!({ "message": "About you", "requestedSchema": schema });
    let mut terminal = conversation(&pinion, "QUESTION", &form);
    const KEYS: &str = "text and enter";
    let seen = terminal.wait_for(KEYS);
    assert!(seen.contains("? MCP server own asks you; this grants nothing:") && seen.contains("About you"), "{seen}");
    for (entered, then) in [
        ("5", "it must be an integer from 18 to 99"),
        ("20", "Any of these, with commas between them: red, green, blue"),
        ("red, blue", "mail"),
        ("x", "it must be an email address"),
    ] {
        terminal.keys(entered);
        terminal.wait_for(&format!("› {entered}"));
        terminal.keys("\r");
        terminal.wait_for_then(then, KEYS);
    }
    // Enter within a paste does not count.
    terminal.keys("ann@example.org");
    terminal.wait_for("› ann@example.org");
    terminal.keys("\r");
    terminal.wait_for("finished");
    terminal.exit();
    let content = json!({ "age": 20, "colours": ["red", "blue"], "mail": "ann@example.org" });
    assert_eq!(answer(&pinion)["result"], json!({ "action": "accept", "content": content }));
}

#[test]
fn form_that_cannot_be_shown_is_refused_with_the_reason() {
    let pinion = Pinion::default();
    let properties = json!({ "age": { "type": "integer" } });
    let schema = json!({ "type": "object", "properties": properties, "required": ["name"] });
    let terminal = conversation(&pinion, "QUESTION", &json!({ "message": "About you", "requestedSchema": schema }));
    terminal.wait_for("finished");
    let (_, seen) = terminal.exit();
    assert!(!seen.contains("asks you"), "{seen}");
    let message = answer(&pinion)["error"]["message"].clone();
    assert_eq!(message, "the form cannot be shown: the required property `name` is not described");
}

#[test]
fn address_is_shown_before_the_words_of_the_server() {
    let pinion = Pinion::default();
    let address = "https://evil.example/pay?sum=1";
    let page = json!({ "mode": "url", "elicitationId": "1", "url": address, "message": "Please pay. ".repeat(200) });
    let mut terminal = conversation(&pinion, "QUESTION", &page);
    let seen = terminal.wait_for("[ctrl+x] no dialogs");
    let (before, _) = seen.split_once("Please pay.").unwrap_or((&seen, ""));
    assert!(before.contains("Open this page of evil.example in the browser?") && before.contains(address), "{seen}");
    terminal.keys("n");
    terminal.wait_for("finished");
    terminal.exit();
    assert_eq!(answer(&pinion)["result"], json!({ "action": "decline" }));
}

#[test]
fn call_that_needs_a_page_is_made_again_after_the_visit() {
    let pinion = Pinion::default();
    let address = "https://mcp.example/connect?e=1";
    let page = json!({ "mode": "url", "elicitationId": "1", "url": address, "message": "Authorize." });
    let mut terminal = conversation(&pinion, "PAGE", &page);
    terminal.wait_for_nth("[ctrl+x] no dialogs", 1);
    terminal.keys("y");
    terminal.wait_for("Are you done there");
    terminal.wait_for_nth("[ctrl+x] no dialogs", 2);
    terminal.keys("y");
    terminal.wait_for("finished");
    let (_, seen) = terminal.exit();
    assert!(seen.contains("thanks"), "{seen}");
}
