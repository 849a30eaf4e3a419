//! The request body.

use crate::formats::conversation::{
    IMAGE_FOLLOWS, IMAGES_FOLLOW, IdRule, NO_IMAGE, NO_OUTPUT, Step, arguments, call_id, has_text, is_own,
    is_web_image, steps,
};
use crate::formats::function_tool::FunctionTool;
use crate::models::{ChatTools, Effort, Model, ThinkingStyle};
use pinion_protocol::{
    AssistantMessage, CachePolicy, Content, Image, ProviderError, Request, ThinkingLevel, ToolChoice, ToolResultMessage,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The differences between a vendor and OpenAI.
#[derive(Debug, Clone, Copy)]
pub struct Quirks {
    /// The name of the output limit: `max_completion_tokens` or `max_tokens`.
    pub max_tokens: &'static str,
    /// Accepts `stream_options`, without which most vendors omit token counts.
    pub stream_options: bool,
    /// Accepts `store`, which is sent as false so that the vendor does not retain the conversation.
    pub store: bool,
    /// Accepts `prompt_cache_key`, which routes the requests of a session to the same cache.
    pub cache_key: bool,
    /// The parameter that requests thinking.
    pub thinking: ThinkingParam,
    /// The place for thinking that is sent back to the model.
    pub thinking_back: ThinkingBack,
    /// The constraint on tool call IDs.
    pub(crate) ids: IdRule,
    /// Accepts images in tool results. Otherwise they follow in a user message.
    pub images_in_results: bool,
}

/// The parameter with which a vendor requests thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingParam {
    /// `"reasoning_effort": "high"`.
    Effort,
    /// `"reasoning": {"effort": "high"}`.
    Object,
    /// `"thinking": {"type": "enabled"}` with a `reasoning_effort`.
    Switch,
}

/// The place for thinking that is sent back to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingBack {
    /// Thinking is not sent back.
    No,
    /// Text in this field of the message.
    Field(&'static str),
    /// A part of the message's content, with its signature.
    Chunk,
}

impl Quirks {
    /// OpenAI itself.
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

    /// The subset that every compatible server understands.
    pub const PLAIN: Self = Self { max_tokens: "max_tokens", store: false, cache_key: false, ..Self::OPENAI };
}

/// Serializes a request to JSON. `provider` is the name stored with assistant messages from this provider.
///
/// # Errors
/// [`ProviderError::Api`] when the request has tools and the model does not support them over this format.
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
        tools: request.tools.iter().map(|tool| FunctionTool::of(tool)).collect(),
        tool_choice: tool_choice(request, model),
        extra: Extra(extra),
    };
    serde_json::to_vec(&body).map_err(|error| ProviderError::Api { status: None, message: error.to_string() })
}

/// Returns the fields that set the thinking effort, under the vendor's names.
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

/// Converts the conversation. Images that tools returned follow their results where the vendor accepts them nowhere
/// else.
fn messages<'a>(request: &'a Request, model: &Model, provider: &str, quirks: &Quirks) -> Vec<WireMessage<'a>> {
    let mut out: Vec<WireMessage<'a>> = Vec::with_capacity(request.messages.len() + 1);
    if has_text(&request.system) {
        out.push(WireMessage::System { content: &request.system });
    }
    let mut pending_images: Vec<Part<'a>> = Vec::new();
    for step in steps(request) {
        match step {
            Step::User(user) => out.extend(user_message(&user.content, model)),
            Step::Reply(reply) => out.extend(reply_message(reply, model, provider, quirks)),
            Step::Result(result) => out.push(result_message(result, model, quirks, &mut pending_images)),
            Step::ResultsEnd => flush(&mut pending_images, &mut out),
        }
    }
    out
}

fn flush<'a>(pending_images: &mut Vec<Part<'a>>, out: &mut Vec<WireMessage<'a>>) {
    if !pending_images.is_empty() {
        let mut parts = vec![Part::Text { text: IMAGES_FOLLOW }];
        parts.append(pending_images);
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
    pending_images: &mut Vec<Part<'a>>,
) -> WireMessage<'a> {
    let parts = result.content.iter().filter_map(|part| user_part(part, model));
    let (mut here, mut later): (Vec<Part<'a>>, Vec<Part<'a>>) =
        parts.partition(|part| quirks.images_in_results || matches!(part, Part::Text { .. }));
    if here.is_empty() {
        here.push(Part::Text { text: if later.is_empty() { NO_OUTPUT } else { IMAGE_FOLLOWS } });
    }
    pending_images.append(&mut later);
    WireMessage::Tool { tool_call_id: call_id(&result.call_id, quirks.ids), content: WireContent::joined(here) }
}

/// Converts a reply; `None` when nothing in it is acceptable to the vendor.
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

/// Converts a reply's thinking and text to a list of parts; `None` when it contains no thinking.
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
    tools: Vec<FunctionTool<'a>>,
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

/// The content of a reply: text, or a list of parts for vendors that take thinking back as one.
#[derive(Serialize)]
#[serde(untagged)]
enum ReplyContent {
    Text(String),
    Chunks(Vec<Value>),
}

/// Message content: a plain string where possible, which every server understands.
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

    /// Like [`Self::of`], but joins several texts into one.
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
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    Function { r#type: &'static str, function: Named<'a> },
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}
