//! The request body.

use super::stored::{self, is_self_contained, item_of, phase_of};
use crate::formats::acceptable::acceptable;
use crate::formats::conversation::{
    ConversationStep, IMAGES_FOLLOW, IdRule, NO_IMAGE, arguments, has_text, is_own, is_web_image, split_result, steps,
};
use crate::models::{Caching, Effort, ModelSpec, ThinkingStyle};
use pinion_protocol::{
    AssistantMessage, CachePolicy, Content, Image, Request, ThinkingLevel, ToolChoice, ToolDefinition,
    ToolResultMessage,
};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// The smallest output limit that the vendor accepts, in tokens.
const MIN_OUTPUT: u64 = 16;

/// The differences between a vendor and OpenAI.
#[derive(Debug, Clone, Copy)]
pub struct ResponsesQuirks {
    /// Accepts `prompt_cache_key`, which routes the requests of a session to the same cache.
    pub cache_key: bool,
    /// Accepts `prompt_cache_options` and breakpoints, for models that support them.
    pub cache_options: bool,
    /// Accepts `reasoning.summary`, without which some models reveal no thinking.
    pub summaries: bool,
    /// Accepts images in tool results. Otherwise they follow in a user message.
    pub images_in_results: bool,
    /// The constraint on tool call IDs.
    pub(crate) ids: IdRule,
}

impl ResponsesQuirks {
    /// OpenAI itself.
    pub const OPENAI: Self = Self {
        cache_key: true,
        cache_options: true,
        summaries: true,
        images_in_results: true,
        ids: IdRule::AtMost(64),
    };

    /// The subset that every compatible server understands.
    pub const PLAIN: Self =
        Self { cache_key: false, cache_options: false, ids: IdRule::OwnOrAtMost(64), ..Self::OPENAI };

    /// The differences at a server that the vendor does not run.
    pub(crate) const fn elsewhere(self) -> Self {
        let Self { summaries, images_in_results, .. } = self;
        Self { summaries, images_in_results, ..Self::PLAIN }
    }
}

/// Serializes a request to JSON. `provider` is the name stored with assistant messages from this provider.
///
/// # Errors
/// None in practice: every request can be serialized.
pub fn request_body(
    request: &Request,
    model: &ModelSpec,
    provider: &str,
    quirks: &ResponsesQuirks,
) -> serde_json::Result<Vec<u8>> {
    let request = &acceptable(request, model, provider, quirks.ids);
    let options = &request.options;
    let caching = PromptCacheParts::for_policy(options.cache, model, quirks);
    let mut input = input(request, model, provider, quirks);
    if caching.messages {
        mark_second_to_last(&mut input);
    }
    let system = has_text(&request.system).then_some(&*request.system);
    if let Some(text) = system.filter(|_| caching.system) {
        // The field `instructions` does not support a breakpoint.
        let content = vec![ResponsesPart::InputText { text, prompt_cache_breakpoint: Some(EXPLICIT) }];
        input.insert(0, ResponsesInputItem::Message { role: "developer", content, phase: None });
    }
    let reasoning = reasoning(request, model, quirks);
    let includes_reasoning = match model.thinking {
        ThinkingStyle::None => false,
        ThinkingStyle::OnRequest => reasoning.is_some(),
        _ => true,
    };
    serde_json::to_vec(&ResponsesRequestBody {
        model: &request.model,
        stream: true,
        store: false,
        instructions: system.filter(|_| !caching.system),
        input,
        tools: request.tools.iter().map(|tool| ResponsesTool::from_definition(tool)).collect(),
        tool_choice: tool_choice(request, model),
        reasoning,
        include: if includes_reasoning { vec!["reasoning.encrypted_content"] } else { Vec::new() },
        max_output_tokens: options.max_output_tokens.map(|max| model.output_limit(max).max(MIN_OUTPUT)),
        temperature: options.temperature.filter(|_| model.temperature),
        prompt_cache_key: options.cache_key().filter(|_| quirks.cache_key && options.cache != CachePolicy::Off),
        prompt_cache_options: caching.is_explicit.then_some(EXPLICIT),
    })
}

/// The parts of the prompt to cache.
struct PromptCacheParts {
    /// Makes the vendor cache only the marked parts, and nothing when no part is marked.
    is_explicit: bool,
    system: bool,
    messages: bool,
}

impl PromptCacheParts {
    /// [`CachePolicy::Auto`] leaves the breakpoint to the vendor, which sets it near the end of the conversation.
    fn for_policy(policy: CachePolicy, model: &ModelSpec, quirks: &ResponsesQuirks) -> Self {
        let is_controllable = quirks.cache_options && model.caching == Caching::Breakpoints;
        match policy {
            CachePolicy::Manual { system, messages, .. } if is_controllable => {
                Self { is_explicit: true, system, messages }
            }
            CachePolicy::Off if is_controllable => Self { is_explicit: true, system: false, messages: false },
            _ => Self { is_explicit: false, system: false, messages: false },
        }
    }
}

fn reasoning(request: &Request, model: &ModelSpec, quirks: &ResponsesQuirks) -> Option<ReasoningOptions> {
    let level = request.options.thinking;
    let off = level == ThinkingLevel::Off;
    match model.thinking {
        ThinkingStyle::None => None,
        ThinkingStyle::OnRequest if off => None,
        _ => {
            let effort = model.effort(level);
            let summary = (quirks.summaries && !off).then_some("auto");
            (effort.is_some() || summary.is_some()).then_some(ReasoningOptions { effort, summary })
        }
    }
}

fn tool_choice<'a>(request: &'a Request, model: &ModelSpec) -> Option<ResponsesToolChoice<'a>> {
    match &request.tool_choice {
        _ if request.tools.is_empty() => None,
        ToolChoice::Auto => None,
        ToolChoice::None => Some(ResponsesToolChoice::Word("none")),
        ToolChoice::Any | ToolChoice::Tool(_) if !model.forced_tools => None,
        ToolChoice::Any => Some(ResponsesToolChoice::Word("required")),
        ToolChoice::Tool(name) => Some(ResponsesToolChoice::Function { r#type: "function", name }),
    }
}

/// Converts the conversation to items. Images that tools returned follow their results where the vendor accepts them
/// nowhere else.
fn input<'a>(
    request: &'a Request,
    model: &ModelSpec,
    provider: &str,
    quirks: &ResponsesQuirks,
) -> Vec<ResponsesInputItem<'a>> {
    let mut items: Vec<ResponsesInputItem<'a>> = Vec::with_capacity(request.messages.len() + 1);
    let mut pending_images: Vec<ResponsesPart<'a>> = Vec::new();
    for step in steps(request) {
        match step {
            ConversationStep::User(user) => {
                let content: Vec<ResponsesPart<'a>> =
                    user.content.iter().filter_map(|part| user_part(part, model)).collect();
                if !content.is_empty() {
                    items.push(ResponsesInputItem::Message { role: "user", content, phase: None });
                }
            }
            ConversationStep::Reply(reply) => reply_items(reply, is_own(reply, provider, model), &mut items),
            ConversationStep::Result(result) => items.push(result_item(result, model, quirks, &mut pending_images)),
            ConversationStep::ResultsEnd => flush(&mut pending_images, &mut items),
        }
    }
    items
}

fn flush<'a>(pending_images: &mut Vec<ResponsesPart<'a>>, items: &mut Vec<ResponsesInputItem<'a>>) {
    if !pending_images.is_empty() {
        let mut content = vec![ResponsesPart::text(IMAGES_FOLLOW)];
        content.append(pending_images);
        items.push(ResponsesInputItem::Message { role: "user", content, phase: None });
    }
}

fn user_part<'a>(part: &'a Content, model: &ModelSpec) -> Option<ResponsesPart<'a>> {
    match part {
        Content::Text { text } => has_text(text).then(|| ResponsesPart::text(text)),
        Content::Image(image) => Some(ResponsesPart::image(image, model)),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

/// Converts a reply's parts in order. Thinking and phases return only to the model that produced them, and thinking only
/// before the items that followed it.
fn reply_items<'a>(reply: &'a AssistantMessage, is_own: bool, items: &mut Vec<ResponsesInputItem<'a>>) {
    let before = items.len();
    for part in &reply.content {
        match part {
            Content::Text { text } if has_text(text) => {
                items.push(ResponsesInputItem::Message {
                    role: "assistant",
                    content: vec![ResponsesPart::OutputText { text }],
                    phase: None,
                });
            }
            Content::Thinking(thinking) if is_own => match phase_of(thinking) {
                Some(phase) => set_phase(&mut items[before..], &phase),
                None => items.extend(item_of(thinking).filter(is_self_contained).map(ResponsesInputItem::Reasoning)),
            },
            Content::ToolCall(call) => items.push(ResponsesInputItem::FunctionCall {
                call_id: &call.id,
                name: &call.name,
                arguments: arguments(call).to_string(),
            }),
            Content::Text { .. } | Content::Thinking(_) | Content::Image(_) => {}
        }
    }
    while items.len() > before && matches!(items.last(), Some(ResponsesInputItem::Reasoning(_))) {
        items.pop();
    }
}

/// Sets the phase of the last message without one, which may be several texts.
fn set_phase(items: &mut [ResponsesInputItem<'_>], of_message: &str) {
    let is_message = |item: &ResponsesInputItem<'_>| matches!(item, ResponsesInputItem::Message { phase: None, .. });
    let texts = items.iter_mut().rev().skip_while(|item| !is_message(item)).take_while(|item| is_message(item));
    for text in texts {
        if let ResponsesInputItem::Message { phase, .. } = text {
            *phase = Some(of_message.to_owned());
        }
    }
}

fn result_item<'a>(
    result: &'a ToolResultMessage,
    model: &ModelSpec,
    quirks: &ResponsesQuirks,
    pending_images: &mut Vec<ResponsesPart<'a>>,
) -> ResponsesInputItem<'a> {
    let parts = result.content.iter().filter_map(|part| user_part(part, model));
    let stays = |part: &ResponsesPart<'_>| quirks.images_in_results || matches!(part, ResponsesPart::InputText { .. });
    let here = split_result(parts, stays, ResponsesPart::text, pending_images);
    ResponsesInputItem::FunctionCallOutput { call_id: &result.call_id, output: FunctionOutput::from_parts(here) }
}

/// Sets a breakpoint at the end of the second-to-last message that supports one.
fn mark_second_to_last(items: &mut [ResponsesInputItem<'_>]) {
    let mut marks = items.iter_mut().rev().filter_map(|item| match item {
        ResponsesInputItem::Message { content, .. } => content.last_mut()?.breakpoint(),
        _ => None,
    });
    if let Some(mark) = marks.nth(1) {
        *mark = Some(EXPLICIT);
    }
}

#[derive(Serialize)]
struct ResponsesRequestBody<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Vec<ResponsesInputItem<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ResponsesTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ResponsesToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ReasoningOptions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_options: Option<CacheMode>,
}

#[derive(Clone, Copy, Serialize)]
struct CacheMode {
    mode: &'static str,
}

const EXPLICIT: CacheMode = CacheMode { mode: "explicit" };

#[derive(Serialize)]
struct ReasoningOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponsesInputItem<'a> {
    Message {
        role: &'static str,
        content: Vec<ResponsesPart<'a>>,
        /// As it came. Newer models perform worse without it.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: FunctionOutput<'a>,
    },
    /// As it came, with its type.
    #[serde(untagged)]
    Reasoning(stored::ReasoningItem),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponsesPart<'a> {
    InputText {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        prompt_cache_breakpoint: Option<CacheMode>,
    },
    InputImage {
        image_url: String,
        detail: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        prompt_cache_breakpoint: Option<CacheMode>,
    },
    OutputText {
        text: &'a str,
    },
}

impl<'a> ResponsesPart<'a> {
    fn text(text: &'a str) -> Self {
        Self::InputText { text, prompt_cache_breakpoint: None }
    }

    fn image(image: &Image, model: &ModelSpec) -> Self {
        match model.images && is_web_image(&image.media_type) {
            true => Self::InputImage {
                image_url: format!("data:{};base64,{}", image.media_type, image.base64()),
                detail: "auto",
                prompt_cache_breakpoint: None,
            },
            false => Self::text(NO_IMAGE),
        }
    }

    fn breakpoint(&mut self) -> Option<&mut Option<CacheMode>> {
        match self {
            Self::InputText { prompt_cache_breakpoint, .. } | Self::InputImage { prompt_cache_breakpoint, .. } => {
                Some(prompt_cache_breakpoint)
            }
            Self::OutputText { .. } => None,
        }
    }
}

/// A tool result: a plain string where possible, which every server understands.
#[derive(Serialize)]
#[serde(untagged)]
enum FunctionOutput<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ResponsesPart<'a>>),
}

impl<'a> FunctionOutput<'a> {
    fn from_parts(parts: Vec<ResponsesPart<'a>>) -> Self {
        let texts = parts.iter().map(|part| match part {
            ResponsesPart::InputText { text, .. } | ResponsesPart::OutputText { text } => Some(*text),
            ResponsesPart::InputImage { .. } => None,
        });
        match texts.collect::<Option<Vec<&str>>>().as_deref() {
            Some([text]) => Self::Text(Cow::Borrowed(text)),
            Some(texts) => Self::Text(Cow::Owned(texts.join("\n"))),
            None => Self::Parts(parts),
        }
    }
}

#[derive(Serialize)]
struct ResponsesTool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    /// Strict schemas support much less than tools need.
    strict: bool,
}

impl<'a> ResponsesTool<'a> {
    fn from_definition(tool: &'a ToolDefinition) -> Self {
        Self {
            r#type: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.input_schema,
            strict: false,
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResponsesToolChoice<'a> {
    Word(&'static str),
    Function { r#type: &'static str, name: &'a str },
}
