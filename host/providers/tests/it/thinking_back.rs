//! Thinking and ids that a vendor sent go back to it, in the next request, as they came.

use crate::chat_body::sent;
use crate::support::formats::{decoder, fixture};
use crate::support::{call, decode, reply, request, result, text, thinking, tool};
use pinion_protocol::{
    AssistantMessage, CachePolicy, Content, Message, PartKind, Request, StreamEvent, Thinking, ThinkingLevel, ToolCall,
};
use pinion_providers::{ModelTable, bedrock, gemini, openai_responses};
use serde_json::{Value, json};

/// Decodes a fixture to the content that a session stores.
fn content(format: &str, name: &str) -> Vec<Content> {
    let (events, error) = decode(&mut *decoder(format), &[&fixture(format, name)]);
    assert_eq!(error, None);
    let mut parts: Vec<(PartKind, String, Option<String>)> = Vec::new();
    for event in events {
        match event {
            StreamEvent::PartStart { part, .. } => parts.push((part, String::new(), None)),
            StreamEvent::Delta { index, delta } => parts[index].1.push_str(&delta),
            StreamEvent::PartEnd { index, signature } => parts[index].2 = signature,
            _ => {}
        }
    }
    let content = |(kind, text, signature)| match kind {
        PartKind::Text => Content::Text { text },
        PartKind::Thinking => Content::Thinking(Thinking { text, signature, redacted: false }),
        PartKind::RedactedThinking => Content::Thinking(Thinking { text, signature, redacted: true }),
        PartKind::ToolCall { id, name } => {
            Content::ToolCall(ToolCall { signature, ..ToolCall::from_stream(id, name, text) })
        }
    };
    parts.into_iter().map(content).collect()
}

/// A conversation with the fixture's reply, the results of its calls, and another prompt.
fn after(provider: &str, model: &str, answered_by: &str, content: Vec<Content>) -> Request {
    let calls: Vec<String> = content.iter().filter_map(Content::as_tool_call).map(|call| call.id.clone()).collect();
    let Message::Assistant(own) = reply(provider, answered_by, content) else { unreachable!() };
    let requested_model = (model != answered_by).then(|| model.to_owned());
    let own = Message::Assistant(AssistantMessage { requested_model, ..own });
    let results = calls.iter().map(|id| result(id, vec![Content::text("r")]));
    let messages = [text("q"), own].into_iter().chain(results).chain([text("so?")]);
    request(model, messages.collect())
}

#[tokio::test]
async fn openrouter_details_go_back_as_they_came() {
    let asked = "anthropic/claude-haiku-4.5";
    let answered = "anthropic/claude-4.5-haiku-20251001";
    let said = sent("openrouter", after("openrouter", asked, answered, content("chat", "openrouter_tools.sse"))).await;
    let details = json!([{ "type": "reasoning.text", "text": "I read the file.", "signature": "EvMCCkYICxgCKkCH==",
        "format": "anthropic-claude-v1", "index": 0 }]);
    let message = &said["messages"][1];
    assert_eq!((&message["reasoning_details"], &message["reasoning"]), (&details, &json!("I read the file.")));
    assert_eq!(message["content"], "Let me look.");
}

#[tokio::test]
async fn encrypted_details_go_back_without_readable_thinking() {
    let grok = content("chat", "openrouter_encrypted.sse");
    let said = sent("openrouter", after("openrouter", "x-ai/grok-4", "x-ai/grok-4", grok.clone())).await;
    let detail = json!({ "type": "reasoning.encrypted", "data": "rM0h+dM0", "id": "rs_619f_us-east-1",
        "format": "xai-responses-v1", "index": 0 });
    assert_eq!(said["messages"][1]["reasoning_details"], json!([detail]));
    assert_eq!(said["messages"][1].get("reasoning"), None);
    let mut switched = after("openrouter", "x-ai/grok-4", "x-ai/grok-4", grok);
    switched.model = "vendor/other".to_owned();
    assert_eq!(sent("openrouter", switched).await["messages"][1].get("reasoning_details"), None);
}

#[tokio::test]
async fn details_after_a_call_are_kept_with_those_before_it() {
    let model = "google/gemini-3-pro";
    let said = sent("openrouter", after("openrouter", model, model, content("chat", "openrouter_gemini.sse"))).await;
    let details = said["messages"][1]["reasoning_details"].as_array().unwrap();
    assert_eq!(details.len(), 2);
    assert_eq!((&details[0]["text"], &details[1]["id"]), (&json!("Look first."), &json!("tool_0_read")));
}

#[tokio::test]
async fn compatible_server_gets_thinking_and_ids_as_it_sent_them() {
    let kimi = content("chat", "kimi.sse");
    let said = sent("openai-chat", after("openai-chat", "kimi-k2-thinking", "kimi-k2-thinking", kimi)).await;
    let message = &said["messages"][1];
    assert_eq!(message["reasoning_content"], "The user wants the file.");
    assert_eq!(message["tool_calls"][0]["id"], "functions.read:0");
    assert_eq!(said["messages"][2]["tool_call_id"], "functions.read:0");
    let groq = content("chat", "groq.sse");
    let said = sent("openai-chat", after("openai-chat", "gpt-oss", "gpt-oss", groq)).await;
    let message = &said["messages"][1];
    assert_eq!((&message["reasoning"], message.get("reasoning_content")), (&json!("Need list."), None));
    let stored_earlier = vec![thinking("hm", None), Content::text("a")];
    let said = sent("openai-chat", after("openai-chat", "m", "m", stored_earlier)).await;
    assert_eq!(said["messages"][1]["reasoning_content"], "hm");
}

#[tokio::test]
async fn deepseek_gets_thinking_with_every_message_while_it_thinks() {
    let ask = |level| {
        let mut ask = after("deepseek", "deepseek-chat", "deepseek-v4-flash", content("chat", "deepseek_tools.sse"));
        ask.messages.push(reply("deepseek", "deepseek-chat", vec![Content::text("plain")]).into());
        ask.messages.push(reply("elsewhere", "x", vec![thinking("foreign", None), Content::text("y")]).into());
        ask.options.thinking = level;
        ask
    };
    let said = sent("deepseek", ask(ThinkingLevel::Medium)).await;
    let replies = said["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
    let fields: Vec<Option<&Value>> = replies.map(|message| message.get("reasoning_content")).collect();
    assert_eq!(fields, [Some(&json!("I read both.")), Some(&json!("")), Some(&json!(""))]);
    let off = sent("deepseek", ask(ThinkingLevel::Off)).await;
    assert_eq!(off["messages"].as_array().unwrap().last().unwrap().get("reasoning_content"), None);
}

#[test]
fn model_is_recognized_by_the_name_in_the_request() {
    let called = content("gemini", "vertex_tools.sse");
    let ask = after("gemini", "gemini-flash-latest", "gemini-3.8-flash", called);
    let model = ModelTable::builtin().find("gemini", &ask.model);
    let body: Value = serde_json::from_slice(&gemini::request_body(&ask, &model, "gemini").unwrap()).unwrap();
    assert_eq!(body["contents"][1]["parts"][0]["thoughtSignature"], "CsQB==");
    let encrypted = content("responses", "azure_thinking.sse");
    let ask = after("azure", "my-deployment", "gpt-5.4", encrypted);
    let model = ModelTable::builtin().find("azure", &ask.model);
    let quirks = openai_responses::Quirks::PLAIN;
    let body = openai_responses::request_body(&ask, &model, "azure", &quirks).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&body["input"][1]["type"], &body["input"][1]["id"]), (&json!("reasoning"), &json!("rs_a")));
}

#[test]
fn bedrock_keeps_ids_of_its_own_calls_and_replaces_others() {
    let id = |provider: &str| {
        let called = vec![call("functions.read:0", "read", json!({}))];
        let ask = after(provider, "moonshot.kimi-k2-thinking", "moonshot.kimi-k2-thinking", called);
        let model = ModelTable::builtin().find("bedrock", &ask.model);
        let body: Value = serde_json::from_slice(&bedrock::request_body(&ask, &model, "bedrock").unwrap()).unwrap();
        let id = body["messages"][1]["content"][0]["toolUse"]["toolUseId"].clone();
        assert_eq!(body["messages"][2]["content"][0]["toolResult"]["toolUseId"], id);
        id
    };
    assert_eq!(id("bedrock"), "functions.read:0");
    assert!(id("elsewhere").as_str().unwrap().starts_with("call_"));
}

#[tokio::test]
async fn openrouter_marks_what_claude_caches() {
    let ask = |model: &str, cache| {
        let called = vec![call("toolu_1", "read", json!({}))];
        let mut ask = after("openrouter", model, model, called);
        ask.messages.pop();
        ask.system = "Be brief.".into();
        ask.tools = vec![tool("list"), tool("read")];
        ask.options.cache = cache;
        ask
    };
    let mark = json!({ "type": "ephemeral" });
    let said = sent("openrouter", ask("anthropic/claude-haiku-4.5", CachePolicy::Auto)).await;
    let marked = |text: &str| json!([{ "type": "text", "text": text, "cache_control": mark }]);
    assert_eq!(said["messages"][0]["content"], marked("Be brief."));
    assert_eq!(said["messages"][3]["content"], marked("r"));
    assert_eq!((said["tools"][0].get("cache_control"), &said["tools"][1]["cache_control"]), (None, &mark));
    let off = sent("openrouter", ask("anthropic/claude-haiku-4.5", CachePolicy::Off)).await;
    let other = sent("openrouter", ask("vendor/model", CachePolicy::Auto)).await;
    let elsewhere = sent("openai-chat", ask("anthropic/claude-haiku-4.5", CachePolicy::Auto)).await;
    for said in [off, other, elsewhere] {
        assert!(!said.to_string().contains("cache_control"), "{said}");
    }
}

#[tokio::test]
async fn models_that_always_think_are_asked_for_encrypted_items() {
    let include = async |provider: &str, model: &str| {
        sent(provider, request(model, vec![text("q")])).await.get("include").is_some()
    };
    for model in ["gpt-5-codex", "gpt-5.2-codex", "gpt-5.3-codex", "gpt-5.6-sol", "gpt-9", "o3-pro"] {
        assert!(include("openai-responses", model).await, "{model}");
    }
    for model in ["gpt-4o", "gpt-4-turbo", "gpt-35-turbo", "gpt-5-chat-latest", "some-model"] {
        assert!(!include("openai-responses", model).await, "{model}");
    }
    for model in ["grok-4-fast-reasoning", "grok-code-fast-1", "grok-4-0709", "grok-9"] {
        assert!(include("xai", model).await, "{model}");
    }
    for model in ["grok-4-fast-non-reasoning", "grok-3"] {
        assert!(!include("xai", model).await, "{model}");
    }
}

#[tokio::test]
async fn claude_4_gets_budgets_and_its_own_output_limit() {
    let ask = async |model: &str, level| {
        let mut ask = request(model, vec![text("q")]);
        ask.options.thinking = level;
        sent("anthropic", ask).await
    };
    for (model, limit) in [
        ("claude-opus-4-1", 32_000),
        ("claude-opus-4-0", 32_000),
        ("claude-opus-4-20250514", 32_000),
        ("claude-sonnet-4-0", 64_000),
        ("claude-sonnet-4-20250514", 64_000),
    ] {
        let said = ask(model, ThinkingLevel::Low).await;
        assert_eq!(said["thinking"], json!({ "type": "enabled", "budget_tokens": 2_048 }), "{model}");
        assert_eq!(said["max_tokens"], limit, "{model}");
        assert_eq!(ask(model, ThinkingLevel::Off).await.get("thinking"), None, "{model}");
    }
    let table = ModelTable::builtin();
    let sonnet = table.find("bedrock", "us.anthropic.claude-sonnet-4-20250514-v1:0");
    assert_eq!((sonnet.known, sonnet.max_output), (true, 64_000));
}

#[test]
fn gemini_thinking_follows_the_generation() {
    let config = |model: &str, level| {
        let mut ask = request(model, vec![text("q")]);
        ask.options.thinking = level;
        let known = ModelTable::builtin().find("gemini", model);
        let body: Value = serde_json::from_slice(&gemini::request_body(&ask, &known, "gemini").unwrap()).unwrap();
        body["generationConfig"]["thinkingConfig"].clone()
    };
    let budget = |tokens: u64| json!({ "includeThoughts": true, "thinkingBudget": tokens });
    assert_eq!(config("gemini-2.5-flash-lite", ThinkingLevel::Medium), budget(8_192));
    assert_eq!(config("gemini-2.5-flash-lite-preview-09-2025", ThinkingLevel::Xhigh), budget(24_576));
    assert_eq!(config("gemini-2.5-flash-lite", ThinkingLevel::Off), Value::Null);
    assert_eq!(config("gemini-2.5-flash-preview-09-2025", ThinkingLevel::Off), json!({ "thinkingBudget": 0 }));
    for model in ["gemini-2.5-flash-image", "gemini-2.0-flash", "gemini-2.0-flash-lite-001", "gemini-1.5-pro"] {
        assert_eq!(config(model, ThinkingLevel::Medium), Value::Null, "{model}");
    }
    assert_eq!(config("gemini-9-flash", ThinkingLevel::Medium)["thinkingLevel"], "MEDIUM");
}
