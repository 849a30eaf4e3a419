//! Tools of plugins as resources.

use super::{Client, conformant, meta, text, with};
use pinion_tests::{Pinion, guest};
use serde_json::{Value, json};

fn started(pinion: &Pinion) -> Client {
    let arguments = conformant(pinion);
    Client::initialized(pinion, &arguments.each_ref().map(String::as_str), json!({}))
}

/// Grants a plugin whose resources change the access that it asks for. The grants are bound to it by its first load.
fn shelf(pinion: &Pinion) -> String {
    pinion.config("[plugins.shelf.grants]\nfiles = { \".\" = \"write\" }\n");
    let shelf = guest("shelf").to_str().unwrap().to_owned();
    let called = pinion.run(["plugin", "call", &shelf, "shelve", r#"{"text": "x"}"#]);
    assert_eq!(called.code, Some(0), "{called:?}");
    shelf
}

fn read(client: &mut Client, uri: &str) -> Value {
    client.request("resources/read", json!({ "uri": uri }))
}

#[test]
fn resources_are_listed_and_read_by_calls_of_their_tools() {
    let pinion = Pinion::default();
    let mut client = started(&pinion);
    let listed = client.request("resources/list", json!({}))["result"]["resources"].clone();
    let listed: Vec<_> = listed.as_array().unwrap().iter().map(|resource| resource["uri"].clone()).collect();
    let expected =
        ["test://static-text", "test://static-binary", "test://watched-resource", "test://sound", "test://broken"];
    assert_eq!(listed, expected);
    let templates = client.request("resources/templates/list", json!({}))["result"]["resourceTemplates"].clone();
    let template = json!([{ "uriTemplate": "test://template/{id}/data", "name": "template", "title": "template",
                            "description": "The data of an id.", "mimeType": "application/json" }]);
    assert_eq!(templates, template);
    let mut content = |uri: &str| read(&mut client, uri)["result"]["contents"][0].clone();
    let words = "This is the content of the static text resource.";
    let expected = json!({ "uri": "test://static-text", "mimeType": "text/plain", "text": words });
    assert_eq!(content("test://static-text"), expected);
    let picture = content("test://static-binary");
    assert!(picture["mimeType"] == "image/png" && picture["blob"].as_str().unwrap().starts_with("iVBOR"), "{picture}");
    let sound = content("test://sound");
    assert!(sound["mimeType"] == "audio/wav" && sound["blob"].as_str().unwrap().starts_with("UklGR"), "{sound}");
    let data = content("test://template/a%2F..%20b/data");
    assert!(data["text"].as_str().unwrap().contains("\"id\":\"a/.. b\""), "{data}");
    assert_eq!(data["uri"], "test://template/a%2F..%20b/data");
}

#[test]
fn tool_that_is_only_a_resource_cannot_be_called() {
    let pinion = Pinion::default();
    let mut client = started(&pinion);
    let tools = client.tools();
    assert!(tools.contains(&"sound".to_owned()) && !tools.contains(&"static_text".to_owned()), "{tools:?}");
    let called = client.request("tools/call", json!({ "name": "static_text", "arguments": {} }));
    assert_eq!(called["error"]["code"], -32602, "{called}");
    assert_eq!(text(&client.call("sound", json!({}))), "A sound.");
    // A model does not see it, and the author can call it.
    let script =
        pinion.script(&[json!({ "calls": [{ "tool": "static_text", "arguments": {} }] }), json!({ "text": "." })]);
    let plugin = guest("conformant");
    let base = ["-p", "--plugin", plugin.to_str().unwrap(), "--replay", script.to_str().unwrap()];
    let ended = pinion.run(base.iter().chain(&["--output-format", "stream-json", "go"]));
    assert!(ended.stdout.contains("no tool `static_text`"), "{ended:?}");
    let called = pinion.run(["plugin", "call", plugin.to_str().unwrap(), "static_text", "{}"]);
    assert!(called.stdout.contains("static text resource"), "{called:?}");
}

#[test]
fn errors_of_reading_name_the_address() {
    let pinion = Pinion::default();
    let mut client = started(&pinion);
    for uri in ["test://other", "test://template//data", "test://template/1/2/data", "file:///etc/passwd", ""] {
        let missing = read(&mut client, uri);
        assert_eq!((&missing["error"]["code"], &missing["error"]["data"]["uri"]), (&json!(-32002), &json!(uri)));
    }
    let broken = read(&mut client, "test://broken");
    assert!(broken["error"]["message"].as_str().unwrap().contains("it is broken"), "{broken}");
    assert_eq!(broken["error"]["data"]["uri"], "test://broken");
    let stateless = json!({ "uri": "test://other", "_meta": meta(json!({})) });
    assert_eq!(client.request("resources/read", stateless)["error"]["code"], -32602);
    // Reading is a call: rules, modes and `--tools` hold, and the audit log has it.
    let mut limited = conformant(&pinion).to_vec();
    limited.extend(["--tools".to_owned(), "static_binary".to_owned()]);
    let limited: Vec<&str> = limited.iter().map(String::as_str).collect();
    let mut limited = Client::initialized(&pinion, &limited, json!({}));
    assert_eq!(read(&mut limited, "test://static-text")["error"]["code"], -32002);
    assert_eq!(read(&mut limited, "test://static-binary")["result"]["contents"][0]["mimeType"], "image/png");
    let log = pinion.run(["audit", "--json"]).stdout;
    assert!(log.lines().any(|line| line.contains("\"decision\"") && line.contains("static_binary")), "{log}");
}

#[test]
fn reading_a_resource_with_effects_needs_approval() {
    let pinion = Pinion::default();
    let shelf = shelf(&pinion);
    let arguments = ["--plugin", shelf.as_str(), "--no-builtin-plugins"];
    let mut silent = Client::initialized(&pinion, &arguments, json!({}));
    assert_eq!(read(&mut silent, "shelf://visits")["error"]["code"], -32002, "it writes, and nobody can be asked");
    let mut client = Client::initialized(&pinion, &arguments, json!({ "elicitation": {} }));
    let mut visit = |allow: bool| {
        let id = client.begin("resources/read", json!({ "uri": "shelf://visits" }));
        let question = client.answer_question(json!({ "action": "accept", "content": { "allow": allow } }));
        assert!(question["params"]["message"].as_str().unwrap().contains("It writes files"), "{question}");
        client.answer(id)
    };
    assert!(visit(false)["error"]["message"].as_str().unwrap().contains("the user denied it"));
    assert!(!pinion.workspace().join("visits").exists());
    assert_eq!(visit(true)["result"]["contents"][0]["text"], "1 visits");
}

#[test]
fn client_hears_of_resources_that_change() {
    let pinion = Pinion::default();
    let shelf = shelf(&pinion);
    let arguments = ["--plugin", shelf.as_str(), "--no-builtin-plugins", "--approve", "all"];
    let mut client = Client::initialized(&pinion, &arguments, json!({}));
    let subscribe = |client: &mut Client, method: &str, uri: &str| client.request(method, json!({ "uri": uri }));
    assert_eq!(subscribe(&mut client, "resources/subscribe", "shelf://book")["result"], json!({}));
    assert_eq!(subscribe(&mut client, "resources/subscribe", "shelf://none")["error"]["code"], -32002);
    let next = |client: &mut Client| match client.other.is_empty() {
        true => client.read(),
        false => client.other.remove(0),
    };
    client.call("shelve", json!({ "text": "one" }));
    let updated = next(&mut client);
    assert_eq!(
        (&updated["method"], &updated["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("shelf://book"))
    );
    assert_eq!(read(&mut client, "shelf://book")["result"]["contents"][0]["text"], "one");
    assert_eq!(subscribe(&mut client, "resources/unsubscribe", "shelf://book")["result"], json!({}));
    client.call("shelve", json!({ "text": "two" }));
    client.call("add_page", json!({ "text": "notes" }));
    let listed = next(&mut client);
    assert_eq!(listed["method"], "notifications/resources/list_changed", "{listed}");
    assert_eq!(read(&mut client, "shelf://notes")["result"]["contents"][0]["text"], "notes");
}

#[test]
fn stateless_client_hears_of_what_it_listens_to() {
    let pinion = Pinion::default();
    let shelf = shelf(&pinion);
    let arguments = ["--plugin", shelf.as_str(), "--no-builtin-plugins", "--approve", "all"];
    let mut client = Client::start(&pinion, &arguments);
    let wanted = json!({ "resourceSubscriptions": ["shelf://book", "shelf://none"], "resourcesListChanged": true });
    let base = json!({ "_meta": meta(json!({})) });
    client.begin("subscriptions/listen", with(base.clone(), json!({ "notifications": wanted })));
    let accepted = client.read();
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged", "{accepted}");
    let call = |name: &str| with(base.clone(), json!({ "name": name, "arguments": { "text": "one" } }));
    client.request("tools/call", call("shelve"));
    let updated = if client.other.is_empty() { client.read() } else { client.other.remove(0) };
    assert_eq!(updated["params"]["uri"], "shelf://book", "{updated}");
    client.request("tools/call", call("add_page"));
    let listed = if client.other.is_empty() { client.read() } else { client.other.remove(0) };
    assert_eq!(listed["method"], "notifications/resources/list_changed", "{listed}");
}
