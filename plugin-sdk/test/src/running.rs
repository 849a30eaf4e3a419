//! A loaded component, and calls of it.

use crate::conversation::{Conversation, InCall, Seen, Shared};
use crate::error::TestError;
use crate::reply::Reply;
use crate::servers::{Listener, Received, Servers};
use crate::settings::Settings;
use pinion_agent::schema::Schemas;
use pinion_agent::secrets::{RedactedTools, Secrets};
use pinion_agent::services::Services;
use pinion_agent::tool::{ToolError, ToolInvocation, ToolProgress};
use pinion_agent::{Content, SessionStore as _, ToolDefinition, ToolExecutor as _};
use pinion_plugin_runtime::{Action, Asks, Completion, PluginInfo, Runtime};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Entries of the session that are read at once, more than a test writes.
const ENTRIES: usize = 10_000;
/// Bytes of these entries.
const ENTRY_BYTES: usize = 64 * 1024 * 1024;

/// Time in which a plugin offers its tools.
const OFFER: Duration = Duration::from_secs(10);

/// A component that is loaded. Dropping it removes its workspace.
pub struct Running {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) info: PluginInfo,
    pub(crate) granted: Asks,
    pub(crate) workspace: PathBuf,
    pub(crate) conversation: Arc<Conversation>,
    pub(crate) secrets: Secrets,
    pub(crate) servers: Servers,
    pub(crate) settings: Arc<Settings>,
    pub(crate) _listener: Listener,
    pub(crate) _directory: TempDir,
}

impl Running {
    /// Calls a tool, like the model does: the arguments are checked against its schema first.
    pub async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.call_until(tool, arguments, CancellationToken::new()).await
    }

    /// Calls a tool, and cancels the call once `token` is cancelled.
    pub async fn call_until(&self, tool: &str, arguments: Value, token: CancellationToken) -> Reply {
        let progress = Progress::default();
        let (result, ledger) = match self.prepare(tool, arguments, token).await {
            Err(error) => (Err(error), None),
            Ok(call) => {
                let tools = RedactedTools::new(self.runtime.clone(), self.secrets.clone());
                let reply = tools.call(call, &progress).await;
                (reply.result.map_err(|error| self.failed(&error)), reply.ledger)
            }
        };
        let progress = progress.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        Reply { result, ledger: ledger.unwrap_or_default(), progress }
    }

    /// Runs a slash command with the text after its name.
    ///
    /// # Errors
    /// The plugin has no such command, or the command fails.
    pub async fn command(&self, name: &str, typed: &str) -> Result<Vec<Action>, TestError> {
        let services = Services::new(Shared(self.conversation.clone(), InCall::Command));
        let session = self.conversation.session.id().to_owned();
        let ran = self.runtime.run_command(name, typed, &session, Some(services), CancellationToken::new()).await;
        ran.map_err(|error| {
            let error = TestError::new(pinion_agent::text::with_causes(&error));
            match self.info.commands.iter().any(|command| command == name) {
                true => error,
                false => error.hint(format!("its commands are: {}", self.info.commands.join(", "))),
            }
        })
    }

    /// Completes the argument of a slash command.
    pub async fn complete(&self, name: &str, typed: &str) -> Vec<Completion> {
        self.runtime.complete(name, typed).await
    }

    /// Returns the names of the tools that the plugin offers now.
    pub fn tools(&self) -> Vec<String> {
        self.definitions().iter().map(|tool| tool.name.clone()).collect()
    }

    /// Waits until the plugin offers a tool, after it called `offers-host.changed`: the host collects such calls for a moment
    /// before it asks for the tools.
    ///
    /// # Errors
    /// The tool is not there after 10 s.
    pub async fn offers(&self, tool: &str) -> Result<(), TestError> {
        let is_offered = async {
            while !self.tools().iter().any(|offered| offered == tool) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(OFFER, is_offered).await.map_err(|_| {
            TestError::new(format!("the plugin does not offer `{tool}`"))
                .hint(format!("it offers: {}", self.tools().join(", ")))
        })
    }

    /// Changes the plugin's section of the config, which reloads it: an instance of lifetime `session` hands over its state.
    ///
    /// # Errors
    /// The plugin does not load with the new section. The test then continues with the old one.
    pub async fn reload_with(&self, settings: Value) -> Result<(), TestError> {
        self.settings
            .change(settings)
            .map_err(|error| TestError::new(format!("could not change the settings: {error}")))?;
        self.runtime.refresh().await;
        self.runtime.offers_settled().await;
        match self.runtime.problems().into_iter().next() {
            Some((_, problem)) => Err(TestError::new(format!("the plugin was not reloaded: {problem}"))),
            None => Ok(()),
        }
    }

    /// Returns the name, tools, commands and capabilities of the plugin.
    pub fn info(&self) -> &PluginInfo {
        &self.info
    }

    /// Returns the workspace, an absolute path.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Reads a file of the workspace.
    ///
    /// # Errors
    /// The file does not exist, or is not text.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String, TestError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(self.workspace.join(path));
        text.map_err(|error| TestError::new(format!("could not read `{}`: {error}", path.display())))
    }

    /// Returns what the plugin did with its conversation so far.
    pub fn seen(&self) -> Seen {
        self.conversation.seen()
    }

    /// Returns the requests that the scripted servers received so far.
    pub fn received(&self) -> Vec<Received> {
        self.servers.received()
    }

    /// Returns the entries of the session so far, as JSON.
    ///
    /// # Errors
    /// The session cannot be read.
    pub fn entries(&self) -> Result<Vec<Value>, TestError> {
        let entries = self.conversation.session.entries(None, ENTRIES, ENTRY_BYTES);
        let entries = entries.map_err(|error| TestError::new(error.to_string()))?;
        Ok(entries.iter().filter_map(|entry| serde_json::from_str(&entry.data).ok()).collect())
    }

    async fn prepare(
        &self,
        tool: &str,
        arguments: Value,
        token: CancellationToken,
    ) -> Result<ToolInvocation, TestError> {
        let definitions = self.definitions();
        let Some(definition) = definitions.iter().find(|definition| definition.name == tool) else {
            let names: Vec<&str> = definitions.iter().map(|definition| definition.name.as_str()).collect();
            return Err(TestError::new(format!("plugin `{}` has no tool `{tool}`", self.info.name))
                .hint(format!("its tools are: {}", names.join(", "))));
        };
        let arguments = self.valid(definition, &arguments).await?;
        Ok(ToolInvocation {
            session_id: self.conversation.session.id().into(),
            services: Some(Services::new(Shared(self.conversation.clone(), InCall::Tool))),
            token,
            ..ToolInvocation::alone(definition.clone(), arguments)
        })
    }

    /// Returns arguments as a tool gets them.
    pub(crate) async fn valid(&self, tool: &Arc<ToolDefinition>, arguments: &Value) -> Result<Value, TestError> {
        let checked = Schemas::default().check(tool, arguments).await.map(|valid| valid.into_owned());
        checked.map_err(|problem| {
            TestError::new(format!("the arguments do not match the schema: {problem}"))
                .hint(format!("the schema: {}", tool.input_schema))
        })
    }

    /// The tools of the plugin as they are now.
    pub(crate) fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.runtime.all_definitions()
    }

    /// Adds the grants that the plugin asks for and the test does not give, where the call was denied.
    fn failed(&self, error: &ToolError) -> TestError {
        let failed = TestError::new(error.to_string());
        let asks = &self.info.offered.asks;
        match error {
            ToolError::Denied { .. } if !self.granted.covers(asks) => {
                let granted = self.granted.words();
                let missing = asks.words().into_iter().filter(|word| !granted.contains(word));
                let missing: Vec<String> = missing.map(|word| format!(".grant({word:?})")).collect();
                failed.hint(format!("to grant it in the test: {}", missing.join("")))
            }
            _ => failed,
        }
    }
}

/// Keeps the lines of progress.
#[derive(Default)]
struct Progress(Mutex<Vec<String>>);

impl ToolProgress for Progress {
    fn report(&self, message: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    fn update(&self, _: Vec<Content>) {}
}
