//! Slash commands: what the user enters goes to a plugin, what the plugin wants done comes back.

use crate::bindings::exports::pinion::plugin::commands as wit;
use crate::bindings::pinion::plugin::types::CallContext;
use crate::calls::instance::{CompleteArgument, RunCommand, Setup};
use crate::calls::state::NoProgress;
use crate::errors::fault::PluginFault;
use crate::loading::generation::CommandDefinition;
use crate::registry::Loaded;
use crate::runtime::Runtime;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long completion may take; the user is typing.
const COMPLETION_TIME: Duration = Duration::from_millis(100);
/// Effects of one command.
const MAX_EFFECTS: usize = 100;
/// Completions that are shown; the rest is dropped.
const MAX_COMPLETIONS: usize = 1000;

/// What the host is to do for a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Show Markdown to the user; the model does not see it.
    Print(String),
    /// Send this to the model as the user's message.
    Submit(String),
    /// Put this into the composer.
    Insert(String),
    /// Use another model: `NAME` or `PROVIDER/NAME`.
    SetModel(String),
    /// Replace the conversation so far by a summary, with instructions for it or without.
    Compact(Option<String>),
    /// Begin a new session.
    NewSession,
    /// Resume a session by its id, or let the user pick.
    Resume(Option<String>),
    /// Go on in a copy of the session.
    Fork,
    /// Look at all plugin files again.
    ReloadPlugins,
    /// Leave.
    Quit,
}

/// What an argument could be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Replaces the argument typed so far.
    pub value: String,
    /// For people.
    pub description: Option<String>,
}

/// A command did not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No plugin has it.
    #[error("no command `/{name}`")]
    Unknown {
        /// What was entered.
        name: String,
    },
    /// The plugin says no.
    #[error("/{name}: {message}")]
    Refused {
        /// The command.
        name: String,
        /// Why.
        message: String,
    },
    /// The plugin broke down.
    #[error(transparent)]
    Fault(#[from] PluginFault),
}

impl Runtime {
    /// The commands as they are now.
    pub fn commands(&self) -> Vec<CommandDefinition> {
        self.registry.catalog().commands().cloned().collect()
    }

    /// Runs a command. `arguments` is all that follows its name.
    ///
    /// # Errors
    /// There is no such command, or its plugin refused or broke down.
    pub async fn run_command(
        &self,
        name: &str,
        arguments: &str,
        session_id: &str,
        token: CancellationToken,
    ) -> Result<Vec<Effect>, CommandError> {
        let found = self.registry.command(name, &token).await;
        let loaded = found.ok_or_else(|| CommandError::Unknown { name: name.to_owned() })?;
        let job = RunCommand {
            context: CallContext {
                call_id: format!("/{name}"),
                session_id: session_id.to_owned(),
                workspace: self.shared.workspace.to_string_lossy().into_owned(),
                deadline_ms: loaded.program().limits.deadline_ms,
            },
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        };
        let answer = loaded.run(&self.shared, whole(&loaded, &job.name, token), job).await.result?;
        let effects = answer.map_err(|message| CommandError::Refused { name: name.to_owned(), message })?;
        if effects.len() > MAX_EFFECTS {
            let message = format!("{} effects of one command, of at most {MAX_EFFECTS}", effects.len());
            return Err(PluginFault::Contract { plugin: loaded.program().name.to_string(), message }.into());
        }
        Ok(effects.into_iter().map(effect).collect())
    }

    /// What the argument of a command could be, given what was typed of it. Nothing when the plugin does not answer
    /// within 100 ms.
    pub async fn complete(&self, name: &str, typed: &str) -> Vec<Completion> {
        let answer = async {
            let loaded = self.registry.command(name, &CancellationToken::new()).await?;
            let job = CompleteArgument { name: name.to_owned(), typed: typed.to_owned() };
            let setup = whole(&loaded, name, CancellationToken::new());
            let plugin = &loaded.program().authority;
            let authority = if setup.authority.files().is_some() { plugin.reading() } else { plugin.none() };
            loaded.run(&self.shared, Setup { authority, ..setup }, job).await.result.ok()
        };
        let completions = tokio::time::timeout(COMPLETION_TIME, answer).await.ok().flatten().unwrap_or_default();
        completions
            .into_iter()
            .take(MAX_COMPLETIONS)
            .map(|c| Completion { value: c.value, description: c.description })
            .collect()
    }
}

/// Commands run at the user's request, with the plugin's full authority. A command that is newer than the grants has none.
fn whole(loaded: &Loaded, command: &str, token: CancellationToken) -> Setup {
    let plugin = &loaded.program().authority;
    let authority = if loaded.generation.holds_back_command(command) { plugin.none() } else { plugin.for_command() };
    Setup { authority, token, progress: Arc::new(NoProgress), agents: None }
}

fn effect(effect: wit::Effect) -> Effect {
    match effect {
        wit::Effect::Print(text) => Effect::Print(text),
        wit::Effect::Submit(text) => Effect::Submit(text),
        wit::Effect::Insert(text) => Effect::Insert(text),
        wit::Effect::SetModel(name) => Effect::SetModel(name),
        wit::Effect::Compact(instructions) => Effect::Compact(instructions),
        wit::Effect::NewSession => Effect::NewSession,
        wit::Effect::Resume(id) => Effect::Resume(id),
        wit::Effect::Fork => Effect::Fork,
        wit::Effect::ReloadPlugins => Effect::ReloadPlugins,
        wit::Effect::Quit => Effect::Quit,
    }
}
