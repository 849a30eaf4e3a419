//! The request body.

use crate::formats::acceptable::acceptable;
use crate::formats::anthropic::{INTERLEAVED, Thinks, thinking_fields};
use crate::formats::conversation::{
    IdRule, NO_FAILURE_TEXT, NO_IMAGE, NO_OUTPUT, RoleTurn, alternate, arguments, has_text, is_own, is_web_image,
    results_first,
};
use crate::models::{Caching, ModelSpec, ThinkingStyle};
use pinion_protocol::{
    AssistantMessage, CachePolicy, Content, Image, Message, Request, Thinking, ThinkingLevel, ToolChoice,
    ToolResultMessage,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;

const IDS: IdRule = IdRule::AtMost(64);

/// Serializes a request to JSON. `provider` is the name stored with assistant messages from this provider.
///
/// # Errors
/// None in practice: every request can be serialized.
pub fn request_body(request: &Request, model: &ModelSpec, provider: &str) -> serde_json::Result<Vec<u8>> {
    let request = &acceptable(request, model, provider, IDS);
    let options = &request.options;
    // The vendor does not document its switch for bound thinking here.
    let model = &ModelSpec { bound_thinking: false, ..model.clone() };
    let max_tokens =
        options.max_output_tokens.map(|max| model.output_limit(max)).or(model.known.then_some(model.max_output));
    let (fields, thinks) = extra_fields(request, model, max_tokens.unwrap_or(model.max_output));
    let marks = CachePoints::for_policy(options.cache, model);
    let mut messages = turns(request, model, provider);
    if marks.messages && messages.len() >= 2 {
        let at = messages.len() - 2;
        messages[at].content.push(BedrockBlock::cache_point());
    }
    let mut system: Vec<BedrockBlock<'_>> = Vec::new();
    if has_text(&request.system) {
        system.push(BedrockBlock::text(&request.system));
        system.extend(marks.system.then(BedrockBlock::cache_point));
    }
    serde_json::to_vec(&BedrockRequestBody {
        tool_config: tool_config(request, model, &messages, marks.tools),
        messages,
        system,
        inference_config: InferenceConfig {
            max_tokens,
            temperature: options.temperature.filter(|_| model.temperature && thinks == Thinks::No),
        },
        additional_model_request_fields: (!fields.is_empty()).then_some(fields),
    })
}

/// Returns the fields that request thinking, which differ by the model's vendor.
fn extra_fields(request: &Request, model: &ModelSpec, max_tokens: u64) -> (Map<String, Value>, Thinks) {
    let level = request.options.thinking;
    match model.thinking {
        ThinkingStyle::Budget | ThinkingStyle::Adaptive | ThinkingStyle::Default | ThinkingStyle::Always => {
            let (mut fields, thinks) = thinking_fields(request, model, max_tokens);
            if thinks == Thinks::WithBudget && model.known {
                fields.insert("anthropic_beta".to_owned(), json!([INTERLEAVED]));
            }
            (fields, thinks)
        }
        ThinkingStyle::Effort if level != ThinkingLevel::Off => {
            let effort = model.effort(level).map(|effort| match model.id.contains("amazon.") {
                true => ("reasoningConfig", json!({ "type": "enabled", "maxReasoningEffort": effort })),
                false => ("reasoning_effort", json!(effort)),
            });
            (effort.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(), Thinks::No)
        }
        ThinkingStyle::Effort | ThinkingStyle::None | ThinkingStyle::OnRequest => (Map::new(), Thinks::No),
    }
}

/// The cache points to set. Models without caching reject them.
struct CachePoints {
    system: bool,
    tools: bool,
    messages: bool,
}

impl CachePoints {
    fn for_policy(policy: CachePolicy, model: &ModelSpec) -> Self {
        // Amazon's own models do not cache tools.
        let caches_tools = !model.id.contains("amazon.");
        match policy {
            _ if model.caching != Caching::Breakpoints => Self { system: false, tools: false, messages: false },
            CachePolicy::Auto => Self { system: true, tools: caches_tools, messages: true },
            CachePolicy::Off => Self { system: false, tools: false, messages: false },
            CachePolicy::Manual { system, tools, messages } => Self { system, tools: tools && caches_tools, messages },
        }
    }
}

/// Declares the offered tools, plus stand-ins for tools that the conversation calls but that are no longer offered: the
/// vendor rejects undeclared ones. The API cannot express that the model must not call a tool.
fn tool_config<'a>(
    request: &'a Request,
    model: &ModelSpec,
    messages: &[RoleTurn<BedrockBlock<'a>>],
    mark: bool,
) -> Option<ToolConfig<'a>> {
    let called: BTreeSet<&'a str> =
        messages.iter().flat_map(|turn| &turn.content).filter_map(BedrockBlock::called).collect();
    if called.is_empty() && (request.tools.is_empty() || request.tool_choice == ToolChoice::None) {
        return None;
    }
    let offered = request.tools.iter().map(|tool| ToolSpec {
        name: &tool.name,
        description: Some(&tool.description).filter(|text| has_text(text)),
        input_schema: Schema { json: Cow::Borrowed(&tool.input_schema) },
    });
    let mut tools: Vec<BedrockTool<'a>> = offered.map(BedrockTool::ToolSpec).collect();
    if mark && !tools.is_empty() {
        tools.push(BedrockTool::CachePoint { r#type: "default" });
    }
    let is_offered = |name: &&str| request.tools.iter().any(|tool| tool.name == **name);
    tools.extend(called.into_iter().filter(|name| !is_offered(name)).map(|name| {
        let input_schema = Schema { json: Cow::Owned(json!({ "type": "object" })) };
        BedrockTool::ToolSpec(ToolSpec { name, description: None, input_schema })
    }));
    let tool_choice = match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Any | ToolChoice::Tool(_) if !model.forced_tools || request.tools.is_empty() => None,
        ToolChoice::Any => Some(json!({ "any": {} })),
        ToolChoice::Tool(name) => Some(json!({ "tool": { "name": name } })),
    };
    Some(ToolConfig { tools, tool_choice })
}

/// Converts the conversation to turns that alternate, starting with the user, with results first.
fn turns<'a>(request: &'a Request, model: &ModelSpec, provider: &str) -> Vec<RoleTurn<BedrockBlock<'a>>> {
    let messages = request.messages.iter().filter_map(|message| {
        Some(match &**message {
            Message::User(user) => ("user", user.content.iter().filter_map(|part| user_block(part, model)).collect()),
            Message::ToolResult(result) => ("user", vec![result_block(result, model)]),
            Message::Assistant(reply) => ("assistant", reply_blocks(reply, is_own(reply, provider, model))),
            Message::Extension(_) => return None,
        })
    });
    let mut turns = alternate(messages);
    results_first(&mut turns, |block| block.tool_result.is_some());
    turns
}

fn user_block<'a>(part: &'a Content, model: &ModelSpec) -> Option<BedrockBlock<'a>> {
    match part {
        Content::Text { text } => has_text(text).then(|| BedrockBlock::text(text)),
        Content::Image(image) => Some(BedrockBlock::image(image, model)),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

fn result_block<'a>(result: &'a ToolResultMessage, model: &ModelSpec) -> BedrockBlock<'a> {
    let mut content: Vec<BedrockBlock<'a>> = result.content.iter().filter_map(|part| user_block(part, model)).collect();
    if content.is_empty() {
        content.push(BedrockBlock::text(if result.is_error { NO_FAILURE_TEXT } else { NO_OUTPUT }));
    }
    // Models of other vendors reject a status.
    let takes_status = matches!(model.caching, Caching::Breakpoints);
    let tool_result = ToolResult {
        tool_use_id: &result.call_id,
        content,
        status: (result.is_error && takes_status).then_some("error"),
    };
    BedrockBlock { tool_result: Some(tool_result), ..BedrockBlock::default() }
}

/// Converts a reply's parts in order. A reply with nothing but thinking becomes empty, because the vendor rejects it.
fn reply_blocks<'a>(reply: &'a AssistantMessage, is_own: bool) -> Vec<BedrockBlock<'a>> {
    let blocks: Vec<BedrockBlock<'a>> = reply.content.iter().filter_map(|part| reply_block(part, is_own)).collect();
    let has_content = blocks.iter().any(|block| block.reasoning_content.is_none());
    if has_content { blocks } else { Vec::new() }
}

fn reply_block<'a>(part: &'a Content, is_own: bool) -> Option<BedrockBlock<'a>> {
    match part {
        Content::Text { text } => has_text(text).then(|| BedrockBlock::text(text)),
        Content::Thinking(thinking) => reasoning_block(thinking).filter(|_| is_own),
        Content::ToolCall(call) => {
            let tool_use = ToolUse { tool_use_id: &call.id, name: &call.name, input: arguments(call) };
            Some(BedrockBlock { tool_use: Some(tool_use), ..BedrockBlock::default() })
        }
        Content::Image(_) => None,
    }
}

fn reasoning_block(thinking: &Thinking) -> Option<BedrockBlock<'_>> {
    let signature = thinking.signature.as_deref()?;
    let reasoning = match thinking.redacted {
        true => ReasoningBlock::RedactedContent(signature),
        false => ReasoningBlock::ReasoningText { text: &thinking.text, signature },
    };
    Some(BedrockBlock { reasoning_content: Some(reasoning), ..BedrockBlock::default() })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BedrockRequestBody<'a> {
    messages: Vec<RoleTurn<BedrockBlock<'a>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<BedrockBlock<'a>>,
    inference_config: InferenceConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_model_request_fields: Option<Map<String, Value>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InferenceConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

/// A block of content, with exactly one field set.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct BedrockBlock<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<WireImage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use: Option<ToolUse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_result: Option<ToolResult<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<ReasoningBlock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_point: Option<CachePoint>,
}

impl<'a> BedrockBlock<'a> {
    fn text(text: &'a str) -> Self {
        Self { text: Some(text), ..Self::default() }
    }

    fn cache_point() -> Self {
        Self { cache_point: Some(CachePoint { r#type: "default" }), ..Self::default() }
    }

    fn image(image: &Image, model: &ModelSpec) -> Self {
        match image.media_type.strip_prefix("image/").filter(|_| model.images && is_web_image(&image.media_type)) {
            Some(format) => {
                let image = WireImage { format: format.to_owned(), source: ImageSource { bytes: image.base64() } };
                Self { image: Some(image), ..Self::default() }
            }
            None => Self::text(NO_IMAGE),
        }
    }

    fn called(&self) -> Option<&'a str> {
        self.tool_use.as_ref().map(|tool| tool.name)
    }
}

#[derive(Serialize)]
struct CachePoint {
    r#type: &'static str,
}

#[derive(Serialize)]
struct WireImage {
    format: String,
    source: ImageSource,
}

#[derive(Serialize)]
struct ImageSource {
    bytes: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolUse<'a> {
    tool_use_id: &'a str,
    name: &'a str,
    input: Cow<'a, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    tool_use_id: &'a str,
    content: Vec<BedrockBlock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ReasoningBlock<'a> {
    ReasoningText { text: &'a str, signature: &'a str },
    RedactedContent(&'a str),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    tools: Vec<BedrockTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum BedrockTool<'a> {
    ToolSpec(ToolSpec<'a>),
    CachePoint { r#type: &'static str },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolSpec<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a String>,
    input_schema: Schema<'a>,
}

#[derive(Serialize)]
struct Schema<'a> {
    json: Cow<'a, Value>,
}
