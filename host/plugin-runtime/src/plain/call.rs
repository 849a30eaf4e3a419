//! A call of a plain function.

use crate::bindings::pinion::plugin::types as wit;
use crate::calls::instance::Live;
use pinion_plugin_functions::arguments::arguments;
use pinion_plugin_functions::functions::{PlainFunction, PlainFunctions};
use pinion_plugin_functions::results::to_json;
use serde_json::Value;
use wasmtime::component::Val;
use wasmtime::component::types::Type;

/// Bytes of the largest result that is also kept as `details`.
const MAX_DETAILS: usize = 64 * 1024;

/// The answer of a tool.
type ToolAnswer = Result<wit::ToolOutput, wit::ToolError>;

/// Calls the function of a tool with JSON arguments. The error of a `result` is the tool's error.
pub(crate) async fn call(
    live: &mut Live<'_>,
    functions: &PlainFunctions,
    tool: &str,
    input: &str,
) -> wasmtime::Result<ToolAnswer> {
    let Some(function) = functions.by_tool(tool) else {
        return Ok(Err(tool_error(wit::ErrorKind::NotFound, format!("the component has no function for `{tool}`"))));
    };
    let parsed = serde_json::from_str(input).map_err(|error| format!("the arguments are not JSON: {error}"));
    let values = match parsed.and_then(|input| arguments(&function.parameters, &input)) {
        Ok(values) => values,
        Err(problem) => return Ok(Err(tool_error(wit::ErrorKind::InvalidInput, problem))),
    };
    let result = live.call_values(function, &values).await?;
    Ok(answer(function, result.as_ref()))
}

fn answer(function: &PlainFunction, result: Option<&Val>) -> ToolAnswer {
    let json =
        |value: Option<&Val>, ty: Option<&Type>| value.zip(ty).map_or(Value::Null, |(value, ty)| to_json(value, ty));
    match (result, &function.result) {
        (Some(Val::Result(Ok(value))), Some(Type::Result(ty))) => Ok(output(&json(value.as_deref(), ty.ok().as_ref()))),
        (Some(Val::Result(Err(value))), Some(Type::Result(ty))) => {
            let message = match json(value.as_deref(), ty.err().as_ref()) {
                Value::Null => "the function failed without a message".to_owned(),
                Value::String(message) => message,
                other => other.to_string(),
            };
            Err(tool_error(wit::ErrorKind::Failed, message))
        }
        (value, ty) => Ok(output(&json(value, ty.as_ref()))),
    }
}

/// The result for the model: a string as it is, everything else as JSON, which is also the `details`.
fn output(value: &Value) -> wit::ToolOutput {
    let (text, details, display) = match value {
        Value::String(text) => (text.clone(), None, wit::Display::Plain),
        _ => {
            let json = value.to_string();
            let details = (json.len() <= MAX_DETAILS).then(|| json.clone());
            (json, details, wit::Display::Code("json".to_owned()))
        }
    };
    wit::ToolOutput { content: vec![wit::Content::Text(text)], details, display, extra: None }
}

fn tool_error(kind: wit::ErrorKind, message: String) -> wit::ToolError {
    let (content, details, display) = (Vec::new(), None, wit::Display::Plain);
    wit::ToolError { kind, message, retryable: false, content, details, display, extra: None }
}
