//! A plugin in Rust without the SDK: the contract alone, through `wit_bindgen`.

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::pinion::plugin::{commands, tools};
use pinion::plugin::types::{
    CallContext, CommandDefinition, Content, Display, Effects, ErrorKind, Execution, ToolDefinition, ToolError, ToolOutput,
};
use pinion::plugin::workspace::{self, WorkspaceError};
use std::collections::BTreeMap;

struct Plug;

impl tools::Guest for Plug {
    fn list_tools() -> Result<Vec<ToolDefinition>, String> {
        Ok(vec![ToolDefinition {
            name: "repeated_lines".into(),
            label: "Repeated lines".into(),
            description: "Finds the lines that a file contains more than once, with their line numbers.".into(),
            input_schema: r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#.into(),
            guidelines: vec![],
            effects: Effects::READS,
            execution: Execution::Parallel,
            extra: None,
        }])
    }

    fn call_tool(_: CallContext, _: String, input: String) -> Result<ToolOutput, ToolError> {
        let input: serde_json::Value = serde_json::from_str(&input).map_err(|e| failed(ErrorKind::InvalidInput, e))?;
        let text = workspace::read_text(input["path"].as_str().unwrap_or_default()).map_err(from_workspace)?;
        let mut lines: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            lines.entry(line).or_default().push(at + 1);
        }
        let mut repeated: Vec<_> = lines.into_iter().filter(|(_, at)| at.len() > 1).collect();
        repeated.sort_by_key(|(_, at)| at[0]);
        let text: String = repeated.iter().map(|(line, at)| format!("{at:?} {line}\n")).collect();
        Ok(ToolOutput {
            content: vec![Content::Text(if text.is_empty() { "none".into() } else { text })],
            details: Some(serde_json::json!({ "repeated": repeated.len() }).to_string()),
            display: Display::Plain,
            extra: None,
        })
    }
}

fn failed(kind: ErrorKind, message: impl ToString) -> ToolError {
    let message = message.to_string();
    ToolError { kind, message, retryable: false, content: vec![], details: None, display: Display::Plain, extra: None }
}

fn from_workspace(error: WorkspaceError) -> ToolError {
    match error {
        WorkspaceError::Denied(text) => failed(ErrorKind::Denied, text),
        WorkspaceError::NotFound(text) => failed(ErrorKind::NotFound, text),
        WorkspaceError::InvalidPattern(text) => failed(ErrorKind::InvalidInput, text),
        WorkspaceError::Cancelled => failed(ErrorKind::Cancelled, "cancelled"),
        WorkspaceError::Io(text) => failed(ErrorKind::Failed, text),
    }
}

impl commands::Guest for Plug {
    fn list_commands() -> Result<Vec<CommandDefinition>, String> {
        Ok(vec![CommandDefinition {
            name: "repeated".into(),
            description: "Ask about repeated lines".into(),
            argument_hint: Some("<file>".into()),
            extra: None,
        }])
    }

    fn complete_argument(_: String, _: String) -> Vec<commands::Completion> {
        vec![]
    }

    fn run_command(_: CallContext, _: String, input: String) -> Result<Vec<commands::Action>, String> {
        Ok(vec![commands::Action::Submit(format!("Which lines are repeated in {input}, and why?"))])
    }
}

export!(Plug);
