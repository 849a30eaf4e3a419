//! The request body.

use super::quirks::{ChatQuirks, ThinkingBack, ThinkingParam};
use super::reasoning::{Detail, Field, as_it_came, content_part, opaque, thought};
use crate::formats::acceptable::acceptable;
use crate::formats::adopted_parts::{CacheBreakpoints, CacheControl, EPHEMERAL, FunctionTool};
use crate::formats::conversation::{
    ConversationStep, IMAGES_FOLLOW, NO_IMAGE, arguments, fields_of_server, has_text, is_own, is_web_image,
    split_result, steps,
};
use crate::models::{Caching, ChatTools, Effort, ModelSpec, ThinkingStyle};
use pinion_protocol::{
    AssistantMessage, CachePolicy, Content, Image, ProviderError, Request, Thinking, ThinkingLevel, ToolChoice,
    ToolResultMessage,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Stands between results and a message of the user, for vendors that require a reply there.
const RESULTS_SEEN: &str = "[results received]";

/// Serializes a request to JSON. `provider` is the name stored with assistant messages from this provider.
///
/// # Errors
/// [`ProviderError::Api`] when the request has tools and the model does not support them over this format.
pub fn request_body(
    request: &Request,
    model: &ModelSpec,
    provider: &str,
    quirks: &ChatQuirks,
) -> Result<Vec<u8>, ProviderError> {
    if model.chat_tools == ChatTools::No && !request.tools.is_empty() {
        let message =
            format!("`{}` takes tools only over the Responses API, which `{provider}` does not speak", model.id);
        return Err(ProviderError::Api { status: None, message });
    }
    let request = &acceptable(request, model, provider, quirks.ids);
    let options = &request.options;
    let mut extra: Vec<(&'static str, Value)> = thinking(request, model, quirks);
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
    if let Some(session) = options.cache_key().filter(|_| quirks.cache_key && options.cache != CachePolicy::Off) {
        extra.push(("prompt_cache_key", json!(session)));
    }
    let marks = match quirks.breakpoints && model.caching == Caching::Breakpoints {
        true => CacheBreakpoints::for_policy(options.cache),
        false => CacheBreakpoints::NONE,
    };
    let mut tools: Vec<FunctionTool<'_>> =
        request.tools.iter().map(|tool| FunctionTool::from_definition(tool)).collect();
    if let Some(last) = tools.last_mut().filter(|_| marks.tools) {
        last.cache_control = Some(EPHEMERAL);
    }
    let body = ChatRequestBody {
        model: &request.model,
        stream: true,
        messages: messages(request, model, provider, quirks, marks),
        tools,
        tool_choice: tool_choice(request, model),
        extra: VendorFields(extra.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect()),
    };
    serde_json::to_vec(&body).map_err(|error| ProviderError::Api { status: None, message: error.to_string() })
}

/// Returns the fields that set the thinking effort, under the vendor's names.
fn thinking(request: &Request, model: &ModelSpec, quirks: &ChatQuirks) -> Vec<(&'static str, Value)> {
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
        _ if model.thinking == ThinkingStyle::None => Vec::new(),
        (ThinkingParam::Switch, _) if off => vec![("thinking", json!({ "type": "disabled" }))],
        (ThinkingParam::Switch, None) => vec![("thinking", json!({ "type": "enabled" }))],
        (_, None) => Vec::new(),
        (ThinkingParam::Effort, Some(effort)) => vec![("reasoning_effort", json!(effort))],
        (ThinkingParam::Object, Some(effort)) => vec![("reasoning", json!({ "effort": effort }))],
        (ThinkingParam::Switch, Some(effort)) => {
            vec![("thinking", json!({ "type": "enabled" })), ("reasoning_effort", json!(effort))]
        }
    }
}

fn tool_choice<'a>(request: &'a Request, model: &ModelSpec) -> Option<ChatToolChoice<'a>> {
    match &request.tool_choice {
        _ if request.tools.is_empty() => None,
        ToolChoice::Auto => None,
        ToolChoice::None => Some(ChatToolChoice::Word("none")),
        ToolChoice::Any | ToolChoice::Tool(_) if !model.forced_tools => None,
        ToolChoice::Any => Some(ChatToolChoice::Word("required")),
        ToolChoice::Tool(name) => Some(ChatToolChoice::Function { r#type: "function", function: Named { name } }),
    }
}

/// Converts the conversation. Images that tools returned follow their results where the vendor accepts them nowhere
/// else.
fn messages<'a>(
    request: &'a Request,
    model: &ModelSpec,
    provider: &str,
    quirks: &ChatQuirks,
    marks: CacheBreakpoints,
) -> Vec<WireMessage<'a>> {
    let thinks = request.options.thinking != ThinkingLevel::Off;
    let mut out: Vec<WireMessage<'a>> = Vec::with_capacity(request.messages.len() + 1);
    if has_text(&request.system) {
        let mut content = WireContent::One(Cow::Borrowed(&*request.system));
        if marks.system {
            content.mark();
        }
        out.push(match quirks.developer_role {
            true => WireMessage::Developer { content },
            false => WireMessage::System { content },
        });
    }
    let mut pending_images: Vec<ChatPart<'a>> = Vec::new();
    for step in steps(request) {
        match step {
            ConversationStep::User(user) => {
                if let Some(content) = user_content(&user.content, model, quirks) {
                    push_user(&mut out, content, quirks);
                }
            }
            ConversationStep::Reply(reply) => {
                let back = Back { place: quirks.thinking_back, thinks, is_own: is_own(reply, provider, model) };
                out.extend(reply_message(reply, back));
            }
            ConversationStep::Result(result) => out.push(result_message(result, model, quirks, &mut pending_images)),
            ConversationStep::ResultsEnd => flush(&mut pending_images, &mut out, quirks),
        }
    }
    if let Some(content) = out.last_mut().and_then(WireMessage::content).filter(|_| marks.messages) {
        content.mark();
    }
    out
}

fn flush<'a>(pending_images: &mut Vec<ChatPart<'a>>, out: &mut Vec<WireMessage<'a>>, quirks: &ChatQuirks) {
    if !pending_images.is_empty() {
        let mut parts = vec![ChatPart::text(IMAGES_FOLLOW)];
        parts.append(pending_images);
        push_user(out, WireContent::Many(parts), quirks);
    }
}

/// Adds a message of the user, or extends the one before it where roles must alternate.
fn push_user<'a>(out: &mut Vec<WireMessage<'a>>, content: WireContent<'a>, quirks: &ChatQuirks) {
    match out.last_mut() {
        Some(WireMessage::User { content: before }) if quirks.merges_users => return before.extend(content),
        Some(WireMessage::Tool { .. }) if quirks.replies_after_results => {
            let content = Some(ReplyContent::Text(RESULTS_SEEN.to_owned()));
            out.push(WireMessage::Assistant { content, tool_calls: Vec::new(), extra: VendorFields(Vec::new()) });
        }
        _ => {}
    }
    out.push(WireMessage::User { content });
}

/// Converts the content of a message of the user. A server of a text model may take only a string.
fn user_content<'a>(content: &'a [Content], model: &ModelSpec, quirks: &ChatQuirks) -> Option<WireContent<'a>> {
    let parts: Vec<ChatPart<'a>> = content.iter().filter_map(|part| user_part(part, model)).collect();
    let converted = if quirks.joins_texts { WireContent::joined } else { WireContent::from_parts };
    (!parts.is_empty()).then(|| converted(parts))
}

fn user_part<'a>(part: &'a Content, model: &ModelSpec) -> Option<ChatPart<'a>> {
    match part {
        Content::Text { text } => has_text(text).then(|| ChatPart::text(text)),
        Content::Image(image) => Some(ChatPart::image(image, model)),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

fn result_message<'a>(
    result: &'a ToolResultMessage,
    model: &ModelSpec,
    quirks: &ChatQuirks,
    pending_images: &mut Vec<ChatPart<'a>>,
) -> WireMessage<'a> {
    let parts = result.content.iter().filter_map(|part| user_part(part, model));
    let stays = |part: &ChatPart<'_>| quirks.images_in_results || matches!(part, ChatPart::Text { .. });
    let here = split_result(parts, stays, ChatPart::text, pending_images);
    WireMessage::Tool { tool_call_id: &result.call_id, content: WireContent::joined(here) }
}

/// Facts that decide whether and how the thinking of a reply is returned to the vendor.
#[derive(Clone, Copy)]
struct Back {
    place: ThinkingBack,
    /// The request asks for thinking.
    thinks: bool,
    /// The model's own reply.
    is_own: bool,
}

/// Converts a reply; `None` when nothing in it is acceptable to the vendor.
fn reply_message<'a>(reply: &'a AssistantMessage, back: Back) -> Option<WireMessage<'a>> {
    let text: Vec<&str> = reply.content.iter().filter_map(Content::as_text).filter(|text| has_text(text)).collect();
    // A server may expect its additions to its own calls and messages back.
    let has_others = back.is_own && matches!(back.place, ThinkingBack::Field(_) | ThinkingBack::AsItCame(_));
    let calls = reply.tool_calls().map(|call| ChatToolCall {
        id: &call.id,
        r#type: "function",
        function: CalledFunction { name: &call.name, arguments: arguments(call).to_string() },
        others: fields_of_server(call.signature.as_deref().filter(|_| has_others)),
    });
    let tool_calls: Vec<ChatToolCall<'a>> = calls.collect();
    if text.is_empty() && tool_calls.is_empty() {
        return None;
    }
    let (content, extra) = match back.place {
        ThinkingBack::Field(field) => {
            let own = thought(reply).filter(|_| back.is_own);
            let thought = own.or_else(|| back.thinks.then(String::new));
            let field = thought.map(|thought| (Cow::Borrowed(field), Value::String(thought)));
            let opaque = has_others.then(|| opaque(reply)).into_iter().flatten();
            (plain(&text), field.into_iter().chain(opaque).collect())
        }
        ThinkingBack::AsItCame(field) if back.is_own => {
            (chunks(reply, content_part).or_else(|| plain(&text)), as_it_came(reply, field))
        }
        ThinkingBack::Chunk if back.is_own => {
            let chunk = |thinking: &Thinking| {
                content_part(thinking).map(without_unknown_fields).or_else(|| thinking_chunk(thinking))
            };
            (chunks(reply, chunk).or_else(|| plain(&text)), Vec::new())
        }
        ThinkingBack::No | ThinkingBack::AsItCame(_) | ThinkingBack::Chunk => (plain(&text), Vec::new()),
    };
    Some(WireMessage::Assistant { content, tool_calls, extra: VendorFields(extra) })
}

fn plain(text: &[&str]) -> Option<ReplyContent> {
    (!text.is_empty()).then(|| ReplyContent::Text(text.join("\n\n")))
}

/// Converts a reply's text, and the thinking that `part` converts, to a list of parts; `None` without such thinking.
fn chunks(reply: &AssistantMessage, part: impl Fn(&Thinking) -> Option<Value>) -> Option<ReplyContent> {
    let mut has_thinking = false;
    let mut chunk = |content: &Content| match content {
        Content::Text { text } => has_text(text).then(|| json!({ "type": "text", "text": text })),
        Content::Thinking(thinking) => {
            let part = part(thinking);
            has_thinking |= part.is_some();
            part
        }
        _ => None,
    };
    let chunks: Vec<Value> = reply.content.iter().filter_map(&mut chunk).collect();
    has_thinking.then_some(ReplyContent::Chunks(chunks))
}

/// Removes fields that Mistral, which rejects unknown fields, may have added to its own part.
fn without_unknown_fields(mut part: Value) -> Value {
    if let Value::Object(fields) = &mut part {
        fields.retain(|name, _| matches!(&**name, "type" | "thinking" | "signature"));
    }
    part
}

/// The part for thinking that came in another form.
fn thinking_chunk(thinking: &Thinking) -> Option<Value> {
    has_text(&thinking.text).then(|| {
        let mut chunk = json!({ "type": "thinking", "thinking": [{ "type": "text", "text": thinking.text }] });
        if let (Some(signature), Value::Object(chunk)) = (&thinking.signature, &mut chunk) {
            chunk.insert("signature".to_owned(), json!(signature));
        }
        chunk
    })
}

#[derive(Serialize)]
struct ChatRequestBody<'a> {
    model: &'a str,
    stream: bool,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<FunctionTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ChatToolChoice<'a>>,
    #[serde(flatten)]
    extra: VendorFields,
}

/// Fields whose names depend on the vendor.
struct VendorFields(Vec<Field>);

impl Serialize for VendorFields {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum WireMessage<'a> {
    System {
        content: WireContent<'a>,
    },
    Developer {
        content: WireContent<'a>,
    },
    User {
        content: WireContent<'a>,
    },
    Assistant {
        content: Option<ReplyContent>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ChatToolCall<'a>>,
        #[serde(flatten)]
        extra: VendorFields,
    },
    Tool {
        tool_call_id: &'a str,
        content: WireContent<'a>,
    },
}

impl<'a> WireMessage<'a> {
    /// The content that can take a cache breakpoint.
    fn content(&mut self) -> Option<&mut WireContent<'a>> {
        match self {
            Self::User { content } | Self::Tool { content, .. } => Some(content),
            Self::System { .. } | Self::Developer { .. } | Self::Assistant { .. } => None,
        }
    }
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
    Many(Vec<ChatPart<'a>>),
}

impl<'a> WireContent<'a> {
    fn from_parts(parts: Vec<ChatPart<'a>>) -> Self {
        match &parts[..] {
            [ChatPart::Text { text, .. }] => Self::One(text.clone()),
            _ => Self::Many(parts),
        }
    }

    /// Sets a cache breakpoint on the last part, which only the form of a list supports.
    fn mark(&mut self) {
        if let Self::One(text) = self {
            *self = Self::Many(vec![ChatPart::Text { text: std::mem::take(text), cache_control: None }]);
        }
        if let Self::Many(parts) = self
            && let Some(ChatPart::Text { cache_control, .. } | ChatPart::ImageUrl { cache_control, .. }) =
                parts.last_mut()
        {
            *cache_control = Some(EPHEMERAL);
        }
    }

    /// Appends another message's content, as a string where both are.
    fn extend(&mut self, more: Self) {
        *self = match (std::mem::replace(self, Self::Many(Vec::new())), more) {
            (Self::One(before), Self::One(more)) => Self::One(Cow::Owned(format!("{before}\n\n{more}"))),
            (before, more) => Self::Many(before.into_parts().into_iter().chain(more.into_parts()).collect()),
        };
    }

    fn into_parts(self) -> Vec<ChatPart<'a>> {
        match self {
            Self::One(text) => vec![ChatPart::Text { text, cache_control: None }],
            Self::Many(parts) => parts,
        }
    }

    /// Like [`Self::from_parts`], but joins several texts into one.
    fn joined(parts: Vec<ChatPart<'a>>) -> Self {
        let texts: Option<Vec<&str>> = parts.iter().map(ChatPart::as_text).collect();
        match texts.filter(|texts| texts.len() > 1).map(|texts| texts.join("\n")) {
            Some(text) => Self::One(Cow::Owned(text)),
            None => Self::from_parts(parts),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ChatPart<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ImageUrl {
        image_url: ImageUrl,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

impl<'a> ChatPart<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text { text: Cow::Borrowed(text), cache_control: None }
    }

    fn image(image: &Image, model: &ModelSpec) -> Self {
        match model.images && is_web_image(&image.media_type) {
            true => Self::ImageUrl {
                image_url: ImageUrl { url: format!("data:{};base64,{}", image.media_type, image.base64()) },
                cache_control: None,
            },
            false => Self::text(NO_IMAGE),
        }
    }

    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::ImageUrl { .. } => None,
        }
    }
}

#[derive(Serialize)]
struct ChatToolCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CalledFunction<'a>,
    #[serde(flatten)]
    others: Detail,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ChatToolChoice<'a> {
    Word(&'static str),
    Function { r#type: &'static str, function: Named<'a> },
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}
