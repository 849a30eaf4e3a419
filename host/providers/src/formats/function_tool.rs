//! Tool definitions in the form of Chat Completions, which other formats adopted.

use super::cache_control::CacheControl;
use pinion_protocol::ToolDefinition;
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
