//! Offers the tools and commands in its config, valid or not. The tool `repeat` returns its input; the tool `give` returns
//! the result or error that its input describes.

use pinion_plugin_sdk::bindings::commands::exports::pinion::plugin::commands as wit_commands;
use pinion_plugin_sdk::bindings::imports::pinion::plugin::types;
use pinion_plugin_sdk::bindings::tools::exports::pinion::plugin::tools as wit_tools;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    tools: Vec<Listed>,
    commands: Vec<Listed>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Listed {
    name: String,
    label: String,
    description: String,
    schema: String,
    guidelines: Vec<String>,
    /// JSON for the definition of a command.
    extra: Option<String>,
    /// The name and the argument of the action that the command returns.
    action: Option<(String, Option<String>)>,
}

/// A result or error.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Given {
    parts: Vec<Part>,
    details: Option<String>,
    display: Option<(String, String)>,
    extra: Option<String>,
    /// Kind and message.
    error: Option<(u8, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    Text(String),
    Other(String),
    /// Media type and data.
    Image(String, Vec<u8>),
}

fn output(given: Given) -> types::ToolOutput {
    let part = |part: Part| match part {
        Part::Text(text) => types::Content::Text(text),
        Part::Other(text) => types::Content::Other(text),
        Part::Image(media_type, data) => types::Content::Image(types::Image { media_type, data }),
    };
    let display = match given.display {
        None => types::Display::Plain,
        Some((kind, text)) => match kind.as_str() {
            "code" => types::Display::Code(text),
            "diff" => types::Display::Diff,
            "markdown" => types::Display::Markdown,
            _ => types::Display::Other(text),
        },
    };
    let content = given.parts.into_iter().map(part).collect();
    types::ToolOutput { content, details: given.details, display, extra: given.extra }
}

fn give(mut given: Given) -> Result<types::ToolOutput, types::ToolError> {
    let Some((kind, message)) = given.error.take() else { return Ok(output(given)) };
    let kind = match kind % 5 {
        0 => types::ErrorKind::InvalidInput,
        1 => types::ErrorKind::NotFound,
        2 => types::ErrorKind::Denied,
        3 => types::ErrorKind::Cancelled,
        _ => types::ErrorKind::Failed,
    };
    let types::ToolOutput { content, details, display, extra } = output(given);
    Err(types::ToolError { kind, message, retryable: true, content, details, display, extra })
}

struct Lister;

impl Plugin for Lister {}

fn settings() -> Config {
    config().unwrap_or_default()
}

struct Lists;

impl wit_tools::Guest for Lists {
    fn list_tools() -> Result<Vec<types::ToolDefinition>, String> {
        let tool = |tool: Listed| types::ToolDefinition {
            name: tool.name,
            label: tool.label,
            description: tool.description,
            input_schema: tool.schema,
            guidelines: tool.guidelines,
            effects: types::Effects::empty(),
            execution: types::Execution::Parallel,
            extra: None,
        };
        Ok(settings().tools.into_iter().map(tool).collect())
    }

    fn call_tool(_: types::CallContext, name: String, input: String) -> Result<types::ToolOutput, types::ToolError> {
        match name.as_str() {
            "repeat" => Ok(output(Given { parts: vec![Part::Text(input)], ..Given::default() })),
            "give" => give(serde_json::from_str(&input).map_err(|error| Error::failed(error.to_string()))?),
            _ => Err(Error::Cancelled.into()),
        }
    }
}

impl wit_commands::Guest for Lists {
    fn list_commands() -> Result<Vec<types::CommandDefinition>, String> {
        let command = |command: Listed| types::CommandDefinition {
            name: command.name,
            description: command.description,
            argument_hint: Some(command.label),
            extra: command.extra,
        };
        Ok(settings().commands.into_iter().map(command).collect())
    }

    fn complete_argument(_: String, _: String) -> Vec<wit_commands::Completion> {
        Vec::new()
    }

    fn run_command(_: types::CallContext, name: String, _: String) -> Result<Vec<wit_commands::Action>, String> {
        let action =
            settings().commands.into_iter().find(|command| command.name == name).and_then(|found| found.action);
        let other = |(name, argument)| wit_commands::Action::Other(wit_commands::OtherAction { name, argument });
        Ok(action.map(other).into_iter().collect())
    }
}

#[cfg(target_arch = "wasm32")]
pinion_plugin_sdk::bindings::tools::__export_tools!(Lists with_types_in pinion_plugin_sdk::bindings::tools);
#[cfg(target_arch = "wasm32")]
pinion_plugin_sdk::bindings::commands::__export_commands!(Lists with_types_in pinion_plugin_sdk::bindings::commands);
export!(Lister, exports = [lifecycle]);
