//! The request body.

use crate::formats::acceptable::acceptable;
use crate::formats::adopted_parts::FunctionTool;
use crate::formats::conversation::{
    ConversationStep, IMAGE_FOLLOWS, IMAGES_FOLLOW, IdRule, NO_IMAGE, NO_OUTPUT, arguments, fields_of_server, has_text,
    is_own, is_web_image, steps,
};
use crate::models::{Effort, ModelSpec, ThinkingStyle};
use pinion_protocol::{AssistantMessage, Content, Request, ThinkingLevel, ToolResultMessage};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Serializes a request to JSON. `provider` is the name stored with assistant messages from this provider.
///
/// # Errors
/// None in practice: every request can be serialized.
pub fn request_body(request: &Request, model: &ModelSpec, provider: &str) -> serde_json::Result<Vec<u8>> {
    let request = &acceptable(request, model, provider, IdRule::Any);
    let options = &request.options;
    serde_json::to_vec(&OllamaRequestBody {
        model: &request.model,
        messages: messages(request, model, provider),
        stream: true,
        truncate: false,
        tools: request.tools.iter().map(|tool| FunctionTool::from_definition(tool)).collect(),
        think: think(options.thinking, model),
        options: Options {
            num_predict: options.max_output_tokens.map(|max| model.output_limit(max)),
            temperature: options.temperature.filter(|_| model.temperature),
            num_ctx: model.known.then_some(model.context_window),
        },
    })
}

/// Models that can think do so by default; others accept an explicit `false`.
fn think(level: ThinkingLevel, model: &ModelSpec) -> Option<Think> {
    match (model.thinking, level) {
        (ThinkingStyle::None, _) => None,
        (_, ThinkingLevel::Off) => Some(Think::Switch(false)),
        (_, level) => Some(model.effort(level).map_or(Think::Switch(true), Think::Effort)),
    }
}

/// Converts the conversation. Images that tools returned are collected and follow their results.
fn messages<'a>(request: &'a Request, model: &ModelSpec, provider: &str) -> Vec<WireMessage<'a>> {
    let mut out: Vec<WireMessage<'a>> = Vec::with_capacity(request.messages.len() + 1);
    if has_text(&request.system) {
        out.push(WireMessage::new("system", Cow::Borrowed(&*request.system)));
    }
    let mut pending_images: Vec<String> = Vec::new();
    for step in steps(request) {
        match step {
            ConversationStep::User(user) => {
                let (text, images) = split(&user.content, model);
                if has_text(&text) || !images.is_empty() {
                    out.push(WireMessage { images, ..WireMessage::new("user", text) });
                }
            }
            ConversationStep::Reply(reply) => out.extend(reply_message(reply, is_own(reply, provider, model))),
            ConversationStep::Result(result) => out.push(result_message(result, model, &mut pending_images)),
            ConversationStep::ResultsEnd => flush(&mut pending_images, &mut out),
        }
    }
    out
}

fn flush(pending_images: &mut Vec<String>, out: &mut Vec<WireMessage<'_>>) {
    if !pending_images.is_empty() {
        let text = Cow::Borrowed(IMAGES_FOLLOW);
        out.push(WireMessage { images: std::mem::take(pending_images), ..WireMessage::new("user", text) });
    }
}

/// Splits a message into its text and its images.
fn split<'a>(content: &'a [Content], model: &ModelSpec) -> (Cow<'a, str>, Vec<String>) {
    let mut texts: Vec<&'a str> = Vec::new();
    let mut images = Vec::new();
    for part in content {
        match part {
            Content::Text { text } if has_text(text) => texts.push(text),
            Content::Image(image) if model.images && is_web_image(&image.media_type) => images.push(image.base64()),
            Content::Image(_) => texts.push(NO_IMAGE),
            Content::Text { .. } | Content::Thinking(_) | Content::ToolCall(_) => {}
        }
    }
    match texts[..] {
        [text] => (Cow::Borrowed(text), images),
        _ => (Cow::Owned(texts.join("\n")), images),
    }
}

/// Converts a reply; `None` when nothing in it is acceptable to the server.
fn reply_message(reply: &AssistantMessage, is_own: bool) -> Option<WireMessage<'_>> {
    let text: Vec<&str> = reply.content.iter().filter_map(Content::as_text).filter(|text| has_text(text)).collect();
    let calls = reply.tool_calls().map(|call| OllamaToolCall {
        id: &call.id,
        function: CalledFunction { name: &call.name, arguments: arguments(call) },
        others: fields_of_server(call.signature.as_deref().filter(|_| is_own)),
    });
    let tool_calls: Vec<OllamaToolCall<'_>> = calls.collect();
    if text.is_empty() && tool_calls.is_empty() {
        return None;
    }
    let thoughts = reply.content.iter().filter_map(|part| match part {
        Content::Thinking(thinking) if is_own => Some(thinking.text.as_str()),
        _ => None,
    });
    let thinking: String = thoughts.collect();
    let thinking = has_text(&thinking).then_some(thinking);
    Some(WireMessage { tool_calls, thinking, ..WireMessage::new("assistant", Cow::Owned(text.join("\n\n"))) })
}

fn result_message<'a>(
    result: &'a ToolResultMessage,
    model: &ModelSpec,
    pending_images: &mut Vec<String>,
) -> WireMessage<'a> {
    let (text, mut images) = split(&result.content, model);
    let text = match (has_text(&text), images.is_empty()) {
        (true, _) => text,
        (false, true) => Cow::Borrowed(NO_OUTPUT),
        (false, false) => Cow::Borrowed(IMAGE_FOLLOWS),
    };
    pending_images.append(&mut images);
    WireMessage {
        tool_name: Some(&result.tool_name),
        tool_call_id: Some(&result.call_id),
        ..WireMessage::new("tool", text)
    }
}

#[derive(Serialize)]
struct OllamaRequestBody<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    stream: bool,
    truncate: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<FunctionTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<Think>,
    #[serde(skip_serializing_if = "Options::is_empty")]
    options: Options,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Think {
    Switch(bool),
    Effort(Effort),
}

#[derive(Serialize)]
struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    num_predict: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    /// The context window from the user's model table; the server's default may be as small as 4,096 tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    num_ctx: Option<u64>,
}

impl Options {
    fn is_empty(&self) -> bool {
        self.num_predict.is_none() && self.temperature.is_none() && self.num_ctx.is_none()
    }
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<OllamaToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

impl<'a> WireMessage<'a> {
    fn new(role: &'static str, content: Cow<'a, str>) -> Self {
        Self {
            role,
            content,
            thinking: None,
            images: Vec::new(),
            tool_calls: Vec::new(),
            tool_name: None,
            tool_call_id: None,
        }
    }
}

#[derive(Serialize)]
struct OllamaToolCall<'a> {
    id: &'a str,
    function: CalledFunction<'a>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: Cow<'a, Value>,
}
