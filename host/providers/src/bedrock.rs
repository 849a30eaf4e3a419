//! The wire format of Amazon Bedrock's ConverseStream, which is one for the models of many vendors.
//!
//! [`request_body`] turns a request into a body, [`Decoder`] turns the bytes of the answer into events; neither knows of
//! HTTP or of signatures. What only one vendor's models know goes into `additionalModelRequestFields`: for a Claude the
//! thinking fields of Anthropic's own format. The answer is an AWS event stream, not server-sent events; its token counts
//! come after the reply's end.
//!
//! Documentation: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html>,
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>, `/claude-messages-adaptive-thinking.html`
//! beside it.

use crate::anthropic::{INTERLEAVED, Thinks, thinking_fields};
use crate::classify::classify_object;
use crate::conversation::{IdRule, NO_IMAGE, arguments, call_id, has_text, is_own, is_web_image};
use crate::event_stream::{Frame, FrameReader};
use crate::models::{Caching, Model, ThinkingStyle};
use crate::parts::Parts;
use crate::wire::{self, broke_off, parse};
use pinion_protocol::{
    AssistantMessage, CachePolicy, Content, Image, Message, PartKind, ProviderError, Request, StopReason, StreamEvent,
    Thinking, ThinkingLevel, ToolChoice, ToolResultMessage, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;

const IDS: IdRule = IdRule::AtMost(64);

/// The body of a request, as JSON. `provider` is the name under which assistant messages of this provider were kept.
///
/// # Errors
/// None in practice: everything in a request can be written as JSON.
pub fn request_body(request: &Request, model: &Model, provider: &str) -> serde_json::Result<Vec<u8>> {
    let options = &request.options;
    // Nothing says that the vendor's switch for bound thinking is known here.
    let model = &Model { bound_thinking: false, ..model.clone() };
    let max_tokens =
        options.max_output_tokens.map(|max| model.output_limit(max)).or(model.known.then_some(model.max_output));
    let (fields, thinks) = extra_fields(request, model, max_tokens.unwrap_or(model.max_output));
    let marks = Marks::of(options.cache, model);
    let mut messages = turns(request, model, provider);
    if marks.messages && messages.len() >= 2 {
        let at = messages.len() - 2;
        messages[at].content.push(Block::cache_point());
    }
    let mut system: Vec<Block<'_>> = Vec::new();
    if has_text(&request.system) {
        system.push(Block::text(&request.system));
        system.extend(marks.system.then(Block::cache_point));
    }
    serde_json::to_vec(&Body {
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

/// What asks the model to think, in its own vendor's words.
fn extra_fields(request: &Request, model: &Model, max_tokens: u64) -> (Map<String, Value>, Thinks) {
    let level = request.options.thinking;
    match model.thinking {
        ThinkingStyle::Budget | ThinkingStyle::Adaptive | ThinkingStyle::Default | ThinkingStyle::Always => {
            let (mut fields, thinks) = thinking_fields(request, model, max_tokens);
            if thinks == Thinks::WithBudget {
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

/// Where the vendor is told to keep the prompt; models that cannot refuse to be told.
struct Marks {
    system: bool,
    tools: bool,
    messages: bool,
}

impl Marks {
    fn of(policy: CachePolicy, model: &Model) -> Self {
        // Amazon's own models keep no tools.
        let tools_too = !model.id.contains("amazon.");
        match policy {
            _ if model.caching != Caching::Breakpoints => Self { system: false, tools: false, messages: false },
            CachePolicy::Auto => Self { system: true, tools: tools_too, messages: true },
            CachePolicy::Off => Self { system: false, tools: false, messages: false },
            CachePolicy::Manual { system, tools, messages } => Self { system, tools: tools && tools_too, messages },
        }
    }
}

/// The tools, and stand-ins for those that the conversation calls and nobody offers any more: without them the vendor
/// refuses it. That the model must not call one cannot be said here.
fn tool_config<'a>(request: &'a Request, model: &Model, messages: &[Turn<'a>], mark: bool) -> Option<ToolConfig<'a>> {
    let called: BTreeSet<&'a str> = messages.iter().flat_map(|turn| &turn.content).filter_map(Block::called).collect();
    if called.is_empty() && (request.tools.is_empty() || request.tool_choice == ToolChoice::None) {
        return None;
    }
    let offered = request.tools.iter().map(|tool| ToolSpec {
        name: &tool.name,
        description: Some(&tool.description).filter(|text| has_text(text)),
        input_schema: Schema { json: Cow::Borrowed(&tool.input_schema) },
    });
    let mut tools: Vec<Tool<'a>> = offered.map(Tool::ToolSpec).collect();
    if mark && !tools.is_empty() {
        tools.push(Tool::CachePoint { r#type: "default" });
    }
    let is_offered = |name: &&str| request.tools.iter().any(|tool| tool.name == **name);
    tools.extend(called.into_iter().filter(|name| !is_offered(name)).map(|name| {
        let input_schema = Schema { json: Cow::Owned(json!({ "type": "object" })) };
        Tool::ToolSpec(ToolSpec { name, description: None, input_schema })
    }));
    let tool_choice = match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Any | ToolChoice::Tool(_) if !model.forced_tools || request.tools.is_empty() => None,
        ToolChoice::Any => Some(json!({ "any": {} })),
        ToolChoice::Tool(name) => Some(json!({ "tool": { "name": name } })),
    };
    Some(ToolConfig { tools, tool_choice })
}

/// The conversation in turns that alternate, beginning with the user's, with results first in them.
fn turns<'a>(request: &'a Request, model: &Model, provider: &str) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::with_capacity(request.messages.len() + 1);
    for message in &request.messages {
        let (role, content) = match &**message {
            Message::User(user) => ("user", user.content.iter().filter_map(|part| user_block(part, model)).collect()),
            Message::ToolResult(result) => ("user", vec![result_block(result, model)]),
            Message::Assistant(reply) => ("assistant", reply_blocks(reply, is_own(reply, provider, model))),
            Message::Extension(_) => continue,
        };
        push(&mut turns, role, content);
    }
    if turns.first().is_some_and(|turn| turn.role == "assistant") {
        let opening = Block::text("[the conversation so far was left out]");
        turns.insert(0, Turn { role: "user", content: vec![opening] });
    }
    for turn in &mut turns {
        turn.content.sort_by_key(|block| turn.role == "user" && block.tool_result.is_none());
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
        Content::Text { text } => has_text(text).then(|| Block::text(text)),
        Content::Image(image) => Some(Block::image(image, model)),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

fn result_block<'a>(result: &'a ToolResultMessage, model: &Model) -> Block<'a> {
    let mut content: Vec<Block<'a>> = result.content.iter().filter_map(|part| user_block(part, model)).collect();
    if content.is_empty() {
        content.push(Block::text(if result.is_error { "failed, and said nothing" } else { "(no output)" }));
    }
    // Models of other vendors do not take it.
    let takes_status = matches!(model.caching, Caching::Breakpoints);
    let tool_result = ToolResult {
        tool_use_id: call_id(&result.call_id, IDS),
        content,
        status: (result.is_error && takes_status).then_some("error"),
    };
    Block { tool_result: Some(tool_result), ..Block::default() }
}

/// A reply's parts in their order; nothing when it holds nothing but thinking, which cannot stand alone.
fn reply_blocks(reply: &AssistantMessage, is_own: bool) -> Vec<Block<'_>> {
    let blocks: Vec<Block<'_>> = reply.content.iter().filter_map(|part| reply_block(part, is_own)).collect();
    let stands = blocks.iter().any(|block| block.reasoning_content.is_none());
    if stands { blocks } else { Vec::new() }
}

fn reply_block(part: &Content, is_own: bool) -> Option<Block<'_>> {
    match part {
        Content::Text { text } => has_text(text).then(|| Block::text(text)),
        Content::Thinking(thinking) => reasoning_block(thinking).filter(|_| is_own),
        Content::ToolCall(call) => {
            let tool_use = ToolUse { tool_use_id: call_id(&call.id, IDS), name: &call.name, input: arguments(call) };
            Some(Block { tool_use: Some(tool_use), ..Block::default() })
        }
        Content::Image(_) => None,
    }
}

fn reasoning_block(thinking: &Thinking) -> Option<Block<'_>> {
    let signature = thinking.signature.as_deref()?;
    let reasoning = match thinking.redacted {
        true => Reasoning::RedactedContent(signature),
        false => Reasoning::ReasoningText { text: &thinking.text, signature },
    };
    Some(Block { reasoning_content: Some(reasoning), ..Block::default() })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    inference_config: InferenceConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_model_request_fields: Option<Map<String, Value>>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InferenceConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

/// A block holds one of these.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Block<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<WireImage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use: Option<ToolUse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_result: Option<ToolResult<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Reasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_point: Option<CachePoint>,
}

impl<'a> Block<'a> {
    fn text(text: &'a str) -> Self {
        Self { text: Some(text), ..Self::default() }
    }

    fn cache_point() -> Self {
        Self { cache_point: Some(CachePoint { r#type: "default" }), ..Self::default() }
    }

    fn image(image: &Image, model: &Model) -> Self {
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
    tool_use_id: Cow<'a, str>,
    name: &'a str,
    input: Cow<'a, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    tool_use_id: Cow<'a, str>,
    content: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Reasoning<'a> {
    ReasoningText { text: &'a str, signature: &'a str },
    RedactedContent(&'a str),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Tool<'a> {
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

/// Decodes the stream of one reply.
#[derive(Debug)]
pub struct Decoder {
    frames: FrameReader,
    reply: Reply,
}

impl Decoder {
    /// A decoder at the start of a reply. Calls that come without an id get one that begins with `id_seed`.
    pub fn new(id_seed: impl Into<String>) -> Self {
        Self { frames: FrameReader::default(), reply: Reply { parts: Parts::new(id_seed.into()), stop: None } }
    }
}

impl wire::Decoder for Decoder {
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let Self { frames, reply } = self;
        let fed = frames.feed(bytes, |frame| reply.frame(&frame, events));
        wire::settled(reply.parts.ended(), fed)
    }

    fn finish(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match self.reply.stop {
            _ if self.reply.parts.ended() => Ok(()),
            // The counts are missing; the reply is not.
            Some(reason) if !self.frames.is_in_message() => {
                self.reply.parts.end(reason, events);
                Ok(())
            }
            _ => Err(broke_off()),
        }
    }
}

/// How far a reply has come.
#[derive(Debug)]
struct Reply {
    /// Keyed by the vendor's index of the block.
    parts: Parts<u64>,
    stop: Option<StopReason>,
}

impl Reply {
    fn frame(&mut self, frame: &Frame<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.parts.ended() {
            return Ok(());
        }
        match frame.header(":message-type") {
            "exception" => return Err(exception(frame.header(":exception-type"), frame.payload)),
            "error" => {
                let (code, message) = (frame.header(":error-code"), frame.header(":error-message"));
                return Err(classify_object(&json!({ "code": code, "message": message })));
            }
            _ => {}
        }
        let kind = frame.header(":event-type");
        if !KNOWN.contains(&kind) {
            return Ok(());
        }
        let event: Event<'_> = parse(frame.payload)?;
        let at = event.content_block_index.unwrap_or_default();
        match kind {
            "messageStart" => self.parts.start(None, events),
            "contentBlockStart" => self.block_start(at, event.start.unwrap_or_default(), events)?,
            "contentBlockDelta" => self.delta(at, event.delta.unwrap_or_default(), events)?,
            "contentBlockStop" => self.parts.end_part(&at, events),
            "messageStop" => self.stop = Some(stop_reason(event.stop_reason.as_deref().unwrap_or_default())?),
            _ => self.metadata(event.usage, events),
        }
        Ok(())
    }

    fn block_start(&mut self, at: u64, start: Start<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match start.tool_use {
            Some(tool) if !self.parts.is_open(&at) => {
                let kind = PartKind::ToolCall { id: tool.tool_use_id.into_owned(), name: tool.name.into_owned() };
                self.parts.begin(at, kind, events)
            }
            _ => Ok(()),
        }
    }

    /// Only calls have a start of their own.
    fn delta(&mut self, at: u64, delta: Delta<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if let Some(text) = delta.text {
            self.begin(at, PartKind::Text, events)?;
            self.parts.add(&at, &text, events);
        }
        if let Some(tool) = delta.tool_use {
            self.parts.add(&at, &tool.input, events);
        }
        let Some(reasoning) = delta.reasoning_content else { return Ok(()) };
        if !reasoning.redacted_content.is_empty() {
            self.begin(at, PartKind::RedactedThinking, events)?;
            return self.parts.sign(&at, &reasoning.redacted_content);
        }
        self.begin(at, PartKind::Thinking, events)?;
        self.parts.add(&at, &reasoning.text, events);
        self.parts.sign(&at, &reasoning.signature)
    }

    fn begin(&mut self, at: u64, kind: PartKind, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match self.parts.is_open(&at) {
            true => Ok(()),
            false => self.parts.begin(at, kind, events),
        }
    }

    /// The last event of a reply.
    fn metadata(&mut self, usage: Option<WireUsage>, events: &mut Vec<StreamEvent>) {
        if let Some(usage) = usage {
            self.parts.usage(usage.into(), events);
        }
        if let Some(reason) = self.stop {
            self.parts.end(reason, events);
        }
    }
}

const KNOWN: &[&str] =
    &["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"];

fn stop_reason(reason: &str) -> Result<StopReason, ProviderError> {
    let ended = |message: &str| Err(ProviderError::Api { status: None, message: message.to_owned() });
    match reason {
        "max_tokens" | "model_context_window_exceeded" => Ok(StopReason::Length),
        "tool_use" => Ok(StopReason::ToolUse),
        "guardrail_intervened" => ended("a guardrail of the account's cut the reply off"),
        "content_filtered" => ended("the vendor's content filter cut the reply off"),
        "refusal" => ended("the model refuses to answer"),
        "malformed_model_output" | "malformed_tool_use" => Err(ProviderError::Overloaded {
            message: format!("the model's output made no sense ({reason})"),
            retry_after: None,
        }),
        // `end_turn`, `stop_sequence`, and what may come.
        _ => Ok(StopReason::Stop),
    }
}

fn exception(kind: &str, payload: &[u8]) -> ProviderError {
    let message = serde_json::from_slice::<Value>(payload).ok();
    let message = message.as_ref().and_then(|body| body.get("message").or(body.get("Message"))?.as_str());
    classify_object(&json!({ "code": kind, "message": message.unwrap_or(kind) }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    content_block_index: Option<u64>,
    #[serde(borrow)]
    start: Option<Start<'a>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
    usage: Option<WireUsage>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start<'a> {
    #[serde(borrow)]
    tool_use: Option<ToolStart<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolStart<'a> {
    #[serde(borrow, default)]
    tool_use_id: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_use: Option<ToolDelta<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<ReasoningDelta<'a>>,
}

#[derive(Deserialize)]
struct ToolDelta<'a> {
    #[serde(borrow, default)]
    input: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReasoningDelta<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
    #[serde(borrow)]
    signature: Cow<'a, str>,
    #[serde(borrow)]
    redacted_content: Cow<'a, str>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireUsage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_write_input_tokens: u64,
}

impl From<WireUsage> for Usage {
    /// The vendor's counts do not overlap.
    fn from(wire: WireUsage) -> Self {
        Self {
            input: wire.input_tokens,
            output: wire.output_tokens,
            cache_read: wire.cache_read_input_tokens,
            cache_write: wire.cache_write_input_tokens,
        }
    }
}
