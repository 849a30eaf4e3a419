//! Complete agents for another program, in a few lines.

use crate::approve::Person;
use crate::config::{Config, secrets};
use crate::failure::{Failure, Result};
use crate::files::paths::{self, Paths};
use crate::options::RunOptions;
use crate::plugins::sources::Purpose;
use crate::run::notices::describe_problem;
use crate::run::setup::Ready;
use crate::screen::{NoScreen, Screen};
use crate::workspace_base::Base;
use pinion_agent::{Agent, Message, Outcome};
use std::path::Path;
use std::sync::Arc;

/// Pinion in one workspace: the config, the trust, the secrets and the plugins of the user, for any number of agents.
///
/// The program's `main` calls [`begin`](crate::process::begin) first, because the sandbox and the compiler of plugins are
/// processes of the same program.
pub struct App {
    base: Base,
    options: RunOptions,
}

impl App {
    /// Opens a workspace for agents whose notes go to the log.
    ///
    /// The user's files are where `PINION_HOME` or the XDG variables say. A project's `.pinion` directory takes effect only
    /// if the user trusts it.
    ///
    /// # Errors
    /// The workspace is not a directory, or its path is not UTF-8; the environment names no home; the config is invalid; or
    /// a file that an option names cannot be used.
    pub fn open(workspace: impl AsRef<Path>, options: RunOptions) -> Result<Self> {
        Self::open_on(workspace, options, Arc::new(NoScreen))
    }

    /// Opens a workspace for agents whose notes go to a screen.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn open_on(workspace: impl AsRef<Path>, options: RunOptions, screen: Arc<dyn Screen>) -> Result<Self> {
        let (paths, workspace) = (Paths::from_environment()?, paths::workspace(Some(workspace.as_ref()))?);
        let config = Config::load(&paths, &workspace, &options)?;
        let base = Base::open(paths, workspace, config, &options, secrets::of_environment(), None, screen)?;
        Ok(Self { base, options })
    }

    /// Returns the data that all agents share.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Starts an agent with its model, plugins and session. `user` decides on calls that need approval and answers questions
    /// of plugins; [`DenyAll`](pinion_agent::approval::DenyAll) is a user who is not there.
    ///
    /// # Errors
    /// No model is available, the session cannot be opened, or a plugin that the run needs was not loaded.
    pub async fn start(&self, user: Arc<dyn Person>) -> Result<RunningAgent<'_>> {
        let purpose = if self.options.is_conversation { Purpose::Conversation } else { Purpose::Run };
        let screen = self.base.screen.clone();
        let report = move |notice| {
            if let Some(text) = describe_problem(&notice) {
                screen.note(&text);
            }
        };
        Ok(RunningAgent { base: &self.base, ready: self.base.ready(&self.options, purpose, user, report).await? })
    }

    /// Ends the MCP servers and removes temporary files. Agents have ended before.
    pub async fn close(self) {
        self.base.end_mcp_servers().await;
        self.base.output.close();
    }
}

/// An agent with its plugins and its session.
pub struct RunningAgent<'a> {
    base: &'a Base,
    ready: Ready,
}

impl RunningAgent<'_> {
    /// Returns the agent, for events, steering and abort.
    pub fn agent(&self) -> &Arc<Agent> {
        &self.ready.agent
    }

    /// Returns the notices for the user before the first prompt, such as content of the project that is not trusted.
    pub fn notices(&self) -> Vec<String> {
        self.ready.notices(self.base)
    }

    /// Runs the agent on a prompt until the model stops or a limit is reached. [`Outcome::end`] says how it ended.
    ///
    /// # Errors
    /// The agent is at work already.
    pub async fn run(&self, prompt: &str) -> Result<Outcome> {
        self.ready.work(vec![Message::user(prompt.to_owned())]).await.map_err(Failure::from)
    }

    /// Ends the agent, and waits until its session is saved.
    ///
    /// # Errors
    /// The session or the recording is incomplete.
    pub async fn end(self) -> Result<()> {
        self.ready.runtime.deliver_events().await;
        self.ready.keeper.end_turn().await;
        self.ready.session.sync().and(self.base.exchanges.finish())
    }
}
