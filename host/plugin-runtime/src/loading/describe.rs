//! Asking a plugin what it offers, when it is loaded.

use crate::bindings::exports::pinion::plugin::{commands as wit_commands, tools as wit_tools};
use crate::calls::instance::{self, Job, Live, Setup};
use crate::errors::fault::{GuestError, PluginFault};
use crate::loading::program::Program;
use crate::shared::Shared;
use std::sync::Arc;

/// The tools and commands of a plugin, as it lists them.
pub(crate) struct Description {
    pub(crate) tools: Vec<wit_tools::ToolDefinition>,
    pub(crate) commands: Vec<wit_commands::CommandDefinition>,
}

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
        let mut description = Description { tools: Vec::new(), commands: Vec::new() };
        if let Some(tools) = &exported.tools {
            let (listed,) = live.call::<_, (Result<Vec<_>, String>,)>(&tools.list_tools, ()).await?;
            description.tools = listed.map_err(GuestError::List)?;
        }
        if let Some(commands) = &exported.commands {
            let (listed,) = live.call::<_, (Result<Vec<_>, String>,)>(&commands.list_commands, ()).await?;
            description.commands = listed.map_err(GuestError::List)?;
        }
        Ok(description)
    }
}
