//! Tool definitions in the form of Chat Completions, which other formats adopted.

use pinion_protocol::ToolDefinition;
use serde::Serialize;
use serde_json::Value;

/// `{"type": "function", "function": {…}}`.
#[derive(Serialize)]
pub(crate) struct FunctionTool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> FunctionTool<'a> {
    pub(crate) fn of(tool: &'a ToolDefinition) -> Self {
        let function = Function { name: &tool.name, description: &tool.description, parameters: &tool.input_schema };
        Self { r#type: "function", function }
    }
}
