//! The wire format of Google's Gemini API (`streamGenerateContent`), as streamed; Vertex AI speaks it too.
//!
//! [`request_body`] turns a request into a body, [`Decoder`] turns the bytes of the answer into events; neither knows of
//! HTTP. Two habits of the vendor shape this file: every event is a whole answer in small, whose parts are pieces; and
//! what the model thought is a signature on some part of its reply, which must come back on the same part. A signature
//! on a call is the call's; one that came after text is kept as a part of its own, and goes back as the empty text with a
//! signature that the vendor itself sends at the end of a stream.
//!
//! Documentation: <https://ai.google.dev/api/generate-content>, <https://ai.google.dev/gemini-api/docs/thought-signatures>,
//! `/thinking`, `/function-calling` beside it.

use crate::classify::classify_object;
use crate::conversation::{IdRule, NO_IMAGE, arguments, call_id, has_text, is_own, is_web_image};
use crate::models::{Effort, Model, ThinkingStyle, level_budget};
use crate::parts::Parts;
use crate::sse::SseParser;
use crate::wire::{self, broke_off, parse};
use pinion_protocol::{
    AssistantMessage, Content, Image, Message, PartKind, ProviderError, Request, StopReason, StreamEvent,
    ThinkingLevel, ToolCall, ToolChoice, ToolDefinition, ToolResultMessage, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

const IDS: IdRule = IdRule::AtMost(64);

/// Stands for the signature of a call that another model made; the vendor documents it for that.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// The body of a request, as JSON. `provider` is the name under which assistant messages of this provider were kept.
///
/// # Errors
/// None in practice: everything in a request can be written as JSON.
pub fn request_body(request: &Request, model: &Model, provider: &str) -> serde_json::Result<Vec<u8>> {
    let options = &request.options;
    let declarations: Vec<Declaration<'_>> = request.tools.iter().map(|tool| Declaration::of(tool)).collect();
    let tools = (!declarations.is_empty()).then_some(Tools { function_declarations: declarations });
    let system = has_text(&request.system).then(|| Turn { role: None, parts: vec![Part::text(&request.system)] });
    serde_json::to_vec(&Body {
        system_instruction: system,
        contents: turns(request, model, provider),
        tool_config: tool_config(request, model),
        tools: tools.into_iter().collect(),
        generation_config: GenerationConfig {
            max_output_tokens: options.max_output_tokens.map(|max| model.output_limit(max)),
            temperature: options.temperature.filter(|_| model.temperature),
            thinking_config: thinking(request, model),
        },
    })
}

/// How long to think: older models take a number of tokens, newer ones a word.
fn thinking(request: &Request, model: &Model) -> Option<ThinkingConfig> {
    let level = request.options.thinking;
    let off = level == ThinkingLevel::Off;
    let with_budget = |budget| Some(ThinkingConfig { thinking_budget: Some(budget), ..ThinkingConfig::shown(!off) });
    match (model.thinking, model.thinking_budgets) {
        (ThinkingStyle::None, _) => None,
        (_, Some((min, max))) if off => (min == 0 && max > 0).then(|| with_budget(0)).flatten(),
        (_, Some((min, max))) => {
            let budget = request.options.thinking_budget.or(level_budget(level)).unwrap_or(max);
            with_budget(budget.clamp(min.max(1), max.max(1)))
        }
        (_, None) if off => None,
        (_, None) => {
            Some(ThinkingConfig { thinking_level: model.effort(level).map(word), ..ThinkingConfig::shown(true) })
        }
    }
}

fn word(effort: Effort) -> &'static str {
    match effort {
        Effort::None => "OFF",
        Effort::Minimal => "MINIMAL",
        Effort::Low => "LOW",
        Effort::Medium => "MEDIUM",
        Effort::High | Effort::Xhigh | Effort::Max => "HIGH",
    }
}

fn tool_config<'a>(request: &'a Request, model: &Model) -> Option<ToolConfig<'a>> {
    let config = |mode, names| {
        Some(ToolConfig { function_calling_config: CallingConfig { mode, allowed_function_names: names } })
    };
    match &request.tool_choice {
        _ if request.tools.is_empty() => None,
        ToolChoice::Auto => None,
        ToolChoice::None => config("NONE", Vec::new()),
        ToolChoice::Any | ToolChoice::Tool(_) if !model.forced_tools => None,
        ToolChoice::Any => config("ANY", Vec::new()),
        ToolChoice::Tool(name) => config("ANY", vec![name]),
    }
}

/// The conversation in turns that alternate.
fn turns<'a>(request: &'a Request, model: &Model, provider: &str) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::with_capacity(request.messages.len());
    let mut pictures: Vec<Part<'a>> = Vec::new();
    for message in &request.messages {
        if !matches!(&**message, Message::ToolResult(_) | Message::Extension(_)) {
            flush(&mut pictures, &mut turns);
        }
        match &**message {
            Message::User(user) => {
                push(&mut turns, "user", user.content.iter().filter_map(|part| user_part(part, model)).collect());
            }
            Message::Assistant(reply) => {
                push(&mut turns, "model", reply_parts(reply, is_own(reply, provider, model), model));
            }
            Message::ToolResult(result) => {
                let part = result_part(result, model, &mut pictures);
                push(&mut turns, "user", vec![part]);
            }
            Message::Extension(_) => {}
        }
    }
    flush(&mut pictures, &mut turns);
    turns
}

fn push<'a>(turns: &mut Vec<Turn<'a>>, role: &'static str, parts: Vec<Part<'a>>) {
    if parts.is_empty() {
        return;
    }
    match turns.last_mut().filter(|last| last.role == Some(role)) {
        Some(last) => last.parts.extend(parts),
        None => turns.push(Turn { role: Some(role), parts }),
    }
}

fn flush<'a>(pictures: &mut Vec<Part<'a>>, turns: &mut Vec<Turn<'a>>) {
    if !pictures.is_empty() {
        let mut parts = vec![Part::text("The images that the tools gave back:")];
        parts.append(pictures);
        push(turns, "user", parts);
    }
}

fn user_part<'a>(part: &'a Content, model: &Model) -> Option<Part<'a>> {
    match part {
        Content::Text { text } => has_text(text).then(|| Part::text(text)),
        Content::Image(image) => Some(Part::image(image, model)),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

/// A reply's parts in their order, each with the signature that came with it.
fn reply_parts<'a>(reply: &'a AssistantMessage, is_own: bool, model: &Model) -> Vec<Part<'a>> {
    let mut parts: Vec<Part<'a>> = Vec::with_capacity(reply.content.len());
    let mut is_first_call = true;
    for part in &reply.content {
        match part {
            Content::Text { text } if has_text(text) => parts.push(Part::text(text)),
            Content::Thinking(thinking) if is_own && thinking.signature.is_some() => parts.push(Part {
                text: Some(&thinking.text),
                thought: !thinking.redacted,
                thought_signature: thinking.signature.as_deref(),
                ..Part::default()
            }),
            Content::ToolCall(call) => {
                let own = call.signature.as_deref().filter(|_| is_own);
                let stand_in = (is_first_call && model.signed_calls).then_some(UNSIGNED);
                is_first_call = false;
                parts.push(Part { thought_signature: own.or(stand_in), ..Part::call(call) });
            }
            Content::Text { .. } | Content::Thinking(_) | Content::Image(_) => {}
        }
    }
    let says_something =
        |part: &Part<'_>| part.function_call.is_some() || part.text.is_some_and(|text| !part.thought && has_text(text));
    if parts.iter().any(says_something) { parts } else { Vec::new() }
}

/// A result. Models that sign their calls also take pictures in results; elsewhere they follow.
fn result_part<'a>(result: &'a ToolResultMessage, model: &Model, pictures: &mut Vec<Part<'a>>) -> Part<'a> {
    let text: Vec<&str> = result.content.iter().filter_map(Content::as_text).filter(|text| has_text(text)).collect();
    let images = result.content.iter().filter(|part| matches!(part, Content::Image(_)));
    let images: Vec<Part<'a>> = images.filter_map(|part| user_part(part, model)).collect();
    let (mut here, mut later): (Vec<Part<'a>>, Vec<Part<'a>>) =
        images.into_iter().partition(|part| model.signed_calls && part.inline_data.is_some());
    let said = match (text.is_empty(), here.is_empty() && later.is_empty()) {
        (false, _) => text.join("\n"),
        (true, true) => "(no output)".to_owned(),
        (true, false) if later.is_empty() => "(an image)".to_owned(),
        (true, false) => "(an image, which follows)".to_owned(),
    };
    pictures.append(&mut later);
    here.iter_mut().for_each(|part| part.text = None);
    let response = match result.is_error {
        true => Outcome { output: None, error: Some(said) },
        false => Outcome { output: Some(said), error: None },
    };
    let function_response = FunctionResponse {
        id: call_id(&result.call_id, IDS),
        name: &result.tool_name,
        response,
        parts: here.into_iter().filter_map(|part| part.inline_data).map(|inline_data| Inline { inline_data }).collect(),
    };
    Part { function_response: Some(function_response), ..Part::default() }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Turn<'a>>,
    contents: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    generation_config: GenerationConfig,
}

#[derive(Serialize)]
struct Turn<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Part<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Blob<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

impl<'a> Part<'a> {
    fn text(text: &'a str) -> Self {
        Self { text: Some(text), ..Self::default() }
    }

    fn image(image: &'a Image, model: &Model) -> Self {
        match model.images && is_web_image(&image.media_type) {
            true => Self {
                inline_data: Some(Blob { mime_type: &image.media_type, data: image.base64() }),
                ..Self::default()
            },
            false => Self::text(NO_IMAGE),
        }
    }

    fn call(call: &'a ToolCall) -> Self {
        let function_call = FunctionCall { id: call_id(&call.id, IDS), name: &call.name, args: arguments(call) };
        Self { function_call: Some(function_call), ..Self::default() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: &'a str,
    data: String,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    id: Cow<'a, str>,
    name: &'a str,
    args: Cow<'a, Value>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    id: Cow<'a, str>,
    name: &'a str,
    response: Outcome,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Inline<'a>>,
}

#[derive(Serialize)]
struct Outcome {
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inline<'a> {
    inline_data: Blob<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a Value,
}

impl<'a> Declaration<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        Self { name: &tool.name, description: &tool.description, parameters_json_schema: &tool.input_schema }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    function_calling_config: CallingConfig<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallingConfig<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed_function_names: Vec<&'a String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

impl GenerationConfig {
    fn is_empty(&self) -> bool {
        self.max_output_tokens.is_none() && self.temperature.is_none() && self.thinking_config.is_none()
    }
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
}

impl ThinkingConfig {
    fn shown(include_thoughts: bool) -> Self {
        Self { include_thoughts, ..Self::default() }
    }
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

    /// The vendor marks the end of a reply by nothing but the end of its answer.
    fn finish(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let rest = self.sse.take_rest();
        if serde_json::from_slice::<&RawValue>(&rest).is_ok() {
            self.reply.event(&rest, events)?;
        }
        match self.reply.stop {
            _ if self.reply.parts.ended() => Ok(()),
            Some(reason) => {
                self.reply.parts.end(reason, events);
                Ok(())
            }
            None => Err(broke_off()),
        }
    }
}

/// How far a reply has come.
#[derive(Debug)]
struct Reply {
    /// Keyed by the order of their beginnings.
    parts: Parts<u64>,
    next: u64,
    /// The text or thinking that is being written, and whether it is thinking.
    writing: Option<(u64, bool)>,
    stop: Option<StopReason>,
}

impl Reply {
    fn new(id_seed: String) -> Self {
        Self { parts: Parts::new(id_seed), next: 0, writing: None, stop: None }
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if data.trim_ascii() == b"[DONE]" {
            return Ok(());
        }
        let chunk: Chunk<'_> = parse(data)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(classify_object(&error));
        }
        self.parts.start(chunk.model_version.as_deref(), events);
        if let Some(usage) = chunk.usage_metadata {
            self.parts.usage(usage.into(), events);
        }
        if let Some(reason) = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            return Err(blocked(&format!("the vendor blocked the prompt ({reason})")));
        }
        for candidate in chunk.candidates {
            if candidate.index == 0 {
                self.candidate(candidate, events)?;
            }
        }
        Ok(())
    }

    fn candidate(&mut self, candidate: Candidate<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        for part in candidate.content.unwrap_or_default().parts {
            self.part(part, events)?;
        }
        if let Some(reason) = candidate.finish_reason.as_deref() {
            self.stop = Some(stop_reason(reason, candidate.finish_message.as_deref())?);
        }
        Ok(())
    }

    fn part(&mut self, part: WirePart<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let signature = part.thought_signature.unwrap_or_default();
        if let Some(call) = part.function_call {
            self.end_writing(events);
            return self.call(call, &signature, events);
        }
        self.write(part.thought, &part.text, events)?;
        if signature.is_empty() {
            return Ok(());
        }
        match self.writing {
            // Thinking that is signed is complete.
            Some((key, true)) if part.thought => self.parts.sign(&key, &signature)?,
            _ => {
                self.end_writing(events);
                let key = self.begin(PartKind::RedactedThinking, events)?;
                self.writing = Some((key, true));
                self.parts.sign(&key, &signature)?;
            }
        }
        self.end_writing(events);
        Ok(())
    }

    /// A call comes whole.
    fn call(
        &mut self,
        call: WireCall<'_>,
        signature: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let kind = PartKind::ToolCall { id: call.id.into_owned(), name: call.name.into_owned() };
        let key = self.begin(kind, events)?;
        self.parts.add(&key, call.args.map_or("{}", RawValue::get), events);
        self.parts.sign(&key, signature)?;
        self.parts.end_part(&key, events);
        Ok(())
    }

    /// More text or thinking. When the kind changes, the old part ends and a new one begins.
    fn write(&mut self, thought: bool, text: &str, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        let key = match self.writing {
            Some((key, is_thought)) if is_thought == thought => key,
            _ => {
                self.end_writing(events);
                let key = self.begin(if thought { PartKind::Thinking } else { PartKind::Text }, events)?;
                self.writing = Some((key, thought));
                key
            }
        };
        self.parts.add(&key, text, events);
        Ok(())
    }

    fn begin(&mut self, kind: PartKind, events: &mut Vec<StreamEvent>) -> Result<u64, ProviderError> {
        let key = self.next;
        self.next += 1;
        self.parts.begin(key, kind, events)?;
        Ok(key)
    }

    fn end_writing(&mut self, events: &mut Vec<StreamEvent>) {
        if let Some((key, _)) = self.writing.take() {
            self.parts.end_part(&key, events);
        }
    }
}

fn stop_reason(reason: &str, message: Option<&str>) -> Result<StopReason, ProviderError> {
    let said = |what: &str| match message.filter(|message| has_text(message)) {
        Some(message) => format!("{what} ({reason}): {message}"),
        None => format!("{what} ({reason})"),
    };
    match reason {
        "MAX_TOKENS" => Ok(StopReason::Length),
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Err(blocked(&said("the vendor's filter cut the reply off"))),
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" => {
            Err(ProviderError::Overloaded { message: said("the model's call made no sense"), retry_after: None })
        }
        "OTHER" | "IMAGE_OTHER" | "NO_IMAGE" => Err(blocked(&said("the vendor ended the reply"))),
        // `STOP`, and what may come.
        _ => Ok(StopReason::Stop),
    }
}

fn blocked(message: &str) -> ProviderError {
    ProviderError::Api { status: None, message: message.to_owned() }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, default, deserialize_with = "wire::or_default")]
    candidates: Vec<Candidate<'a>>,
    #[serde(borrow)]
    prompt_feedback: Option<PromptFeedback<'a>>,
    usage_metadata: Option<WireUsage>,
    #[serde(borrow)]
    model_version: Option<Cow<'a, str>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback<'a> {
    #[serde(borrow)]
    block_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    content: Option<WireContent<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    finish_message: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct WireContent<'a> {
    #[serde(borrow, default, deserialize_with = "wire::or_default")]
    parts: Vec<WirePart<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePart<'a> {
    #[serde(borrow, default, deserialize_with = "wire::text")]
    text: Cow<'a, str>,
    #[serde(default)]
    thought: bool,
    #[serde(borrow)]
    thought_signature: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function_call: Option<WireCall<'a>>,
}

#[derive(Deserialize)]
struct WireCall<'a> {
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireUsage {
    prompt_token_count: u64,
    cached_content_token_count: u64,
    tool_use_prompt_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
}

impl From<WireUsage> for Usage {
    /// The vendor's prompt tokens hold the cached ones; its answer's tokens do not hold those of its thoughts.
    fn from(wire: WireUsage) -> Self {
        let cache_read = wire.cached_content_token_count.min(wire.prompt_token_count);
        Self {
            input: (wire.prompt_token_count - cache_read).saturating_add(wire.tool_use_prompt_token_count),
            output: wire.candidates_token_count.saturating_add(wire.thoughts_token_count),
            cache_read,
            cache_write: 0,
        }
    }
}
