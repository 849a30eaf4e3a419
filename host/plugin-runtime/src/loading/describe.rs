//! Asking a plugin what it offers, when it is loaded.

use crate::bindings::pinion::plugin::types as wit;
use crate::calls::instance::{self, Job, Live, Setup};
use crate::convert;
use crate::errors::fault::{GuestError, PluginFault};
use crate::loading::offer::{Description, OfferedCommand, OfferedTool};
use crate::loading::program::Program;
use crate::shared::Shared;
use std::sync::Arc;

/// Asks a plugin what it offers, on an instance without authority and under the limits of loading. The plugin tests itself
/// first.
pub(crate) async fn describe(shared: &Arc<Shared>, program: &Program) -> Result<Description, PluginFault> {
    let program = program.under(&shared.limits.load);
    let permit = shared.permits.describing().await;
    instance::run_with(permit, shared, &program, Setup::without_authority(&program), Describe).await.result
}

struct Describe;

impl Job for Describe {
    type Answer = Description;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Description> {
        let exported = live.exported();
        if let Some(lifecycle) = &exported.lifecycle {
            let (passed,) = live.call::<_, (Result<(), String>,)>(&lifecycle.self_test, ()).await?;
            passed.map_err(GuestError::SelfTest)?;
        }
        let mut description = Description::default();
        if let Some(tools) = &exported.tools {
            let (listed,) = live.call::<_, (Result<Vec<_>, String>,)>(&tools.list_tools, ()).await?;
            description.tools = listed.map_err(GuestError::List)?.into_iter().map(tool).collect();
        }
        if let Some(commands) = &exported.commands {
            let (listed,) = live.call::<_, (Result<Vec<_>, String>,)>(&commands.list_commands, ()).await?;
            description.commands = listed.map_err(GuestError::List)?.into_iter().map(command).collect();
        }
        Ok(description)
    }
}

fn tool(tool: wit::ToolDefinition) -> OfferedTool {
    OfferedTool {
        name: tool.name,
        label: tool.label,
        description: tool.description,
        input_schema: tool.input_schema,
        guidelines: tool.guidelines,
        effects: convert::authority(tool.effects),
        is_sequential: matches!(tool.execution, wit::Execution::Sequential),
    }
}

fn command(command: wit::CommandDefinition) -> OfferedCommand {
    OfferedCommand { name: command.name, description: command.description, argument_hint: command.argument_hint }
}
