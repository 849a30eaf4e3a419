//! Slash commands: definition, completion and handler.

pub use crate::bindings::commands::exports::pinion::plugin::commands::{Completion, Effect};

use crate::Call;
use crate::bindings::commands::exports::pinion::plugin::commands::CommandDefinition;

type Run = Box<dyn Fn(&str, &Call) -> Result<Vec<Effect>, String>>;
type Complete = Box<dyn Fn(&str) -> Vec<Completion>>;

/// A slash command.
pub struct Command {
    pub(crate) name: &'static str,
    description: String,
    argument_hint: Option<String>,
    complete: Option<Complete>,
    run: Run,
}

impl Command {
    /// Creates a command. `run` receives the text after the command's name; the user sees its error.
    pub fn new(
        name: &'static str,
        description: impl Into<String>,
        run: impl Fn(&str, &Call) -> Result<Vec<Effect>, String> + 'static,
    ) -> Self {
        Self { name, description: description.into(), argument_hint: None, complete: None, run: Box::new(run) }
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
            name: self.name.to_owned(),
            description: self.description.clone(),
            argument_hint: self.argument_hint.clone(),
        }
    }

    pub(crate) fn completions(&self, typed: &str) -> Vec<Completion> {
        self.complete.as_ref().map(|complete| complete(typed)).unwrap_or_default()
    }

    pub(crate) fn run(&self, arguments: &str, call: &Call) -> Result<Vec<Effect>, String> {
        (self.run)(arguments, call)
    }
}
