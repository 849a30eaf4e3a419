//! A component to test, and the host that the test prepares for it.

use crate::answer::ScriptedAnswer;
use crate::conversation::{Conversation, Script, ScriptedTool};
use crate::error::TestError;
use crate::host::Host;
use crate::running::Running;
use crate::secrets::{TestSecret, TestSecrets};
use crate::servers::{Listener, Received, Response, Servers};
use crate::settings::Settings;
use pinion_agent::jiff::Timestamp;
use pinion_agent::message::{AssistantMessage, StopReason};
use pinion_agent::secrecy::SecretString;
use pinion_agent::secrets::Secrets;
use pinion_agent::tool::ToolOutput;
use pinion_agent::{Authority, Content, Message, SessionStore as _, Usage};
use pinion_plugin_runtime::{
    CacheKey, GrantContext, GrantTable, Grants, HostDirectories, NoInfo, PartialLimits, PluginSettings, PluginSource,
    Runtime, RuntimeConfig, SecretPlacement, SecretSource, capability_forms,
};
use pinion_session_store::SessionDirectory;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A component to test, and the host around it. It is granted nothing until [`Plugin::grant`] says so.
#[derive(Debug)]
#[must_use = "call `start`"]
pub struct Plugin {
    component: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
    grants: Vec<String>,
    settings: Value,
    limits: PartialLimits,
    messages: Vec<Message>,
    secrets: BTreeMap<String, TestSecret>,
    servers: Servers,
    script: Script,
    cache: Option<PathBuf>,
    host: Option<Host>,
}

impl Plugin {
    /// Names the component, as `pinion plugin build` writes it. A relative path begins at the current directory, which
    /// for `cargo test` is the package's directory.
    pub fn load(component: impl Into<PathBuf>) -> Self {
        Self {
            component: component.into(),
            files: Vec::new(),
            grants: Vec::new(),
            settings: Value::Null,
            limits: PartialLimits::default(),
            messages: Vec::new(),
            secrets: BTreeMap::new(),
            servers: Servers::default(),
            script: Script::default(),
            cache: None,
            host: None,
        }
    }

    /// Writes a file in the workspace, which is a new directory for each test.
    pub fn file(mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.into(), content.into()));
        self
    }

    /// Grants a capability in the words of `--grant`, such as `files=read`, `files=DIR:write` or
    /// `http=https://api.example.com/v1/`. Relative directories begin at the workspace.
    pub fn grant(mut self, words: impl Into<String>) -> Self {
        self.grants.push(words.into());
        self
    }

    /// Sets the plugin's section of the config.
    pub fn settings(mut self, settings: Value) -> Self {
        self.settings = settings;
        self
    }

    /// Sets limits, like the user's config.
    pub fn limits(mut self, limits: PartialLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds a message of the user to the conversation, which plugins with the capability `session` read.
    pub fn message(mut self, text: impl Into<String>) -> Self {
        self.messages.push(Message::user(text.into()));
        self
    }

    /// Adds an answer of the model to the conversation.
    pub fn reply(mut self, text: impl Into<String>) -> Self {
        self.messages.push(reply(text.into()));
        self
    }

    /// Defines a secret of the user, which requests to these URLs carry as `authorization: Bearer`. The plugin also needs
    /// the grant `secrets=NAME`.
    pub fn secret(self, name: &str, value: &str, hosts: &[&str]) -> Self {
        let placement = SecretPlacement::Header { name: "authorization".to_owned(), scheme: Some("Bearer".to_owned()) };
        self.secret_at(name, value, hosts, placement)
    }

    /// Defines a secret of the user, which requests to these URLs carry at a place.
    pub fn secret_at(mut self, name: &str, value: &str, hosts: &[&str], placement: SecretPlacement) -> Self {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        self.secrets.insert(name.to_owned(), TestSecret { value: SecretString::from(value), hosts, placement });
        self
    }

    /// Scripts a server. Its origin has no path, such as `https://api.example.com` or `http://db.example.com:8080`.
    /// Origins without a script cannot be reached, with any grants.
    pub fn server(mut self, origin: &str, handler: impl Fn(&Received) -> Response + Send + Sync + 'static) -> Self {
        self.servers.add(origin, handler);
        self
    }

    /// Answers the next dialog. Dialogs without an answer left get
    /// [`DialogError::Headless`](crate::DialogError::Headless), and so does one that the answer does not fit.
    pub fn answer(mut self, answer: impl Into<ScriptedAnswer>) -> Self {
        self.script.answers.push_back(answer.into());
        self
    }

    /// Closes the next dialog without an answer.
    pub fn dismiss(mut self) -> Self {
        self.script.answers.push_back(ScriptedAnswer::Dismissed);
        self
    }

    /// Answers the next request to a model. Requests without an answer left fail.
    pub fn completion(mut self, text: impl Into<String>) -> Self {
        self.script.completions.push_back(Ok(text.into()));
        self
    }

    /// Fails the next request to a model.
    pub fn failed_completion(mut self, message: impl Into<String>) -> Self {
        self.script.completions.push_back(Err(message.into()));
        self
    }

    /// Scripts a tool of another plugin, with the effects that it declares. An `Err` is the tool's error.
    pub fn tool(
        mut self,
        name: &str,
        effects: Authority,
        run: impl Fn(&Value) -> Result<ToolOutput, String> + Send + Sync + 'static,
    ) -> Self {
        self.script.tools.push(ScriptedTool::new(name, effects, run));
        self
    }

    /// Keeps compiled code in a directory, such as `env!("CARGO_TARGET_TMPDIR")`, so that only the first test compiles.
    /// The directory must be private: anyone who can write to it can replace the code that the tests run.
    pub fn cache(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cache = Some(directory.into());
        self
    }

    /// Uses parts of an application in place of the kit's own. Directories can then be granted only inside the workspace.
    pub fn host(mut self, host: Host) -> Self {
        self.host = Some(host);
        self
    }

    /// Loads the component.
    ///
    /// # Errors
    /// The component does not load, or a grant is unknown or beyond the capabilities that its manifest asks for.
    pub async fn start(self) -> Result<Running, TestError> {
        let failed = |error: std::io::Error| TestError::new(format!("could not prepare the test: {error}"));
        let directory = TempDir::new().map_err(failed)?;
        let root = directory.path().canonicalize().map_err(failed)?;
        let workspace = root.join("workspace");
        fs::create_dir(&workspace).map_err(failed)?;
        self.write_files(&workspace)?;
        let source = PluginSource::file(std::path::absolute(&self.component).map_err(failed)?);
        let (inspection, _) = source.inspect().map_err(|error| self.not_loaded(&error.to_string()))?;
        let secrets = Arc::new(TestSecrets { by_name: self.secrets.clone(), redacted: Secrets::of_process() });
        let table = self.table(&workspace, &inspection.manifest.capabilities)?;
        let settings = PluginSettings {
            grants: resolve(&table, &root, &workspace, secrets.clone()),
            limits: self.limits.clone(),
            config: self.settings.clone(),
            ..PluginSettings::default()
        };
        let settings = Settings::start(settings, root.join("host/settings")).map_err(failed)?;
        let settings = Arc::new(settings);
        let listener = Listener::start(self.servers.clone()).await?;
        let host = self.host.clone().unwrap_or_default();
        let own = self.cache.clone().map(|directory| (directory.join("pinion"), CacheKey::new([0; 32])));
        let config = RuntimeConfig {
            workspace: workspace.clone(),
            cache: host.cache.or(own),
            policy: settings.clone(),
            engine_limits: host.engine_limits,
            compiler: host.compiler,
            host: HostDirectories { private: vec![root.join("host")], ..HostDirectories::default() },
            exclusions: Arc::default(),
            info: Arc::new(NoInfo),
            journal: None,
            confinement: host.confinement.as_ref().and_then(|make| make(&workspace)),
            mcp: None,
        };
        let on_notice = host.on_notice;
        let notify = move |notice| {
            if let Some(receive) = &on_notice {
                receive(notice);
            }
        };
        let runtime = Runtime::with_client(config, listener.client.clone(), notify);
        let runtime = Arc::new(runtime.map_err(|error| TestError::new(format!("the engine does not start: {error}")))?);
        runtime.begin_offers();
        runtime.add(vec![source]).await;
        runtime.offers_settled().await;
        let Some(info) = runtime.plugins().into_iter().next() else {
            let problem = runtime.problems().into_iter().next().map(|(_, problem)| problem);
            return Err(self.not_loaded(&problem.unwrap_or_default()));
        };
        let session = Arc::new(SessionDirectory::new(root.join("host/sessions")).begin(&workspace));
        for message in &self.messages {
            let stored = session.append(&Arc::new(message.clone()));
            stored.map_err(|error| TestError::new(error.full_text()))?;
        }
        let conversation = Arc::new(Conversation::new(self.script, session, secrets.redacted.clone()));
        Ok(Running {
            runtime,
            info,
            granted: table.asks(),
            workspace,
            conversation,
            secrets: secrets.redacted.clone(),
            servers: self.servers,
            settings,
            is_case: self.host.is_some(),
            _listener: listener,
            _directory: directory,
        })
    }

    fn write_files(&self, workspace: &Path) -> Result<(), TestError> {
        self.files.iter().try_for_each(|(path, content)| write_file(workspace, path, content))
    }

    /// Parses the grants and checks that the component asks for them, because the others would have no effect.
    fn table(&self, workspace: &Path, asks: &pinion_plugin_runtime::Asks) -> Result<GrantTable, TestError> {
        let mut table = GrantTable::default();
        table.add(&self.grants, workspace).map_err(|error| {
            TestError::new(error.to_string()).hint(format!("the capabilities are {}", capability_forms().join(", ")))
        })?;
        if self.host.is_some() {
            refuse_outside(&table, workspace)?;
        }
        match asks.covers(&table.asks()) {
            true => Ok(table),
            false => {
                let words = asks.spell_asks();
                let words = if words.is_empty() { "nothing".to_owned() } else { words.join(" ") };
                Err(TestError::new(format!("the plugin asks only for {words}: other grants have no effect"))
                    .hint("add the capability to what the plugin asks for, or take the grant out of the test"))
            }
        }
    }

    fn not_loaded(&self, problem: &str) -> TestError {
        let error = TestError::new(format!("could not load `{}`: {problem}", self.component.display()));
        match self.component.exists() {
            false => error.hint("build it before the test: pinion plugin build"),
            true if problem.contains("would take too long") => {
                error.hint("test it with `pinion plugin test`, which compiles in another process")
            }
            true => error,
        }
    }
}

/// Writes a file of the workspace.
pub(crate) fn write_file(workspace: &Path, path: &Path, content: &[u8]) -> Result<(), TestError> {
    refuse_links(workspace, path)?;
    let file = workspace.join(path);
    let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, content));
    written.map_err(|error| TestError::new(format!("could not write `{}`: {error}", path.display())))
}

/// Refuses a path that leads out of the workspace, and one through a link, which a program of the test may have made, and which can lead anywhere.
pub(crate) fn refuse_links(workspace: &Path, path: &Path) -> Result<(), TestError> {
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(TestError::new(format!("`{}` is not a path inside the workspace", path.display())));
    }
    let mut at = workspace.to_owned();
    for part in path {
        at.push(part);
        if at.is_symlink() {
            return Err(TestError::new(format!("`{}` is a link, which tests do not follow", at.display())));
        }
    }
    Ok(())
}

/// Refuses grants of directories outside the workspace, which would be the user's.
fn refuse_outside(table: &GrantTable, workspace: &Path) -> Result<(), TestError> {
    let is_inside = |directory: &Path| {
        let inner = match directory.is_absolute() {
            true => directory.strip_prefix(workspace).ok(),
            false => Some(directory),
        };
        inner.is_some_and(|inner| {
            inner.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        })
    };
    match table.files.keys().find(|directory| !is_inside(directory)) {
        None => Ok(()),
        Some(directory) => {
            let named = directory.strip_prefix(workspace).unwrap_or(directory).display();
            Err(TestError::new(format!("a test cannot grant `{named}`, which is outside its workspace"))
                .hint("write the files that the test needs into its workspace, and grant a directory there"))
        }
    }
}

/// Returns an answer of the model as a message.
fn reply(text: String) -> Message {
    Message::Assistant(AssistantMessage {
        content: vec![Content::text(text)],
        stop_reason: StopReason::Stop,
        provider: "scripted".to_owned(),
        model: "scripted".to_owned(),
        requested_model: None,
        usage: Usage::default(),
        cost: None,
        error: None,
        timestamp: Timestamp::now(),
    })
}

fn resolve(table: &GrantTable, root: &Path, workspace: &Path, secrets: Arc<TestSecrets>) -> Grants {
    let secrets: Arc<dyn SecretSource> = secrets;
    let usual: Vec<String> = ["PATH", "HOME", "LANG", "TERM"].map(str::to_owned).into();
    table.resolve(&GrantContext {
        workspace,
        usual_variables: &usual,
        variables: &|| variables(&root.join("home")),
        output: &root.join("output"),
        storage: &root.join("host/storage"),
        secrets: &secrets,
    })
}

/// Returns the variables that programs get. Their home directory is one of the test, so that they find no credentials.
fn variables(home: &Path) -> BTreeMap<String, String> {
    // A program that finds no directory reports it.
    let _ = fs::create_dir_all(home);
    let own = std::env::vars().filter(|(name, _)| name != "HOME");
    own.chain([("HOME".to_owned(), home.to_string_lossy().into_owned())]).collect()
}
