//! Request bodies for Chat Completions, with the vendors' quirks.

use crate::support::server::Server;
use crate::support::{call, png, reply, request, result, text, thinking, tool, user};
use futures_util::StreamExt;
use jiff::Timestamp;
use pinion_protocol::{CachePolicy, Content, ExtensionMessage, Message, Request, ThinkingLevel, ToolCall, ToolChoice};
use pinion_providers::openai_chat::{ChatQuirks, request_body};
use pinion_providers::{ModelTable, ProviderConfig, build};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn body(request: &Request) -> Value {
    let model = ModelTable::builtin().find("openai-chat", &request.model);
    serde_json::from_slice(&request_body(request, &model, "openai-chat", &ChatQuirks::OPENAI).unwrap()).unwrap()
}

/// Returns the body that a vendor actually receives.
pub(crate) async fn sent(provider: &str, request: Request) -> Value {
    let server = Server::answering("content-type: text/event-stream\r\n", b"data: [DONE]\n\n").await;
    let base_url = Some(server.url.clone());
    let config = ProviderConfig { name: provider.to_owned(), base_url, ..ProviderConfig::default() };
    let provider = build(config, ModelTable::builtin()).unwrap();
    let _: Vec<_> = provider.stream(request, CancellationToken::new()).collect().await;
    serde_json::from_slice(&server.seen()[0].body).unwrap()
}

#[test]
fn complete_request() {
    let mut request = request(
        "gpt-4o",
        vec![
            user(vec![Content::text("What is this?"), png()]),
            reply(
                "openai-chat",
                "gpt-4o-2024-08-06",
                vec![
                    thinking("A picture.", None),
                    Content::text("Let me"),
                    Content::text("read."),
                    call("call_1", "read", json!({ "path": "a" })),
                ],
            ),
            result("call_1", vec![Content::text("hello"), Content::text("there")]),
        ],
    );
    request.system = "Be brief.".into();
    request.tools = vec![tool("read")];
    request.options.max_output_tokens = Some(1_000);
    request.options.temperature = Some(0.5);
    request.options.session_id = Some("s-1".to_owned());
    let expected = json!({
        "model": "gpt-4o",
        "stream": true,
        "stream_options": { "include_usage": true },
        "store": false,
        "prompt_cache_key": "s-1",
        "max_completion_tokens": 1_000,
        "temperature": 0.5,
        "tools": [{ "type": "function", "function": {
            "name": "read", "description": "Does read.", "parameters": { "type": "object" },
        } }],
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [
                { "type": "text", "text": "What is this?" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,cG5n" } },
            ] },
            { "role": "assistant", "content": "Let me\n\nread.", "tool_calls": [
                { "id": "call_1", "type": "function", "function": { "name": "read", "arguments": "{\"path\":\"a\"}" } },
            ] },
            { "role": "tool", "tool_call_id": "call_1", "content": "hello\nthere" },
        ],
    });
    assert_eq!(body(&request), expected);
}

#[test]
fn tool_images_follow_all_results_of_the_turn() {
    let said = body(&request(
        "gpt-4o",
        vec![
            text("q"),
            reply("openai-chat", "gpt-4o", vec![call("1", "read", json!({})), call("2", "read", json!({}))]),
            result("1", vec![png()]),
            result("2", vec![]),
            text("and?"),
        ],
    ));
    let image = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,cG5n" } });
    let expected = json!([
        { "role": "tool", "tool_call_id": "1", "content": "(an image, which follows)" },
        { "role": "tool", "tool_call_id": "2", "content": "(no output)" },
        { "role": "user", "content": [{ "type": "text", "text": "The images that the tools gave back:" }, image] },
        { "role": "user", "content": "and?" },
    ]);
    assert_eq!(Value::from(said["messages"].as_array().unwrap()[2..].to_vec()), expected);
}

#[test]
fn content_that_the_vendor_rejects_is_omitted() {
    let extension = ExtensionMessage { kind: "x".to_owned(), data: json!(1), timestamp: Timestamp::UNIX_EPOCH };
    let aborted = reply("openai-chat", "gpt-4o", vec![thinking("half", None)]);
    let said = body(&request("gpt-4o", vec![text("a"), Message::Extension(extension), aborted, text(" "), text("b")]));
    assert_eq!(said["messages"], json!([{ "role": "user", "content": "a" }, { "role": "user", "content": "b" }]));
}

#[tokio::test]
async fn compatible_server_gets_alternating_roles_and_plain_strings() {
    let two = user(vec![Content::text("b"), Content::text("c")]);
    let said = sent("openai-chat", request("gemma-4", vec![text("a"), two])).await;
    assert_eq!(said["messages"], json!([{ "role": "user", "content": "a\n\nb\nc" }]));
}

#[test]
fn call_without_text_has_null_content_and_object_arguments() {
    let partial = ToolCall::from_stream("c".repeat(60), "read".to_owned(), "{\"pa".to_owned());
    let said = body(&request(
        "gpt-4o",
        vec![
            text("q"),
            reply("elsewhere", "gpt-4o", vec![Content::ToolCall(partial)]),
            result(&"c".repeat(60), vec![Content::text("r")]),
        ],
    ));
    let message = &said["messages"][1];
    assert_eq!(message["content"], Value::Null);
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"invalid\":\"{\\\"pa\"}");
    let id = message["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() <= 40);
    assert_eq!(said["messages"][2]["tool_call_id"], id);
}

#[test]
fn effort_is_sent_to_models_that_support_it() {
    let effort = |model: &str, level: ThinkingLevel, tools: bool| {
        let mut request = request(model, vec![text("q")]);
        request.options.thinking = level;
        request.tools = if tools { vec![tool("read")] } else { vec![] };
        body(&request)["reasoning_effort"].clone()
    };
    assert_eq!(effort("gpt-4o", ThinkingLevel::High, true), Value::Null);
    // The model cannot stop thinking: the vendor's default applies, not the model's minimum.
    assert_eq!(effort("gpt-5", ThinkingLevel::Off, true), Value::Null);
    assert_eq!(effort("gpt-5", ThinkingLevel::Minimal, true), "minimal");
    assert_eq!(effort("gpt-5", ThinkingLevel::Xhigh, true), "high");
    assert_eq!(effort("gpt-5.1", ThinkingLevel::Off, true), "none");
    assert_eq!(effort("gpt-6-sol", ThinkingLevel::High, false), "high");
    // These models support tools over this format only without thinking.
    assert_eq!(effort("gpt-6-sol", ThinkingLevel::High, true), "none");
    assert_eq!(effort("mock", ThinkingLevel::Off, true), Value::Null);
    assert_eq!(effort("mock", ThinkingLevel::Xhigh, true), "high");
}

#[test]
fn tools_on_a_model_without_support_are_an_error() {
    let mut request = request("gpt-6-astra", vec![text("q")]);
    request.tools = vec![tool("read")];
    let model = ModelTable::builtin().find("openai-chat", "gpt-6-astra");
    let error = request_body(&request, &model, "openai-chat", &ChatQuirks::OPENAI).unwrap_err().to_string();
    assert!(error.contains("`gpt-6-astra`") && error.contains("Responses API"), "{error}");
}

#[test]
fn temperature_and_cache_key_are_sent_where_supported() {
    let mut request = request("gpt-5", vec![text("q")]);
    request.options.temperature = Some(0.0);
    request.options.session_id = Some("s".to_owned());
    request.options.cache = CachePolicy::Off;
    let said = body(&request);
    assert_eq!((said["temperature"].clone(), said["prompt_cache_key"].clone()), (Value::Null, Value::Null));
}

#[test]
fn tool_choice_is_sent_only_with_tools() {
    let choice = |tools: bool, choice: ToolChoice| {
        let mut request = request("gpt-4o", vec![text("q")]);
        request.tools = if tools { vec![tool("read")] } else { vec![] };
        request.tool_choice = choice;
        body(&request)["tool_choice"].clone()
    };
    let named = json!({ "type": "function", "function": { "name": "read" } });
    assert_eq!(choice(true, ToolChoice::Auto), Value::Null);
    assert_eq!(choice(true, ToolChoice::None), "none");
    assert_eq!(choice(true, ToolChoice::Any), "required");
    assert_eq!(choice(true, ToolChoice::Tool("read".to_owned())), named);
    assert_eq!(choice(false, ToolChoice::Any), Value::Null);
}

#[tokio::test]
async fn compatible_server_receives_no_openai_only_parameters() {
    let mut request = request("qwen3", vec![text("q")]);
    request.options.session_id = Some("s".to_owned());
    request.options.max_output_tokens = Some(9);
    let expected = json!({
        "model": "qwen3", "stream": true, "stream_options": { "include_usage": true }, "max_tokens": 9,
        "messages": [{ "role": "user", "content": "q" }],
    });
    assert_eq!(sent("openrouter", request.clone()).await, expected);
    let said = sent("openai-chat", request).await;
    assert_eq!((said.get("store"), said.get("prompt_cache_key")), (None, None));
}

#[tokio::test]
async fn mistral_gets_short_ids_and_images_in_results() {
    let said = sent(
        "mistral",
        request(
            "mistral-small-latest",
            vec![
                text("q"),
                reply("anthropic", "claude", vec![call("toolu_01", "read", json!({}))]),
                result("toolu_01", vec![png()]),
            ],
        ),
    )
    .await;
    let id = said["messages"][1]["tool_calls"][0]["id"].as_str().unwrap();
    assert_eq!(id.len(), 9);
    assert_eq!(said["messages"][2]["tool_call_id"], id);
    assert_eq!(said["messages"][2]["content"][0]["type"], "image_url");
    assert_eq!(said.get("stream_options"), None);
    assert_eq!(said["reasoning_effort"], "none");
}

#[tokio::test]
async fn deepseek_thinking_is_switched_and_sent_back() {
    let ask = |level: ThinkingLevel| {
        let thought =
            |provider: &str| reply(provider, "deepseek-v4-pro", vec![thinking("hm", None), Content::text("a")]);
        let mut request =
            request("deepseek-v4-pro", vec![text("q"), thought("deepseek"), text("r"), thought("groq"), text("s")]);
        request.options.thinking = level;
        request
    };
    let off = sent("deepseek", ask(ThinkingLevel::Off)).await;
    assert_eq!((off["thinking"]["type"].clone(), off["reasoning_effort"].clone()), (json!("disabled"), Value::Null));
    let on = sent("deepseek", ask(ThinkingLevel::Medium)).await;
    assert_eq!((on["thinking"]["type"].clone(), on["reasoning_effort"].clone()), (json!("enabled"), json!("high")));
    assert_eq!(on["messages"][1]["reasoning_content"], "hm");
    assert_eq!(on["messages"][3]["reasoning_content"], "");
}

#[tokio::test]
async fn openrouter_gets_a_reasoning_object() {
    let mut ask = request("vendor/model", vec![text("q")]);
    ask.options.thinking = ThinkingLevel::Low;
    assert_eq!(sent("openrouter", ask).await["reasoning"], json!({ "effort": "low" }));
    assert_eq!(sent("openrouter", request("vendor/model", vec![text("q")])).await.get("reasoning"), None);
}
