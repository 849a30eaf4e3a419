//! Request bodies for the Messages API.

use crate::support::{call, failed, png, reply, request, result, text, thinking, tool, user};
use jiff::Timestamp;
use pinion_protocol::{
    CachePolicy, Content, ExtensionMessage, Image, Message, Request, Thinking, ThinkingLevel, ToolCall, ToolChoice,
};
use pinion_providers::{ModelTable, anthropic};
use serde_json::{Value, json};

const OPUS: &str = "claude-opus-5-5";
const OLD: &str = "claude-haiku-4-5";

fn body(request: &Request) -> Value {
    let model = ModelTable::builtin().find("anthropic", &request.model);
    serde_json::from_slice(
        &anthropic::request_body(request, &model, "anthropic", &anthropic::AnthropicQuirks::ANTHROPIC).unwrap(),
    )
    .unwrap()
}

fn betas(request: &Request) -> Vec<&'static str> {
    anthropic::betas(request, &ModelTable::builtin().find("anthropic", &request.model))
}

/// Returns the messages without cache breakpoints.
fn messages(model: &str, messages: Vec<Message>) -> Value {
    let mut request = request(model, messages);
    request.options.cache = CachePolicy::Off;
    request.options.thinking = ThinkingLevel::High;
    body(&request)["messages"].clone()
}

#[test]
fn complete_request() {
    let mut request = request(
        OLD,
        vec![
            user(vec![Content::text("What is this?"), png()]),
            reply(
                "anthropic",
                "claude-haiku-4-5-20251001",
                vec![
                    thinking("A picture.", Some("sig")),
                    Content::text("Let me read."),
                    call("toolu_1", "read", json!({ "path": "a" })),
                ],
            ),
            result("toolu_1", vec![Content::text("hello"), png()]),
        ],
    );
    request.system = "Be brief.".into();
    request.tools = vec![tool("list"), tool("read")];
    request.options.thinking = ThinkingLevel::Medium;
    let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "cG5n" } });
    let ephemeral = json!({ "type": "ephemeral" });
    let expected = json!({
        "model": "claude-haiku-4-5",
        "max_tokens": 64_000,
        "stream": true,
        "system": [{ "type": "text", "text": "Be brief.", "cache_control": ephemeral }],
        "tools": [
            { "name": "list", "description": "Does list.", "input_schema": { "type": "object" } },
            { "name": "read", "description": "Does read.", "input_schema": { "type": "object" }, "cache_control": ephemeral },
        ],
        "thinking": { "type": "enabled", "budget_tokens": 8_192 },
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "What is this?" }, image] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "A picture.", "signature": "sig" },
                { "type": "text", "text": "Let me read." },
                { "type": "tool_use", "id": "toolu_1", "name": "read", "input": { "path": "a" }, "cache_control": ephemeral },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "toolu_1", "content": [{ "type": "text", "text": "hello" }, image] },
            ] },
        ],
    });
    assert_eq!(body(&request), expected);
    assert_eq!(betas(&request), ["interleaved-thinking-2025-05-14"]);
}

#[test]
fn plain_request_is_minimal() {
    let expected = json!({
        "model": "somebody's", "max_tokens": 8_192, "stream": true,
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hi" }] }],
    });
    assert_eq!(body(&request("somebody's", vec![text("hi")])), expected);
}

#[test]
fn cache_policy_sets_the_breakpoints() {
    let mut request = request(OLD, vec![text("a"), reply("anthropic", OLD, vec![Content::text("b")]), text("c")]);
    request.system = "s".into();
    request.tools = vec![tool("t")];
    let marks = |request: &Request| {
        let body = body(request);
        let marked = |pointer: &str| body.pointer(pointer).is_some();
        let system = marked("/system/0/cache_control");
        let messages = (0..3).filter(|at| marked(&format!("/messages/{at}/content/0/cache_control")));
        (system, marked("/tools/0/cache_control"), messages.collect::<Vec<_>>())
    };
    assert_eq!(marks(&request), (true, true, vec![1]));
    request.options.cache = CachePolicy::Off;
    assert_eq!(marks(&request), (false, false, vec![]));
    request.options.cache = CachePolicy::Manual { system: false, tools: true, messages: false };
    assert_eq!(marks(&request), (false, true, vec![]));
    request.options.cache = CachePolicy::Manual { system: true, tools: false, messages: true };
    assert_eq!(marks(&request), (true, false, vec![1]));
}

#[test]
fn messages_alternate_and_results_come_first() {
    let said = messages(
        OLD,
        vec![
            text("one"),
            reply("anthropic", OLD, vec![]),
            text("two"),
            reply("anthropic", OLD, vec![call("1", "read", json!({})), call("2", "read", json!({}))]),
            result("1", vec![Content::text("r1")]),
            text("also this"),
            result("2", vec![]),
        ],
    );
    let expected = json!([
        { "role": "user", "content": [{ "type": "text", "text": "one" }, { "type": "text", "text": "two" }] },
        { "role": "assistant", "content": [
            { "type": "tool_use", "id": "1", "name": "read", "input": {} },
            { "type": "tool_use", "id": "2", "name": "read", "input": {} },
        ] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "1", "content": [{ "type": "text", "text": "r1" }] },
            { "type": "tool_result", "tool_use_id": "2" },
            { "type": "text", "text": "also this" },
        ] },
    ]);
    assert_eq!(said, expected);
}

#[test]
fn content_that_the_vendor_rejects_is_omitted() {
    let extension = ExtensionMessage { kind: "x".to_owned(), data: json!(1), timestamp: Timestamp::UNIX_EPOCH };
    let unsigned = reply("anthropic", OLD, vec![thinking("only this", None)]);
    let only_thought = reply("anthropic", OLD, vec![thinking("only this", Some("s"))]);
    let blank = reply("anthropic", OLD, vec![Content::text(" \n")]);
    let said = messages(
        OLD,
        vec![text("a"), Message::Extension(extension), unsigned, only_thought, blank, text(""), text("b")],
    );
    assert_eq!(
        said,
        json!([{ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] }])
    );
}

#[test]
fn conversation_started_by_the_model_gets_an_opening() {
    let said = messages(OLD, vec![reply("anthropic", OLD, vec![Content::text("b")]), text("c")]);
    assert_eq!(said[0]["role"], "user");
    assert_eq!(said[1]["role"], "assistant");
}

#[test]
fn thinking_goes_back_only_to_the_model_that_wrote_it() {
    let thoughts = || {
        let redacted = Thinking { text: String::new(), signature: Some("opaque".to_owned()), redacted: true };
        vec![thinking("", Some("omitted")), Content::Thinking(redacted), thinking("unsigned", None), Content::text("a")]
    };
    let sent = |provider: &str, model: &str| {
        let said = messages(OPUS, vec![text("q"), reply(provider, model, thoughts()), text("r")]);
        said[1]["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["type"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(sent("anthropic", OPUS), ["thinking", "redacted_thinking", "text"]);
    assert_eq!(sent("anthropic", OLD), ["text"]);
    assert_eq!(sent("openai-chat", OPUS), ["text"]);
}

#[test]
fn invalid_arguments_still_make_a_valid_request() {
    let partial = ToolCall::from_stream("strange id".to_owned(), "read".to_owned(), "{\"pa".to_owned());
    let said = messages(
        OLD,
        vec![text("q"), reply("elsewhere", OLD, vec![Content::ToolCall(partial)]), failed("strange id", vec![])],
    );
    assert_eq!(said[1]["content"][0]["input"], json!({ "invalid": "{\"pa" }));
    let id = said[1]["content"][0]["id"].as_str().unwrap();
    assert!(id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    assert_eq!(said[2]["content"][0]["tool_use_id"], id);
}

#[test]
fn failed_result_contains_only_text() {
    let calls = vec![call("1", "read", json!({})), call("2", "read", json!({}))];
    let said = messages(
        OLD,
        vec![
            text("q"),
            reply("anthropic", OLD, calls),
            failed("1", vec![png(), Content::text("no")]),
            failed("2", vec![]),
        ],
    );
    let results = said[2]["content"].as_array().unwrap();
    assert!(results.iter().all(|result| result["is_error"] == json!(true)));
    let parts = results.iter().flat_map(|result| result["content"].as_array().unwrap());
    assert!(parts.into_iter().all(|part| part["type"] == "text" && part["text"] != ""));
}

#[test]
fn unsupported_images_become_text() {
    let bmp = Content::Image(Image { media_type: "image/bmp".to_owned(), data: vec![1] });
    assert_eq!(messages(OLD, vec![user(vec![bmp])])[0]["content"][0]["type"], "text");
}

/// Returns `thinking` and `output_config` for each level of one model.
fn asks(model: &str, level: ThinkingLevel) -> (Value, Value) {
    let mut request = request(model, vec![text("q")]);
    request.options.thinking = level;
    let body = body(&request);
    (body["thinking"].clone(), body["output_config"]["effort"].clone())
}

#[test]
fn thinking_parameters_depend_on_the_model() {
    let bound = json!({ "type": "adaptive", "display": "summarized", "block_binding": { "prefix_mismatch_behavior": "drop_block" } });
    let adaptive = json!({ "type": "adaptive", "display": "summarized" });
    // The model cannot stop thinking: the vendor's default applies, not the model's minimum.
    assert_eq!(asks(OPUS, ThinkingLevel::Off), (bound.clone(), Value::Null));
    assert_eq!(asks(OPUS, ThinkingLevel::Minimal), (bound.clone(), json!("low")));
    assert_eq!(asks(OPUS, ThinkingLevel::Xhigh), (bound, json!("xhigh")));
    assert_eq!(asks("claude-opus-5", ThinkingLevel::Off), (json!({ "type": "disabled" }), Value::Null));
    assert_eq!(asks("claude-opus-5", ThinkingLevel::Medium), (adaptive.clone(), json!("medium")));
    assert_eq!(asks("claude-opus-4-8", ThinkingLevel::Off), (Value::Null, Value::Null));
    assert_eq!(asks("claude-opus-4-6", ThinkingLevel::Xhigh), (adaptive, json!("max")));
    assert_eq!(asks(OLD, ThinkingLevel::Minimal), (json!({ "type": "enabled", "budget_tokens": 1_024 }), Value::Null));
    assert_eq!(asks("claude-3-haiku", ThinkingLevel::High), (Value::Null, Value::Null));
    assert_eq!(asks("kimi", ThinkingLevel::Off), (Value::Null, Value::Null));
}

#[test]
fn budget_leaves_room_for_the_answer() {
    let mut request = request(OLD, vec![text("q")]);
    request.options.thinking = ThinkingLevel::Xhigh;
    let budget = |request: &Request| body(request)["thinking"]["budget_tokens"].clone();
    assert_eq!(budget(&request), 32_768);
    request.options.thinking_budget = Some(500);
    assert_eq!(budget(&request), 1_024);
    request.options.thinking_budget = Some(20_000);
    request.options.max_output_tokens = Some(10_000);
    assert_eq!(budget(&request), 8_976);
    request.options.max_output_tokens = Some(1_500);
    assert_eq!(budget(&request), Value::Null);
}

#[test]
fn output_limit_never_exceeds_the_model() {
    let mut request = request(OLD, vec![text("q")]);
    request.options.max_output_tokens = Some(9_999_999);
    assert_eq!(body(&request)["max_tokens"], 64_000);
    request.options.max_output_tokens = Some(0);
    assert_eq!(body(&request)["max_tokens"], 1);
    // Limits of unknown models are not clamped.
    request.model = "kimi".to_owned();
    request.options.max_output_tokens = Some(99_999);
    assert_eq!(body(&request)["max_tokens"], 99_999);
}

#[test]
fn temperature_is_sent_where_supported() {
    let temperature = |model: &str, level: ThinkingLevel| {
        let mut request = request(model, vec![text("q")]);
        request.options.temperature = Some(1.5);
        request.options.thinking = level;
        body(&request)["temperature"].clone()
    };
    assert_eq!(temperature(OLD, ThinkingLevel::Off), 1.0);
    assert_eq!(temperature(OLD, ThinkingLevel::High), Value::Null);
    assert_eq!(temperature(OPUS, ThinkingLevel::Off), Value::Null);
}

#[test]
fn tool_choice_is_sent_only_with_tools() {
    let choice = |model: &str, tools: bool, choice: ToolChoice| {
        let mut request = request(model, vec![text("q")]);
        request.tools = if tools { vec![tool("read")] } else { vec![] };
        request.tool_choice = choice;
        request.options.thinking = ThinkingLevel::High;
        let body = body(&request);
        (body["tool_choice"].clone(), body["thinking"]["type"].clone())
    };
    let named = || ToolChoice::Tool("read".to_owned());
    assert_eq!(choice(OLD, true, ToolChoice::Auto), (Value::Null, json!("enabled")));
    assert_eq!(choice(OLD, true, ToolChoice::None), (json!({ "type": "none" }), json!("enabled")));
    // A forced call and thinking exclude each other.
    assert_eq!(choice(OLD, true, named()), (json!({ "type": "tool", "name": "read" }), Value::Null));
    assert_eq!(choice("claude-opus-5", true, ToolChoice::Any), (json!({ "type": "any" }), json!("disabled")));
    assert_eq!(choice(OPUS, true, ToolChoice::Any), (Value::Null, json!("adaptive")));
    assert_eq!(choice(OLD, false, ToolChoice::Any), (Value::Null, json!("enabled")));
}

#[test]
fn same_conversation_serializes_identically() {
    let request =
        request(OPUS, vec![text("q"), reply("anthropic", OPUS, vec![call("1", "x", json!({ "b": 1, "a": 2 }))])]);
    let model = ModelTable::builtin().find("anthropic", OPUS);
    let bytes =
        || anthropic::request_body(&request, &model, "anthropic", &anthropic::AnthropicQuirks::ANTHROPIC).unwrap();
    assert_eq!(bytes(), bytes());
}
