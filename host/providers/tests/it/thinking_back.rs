//! Thinking and ids that a vendor sent go back to it, in the next request, as they came.

use crate::chat_body::sent;
use crate::support::formats::{decoder, fixture};
use crate::support::{call, decode, reply, request, result, text, thinking, tool};
use pinion_protocol::{
    AssistantMessage, CachePolicy, Content, Message, PartKind, Request, StopReason, StreamEvent, Thinking,
    ThinkingLevel, ToolCall,
};
use pinion_providers::{ModelTable, anthropic, bedrock, gemini, ollama, openai_responses};
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
async fn what_a_server_adds_to_calls_and_messages_goes_back_to_its_model() {
    let gemini = content("chat", "gemini_compatible.sse");
    let said = sent("openai-chat", after("openai-chat", "gemini-3.8-flash", "gemini-3.8-flash", gemini.clone())).await;
    let message = &said["messages"][1];
    assert_eq!(
        message["tool_calls"][0],
        json!({ "id": "function-call-1", "type": "function", "function": { "name": "read", "arguments": "{\"path\":\"a\"}" },
            "extra_content": { "google": { "thought_signature": "CpIB==" } } })
    );
    assert_eq!(message["tool_calls"][1].get("extra_content"), None);
    assert_eq!(message["extra_content"], json!({ "google": { "thought_signature": "CqEC==" } }));
    let mut switched = after("openai-chat", "gemini-3.8-flash", "gemini-3.8-flash", gemini.clone());
    switched.model = "other".to_owned();
    assert!(!sent("openai-chat", switched).await.to_string().contains("extra_content"));
    let said = sent("mistral", after("mistral", "gemini-3.8-flash", "gemini-3.8-flash", gemini)).await;
    assert!(!said.to_string().contains("extra_content"), "{said}");

    let copilot = content("chat", "copilot.sse");
    let said = sent("openai-chat", after("openai-chat", "gemini-3.1-pro", "gemini-3.1-pro", copilot)).await;
    let message = &said["messages"][1];
    assert_eq!(
        (&message["reasoning_text"], &message["reasoning_opaque"]),
        (&json!("A guess may do."), &json!("ZhX3=="))
    );
}

#[tokio::test]
async fn litellm_gets_its_blocks_and_its_long_ids_back() {
    let claude = content("chat", "litellm_thinking.sse");
    let said = sent("openai-chat", after("openai-chat", "claude-haiku-4-5", "claude-haiku-4-5", claude)).await;
    let message = &said["messages"][1];
    let block = json!({ "type": "thinking", "thinking": "I list it.", "signature": "EqQBCg==" });
    assert_eq!((&message["thinking_blocks"], &message["reasoning_content"]), (&json!([block]), &json!("I list it.")));
    let long = format!("call_1__thought__{}", "EpwICpkI".repeat(40));
    let called = vec![call(&long, "list", json!({}))];
    let said = sent("openai-chat", after("openai-chat", "claude", "claude", called)).await;
    assert_eq!(
        (&said["messages"][1]["tool_calls"][0]["id"], &said["messages"][2]["tool_call_id"]),
        (&json!(long), &json!(long))
    );
}

#[tokio::test]
async fn thinking_in_the_content_goes_back_there() {
    let part = |said: &Value| said["messages"][1]["content"][0].clone();
    let databricks = content("chat", "databricks.sse");
    let said = sent("openai-chat", after("openai-chat", "databricks-claude", "databricks-claude", databricks)).await;
    let summary = json!([{ "type": "summary_text", "text": "Adding up.", "signature": "ErUBCk==" }]);
    assert_eq!(part(&said), json!({ "type": "reasoning", "summary": summary }));
    assert_eq!(said["messages"][1]["content"][1], json!({ "type": "text", "text": "Four." }));
    assert_eq!(said["messages"][1].get("reasoning_content"), None);
    let model = "mistral-small-2603";
    let said = sent("mistral", after("mistral", model, model, content("chat", "mistral.sse"))).await;
    let thinking = json!([{ "type": "text", "text": "Let me" }, { "type": "text", "text": " think." }]);
    assert_eq!(part(&said), json!({ "type": "thinking", "thinking": thinking }));
}

fn responses(ask: &Request, quirks: &openai_responses::ResponsesQuirks) -> Value {
    let model = ModelTable::builtin().find("box", &ask.model);
    serde_json::from_slice(&openai_responses::request_body(ask, &model, "box", quirks).unwrap()).unwrap()
}

#[test]
fn reasoning_items_go_back_as_they_came() {
    let item = |name: &str| {
        let ask = after("box", "m", "m", content("responses", name));
        responses(&ask, &openai_responses::ResponsesQuirks::OPENAI)["input"][1].clone()
    };
    let summary = |text: &str| json!({ "type": "summary_text", "text": text });
    assert_eq!(
        item("thinking.sse"),
        json!({ "id": "rs_0", "type": "reasoning", "encrypted_content": "gAAAAAB-encrypted-1",
            "summary": [summary("**Adding**"), summary("Two and two make four.")] })
    );
    assert_eq!(
        item("raw_reasoning.sse"),
        json!({ "type": "reasoning", "id": "rs_0", "summary": [],
            "content": [{ "type": "reasoning_text", "text": "We need the file." }] })
    );
    assert_eq!(
        item("openrouter_signed.sse"),
        json!({ "type": "reasoning", "id": "rs_0", "summary": [summary("One."), summary("Two.")], "future": { "a": 1 },
            "encrypted_content": "early==", "signature": "EvMC==", "format": "anthropic-claude-v1" })
    );
    assert_eq!(
        item("rest_at_the_end.sse"),
        json!({ "type": "reasoning", "id": "rs_0", "summary": [summary("A plan.")], "encrypted_content": "gAAAA==" })
    );
}

/// OpenAI looks for an item with nothing but a summary among those that it stored, and fails, also behind a gateway.
#[test]
fn reasoning_of_which_only_a_summary_is_known_stays_away() {
    let ask = after("box", "m", "m", content("responses", "done_events.sse"));
    for quirks in [openai_responses::ResponsesQuirks::OPENAI, openai_responses::ResponsesQuirks::PLAIN] {
        let said = responses(&ask, &quirks);
        assert!(!said.to_string().contains("\"reasoning\""), "{said}");
    }
}

#[test]
fn phases_go_back_as_they_came() {
    let ask = after("box", "m", "m", content("responses", "phases.sse"));
    let phases = |ask: &Request, quirks: &openai_responses::ResponsesQuirks| {
        let said = responses(ask, quirks);
        said["input"].as_array().unwrap()[1..4].iter().map(|item| item["phase"].clone()).collect::<Vec<_>>()
    };
    for quirks in [openai_responses::ResponsesQuirks::OPENAI, openai_responses::ResponsesQuirks::PLAIN] {
        assert_eq!(phases(&ask, &quirks), [json!("commentary"), json!("final_answer"), Value::Null]);
    }
    let foreign = Request { model: "other".to_owned(), ..ask };
    assert_eq!(phases(&foreign, &openai_responses::ResponsesQuirks::OPENAI), [Value::Null, Value::Null, Value::Null]);
}

#[test]
fn unsigned_thinking_goes_back_where_anthropic_does_not_answer() {
    let blocks = |content: Vec<Content>, quirks: &anthropic::AnthropicQuirks| {
        let mut ask = after("box", "kimi-k3", "kimi-k3", content);
        ask.options.thinking = ThinkingLevel::Medium;
        let model = ModelTable::builtin().find("box", &ask.model);
        let body = anthropic::request_body(&ask, &model, "box", quirks).unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()["messages"][1]["content"].clone()
    };
    let (elsewhere, own) = (anthropic::AnthropicQuirks::ELSEWHERE, anthropic::AnthropicQuirks::ANTHROPIC);
    let unsigned = content("anthropic", "unsigned.sse");
    let said = blocks(unsigned.clone(), &elsewhere);
    assert_eq!(said[0], json!({ "type": "thinking", "thinking": "I list it.", "signature": "" }));
    assert_eq!(said[1]["id"], "functions.list:0");
    assert_eq!(blocks(unsigned, &own)[0]["type"], "tool_use");
    let signed = vec![thinking("Hm.", Some("S")), Content::text("a")];
    assert_eq!(blocks(signed, &elsewhere)[0]["signature"], "S");
}

#[test]
fn unsigned_thinking_of_an_interrupted_reply_stays_away() {
    let mut ask = after("box", "m", "m", vec![Content::text("So far"), thinking("Hm", None)]);
    ask.options.cache = CachePolicy::Off;
    let Message::Assistant(reply) = &*ask.messages[1] else { unreachable!() };
    let cut = AssistantMessage { stop_reason: StopReason::Aborted, ..reply.clone() };
    ask.messages[1] = Message::Assistant(cut).into();
    let model = ModelTable::builtin().find("box", &ask.model);
    let body = anthropic::request_body(&ask, &model, "box", &anthropic::AnthropicQuirks::ELSEWHERE).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["messages"][1]["content"], json!([{ "type": "text", "text": "So far" }]));
}

#[test]
fn signature_of_text_goes_back_on_the_text() {
    let ask = after("gemini", "gemini-3.8-flash", "gemini-3.8-flash", content("gemini", "signed_text.sse"));
    let model = ModelTable::builtin().find("gemini", &ask.model);
    let body: Value = serde_json::from_slice(&gemini::request_body(&ask, &model, "gemini").unwrap()).unwrap();
    let parts = &body["contents"][1]["parts"];
    assert_eq!(parts[0], json!({ "text": "Let me look.", "thoughtSignature": "CsAB==" }));
    assert_eq!(parts[1]["thoughtSignature"], "CsQB==");
    assert_eq!(parts[1]["functionCall"]["args"], json!({ "path": "a" }));
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
    let quirks = openai_responses::ResponsesQuirks::PLAIN;
    let body = openai_responses::request_body(&ask, &model, "azure", &quirks).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&body["input"][1]["type"], &body["input"][1]["id"]), (&json!("reasoning"), &json!("rs_a")));
}

#[test]
fn fields_of_ollamas_calls_go_back_as_they_came() {
    let ask = after("ollama", "gemini-3", "gemini-3", content("ollama", "signed_call.ndjson"));
    let call = |ask: &Request| {
        let model = ModelTable::builtin().find("ollama", &ask.model);
        let body = ollama::request_body(ask, &model, "ollama").unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()["messages"][1]["tool_calls"][0].clone()
    };
    let function = json!({ "name": "read", "arguments": { "path": "a" } });
    assert_eq!(call(&ask), json!({ "id": "call_1", "function": function, "thought_signature": "EvMC==" }));
    let foreign = Request { model: "other".to_owned(), ..ask };
    assert_eq!(call(&foreign), json!({ "id": "call_1", "function": function }));
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
