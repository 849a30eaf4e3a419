//! Asking a plugin for its offer: when it is loaded, and while it runs.

use crate::bindings::exports::pinion::plugin::offers::Offer;
use crate::bindings::pinion::plugin::types as wit;
use crate::calls::instance::{self, InstanceJob, Live, Setup};
use crate::capability::table::Asks;
use crate::convert;
use crate::loading::instance_template::InstanceTemplate;
use crate::manifest::Inspection;
use crate::plain::asks::possible_effects;
use crate::runtime_shared::Shared;
use futures_util::FutureExt as _;
use pinion_plugin_functions::documentation::FunctionTexts;
use pinion_plugin_limits::{GuestError, PluginFault};
use pinion_plugin_offers::extra_members;
use pinion_plugin_offers::offer::{Description, OfferedCommand, OfferedTool};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// Remarks about the `extra` of all tools, and of all commands.
const MAX_REMARKS: usize = 32;

/// Asks a plugin for its offer, on an instance without authority and under the limits of loading. The plugin tests
/// itself first.
pub(crate) async fn describe(
    shared: &Arc<Shared>,
    program: &InstanceTemplate,
    inspection: &Inspection,
) -> Result<Description, PluginFault> {
    let program = program.under(&shared.limits.load);
    let permit = shared.permits.describing().await;
    let (texts, asks) = (inspection.documentation.clone(), inspection.manifest.capabilities.clone());
    let job = Describe { texts, asks };
    instance::run_with(permit, shared, &program, Setup::without_authority(&program), job).await.result
}

struct Describe {
    /// Doc comments of plain functions.
    texts: FunctionTexts,
    asks: Asks,
}

impl InstanceJob for Describe {
    type Answer = Description;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Description> {
        let exported = live.exported();
        if let Some(lifecycle) = &exported.lifecycle {
            let (passed,) = live.call::<_, (Result<(), String>,)>(&lifecycle.self_test, ()).await?;
            passed.map_err(GuestError::SelfTest)?;
        }
        if let Some(functions) = live.functions() {
            return Ok(functions.description(&self.texts, possible_effects(&self.asks)).map_err(GuestError::List)?);
        }
        let mut description = Description::default();
        if let Some(tools) = &exported.tools {
            let (listed,) = live.call::<_, (Result<Vec<_>, String>,)>(&tools.list_tools, ()).await?;
            let listed: Vec<wit::ToolDefinition> = listed.map_err(GuestError::List)?;
            let remarks = |tool: &wit::ToolDefinition| {
                extra_members::remarks(&format!("tool `{}`", tool.name), tool.extra.as_deref(), extra_members::TOOL)
            };
            description.remarks.extend(listed.iter().flat_map(remarks).take(MAX_REMARKS));
            description.tools = listed.into_iter().map(tool).collect();
        }
        if let Some(commands) = &exported.commands {
            let (listed,) = live.call::<_, (Result<Vec<_>, String>,)>(&commands.list_commands, ()).await?;
            let listed: Vec<wit::CommandDefinition> = listed.map_err(GuestError::List)?;
            let remarks = |command: &wit::CommandDefinition| {
                let (owner, extra) = (format!("command `/{}`", command.name), command.extra.as_deref());
                extra_members::remarks(&owner, extra, extra_members::COMMAND)
            };
            description.remarks.extend(listed.iter().flat_map(remarks).take(MAX_REMARKS));
            description.commands = listed.into_iter().map(command).collect();
        }
        Ok(description)
    }
}

/// Asks an instance for its plugin's current offer. The inner error is the plugin's own message.
pub(crate) struct ListOffer;

impl InstanceJob for ListOffer {
    type Answer = Result<Description, String>;

    const LISTS_OFFER: bool = true;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        // The answer covers all signs of a change so far.
        let _ = live.state().changed.clone().notified().now_or_never();
        let offers = live.exported().offers.ok_or(GuestError::NotExported("offers"))?;
        let (listed,) = live.call::<_, (Result<Offer, String>,)>(&offers.list, ()).await?;
        Ok(listed.map(|offer| Description {
            tools: offer.tools.into_iter().map(tool).collect(),
            commands: offer.commands.into_iter().map(command).collect(),
            instructions: offer.instructions,
            ..Description::default()
        }))
    }
}

/// The members of a tool's `extra` that the host knows.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct ToolExtra {
    bound_to: Option<String>,
    approved_by: Vec<String>,
    route: Option<Value>,
    resource: Option<Value>,
    task: Option<Value>,
}

fn tool(tool: wit::ToolDefinition) -> OfferedTool {
    // Members of other types belong to hosts that know these.
    let extra = tool.extra.and_then(|json| serde_json::from_str::<ToolExtra>(&json).ok()).unwrap_or_default();
    OfferedTool {
        name: tool.name,
        label: tool.label,
        description: tool.description,
        input_schema: tool.input_schema,
        guidelines: tool.guidelines,
        effects: convert::authority(tool.effects),
        is_sequential: matches!(tool.execution, wit::Execution::Sequential),
        bound_to: extra.bound_to,
        approved_by: extra.approved_by,
        route: extra.route.map(|route| route.to_string()),
        resource: extra.resource.map(|resource| resource.to_string()),
        task: extra.task.map(|task| task.to_string()),
    }
}

/// The members of a command's `extra` that the host knows.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct CommandExtra {
    action: Option<String>,
    bare_action: Option<String>,
}

fn command(command: wit::CommandDefinition) -> OfferedCommand {
    let extra = command.extra.and_then(|json| serde_json::from_str::<CommandExtra>(&json).ok()).unwrap_or_default();
    OfferedCommand {
        name: command.name,
        description: command.description,
        argument_hint: command.argument_hint,
        action: extra.action,
        bare_action: extra.bare_action,
    }
}
