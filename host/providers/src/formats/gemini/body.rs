//! The request body.

use super::ON_TEXT;
use crate::formats::acceptable::acceptable;
use crate::formats::conversation::{
    ConversationStep, IMAGE_FOLLOWS, IMAGES_FOLLOW, IdRule, NO_IMAGE, NO_OUTPUT, RoleTurn, alternate, arguments,
    has_text, is_own, is_web_image, steps,
};
use crate::models::{Effort, ModelSpec, ThinkingStyle, level_budget};
use pinion_protocol::{
    AssistantMessage, Content, Image, Request, ThinkingLevel, ToolCall, ToolChoice, ToolDefinition, ToolResultMessage,
};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

const IDS: IdRule = IdRule::OwnOrAtMost(64);

/// Replaces the signature of a call that another model made, as the vendor documents.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// Serializes a request to JSON. `provider` is the name stored with assistant messages from this provider.
///
/// # Errors
/// None in practice: every request can be serialized.
pub fn request_body(request: &Request, model: &ModelSpec, provider: &str) -> serde_json::Result<Vec<u8>> {
    let request = &acceptable(request, model, provider, IDS);
    let options = &request.options;
    let declarations: Vec<Declaration<'_>> =
        request.tools.iter().map(|tool| Declaration::from_definition(tool)).collect();
    let tools = (!declarations.is_empty()).then_some(Tools { function_declarations: declarations });
    let system =
        has_text(&request.system).then(|| Contents { role: None, parts: vec![GeminiPart::text(&request.system)] });
    serde_json::to_vec(&GeminiRequestBody {
        system_instruction: system,
        contents: contents(request, model, provider),
        tool_config: tool_config(request, model),
        tools: tools.into_iter().collect(),
        generation_config: GenerationConfig {
            max_output_tokens: options.max_output_tokens.map(|max| model.output_limit(max)),
            temperature: options.temperature.filter(|_| model.temperature),
            thinking_config: thinking(request, model),
        },
    })
}

/// The thinking settings: older models take a number of tokens, newer ones a level.
fn thinking(request: &Request, model: &ModelSpec) -> Option<ThinkingConfig> {
    let level = request.options.thinking;
    let off = level == ThinkingLevel::Off;
    let with_budget = |budget| Some(ThinkingConfig { thinking_budget: Some(budget), ..ThinkingConfig::shown(!off) });
    match (model.thinking, model.thinking_budgets) {
        (ThinkingStyle::None, _) => None,
        (_, Some((min, max))) if off => (min == 0 && max > 0).then(|| with_budget(0)).flatten(),
        (_, Some((min, max))) => {
            let budget = request.options.budget().or(level_budget(level)).unwrap_or(max);
            with_budget(budget.clamp(min.max(1), max.max(1)))
        }
        (_, None) if off => None,
        (_, None) => {
            Some(ThinkingConfig { thinking_level: model.effort(level).map(level_name), ..ThinkingConfig::shown(true) })
        }
    }
}

fn level_name(effort: Effort) -> &'static str {
    match effort {
        Effort::None => "OFF",
        Effort::Minimal => "MINIMAL",
        Effort::Low => "LOW",
        Effort::Medium => "MEDIUM",
        Effort::High | Effort::Xhigh | Effort::Max => "HIGH",
    }
}

fn tool_config<'a>(request: &'a Request, model: &ModelSpec) -> Option<ToolConfig<'a>> {
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

/// Converts the conversation to turns that alternate.
fn contents<'a>(request: &'a Request, model: &ModelSpec, provider: &str) -> Vec<Contents<'a>> {
    let mut turns: Vec<(&'static str, Vec<GeminiPart<'a>>)> = Vec::with_capacity(request.messages.len() + 1);
    let mut pending_images: Vec<GeminiPart<'a>> = Vec::new();
    for step in steps(request) {
        match step {
            ConversationStep::User(user) => {
                turns.push(("user", user.content.iter().filter_map(|part| user_part(part, model)).collect()));
            }
            ConversationStep::Reply(reply) => {
                turns.push(("model", reply_parts(reply, is_own(reply, provider, model), model)))
            }
            ConversationStep::Result(result) => {
                turns.push(("user", vec![result_part(result, model, &mut pending_images)]))
            }
            ConversationStep::ResultsEnd => turns.extend(follow_up(&mut pending_images)),
        }
    }
    let contents = |RoleTurn { role, content }| Contents { role: Some(role), parts: content };
    alternate(turns).into_iter().map(contents).collect()
}

/// Takes the images of the preceding results, which results cannot contain, as a turn of the user.
fn follow_up<'a>(pending_images: &mut Vec<GeminiPart<'a>>) -> Option<(&'static str, Vec<GeminiPart<'a>>)> {
    let images = std::mem::take(pending_images);
    (!images.is_empty()).then(|| ("user", std::iter::once(GeminiPart::text(IMAGES_FOLLOW)).chain(images).collect()))
}

fn user_part<'a>(part: &'a Content, model: &ModelSpec) -> Option<GeminiPart<'a>> {
    match part {
        Content::Text { text } => has_text(text).then(|| GeminiPart::text(text)),
        Content::Image(image) => Some(GeminiPart::image(image, model)),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

/// Converts a reply's parts in order, each with the signature that came with it.
fn reply_parts<'a>(reply: &'a AssistantMessage, is_own: bool, model: &ModelSpec) -> Vec<GeminiPart<'a>> {
    let mut parts: Vec<GeminiPart<'a>> = Vec::with_capacity(reply.content.len());
    let mut is_first_call = true;
    for part in &reply.content {
        match part {
            Content::Text { text } if has_text(text) => parts.push(GeminiPart::text(text)),
            Content::Thinking(thinking) if is_own => {
                let Some(signature) = thinking.signature.as_deref() else { continue };
                let of_text = parts.last_mut().filter(|part| part.text.is_some() && !part.thought);
                match (signature.strip_prefix(ON_TEXT), of_text) {
                    (Some(signature), Some(text)) => text.thought_signature = Some(signature),
                    (signature_on_text, _) => parts.push(GeminiPart {
                        text: Some(&thinking.text),
                        thought: !thinking.redacted,
                        thought_signature: Some(signature_on_text.unwrap_or(signature)),
                        ..GeminiPart::default()
                    }),
                }
            }
            Content::ToolCall(call) => {
                let own = call.signature.as_deref().filter(|_| is_own);
                let stand_in = (is_first_call && model.signed_calls).then_some(UNSIGNED);
                is_first_call = false;
                parts.push(GeminiPart { thought_signature: own.or(stand_in), ..GeminiPart::call(call) });
            }
            Content::Text { .. } | Content::Thinking(_) | Content::Image(_) => {}
        }
    }
    let has_content = |part: &GeminiPart<'_>| {
        part.function_call.is_some() || part.text.is_some_and(|text| !part.thought && has_text(text))
    };
    if parts.iter().any(has_content) { parts } else { Vec::new() }
}

/// Converts a result. Models that sign their calls accept images in results; for others, the images follow.
fn result_part<'a>(
    result: &'a ToolResultMessage,
    model: &ModelSpec,
    pending_images: &mut Vec<GeminiPart<'a>>,
) -> GeminiPart<'a> {
    let text: Vec<&str> = result.content.iter().filter_map(Content::as_text).filter(|text| has_text(text)).collect();
    let images = result.content.iter().filter(|part| matches!(part, Content::Image(_)));
    let images: Vec<GeminiPart<'a>> = images.filter_map(|part| user_part(part, model)).collect();
    let (mut here, mut later): (Vec<GeminiPart<'a>>, Vec<GeminiPart<'a>>) =
        images.into_iter().partition(|part| model.signed_calls && part.inline_data.is_some());
    let output = match (text.is_empty(), here.is_empty() && later.is_empty()) {
        (false, _) => text.join("\n"),
        (true, true) => NO_OUTPUT.to_owned(),
        (true, false) if later.is_empty() => "(an image)".to_owned(),
        (true, false) => IMAGE_FOLLOWS.to_owned(),
    };
    pending_images.append(&mut later);
    here.iter_mut().for_each(|part| part.text = None);
    let response = match result.is_error {
        true => FunctionOutcome { output: None, error: Some(output) },
        false => FunctionOutcome { output: Some(output), error: None },
    };
    let function_response = FunctionResponse {
        id: &result.call_id,
        name: &result.tool_name,
        response,
        parts: here.into_iter().filter_map(|part| part.inline_data).map(|inline_data| Inline { inline_data }).collect(),
    };
    GeminiPart { function_response: Some(function_response), ..GeminiPart::default() }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiRequestBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Contents<'a>>,
    contents: Vec<Contents<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    generation_config: GenerationConfig,
}

#[derive(Serialize)]
struct Contents<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<GeminiPart<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiPart<'a> {
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

impl<'a> GeminiPart<'a> {
    fn text(text: &'a str) -> Self {
        Self { text: Some(text), ..Self::default() }
    }

    fn image(image: &'a Image, model: &ModelSpec) -> Self {
        match model.images && is_web_image(&image.media_type) {
            true => Self {
                inline_data: Some(Blob { mime_type: &image.media_type, data: image.base64() }),
                ..Self::default()
            },
            false => Self::text(NO_IMAGE),
        }
    }

    fn call(call: &'a ToolCall) -> Self {
        let function_call = FunctionCall { id: &call.id, name: &call.name, args: arguments(call) };
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
    id: &'a str,
    name: &'a str,
    args: Cow<'a, Value>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    id: &'a str,
    name: &'a str,
    response: FunctionOutcome,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Inline<'a>>,
}

#[derive(Serialize)]
struct FunctionOutcome {
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
    fn from_definition(tool: &'a ToolDefinition) -> Self {
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
