//! Questions of plugins to the client's user and model.

use super::{Client, GRANTS, conformant, meta, text, with};
use pinion_tests::{Pinion, guest};
use serde_json::{Value, json};

#[test]
fn dialog_of_a_plugin_is_an_elicitation() {
    let pinion = Pinion::default();
    pinion.config(GRANTS);
    let guest = guest("conformant");
    let arguments = ["--plugin", guest.to_str().unwrap(), "--no-builtin-plugins"];
    let mut client = Client::initialized(&pinion, &arguments, json!({ "elicitation": {} }));
    let id = client.begin("tools/call", json!({ "name": "test_elicitation", "arguments": {} }));
    let question = client.question();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert!(question["params"]["message"].as_str().unwrap().starts_with("The plugin conformant asks: Who are you?"));
    let result = json!({ "action": "accept", "content": { "value": "Ada" } });
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
    assert_eq!(text(&client.answer(id)["result"]), "Ada");
    // Without the capability, the user is not asked.
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
fn form_with_several_fields_is_one_elicitation() {
    let pinion = Pinion::default();
    pinion.config(GRANTS);
    let guest = guest("conformant");
    let arguments = ["--plugin", guest.to_str().unwrap(), "--no-builtin-plugins"];
    let mut client = Client::initialized(&pinion, &arguments, json!({ "elicitation": {} }));
    let id = client.begin("tools/call", json!({ "name": "test_elicitation_sep1034_defaults", "arguments": {} }));
    let mut ask = |answer: Value| {
        let question = client.question();
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
    let question = client.question();
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

#[test]
fn client_that_only_opens_pages_is_asked_nothing() {
    let pinion = Pinion::default();
    let arguments = conformant(&pinion);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut client = Client::initialized(&pinion, &arguments, json!({ "elicitation": { "url": {} } }));
    let refused = client.request("tools/call", json!({ "name": "test_elicitation", "arguments": {} }));
    assert_eq!((&refused["error"]["code"], client.other.len()), (&json!(-32021), 0), "{refused}");
}

#[test]
fn several_questions_come_in_one_result_and_are_answered_one_by_one() {
    let pinion = Pinion::default();
    let arguments = conformant(&pinion);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut client = Client::start(&pinion, &arguments);
    let base = json!({ "name": "test_input_required_result_multiple_inputs", "arguments": {},
                       "_meta": meta(json!({ "elicitation": {}, "sampling": {}, "roots": {} })) });
    let first = client.request("tools/call", base.clone())["result"].clone();
    let methods: Vec<&Value> =
        ["user_name", "greeting", "client_roots"].map(|name| &first["inputRequests"][name]["method"]).to_vec();
    assert_eq!(methods, ["elicitation/create", "sampling/createMessage", "roots/list"], "{first}");
    let message = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Good day" } });
    let partly = json!({ "inputResponses": {
        "greeting": message, "user_name": { "action": "accept", "content": { "name": 5 } } },
        "requestState": first["requestState"] });
    let second = client.request("tools/call", with(base.clone(), partly))["result"].clone();
    let open: Vec<&String> = second["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(open, ["client_roots"], "{second}");
    let roots = json!({ "roots": [{ "uri": "file:///home/ada", "name": "Ada's" }] });
    let roots = json!({ "inputResponses": { "client_roots": roots }, "requestState": second["requestState"] });
    // The values do not match the schema.
    let third = client.request("tools/call", with(base.clone(), roots))["result"].clone();
    let again = &third["inputRequests"]["user_name-2"]["params"]["message"];
    assert!(again.as_str().is_some_and(|text| text.ends_with("name: it has another type")), "{third}");
    let name = json!({ "inputResponses": { "user_name-2": { "action": "accept", "content": { "name": "Ada" } } },
                       "requestState": third["requestState"] });
    let done = client.request("tools/call", with(base, name))["result"].clone();
    let expected = ["Good day", r#"{"name":"Ada"}"#, "file:///home/ada"];
    assert!(expected.iter().all(|part| text(&done).contains(part)), "{done}");
}

#[test]
fn older_client_is_asked_for_its_directories_by_a_request() {
    let pinion = Pinion::default();
    let arguments = conformant(&pinion);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut client = Client::initialized(&pinion, &arguments, json!({ "roots": {} }));
    let id = client.begin("tools/call", json!({ "name": "test_input_required_result_list_roots", "arguments": {} }));
    let question = client.answer_question(json!({ "roots": [{ "uri": "file:///home/ada" }] }));
    assert_eq!(question["method"], "roots/list");
    assert!(text(&client.answer(id)["result"]).contains("file:///home/ada"));
    let mut silent = Client::initialized(&pinion, &arguments, json!({}));
    let params = json!({ "name": "test_input_required_result_list_roots", "arguments": {} });
    assert_eq!(silent.request("tools/call", params)["error"]["code"], -32021);
}

/// A conversation has no client: it answers by itself.
#[test]
fn directories_of_a_conversation_are_its_workspace() {
    let pinion = Pinion::default();
    pinion.config(GRANTS);
    let call = json!({ "tool": "test_input_required_result_list_roots", "arguments": {} });
    let script = pinion.script(&[json!({ "calls": [call] }), json!({ "text": "done" })]);
    let plugin = guest("conformant");
    let base = ["-p", "--plugin", plugin.to_str().unwrap(), "--replay", script.to_str().unwrap()];
    let ended = pinion.run(base.iter().chain(&["--output-format", "stream-json", "go"]));
    let workspace = format!("file://{}", pinion.workspace().display());
    assert!(ended.code == Some(0) && ended.stdout.contains(&workspace), "{ended:?}");
}
