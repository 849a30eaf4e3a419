//! Adapts [`Plugin`] and [`State`] to the generated export traits of the contract.

use crate::bindings::after_tool_call::exports::pinion::plugin::after_tool_call as wit_after_tool_call;
use crate::bindings::before_compaction::exports::pinion::plugin::before_compaction as wit_before_compaction;
use crate::bindings::before_prompt::exports::pinion::plugin::before_prompt as wit_before_prompt;
use crate::bindings::before_tool_call::exports::pinion::plugin::before_tool_call as wit_before_tool_call;
use crate::bindings::commands::exports::pinion::plugin::commands as wit_commands;
use crate::bindings::imports::pinion::plugin::types::{
    CallContext, CommandDefinition, ToolDefinition, ToolError, ToolOutput,
};
use crate::bindings::lifecycle::exports::pinion::plugin::lifecycle as wit_lifecycle;
use crate::bindings::offers::exports::pinion::plugin::offers as wit_offers;
use crate::bindings::session_events::exports::pinion::plugin::session_events as wit_session_events;
use crate::bindings::state::exports::pinion::plugin::state as wit_state;
use crate::bindings::tools::exports::pinion::plugin::tools as wit_tools;
use crate::hooks::{
    AfterToolCall, BeforeCompaction, BeforePrompt, BeforeToolCall, Compaction, PromptVerdict, SessionEvents, ToolCall,
    Verdict,
};
use crate::{Call, Error, Offer, Plugin, State, config};
use std::marker::PhantomData;

/// Implements the contract's exports for a plugin type. Used only by [`crate::export!`].
pub struct Adapter<P>(PhantomData<P>);

/// Makes relative paths begin at the workspace. Nothing to do where the call may not use it.
fn enter(workspace: &str) {
    #[cfg(target_arch = "wasm32")]
    let _ = std::env::set_current_dir(workspace);
    // Native tests stay where they are.
    #[cfg(not(target_arch = "wasm32"))]
    let _ = workspace;
}

impl<P: Plugin> wit_tools::Guest for Adapter<P> {
    fn list_tools() -> Result<Vec<ToolDefinition>, String> {
        Ok(P::tools().iter().map(|tool| tool.definition()).collect())
    }

    fn call_tool(context: CallContext, name: String, input: String) -> Result<ToolOutput, ToolError> {
        let workspace = context.workspace.clone();
        let call = Call::new(context);
        let tool = P::tool(&name, &call);
        let tool = tool.ok_or_else(|| Error::NotFound(format!("no tool `{name}` in this plugin")))?;
        if tool.uses_files() {
            enter(&workspace);
        }
        tool.run(&input, &call)?.into_result()
    }
}

impl<P: Plugin> wit_commands::Guest for Adapter<P> {
    fn list_commands() -> Result<Vec<CommandDefinition>, String> {
        Ok(P::commands().iter().map(|command| command.definition()).collect())
    }

    fn complete_argument(name: String, typed: String) -> Vec<wit_commands::Completion> {
        let commands = P::commands();
        let command = commands.iter().find(|command| command.name == name);
        command.map(|command| command.completions(&typed)).unwrap_or_default()
    }

    fn run_command(context: CallContext, name: String, input: String) -> Result<Vec<wit_commands::Action>, String> {
        let commands = P::commands();
        let command = commands.iter().find(|command| command.name == name);
        let command = command.ok_or_else(|| format!("no command `/{name}` in this plugin"))?;
        enter(&context.workspace);
        command.run(&input, &Call::new(context))
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

impl<P: Plugin> wit_offers::Guest for Adapter<P> {
    fn list() -> Result<wit_offers::Offer, String> {
        let Offer { tools, commands, instructions } = P::offer()?;
        Ok(wit_offers::Offer {
            tools: tools.iter().map(|tool| tool.definition()).collect(),
            commands: commands.iter().map(|command| command.definition()).collect(),
            instructions,
        })
    }
}

impl<P: BeforeToolCall> wit_before_tool_call::Guest for Adapter<P> {
    fn check(context: CallContext, call: ToolCall) -> Verdict {
        enter(&context.workspace);
        P::check(&Call::new(context), call)
    }
}

impl<P: AfterToolCall> wit_after_tool_call::Guest for Adapter<P> {
    fn revise(
        context: CallContext,
        call: ToolCall,
        outcome: Result<ToolOutput, ToolError>,
    ) -> Option<Result<ToolOutput, ToolError>> {
        enter(&context.workspace);
        P::revise(&Call::new(context), call, outcome)
    }
}

impl<P: BeforePrompt> wit_before_prompt::Guest for Adapter<P> {
    fn check(context: CallContext, prompt: String) -> PromptVerdict {
        enter(&context.workspace);
        P::check(&Call::new(context), prompt)
    }
}

impl<P: BeforeCompaction> wit_before_compaction::Guest for Adapter<P> {
    fn instructions(context: CallContext, compaction: Compaction) -> Option<String> {
        enter(&context.workspace);
        P::instructions(&Call::new(context), compaction)
    }
}

impl<P: SessionEvents> wit_session_events::Guest for Adapter<P> {
    fn on_events(events: Vec<String>) {
        P::on_events(events);
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
