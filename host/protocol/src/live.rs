//! The state of the run in progress of an agent, readable from any thread.

use crate::content::{Content, Thinking, ToolCall};
use crate::event::{Delta, EventKind, Role};
use crate::message::Message;
use crate::outcome::RunEnd;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Estimated size of the next request.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ContextEstimate {
    /// Tokens of the system prompt, the tools and the history.
    pub tokens: u64,
    /// Moving average of the ratio of reported to estimated tokens; 1 before the first report, 0 before the first run.
    pub ratio: f64,
    /// Context window of the model in tokens, if known.
    pub window: Option<u64>,
}

/// The view of an agent for readers while its conversation belongs to a run.
#[derive(Debug, Default)]
pub struct Live(Mutex<State>);

/// The state of an agent and of its run in progress, which follows from the events of the run.
#[derive(Debug, Default)]
pub struct State {
    /// The run; events of its children are ignored.
    loop_id: Option<Arc<str>>,
    /// The history so far.
    pub history: Vec<Arc<Message>>,
    /// The system prompt, without the instructions of a single run.
    pub system_prompt: Arc<str>,
    /// Text at the end of the system prompt, for this run only.
    instructions: Option<String>,
    is_prompt_new: bool,
    partial: Option<BTreeMap<usize, Content>>,
    /// Ids of the calls that are running.
    pub executing: Vec<String>,
    /// The error that ended the last run.
    pub last_error: Option<String>,
    /// Estimated size of the next request.
    pub estimate: ContextEstimate,
}

impl Live {
    /// Locks the state. A panic leaves it consistent, so poisoning is ignored.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for the run that it describes; `None` for any other run.
    pub fn of(&self, loop_id: &Arc<str>) -> Option<MutexGuard<'_, State>> {
        Some(self.state()).filter(|state| state.loop_id.as_ref() == Some(loop_id))
    }
}

impl State {
    /// Starts a run and returns its system prompt.
    pub fn begin(
        &mut self,
        loop_id: Arc<str>,
        history: Vec<Arc<Message>>,
        system_prompt: Arc<str>,
        instructions: Option<&str>,
    ) -> Arc<str> {
        let (estimate, instructions) = (self.estimate, instructions.map(str::to_owned));
        let loop_id = Some(loop_id);
        *self = Self { loop_id, history, system_prompt, instructions, estimate, ..Self::default() };
        self.full_prompt()
    }

    /// Ends the run and returns the system prompt of the next one.
    pub fn end(&mut self) -> Arc<str> {
        (self.loop_id, self.history) = (None, Vec::new());
        self.system_prompt.clone()
    }

    /// Replaces the system prompt, from the next request on.
    pub fn set_system_prompt(&mut self, prompt: Arc<str>) {
        (self.system_prompt, self.is_prompt_new) = (prompt, true);
    }

    /// Returns the system prompt for the next request if it changed.
    pub fn take_new_prompt(&mut self) -> Option<Arc<str>> {
        std::mem::take(&mut self.is_prompt_new).then(|| self.full_prompt())
    }

    fn full_prompt(&self) -> Arc<str> {
        match &self.instructions {
            Some(more) => format!("{}\n\n{more}", self.system_prompt).into(),
            None => self.system_prompt.clone(),
        }
    }

    /// Returns the parts of the message that the model is writing.
    pub fn partial(&self) -> Option<Vec<Content>> {
        self.partial.as_ref().map(|parts| parts.values().cloned().collect())
    }

    /// Takes note of an event of the run.
    pub fn observe(&mut self, event: &EventKind) {
        match event {
            EventKind::MessageStart { role: Role::Assistant } => self.partial = Some(BTreeMap::new()),
            EventKind::MessageUpdate { index, delta } => self.grow(*index, delta),
            EventKind::MessageEnd { message } => {
                self.history.push(message.clone());
                self.partial = None;
            }
            EventKind::Retry { .. } => self.partial = None,
            EventKind::ToolExecutionStart { call_id, .. } => self.executing.push(call_id.clone()),
            EventKind::ToolExecutionEnd { call_id, .. } => self.executing.retain(|id| id != call_id),
            EventKind::AgentEnd { end, .. } => {
                self.partial = None;
                self.executing.clear();
                if let RunEnd::Failed(error) = end {
                    self.last_error = Some(error.message.clone());
                }
            }
            _ => {}
        }
    }

    fn grow(&mut self, index: usize, delta: &Delta) {
        let Some(parts) = &mut self.partial else { return };
        let thinking = || Thinking { text: String::new(), signature: None, redacted: false };
        let part = parts.entry(index).or_insert_with(|| match delta {
            Delta::Text { .. } => Content::text(""),
            Delta::Thinking { .. } => Content::Thinking(thinking()),
            Delta::ToolCallStart { call_id, tool } => {
                Content::ToolCall(ToolCall::from_stream(call_id.clone(), tool.clone(), String::new()))
            }
            Delta::ToolCallArguments { .. } => {
                Content::ToolCall(ToolCall::from_stream(String::new(), String::new(), String::new()))
            }
        });
        match (part, delta) {
            (Content::Text { text }, Delta::Text { delta }) => text.push_str(delta),
            (Content::Thinking(thinking), Delta::Thinking { delta }) => thinking.text.push_str(delta),
            (Content::ToolCall(call), Delta::ToolCallArguments { delta }) => {
                call.partial.get_or_insert_default().push_str(delta);
            }
            _ => {}
        }
    }
}
