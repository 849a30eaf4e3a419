//! Slash commands: definition, completion and handler.

pub use crate::bindings::commands::exports::pinion::plugin::commands::{Action, Completion};

use crate::Call;
use crate::bindings::imports::pinion::plugin::types::CommandDefinition;

type Run = Box<dyn Fn(&str, &Call) -> Result<Vec<Action>, String>>;
type Complete = Box<dyn Fn(&str) -> Vec<Completion>>;

/// A slash command.
pub struct Command {
    pub(crate) name: String,
    description: String,
    argument_hint: Option<String>,
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
            complete: None,
            run: Box::new(run),
        }
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
            extra: None,
        }
    }

    pub(crate) fn completions(&self, typed: &str) -> Vec<Completion> {
        self.complete.as_ref().map(|complete| complete(typed)).unwrap_or_default()
    }

    pub(crate) fn run(&self, input: &str, call: &Call) -> Result<Vec<Action>, String> {
        (self.run)(input, call)
    }
}
