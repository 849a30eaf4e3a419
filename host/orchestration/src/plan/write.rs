//! Formats plans as Markdown files.

use super::line::{Fence, escaped};
use super::{Plan, Step};
use std::fmt::Write as _;

/// Replaces an empty title.
const UNTITLED: &str = "Untitled";

impl Plan {
    /// Formats the plan as Markdown. [`Plan::parse`] returns the normal form of this plan from it.
    pub fn to_markdown(&self) -> String {
        let plan = self.clone().normal();
        let mut out = format!("# {}\n", plan.title);
        write_text(&mut out, &plan.summary);
        for (index, step) in plan.steps.iter().enumerate() {
            // Writing to a string never fails.
            let _ = write!(out, "\n## Step {}: {}\nStatus: {}\n", index + 1, step.title, step.status);
            write_text(&mut out, &step.description);
            write_list(&mut out, "Files", &step.files);
            write_list(&mut out, "Done when", &step.acceptance);
        }
        out
    }

    /// Returns the normal form of the plan.
    pub(super) fn normal(self) -> Self {
        let steps = self.steps.into_iter().map(Step::normal).collect();
        Self { title: title(&self.title), summary: text(&self.summary), steps }
    }
}

impl Step {
    fn normal(self) -> Self {
        let items = |items: Vec<String>| items.into_iter().map(|item| one_line(&item)).filter(|item| !item.is_empty());
        Self {
            title: title(&self.title),
            description: text(&self.description),
            files: items(self.files).collect(),
            acceptance: items(self.acceptance).collect(),
            status: self.status,
        }
    }
}

fn title(text: &str) -> String {
    Some(one_line(text)).filter(|line| !line.is_empty()).unwrap_or_else(|| UNTITLED.to_owned())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Normalizes line endings to line feeds and removes surrounding blank lines.
fn text(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = text.split('\n').collect();
    let is_filled = |line: &&str| !line.trim().is_empty();
    let first = lines.iter().position(is_filled);
    let last = lines.iter().rposition(is_filled);
    first.zip(last).map(|(first, last)| lines[first..=last].join("\n")).unwrap_or_default()
}

fn write_list(out: &mut String, label: &str, items: &[String]) {
    if !items.is_empty() {
        let _ = write!(out, "\n{label}:\n");
        items.iter().for_each(|item| out.extend(["- ", item, "\n"]));
    }
}

/// Writes a text of normal form. Code blocks remain unchanged; the start of an unclosed code block is escaped.
fn write_text(out: &mut String, text: &str) {
    if text.is_empty() {
        return;
    }
    out.push('\n');
    let lines: Vec<&str> = text.split('\n').collect();
    let ends = ends_of_fences(&lines);
    let mut open = None;
    for (line, longest_after) in lines.into_iter().zip(ends) {
        match open {
            Some(fence) => {
                out.push_str(line);
                open = Some(fence).filter(|fence: &Fence| !fence.is_closed_by(line));
            }
            None => {
                open = Fence::opened_by(line).filter(|fence| fence.length <= longest_after.run_length(fence.mark));
                let written = if open.is_some() { line.to_owned() } else { escaped(line) };
                out.push_str(&written);
            }
        }
        out.push('\n');
    }
}

/// Lengths of the longest closing fences.
#[derive(Clone, Copy, Default)]
struct Longest {
    backticks: usize,
    tildes: usize,
}

impl Longest {
    fn run_length(self, mark: char) -> usize {
        if mark == '`' { self.backticks } else { self.tildes }
    }

    fn with(self, line: &str) -> Self {
        let length = |mark| Some(line.trim()).filter(|text| text.chars().all(|c| c == mark)).map_or(0, str::len);
        Self { backticks: self.backticks.max(length('`')), tildes: self.tildes.max(length('~')) }
    }
}

/// Returns, for each line, the longest closing fences among the lines after it.
fn ends_of_fences(lines: &[&str]) -> Vec<Longest> {
    let mut ends = vec![Longest::default(); lines.len()];
    for at in (1..lines.len()).rev() {
        ends[at - 1] = ends[at].with(lines[at]);
    }
    ends
}
