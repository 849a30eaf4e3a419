//! Request bodies of the other formats, for the rules of vendors that the snapshots in `requests/` do not cover.

use crate::support::formats::decoder;
use crate::support::{call, decode, png, reply, request, result, text, thinking, tool};
use pinion_protocol::{CachePolicy, Content, Request, ThinkingLevel, ToolChoice};
use pinion_providers::{ModelTable, bedrock, gemini, ollama, openai_responses, proxy};
use serde_json::{Value, json};

fn model(provider: &str, request: &Request) -> std::sync::Arc<pinion_providers::ModelSpec> {
    ModelTable::builtin().find(provider, &request.model)
}

fn responses(request: &Request) -> Value {
    let model = model("openai-responses", request);
    let quirks = openai_responses::ResponsesQuirks::OPENAI;
    let body = openai_responses::request_body(request, &model, "openai-responses", &quirks).unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn in_gemini(request: &Request) -> Value {
    serde_json::from_slice(&gemini::request_body(request, &model("gemini", request), "gemini").unwrap()).unwrap()
}

fn in_bedrock(request: &Request) -> Value {
    serde_json::from_slice(&bedrock::request_body(request, &model("bedrock", request), "bedrock").unwrap()).unwrap()
}

fn in_ollama(request: &Request) -> Value {
    serde_json::from_slice(&ollama::request_body(request, &model("ollama", request), "ollama").unwrap()).unwrap()
}

fn talk(model: &str) -> Request {
    let mut request = request(model, vec![text("one"), reply("x", "y", vec![Content::text("two")]), text("three")]);
    request.system = "Be brief.".into();
    request
}

#[test]
fn responses_breakpoints_follow_the_cache_policy() {
    let mut request = talk("gpt-6-sol");
    request.options.cache = CachePolicy::Manual { system: true, tools: false, messages: true };
    let body = responses(&request);
    let explicit = json!({ "mode": "explicit" });
    assert_eq!((&body["prompt_cache_options"], &body["instructions"]), (&explicit, &Value::Null));
    assert_eq!(body["input"][0]["role"], "developer");
    assert_eq!(body["input"][0]["content"][0]["prompt_cache_breakpoint"], explicit);
    assert_eq!(body["input"][1]["content"][0]["prompt_cache_breakpoint"], explicit);
    assert_eq!(body["input"][3]["content"][0].get("prompt_cache_breakpoint"), None);
    request.options.cache = CachePolicy::Off;
    request.options.session_id = Some("s".to_owned());
    let body = responses(&request);
    assert_eq!((body["prompt_cache_options"].clone(), body.get("prompt_cache_key")), (explicit, None));
    assert!(!body.to_string().contains("breakpoint"));
    request.options.cache = CachePolicy::Auto;
    assert_eq!(
        (&responses(&request)["prompt_cache_key"], responses(&request).get("prompt_cache_options")),
        (&json!("s"), None)
    );
}

#[test]
fn responses_reasoning_returns_only_before_its_items() {
    let kept = r#"{"id":"rs_1","encrypted_content":"enc"}"#;
    let own = |content| {
        request("gpt-6-sol", vec![text("hi"), reply("openai-responses", "gpt-6-sol", content), text("go on")])
    };
    let kinds = |request: &Request| -> Vec<String> {
        responses(request)["input"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["type"].as_str().unwrap().to_owned())
            .collect()
    };
    let thought = || thinking("Hm.", Some(kept));
    assert_eq!(kinds(&own(vec![thought(), Content::text("x")])), ["message", "reasoning", "message", "message"]);
    assert_eq!(kinds(&own(vec![Content::text("x"), thought()])), ["message", "message", "message"]);
    assert_eq!(kinds(&own(vec![thought()])), ["message", "message"]);
    assert_eq!(
        kinds(&own(vec![thinking("Hm.", Some("of another form")), Content::text("x")])),
        ["message", "message", "message"]
    );
}

#[test]
fn gemini_thinking_uses_the_parameters_of_the_model() {
    let config = |model: &str, level, budget| {
        let mut request = talk(model);
        request.options.thinking = level;
        request.options.thinking_budget = budget;
        in_gemini(&request)["generationConfig"]["thinkingConfig"].clone()
    };
    assert_eq!(config("gemini-2.5-flash", ThinkingLevel::Off, None), json!({ "thinkingBudget": 0 }));
    assert_eq!(config("gemini-2.5-pro", ThinkingLevel::Off, None), Value::Null);
    assert_eq!(
        config("gemini-2.5-pro", ThinkingLevel::Low, None),
        json!({ "includeThoughts": true, "thinkingBudget": 2_048 })
    );
    assert_eq!(config("gemini-2.5-pro", ThinkingLevel::High, Some(1 << 40))["thinkingBudget"], 32_768);
    assert_eq!(
        config("gemini-3.8-flash", ThinkingLevel::Xhigh, None),
        json!({ "includeThoughts": true, "thinkingLevel": "HIGH" })
    );
    assert_eq!(config("gemma-3", ThinkingLevel::High, None), Value::Null);
}

#[test]
fn gemini_omits_replies_of_nothing_but_thinking() {
    let only = vec![thinking("Hm.", Some("SIG"))];
    let request = request("gemini-3.8-flash", vec![text("hi"), reply("gemini", "gemini-3.8-flash", only), text("so?")]);
    assert_eq!(
        in_gemini(&request)["contents"],
        json!([{ "role": "user", "parts": [{ "text": "hi" }, { "text": "so?" }] }])
    );
}

#[test]
fn tool_images_follow_results_for_older_gemini_models() {
    let called = vec![call("c1", "read", json!({}))];
    let request = request("gemini-2.5-pro", vec![text("hi"), reply("x", "y", called), result("c1", vec![png()])]);
    let parts = in_gemini(&request)["contents"][2]["parts"].clone();
    assert_eq!(parts[0]["functionResponse"]["response"]["output"], "(an image, which follows)");
    assert!(parts[2]["inlineData"].is_object());
}

#[test]
fn bedrock_declares_called_tools_that_are_no_longer_offered() {
    let called = vec![call("c1", "gone", json!({}))];
    let mut request =
        request("anthropic.claude-haiku-4-5", vec![text("hi"), reply("x", "y", called), result("c1", vec![])]);
    let tools = |request: &Request| in_bedrock(request)["toolConfig"]["tools"].to_string();
    assert!(tools(&request).contains("\"gone\""));
    request.tools = vec![tool("read")];
    let body = tools(&request);
    assert!(body.find("read").unwrap() < body.find("cachePoint").unwrap());
    assert!(body.find("cachePoint").unwrap() < body.find("gone").unwrap());
}

#[test]
fn bedrock_uses_the_thinking_fields_of_the_models_vendor() {
    let fields = |model: &str| {
        let mut request = talk(model);
        request.options.thinking = ThinkingLevel::High;
        in_bedrock(&request)["additionalModelRequestFields"].clone()
    };
    assert_eq!(
        fields("us.amazon.nova-2-lite-v1:0"),
        json!({ "reasoningConfig": { "type": "enabled", "maxReasoningEffort": "high" } })
    );
    assert_eq!(fields("openai.gpt-oss-120b-1:0"), json!({ "reasoning_effort": "high" }));
    assert_eq!(
        fields("global.anthropic.claude-opus-5-5"),
        json!({ "thinking": { "type": "adaptive", "display": "summarized" }, "output_config": { "effort": "high" } })
    );
    assert_eq!(fields("amazon.nova-pro-v1:0"), Value::Null);
}

#[test]
fn ollama_gets_levels_only_where_supported() {
    let think = |model: &str, level| {
        let mut request = talk(model);
        request.options.thinking = level;
        in_ollama(&request)["think"].clone()
    };
    assert_eq!(think("gpt-oss:20b", ThinkingLevel::Xhigh), "high");
    assert_eq!(think("qwen3:8b", ThinkingLevel::Medium), true);
    assert_eq!(think("qwen3:8b", ThinkingLevel::Off), false);
}

#[test]
fn user_table_sets_the_context_of_a_local_model() {
    let table = ModelTable::read("[ollama]\n[[ollama.models]]\nid = 'mine'\ncontext-window = 65_536\n").unwrap();
    let request = talk("mine");
    let body =
        ollama::request_body(&request, &ModelTable::builtin().with(&table).find("ollama", "mine"), "ollama").unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["options"], json!({ "num_ctx": 65_536 }));
    assert_eq!(in_ollama(&talk("unknown")).get("options"), None);
}

#[test]
fn proxy_parses_only_requests_of_its_protocol() {
    let mut request = talk("anthropic/claude-opus-5-5");
    request.tools = vec![tool("read")];
    request.tool_choice = ToolChoice::Tool("read".to_owned());
    request.options.thinking = ThinkingLevel::High;
    request.options.cache = CachePolicy::Manual { system: true, tools: false, messages: true };
    request.options.api_key = Some(secrecy::SecretString::from("sk-never-sent"));
    let body = proxy::request_body(&request).unwrap();
    assert!(!String::from_utf8_lossy(&body).contains("never"));
    let read = proxy::read_request(&body).unwrap();
    assert_eq!(
        (read.messages.len(), &read.tool_choice, read.options.cache),
        (3, &request.tool_choice, request.options.cache)
    );
    assert_eq!(proxy::request_body(&read).unwrap(), body);
    for (body, said) in [("{}", "malformed request"), ("{\"version\":9}", "version 9"), ("[", "malformed request")] {
        assert!(proxy::read_request(body.as_bytes()).unwrap_err().to_string().contains(said));
    }
}

#[test]
fn frame_over_16_mib_is_an_immediate_error() {
    let (events, error) = decode(&mut *decoder("bedrock"), &[&[0x7f, 0xff, 0xff, 0xff]]);
    assert!(events.is_empty() && error.unwrap().to_string().contains("larger than 16 MiB"));
    let (_, error) = decode(&mut *decoder("bedrock"), &[&[0, 0, 0, 3, 0]]);
    assert!(error.unwrap().to_string().contains("shorter than its own frame"));
}

#[test]
fn reply_with_too_many_parts_is_an_error() {
    let call = r#"{"model":"m","message":{"role":"assistant","tool_calls":[{"function":{"name":"t"}}]},"done":false}"#;
    let (events, error) = decode(&mut *decoder("ollama"), &[format!("{call}\n").repeat(5_000).as_bytes()]);
    assert!(error.unwrap().to_string().contains("more than 4096 parts"));
    assert!(events.len() < 15_000);
}
