//! `pinion permissions`: the rules about calls.

use clap::{Args, Subcommand};
use pinion_agent::approval::ApprovalMode;
use pinion_app::failure::{Failure, Result, Status};
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, json, line, note, print, text, written};
use pinion_conversation::permission_rules::{number, remove, row, stored_here, unreadable};
use pinion_permissions::{Judgement, RuleSource};
use serde_json::json;

/// The arguments of `pinion permissions`.
#[derive(Debug, Args)]
pub(crate) struct Permissions {
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: PermissionsCommand,
}

#[derive(Debug, Subcommand)]
enum PermissionsCommand {
    /// List the rules in effect here, with their files
    List {
        /// List the built-in rules as well
        #[arg(long)]
        all: bool,
    },
    /// Remove a rule that an answer to a question has added
    Remove {
        /// Number of the rule in the list
        number: usize,
    },
    /// Explain whether a command or a tool of the agent would run, in the mode of the config
    Test {
        /// Command, as the agent would write it, or a tool as `mcp:SERVER/TOOL` or `tool:NAME`
        command: String,
        /// Decide as if there were no sandbox
        #[arg(long)]
        no_sandbox: bool,
    },
}

impl Permissions {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        let permissions = &base.permissions;
        let failed = |error: std::io::Error| unreadable(permissions, error);
        match self.command {
            PermissionsCommand::List { all } => {
                let rules = permissions.rules().map_err(failed)?;
                let stored = stored_here(permissions).map_err(failed)?;
                let shown = rules.iter().filter(|rule| all || rule.source != RuleSource::BuiltIn);
                if self.json {
                    let entry = |rule: &pinion_permissions::Effective| {
                        json!({
                            "effect": rule.verdict.to_string(), "rule": rule.rule.text(), "source": rule.source.to_string(),
                            "number": number(&stored, rule),
                        })
                    };
                    return written(json(&shown.map(entry).collect::<Vec<_>>()));
                }
                let mut lines = Text::default();
                shown.for_each(|rule| lines.line(text!("{}", line(&row(&stored, rule)))));
                if lines.as_str().is_empty() {
                    note(&text!("no rules of your own (--all lists the built-in ones)"));
                }
                print(&lines)
            }
            PermissionsCommand::Remove { number } => {
                let removed = remove(permissions, number)?;
                if self.json {
                    return written(json(&json!({ "removed": removed.rule })));
                }
                print(&text!("removed `{}`\n", line(&removed.rule)))
            }
            PermissionsCommand::Test { command, no_sandbox } => {
                if !no_sandbox {
                    base.tell_permissions();
                }
                let mode = base.config.approve;
                let of_tool = permissions.judge_tool(mode, command.trim()).transpose().map_err(failed)?;
                let names_a_tool = ["mcp:", "tool:"].iter().any(|form| command.trim().starts_with(form));
                if names_a_tool && of_tool.is_none() {
                    let failure = Failure::new(Status::Usage, format!("`{}` names no tool", command.trim()));
                    return Err(failure.hint("write `mcp:SERVER/TOOL` or `tool:NAME`; a rule may name a whole server"));
                }
                let is_sandboxed = of_tool.is_none() && mode == ApprovalMode::Smart && permissions.is_sandboxed();
                let judgement = of_tool.unwrap_or_else(|| permissions.judge(mode, &command, None));
                if self.json {
                    return written(json(&as_json(&judgement, mode, is_sandboxed)));
                }
                print(&explanation(&judgement, mode, is_sandboxed))
            }
        }
    }
}

fn as_json(judgement: &Judgement, mode: ApprovalMode, is_sandboxed: bool) -> serde_json::Value {
    let parts = judgement.parts.iter().map(
        |part| json!({ "command": part.text, "verdict": part.verdict.to_string(), "reason": part.reason.to_string() }),
    );
    json!({ "verdict": judgement.verdict.to_string(), "mode": mode.name(), "sandbox": is_sandboxed, "parts": parts.collect::<Vec<_>>() })
}

fn explanation(judgement: &Judgement, mode: ApprovalMode, is_sandboxed: bool) -> Text {
    let place = if is_sandboxed { ", in the sandbox" } else { "" };
    let mut lines = text!("{} (mode {}{})\n", judgement.verdict.to_string(), mode.name(), place);
    for part in &judgement.parts {
        let about = format!("  {:<5} `{}`: {}", part.verdict.to_string(), part.text, part.reason);
        lines.line(text!("{}", line(&about)));
    }
    lines
}
