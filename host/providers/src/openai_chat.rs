//! The wire format of OpenAI's Chat Completions, as streamed, and of the many vendors that speak it nearly.
//!
//! [`request_body`] turns a request into a body, [`Decoder`] turns the bytes of the answer into events; neither knows of
//! HTTP. What a vendor does differently is data: [`Quirks`], one value a vendor in the registry. The decoder needs no
//! quirks, because the forms of an answer can be told apart.
//!
//! Documentation: <https://developers.openai.com/api/reference/resources/chat>; xAI, Mistral, Groq, DeepSeek and
//! OpenRouter as named at their entries in the registry.

use crate::classify::classify_object;
use crate::conversation::{IdRule, NO_IMAGE, arguments, call_id, has_text, is_own, is_web_image};
use crate::models::{ChatTools, Effort, Model, ThinkingStyle};
use crate::parts::Parts;
use crate::sse::SseParser;
use crate::wire::{self, broke_off, parse};
use pinion_protocol::{
    AssistantMessage, CachePolicy, Content, Image, Message, PartKind, ProviderError, Request, StopReason, StreamEvent,
    ThinkingLevel, ToolChoice, ToolDefinition, ToolResultMessage, Usage,
};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;

/// Where a vendor departs from OpenAI.
#[derive(Debug, Clone, Copy)]
pub struct Quirks {
    /// The name of the output limit: `max_completion_tokens` or `max_tokens`.
    pub max_tokens: &'static str,
    /// Takes `stream_options`, without which most vendors do not count tokens.
    pub stream_options: bool,
    /// Takes `store`, which is set to false: nobody asked the vendor to keep the conversation.
    pub store: bool,
    /// Takes `prompt_cache_key`, so that the requests of a session meet the same cache.
    pub cache_key: bool,
    /// How thinking is asked for.
    pub thinking: ThinkingParam,
    /// How the model's thinking goes back to it, where the vendor wants it.
    pub thinking_back: ThinkingBack,
    /// What the id of a tool call may be.
    pub(crate) ids: IdRule,
    /// A tool's result may hold pictures. Elsewhere they follow in a message of the user's.
    pub images_in_results: bool,
}

/// How a vendor is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingParam {
    /// `"reasoning_effort": "high"`.
    Effort,
    /// `"reasoning": {"effort": "high"}`.
    Object,
    /// `"thinking": {"type": "enabled"}` with a `reasoning_effort`.
    Switch,
}

/// How a model's thinking goes back to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingBack {
    /// Not at all.
    No,
    /// As a text in this field of the message.
    Field(&'static str),
    /// As a part of the message's content, with its signature.
    Chunk,
}

impl Quirks {
    /// OpenAI's own ways.
    pub const OPENAI: Self = Self {
        max_tokens: "max_completion_tokens",
        stream_options: true,
        store: true,
        cache_key: true,
        thinking: ThinkingParam::Effort,
        thinking_back: ThinkingBack::No,
        ids: IdRule::AtMost(40),
        images_in_results: false,
    };

    /// What every compatible server understands.
    pub const PLAIN: Self = Self { max_tokens: "max_tokens", store: false, cache_key: false, ..Self::OPENAI };
}

/// The body of a request, as JSON. `provider` is the name under which assistant messages of this provider were kept.
///
/// # Errors
/// [`ProviderError::Api`] when the model takes no tools over this format and the request has some.
pub fn request_body(
    request: &Request,
    model: &Model,
    provider: &str,
    quirks: &Quirks,
) -> Result<Vec<u8>, ProviderError> {
    if model.chat_tools == ChatTools::No && !request.tools.is_empty() {
        let message =
            format!("`{}` takes tools only over the Responses API, which `{provider}` does not speak", model.id);
        return Err(ProviderError::Api { status: None, message });
    }
    let options = &request.options;
    let mut extra = thinking(request, model, quirks);
    if let Some(max) = options.max_output_tokens {
        extra.push((quirks.max_tokens, json!(model.output_limit(max))));
    }
    if let Some(temperature) = options.temperature.filter(|_| model.temperature) {
        extra.push(("temperature", json!(temperature)));
    }
    if quirks.stream_options {
        extra.push(("stream_options", json!({ "include_usage": true })));
    }
    if quirks.store {
        extra.push(("store", json!(false)));
    }
    if let Some(session) = options.session_id.as_ref().filter(|_| quirks.cache_key && options.cache != CachePolicy::Off)
    {
        extra.push(("prompt_cache_key", json!(session)));
    }
    let body = Body {
        model: &request.model,
        stream: true,
        messages: messages(request, model, provider, quirks),
        tools: request.tools.iter().map(|tool| Tool::of(tool)).collect(),
        tool_choice: tool_choice(request, model),
        extra: Extra(extra),
    };
    serde_json::to_vec(&body).map_err(|error| ProviderError::Api { status: None, message: error.to_string() })
}

/// What says how long to think, as the vendor calls it.
fn thinking(request: &Request, model: &Model, quirks: &Quirks) -> Vec<(&'static str, Value)> {
    let off = request.options.thinking == ThinkingLevel::Off;
    if model.chat_tools == ChatTools::WithoutThinking && !request.tools.is_empty() {
        return vec![("reasoning_effort", json!(Effort::None))];
    }
    let effort = match model.thinking {
        ThinkingStyle::None => None,
        ThinkingStyle::OnRequest if off => None,
        _ => model.effort(request.options.thinking),
    };
    match (quirks.thinking, effort) {
        (ThinkingParam::Switch, _) if off && model.thinking != ThinkingStyle::None => {
            vec![("thinking", json!({ "type": "disabled" }))]
        }
        (_, None) => Vec::new(),
        (ThinkingParam::Effort, Some(effort)) => vec![("reasoning_effort", json!(effort))],
        (ThinkingParam::Object, Some(effort)) => vec![("reasoning", json!({ "effort": effort }))],
        (ThinkingParam::Switch, Some(effort)) => {
            vec![("thinking", json!({ "type": "enabled" })), ("reasoning_effort", json!(effort))]
        }
    }
}

fn tool_choice<'a>(request: &'a Request, model: &Model) -> Option<Choice<'a>> {
    match &request.tool_choice {
        _ if request.tools.is_empty() => None,
        ToolChoice::Auto => None,
        ToolChoice::None => Some(Choice::Word("none")),
        ToolChoice::Any | ToolChoice::Tool(_) if !model.forced_tools => None,
        ToolChoice::Any => Some(Choice::Word("required")),
        ToolChoice::Tool(name) => Some(Choice::Function { r#type: "function", function: Named { name } }),
    }
}

/// The conversation. Pictures that tools gave back are gathered and follow their results, where the vendor takes them in
/// no other place.
fn messages<'a>(request: &'a Request, model: &Model, provider: &str, quirks: &Quirks) -> Vec<WireMessage<'a>> {
    let mut out: Vec<WireMessage<'a>> = Vec::with_capacity(request.messages.len() + 1);
    if has_text(&request.system) {
        out.push(WireMessage::System { content: &request.system });
    }
    let mut pictures: Vec<Part<'a>> = Vec::new();
    for message in &request.messages {
        if !matches!(&**message, Message::ToolResult(_) | Message::Extension(_)) {
            flush(&mut pictures, &mut out);
        }
        match &**message {
            Message::User(user) => out.extend(user_message(&user.content, model)),
            Message::Assistant(reply) => out.extend(reply_message(reply, model, provider, quirks)),
            Message::ToolResult(result) => out.push(result_message(result, model, quirks, &mut pictures)),
            Message::Extension(_) => {}
        }
    }
    flush(&mut pictures, &mut out);
    out
}

fn flush<'a>(pictures: &mut Vec<Part<'a>>, out: &mut Vec<WireMessage<'a>>) {
    if !pictures.is_empty() {
        let mut parts = vec![Part::Text { text: "The images that the tools gave back:" }];
        parts.append(pictures);
        out.push(WireMessage::User { content: WireContent::Many(parts) });
    }
}

fn user_message<'a>(content: &'a [Content], model: &Model) -> Option<WireMessage<'a>> {
    let parts: Vec<Part<'a>> = content.iter().filter_map(|part| user_part(part, model)).collect();
    (!parts.is_empty()).then(|| WireMessage::User { content: WireContent::of(parts) })
}

fn user_part<'a>(part: &'a Content, model: &Model) -> Option<Part<'a>> {
    match part {
        Content::Text { text } => has_text(text).then_some(Part::Text { text }),
        Content::Image(image) => Some(Part::image(image, model)),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

fn result_message<'a>(
    result: &'a ToolResultMessage,
    model: &Model,
    quirks: &Quirks,
    pictures: &mut Vec<Part<'a>>,
) -> WireMessage<'a> {
    let parts = result.content.iter().filter_map(|part| user_part(part, model));
    let (mut here, mut later): (Vec<Part<'a>>, Vec<Part<'a>>) =
        parts.partition(|part| quirks.images_in_results || matches!(part, Part::Text { .. }));
    if here.is_empty() {
        here.push(Part::Text { text: if later.is_empty() { "(no output)" } else { "(an image, which follows)" } });
    }
    pictures.append(&mut later);
    WireMessage::Tool { tool_call_id: call_id(&result.call_id, quirks.ids), content: WireContent::joined(here) }
}

/// A reply, unless it holds nothing that the vendor accepts.
fn reply_message<'a>(
    reply: &'a AssistantMessage,
    model: &Model,
    provider: &str,
    quirks: &Quirks,
) -> Option<WireMessage<'a>> {
    let text: Vec<&str> = reply.content.iter().filter_map(Content::as_text).filter(|text| has_text(text)).collect();
    let calls = reply.tool_calls().map(|call| Call {
        id: call_id(&call.id, quirks.ids),
        r#type: "function",
        function: CalledFunction { name: &call.name, arguments: arguments(call).to_string() },
    });
    let tool_calls: Vec<Call<'a>> = calls.collect();
    if text.is_empty() && tool_calls.is_empty() {
        return None;
    }
    let back = if is_own(reply, provider, model) { quirks.thinking_back } else { ThinkingBack::No };
    let (content, field) = match back {
        ThinkingBack::No => (plain(&text), None),
        ThinkingBack::Field(field) => (plain(&text), thought(reply).map(|thought| (field, Value::String(thought)))),
        ThinkingBack::Chunk => (chunks(reply).or_else(|| plain(&text)), None),
    };
    Some(WireMessage::Assistant { content, tool_calls, extra: Extra(field.into_iter().collect()) })
}

fn plain(text: &[&str]) -> Option<ReplyContent> {
    (!text.is_empty()).then(|| ReplyContent::Text(text.join("\n\n")))
}

/// A reply's thinking and text as a list of parts, when it thought at all.
fn chunks(reply: &AssistantMessage) -> Option<ReplyContent> {
    let chunk = |part: &Content| match part {
        Content::Text { text } => has_text(text).then(|| json!({ "type": "text", "text": text })),
        Content::Thinking(thinking) if has_text(&thinking.text) => {
            let mut chunk = json!({ "type": "thinking", "thinking": [{ "type": "text", "text": thinking.text }] });
            if let (Some(signature), Value::Object(chunk)) = (&thinking.signature, &mut chunk) {
                chunk.insert("signature".to_owned(), json!(signature));
            }
            Some(chunk)
        }
        _ => None,
    };
    thought(reply)?;
    Some(ReplyContent::Chunks(reply.content.iter().filter_map(chunk).collect()))
}

fn thought(reply: &AssistantMessage) -> Option<String> {
    let thoughts = reply.content.iter().filter_map(|part| match part {
        Content::Thinking(thinking) => Some(thinking.text.as_str()),
        _ => None,
    });
    let text: String = thoughts.collect();
    has_text(&text).then_some(text)
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(flatten)]
    extra: Extra,
}

/// Fields whose names depend on the vendor.
struct Extra(Vec<(&'static str, Value)>);

impl Serialize for Extra {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: WireContent<'a>,
    },
    Assistant {
        content: Option<ReplyContent>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
        #[serde(flatten)]
        extra: Extra,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: WireContent<'a>,
    },
}

/// What the model said: a text, or, for those who want its thinking back so, a list of parts.
#[derive(Serialize)]
#[serde(untagged)]
enum ReplyContent {
    Text(String),
    Chunks(Vec<Value>),
}

/// Content: plain text where that is all, which every server understands.
#[derive(Serialize)]
#[serde(untagged)]
enum WireContent<'a> {
    One(Cow<'a, str>),
    Many(Vec<Part<'a>>),
}

impl<'a> WireContent<'a> {
    fn of(parts: Vec<Part<'a>>) -> Self {
        match parts[..] {
            [Part::Text { text }] => Self::One(Cow::Borrowed(text)),
            _ => Self::Many(parts),
        }
    }

    /// As [`Self::of`], with several texts joined to one.
    fn joined(parts: Vec<Part<'a>>) -> Self {
        let texts: Option<Vec<&str>> = parts.iter().map(Part::as_text).collect();
        match texts {
            Some(texts) if texts.len() > 1 => Self::One(Cow::Owned(texts.join("\n"))),
            _ => Self::of(parts),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

impl<'a> Part<'a> {
    fn image(image: &Image, model: &Model) -> Self {
        match model.images && is_web_image(&image.media_type) {
            true => Self::ImageUrl {
                image_url: ImageUrl { url: format!("data:{};base64,{}", image.media_type, image.base64()) },
            },
            false => Self::Text { text: NO_IMAGE },
        }
    }

    fn as_text(&self) -> Option<&'a str> {
        match self {
            Self::Text { text } => Some(text),
            Self::ImageUrl { .. } => None,
        }
    }
}

#[derive(Serialize)]
struct Call<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: String,
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

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    Function { r#type: &'static str, function: Named<'a> },
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
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
        if is_done(&rest) || serde_json::from_slice::<&RawValue>(&rest).is_ok() {
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

fn is_done(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]"
}

/// How far a reply has come.
#[derive(Debug)]
struct Reply {
    parts: Parts<Key>,
    /// The text or thinking that is being written.
    writing: Option<Key>,
    /// The calls that were begun, in order.
    calls: Vec<BegunCall>,
    stop: Option<StopReason>,
}

/// What the vendor called a call.
#[derive(Debug)]
struct BegunCall {
    index: Option<u64>,
    id: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Key {
    Text,
    Thinking,
    /// The place in [`Reply::calls`].
    Call(usize),
}

impl Reply {
    fn new(id_seed: String) -> Self {
        Self { parts: Parts::new(id_seed), writing: None, calls: Vec::new(), stop: None }
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.parts.ended() {
            return Ok(());
        }
        if is_done(data) {
            self.parts.end(self.stop.unwrap_or(StopReason::Stop), events);
            return Ok(());
        }
        let chunk: Chunk<'_> = parse(data)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(classify_object(&error));
        }
        self.parts.start(chunk.model.as_deref(), events);
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index == 0 {
                self.choice(choice, events)?;
            }
        }
        if let Some(usage) = chunk.usage.or_else(|| chunk.x_groq?.usage) {
            self.parts.usage(usage.into(), events);
        }
        Ok(())
    }

    fn choice(&mut self, choice: WireChoice<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if let Some(delta) = choice.delta {
            for text in [delta.reasoning_content, delta.reasoning].into_iter().flatten().take(1) {
                self.write(Key::Thinking, &text, events)?;
            }
            for piece in delta.content.0 {
                match piece {
                    Piece::Text(text) => self.write(Key::Text, &text, events)?,
                    Piece::Thinking(text, signature) => {
                        self.write(Key::Thinking, &text, events)?;
                        self.parts.sign(&Key::Thinking, &signature)?;
                    }
                }
            }
            if let Some(refusal) = delta.refusal {
                self.write(Key::Text, &refusal, events)?;
            }
            for call in delta.tool_calls.unwrap_or_default() {
                self.call(call, events)?;
            }
        }
        match choice.finish_reason.as_deref() {
            None | Some("") => Ok(()),
            Some(reason) => {
                self.stop = Some(stop_reason(reason)?);
                Ok(())
            }
        }
    }

    /// More text or thinking. When the kind changes, the old part ends and a new one begins.
    fn write(&mut self, key: Key, text: &str, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        if self.writing != Some(key) {
            self.end_writing(events);
            let kind = if key == Key::Text { PartKind::Text } else { PartKind::Thinking };
            self.parts.begin(key, kind, events)?;
            self.writing = Some(key);
        }
        self.parts.add(&key, text, events);
        Ok(())
    }

    fn end_writing(&mut self, events: &mut Vec<StreamEvent>) {
        if let Some(key) = self.writing.take() {
            self.parts.end_part(&key, events);
        }
    }

    fn call(&mut self, delta: CallDelta<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let function = delta.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let id = delta.id.unwrap_or_default();
        let at = match self.known_call(delta.index, &id, &name) {
            Some(at) => at,
            // A piece of a call that never began.
            None if name.is_empty() => return Ok(()),
            None => {
                self.end_writing(events);
                self.calls.push(BegunCall { index: delta.index, id: id.clone().into_owned() });
                let kind = PartKind::ToolCall { id: id.into_owned(), name: name.into_owned() };
                self.parts.begin(Key::Call(self.calls.len() - 1), kind, events)?;
                self.calls.len() - 1
            }
        };
        self.parts.add(&Key::Call(at), &function.arguments.0, events);
        Ok(())
    }

    /// The call that a piece belongs to. Some servers number every call 0 and tell them apart by id, some leave the
    /// number out, and some say id and name with every piece.
    fn known_call(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let belongs = |call: &BegunCall| match (index, id.is_empty()) {
            (Some(_), true) => call.index == index,
            (Some(_), false) => call.index == index && (call.id == id || name.is_empty()),
            (None, false) => call.id == id,
            (None, true) => name.is_empty(),
        };
        self.calls.iter().rposition(belongs)
    }
}

fn stop_reason(reason: &str) -> Result<StopReason, ProviderError> {
    let retry = |message: &str| Err(ProviderError::Overloaded { message: message.to_owned(), retry_after: None });
    match reason {
        "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => Ok(StopReason::Length),
        "tool_calls" | "function_call" => Ok(StopReason::ToolUse),
        "content_filter" => Err(ProviderError::Api {
            status: None,
            message: "the vendor's content filter cut the reply off".to_owned(),
        }),
        "error" => retry("the vendor gave the reply up"),
        "insufficient_system_resource" => retry("the vendor ran out of resources in mid-reply"),
        // `stop`, `end`, `eos`, and what may come.
        _ => Ok(StopReason::Stop),
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    choices: Option<Vec<WireChoice<'a>>>,
    usage: Option<WireUsage>,
    x_groq: Option<GroqExtra>,
    error: Option<Value>,
}

#[derive(Clone, Copy, Deserialize)]
struct GroqExtra {
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct WireChoice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    delta: Option<ReplyDelta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct ReplyDelta<'a> {
    #[serde(borrow, default)]
    content: Pieces<'a>,
    #[serde(borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning: Option<Cow<'a, str>>,
    #[serde(borrow)]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Arguments<'a>,
}

#[derive(Clone, Copy, Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    /// DeepSeek's own name.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    /// The vendor's prompt tokens hold the cached ones. Some leave reasoning out of the completion's tokens (xAI) but
    /// never out of the total.
    fn from(wire: WireUsage) -> Self {
        let prompt = wire.prompt_tokens.unwrap_or_default();
        let details = wire.prompt_tokens_details.unwrap_or_default();
        let cache_read = details.cached_tokens.or(wire.prompt_cache_hit_tokens).unwrap_or_default().min(prompt);
        let cache_write = details.cache_write_tokens.unwrap_or_default().min(prompt - cache_read);
        let beyond_prompt = wire.total_tokens.unwrap_or_default().saturating_sub(prompt);
        Self {
            input: prompt - cache_read - cache_write,
            output: wire.completion_tokens.unwrap_or_default().max(beyond_prompt),
            cache_read,
            cache_write,
        }
    }
}

/// The content of a delta: a text, or a list of texts and thoughts (Mistral).
#[derive(Default)]
struct Pieces<'a>(Vec<Piece<'a>>);

enum Piece<'a> {
    Text(Cow<'a, str>),
    /// With its signature, or a piece of it; may be empty.
    Thinking(Cow<'a, str>, String),
}

impl<'de: 'a, 'a> Deserialize<'de> for Pieces<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PiecesVisitor;
        impl<'de> Visitor<'de> for PiecesVisitor {
            type Value = Pieces<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a list of parts")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Pieces(vec![Piece::Text(Cow::Borrowed(text))]))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Pieces(vec![Piece::Text(Cow::Owned(text.to_owned()))]))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Pieces::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut pieces = Vec::new();
                while let Some(part) = list.next_element::<Value>()? {
                    pieces.extend(piece(&part));
                }
                Ok(Pieces(pieces))
            }
        }
        deserializer.deserialize_any(PiecesVisitor)
    }
}

/// `{"type":"text","text":"…"}` or `{"type":"thinking","thinking":[{"type":"text","text":"…"}]}`; others are skipped.
fn piece(part: &Value) -> Option<Piece<'static>> {
    let text_of = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
    match part.get("type")?.as_str()? {
        "text" => Some(Piece::Text(Cow::Owned(text_of(part)?))),
        "thinking" => {
            let thoughts = part.get("thinking")?.as_array()?.iter().filter_map(text_of);
            let signature = part.get("signature").and_then(Value::as_str).unwrap_or_default();
            Some(Piece::Thinking(Cow::Owned(thoughts.collect()), signature.to_owned()))
        }
        _ => None,
    }
}

/// A piece of a call's arguments: a piece of JSON as a text, or, from some servers, all of them as an object.
#[derive(Default)]
struct Arguments<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        Ok(Self(match raw.as_bytes().first() {
            Some(b'"') => Cow::Owned(serde_json::from_str(raw).map_err(serde::de::Error::custom)?),
            Some(b'{') => Cow::Borrowed(raw),
            _ => Cow::Borrowed(""),
        }))
    }
}
