//! Actions of the application that commands name: in their definitions, or among the actions that they return.

use crate::calls::commands::{CommandError, HostAction};
use crate::convert::clip;
use crate::loading::source::PluginSource;
use crate::registry::loaded::Loaded;
use crate::runtime::Runtime;
use pinion_plugin_offers::offer::{ActionInfo, CommandDefinition};

/// Bytes of the name of an action that are shown.
const MAX_NAME_BYTES: usize = 64;

impl Runtime {
    /// The commands that plugins offer now, without the actions that their plugins may not cause.
    pub fn commands(&self) -> Vec<CommandDefinition> {
        let (current, actions) = (self.registry.current(), self.shared.info.actions());
        let commands = current.loaded().iter().flat_map(|loaded| {
            let may_cause = |name: &String| {
                let action = actions.iter().find(|action| action.name == name);
                action.is_none_or(|action| is_permitted(loaded, action))
            };
            loaded.lists.commands.iter().map(move |command| CommandDefinition {
                action: command.action.clone().filter(may_cause),
                bare_action: command.bare_action.clone().filter(may_cause),
                ..command.clone()
            })
        });
        commands.collect()
    }

    /// Returns the action of a command whose definition names one, without running the plugin; `None` if the plugin's code
    /// answers this input.
    ///
    /// # Errors
    /// The plugin may not cause the action.
    pub fn bound_action(&self, name: &str, input: &str) -> Option<Result<HostAction, CommandError>> {
        self.action_of(&*self.registry.current().command(name)?, name, input)
    }

    /// Returns the action that completes the arguments of a command: one that the application knows, by its name.
    pub fn completed_action(&self, name: &str) -> Option<String> {
        let loaded = self.registry.current().command(name)?;
        let definition = loaded.lists.commands.iter().find(|command| command.name == name)?;
        let named = definition.action.as_ref().or(definition.bare_action.as_ref())?;
        self.known_action(named).map(|action| action.name.to_owned())
    }

    /// Returns the action that the definition of a command names for this input.
    pub(crate) fn action_of(
        &self,
        loaded: &Loaded,
        command: &str,
        input: &str,
    ) -> Option<Result<HostAction, CommandError>> {
        let definition = loaded.lists.commands.iter().find(|definition| definition.name == command)?;
        // Elsewhere, the plugin's code performs the command.
        let action = self.known_action(definition.bound_action(input)?).filter(|action| action.is_available)?;
        Some(permitted(loaded, command, &action, input.trim().to_owned()))
    }

    /// Turns an action without a case in the contract into an action of the application, or one that it does not know.
    ///
    /// # Errors
    /// The plugin may not cause the action.
    pub(crate) fn other_action(
        &self,
        loaded: &Loaded,
        command: &str,
        name: String,
        argument: Option<String>,
    ) -> Result<HostAction, CommandError> {
        match self.known_action(&name) {
            Some(action) => permitted(loaded, command, &action, argument.unwrap_or_default().trim().to_owned()),
            None => Ok(HostAction::Unknown { name: clip(&name, MAX_NAME_BYTES).to_owned(), argument }),
        }
    }

    fn known_action(&self, name: &str) -> Option<ActionInfo> {
        self.shared.info.actions().into_iter().find(|action| action.name == name)
    }
}

/// Decides whether a plugin may cause an action: only built-in plugins cause one that is reserved. The only place that
/// decides.
fn is_permitted(loaded: &Loaded, action: &ActionInfo) -> bool {
    !action.is_reserved || matches!(loaded.source(), PluginSource::BuiltIn { .. })
}

/// Returns the action if the plugin may cause it.
fn permitted(
    loaded: &Loaded,
    command: &str,
    action: &ActionInfo,
    arguments: String,
) -> Result<HostAction, CommandError> {
    if !is_permitted(loaded, action) {
        let (plugin, name) = (&loaded.program().name, action.name);
        let message = format!("the plugin `{plugin}` may not perform `{name}`, which only built-in commands may");
        return Err(CommandError::Refused { name: command.to_owned(), message });
    }
    Ok(HostAction::Perform { name: action.name.to_owned(), arguments })
}
