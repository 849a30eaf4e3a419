//! The state of an agent whose conversation is in use, readable from any thread.

use crate::content::{Content, Thinking, ToolCall};
use crate::event::{ContentDelta, EventKind, Role};
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

/// The view of an agent for readers while its conversation belongs to a run, a compaction or branches.
#[derive(Debug, Default)]
pub struct Live(Mutex<LiveState>);

/// The state of an agent and of its run in progress, which follows from the events of the run.
#[derive(Debug, Default)]
pub struct LiveState {
    /// True while something uses the conversation.
    is_lent: bool,
    /// The run; events of its children are ignored.
    run_id: Option<Arc<str>>,
    /// True until the run has looked for messages for the last time.
    is_steerable: bool,
    /// The history so far.
    pub history: Vec<Arc<Message>>,
    /// The system prompt, without the instructions of a single run.
    system_prompt: Arc<str>,
    /// The system prompt that replaces it at the next request, or when the conversation is idle.
    new_prompt: Option<Arc<str>>,
    /// Text at the end of the system prompt, for this run only.
    instructions: Option<String>,
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
    pub fn state(&self) -> MutexGuard<'_, LiveState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for the run that it describes; `None` for any other run.
    pub fn lock_run(&self, run_id: &Arc<str>) -> Option<MutexGuard<'_, LiveState>> {
        Some(self.state()).filter(|state| state.run_id.as_ref() == Some(run_id))
    }
}

impl LiveState {
    /// Shows a conversation that is in use from now on. Returns its system prompt.
    pub fn lend(&mut self, history: Vec<Arc<Message>>, system_prompt: &Arc<str>) -> Arc<str> {
        (self.is_lent, self.history) = (true, history);
        self.system_prompt = self.prompt_or(system_prompt);
        self.system_prompt.clone()
    }

    /// Returns whether the conversation is in use.
    pub fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Returns the new system prompt if one was set, and `current` otherwise.
    pub fn prompt_or(&mut self, current: &Arc<str>) -> Arc<str> {
        self.new_prompt.take().unwrap_or_else(|| current.clone())
    }

    /// Starts a run on the conversation and returns its system prompt.
    pub fn begin(&mut self, run_id: Arc<str>, instructions: Option<&str>) -> Arc<str> {
        (self.run_id, self.is_steerable, self.last_error) = (Some(run_id), true, None);
        self.instructions = instructions.map(str::to_owned);
        self.full_prompt()
    }

    /// Returns whether the run in progress looks for messages at least once more.
    pub fn is_steerable(&self) -> bool {
        self.is_steerable
    }

    /// Notes that the run does not look for messages any more.
    pub fn close(&mut self) {
        self.is_steerable = false;
    }

    /// Ends the use of the conversation and returns its system prompt.
    pub fn end(&mut self) -> Arc<str> {
        (self.is_lent, self.run_id, self.is_steerable, self.instructions) = (false, None, false, None);
        (self.history, self.partial, self.executing) = (Vec::new(), None, Vec::new());
        self.new_prompt.take().unwrap_or_else(|| self.system_prompt.clone())
    }

    /// Returns the system prompt of the next request, without the instructions of a single run.
    pub fn system_prompt(&self) -> Arc<str> {
        self.new_prompt.as_ref().unwrap_or(&self.system_prompt).clone()
    }

    /// Replaces the system prompt, from the next request on.
    pub fn set_system_prompt(&mut self, prompt: Arc<str>) {
        self.new_prompt = Some(prompt);
    }

    /// Returns the system prompt for the next request if it changed.
    pub fn take_new_prompt(&mut self) -> Option<Arc<str>> {
        self.system_prompt = self.new_prompt.take()?;
        Some(self.full_prompt())
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
                self.close();
                self.partial = None;
                self.executing.clear();
                if let RunEnd::Failed(error) = end {
                    self.last_error = Some(error.message.clone());
                }
            }
            _ => {}
        }
    }

    fn grow(&mut self, index: usize, delta: &ContentDelta) {
        let Some(parts) = &mut self.partial else { return };
        let thinking = || Thinking { text: String::new(), signature: None, redacted: false };
        let part = parts.entry(index).or_insert_with(|| match delta {
            ContentDelta::Text { .. } => Content::text(""),
            ContentDelta::Thinking { .. } => Content::Thinking(thinking()),
            ContentDelta::ToolCallStart { call_id, tool } => {
                Content::ToolCall(ToolCall::from_stream(call_id.clone(), tool.clone(), String::new()))
            }
            ContentDelta::ToolCallArguments { .. } => {
                Content::ToolCall(ToolCall::from_stream(String::new(), String::new(), String::new()))
            }
        });
        match (part, delta) {
            (Content::Text { text }, ContentDelta::Text { delta }) => text.push_str(delta),
            (Content::Thinking(thinking), ContentDelta::Thinking { delta }) => thinking.text.push_str(delta),
            (Content::ToolCall(call), ContentDelta::ToolCallArguments { delta }) => {
                call.partial.get_or_insert_default().push_str(delta);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growing(state: &mut LiveState, index: usize, delta: ContentDelta) {
        state.observe(&EventKind::MessageUpdate { index, delta });
    }

    #[test]
    fn message_in_progress_has_its_parts_in_order() {
        let mut state = LiveState::default();
        growing(&mut state, 0, ContentDelta::Text { delta: "no message has started".into() });
        assert_eq!(state.partial(), None);
        state.observe(&EventKind::MessageStart { role: Role::Assistant });
        assert_eq!(state.partial(), Some(Vec::new()));
        growing(&mut state, 2, ContentDelta::ToolCallStart { call_id: "c".into(), tool: "read".into() });
        growing(&mut state, 2, ContentDelta::ToolCallArguments { delta: r#"{"path""#.into() });
        growing(&mut state, 2, ContentDelta::ToolCallArguments { delta: ":".into() });
        growing(&mut state, 1, ContentDelta::Text { delta: "Hel".into() });
        growing(&mut state, 1, ContentDelta::Text { delta: "lo".into() });
        growing(&mut state, 0, ContentDelta::Thinking { delta: "Hm.".into() });
        let parts = state.partial().unwrap();
        let [Content::Thinking(thinking), Content::Text { text }, Content::ToolCall(call)] = &parts[..] else {
            panic!("{parts:?}")
        };
        assert_eq!((thinking.text.as_str(), text.as_str()), ("Hm.", "Hello"));
        let partial = call.partial.as_deref().unwrap_or_default();
        assert_eq!((call.id.as_str(), call.name.as_str(), partial), ("c", "read", r#"{"path":"#));
        let retry = EventKind::Retry { attempt: 1, max_attempts: 2, delay_ms: 0, cause: String::new() };
        state.observe(&retry);
        assert_eq!(state.partial(), None);
    }

    #[test]
    fn end_of_a_message_moves_it_to_the_history() {
        let mut state = LiveState::default();
        state.observe(&EventKind::MessageStart { role: Role::Assistant });
        growing(&mut state, 0, ContentDelta::Text { delta: "Hello".into() });
        let message = Arc::new(Message::user("hello"));
        state.observe(&EventKind::MessageEnd { message: message.clone() });
        assert_eq!((state.partial(), &state.history[..]), (None, &[message][..]));
    }

    #[test]
    fn new_prompt_counts_whenever_it_comes() {
        let mut state = LiveState::default();
        state.set_system_prompt("one".into());
        assert_eq!(&*state.lend(Vec::new(), &"old".into()), "one");
        assert_eq!(&*state.begin("l".into(), Some("Once.")), "one\n\nOnce.");
        assert_eq!(state.take_new_prompt(), None);
        state.set_system_prompt("two".into());
        assert_eq!(&*state.system_prompt(), "two");
        assert_eq!(state.take_new_prompt().as_deref(), Some("two\n\nOnce."));
        state.set_system_prompt("three".into());
        assert_eq!(&*state.end(), "three");
        // Between the end of a run and the release of its conversation.
        state.set_system_prompt("four".into());
        assert_eq!(&*state.lend(Vec::new(), &"three".into()), "four");
        assert_eq!(&*state.end(), "four");
    }

    #[test]
    fn run_is_steerable_until_it_ends() {
        let mut state = LiveState::default();
        state.lend(Vec::new(), &"".into());
        assert!(state.is_lent() && !state.is_steerable());
        state.begin("l".into(), None);
        assert!(state.is_steerable());
        state.close();
        assert!(!state.is_steerable());
        state.begin("m".into(), None);
        state.end();
        assert!(!state.is_lent() && !state.is_steerable());
    }
}
