//! The rows of a question, and the change that a call of `write` would make.

use crate::output::terminal::{Style, mark};
use crate::output::{Text, break_words, fit, row, split_at_width, text};
use pinion_agent::approval::Question;
use pinion_agent::text::{exposed, one_line};
use pinion_app::files::repository::{Links, Repository};
use pinion_checkpoints::unified;
use serde_json::Value;
use std::path::{Component, Path};

/// Characters of a digest on the screen.
const DIGEST: usize = 12;
/// Indentation of the further lines of an argument.
const INDENT: &str = "    ";

/// A question, copied out of the call that it is about.
pub(super) struct CallQuestion {
    tool: String,
    plugin: String,
    component: String,
    label: String,
    can: String,
    /// Remarks of plugins' hooks after [`exposed`], one line each.
    notes: Vec<String>,
    arguments: Vec<Argument>,
    /// Reason for the question.
    reason: Option<String>,
    /// A rule that would allow such calls in this project.
    rule: Option<String>,
    /// The limit of an approval for the session, for example a host.
    reach: Option<String>,
    /// The sub-agent that asks.
    agent: Option<String>,
}

/// An argument after [`exposed`].
struct Argument {
    name: String,
    value: String,
}

impl CallQuestion {
    pub(super) fn from_question(question: &Question<'_>, reason: Option<String>, rule: Option<String>) -> Self {
        let (tool, source) = (question.tool, &question.tool.source);
        Self {
            tool: exposed(&one_line(&tool.name, 128)),
            plugin: exposed(&one_line(&source.plugin, 128)),
            component: one_line(&source.digest, DIGEST).trim_end_matches('…').to_owned(),
            label: exposed(&one_line(&tool.label, 100)),
            can: tool.authority.effect_names().join(", "),
            notes: question.notes.iter().map(|note| exposed(&note.to_string()).replace('\n', "⏎")).collect(),
            arguments: arguments(&question.call.arguments),
            reason: reason.map(|reason| exposed(&one_line(&reason, 300))),
            rule: rule.map(|rule| exposed(&one_line(&rule, 100))),
            reach: None,
            agent: question.agent.map(|name| exposed(&one_line(name, 64)).replace('`', "'")),
        }
    }

    /// Adds the limits of an approval for the session.
    pub(super) fn reaching(self, reach: Option<String>) -> Self {
        Self { reach: reach.map(|reach| exposed(&one_line(&reach, 100))), ..self }
    }

    pub(super) fn has_rule(&self) -> bool {
        self.rule.is_some()
    }

    /// Renders the question itself, in the words of the host except for the label, which is quoted.
    pub(super) fn head(&self, style: Style, columns: usize) -> Vec<Text> {
        let plugin = match self.plugin.as_str() {
            "" => "none (part of pinion)".to_owned(),
            name => format!("{name} ({})", self.component),
        };
        let can = if self.can.is_empty() { "touches nothing" } else { &self.can };
        let asker = self.agent.as_ref().map(|name| format!("agent `{name}` asks: ")).unwrap_or_default();
        let mut rows = host_rows("? ", &format!("{asker}allow this call? It {can}"), columns);
        rows.first_mut().into_iter().for_each(|row| *row = style.bold(&*row));
        rows.extend(host_rows("  ", &format!("tool:   {}", self.tool), columns));
        rows.extend(host_rows("  ", &format!("plugin: {plugin}"), columns));
        if !self.label.is_empty() && self.label != self.tool {
            let label = fit(&self.label, columns.saturating_sub(13).max(8));
            rows.push(style.dim(text!("  label:  \"{}\"", label)));
        }
        rows
    }

    /// Renders the notes of plugins and all arguments of the call, wrapped to the width of the terminal.
    pub(super) fn rows(&self, style: Style, columns: usize) -> Vec<Text> {
        let mut rows = Vec::new();
        self.notes.iter().for_each(|note| sentence_rows(&mut rows, note, style, columns));
        // The reason quotes the command.
        let reasons = self.reason.iter().map(|reason| format!("asked because {reason}"));
        reasons.for_each(|reason| sentence_rows(&mut rows, &reason, style, columns));
        for argument in &self.arguments {
            let lines: Vec<&str> = argument.value.split('\n').collect();
            let (first, more) = match lines.as_slice() {
                [line] => (format!("{}: {line}", argument.name), &[][..]),
                lines => (format!("{}:", argument.name), lines),
            };
            guest_rows(&mut rows, &first, style, columns);
            more.iter().for_each(|line| guest_rows(&mut rows, &format!("{INDENT}{line}"), style, columns));
        }
        rows
    }

    /// Renders the keys that answer, and the meaning of "always".
    pub(super) fn choice(&self, style: Style, columns: usize) -> Vec<Text> {
        let keys = text!(
            "  [{}] yes   [{}] always in this session   [{}] no   [{}] no, and say why",
            style.bold("y"),
            style.bold("a"),
            style.bold("n"),
            style.bold("r")
        );
        let rule = self.rule.as_ref().map(|rule| text!("  [{}] always `{}` in this project", style.bold("p"), rule));
        let to = self.reach.as_ref().map(|reach| format!(" to {reach}")).unwrap_or_default();
        let scope = format!("a: do not ask again for {}{to} in this session, unless it can do more", self.tool);
        let mut rows: Vec<Text> = host_rows("  ", &scope, columns).into_iter().map(|row| style.dim(row)).collect();
        rows.extend(rule);
        rows.push(keys);
        rows
    }
}

/// Renders the rows below a page that is not the last.
pub(super) fn more(shown: usize, all: usize, style: Style, columns: usize) -> Vec<Text> {
    let progress = format!("{shown} of {all} rows; space or ↓ for more, End for all, n for no");
    host_rows("  ", &progress, columns).into_iter().map(|row| style.yellow(row)).collect()
}

/// Renders the reason why a key did not count.
pub(super) fn hint(hint: &'static str, style: Style, columns: usize) -> Vec<Text> {
    host_rows("  ", hint, columns).into_iter().map(|row| style.yellow(row)).collect()
}

fn arguments(arguments: &Value) -> Vec<Argument> {
    let name = |name: &str| exposed(&serde_json::to_string(name).unwrap_or_default());
    let value = |value: &Value| match value {
        Value::String(text) => exposed(text),
        other => exposed(&serde_json::to_string_pretty(other).unwrap_or_default()),
    };
    match arguments {
        Value::Object(fields) if fields.is_empty() => {
            vec![Argument { name: "arguments".to_owned(), value: "none".to_owned() }]
        }
        Value::Object(fields) => {
            fields.iter().map(|(field, content)| Argument { name: name(field), value: value(content) }).collect()
        }
        other => vec![Argument { name: "arguments".to_owned(), value: value(other) }],
    }
}

/// Wraps a line of the host, indenting all rows but the first.
pub(super) fn host_rows(mark: &'static str, line: &str, columns: usize) -> Vec<Text> {
    let mut rows = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (row, more) = break_words(rest, columns.saturating_sub(5).max(8));
        rows.push(text!("{}{}", if rows.is_empty() { mark } else { "    " }, row));
        rest = more;
    }
    rows
}

/// Wraps a sentence behind a bar at words, with a different bar on continuation rows.
fn sentence_rows(rows: &mut Vec<Text>, line: &str, style: Style, columns: usize) {
    let (mut rest, mut bar) = (line, "│");
    while !rest.is_empty() {
        let (part, more) = break_words(rest, columns.saturating_sub(3).max(8));
        rows.push(text!("{} {}", style.dim(mark(bar)), row(part)));
        (rest, bar) = (more, "┊");
    }
}

/// Wraps a line of a model or a guest behind a bar, with a different bar on continuation rows.
pub(super) fn guest_rows(rows: &mut Vec<Text>, line: &str, style: Style, columns: usize) {
    let columns = columns.saturating_sub(3).max(8);
    let (mut rest, mut is_first) = (line, true);
    while is_first || !rest.is_empty() {
        let (part, more) = split_at_width(rest, columns);
        let bar = if is_first { "│" } else { "┊" };
        rows.push(text!("{} {}", style.dim(mark(bar)), row(part)));
        (rest, is_first) = (more, false);
    }
}

/// Bytes of a file that is compared.
const MAX_BYTES: u64 = 1024 * 1024;

/// Returns the unified diff between a file of the workspace and the content that a call would give it; for a new file,
/// all content is added. Returns `None` for other calls, and for files that are not text.
pub fn change(workspace: &Path, question: &Question<'_>) -> Option<String> {
    let arguments = &question.call.arguments;
    let is_write = question.tool.name == "write" && arguments.as_object().is_some_and(|fields| fields.len() == 2);
    let path = Path::new(arguments["path"].as_str().filter(|_| is_write)?);
    let path = path.strip_prefix(workspace).unwrap_or(path);
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)).then_some(())?;
    let new = arguments["content"].as_str()?;
    let Some(old) = Repository::at(workspace).ok()?.read(path, Links::Inside, MAX_BYTES).ok()? else {
        return Some(unified("", new)).filter(|added| !added.is_empty());
    };
    let old = String::from_utf8(old).ok().filter(|old| !old.contains('\0'))?;
    Some(unified(&old, new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::width;
    use pinion_agent::Authority;
    use pinion_agent::content::ToolCall;
    use pinion_agent::definition::{Execution, ToolDefinition};
    use pinion_agent::serde_json::json;

    fn asked(arguments_: Value, label: &str) -> CallQuestion {
        CallQuestion {
            tool: "wipe".to_owned(),
            plugin: "red".to_owned(),
            component: "0123456789ab".to_owned(),
            label: exposed(&one_line(label, 100)),
            can: "writes files".to_owned(),
            notes: Vec::new(),
            arguments: arguments(&arguments_),
            reason: None,
            rule: None,
            reach: None,
            agent: None,
        }
    }

    fn tool(name: &str) -> ToolDefinition {
        ToolDefinition {
            name: name.into(),
            label: String::new(),
            description: String::new(),
            input_schema: json!({}),
            guidelines: Vec::new(),
            authority: Authority::default(),
            execution: Execution::Sequential,
            source: Default::default(),
        }
    }

    fn rows(arguments: Value, columns: usize) -> Vec<String> {
        asked(arguments, "").rows(Style::Plain, columns).iter().map(|row| row.as_str().to_owned()).collect()
    }

    #[test]
    fn every_argument_is_shown_completely_behind_a_bar() {
        let command = format!("{}\nrm -rf /", "echo\n".repeat(60));
        let rows = rows(json!({ "command": command, "timeout": 5 }), 80);
        assert!(rows.iter().any(|row| row.contains("rm -rf /")) && rows.last().unwrap().contains("\"timeout\": 5"));
        assert!(rows.iter().all(|row| row.starts_with(['│', '┊'])), "{rows:?}");
    }

    #[test]
    fn long_lines_are_wrapped_and_not_cut() {
        let rows = rows(json!({ "command": format!("{}END", "x".repeat(500)) }), 40);
        assert!(rows.len() > 10 && rows.iter().all(|row| width(row) < 40), "{rows:?}");
        assert!(rows.last().unwrap().ends_with("END") && rows[1].starts_with('┊'));
    }

    #[test]
    fn argument_names_cannot_forge_rows() {
        let rows = rows(json!({ "a\n? allow\x1b[2J": "b\n\"path\": README.md\r\u{202e}" }), 80);
        assert_eq!(rows[0], "│ \"a\\n? allow\\u001b[2J\":");
        assert_eq!(rows[2], "│     \"path\": README.md␍\\u{202e}");
    }

    #[test]
    fn note_of_a_plugin_cannot_forge_an_argument() {
        let notes = vec![exposed("plugin `red` asks: fine\n\"path\": README.md\x1b[2J").replace('\n', "⏎")];
        let asked = CallQuestion { notes, ..asked(json!({ "path": ".env" }), "") };
        let rows: Vec<String> = asked.rows(Style::Plain, 80).iter().map(|row| row.as_str().to_owned()).collect();
        assert_eq!(
            rows,
            [
                "│ plugin `red` asks: fine⏎\"path\": README.md\\u001b[2J".replace("\\u001b", "␛"),
                "│ \"path\": .env".into()
            ]
        );
    }

    #[test]
    fn label_is_one_quoted_row() {
        let asked = asked(json!({}), &format!("Read\n\n? Continue (reads){}", "!".repeat(500)));
        let head: Vec<String> = asked.head(Style::Plain, 40).iter().map(|row| row.as_str().to_owned()).collect();
        assert_eq!(head.iter().filter(|row| row.starts_with('?')).count(), 1, "{head:?}");
        assert!(head.iter().all(|row| width(row) <= 40), "{head:?}");
        assert!(
            head.contains(&"  tool:   wipe".to_owned()) && head.contains(&"  plugin: red (0123456789ab)".to_owned())
        );
    }

    #[test]
    fn question_of_a_sub_agent_names_the_agent() {
        let first = |asked: &CallQuestion| asked.head(Style::Plain, 80)[0].as_str().to_owned();
        assert_eq!(first(&asked(json!({}), "")), "? allow this call? It writes files");
        let asked = |agent: &str| {
            let (call, tool) = (ToolCall::new("1", "wipe", json!({})), tool("wipe"));
            CallQuestion::from_question(
                &Question { call: &call, tool: &tool, notes: &[], agent: Some(agent) },
                None,
                None,
            )
        };
        assert_eq!(first(&asked("reviewer")), "? agent `reviewer` asks: allow this call? It touches nothing");
        assert_eq!(first(&asked("a` b\n? x")), "? agent `a' b ⏎ ? x` asks: allow this call? It touches nothing");
    }

    #[test]
    fn meaning_of_always_is_stated() {
        let rows = asked(json!({}), "").choice(Style::Plain, 120);
        assert!(rows[0].as_str().contains("do not ask again for wipe in this session"), "{rows:?}");
    }

    #[test]
    fn new_file_is_all_added() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("old.txt"), "one\n").unwrap();
        let tool = tool("write");
        let changed = |path: &str, content: &str| {
            let call = ToolCall::new("1", "write", json!({ "path": path, "content": content }));
            change(directory.path(), &Question { call: &call, tool: &tool, notes: &[], agent: None })
        };
        assert_eq!(changed("new.txt", "one\ntwo\n").unwrap(), "@@ -0,0 +1,2 @@\n+one\n+two\n");
        assert_eq!(changed("old.txt", "one\ntwo\n").unwrap(), "@@ -1 +1,2 @@\n one\n+two\n");
        assert_eq!((changed("empty.txt", ""), changed("../out.txt", "x")), (None, None));
    }
}
