//! Asks the user whether a call may run.

use crate::show::print;
use futures_util::future::BoxFuture;
use pinion_agent::Approver;
use pinion_agent::approval::{Decision, Question};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

/// Shows a call and takes the next input line as the answer; only `y` approves.
pub struct AskUser {
    lines: Mutex<mpsc::Receiver<String>>,
}

impl AskUser {
    /// Creates an approver that reads answers from these lines.
    pub fn new(lines: mpsc::Receiver<String>) -> Self {
        Self { lines: Mutex::new(lines) }
    }
}

impl Approver for AskUser {
    fn decide<'a>(&'a self, question: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        Box::pin(async move {
            let can = question.tool.authority.effect_names().join(", ");
            let notes: String = question.notes.iter().map(|note| format!("\n  {note}")).collect();
            // Shows all arguments: a user cannot approve hidden arguments.
            let asked = format!("? {} ({can}) {:#}{notes}\n  y/n ", question.tool.name, question.call.arguments);
            let answer = match print(&asked) {
                Ok(()) => self.lines.lock().await.recv().await,
                Err(_) => None,
            };
            match answer.as_deref().map(str::trim) {
                Some("y" | "Y" | "yes") => Decision::Allow,
                _ => Decision::Deny { reason: "the user said no".to_owned() },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_agent::content::ToolCall;
    use pinion_agent::definition::Execution;
    use pinion_agent::{Authority, ToolDefinition};
    use serde_json::json;

    /// Converts an answer to a decision; `None` is the end of input.
    async fn decision(said: Option<&str>) -> Decision {
        let (sender, lines) = mpsc::channel(1);
        if let Some(said) = said {
            sender.send(said.to_owned()).await.unwrap();
        }
        drop(sender);
        let tool = ToolDefinition {
            name: "bash".into(),
            label: "Bash".into(),
            description: String::new(),
            input_schema: json!({}),
            guidelines: Vec::new(),
            authority: Authority::ALL,
            execution: Execution::Parallel,
            source: Default::default(),
        };
        let call = ToolCall::new("1", "bash", json!({ "command": "ls" }));
        AskUser::new(lines)
            .decide(Question { call: &call, tool: &tool, notes: &[], agent: None }, &CancellationToken::new())
            .await
    }

    #[tokio::test]
    async fn only_y_approves() {
        for yes in ["y", "Y", " yes "] {
            assert_eq!(decision(Some(yes)).await, Decision::Allow);
        }
        for no in [Some("n"), Some(""), Some("yeah?"), None] {
            assert!(matches!(decision(no).await, Decision::Deny { .. }), "{no:?}");
        }
    }
}
