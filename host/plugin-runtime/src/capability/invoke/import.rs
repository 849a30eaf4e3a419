//! The import `invoke`. The loop that made the call makes the calls.

use super::Invoke;
use crate::bindings::pinion::plugin::invoke::{self, Callable};
use crate::bindings::pinion::plugin::types::{Display, ErrorKind, ToolError, ToolOutput};
use crate::calls::state::State;
use crate::convert;
use pinion_plugin_journal::linker::Linker;
use pinion_protocol::delegation::Ceiling;
use pinion_protocol::{NestedCall, Services};
use wasmtime::component::HasSelf;

/// Bytes of the input of a call.
const MAX_INPUT: usize = 4 * 1024 * 1024;

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    invoke::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl invoke::Host for State {
    async fn tools(&mut self) -> wasmtime::Result<Vec<Callable>> {
        let Ok((services, ceiling)) = self.caller() else { return Ok(Vec::new()) };
        let callable = services.callable(&self.plugin, ceiling).into_iter().map(|tool| Callable {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.to_string(),
        });
        let callable: Vec<Callable> = callable.collect();
        let bytes = callable.iter().map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.len());
        self.spend_output(bytes.sum())?;
        Ok(callable)
    }

    async fn call_tool(&mut self, name: String, input: String) -> wasmtime::Result<Result<ToolOutput, ToolError>> {
        self.spend_output(name.len() + input.len())?;
        let (services, ceiling) = match self.caller() {
            Ok(caller) => caller,
            Err(denied) => return Ok(Err(error(ErrorKind::Denied, denied))),
        };
        if input.len() > MAX_INPUT {
            let text = format!("an input of {} bytes, of at most {MAX_INPUT}", input.len());
            return Ok(Err(error(ErrorKind::InvalidInput, text)));
        }
        let arguments = match serde_json::from_str(&input) {
            Ok(arguments) => arguments,
            Err(problem) => {
                return Ok(Err(error(ErrorKind::InvalidInput, format!("the input is not JSON: {problem}"))));
            }
        };
        self.account.capabilities.invoke.calls += 1;
        let call = NestedCall { tool: name, arguments, plugin: self.plugin.to_string(), ceiling };
        let begun = services.call(call);
        // The time that a person takes to approve the call does not count; the rest does, by the clock of the conversation.
        Ok(match begun.await {
            Ok(output) => convert::for_guest(output),
            Err(failure) => Err(convert::error_for_guest(&failure)),
        })
    }
}

impl State {
    /// Returns the conversation and the ceiling of the call's own calls, if it may make any.
    fn caller(&self) -> Result<(Services, Ceiling), String> {
        let grant = self.call.authority.check::<Invoke>().map_err(|denied| denied.to_string())?.clone();
        let refused = |why: &str| Err(format!("no tools can be called here: {why}"));
        if !self.call.may_invoke {
            return refused("the plugin is of lifetime `session`");
        }
        let Some(services) = self.call.services.clone() else {
            return refused("the call belongs to no conversation");
        };
        if services.call_depth_left() == 0 {
            return refused("it is too deep, or this is not the call of a tool");
        }
        let authority = self.call.authority.declared();
        Ok((services, Ceiling { authority, may_use: Box::new(move |tool| grant.allows(tool)) }))
    }
}

fn error(kind: ErrorKind, message: String) -> ToolError {
    let (content, details, extra) = (Vec::new(), None, None);
    ToolError { kind, message, retryable: false, content, details, display: Display::Plain, extra }
}
