//! The conversation that the plugin's calls use: scripted answers, and a record of the questions.

use crate::answer::ScriptedAnswer;
use futures_util::future::BoxFuture;
use pinion_agent::delegation::Ceiling;
use pinion_agent::dialog::{Dialog, DialogAnswer, DialogError, Severity};
use pinion_agent::drawing::{DrawingBlock, DrawnPart};
use pinion_agent::secrets::Secrets;
use pinion_agent::services::{
    CallServices, CompletionAnswer, CompletionError, CompletionTask, MAX_CALL_DEPTH, NestedCall,
};
use pinion_agent::tool::{ToolError, ToolOutput};
use pinion_agent::{Authority, SessionStore, ToolDefinition, Usage};
use pinion_session_store::Session;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Tool = dyn Fn(&Value) -> Result<ToolOutput, String> + Send + Sync;

/// A scripted tool of another plugin.
#[derive(Clone)]
pub(crate) struct ScriptedTool {
    pub(crate) definition: Arc<ToolDefinition>,
    pub(crate) run: Arc<Tool>,
}

impl ScriptedTool {
    pub(crate) fn new(
        name: &str,
        authority: Authority,
        run: impl Fn(&Value) -> Result<ToolOutput, String> + Send + Sync + 'static,
    ) -> Self {
        let definition = ToolDefinition {
            name: name.to_owned(),
            label: name.to_owned(),
            description: "A tool that the test scripts.".to_owned(),
            input_schema: json!({ "type": "object" }),
            guidelines: Vec::new(),
            authority,
            execution: Default::default(),
            source: Default::default(),
        };
        Self { definition: Arc::new(definition), run: Arc::new(run) }
    }
}

/// The answers of a test.
#[derive(Clone, Default)]
pub(crate) struct Script {
    pub(crate) answers: VecDeque<ScriptedAnswer>,
    pub(crate) completions: VecDeque<Result<String, String>>,
    pub(crate) tools: Vec<ScriptedTool>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<&str> = self.tools.iter().map(|tool| tool.definition.name.as_str()).collect();
        let mut debug = f.debug_struct("Script");
        debug.field("answers", &self.answers).field("completions", &self.completions).field("tools", &tools).finish()
    }
}

/// A question of the plugin, and the answer that it got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The question.
    pub dialog: Dialog,
    /// The answer; [`DialogError::Headless`] where the test scripts no answer.
    pub answer: Result<DialogAnswer, DialogError>,
}

/// A call of another tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    /// Name of the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
}

/// Everything that the plugin did with its conversation, in order of each kind.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The questions to the user.
    pub asked: Vec<Asked>,
    /// The notices to the user.
    pub notices: Vec<String>,
    /// The segments of the status line; `None` removes it.
    pub segments: Vec<Option<String>>,
    /// The drawings of calls and results, as JSON.
    pub drawings: Vec<Value>,
    /// The requests to models.
    pub completions: Vec<CompletionTask>,
    /// The calls of other tools.
    pub called: Vec<Called>,
    /// Scripted answers that do not fit the question that they were for. The plugin was told that no user is present.
    pub misfits: Vec<String>,
}

/// The port behind the services of each call.
pub(crate) struct Conversation {
    script: Mutex<Script>,
    seen: Mutex<Seen>,
    pub(crate) session: Arc<Session>,
    secrets: Secrets,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Conversation {
    pub(crate) fn new(script: Script, session: Arc<Session>, secrets: Secrets) -> Self {
        Self { script: Mutex::new(script), seen: Mutex::default(), session, secrets }
    }

    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Adds answers to the script.
    pub(crate) fn extend(&self, add: impl FnOnce(&mut Script)) {
        add(&mut lock(&self.script));
    }

    /// Returns the definition of a scripted tool.
    pub(crate) fn scripted(&self, name: &str) -> Option<Arc<ToolDefinition>> {
        let script = lock(&self.script);
        script.tools.iter().map(|tool| tool.definition.clone()).find(|definition| definition.name == name)
    }

    /// Returns the scripted tools within a ceiling.
    fn within(&self, ceiling: &Ceiling) -> Vec<ScriptedTool> {
        let may_use = |tool: &ScriptedTool| {
            tool.definition.authority.is_within(ceiling.authority) && (ceiling.may_use)(&tool.definition.name)
        };
        lock(&self.script).tools.iter().filter(|tool| may_use(tool)).cloned().collect()
    }
}

/// The services of one call, which share the conversation.
#[derive(Clone)]
pub(crate) struct Shared(pub(crate) Arc<Conversation>, pub(crate) InCall);

/// Kind of call that is running: a tool call, which drawings need, or a slash command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InCall {
    Tool,
    Command,
}

impl CallServices for Shared {
    fn ask(&self, dialog: Dialog) -> BoxFuture<'_, Result<DialogAnswer, DialogError>> {
        let scripted = lock(&self.0.script).answers.pop_front();
        let mut seen = lock(&self.0.seen);
        let answer = match scripted.map(|scripted| scripted.to(&dialog)) {
            None => Err(DialogError::Headless),
            Some(Ok(answer)) => answer,
            Some(Err(misfit)) => {
                seen.misfits.push(misfit);
                Err(DialogError::Headless)
            }
        };
        seen.asked.push(Asked { dialog, answer: answer.clone() });
        drop(seen);
        Box::pin(async { answer })
    }

    fn notify(&self, _: &str, _: Severity, text: &str) {
        lock(&self.0.seen).notices.push(self.clean(text));
    }

    fn status(&self, _: &str, text: Option<&str>) {
        lock(&self.0.seen).segments.push(text.map(|text| self.clean(text)));
    }

    fn draw(&self, _: &str, part: DrawnPart, blocks: Vec<DrawingBlock>) -> BoxFuture<'_, bool> {
        let is_call = self.1 == InCall::Tool;
        if is_call {
            let drawing = self.0.secrets.clean_json(json!({ "part": part, "blocks": blocks }));
            lock(&self.0.seen).drawings.push(drawing);
        }
        Box::pin(async move { is_call })
    }

    fn call_depth_left(&self) -> u32 {
        if self.1 == InCall::Tool { MAX_CALL_DEPTH } else { 0 }
    }

    fn callable(&self, _: &str, ceiling: Ceiling) -> Vec<Arc<ToolDefinition>> {
        self.0.within(&ceiling).into_iter().map(|tool| tool.definition).collect()
    }

    fn call(&self, call: NestedCall) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let NestedCall { tool, arguments, ceiling, .. } = call;
            lock(&self.0.seen).called.push(Called { tool: tool.clone(), arguments: arguments.clone() });
            let found = self.0.within(&ceiling).into_iter().find(|scripted| scripted.definition.name == tool);
            let Some(scripted) = found else { return Err(ToolError::UnknownTool { tool, suggestions: Vec::new() }) };
            (scripted.run)(&arguments).map_err(|message| ToolError::Failed { tool, message, retryable: false })
        })
    }

    fn complete(&self, task: CompletionTask) -> BoxFuture<'_, Result<CompletionAnswer, CompletionError>> {
        let scripted = lock(&self.0.script).completions.pop_front();
        let model = task.model.clone().unwrap_or_else(|| "scripted".to_owned());
        lock(&self.0.seen).completions.push(task);
        let scripted = scripted.unwrap_or_else(|| Err("the test scripts no more completions".to_owned()));
        let answer = match scripted {
            Ok(text) => Ok(CompletionAnswer { text, model, usage: Usage { input: 10, output: 5, ..Usage::default() } }),
            Err(message) => Err(CompletionError::Failed { message, usage: Usage::default() }),
        };
        Box::pin(async { answer })
    }

    fn session(&self) -> Arc<dyn SessionStore> {
        self.0.session.clone()
    }

    fn clean(&self, text: &str) -> String {
        self.0.secrets.clean(text).into_owned()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}
