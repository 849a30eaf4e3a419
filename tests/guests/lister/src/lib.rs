//! Offers the tools and commands in its config, valid or not.

use pinion_plugin_sdk::bindings::commands::exports::pinion::plugin::commands as wit_commands;
use pinion_plugin_sdk::bindings::imports::pinion::plugin::types;
use pinion_plugin_sdk::bindings::tools::exports::pinion::plugin::tools as wit_tools;
use pinion_plugin_sdk::prelude::*;

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

    fn call_tool(_: types::CallContext, _: String, _: String) -> Result<types::ToolOutput, types::ToolError> {
        Err(Error::Cancelled.into())
    }
}

impl wit_commands::Guest for Lists {
    fn list_commands() -> Result<Vec<types::CommandDefinition>, String> {
        let command = |command: Listed| types::CommandDefinition {
            name: command.name,
            description: command.description,
            argument_hint: Some(command.label),
            extra: None,
        };
        Ok(settings().commands.into_iter().map(command).collect())
    }

    fn complete_argument(_: String, _: String) -> Vec<wit_commands::Completion> {
        Vec::new()
    }

    fn run_command(_: types::CallContext, _: String, _: String) -> Result<Vec<wit_commands::Action>, String> {
        Ok(Vec::new())
    }
}

#[cfg(target_arch = "wasm32")]
pinion_plugin_sdk::bindings::tools::__export_tools!(Lists with_types_in pinion_plugin_sdk::bindings::tools);
#[cfg(target_arch = "wasm32")]
pinion_plugin_sdk::bindings::commands::__export_commands!(Lists with_types_in pinion_plugin_sdk::bindings::commands);
export!(Lister, exports = [lifecycle]);
