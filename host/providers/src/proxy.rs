//! The proxy protocol: another machine asks the models, and hands their replies on as they come.
//!
//! A request is one JSON object, posted to `/v1/stream` with a bearer token; the reply comes as server-sent events, each
//! the smallest step that the loop knows: a part begins, grows, ends. Nothing is ever sent twice, and the message as it
//! stands is not sent at all: the client puts it together again from the steps. Both ends of the protocol are here, so
//! that they cannot drift apart; [`examples/proxy-server`] is a server in a few dozen lines.
//!
//! ```json
//! {"version":1,"model":"anthropic/claude-opus-5-5","system":"…","messages":[…],"tools":[…],"options":{"thinking":"high"}}
//! ```
//! ```text
//! data: {"type":"start","model":"claude-opus-5-5"}
//! data: {"type":"part","index":0,"kind":"text"}
//! data: {"type":"delta","index":0,"text":"Hello"}
//! data: {"type":"part_end","index":0}
//! data: {"type":"usage","input":12,"output":3,"cache_read":0,"cache_write":0}
//! data: {"type":"end","stop_reason":"stop"}
//! ```
//! An error in mid-reply is an event too: `{"type":"error","kind":"overloaded","message":"…","retry_after_ms":2000}`.
//!
//! [`examples/proxy-server`]: https://github.com/pinion-agent/pinion/tree/main/examples/proxy-server

use crate::parts::Parts;
use crate::sse::SseParser;
use crate::wire::{self, broke_off, parse};
use pinion_protocol::{
    AssistantMessage, Authority, CachePolicy, Execution, Message, PartKind, ProviderError, Request, RequestOptions,
    StopReason, StreamEvent, ThinkingLevel, ToolChoice, ToolDefinition, ToolResultMessage, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// The version of the protocol.
pub const VERSION: u32 = 1;

/// The name under which clients keep what a proxy answered.
const NAME: &str = "proxy";

/// The body of a request, as JSON.
///
/// # Errors
/// None in practice: everything in a request can be written as JSON.
pub fn request_body(request: &Request) -> serde_json::Result<Vec<u8>> {
    let options = &request.options;
    serde_json::to_vec(&WireRequest {
        version: VERSION,
        model: Cow::Borrowed(&request.model),
        system: Cow::Borrowed(&request.system),
        messages: request.messages.iter().filter_map(|message| for_model(message)).collect(),
        tools: request.tools.iter().map(|tool| WireTool::of(tool)).collect(),
        tool_choice: WireChoice::of(&request.tool_choice),
        options: WireOptions {
            max_output_tokens: options.max_output_tokens,
            temperature: options.temperature,
            thinking: options.thinking,
            thinking_budget: options.thinking_budget,
            cache: WireCache::of(options.cache),
            session_id: options.session_id.clone(),
        },
    })
}

/// A message without what no model is to see.
fn for_model(message: &Message) -> Option<Cow<'_, Message>> {
    match message {
        Message::Extension(_) => None,
        Message::ToolResult(result) if result.details.is_some() => {
            Some(Cow::Owned(Message::ToolResult(ToolResultMessage { details: None, ..result.clone() })))
        }
        message => Some(Cow::Borrowed(message)),
    }
}

/// A request could not be read by a server.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// It is not JSON of the protocol's form.
    #[error("malformed request")]
    Malformed(#[from] serde_json::Error),
    /// It is of another version.
    #[error("version {version} of the protocol is asked for, and {VERSION} is spoken here")]
    Version {
        /// The version asked for.
        version: u32,
    },
}

/// For servers: the request in a body.
///
/// # Errors
/// It is malformed, or of another version.
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
            cache: wire.options.cache.into(),
            api_key: None,
            session_id: wire.options.session_id,
        },
    })
}

/// For servers: the same request for the provider that will answer it. What a model said by way of this protocol is said
/// to be that provider's, so that its thinking goes back to it.
#[must_use]
pub fn forwarded(request: Request, provider: &str, model: &str) -> Request {
    let own = |message: Arc<Message>| match &*message {
        Message::Assistant(reply) if reply.provider == NAME => {
            Arc::new(Message::Assistant(AssistantMessage { provider: provider.to_owned(), ..reply.clone() }))
        }
        _ => message,
    };
    let messages = request.messages.into_iter().map(own).collect();
    Request { model: model.to_owned(), messages, ..request }
}

/// For servers: one step of a reply, as it is sent.
pub fn write_event(event: &Result<StreamEvent, ProviderError>) -> Vec<u8> {
    let wire = match event {
        Ok(event) => WireEvent::of(event),
        Err(error) => WireEvent::Error(WireError::of(error)),
    };
    // It holds nothing that JSON cannot.
    let mut bytes = b"data: ".to_vec();
    if serde_json::to_writer(&mut bytes, &wire).is_err() {
        return Vec::new();
    }
    bytes.extend_from_slice(b"\n\n");
    bytes
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
    fn of(tool: &ToolDefinition) -> Self {
        Self { name: tool.name.clone(), description: tool.description.clone(), input_schema: tool.input_schema.clone() }
    }
}

impl From<WireTool> for ToolDefinition {
    /// A server runs no tools, so what it would need for that is as little as can be.
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
    fn of(choice: &ToolChoice) -> Self {
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
    cache: WireCache,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireCache {
    #[default]
    Auto,
    Off,
    Manual {
        system: bool,
        tools: bool,
        messages: bool,
    },
}

impl WireCache {
    fn of(policy: CachePolicy) -> Self {
        match policy {
            CachePolicy::Auto => Self::Auto,
            CachePolicy::Off => Self::Off,
            CachePolicy::Manual { system, tools, messages } => Self::Manual { system, tools, messages },
        }
    }
}

impl From<WireCache> for CachePolicy {
    fn from(cache: WireCache) -> Self {
        match cache {
            WireCache::Auto => Self::Auto,
            WireCache::Off => Self::Off,
            WireCache::Manual { system, tools, messages } => Self::Manual { system, tools, messages },
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireEvent<'a> {
    Start {
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        model: Option<Cow<'a, str>>,
    },
    Part {
        index: usize,
        #[serde(flatten)]
        part: PartKind,
    },
    Delta {
        index: usize,
        #[serde(borrow)]
        text: Cow<'a, str>,
    },
    PartEnd {
        index: usize,
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        signature: Option<Cow<'a, str>>,
    },
    Usage(Usage),
    End {
        stop_reason: StopReason,
    },
    Error(WireError),
    /// What a newer server may say.
    #[serde(other)]
    Unknown,
}

impl<'a> WireEvent<'a> {
    fn of(event: &'a StreamEvent) -> Self {
        match event {
            StreamEvent::Start { model } => Self::Start { model: model.as_deref().map(Cow::Borrowed) },
            StreamEvent::PartStart { index, part } => Self::Part { index: *index, part: part.clone() },
            StreamEvent::Delta { index, delta } => Self::Delta { index: *index, text: Cow::Borrowed(delta) },
            StreamEvent::PartEnd { index, signature } => {
                Self::PartEnd { index: *index, signature: signature.as_deref().map(Cow::Borrowed) }
            }
            StreamEvent::Usage(usage) => Self::Usage(*usage),
            StreamEvent::End { stop_reason } => Self::End { stop_reason: *stop_reason },
        }
    }
}

#[derive(Serialize, Deserialize)]
struct WireError {
    kind: ErrorKind,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ErrorKind {
    Api,
    Auth,
    RateLimited,
    Overloaded,
    Network,
    ContextOverflow,
    Malformed,
    Cancelled,
    /// What a newer server may say.
    #[serde(other)]
    Other,
}

impl WireError {
    fn of(error: &ProviderError) -> Self {
        let (kind, message, status) = match error {
            ProviderError::Api { status, message } => (ErrorKind::Api, message.clone(), *status),
            ProviderError::Auth { message } => (ErrorKind::Auth, message.clone(), None),
            ProviderError::RateLimited { message, .. } => (ErrorKind::RateLimited, message.clone(), None),
            ProviderError::Overloaded { message, .. } => (ErrorKind::Overloaded, message.clone(), None),
            ProviderError::Network { message } => (ErrorKind::Network, message.clone(), None),
            ProviderError::ContextOverflow { message } => (ErrorKind::ContextOverflow, message.clone(), None),
            ProviderError::Malformed { message } => (ErrorKind::Malformed, message.clone(), None),
            ProviderError::Cancelled => (ErrorKind::Cancelled, "cancelled".to_owned(), None),
        };
        let retry_after_ms = error.retry_after().map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
        Self { kind, message, status, retry_after_ms }
    }

    /// What the proxy was told is what this side is told. Only a request that the proxy's side cancelled is none that
    /// this side did.
    fn into_error(self) -> ProviderError {
        let Self { kind, message, status, retry_after_ms } = self;
        let retry_after = retry_after_ms.map(|ms| Duration::from_millis(ms.min(86_400_000)));
        match kind {
            ErrorKind::Api | ErrorKind::Other => ProviderError::Api { status, message },
            ErrorKind::Auth => ProviderError::Auth { message },
            ErrorKind::RateLimited => ProviderError::RateLimited { message, retry_after },
            ErrorKind::Overloaded => ProviderError::Overloaded { message, retry_after },
            ErrorKind::Network => ProviderError::Network { message },
            ErrorKind::ContextOverflow => ProviderError::ContextOverflow { message },
            ErrorKind::Malformed => ProviderError::Malformed { message },
            ErrorKind::Cancelled => ProviderError::Network { message: "the proxy gave the request up".to_owned() },
        }
    }
}

/// Decodes the stream of one reply.
#[derive(Debug)]
pub struct Decoder {
    sse: SseParser,
    parts: Parts<usize>,
}

impl Decoder {
    /// A decoder at the start of a reply. Calls that come without an id get one that begins with `id_seed`.
    pub fn new(id_seed: impl Into<String>) -> Self {
        Self { sse: SseParser::default(), parts: Parts::new(id_seed.into()) }
    }
}

impl wire::Decoder for Decoder {
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let Self { sse, parts } = self;
        let fed = sse.feed(bytes, |data| step(parts, data, events));
        wire::settled(parts.ended(), fed)
    }

    fn finish(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let rest = self.sse.take_rest();
        if serde_json::from_slice::<&RawValue>(&rest).is_ok() {
            step(&mut self.parts, &rest, events)?;
        }
        if self.parts.ended() { Ok(()) } else { Err(broke_off()) }
    }
}

fn step(parts: &mut Parts<usize>, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
    if parts.ended() {
        return Ok(());
    }
    match parse::<WireEvent<'_>>(data)? {
        WireEvent::Start { model } => parts.start(model.as_deref(), events),
        WireEvent::Part { index, .. } if parts.was_begun(&index) => {
            return Err(ProviderError::Malformed { message: format!("part {index} begins twice") });
        }
        WireEvent::Part { index, part } => parts.begin(index, part, events)?,
        WireEvent::Delta { index, text } => parts.add(&index, &text, events),
        WireEvent::PartEnd { index, signature } => {
            parts.sign(&index, signature.as_deref().unwrap_or_default())?;
            parts.end_part(&index, events);
        }
        WireEvent::Usage(usage) => parts.usage(usage, events),
        WireEvent::End { stop_reason } => parts.end(stop_reason, events),
        WireEvent::Error(error) => return Err(error.into_error()),
        WireEvent::Unknown => {}
    }
    Ok(())
}
