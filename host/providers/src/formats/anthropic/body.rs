//! The request body.

use crate::formats::acceptable::acceptable;
use crate::formats::adopted_parts::{CacheBreakpoints, CacheControl, EPHEMERAL};
use crate::formats::conversation::{
    IdRule, NO_FAILURE_TEXT, NO_IMAGE, RoleTurn, alternate, arguments, has_text, is_own, is_web_image, results_first,
};
use crate::models::{Effort, ModelSpec, ThinkingStyle, level_budget};
use pinion_protocol::{
    AssistantMessage, Content, Image, Message, Request, StopReason, Thinking, ThinkingLevel, ToolChoice,
    ToolDefinition, ToolResultMessage,
};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The API version, sent as the header `anthropic-version`.
pub const VERSION: &str = "2023-06-01";

pub(crate) const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";
const BINDING: &str = "thinking-binding-controls-2026-08-01";

/// The differences between a server and Anthropic's.
#[derive(Debug, Clone, Copy)]
pub struct AnthropicQuirks {
    /// Accepts thinking without a signature, which its own models produce.
    pub unsigned_thinking: bool,
    /// The constraint on tool call IDs.
    pub(crate) ids: IdRule,
}

impl AnthropicQuirks {
    /// Anthropic itself.
    pub const ANTHROPIC: Self = Self { unsigned_thinking: false, ids: IdRule::AtMost(64) };

    /// A server that Anthropic does not run, whose models are usually others.
    pub const ELSEWHERE: Self = Self { unsigned_thinking: true, ids: IdRule::OwnOrAtMost(64) };
}

/// The smallest thinking budget that the vendor accepts, and the room reserved for the answer, in tokens.
const MIN_BUDGET: u64 = 1_024;

/// Serializes a request to JSON. `provider` is the name stored with assistant messages from this provider.
///
/// # Errors
/// None in practice: every request can be serialized.
pub fn request_body(
    request: &Request,
    model: &ModelSpec,
    provider: &str,
    quirks: &AnthropicQuirks,
) -> serde_json::Result<Vec<u8>> {
    let request = &acceptable(request, model, provider, quirks.ids);
    let options = &request.options;
    let max_tokens = options.max_output_tokens.map_or(model.max_output, |max| model.output_limit(max));
    let plan = ThinkingSettings::for_request(request, model, max_tokens);
    let marks = CacheBreakpoints::for_policy(options.cache);
    let mut messages = turns(request, model, provider, quirks, plan.sends_back);
    if marks.messages && messages.len() >= 2 {
        let at = messages.len() - 2;
        mark_last(&mut messages[at].content);
    }
    let system = has_text(&request.system).then(|| AnthropicBlock::text(&request.system, marks.system));
    let mut tools: Vec<AnthropicTool<'_>> =
        request.tools.iter().map(|tool| AnthropicTool::from_definition(tool)).collect();
    if let Some(last) = tools.last_mut().filter(|_| marks.tools) {
        last.cache_control = Some(EPHEMERAL);
    }
    let is_without_thinking = plan.thinking.is_none() || matches!(plan.thinking, Some(ThinkingParam::Disabled));
    let body = AnthropicRequestBody {
        model: &request.model,
        max_tokens,
        stream: true,
        system: system.into_iter().collect(),
        messages,
        tool_choice: tool_choice(request, model),
        tools,
        output_config: plan.effort.map(|effort| OutputConfig { effort }),
        temperature: options
            .temperature
            .filter(|_| model.temperature && is_without_thinking)
            .map(|t| t.clamp(0.0, 1.0)),
        thinking: plan.thinking,
    };
    serde_json::to_vec(&body)
}

/// Returns the beta features that the body of this request requires, for the header `anthropic-beta`.
pub fn betas(request: &Request, model: &ModelSpec) -> Vec<&'static str> {
    let plan = ThinkingSettings::for_request(request, model, model.max_output);
    match plan.thinking {
        Some(ThinkingParam::Enabled { .. }) if model.known => vec![INTERLEAVED],
        Some(ThinkingParam::Adaptive { block_binding: Some(_), .. }) => vec![BINDING],
        _ => Vec::new(),
    }
}

/// Returns the fields `thinking` and `output_config` for a Claude model behind another vendor's format, and the kind of
/// thinking that they request.
pub(crate) fn thinking_fields(request: &Request, model: &ModelSpec, max_tokens: u64) -> (Map<String, Value>, Thinks) {
    let plan = ThinkingSettings::for_request(request, model, max_tokens);
    let thinks = match &plan.thinking {
        None | Some(ThinkingParam::Disabled) => Thinks::No,
        Some(ThinkingParam::Enabled { .. }) => Thinks::WithBudget,
        Some(ThinkingParam::Adaptive { .. }) => Thinks::Adaptive,
    };
    let thinking = plan.thinking.and_then(|thinking| serde_json::to_value(thinking).ok());
    let effort = plan.effort.and_then(|effort| serde_json::to_value(OutputConfig { effort }).ok());
    let fields =
        thinking.map(|value| ("thinking", value)).into_iter().chain(effort.map(|value| ("output_config", value)));
    (fields.map(|(name, value)| (name.to_owned(), value)).collect(), thinks)
}

/// The kind of thinking that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thinks {
    No,
    WithBudget,
    Adaptive,
}

/// The thinking settings of one request.
struct ThinkingSettings {
    thinking: Option<ThinkingParam>,
    effort: Option<Effort>,
    /// Sends thinking from earlier turns back.
    sends_back: bool,
}

impl ThinkingSettings {
    fn for_request(request: &Request, model: &ModelSpec, max_tokens: u64) -> Self {
        let level = request.options.thinking;
        // A forced tool call excludes thinking. Where the model can do without thinking, the call wins.
        let off = level == ThinkingLevel::Off || (is_forced(request) && model.forced_tools);
        let nothing = |sends_back| Self { thinking: None, effort: None, sends_back };
        let adaptive = || Self {
            thinking: Some(ThinkingParam::Adaptive {
                display: "summarized",
                block_binding: model.bound_thinking.then_some(BlockBinding { prefix_mismatch_behavior: "drop_block" }),
            }),
            effort: model.effort(level),
            sends_back: true,
        };
        match model.thinking {
            ThinkingStyle::None => nothing(false),
            ThinkingStyle::Budget | ThinkingStyle::Adaptive if off => nothing(false),
            ThinkingStyle::OnRequest | ThinkingStyle::Effort if off => nothing(true),
            ThinkingStyle::Default if off => Self { thinking: Some(ThinkingParam::Disabled), ..nothing(false) },
            ThinkingStyle::Budget | ThinkingStyle::OnRequest | ThinkingStyle::Effort => {
                let budget = budget(request, max_tokens);
                let thinking = budget.map(|budget_tokens| ThinkingParam::Enabled { budget_tokens });
                Self { sends_back: thinking.is_some(), thinking, effort: None }
            }
            ThinkingStyle::Adaptive | ThinkingStyle::Default | ThinkingStyle::Always => adaptive(),
        }
    }
}

/// The thinking budget, with room left for the answer; `None` when the output limit leaves no room.
fn budget(request: &Request, max_tokens: u64) -> Option<u64> {
    let wanted = request.options.budget().or(level_budget(request.options.thinking)).unwrap_or(MIN_BUDGET);
    let room = max_tokens.saturating_sub(MIN_BUDGET);
    (room >= MIN_BUDGET).then(|| wanted.clamp(MIN_BUDGET, room))
}

fn is_forced(request: &Request) -> bool {
    !request.tools.is_empty() && matches!(request.tool_choice, ToolChoice::Any | ToolChoice::Tool(_))
}

fn tool_choice<'a>(request: &'a Request, model: &ModelSpec) -> Option<AnthropicToolChoice<'a>> {
    match &request.tool_choice {
        _ if request.tools.is_empty() => None,
        ToolChoice::Auto => None,
        ToolChoice::None => Some(AnthropicToolChoice::None),
        ToolChoice::Any | ToolChoice::Tool(_) if !model.forced_tools => None,
        ToolChoice::Any => Some(AnthropicToolChoice::Any),
        ToolChoice::Tool(name) => Some(AnthropicToolChoice::Tool { name }),
    }
}

/// Converts the conversation to turns that alternate, starting with the user.
fn turns<'a>(
    request: &'a Request,
    model: &ModelSpec,
    provider: &str,
    quirks: &AnthropicQuirks,
    sends_back: bool,
) -> Vec<RoleTurn<AnthropicBlock<'a>>> {
    let messages = request.messages.iter().filter_map(|message| {
        Some(match &**message {
            Message::User(user) => ("user", user.content.iter().filter_map(|part| user_block(part, model)).collect()),
            Message::ToolResult(result) => ("user", vec![result_block(result, model)]),
            Message::Assistant(reply) => {
                // A reply that was cut off may lack a signature that its server requires.
                let is_complete = matches!(reply.stop_reason, StopReason::Stop | StopReason::ToolUse);
                let thinking = match sends_back && is_own(reply, provider, model) {
                    false => ThinkingBack::No,
                    true if quirks.unsigned_thinking && is_complete => ThinkingBack::All,
                    true => ThinkingBack::Signed,
                };
                ("assistant", reply_blocks(reply, thinking))
            }
            Message::Extension(_) => return None,
        })
    });
    let mut turns = alternate(messages);
    results_first(&mut turns, |block| matches!(block, AnthropicBlock::ToolResult { .. }));
    turns
}

fn user_block<'a>(part: &'a Content, model: &ModelSpec) -> Option<AnthropicBlock<'a>> {
    match part {
        Content::Text { text } => has_text(text).then(|| AnthropicBlock::text(text, false)),
        Content::Image(image) => Some(AnthropicBlock::image(image, model)),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

/// A failed result may contain only text, and must not be empty.
fn result_block<'a>(result: &'a ToolResultMessage, model: &ModelSpec) -> AnthropicBlock<'a> {
    let parts = result.content.iter().filter_map(|part| match (part, result.is_error) {
        (Content::Image(_), true) => Some(AnthropicBlock::text(NO_IMAGE, false)),
        _ => user_block(part, model),
    });
    let mut content: Vec<AnthropicBlock<'a>> = parts.collect();
    if content.is_empty() && result.is_error {
        content.push(AnthropicBlock::text(NO_FAILURE_TEXT, false));
    }
    AnthropicBlock::ToolResult { tool_use_id: &result.call_id, content, is_error: result.is_error, cache_control: None }
}

/// The thinking that is sent back to the model.
#[derive(Clone, Copy)]
enum ThinkingBack {
    No,
    Signed,
    All,
}

/// Converts a reply's parts in order. A reply with nothing but thinking becomes empty, because the vendor rejects it.
fn reply_blocks<'a>(reply: &'a AssistantMessage, thinking: ThinkingBack) -> Vec<AnthropicBlock<'a>> {
    let blocks = reply.content.iter().filter_map(|part| reply_block(part, thinking));
    let blocks: Vec<AnthropicBlock<'a>> = blocks.collect();
    let has_content = blocks
        .iter()
        .any(|block| !matches!(block, AnthropicBlock::Thinking { .. } | AnthropicBlock::RedactedThinking { .. }));
    if has_content { blocks } else { Vec::new() }
}

fn reply_block<'a>(part: &'a Content, back: ThinkingBack) -> Option<AnthropicBlock<'a>> {
    match part {
        Content::Text { text } => has_text(text).then(|| AnthropicBlock::text(text, false)),
        Content::Thinking(thinking) => {
            let Thinking { text, signature, redacted } = thinking;
            match (back, signature) {
                (ThinkingBack::No, _) | (ThinkingBack::Signed, None) => None,
                (_, None) if *redacted => None,
                (_, Some(data)) if *redacted => Some(AnthropicBlock::RedactedThinking { data }),
                // The format requires the field.
                _ => Some(AnthropicBlock::Thinking {
                    thinking: text,
                    signature: signature.as_deref().unwrap_or_default(),
                }),
            }
        }
        Content::ToolCall(call) => Some(AnthropicBlock::ToolUse {
            id: &call.id,
            name: &call.name,
            input: arguments(call),
            cache_control: None,
        }),
        Content::Image(_) => None,
    }
}

/// Sets a cache breakpoint on the last block that supports one.
fn mark_last(blocks: &mut [AnthropicBlock<'_>]) {
    let mark = blocks.iter_mut().rev().find_map(|block| match block {
        AnthropicBlock::Text { cache_control, .. }
        | AnthropicBlock::Image { cache_control, .. }
        | AnthropicBlock::ToolUse { cache_control, .. }
        | AnthropicBlock::ToolResult { cache_control, .. } => Some(cache_control),
        AnthropicBlock::Thinking { .. } | AnthropicBlock::RedactedThinking { .. } => None,
    });
    if let Some(mark) = mark {
        *mark = Some(EPHEMERAL);
    }
}

#[derive(Serialize)]
struct AnthropicRequestBody<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<AnthropicBlock<'a>>,
    messages: Vec<RoleTurn<AnthropicBlock<'a>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<AnthropicTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<AnthropicToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingParam>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicBlock<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Image {
        source: ImageSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Cow<'a, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<AnthropicBlock<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

impl<'a> AnthropicBlock<'a> {
    fn text(text: &'a str, marked: bool) -> Self {
        Self::Text { text, cache_control: marked.then_some(EPHEMERAL) }
    }

    fn image(image: &'a Image, model: &ModelSpec) -> Self {
        match model.images && is_web_image(&image.media_type) {
            true => Self::Image { source: ImageSource::from_image(image), cache_control: None },
            false => Self::text(NO_IMAGE, false),
        }
    }
}

#[derive(Serialize)]
struct ImageSource<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: String,
}

impl<'a> ImageSource<'a> {
    fn from_image(image: &'a Image) -> Self {
        Self { r#type: "base64", media_type: &image.media_type, data: image.base64() }
    }
}

#[derive(Serialize)]
struct AnthropicTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

impl<'a> AnthropicTool<'a> {
    fn from_definition(tool: &'a ToolDefinition) -> Self {
        Self { name: &tool.name, description: &tool.description, input_schema: &tool.input_schema, cache_control: None }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicToolChoice<'a> {
    None,
    Any,
    Tool { name: &'a str },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ThinkingParam {
    Disabled,
    Enabled {
        budget_tokens: u64,
    },
    Adaptive {
        /// Newer models return no thinking without this field.
        display: &'static str,
        /// Newer models reject thinking when the tools or messages before it have changed, as after a plugin reload or
        /// a compaction. This makes the vendor drop such thinking instead of the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        block_binding: Option<BlockBinding>,
    },
}

#[derive(Serialize)]
struct BlockBinding {
    prefix_mismatch_behavior: &'static str,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: Effort,
}
