//! A loaded component, and calls of it.

use crate::answer::ScriptedAnswer;
use crate::conversation::{Conversation, InCall, ScriptedTool, Seen, Shared};
use crate::error::{TestError, helpful_grants};
use crate::plugin::{refuse_links, write_file};
use crate::reply::Reply;
use crate::servers::{Listener, Received, Servers};
use crate::settings::Settings;
use pinion_agent::dialog::DialogError;
use pinion_agent::schema::Schemas;
use pinion_agent::secrets::{RedactedTools, Secrets};
use pinion_agent::services::Services;
use pinion_agent::tool::{ToolError, ToolInvocation, ToolOutput, ToolProgress};
use pinion_agent::{Authority, Content, SessionStore as _, ToolDefinition, ToolExecutor as _};
use pinion_plugin_runtime::{Asks, Completion, HostAction, PluginInfo, Runtime};
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

/// Time that a plugin gets to offer its tools.
const OFFER: Duration = Duration::from_secs(10);

/// Time that the completion of an argument gets.
const COMPLETED_WITHIN: Duration = Duration::from_secs(60);

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
    /// True if the test is a case in a file, whose hints name keys instead of functions.
    pub(crate) is_case: bool,
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
        let (progress, asked) = (Progress::default(), self.seen().asked.len());
        let (result, ledger) = match self.prepare(tool, arguments, token).await {
            Err(error) => (Err(error), None),
            Ok(call) => {
                let tools = RedactedTools::new(self.runtime.clone(), self.secrets.clone());
                let reply = tools.call(call, &progress).await;
                (reply.result.map_err(|error| self.failed(&error, asked)), reply.ledger)
            }
        };
        let progress = progress.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        Reply { result, ledger: ledger.unwrap_or_default(), progress }
    }

    /// Runs a slash command with the text after its name.
    ///
    /// # Errors
    /// The plugin has no such command, or the command fails.
    pub async fn command(&self, name: &str, typed: &str) -> Result<Vec<HostAction>, TestError> {
        let services = Services::new(Shared(self.conversation.clone(), InCall::Command));
        let session = self.conversation.session.id().to_owned();
        let asked = self.seen().asked.len();
        let ran = self.runtime.run_command(name, typed, &session, Some(services), CancellationToken::new()).await;
        ran.map_err(|error| {
            let error = TestError::new(pinion_agent::text::with_causes(&error));
            match self.info.commands.iter().any(|command| command == name) {
                true => self.no_answer(asked).into_iter().fold(error, TestError::hint),
                false => error.hint(format!("its commands are: {}", self.info.commands.join(", "))),
            }
        })
    }

    /// Completes the argument of a slash command. The limit of 100 ms while a person types does not apply, so that a test
    /// does not depend on the speed of the machine.
    pub async fn complete(&self, name: &str, typed: &str) -> Vec<Completion> {
        self.runtime.complete_within(name, typed, COMPLETED_WITHIN).await
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
        self.reloaded().await
    }

    /// Reloads the plugin with the same settings: an instance of lifetime `session` hands over its state.
    ///
    /// # Errors
    /// The plugin does not load again.
    pub async fn reload(&self) -> Result<(), TestError> {
        self.settings.touch().map_err(|error| TestError::new(format!("could not reload the plugin: {error}")))?;
        self.reloaded().await
    }

    async fn reloaded(&self) -> Result<(), TestError> {
        self.runtime.refresh().await;
        self.runtime.offers_settled().await;
        match self.runtime.problems().into_iter().next() {
            Some((_, problem)) => Err(TestError::new(format!("the plugin was not reloaded: {problem}"))),
            None => Ok(()),
        }
    }

    /// Adds an answer to the script, as [`Plugin::answer`](crate::Plugin::answer) does.
    pub fn answer(&self, answer: impl Into<ScriptedAnswer>) {
        self.conversation.extend(|script| script.answers.push_back(answer.into()));
    }

    /// Adds an answer of a model to the script; an `Err` fails the request.
    pub fn completion(&self, answer: Result<String, String>) {
        self.conversation.extend(|script| script.completions.push_back(answer));
    }

    /// Scripts a tool of another plugin, as [`Plugin::tool`](crate::Plugin::tool) does.
    pub fn tool(
        &self,
        name: &str,
        effects: Authority,
        run: impl Fn(&Value) -> Result<ToolOutput, String> + Send + Sync + 'static,
    ) {
        self.conversation.extend(|script| script.tools.push(ScriptedTool::new(name, effects, run)));
    }

    /// Returns whether the test scripts a tool of this name.
    pub fn scripts(&self, tool: &str) -> bool {
        self.conversation.scripted(tool).is_some()
    }

    /// Writes a file of the workspace.
    ///
    /// # Errors
    /// The path leads out of the workspace, or the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<(), TestError> {
        write_file(&self.workspace, path.as_ref(), content.as_ref())
    }

    /// Checks that the plugin has a tool and that arguments match its schema, without calling it.
    ///
    /// # Errors
    /// They do not.
    pub async fn accepts(&self, tool: &str, arguments: Value) -> Result<(), TestError> {
        self.prepare(tool, arguments, CancellationToken::new()).await.map(drop)
    }

    /// Returns the words of the grants that the plugin asks for and the test does not give.
    pub fn not_granted(&self) -> Vec<String> {
        let granted = self.granted.spell_asks();
        let asked = self.info.offered.asks.spell_asks().into_iter();
        asked.filter(|word| !granted.contains(word)).collect()
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
        refuse_links(&self.workspace, path)?;
        let text = std::fs::read_to_string(self.workspace.join(path));
        text.map_err(|error| TestError::new(format!("could not read `{}`: {error}", path.display())))
    }

    /// Returns how the plugin used its conversation so far.
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

    /// Adds the remedy where the call was denied: the grants that the plugin asks for and the test does not give, or an
    /// answer to a question without one.
    fn failed(&self, error: &ToolError, asked: usize) -> TestError {
        let failed = TestError::new(error.to_string());
        if let Some(remedy) = self.no_answer(asked) {
            return failed.hint(remedy);
        }
        match error {
            ToolError::Denied { .. } if !self.granted.covers(&self.info.offered.asks) => {
                let missing = helpful_grants(failed.message(), &self.not_granted());
                if missing.is_empty() { failed } else { failed.hint(self.how_to_grant(&missing)) }
            }
            _ => failed,
        }
    }

    /// Returns how a test grants capabilities.
    pub(crate) fn how_to_grant(&self, words: &[String]) -> String {
        match self.is_case {
            true => format!("to grant it in the case: grant = {words:?}"),
            false => {
                let calls: Vec<String> = words.iter().map(|word| format!(".grant({word:?})")).collect();
                format!("to grant it in the test: {}", calls.join(""))
            }
        }
    }

    /// Returns how a test answers the last question after the first `asked` ones, if it has no answer.
    fn no_answer(&self, asked: usize) -> Option<String> {
        let seen = self.seen();
        let unanswered = seen.asked[asked..].iter().rfind(|asked| asked.answer == Err(DialogError::Headless))?;
        let question = &unanswered.dialog.question;
        let how = if self.is_case { "answer = …" } else { ".answer(…)" };
        Some(format!("the plugin asked `{question}`, for which the test has no answer: {how}"))
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
