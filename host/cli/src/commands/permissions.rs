//! `pinion permissions`, and `/permissions` in a conversation: the rules about calls.

use crate::invocation::Invocation;
use crate::output::{Text, json, line, note, print, text, written};
use clap::{Args, Subcommand};
use pinion_agent::approval::ApprovalMode;
use pinion_app::approve::permissions::CallPermissions;
use pinion_app::approve::stored::StoredRule;
use pinion_app::failure::{Failure, Result, Status};
use pinion_permissions::{Judgement, RuleSource, Verdict};
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

fn unreadable(permissions: &CallPermissions, error: std::io::Error) -> Failure {
    let path = permissions.stored().path().display();
    Failure::failed(format!("could not read the rules in `{path}`")).because(error)
}

/// Returns the stored rules of this project and of all projects, with their places in the file.
fn stored_here(permissions: &CallPermissions) -> std::io::Result<Vec<StoredRule>> {
    Ok(permissions.stored().read()?.into_iter().filter(|rule| permissions.is_here(rule)).collect())
}

/// Returns the number of a stored rule, counted from 1.
fn number(stored: &[StoredRule], rule: &pinion_permissions::Effective) -> Option<usize> {
    let is_it =
        |entry: &StoredRule| entry.rule.trim() == rule.rule.text() && Verdict::from(entry.effect) == rule.verdict;
    let is_stored = matches!(&rule.source, RuleSource::File(path) if path.ends_with("permissions.toml"));
    stored.iter().position(is_it).filter(|_| is_stored).map(|at| at + 1)
}

fn row(stored: &[StoredRule], rule: &pinion_permissions::Effective) -> String {
    let number = number(stored, rule).map(|number| number.to_string()).unwrap_or_default();
    format!("{number:>3} {:<5} {:<40} {}", rule.verdict.to_string(), rule.rule.text(), rule.source)
}

fn remove(permissions: &CallPermissions, number: usize) -> Result<StoredRule> {
    let removed = permissions.stored().update(|rules| {
        let mut here = (0..rules.len()).filter(|at| permissions.is_here(&rules[*at]));
        here.nth(number.checked_sub(1)?).map(|at| rules.remove(at))
    });
    let removed = removed.map_err(|error| unreadable(permissions, error))?;
    removed.ok_or_else(|| {
        let failure = Failure::new(Status::Usage, format!("no rule {number}"));
        failure.hint("`pinion permissions list` shows the numbers; edit rules of the config in its file")
    })
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

/// Returns the rules that [`in_conversation`] can remove, with their numbers.
pub(crate) fn removable(permissions: &CallPermissions) -> Vec<(usize, String)> {
    let stored = stored_here(permissions).unwrap_or_default();
    stored.into_iter().enumerate().map(|(at, rule)| (at + 1, line(rule.rule.trim()))).collect()
}

/// Lists the rules, or removes one, for a conversation. Returns Markdown.
pub(crate) fn in_conversation(permissions: &CallPermissions, arguments: &str) -> String {
    if let Some(number) = arguments.strip_prefix("remove").map(str::trim) {
        return match number.parse().map_err(|_| Failure::usage("`/permissions remove` takes a number")) {
            Ok(number) => match remove(permissions, number) {
                Ok(removed) => format!("removed `{}`", line(&removed.rule)),
                Err(failure) => failure.message(),
            },
            Err(failure) => failure.message(),
        };
    }
    let listed = permissions.rules().and_then(|rules| Ok((rules, stored_here(permissions)?)));
    match listed {
        Ok((rules, stored)) => {
            let own = rules.iter().filter(|rule| rule.source != RuleSource::BuiltIn);
            let rows: Vec<String> = own.map(|rule| line(&row(&stored, rule)).replace('`', "'")).collect();
            let none = if rows.is_empty() { "no rules of your own\n" } else { "" };
            format!("```\n{none}{}\n```\n`/permissions remove N` removes a numbered rule.", rows.join("\n"))
        }
        Err(error) => unreadable(permissions, error).message(),
    }
}
