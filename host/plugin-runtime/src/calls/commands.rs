//! Slash commands: a plugin answers the user's input with actions that the host carries out.

use crate::bindings::exports::pinion::plugin::commands as wit;
use crate::bindings::pinion::plugin::types::CallContext;
use crate::calls::instance::{InstanceJob, Live, Setup};
use crate::calls::state::NoProgress;
use crate::registry::loaded::Loaded;
use crate::runtime::Runtime;
use pinion_plugin_limits::{FaultKind, GuestError, PluginFault};
use pinion_protocol::Services;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time that a completion may take, while the user types.
const COMPLETION_TIME: Duration = Duration::from_millis(100);
/// Actions that one command may have.
const MAX_ACTIONS: usize = 100;
/// Completions that are shown; the rest is dropped.
const MAX_COMPLETIONS: usize = 1000;

/// An action that the host carries out for a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostAction {
    /// Show Markdown to the user; the model does not see it.
    Print(String),
    /// Send this to the model as the user's message.
    Submit(String),
    /// Insert this into the composer.
    Insert(String),
    /// Use another model: `NAME` or `PROVIDER/NAME`.
    SetModel(String),
    /// Replace the conversation so far by a summary, with optional instructions.
    Compact(Option<String>),
    /// Begin a new session.
    NewSession,
    /// Resume a session by its id, or let the user pick one.
    Resume(Option<String>),
    /// Continue in a copy of the session.
    Fork,
    /// Reload the plugin files that changed.
    ReloadPlugins,
    /// Leave the program.
    Quit,
    /// An action of the application, which the plugin may cause. See [`HostInfo::actions`](crate::HostInfo::actions).
    Perform {
        /// Its name.
        name: String,
        /// The arguments, without blanks around them.
        arguments: String,
    },
    /// An action that this version does not know.
    Unknown {
        /// Its name.
        name: String,
        /// Its argument.
        argument: Option<String>,
    },
}

/// A possible value for the argument that the user types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The text that replaces the argument typed so far.
    pub value: String,
    /// An explanation for people.
    pub description: Option<String>,
}

/// A command did not run. `{:#}` formats the error with its hint, where there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No plugin offers the command.
    #[error("no command `/{name}`")]
    Unknown {
        /// The name as it was entered.
        name: String,
    },
    /// The plugin returned an error.
    #[error("/{name}: {message}")]
    Refused {
        /// The name of the command.
        name: String,
        /// The plugin's own message.
        message: String,
    },
    /// The plugin broke down.
    #[error(transparent)]
    Fault(#[from] PluginFault),
}

impl Runtime {
    /// Runs a command. `input` is everything that follows its name; `services` is the conversation where the user
    /// entered it. A command whose definition names an action of the application needs no code.
    ///
    /// # Errors
    /// There is no such command, its plugin returned an error or broke down, or may not cause the action.
    pub async fn run_command(
        &self,
        name: &str,
        input: &str,
        session_id: &str,
        services: Option<Services>,
        token: CancellationToken,
    ) -> Result<Vec<HostAction>, CommandError> {
        let current = self.registry.current().command(name).filter(|loaded| !loaded.is_outdated());
        if let Some(action) = current.and_then(|loaded| self.action_of(&loaded, name, input)) {
            return Ok(vec![action?]);
        }
        let found = self.registry.command(name, &token).await;
        let loaded = found.ok_or_else(|| CommandError::Unknown { name: name.to_owned() })?;
        if let Some(action) = self.action_of(&loaded, name, input) {
            return Ok(vec![action?]);
        }
        let job = RunCommand {
            context: self.call_context(&loaded, format!("/{name}"), session_id.to_owned()),
            name: name.to_owned(),
            input: input.to_owned(),
        };
        let answer =
            loaded.run(&self.shared, Setup { services, ..setup(&loaded, name, session_id, token) }, job).await.result?;
        let actions = answer.map_err(|message| CommandError::Refused { name: name.to_owned(), message })?;
        if actions.len() > MAX_ACTIONS {
            let message = format!("{} actions of one command, of at most {MAX_ACTIONS}", actions.len());
            return Err(FaultKind::Contract { message }.for_plugin(&loaded.program().name).into());
        }
        let host_action = |action| match action {
            wit::Action::Other(other) => self.other_action(&loaded, name, other.name, other.argument),
            action => Ok(simple_action(action)),
        };
        actions.into_iter().map(host_action).collect()
    }

    /// Completes the argument of a command, given the part that was typed. Returns nothing when the plugin does not
    /// answer within 100 ms. Then, and when this future is dropped, the call ends, and with it the requests that it
    /// made.
    pub async fn complete(&self, name: &str, typed: &str) -> Vec<Completion> {
        self.complete_within(name, typed, COMPLETION_TIME).await
    }

    /// Like [`Runtime::complete`], with another limit of time, for callers without a person who types.
    pub async fn complete_within(&self, name: &str, typed: &str, time: Duration) -> Vec<Completion> {
        let token = CancellationToken::new();
        let _end = token.clone().drop_guard();
        let answer = async {
            let loaded = self.registry.command(name, &token).await?;
            let job = CompleteArgument { name: name.to_owned(), typed: typed.to_owned() };
            let setup = setup(&loaded, name, "", token.clone());
            let plugin = &loaded.program().authority;
            let is_held_back = loaded.generation.holds_back_command(name);
            let authority = if is_held_back { plugin.none() } else { plugin.reading() };
            let result = loaded.run(&self.shared, Setup { authority, ..setup }, job).await.result;
            result.inspect_err(|fault| tracing::debug!(command = name, %fault, "completion failed")).ok()
        };
        let completions = tokio::time::timeout(time, answer).await;
        if completions.is_err() {
            tracing::debug!(command = name, "completion took too long");
        }
        completions
            .ok()
            .flatten()
            .unwrap_or_default()
            .into_iter()
            .take(MAX_COMPLETIONS)
            .map(|c| Completion { value: c.value, description: c.description })
            .collect()
    }
}

/// Commands run at the user's request, with the plugin's full authority. A command that is newer than the grants runs
/// without any.
fn setup(loaded: &Loaded, command: &str, session: &str, token: CancellationToken) -> Setup {
    let plugin = &loaded.program().authority;
    let authority = if loaded.generation.holds_back_command(command) { plugin.none() } else { plugin.for_command() };
    Setup { session: session.into(), authority, token, progress: Arc::new(NoProgress), agents: None, services: None }
}

/// One run of a command.
struct RunCommand {
    context: CallContext,
    name: String,
    input: String,
}

impl InstanceJob for RunCommand {
    type Answer = Result<Vec<wit::Action>, String>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        let export = live.exported().commands.ok_or(GuestError::NotExported("commands"))?;
        let parameters = (&self.context, self.name.as_str(), self.input.as_str());
        let (answer,) = live.call::<_, (Self::Answer,)>(&export.run_command, parameters).await?;
        Ok(answer.map_err(|message| match live.state().why_no_memory() {
            Some(why) => format!("{message}\n{why}"),
            None => message,
        }))
    }
}

/// Completes the argument of a command.
struct CompleteArgument {
    name: String,
    typed: String,
}

impl InstanceJob for CompleteArgument {
    type Answer = Vec<wit::Completion>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        let export = live.exported().commands.ok_or(GuestError::NotExported("commands"))?;
        let parameters = (self.name.as_str(), self.typed.as_str());
        let (answer,) = live.call::<_, (Self::Answer,)>(&export.complete_argument, parameters).await?;
        Ok(answer)
    }
}

/// Converts an action with a case of its own.
fn simple_action(action: wit::Action) -> HostAction {
    match action {
        wit::Action::Print(text) => HostAction::Print(text),
        wit::Action::Submit(text) => HostAction::Submit(text),
        wit::Action::Insert(text) => HostAction::Insert(text),
        wit::Action::SetModel(name) => HostAction::SetModel(name),
        wit::Action::Compact(instructions) => HostAction::Compact(instructions),
        wit::Action::NewSession => HostAction::NewSession,
        wit::Action::Resume(id) => HostAction::Resume(id),
        wit::Action::Fork => HostAction::Fork,
        wit::Action::ReloadPlugins => HostAction::ReloadPlugins,
        wit::Action::Quit => HostAction::Quit,
        wit::Action::Other(other) => HostAction::Unknown { name: other.name, argument: other.argument },
    }
}
