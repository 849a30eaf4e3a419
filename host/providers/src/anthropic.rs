//! The wire format of Anthropic's Messages API, as streamed.
//!
//! [`request_body`] turns a request into a body, [`Decoder`] turns the bytes of the answer into events; neither knows of
//! HTTP. Three rules of the vendor shape most of this file: messages alternate between user and assistant, with tool
//! results first in the user's; thinking goes back unchanged, with its signature, and only to the model that wrote it;
//! and how thinking is asked for differs from model to model (see [`ThinkingStyle`]).
//!
//! Documentation: <https://platform.claude.com/docs/en/api/messages>, `/docs/en/build-with-claude/streaming`,
//! `/thinking`, `/effort`, `/prompt-caching`, `/preserved-thinking` beside it.

use crate::classify::classify_object;
use crate::conversation::{IdRule, NO_IMAGE, arguments, call_id, has_text, is_own, is_web_image};
use crate::models::{Effort, Model, ThinkingStyle, level_budget};
use crate::parts::Parts;
use crate::sse::SseParser;
use crate::wire::{self, broke_off, parse};
use pinion_protocol::{
    AssistantMessage, CachePolicy, Content, Image, Message, PartKind, ProviderError, Request, StopReason, StreamEvent,
    ThinkingLevel, ToolChoice, ToolDefinition, ToolResultMessage, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The version of the API that this file speaks, for the header `anthropic-version`.
pub const VERSION: &str = "2023-06-01";

pub(crate) const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";
const BINDING: &str = "thinking-binding-controls-2026-08-01";

const IDS: IdRule = IdRule::AtMost(64);

/// The least that the vendor accepts as a thinking budget, and what an answer needs beside it, in tokens.
const MIN_BUDGET: u64 = 1_024;

/// The body of a request, as JSON. `provider` is the name under which assistant messages of this provider were kept.
///
/// # Errors
/// None in practice: everything in a request can be written as JSON.
pub fn request_body(request: &Request, model: &Model, provider: &str) -> serde_json::Result<Vec<u8>> {
    let options = &request.options;
    let max_tokens = options.max_output_tokens.map_or(model.max_output, |max| model.output_limit(max));
    let plan = Plan::of(request, model, max_tokens);
    let marks = Marks::of(options.cache);
    let mut messages = turns(request, model, provider, plan.sends_back);
    if marks.messages && messages.len() >= 2 {
        let at = messages.len() - 2;
        mark_last(&mut messages[at].content);
    }
    let system = has_text(&request.system).then(|| Block::text(&request.system, marks.system));
    let mut tools: Vec<Tool<'_>> = request.tools.iter().map(|tool| Tool::of(tool)).collect();
    if let Some(last) = tools.last_mut().filter(|_| marks.tools) {
        last.cache_control = Some(EPHEMERAL);
    }
    let steady = plan.thinking.is_none() || matches!(plan.thinking, Some(ThinkingParam::Disabled));
    let body = Body {
        model: &request.model,
        max_tokens,
        stream: true,
        system: system.into_iter().collect(),
        messages,
        tool_choice: tool_choice(request, model),
        tools,
        output_config: plan.effort.map(|effort| OutputConfig { effort }),
        temperature: options.temperature.filter(|_| model.temperature && steady).map(|t| t.clamp(0.0, 1.0)),
        thinking: plan.thinking,
    };
    serde_json::to_vec(&body)
}

/// The beta features that the body of the same request needs, for the header `anthropic-beta`.
pub fn betas(request: &Request, model: &Model) -> Vec<&'static str> {
    let plan = Plan::of(request, model, model.max_output);
    match plan.thinking {
        Some(ThinkingParam::Enabled { .. }) if model.known => vec![INTERLEAVED],
        Some(ThinkingParam::Adaptive { block_binding: Some(_), .. }) => vec![BINDING],
        _ => Vec::new(),
    }
}

/// What asks a Claude to think that is reached over another vendor's format: the fields `thinking` and `output_config` of
/// this format, and the beta features that they need there.
pub(crate) fn thinking_fields(request: &Request, model: &Model, max_tokens: u64) -> (Map<String, Value>, Thinks) {
    let plan = Plan::of(request, model, max_tokens);
    let thinks = match &plan.thinking {
        None | Some(ThinkingParam::Disabled) => Thinks::No,
        Some(ThinkingParam::Enabled { .. }) => Thinks::WithBudget,
        Some(ThinkingParam::Adaptive { .. }) => Thinks::AsItLikes,
    };
    let thinking = plan.thinking.and_then(|thinking| serde_json::to_value(thinking).ok());
    let effort = plan.effort.and_then(|effort| serde_json::to_value(OutputConfig { effort }).ok());
    let fields =
        thinking.map(|value| ("thinking", value)).into_iter().chain(effort.map(|value| ("output_config", value)));
    (fields.map(|(name, value)| (name.to_owned(), value)).collect(), thinks)
}

/// How a Claude thinks, when it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thinks {
    No,
    WithBudget,
    AsItLikes,
}

/// How one request thinks.
struct Plan {
    thinking: Option<ThinkingParam>,
    effort: Option<Effort>,
    /// Thinking of earlier turns is sent back.
    sends_back: bool,
}

impl Plan {
    fn of(request: &Request, model: &Model, max_tokens: u64) -> Self {
        let level = request.options.thinking;
        // A forced call and thinking exclude each other; where the model can do without thinking, the call wins.
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

/// Tokens to think with, and room for the answer beside them; none when there is no room.
fn budget(request: &Request, max_tokens: u64) -> Option<u64> {
    let wanted = request.options.thinking_budget.or(level_budget(request.options.thinking)).unwrap_or(MIN_BUDGET);
    let room = max_tokens.saturating_sub(MIN_BUDGET);
    (room >= MIN_BUDGET).then(|| wanted.clamp(MIN_BUDGET, room))
}

fn is_forced(request: &Request) -> bool {
    !request.tools.is_empty() && matches!(request.tool_choice, ToolChoice::Any | ToolChoice::Tool(_))
}

fn tool_choice<'a>(request: &'a Request, model: &Model) -> Option<Choice<'a>> {
    match &request.tool_choice {
        _ if request.tools.is_empty() => None,
        ToolChoice::Auto => None,
        ToolChoice::None => Some(Choice::None),
        ToolChoice::Any | ToolChoice::Tool(_) if !model.forced_tools => None,
        ToolChoice::Any => Some(Choice::Any),
        ToolChoice::Tool(name) => Some(Choice::Tool { name }),
    }
}

/// Which of the vendor's four cache breakpoints are set.
struct Marks {
    system: bool,
    tools: bool,
    messages: bool,
}

impl Marks {
    fn of(policy: CachePolicy) -> Self {
        match policy {
            CachePolicy::Auto => Self { system: true, tools: true, messages: true },
            CachePolicy::Off => Self { system: false, tools: false, messages: false },
            CachePolicy::Manual { system, tools, messages } => Self { system, tools, messages },
        }
    }
}

/// The conversation in turns that alternate, beginning with the user's.
fn turns<'a>(request: &'a Request, model: &Model, provider: &str, sends_back: bool) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::with_capacity(request.messages.len() + 1);
    for message in &request.messages {
        let (role, content) = match &**message {
            Message::User(user) => ("user", user.content.iter().filter_map(|part| user_block(part, model)).collect()),
            Message::ToolResult(result) => ("user", vec![result_block(result, model)]),
            Message::Assistant(reply) => {
                ("assistant", reply_blocks(reply, sends_back && is_own(reply, provider, model)))
            }
            Message::Extension(_) => continue,
        };
        push(&mut turns, role, content);
    }
    if turns.first().is_some_and(|turn| turn.role == "assistant") {
        let opening = Block::text("[the conversation so far was left out]", false);
        turns.insert(0, Turn { role: "user", content: vec![opening] });
    }
    for turn in &mut turns {
        turn.content.sort_by_key(|block| turn.role == "user" && !matches!(block, Block::ToolResult { .. }));
    }
    turns
}

fn push<'a>(turns: &mut Vec<Turn<'a>>, role: &'static str, content: Vec<Block<'a>>) {
    if content.is_empty() {
        return;
    }
    match turns.last_mut().filter(|last| last.role == role) {
        Some(last) => last.content.extend(content),
        None => turns.push(Turn { role, content }),
    }
}

fn user_block<'a>(part: &'a Content, model: &Model) -> Option<Block<'a>> {
    match part {
        Content::Text { text } => has_text(text).then(|| Block::text(text, false)),
        Content::Image(image) => Some(Block::image(image, model)),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

/// A failed result may hold nothing but text, and must hold some.
fn result_block<'a>(result: &'a ToolResultMessage, model: &Model) -> Block<'a> {
    let parts = result.content.iter().filter_map(|part| match (part, result.is_error) {
        (Content::Image(_), true) => Some(Block::text(NO_IMAGE, false)),
        _ => user_block(part, model),
    });
    let mut content: Vec<Block<'a>> = parts.collect();
    if content.is_empty() && result.is_error {
        content.push(Block::text("failed, and said nothing", false));
    }
    Block::ToolResult {
        tool_use_id: call_id(&result.call_id, IDS),
        content,
        is_error: result.is_error,
        cache_control: None,
    }
}

/// A reply's parts in their order; nothing when it holds nothing but thinking, which cannot stand alone.
fn reply_blocks(reply: &AssistantMessage, keep_thinking: bool) -> Vec<Block<'_>> {
    let blocks: Vec<Block<'_>> = reply.content.iter().filter_map(|part| reply_block(part, keep_thinking)).collect();
    let stands = blocks.iter().any(|block| !matches!(block, Block::Thinking { .. } | Block::RedactedThinking { .. }));
    if stands { blocks } else { Vec::new() }
}

fn reply_block(part: &Content, keep_thinking: bool) -> Option<Block<'_>> {
    match part {
        Content::Text { text } => has_text(text).then(|| Block::text(text, false)),
        Content::Thinking(thinking) => {
            let signature = thinking.signature.as_deref().filter(|_| keep_thinking)?;
            Some(match thinking.redacted {
                true => Block::RedactedThinking { data: signature },
                false => Block::Thinking { thinking: &thinking.text, signature },
            })
        }
        Content::ToolCall(call) => Some(Block::ToolUse {
            id: call_id(&call.id, IDS),
            name: &call.name,
            input: arguments(call),
            cache_control: None,
        }),
        Content::Image(_) => None,
    }
}

/// Sets a cache breakpoint after the last block that can hold one.
fn mark_last(blocks: &mut [Block<'_>]) {
    let mark = blocks.iter_mut().rev().find_map(|block| match block {
        Block::Text { cache_control, .. }
        | Block::Image { cache_control, .. }
        | Block::ToolUse { cache_control, .. }
        | Block::ToolResult { cache_control, .. } => Some(cache_control),
        Block::Thinking { .. } | Block::RedactedThinking { .. } => None,
    });
    if let Some(mark) = mark {
        *mark = Some(EPHEMERAL);
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingParam>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Clone, Copy, Serialize)]
struct CacheControl {
    r#type: &'static str,
}

const EPHEMERAL: CacheControl = CacheControl { r#type: "ephemeral" };

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
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
        id: Cow<'a, str>,
        name: &'a str,
        input: Cow<'a, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

impl<'a> Block<'a> {
    fn text(text: &'a str, marked: bool) -> Self {
        Self::Text { text, cache_control: marked.then_some(EPHEMERAL) }
    }

    fn image(image: &'a Image, model: &Model) -> Self {
        match model.images && is_web_image(&image.media_type) {
            true => Self::Image { source: ImageSource::of(image), cache_control: None },
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
    fn of(image: &'a Image) -> Self {
        Self { r#type: "base64", media_type: &image.media_type, data: image.base64() }
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        Self { name: &tool.name, description: &tool.description, input_schema: &tool.input_schema, cache_control: None }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Choice<'a> {
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
        /// Without it, newer models keep their thinking to themselves.
        display: &'static str,
        /// Newer models refuse thinking that comes back after tools or messages before it have changed, which a plugin's
        /// reload or a compaction does. The vendor shall drop such thinking, not the request.
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

/// Decodes the stream of one reply.
#[derive(Debug)]
pub struct Decoder {
    sse: SseParser,
    reply: Reply,
}

impl Decoder {
    /// A decoder at the start of a reply. Calls that come without an id get one that begins with `id_seed`.
    pub fn new(id_seed: impl Into<String>) -> Self {
        Self { sse: SseParser::default(), reply: Reply::new(id_seed.into()) }
    }
}

impl wire::Decoder for Decoder {
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let Self { sse, reply } = self;
        let fed = sse.feed(bytes, |data| reply.event(data, events));
        wire::settled(reply.parts.ended(), fed)
    }

    fn finish(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let rest = self.sse.take_rest();
        if serde_json::from_slice::<&RawValue>(&rest).is_ok() {
            self.reply.event(&rest, events)?;
        }
        match self.reply.stop {
            _ if self.reply.parts.ended() => Ok(()),
            Some(_) => self.reply.end(events),
            None => Err(broke_off()),
        }
    }
}

/// How far a reply has come.
#[derive(Debug)]
struct Reply {
    /// Keyed by the vendor's index of the block.
    parts: Parts<u64>,
    usage: Usage,
    stop: Option<Stop>,
}

#[derive(Debug, PartialEq)]
enum Stop {
    Reason(StopReason),
    Refused(String),
}

impl Reply {
    fn new(id_seed: String) -> Self {
        Self { parts: Parts::new(id_seed), usage: Usage::default(), stop: None }
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.parts.ended() {
            return Ok(());
        }
        let event: Event<'_> = parse(data)?;
        if let Some(error) = event.error {
            return Err(classify_object(&error));
        }
        match &*event.kind {
            "message_start" => self.message_start(event.message.unwrap_or_default(), events),
            "content_block_start" => {
                self.block_start(event.index.unwrap_or_default(), event.content_block.unwrap_or_default(), events)?;
            }
            "content_block_delta" => {
                self.block_delta(event.index.unwrap_or_default(), &event.delta.unwrap_or_default(), events)?;
            }
            "content_block_stop" => self.parts.end_part(&event.index.unwrap_or_default(), events),
            "message_delta" => {
                self.count(event.usage.unwrap_or_default(), events);
                self.stop = event.delta.as_ref().and_then(Stop::of).or(self.stop.take());
            }
            "message_stop" => self.end(events)?,
            // `ping`, and what the vendor may add: its documentation asks for unknown events to be ignored.
            _ => {}
        }
        Ok(())
    }

    fn message_start(&mut self, message: Head<'_>, events: &mut Vec<StreamEvent>) {
        self.parts.start(message.model.as_deref(), events);
        self.count(message.usage.unwrap_or_default(), events);
    }

    fn block_start(
        &mut self,
        index: u64,
        block: BlockHead<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let kind = match &*block.kind {
            "text" => PartKind::Text,
            "thinking" => PartKind::Thinking,
            "redacted_thinking" => PartKind::RedactedThinking,
            "tool_use" => PartKind::ToolCall { id: block.id.into_owned(), name: block.name.into_owned() },
            _ => return Ok(()),
        };
        if self.parts.is_open(&index) {
            return Ok(());
        }
        self.parts.begin(index, kind, events)?;
        self.parts.add(&index, &block.text, events);
        self.parts.add(&index, &block.thinking, events);
        if let Some(input) = block.input.map(RawValue::get).filter(|input| !matches!(*input, "{}" | "null")) {
            self.parts.set_initial(&index, input.to_owned());
        }
        for signature in [block.signature, block.data].iter().filter(|text| !text.is_empty()) {
            self.parts.sign(&index, signature)?;
        }
        Ok(())
    }

    fn block_delta(
        &mut self,
        index: u64,
        delta: &Delta<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        match &*delta.kind {
            "text_delta" => self.parts.add(&index, &delta.text, events),
            "thinking_delta" => self.parts.add(&index, &delta.thinking, events),
            "input_json_delta" => self.parts.add(&index, &delta.partial_json, events),
            "signature_delta" => self.parts.sign(&index, &delta.signature)?,
            _ => {}
        }
        Ok(())
    }

    /// The vendor's counts are cumulative and do not overlap; it leaves out those that did not change.
    fn count(&mut self, usage: WireUsage, events: &mut Vec<StreamEvent>) {
        let set = |count: &mut u64, value: Option<u64>| *count = value.unwrap_or(*count);
        set(&mut self.usage.input, usage.input_tokens);
        set(&mut self.usage.output, usage.output_tokens);
        set(&mut self.usage.cache_read, usage.cache_read_input_tokens);
        set(&mut self.usage.cache_write, usage.cache_creation_input_tokens);
        self.parts.usage(self.usage, events);
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match self.stop.take() {
            Some(Stop::Refused(message)) => Err(ProviderError::Api { status: None, message }),
            Some(Stop::Reason(reason)) => {
                self.parts.end(reason, events);
                Ok(())
            }
            None => {
                self.parts.end(StopReason::Stop, events);
                Ok(())
            }
        }
    }
}

impl Stop {
    fn of(delta: &Delta<'_>) -> Option<Self> {
        Some(Self::Reason(match delta.stop_reason.as_deref()? {
            "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
            "tool_use" => StopReason::ToolUse,
            "refusal" => return Some(Self::Refused(refusal(delta.stop_details.as_ref()))),
            // `end_turn`, `stop_sequence`, `pause_turn`, and what may come.
            _ => StopReason::Stop,
        }))
    }
}

fn refusal(details: Option<&StopDetails<'_>>) -> String {
    let explanation = details.and_then(|details| details.explanation.as_deref());
    let category = details.and_then(|details| details.category.as_deref());
    match (explanation, category) {
        (Some(text), _) => format!("the model refuses to answer: {text}"),
        (None, Some(category)) => format!("the model refuses to answer ({category})"),
        (None, None) => "the model refuses to answer".to_owned(),
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    index: Option<u64>,
    #[serde(borrow)]
    message: Option<Head<'a>>,
    #[serde(borrow)]
    content_block: Option<BlockHead<'a>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    usage: Option<WireUsage>,
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    usage: Option<WireUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BlockHead<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
    #[serde(borrow)]
    thinking: Cow<'a, str>,
    #[serde(borrow)]
    signature: Cow<'a, str>,
    #[serde(borrow)]
    data: Cow<'a, str>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
    #[serde(borrow)]
    thinking: Cow<'a, str>,
    #[serde(borrow)]
    signature: Cow<'a, str>,
    #[serde(borrow)]
    partial_json: Cow<'a, str>,
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    stop_details: Option<StopDetails<'a>>,
}

#[derive(Deserialize)]
struct StopDetails<'a> {
    #[serde(borrow)]
    category: Option<Cow<'a, str>>,
    #[serde(borrow)]
    explanation: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}
