//! The wire format of Ollama's own API (`/api/chat`), as streamed: one JSON object a line.
//!
//! [`request_body`] turns a request into a body, [`Decoder`] turns the bytes of the answer into events; neither knows of
//! HTTP. The server would rather cut a prompt that is too long than refuse it; it is told not to, so that the agent can
//! make it shorter by sense instead of by age.
//!
//! Documentation: <https://docs.ollama.com/api/chat>, `/api/errors`, <https://docs.ollama.com/capabilities/thinking>,
//! `/tool-calling`, `/vision` beside it.

use crate::classify::classify_object;
use crate::conversation::{NO_IMAGE, arguments, has_text, is_own, is_web_image};
use crate::models::{Effort, Model, ThinkingStyle};
use crate::ndjson::Lines;
use crate::parts::Parts;
use crate::wire::{self, broke_off, parse};
use pinion_protocol::{
    AssistantMessage, Content, Message, PartKind, ProviderError, Request, StopReason, StreamEvent, ThinkingLevel,
    ToolDefinition, ToolResultMessage, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The body of a request, as JSON. `provider` is the name under which assistant messages of this provider were kept.
///
/// # Errors
/// None in practice: everything in a request can be written as JSON.
pub fn request_body(request: &Request, model: &Model, provider: &str) -> serde_json::Result<Vec<u8>> {
    let options = &request.options;
    serde_json::to_vec(&Body {
        model: &request.model,
        messages: messages(request, model, provider),
        stream: true,
        truncate: false,
        tools: request.tools.iter().map(|tool| Tool::of(tool)).collect(),
        think: think(options.thinking, model),
        options: Options {
            num_predict: options.max_output_tokens.map(|max| model.output_limit(max)),
            temperature: options.temperature.filter(|_| model.temperature),
            num_ctx: model.known.then_some(model.context_window),
        },
    })
}

/// Models that can think do so unless told otherwise, and those that cannot do not mind being told not to.
fn think(level: ThinkingLevel, model: &Model) -> Option<Think> {
    match (model.thinking, level) {
        (ThinkingStyle::None, _) => None,
        (_, ThinkingLevel::Off) => Some(Think::Switch(false)),
        (_, level) => Some(model.effort(level).map_or(Think::Switch(true), Think::Effort)),
    }
}

/// The conversation. Pictures that tools gave back are gathered and follow their results.
fn messages<'a>(request: &'a Request, model: &Model, provider: &str) -> Vec<WireMessage<'a>> {
    let mut out: Vec<WireMessage<'a>> = Vec::with_capacity(request.messages.len() + 1);
    if has_text(&request.system) {
        out.push(WireMessage::new("system", Cow::Borrowed(&*request.system)));
    }
    let mut pictures: Vec<String> = Vec::new();
    for message in &request.messages {
        if !matches!(&**message, Message::ToolResult(_) | Message::Extension(_)) {
            flush(&mut pictures, &mut out);
        }
        match &**message {
            Message::User(user) => {
                let (text, images) = split(&user.content, model);
                if has_text(&text) || !images.is_empty() {
                    out.push(WireMessage { images, ..WireMessage::new("user", text) });
                }
            }
            Message::Assistant(reply) => out.extend(reply_message(reply, is_own(reply, provider, model))),
            Message::ToolResult(result) => out.push(result_message(result, model, &mut pictures)),
            Message::Extension(_) => {}
        }
    }
    flush(&mut pictures, &mut out);
    out
}

fn flush(pictures: &mut Vec<String>, out: &mut Vec<WireMessage<'_>>) {
    if !pictures.is_empty() {
        let text = Cow::Borrowed("The images that the tools gave back:");
        out.push(WireMessage { images: std::mem::take(pictures), ..WireMessage::new("user", text) });
    }
}

/// The text of a message, and its pictures.
fn split<'a>(content: &'a [Content], model: &Model) -> (Cow<'a, str>, Vec<String>) {
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

/// A reply, unless it holds nothing that the server accepts.
fn reply_message(reply: &AssistantMessage, is_own: bool) -> Option<WireMessage<'_>> {
    let text: Vec<&str> = reply.content.iter().filter_map(Content::as_text).filter(|text| has_text(text)).collect();
    let calls = reply
        .tool_calls()
        .map(|call| Call { id: &call.id, function: CalledFunction { name: &call.name, arguments: arguments(call) } });
    let tool_calls: Vec<Call<'_>> = calls.collect();
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

fn result_message<'a>(result: &'a ToolResultMessage, model: &Model, pictures: &mut Vec<String>) -> WireMessage<'a> {
    let (text, mut images) = split(&result.content, model);
    let text = match (has_text(&text), images.is_empty()) {
        (true, _) => text,
        (false, true) => Cow::Borrowed("(no output)"),
        (false, false) => Cow::Borrowed("(an image, which follows)"),
    };
    pictures.append(&mut images);
    WireMessage {
        tool_name: Some(&result.tool_name),
        tool_call_id: Some(&result.call_id),
        ..WireMessage::new("tool", text)
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    stream: bool,
    truncate: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
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
    /// What the user's table says of the model; the server's own default may be as small as 4,096 tokens.
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
    tool_calls: Vec<Call<'a>>,
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
struct Call<'a> {
    id: &'a str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: Cow<'a, Value>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        let function = Function { name: &tool.name, description: &tool.description, parameters: &tool.input_schema };
        Self { r#type: "function", function }
    }
}

/// Decodes the stream of one reply.
#[derive(Debug)]
pub struct Decoder {
    lines: Lines,
    reply: Reply,
}

impl Decoder {
    /// A decoder at the start of a reply. Calls that come without an id get one that begins with `id_seed`.
    pub fn new(id_seed: impl Into<String>) -> Self {
        Self { lines: Lines::default(), reply: Reply { parts: Parts::new(id_seed.into()), next: 0, writing: None } }
    }
}

impl wire::Decoder for Decoder {
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let Self { lines, reply } = self;
        let fed = lines.feed(bytes, |line| reply.line(line, events));
        wire::settled(reply.parts.ended(), fed)
    }

    fn finish(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let rest = self.lines.take_rest();
        if serde_json::from_slice::<&RawValue>(&rest).is_ok() {
            self.reply.line(&rest, events)?;
        }
        if self.reply.parts.ended() { Ok(()) } else { Err(broke_off()) }
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
}

impl Reply {
    fn line(&mut self, line: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.parts.ended() {
            return Ok(());
        }
        let chunk: Chunk<'_> = parse(line)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(failure(&error));
        }
        self.parts.start(chunk.model.as_deref(), events);
        let message = chunk.message.unwrap_or_default();
        self.write(true, &message.thinking, events)?;
        self.write(false, &message.content, events)?;
        for call in message.tool_calls {
            self.call(call, events)?;
        }
        if chunk.done {
            let usage = Usage { input: chunk.prompt_eval_count, output: chunk.eval_count, ..Usage::default() };
            self.parts.usage(usage, events);
            let is_cut = chunk.done_reason.as_deref() == Some("length");
            self.parts.end(if is_cut { StopReason::Length } else { StopReason::Stop }, events);
        }
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

    /// A call comes whole.
    fn call(&mut self, call: WireCall<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.end_writing(events);
        let kind = PartKind::ToolCall { id: call.id.into_owned(), name: call.function.name.into_owned() };
        let key = self.begin(kind, events)?;
        self.parts.add(&key, call.function.arguments.map_or("{}", RawValue::get), events);
        self.parts.end_part(&key, events);
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

/// The server says what happened and no more. In mid-reply that is its own failure, unless it says otherwise.
fn failure(error: &Value) -> ProviderError {
    match classify_object(error) {
        ProviderError::Api { message, .. } => ProviderError::Overloaded { message, retry_after: None },
        other => other,
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Delta<'a>>,
    #[serde(default)]
    done: bool,
    #[serde(borrow)]
    done_reason: Option<Cow<'a, str>>,
    #[serde(default)]
    prompt_eval_count: u64,
    #[serde(default)]
    eval_count: u64,
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow, deserialize_with = "wire::text")]
    content: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "wire::text")]
    thinking: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "wire::or_default")]
    tool_calls: Vec<WireCall<'a>>,
}

#[derive(Deserialize)]
struct WireCall<'a> {
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    function: WireFunction<'a>,
}

#[derive(Deserialize)]
struct WireFunction<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}
