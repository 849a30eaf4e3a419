//! Slash commands: definition, completion and handler.

pub use crate::bindings::commands::exports::pinion::plugin::commands::{Action, Completion};

use crate::Call;
use crate::bindings::commands::exports::pinion::plugin::commands::OtherAction;
use crate::bindings::imports::pinion::plugin::types::CommandDefinition;

type Run = Box<dyn Fn(&str, &Call) -> Result<Vec<Action>, String>>;
type Complete = Box<dyn Fn(&str) -> Vec<Completion>>;

/// A slash command.
pub struct Command {
    pub(crate) name: String,
    description: String,
    argument_hint: Option<String>,
    action: Option<String>,
    bare_action: Option<String>,
    complete: Option<Complete>,
    run: Run,
}

impl Command {
    /// Creates a command. `run` receives the text after the command's name; the user sees its error. `?` makes a text of an
    /// [`Error`](crate::Error) and of the errors of the host's functions; `.map_err(Error::from)?` does of any other.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        run: impl Fn(&str, &Call) -> Result<Vec<Action>, String> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            argument_hint: None,
            action: None,
            bare_action: None,
            complete: None,
            run: Box::new(run),
        }
    }

    /// Creates a command that stands for an action of the application, such as `context`: the host performs it with the text
    /// after the command's name and completes that text, without running the plugin. Actions that change authority are
    /// refused unless the plugin is built in.
    pub fn for_action(name: impl Into<String>, description: impl Into<String>, action: impl Into<String>) -> Self {
        let action = action.into();
        let named = action.clone();
        let run = move |typed: &str, _call: &Call| {
            Ok(vec![Action::Other(OtherAction { name: named.clone(), argument: Some(typed.trim().to_owned()) })])
        };
        Self { action: Some(action), ..Self::new(name, description, run) }
    }

    /// Sets the action of the application that takes place when the command is entered without an argument, where the
    /// application can perform it.
    #[must_use]
    pub fn bare_action(mut self, action: impl Into<String>) -> Self {
        self.bare_action = Some(action.into());
        self
    }

    /// Sets the argument hint, shown after the name, for example `<model>`.
    #[must_use]
    pub fn argument(mut self, hint: impl Into<String>) -> Self {
        self.argument_hint = Some(hint.into());
        self
    }

    /// Sets the completer, which maps the text typed so far to candidates for the argument.
    #[must_use]
    pub fn complete(mut self, complete: impl Fn(&str) -> Vec<Completion> + 'static) -> Self {
        self.complete = Some(Box::new(complete));
        self
    }

    pub(crate) fn definition(&self) -> CommandDefinition {
        CommandDefinition {
            name: self.name.clone(),
            description: self.description.clone(),
            argument_hint: self.argument_hint.clone(),
            extra: self.extra(),
        }
    }

    /// Returns the members that the host reads beyond the contract's fields.
    fn extra(&self) -> Option<String> {
        let members = [("action", &self.action), ("bare-action", &self.bare_action)];
        let members: serde_json::Map<String, serde_json::Value> =
            members.into_iter().filter_map(|(name, action)| Some((name.to_owned(), action.clone()?.into()))).collect();
        (!members.is_empty()).then(|| serde_json::Value::Object(members).to_string())
    }

    pub(crate) fn completions(&self, typed: &str) -> Vec<Completion> {
        self.complete.as_ref().map(|complete| complete(typed)).unwrap_or_default()
    }

    pub(crate) fn run(&self, input: &str, call: &Call) -> Result<Vec<Action>, String> {
        (self.run)(input, call)
    }
}
