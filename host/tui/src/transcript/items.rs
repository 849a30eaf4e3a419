//! The items of a transcript.

use crate::diff::is_diff;
use crate::rows::{StyledPiece, width};
use crate::transcript::excerpt::{ending, is_of_program};
use crate::transcript::head::CallHead;
use crate::transcript::segments::TextSegment;
use pinion_protocol::arguments::of_beginning;
use pinion_protocol::{Content, Display, DrawingBlock, Ledger, ToolCall};
use ratatui_core::style::Style;
use serde_json::Value;
use std::time::Duration;

/// Bytes that an old result keeps.
const SHORT: usize = 2_000;
/// Bytes that the failure of a sub-agent's call keeps.
const MAX_FAILURE: usize = 1_000;

/// One item of the conversation.
#[derive(Debug, Clone)]
pub(crate) enum TranscriptItem {
    /// A message of the user.
    User(String),
    /// A part of the model's answer.
    Text(TextSegment),
    /// Reasoning of the model.
    Thinking(Thinking),
    Call(Box<CallItem>),
    /// Something that a program wrote for the model: a line that unfolds.
    Folded(Folded),
    /// Markdown that a command printed.
    Page(String),
    /// A plan for the user to decide on.
    Plan(PlanPage),
    /// A line of the host.
    Note(Tone, String),
    /// A sub-agent or a branch.
    Agent(Box<SubAgent>),
}

/// A plan with its file.
#[derive(Debug, Clone)]
pub(crate) struct PlanPage {
    pub(crate) file: String,
    /// Markdown.
    pub(crate) text: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Folded {
    pub(crate) label: String,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Thinking {
    pub(crate) text: String,
    pub(crate) is_done: bool,
}

/// The weight of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Information.
    Plain,
    /// Something to know before the work continues.
    Warning,
    /// A failure.
    Error,
}

/// A tool call with its result.
#[derive(Debug, Clone)]
pub(crate) struct CallItem {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) state: CallState,
    /// Time when the call started, and its duration once it ended.
    pub(crate) started: Option<Duration>,
    pub(crate) took: Option<Duration>,
    /// The last line of progress.
    pub(crate) progress: Option<String>,
    /// The result, or the result so far.
    pub(crate) output: String,
    pub(crate) display: Display,
    pub(crate) ledger: Option<Ledger>,
    /// Drawings of the plugin, with its name, in place of the arguments and of the result.
    pub(crate) drawn_call: Option<Drawing>,
    pub(crate) drawn_result: Option<Drawing>,
    /// The user ran it.
    pub(crate) is_own: bool,
    /// The tool ran a program.
    pub(crate) is_program: bool,
    /// The kind of the program's failure, such as `exit 1`.
    pub(crate) ending: Option<String>,
}

/// A drawing of a plugin.
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    pub(crate) plugin: String,
    pub(crate) blocks: Vec<DrawingBlock>,
}

/// The state of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallState {
    Waiting,
    Asking,
    Running,
    Done,
    Failed,
}

impl CallItem {
    pub(crate) fn new(call: &ToolCall) -> Self {
        let arguments = match &call.partial {
            Some(partial) => of_beginning(partial).unwrap_or_else(|| Value::String(partial.clone())),
            None => call.arguments.clone(),
        };
        Self {
            tool: call.name.clone(),
            arguments,
            state: CallState::Waiting,
            started: None,
            took: None,
            progress: None,
            output: String::new(),
            display: Display::Plain,
            ledger: None,
            drawn_call: None,
            drawn_result: None,
            is_own: false,
            is_program: false,
            ending: None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, CallState::Done | CallState::Failed)
    }

    /// Returns whether the result is a diff, which shows the intended change.
    pub(crate) fn has_diff(&self) -> bool {
        self.state == CallState::Done && is_diff(&self.output)
    }

    /// Keeps the beginning of a long result, and the end of a program's. Returns the bytes that became free.
    pub(crate) fn shorten(&mut self) -> usize {
        let before = self.output.len();
        let end = if self.is_program { SHORT / 2 } else { 0 };
        if before > SHORT + 100 {
            let missing = |bytes: usize| format!("… {} kB more, which only the session keeps", bytes.div_ceil(1000));
            self.output = without_middle(&self.output, SHORT - end, end, missing);
        }
        before.saturating_sub(self.output.len())
    }

    pub(crate) fn end(&mut self, is_error: bool, content: &[Content], details: Option<&Value>, now: Option<Duration>) {
        (self.is_program, self.ending) = (is_of_program(details), ending(details));
        self.state = if is_error { CallState::Failed } else { CallState::Done };
        self.took = self.started.zip(now).map(|(from, to)| to.saturating_sub(from));
        self.output = text_of(content);
        self.progress = None;
    }
}

/// A run that works for the foreground run.
#[derive(Debug, Clone, Default)]
pub(crate) struct SubAgent {
    pub(crate) name: String,
    /// The first line of its task.
    pub(crate) title: String,
    pub(crate) model: String,
    /// Number of runs between this one and the foreground run.
    pub(crate) depth: usize,
    pub(crate) calls: Vec<AgentCall>,
    /// Text of its last message.
    pub(crate) words: String,
    pub(crate) end: Option<String>,
    /// It ended because its model had finished.
    pub(crate) is_done: bool,
    /// True for one of several runs on the prompt above it.
    pub(crate) is_branch: bool,
    /// The conversation continues with its answer.
    pub(crate) is_kept: bool,
}

/// A call of a sub-agent.
#[derive(Debug, Clone)]
pub(crate) struct AgentCall {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) head: CallHead,
    pub(crate) state: CallState,
    pub(crate) ledger: Option<Box<Ledger>>,
    /// The beginning and the end of the result, if it is a failure.
    pub(crate) failure: String,
}

impl AgentCall {
    pub(super) fn new(id: &str, tool: &str, arguments: &Value) -> Self {
        Self {
            id: id.to_owned(),
            tool: tool.to_owned(),
            head: CallHead::new(arguments).bounded(),
            state: CallState::Running,
            ledger: None,
            failure: String::new(),
        }
    }

    pub(super) fn end(&mut self, is_error: bool, content: &[Content], ledger: Option<&Ledger>) {
        self.state = if is_error { CallState::Failed } else { CallState::Done };
        self.ledger = ledger.cloned().map(Box::new);
        if is_error {
            let text = text_of(content);
            self.failure = without_middle(&text, MAX_FAILURE / 3, MAX_FAILURE * 2 / 3, |_| "…".to_owned());
        }
    }

    /// Returns the tool and the arguments in at most `columns`.
    pub(super) fn label(&self, columns: usize) -> String {
        let tool = StyledPiece::line(&self.tool, columns, Style::new());
        let room = columns.saturating_sub(width(tool.text()) + 1);
        format!("{} {}", tool.text(), self.head.line(room, Style::new()).text())
    }
}

/// Returns the beginning and the end of a long text, of about so many bytes, with a line between them that says how many are
/// missing.
fn without_middle(text: &str, beginning: usize, end: usize, missing: impl FnOnce(usize) -> String) -> String {
    if text.len() <= beginning + end {
        return text.to_owned();
    }
    let begins = &text[..text.floor_char_boundary(beginning)];
    let ends = &text[text.ceil_char_boundary(text.len() - end)..];
    // Half a line would look like a whole one.
    let begins = begins.rfind('\n').map_or(begins, |at| &begins[..at]);
    let ends = ends.find('\n').map_or(ends, |at| &ends[at + 1..]);
    let missing = missing(text.len() - begins.len() - ends.len());
    let ends = if ends.is_empty() { String::new() } else { format!("\n{ends}") };
    format!("{begins}\n{missing}{ends}")
}

/// Returns the text of content, with a note for each picture.
pub(crate) fn text_of(content: &[Content]) -> String {
    let part = |content: &Content| match content {
        Content::Text { text } => Some(text.clone()),
        Content::Image(image) => Some(format!("[{}, {} bytes]", image.media_type, image.data.len())),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    };
    content.iter().filter_map(part).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_of_a_sub_agents_call_keeps_its_beginning_and_its_end() {
        let mut call = AgentCall::new("1", "bash", &Value::Null);
        call.end(true, &[Content::text("é".repeat(1 << 20))], None);
        assert!(call.failure.len() <= MAX_FAILURE + "\n…\n".len() && call.failure.contains("é\n…\né"));
        let mut call = AgentCall::new("1", "bash", &Value::Null);
        call.end(true, &[Content::text("ok\n".repeat(1 << 20) + "FAILED\n[exit code 1]")], None);
        assert!(call.failure.starts_with("ok\n") && call.failure.ends_with("\nok\nFAILED\n[exit code 1]"));
        let mut call = AgentCall::new("2", "bash", &Value::Null);
        call.end(false, &[Content::text("fine")], None);
        assert_eq!(call.failure, "");
    }
}
