//! No history makes a later request fail: for all texts, calls and results, from any model, every format renders a body
//! that follows its vendor's documented rules.

use crate::support::{rules, tool};
use jiff::Timestamp;
use pinion_protocol::{
    AssistantMessage, Content, ExtensionMessage, Image, Message, Request, RequestOptions, StopReason, Thinking,
    ThinkingLevel, ToolCall, ToolChoice, ToolDefinition, ToolResultMessage, Usage, UserMessage,
};
use pinion_providers::{ModelSpec, ModelTable, anthropic, bedrock, gemini, openai_chat, openai_responses};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

/// The providers and models of replies, and of requests.
const MODELS: [(&str, &str); 6] = [
    ("anthropic", "claude-opus-5-5"),
    ("openai-chat", "gpt-4o"),
    ("openai-responses", "gpt-6-sol"),
    ("gemini", "gemini-3.8-flash"),
    ("bedrock", "us.anthropic.claude-opus-5-5-v1"),
    ("mistral", "mistral-large-4"),
];

fn cases() -> ProptestConfig {
    ProptestConfig::with_cases(if std::env::var_os("PINION_LONG").is_some() { 20_000 } else { 300 })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z ]{1,12}",
        1 => Just(String::new()),
        1 => Just(" \n\t".to_owned()),
        1 => Just("a\0b".to_owned()),
        1 => Just("\u{1b}[31m\u{7}\u{fffd}\u{d7ff}\u{200b}".to_owned()),
        1 => Just("<|channel|>commentary</think>😀".to_owned()),
        1 => "\\PC{0,10}|[\\s\\S]{0,6}",
    ]
}

fn any_image() -> impl Strategy<Value = Content> {
    let media_type =
        prop_oneof![Just("image/png"), Just("image/jpeg"), Just("image/svg+xml"), Just(""), Just("text/plain")];
    let data = prop_oneof![
        Just(b"\x89PNG\r\n\x1a\n".to_vec()),
        Just(vec![0xff, 0xd8, 0xff, 0xe0]),
        Just(Vec::new()),
        Just(b"no image".to_vec()),
    ];
    (media_type, data).prop_map(|(media_type, data)| Content::Image(Image { media_type: media_type.to_owned(), data }))
}

fn any_id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop_oneof![Just("c0"), Just("c1"), Just("c0_2"), Just("call_1")].prop_map(str::to_owned),
        1 => prop_oneof![Just(""), Just("functions.read:0"), Just("call|fc_ü"), Just("abc123XYZ"), Just("a\0")]
            .prop_map(str::to_owned),
        1 => Just("x".repeat(80)),
        1 => Just("x".repeat(64)),
    ]
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop_oneof![Just("read"), Just("write"), Just("gone")].prop_map(str::to_owned),
        2 => prop_oneof![
            Just(""),
            Just("functions.read"),
            Just("functions_read"),
            Just("default_api:read"),
            Just("$READFILE"),
            Just("read<|channel|>commentary"),
            Just("read file\n"),
            Just("2nd"),
            Just("-"),
            Just("größe"),
            Just("\0"),
        ]
        .prop_map(str::to_owned),
        1 => Just("y".repeat(80)),
        1 => "\\PC{0,70}",
    ]
}

fn any_arguments() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!({ "path": "a\0", "": [null, { "\0": 1.5 }] })),
        Just(Value::Null),
        Just(json!([1])),
        Just(json!("text")),
    ]
}

fn any_call() -> impl Strategy<Value = Content> {
    (any_id(), any_name(), any_arguments(), any::<bool>()).prop_map(|(id, name, arguments, is_cut)| {
        Content::ToolCall(match is_cut {
            true => ToolCall::from_stream(id, name, "{\"pa\0".to_owned()),
            false => ToolCall::new(id, name, arguments),
        })
    })
}

fn any_thinking() -> impl Strategy<Value = Content> {
    let item = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e" }).to_string();
    let signature = prop_oneof![Just(None), Just(Some("sig".to_owned())), Just(Some(item))];
    ("[a-z ]{0,12}", signature, any::<bool>())
        .prop_map(|(text, signature, redacted)| Content::Thinking(Thinking { text, signature, redacted }))
}

fn text_part() -> impl Strategy<Value = Content> {
    any_text().prop_map(Content::text)
}

fn any_user() -> impl Strategy<Value = Message> {
    let part = prop_oneof![3 => text_part(), 1 => any_image()];
    prop::collection::vec(part, 0..3)
        .prop_map(|content| Message::User(UserMessage { content, label: None, timestamp: Timestamp::UNIX_EPOCH }))
}

fn any_reply() -> impl Strategy<Value = Message> {
    let part = prop_oneof![2 => text_part(), 2 => any_call(), 1 => any_thinking(), 1 => any_image()];
    let reason = prop_oneof![
        Just(StopReason::Stop),
        Just(StopReason::ToolUse),
        Just(StopReason::Length),
        Just(StopReason::Error),
        Just(StopReason::Aborted),
    ];
    (prop::collection::vec(part, 0..4), reason, prop::sample::select(&MODELS[..])).prop_map(
        |(content, stop_reason, (provider, model))| {
            // A vendor accepts the IDs that it chose itself, and chooses no others.
            let is_plain = |id: &str| id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
            let is_odd = content.iter().filter_map(Content::as_tool_call).any(|call| !is_plain(&call.id));
            let provider = if is_odd { "elsewhere" } else { provider };
            Message::Assistant(AssistantMessage {
                content,
                stop_reason,
                provider: provider.to_owned(),
                model: model.to_owned(),
                requested_model: None,
                usage: Usage::default(),
                cost: None,
                error: None,
                timestamp: Timestamp::UNIX_EPOCH,
            })
        },
    )
}

fn result_of(call: &ToolCall, content: Vec<Content>, is_error: bool) -> Message {
    Message::ToolResult(ToolResultMessage { content, is_error, ..ToolResultMessage::error(call, "") })
}

fn result_content() -> impl Strategy<Value = Vec<Content>> {
    prop::collection::vec(prop_oneof![3 => text_part(), 1 => any_image()], 0..3)
}

/// A reply with the results of its calls, as the loop stores it.
fn sound_turn() -> impl Strategy<Value = Vec<Message>> {
    (any_reply(), result_content(), any::<bool>()).prop_map(|(reply, content, is_error)| {
        let results: Vec<Message> = match &reply {
            Message::Assistant(reply) => {
                reply.tool_calls().map(|call| result_of(call, content.clone(), is_error)).collect()
            }
            _ => Vec::new(),
        };
        std::iter::once(reply).chain(results).collect()
    })
}

fn any_messages() -> impl Strategy<Value = Vec<Message>> {
    let lost = (any_id(), any_name(), result_content(), any::<bool>())
        .prop_map(|(id, name, content, is_error)| result_of(&ToolCall::new(id, name, json!({})), content, is_error));
    let extension = ExtensionMessage { kind: "x".to_owned(), data: json!("\0"), timestamp: Timestamp::UNIX_EPOCH };
    let one = prop_oneof![
        3 => any_user(),
        1 => any_reply(),
        1 => lost,
        1 => Just(Message::Extension(extension)),
    ];
    let step = prop_oneof![1 => one.prop_map(|message| vec![message]), 1 => sound_turn()];
    prop::collection::vec(step, 0..8).prop_map(|steps| steps.concat())
}

fn any_schema() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({ "type": "object", "properties": { "path": { "type": "string" } } })),
        Just(
            json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "^(?=a)\\p{L}[\\w-.]$" } } })
        ),
        Just(json!({ "properties": { "a": { "not": { "pattern": "[" } } } })),
        Just(json!({ "type": ["object", "null"], "patternProperties": { "x": {} }, "additionalProperties": false })),
        Just(json!(true)),
        "\\^[a-z\\[\\]\\\\(){}|?+*^.d-]{0,8}\\$"
            .prop_map(|pattern| json!({ "type": "object", "properties": { "a": { "pattern": pattern } } })),
    ]
}

fn any_tools() -> impl Strategy<Value = Vec<Arc<ToolDefinition>>> {
    let names = prop::sample::subsequence(vec!["read", "write", "functions_read", "unnamed"], 0..4);
    (names, any_schema()).prop_map(|(names, schema)| {
        let defined = |name: &str| ToolDefinition { input_schema: schema.clone(), ..(*tool(name)).clone() };
        names.into_iter().map(|name| Arc::new(defined(name))).collect()
    })
}

fn any_request() -> impl Strategy<Value = Request> {
    let choice = prop_oneof![3 => Just(ToolChoice::Auto), 1 => Just(ToolChoice::None), 1 => Just(ToolChoice::Any)];
    let level = prop_oneof![Just(ThinkingLevel::Off), Just(ThinkingLevel::Low), Just(ThinkingLevel::Xhigh)];
    (any_messages(), any_text(), any_tools(), choice, level).prop_map(
        |(messages, system, tools, tool_choice, thinking)| Request {
            model: String::new(),
            system: system.into(),
            messages: messages.into_iter().map(Arc::new).collect(),
            tools,
            tool_choice,
            options: RequestOptions { thinking, ..RequestOptions::default() },
        },
    )
}

/// Renders a request for a vendor and checks the body against its rules.
fn assert_accepted<E: std::fmt::Debug>(
    request: &Request,
    (provider, name): (&str, &str),
    render: impl Fn(&Request, &ModelSpec) -> Result<Vec<u8>, E>,
    rules: fn(&Value) -> Result<(), String>,
) -> Result<(), TestCaseError> {
    let model = ModelTable::builtin().find(provider, name);
    let request = Request { model: name.to_owned(), ..request.clone() };
    let bytes = render(&request, &model).map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
    let body: Value = serde_json::from_slice(&bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(&render(&request, &model).ok(), &Some(bytes), "the body is deterministic");
    rules(&body).map_err(|rule| TestCaseError::fail(format!("{provider} refuses {rule}\n{body}")))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn anthropic_accepts_every_history(request in any_request()) {
        let render = |request: &Request, model: &ModelSpec| {
            anthropic::request_body(request, model, "anthropic", &anthropic::AnthropicQuirks::ANTHROPIC)
        };
        assert_accepted(&request, MODELS[0], render, rules::anthropic)?;
    }

    #[test]
    fn openai_chat_accepts_every_history(request in any_request()) {
        let render = |request: &Request, model: &ModelSpec| {
            openai_chat::request_body(request, model, "openai-chat", &openai_chat::ChatQuirks::OPENAI)
        };
        assert_accepted(&request, MODELS[1], render, rules::openai_chat)?;
        let render = |request: &Request, model: &ModelSpec| {
            openai_chat::request_body(request, model, "openai-chat", &openai_chat::ChatQuirks::OPENAI.elsewhere())
        };
        assert_accepted(&request, MODELS[1], render, rules::alternating_chat)?;
    }

    #[test]
    fn openai_responses_accepts_every_history(request in any_request()) {
        let render = |request: &Request, model: &ModelSpec| {
            openai_responses::request_body(request, model, "openai-responses", &openai_responses::ResponsesQuirks::OPENAI)
        };
        assert_accepted(&request, MODELS[2], render, rules::openai_responses)?;
    }

    #[test]
    fn gemini_accepts_every_history(request in any_request()) {
        let render = |request: &Request, model: &ModelSpec| gemini::request_body(request, model, "gemini");
        assert_accepted(&request, MODELS[3], render, rules::gemini)?;
    }

    #[test]
    fn bedrock_accepts_every_history(request in any_request()) {
        let render = |request: &Request, model: &ModelSpec| bedrock::request_body(request, model, "bedrock");
        assert_accepted(&request, MODELS[4], render, rules::bedrock)?;
    }
}

/// The quirks of Mistral's row are not public, so its bodies are checked as they are sent.
#[tokio::test]
async fn mistral_accepts_prompts_after_results_and_repeated_ids() {
    let called = |text: &str| {
        let call = ToolCall::new("c0", "functions.read", json!({}));
        let reply = crate::support::reply("mistral", "mistral-large-4", vec![Content::ToolCall(call.clone())]);
        [crate::support::text(text), reply, result_of(&call, vec![Content::text("r")], false)]
    };
    let messages = [called("a").to_vec(), called("b").to_vec(), vec![crate::support::text("c")]].concat();
    let body = crate::chat_body::sent("mistral", crate::support::request("mistral-large-4", messages)).await;
    assert_eq!(rules::mistral(&body), Ok(()), "{body}");
}
