//! The rows of calls and their results.

use pinion_agent::Content;
use pinion_agent::arguments::summary;
use pinion_agent::tool::Ledger;
use pinion_console::output::terminal::{Style, mark};
use pinion_console::output::{PartExt as _, Text, fit, size, text};
use pinion_tui::{Excerpt, without_colours};
use serde_json::Value;

/// Maximum lines of a result.
const RESULT_LINES: usize = 6;
/// Maximum changed lines of a difference between two versions of a file.
const CHANGED_LINES: usize = 12;
/// Maximum columns of a line of a call or result.
const LINE_CHARACTERS: usize = 160;

/// Returns whether a tool says in its details that it did not succeed, as `bash` does for a failed program.
pub(super) fn has_failed(details: Option<&Value>) -> bool {
    details.and_then(|details| details.get("success")).and_then(Value::as_bool) == Some(false)
}

/// Returns the rows of a failure that say most.
pub(super) fn failure(text: &str, style: Style) -> Vec<Text> {
    let excerpt = Excerpt::of_failure(text);
    let row = |line: &str| style.dim(fit(line, room(6)));
    let first = excerpt.first.iter().copied().map(row);
    let more = excerpt.more().map(|more| style.dim(more));
    let rows: Vec<Text> =
        first.chain(more).chain(excerpt.hints.iter().chain(&excerpt.last).copied().map(row)).collect();
    if rows.is_empty() { vec![Text::default()] } else { rows }
}

/// Returns the most telling line of a failure: the last line before the note on a program's end, or the first line if
/// the tool ran no program.
pub(super) fn failed_line(text: &str) -> &str {
    let is_ending = |line: &&str| line.starts_with('[') && line.ends_with(']');
    let mut said = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("hint: "));
    match said.clone().any(|line| line.starts_with("[exit code ")) {
        true => said.rfind(|line| !is_ending(line)).or_else(|| text.lines().next()),
        false => text.lines().next(),
    }
    .unwrap_or_default()
}

/// Returns the first rows of a result, or the changed ones of a difference, and the number of the other rows.
pub(super) fn excerpt(text: &str, style: Style) -> (Vec<Text>, usize) {
    let is_changed =
        |line: &&str| line.starts_with(['+', '-']) && !line.starts_with("--- ") && !line.starts_with("+++ ");
    if text.starts_with("--- ") && text.lines().any(|line| line.starts_with("@@ ")) {
        let changed: Vec<&str> = text.lines().filter(is_changed).collect();
        let row = |line: &&str| {
            let row = fit(line, room(6));
            if line.starts_with('+') { style.green(row) } else { style.red(row) }
        };
        return (changed.iter().take(CHANGED_LINES).map(row).collect(), changed.len().saturating_sub(CHANGED_LINES));
    }
    let rows: Vec<Text> = text.lines().take(RESULT_LINES).map(|line| style.dim(fit(line, room(6)))).collect();
    if rows.is_empty() {
        return (vec![Text::default()], 0);
    }
    (rows, text.lines().count().saturating_sub(RESULT_LINES))
}

pub(super) fn describe_content(content: &Content) -> String {
    match content {
        Content::Text { text } => without_colours(text).into_owned(),
        Content::Image(image) => format!("[{}, {} bytes]", image.media_type, image.data.len()),
        Content::Thinking(_) | Content::ToolCall(_) => String::new(),
    }
}

/// Returns the columns left in a row, within bounds.
pub(super) fn room(used: usize) -> usize {
    size().map_or(LINE_CHARACTERS, |(columns, _)| columns.saturating_sub(used + 1).clamp(10, LINE_CHARACTERS))
}

/// Renders a call in one row.
pub(super) fn call(tool: &str, arguments: &Value, style: Style, columns: usize) -> Text {
    text!("{} {}", style.cyan(mark("●")), call_label(tool, arguments, style, columns))
}

/// Renders a call for the row above its result.
pub(super) fn call_label(tool: &str, arguments: &Value, style: Style, columns: usize) -> Text {
    let tool = fit(tool, 64);
    let rest = columns.saturating_sub(pinion_console::output::width(tool.as_str()) + 1).max(10);
    text!("{} {}", style.bold(tool), fit(&summary(arguments), rest))
}

/// Renders a ledger in one line.
pub fn account(ledger: &Ledger) -> Text {
    ledger.to_string().text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(text: &str) -> (Vec<String>, usize) {
        let (rows, left) = excerpt(text, Style::Plain);
        (rows.iter().map(|row| row.as_str().to_owned()).collect(), left)
    }

    #[test]
    fn difference_shows_its_changed_lines() {
        let text = "--- a\n+++ a\n@@ -1,9 +1,9 @@\n 1\n 2\n 3\n 4\n 5\n-old\n+new\n 7";
        assert_eq!(shown(text), (vec!["-old".to_owned(), "+new".to_owned()], 0));
        let many = format!("--- a\n+++ a\n@@ -1 +1 @@\n{}", "+x\n".repeat(20));
        assert_eq!((shown(&many).0.len(), shown(&many).1), (CHANGED_LINES, 8));
        assert_eq!(
            shown("--- not a difference\n+++ at all"),
            (vec!["--- not a difference".into(), "+++ at all".into()], 0)
        );
    }

    #[test]
    fn failure_shows_its_end() {
        let text = format!("{}FAILED: left 1 right 2\n[exit code 101]\nhint: run it again", "ok\n".repeat(200));
        let rows: Vec<_> = failure(&text, Style::Plain).iter().map(|row| row.as_str().to_owned()).collect();
        let expected =
            ["ok", "ok", "… 197 more lines", "ok", "FAILED: left 1 right 2", "[exit code 101]", "hint: run it again"];
        assert_eq!(rows, expected);
        assert_eq!(failed_line(&text), "FAILED: left 1 right 2");
        assert_eq!(failed_line("no file `a`\nsee b"), "no file `a`");
        assert_eq!((failed_line("[exit code 3]"), failed_line("")), ("[exit code 3]", ""));
    }

    #[test]
    fn failed_program_is_known_by_its_details() {
        assert!(has_failed(Some(&json!({ "exit_code": 3, "success": false }))));
        assert!(!has_failed(Some(&json!({ "success": true }))) && !has_failed(Some(&json!(3))) && !has_failed(None));
    }

    #[test]
    fn edits_are_counted_in_a_call() {
        let edits = json!({ "path": "a.rs", "edits": [{ "old_text": "a", "new_text": "b" }] });
        assert_eq!(call("edit", &edits, Style::Plain, 80).as_str(), "● edit a.rs 1 edit");
    }
}
