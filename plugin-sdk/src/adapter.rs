//! Adapts [`Plugin`] and [`State`] to the generated export traits of the contract.

use crate::bindings::commands::exports::pinion::plugin::commands as wit_commands;
use crate::bindings::imports::pinion::plugin::types::{CallContext, ToolError, ToolOutput};
use crate::bindings::lifecycle::exports::pinion::plugin::lifecycle as wit_lifecycle;
use crate::bindings::state::exports::pinion::plugin::state as wit_state;
use crate::bindings::tools::exports::pinion::plugin::tools as wit_tools;
use crate::{Call, Plugin, State, config};
use std::marker::PhantomData;

/// Implements the contract's exports for a plugin type. Used only by [`crate::export!`].
pub struct Adapter<P>(PhantomData<P>);

impl<P: Plugin> wit_tools::Guest for Adapter<P> {
    fn list_tools() -> Result<Vec<wit_tools::ToolDefinition>, String> {
        Ok(P::tools().iter().map(|tool| tool.definition()).collect())
    }

    fn call_tool(context: CallContext, name: String, arguments: String) -> Result<ToolOutput, ToolError> {
        let tools = P::tools();
        let tool = tools.iter().find(|tool| tool.name == name);
        let tool = tool.ok_or_else(|| ToolError::NotFound(format!("no tool `{name}` in this plugin")))?;
        Ok(tool.run(&arguments, &Call::new(context))?.into())
    }
}

impl<P: Plugin> wit_commands::Guest for Adapter<P> {
    fn list_commands() -> Result<Vec<wit_commands::CommandDefinition>, String> {
        Ok(P::commands().iter().map(|command| command.definition()).collect())
    }

    fn complete_argument(name: String, typed: String) -> Vec<wit_commands::Completion> {
        let commands = P::commands();
        let command = commands.iter().find(|command| command.name == name);
        command.map(|command| command.completions(&typed)).unwrap_or_default()
    }

    fn run_command(context: CallContext, name: String, arguments: String) -> Result<Vec<wit_commands::Effect>, String> {
        let commands = P::commands();
        let command = commands.iter().find(|command| command.name == name);
        let command = command.ok_or_else(|| format!("no command `/{name}` in this plugin"))?;
        command.run(&arguments, &Call::new(context))
    }
}

impl<P: Plugin> wit_lifecycle::Guest for Adapter<P> {
    fn init(json: String) -> Result<(), String> {
        config::store(json);
        P::init()
    }

    fn self_test() -> Result<(), String> {
        P::self_test()
    }
}

impl<P: State> wit_state::Guest for Adapter<P> {
    fn save_state() -> Vec<u8> {
        P::save()
    }

    fn restore_state(saved: Vec<u8>, from_version: String) -> Result<(), String> {
        P::restore(saved, &from_version)
    }
}
