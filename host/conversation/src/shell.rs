//! `!COMMAND`: shell commands of the user in a conversation.
//!
//! A command runs like a call of the tool `bash`, with its grants, limits and deny patterns, but without a question,
//! because the user has typed it. The model learns of `!COMMAND` with the next message, and never of `!!COMMAND`.

use crate::conversation_output::Voice;
use pinion_agent::content::ToolCall;
use pinion_agent::secrets::{RedactedTools, Secrets};
use pinion_agent::tool::{Display, Ledger, ToolInvocation, ToolProgress, ToolReply};
use pinion_agent::{Authority, Content, EventKind, Message, ToolExecutor};
use pinion_app::failure::{Failure, Result};
use pinion_console::output::{indented, print_line};
use pinion_console::process::signals::interruptible_by;
use pinion_plugin_runtime::Runtime;
use pinion_tui::{Input, without_colours};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_util::sync::CancellationToken;

/// The tool that runs shell commands.
const TOOL: &str = "bash";

/// A shell command of the user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShellCommand<'a> {
    pub(crate) text: &'a str,
    /// The model learns of it.
    pub(crate) is_shared: bool,
}

impl<'a> ShellCommand<'a> {
    /// Parses a line of the user; `None` if it is no shell command.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let text = line.strip_prefix('!')?;
        let (text, is_shared) = text.strip_prefix('!').map_or((text, true), |text| (text, false));
        Some(Self { text: text.trim(), is_shared }).filter(|command| !command.text.is_empty())
    }

    /// Runs the command and shows its output, or why there is no output. Returns the message for the model, if it is to
    /// learn of the command.
    pub(crate) async fn show(
        &self,
        voice: Voice,
        runtime: &Arc<Runtime>,
        secrets: &Secrets,
        session: Arc<str>,
    ) -> Option<Message> {
        let text = secrets.clean(self.text).into_owned();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let watched = Watched { call_id: format!("shell-{}", since.as_nanos()), voice };
        watched.begin(&text);
        let token = CancellationToken::new();
        let running = self.run(runtime, secrets, session, &watched, token.clone());
        let reply = interruptible_by(move || token.cancel(), running).await.0;
        let (content, is_error, ledger) = match reply {
            Ok(ToolReply { result: Ok(output), ledger }) => (output.content, output.is_error, ledger),
            Ok(ToolReply { result: Err(error), ledger }) => (vec![Content::text(error.to_string())], true, ledger),
            Err(failure) => (vec![Content::text(failure.message())], true, None),
        };
        let output = content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n");
        watched.end(content, is_error, ledger);
        self.is_shared.then(|| ShellCommand { text: &text, ..*self }.message(&output))
    }

    /// Runs the command.
    ///
    /// # Errors
    /// There is no tool that runs commands.
    async fn run(
        &self,
        runtime: &Arc<Runtime>,
        secrets: &Secrets,
        session: Arc<str>,
        watched: &Watched,
        token: CancellationToken,
    ) -> Result<ToolReply> {
        let tools = RedactedTools::new(runtime.clone(), secrets.clone());
        let tool = tools.definitions().into_iter().find(|tool| tool.name == TOOL).ok_or_else(|| {
            Failure::failed(format!("no tool `{TOOL}`, which runs `!` commands")).hint(
                "the built-in plugin `shell` provides it: see `enabled` and `[plugins.shell.grants]` in the config",
            )
        })?;
        let call = ToolInvocation {
            call_id: watched.call_id.clone(),
            session_id: session,
            run_id: "".into(),
            tool,
            arguments: json!({ "command": self.text }),
            at_most: Authority::ALL,
            agents: None,
            services: None,
            token,
        };
        Ok(tools.call(call, watched).await)
    }

    /// Returns the message about the command for the model.
    fn message(&self, output: &str) -> Message {
        let block = |language: &str, text: &str| {
            let fence = "`".repeat(longest_fence(text).max(2) + 1);
            format!("{fence}{language}\n{}\n{fence}", text.trim_end())
        };
        let (command, output) = (block("sh", self.text), block("", output));
        Message::labelled(
            format!("! {}", self.text),
            format!("I ran this command:\n\n{command}\n\nIt printed:\n\n{output}"),
        )
    }
}

/// A command that the user watches.
struct Watched {
    call_id: String,
    voice: Voice,
}

impl Watched {
    fn begin(&self, command: &str) {
        let Voice::Screen(said) = &self.voice else { return };
        let arguments = json!({ "command": command });
        said.push_input(Input::OwnCall(ToolCall::new(self.call_id.clone(), "!", arguments.clone())));
        let (call_id, tool) = (self.call_id.clone(), TOOL.to_owned());
        said.push_input(Input::OwnEvent(EventKind::ToolExecutionStart { call_id, tool, arguments }));
    }

    fn end(&self, content: Vec<Content>, is_error: bool, ledger: Option<Ledger>) {
        match &self.voice {
            Voice::Lines { .. } => {
                let output = content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n");
                print_line(&indented(&without_colours(&output)));
            }
            Voice::Screen(said) => said.push_input(Input::OwnEvent(EventKind::ToolExecutionEnd {
                call_id: self.call_id.clone(),
                tool: TOOL.to_owned(),
                is_error,
                content,
                details: None,
                display: Display::Plain,
                ledger,
                child_run_id: None,
            })),
        }
    }

    fn event(&self, kind: EventKind) {
        if let Voice::Screen(said) = &self.voice {
            said.push_input(Input::OwnEvent(kind));
        }
    }
}

impl ToolProgress for Watched {
    fn report(&self, message: String) {
        self.event(EventKind::Progress { call_id: self.call_id.clone(), text: message });
    }

    fn update(&self, partial: Vec<Content>) {
        self.event(EventKind::ToolExecutionUpdate { call_id: self.call_id.clone(), partial });
    }
}

/// Returns the length of the longest run of backticks.
fn longest_fence(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Messages that wait for the next one of the user, whether it begins a run or steers one.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingMessages(Arc<Mutex<Vec<Message>>>);

impl PendingMessages {
    pub(crate) fn add(&self, messages: impl IntoIterator<Item = Message>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
    }

    pub(crate) fn take_messages(&self) -> Vec<Message> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_mark_keeps_a_command_from_the_model() {
        assert_eq!(ShellCommand::parse("! ls -l "), Some(ShellCommand { text: "ls -l", is_shared: true }));
        assert_eq!(ShellCommand::parse("!!ls"), Some(ShellCommand { text: "ls", is_shared: false }));
        assert_eq!((ShellCommand::parse("!"), ShellCommand::parse("ls")), (None, None));
    }

    #[test]
    fn output_cannot_end_its_block() {
        let command = ShellCommand { text: "cat a.md", is_shared: true };
        let Message::User(message) = command.message("```\nnot the end\n````\n") else { unreachable!() };
        let text = message.content[0].as_text().unwrap();
        assert!(text.ends_with("`````\n```\nnot the end\n````\n`````"), "{text}");
    }
}
