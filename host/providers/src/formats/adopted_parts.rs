//! Parts of one vendor's format that other formats adopted: tool definitions in the form of Chat Completions, and
//! Anthropic's mark of a cache breakpoint, which routers take.

use pinion_protocol::{CachePolicy, ToolDefinition};
use serde::Serialize;
use serde_json::Value;

/// `{"type": "function", "function": {…}}`.
#[derive(Serialize)]
pub(crate) struct FunctionTool<'a> {
    r#type: &'static str,
    function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> FunctionTool<'a> {
    pub(crate) fn from_definition(tool: &'a ToolDefinition) -> Self {
        let function = Function { name: &tool.name, description: &tool.description, parameters: &tool.input_schema };
        Self { r#type: "function", function, cache_control: None }
    }
}

/// A cache breakpoint on a block.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct CacheControl {
    r#type: &'static str,
}

/// A breakpoint with the vendor's default lifetime.
pub(crate) const EPHEMERAL: CacheControl = CacheControl { r#type: "ephemeral" };

/// The cache breakpoints to set, of the four that the vendor allows.
#[derive(Clone, Copy)]
pub(crate) struct CacheBreakpoints {
    pub(crate) system: bool,
    pub(crate) tools: bool,
    pub(crate) messages: bool,
}

impl CacheBreakpoints {
    pub(crate) const NONE: Self = Self { system: false, tools: false, messages: false };

    pub(crate) fn for_policy(policy: CachePolicy) -> Self {
        match policy {
            CachePolicy::Auto => Self { system: true, tools: true, messages: true },
            CachePolicy::Off => Self::NONE,
            CachePolicy::Manual { system, tools, messages } => Self { system, tools, messages },
        }
    }
}
