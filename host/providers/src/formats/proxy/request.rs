//! The request, for clients and for servers.

use pinion_protocol::{
    AssistantMessage, Authority, CachePolicy, Execution, Message, Request, RequestOptions, ThinkingLevel, ToolChoice,
    ToolDefinition, ToolResultMessage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// The protocol version.
pub const VERSION: u32 = 1;

/// The provider name that clients store with replies of a proxy.
const NAME: &str = "proxy";

/// Serializes a request to JSON.
///
/// # Errors
/// None in practice: every request can be serialized.
pub fn request_body(request: &Request) -> serde_json::Result<Vec<u8>> {
    let options = &request.options;
    serde_json::to_vec(&WireRequest {
        version: VERSION,
        model: Cow::Borrowed(&request.model),
        system: Cow::Borrowed(&request.system),
        messages: request.messages.iter().filter_map(|message| model_view(message)).collect(),
        tools: request.tools.iter().map(|tool| WireTool::from_definition(tool)).collect(),
        tool_choice: WireChoice::from_choice(&request.tool_choice),
        options: WireOptions {
            max_output_tokens: options.max_output_tokens,
            temperature: options.temperature,
            thinking: options.thinking,
            thinking_budget: options.budget(),
            cache: options.cache,
            session_id: options.session_id.clone(),
        },
    })
}

/// Strips details that are not for the model; `None` when nothing remains.
fn model_view(message: &Message) -> Option<Cow<'_, Message>> {
    match message {
        Message::Extension(_) => None,
        Message::ToolResult(result) if result.details.is_some() => {
            Some(Cow::Owned(Message::ToolResult(ToolResultMessage { details: None, ..result.clone() })))
        }
        message => Some(Cow::Borrowed(message)),
    }
}

/// An invalid request, as a server reports it.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The body is not a request of this protocol.
    #[error("malformed request")]
    Malformed(#[from] serde_json::Error),
    /// The client speaks another version of the protocol.
    #[error("unsupported protocol version {version}, expected {VERSION}")]
    Version {
        /// The client's version.
        version: u32,
    },
}

/// Parses a request body, for servers.
///
/// # Errors
/// The body is malformed, or of another version.
pub fn read_request(body: &[u8]) -> Result<Request, ProxyError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let Versioned { version } = serde_json::from_slice(body)?;
    if version != VERSION {
        return Err(ProxyError::Version { version });
    }
    let wire: WireRequest<'_> = serde_json::from_slice(body)?;
    Ok(Request {
        model: wire.model.into_owned(),
        system: Arc::from(&*wire.system),
        messages: wire.messages.into_iter().map(|message| Arc::new(message.into_owned())).collect(),
        tools: wire.tools.into_iter().map(|tool| Arc::new(tool.into())).collect(),
        tool_choice: wire.tool_choice.into(),
        options: RequestOptions {
            max_output_tokens: wire.options.max_output_tokens,
            temperature: wire.options.temperature,
            thinking: wire.options.thinking,
            thinking_budget: wire.options.thinking_budget,
            cache: wire.options.cache,
            session_id: wire.options.session_id,
            ..RequestOptions::default()
        },
    })
}

/// Prepares a request for the provider that will answer it, for servers. Messages that came through this protocol are
/// attributed to that provider, so that it accepts its own thinking.
#[must_use]
pub fn forwarded(request: Request, provider: &str, model: &str) -> Request {
    let asked = &request.model;
    let own = |message: Arc<Message>| match &*message {
        Message::Assistant(reply) if reply.provider == NAME => {
            let same = |name: String| if name == *asked { model.to_owned() } else { name };
            let requested_model = reply.requested_model.clone().map(same);
            let provider = provider.to_owned();
            Arc::new(Message::Assistant(AssistantMessage { provider, requested_model, ..reply.clone() }))
        }
        _ => message,
    };
    let messages = request.messages.into_iter().map(own).collect();
    Request { model: model.to_owned(), messages, ..request }
}

#[derive(Serialize, Deserialize)]
struct WireRequest<'a> {
    version: u32,
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(borrow, default)]
    system: Cow<'a, str>,
    messages: Vec<Cow<'a, Message>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool>,
    #[serde(default)]
    tool_choice: WireChoice,
    #[serde(default)]
    options: WireOptions,
}

#[derive(Serialize, Deserialize)]
struct WireTool {
    name: String,
    description: String,
    input_schema: Value,
}

impl WireTool {
    fn from_definition(tool: &ToolDefinition) -> Self {
        Self { name: tool.name.clone(), description: tool.description.clone(), input_schema: tool.input_schema.clone() }
    }
}

impl From<WireTool> for ToolDefinition {
    /// A server does not run the tool, so everything but the model's view of it is minimal.
    fn from(tool: WireTool) -> Self {
        Self {
            name: tool.name,
            label: String::new(),
            description: tool.description,
            input_schema: tool.input_schema,
            guidelines: Vec::new(),
            authority: Authority::READ_ONLY,
            execution: Execution::Sequential,
            source: Default::default(),
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireChoice {
    #[default]
    Auto,
    None,
    Any,
    Tool(String),
}

impl WireChoice {
    fn from_choice(choice: &ToolChoice) -> Self {
        match choice {
            ToolChoice::Auto => Self::Auto,
            ToolChoice::None => Self::None,
            ToolChoice::Any => Self::Any,
            ToolChoice::Tool(name) => Self::Tool(name.clone()),
        }
    }
}

impl From<WireChoice> for ToolChoice {
    fn from(choice: WireChoice) -> Self {
        match choice {
            WireChoice::Auto => Self::Auto,
            WireChoice::None => Self::None,
            WireChoice::Any => Self::Any,
            WireChoice::Tool(name) => Self::Tool(name),
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct WireOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    thinking: ThinkingLevel,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
    cache: CachePolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
}
