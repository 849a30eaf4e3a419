//! A session as Markdown.
//!
//! What comes from outside stands in code, whose fence is longer than any in it, in quotes, or, when a model wrote it,
//! as the Markdown that it is: without HTML, without pictures from elsewhere, and with its last fence closed, so that
//! nothing reaches beyond its message.

use super::escape::number;
use super::outline::{Item, Turn};
use super::prose::OPTIONS;
use super::{About, BranchTitle, Document, Totals};
use crate::printable::printable;
use pinion_protocol::{
    AssistantMessage, COMPACTION_MESSAGE, Content, ExtensionMessage, Image, StopReason, ToolCall, ToolResultMessage,
    UserMessage,
};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;

/// How often a text is looked at again after something in it was defused, which may bring something else to light.
const ROUNDS: usize = 4;
/// Longer texts are shown as code: nobody writes so much, and reading Markdown takes time.
const MAX_MARKDOWN: usize = 256 << 10;

/// Writes the document.
pub(super) struct Markdown<'w, W> {
    out: &'w mut W,
}

impl<'w, W: Write> Markdown<'w, W> {
    pub(super) fn new(out: &'w mut W) -> Self {
        Self { out }
    }
}

impl<W: Write> Document for Markdown<'_, W> {
    fn begin(&mut self, about: &About) -> io::Result<()> {
        writeln!(self.out, "# {}\n", plain(&about.title))?;
        writeln!(self.out, "- Session: {}", code(&about.id))?;
        if let Some(header) = &about.header {
            writeln!(self.out, "- Workspace: {}", code(&header.workspace.to_string_lossy()))?;
            writeln!(self.out, "- Begun: {}", header.created)?;
            if let Some(from) = &header.forked_from {
                writeln!(self.out, "- Forked from: {}, entry {}", code(&from.session), from.entry)?;
            }
            if let Some(by) = &header.spawned_by {
                writeln!(self.out, "- Sub-agent of: {}, call {}", code(&by.session), code(&by.call_id))?;
            }
        }
        for reason in &about.left_out {
            writeln!(self.out, "- Left out: {}", code(reason))?;
        }
        writeln!(self.out)?;
        if about.branches.len() > 1 {
            for branch in &about.branches {
                let current = if branch.info.is_current { " (current)" } else { "" };
                writeln!(self.out, "{}. {}{current}", branch.number, link(branch))?;
            }
            writeln!(self.out)?;
        }
        Ok(())
    }

    fn begin_branch(&mut self, branch: &BranchTitle) -> io::Result<()> {
        writeln!(self.out, "## Branch {}\n", branch.number)?;
        match branch.info.from {
            Some(from) => writeln!(self.out, "*Leaves at entry {from}.*\n"),
            None => Ok(()),
        }
    }

    fn item(&mut self, item: &Item) -> io::Result<()> {
        match item {
            Item::Prompt { entry, message } => {
                writeln!(self.out, "### User, {} (entry {entry})\n", message.timestamp)?;
                prompt(self.out, message)
            }
            Item::Turn(turn) => reply(self.out, turn),
            Item::Result { entry, message } => {
                writeln!(self.out, "### Result, {} (entry {entry})\n", message.timestamp)?;
                result(self.out, message)
            }
            Item::Extension { message, .. } => extension(self.out, message),
            Item::Record { record, .. } => note(self.out, &record.describe()),
            Item::Unseen { kind: None, .. } => Ok(()),
            Item::Unseen { kind: Some(kind), .. } => note(self.out, &format!("Of a newer version: {kind}")),
            Item::LeftOut { reason } => note(self.out, &format!("Left out: {reason}")),
        }
    }

    fn fork(&mut self, branches: &[&BranchTitle]) -> io::Result<()> {
        branches.iter().try_for_each(|branch| writeln!(self.out, "*Here leaves* {}\n", link(branch)))
    }

    fn end(&mut self, totals: &Totals) -> io::Result<()> {
        let Totals { prompts, replies, calls, usage, cost } = totals;
        write!(self.out, "---\n\n{prompts} prompts, {replies} replies, {calls} tool calls")?;
        if usage.total() > 0 {
            write!(self.out, ", {} tokens in, {} out", number(usage.context()), number(usage.output))?;
        }
        if let Some(cost) = cost {
            write!(self.out, ", ${:.4}", cost.total())?;
        }
        writeln!(self.out)
    }
}

fn link(branch: &BranchTitle) -> String {
    format!("[Branch {0}](#branch-{0}): {1}", branch.number, plain(&branch.title))
}

fn note(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "*{}*\n", plain(text))
}

/// Quoted, so that it cannot be taken for what others say.
fn prompt(out: &mut impl Write, message: &UserMessage) -> io::Result<()> {
    for part in &message.content {
        match part {
            Content::Text { text } if text.trim().is_empty() => {}
            Content::Text { text } => {
                for line in prose(&without_tabs(text)).lines() {
                    writeln!(out, "{}", format!("> {line}").trim_end())?;
                }
                writeln!(out)?;
            }
            other => other_part(out, other)?,
        }
    }
    Ok(())
}

/// Tabs as spaces: behind the mark of a quote, a tab is another number of columns.
fn without_tabs(text: &str) -> Cow<'_, str> {
    if !text.contains('\t') {
        return Cow::Borrowed(text);
    }
    let (mut spaced, mut column) = (String::with_capacity(text.len() + 16), 0);
    for c in text.chars() {
        let width = if c == '\t' { 4 - column % 4 } else { 1 };
        column = if c == '\n' { 0 } else { column + width };
        if c == '\t' { spaced.extend(std::iter::repeat_n(' ', width)) } else { spaced.push(c) }
    }
    Cow::Owned(spaced)
}

fn reply(out: &mut impl Write, turn: &Turn) -> io::Result<()> {
    let Turn { entry, reply, .. } = turn;
    let model = code(&format!("{}/{}", reply.provider, reply.model));
    writeln!(out, "### Assistant, {model}, {} (entry {entry})\n", reply.timestamp)?;
    let mut calls = turn.calls().into_iter();
    for part in joined(&reply.content) {
        match &*part {
            Content::Text { text } if text.trim().is_empty() => {}
            Content::Text { text } => writeln!(out, "{}\n", prose(text))?,
            Content::ToolCall(_) => {
                if let Some((call, result)) = calls.next() {
                    tool(out, call, result.map(|(_, result)| result))?;
                }
            }
            other => other_part(out, other)?,
        }
    }
    ending(out, reply)
}

/// The parts, with texts that follow each other in one: what one text leaves open, such as a list, the next would go on
/// with.
fn joined(content: &[Content]) -> Vec<Cow<'_, Content>> {
    let mut parts: Vec<Cow<'_, Content>> = Vec::with_capacity(content.len());
    for part in content {
        match (parts.last_mut(), part) {
            (Some(last), Content::Text { text: more }) if last.as_text().is_some() => {
                if let Content::Text { text } = last.to_mut() {
                    text.push_str("\n\n");
                    text.push_str(more);
                }
            }
            _ => parts.push(Cow::Borrowed(part)),
        }
    }
    parts
}

fn ending(out: &mut impl Write, reply: &AssistantMessage) -> io::Result<()> {
    let how = match reply.stop_reason {
        StopReason::Stop | StopReason::ToolUse => return Ok(()),
        StopReason::Length => "Cut off at the output limit",
        StopReason::Error => "Failed",
        StopReason::Aborted => "Aborted",
    };
    match &reply.error {
        Some(error) => note(out, &format!("{how}: {error}")),
        None => note(out, how),
    }
}

fn tool(out: &mut impl Write, call: &ToolCall, answer: Option<&ToolResultMessage>) -> io::Result<()> {
    writeln!(out, "**Call of** {}\n", code(&call.name))?;
    match &call.partial {
        Some(partial) => fenced(out, "", partial)?,
        None => fenced(out, "json", &format!("{:#}", call.arguments))?,
    }
    answer.map_or(Ok(()), |answer| result(out, answer))
}

fn result(out: &mut impl Write, result: &ToolResultMessage) -> io::Result<()> {
    writeln!(out, "**{} of** {}\n", if result.is_error { "Error" } else { "Result" }, code(&result.tool_name))?;
    if let Some(child) = &result.child_loop_id {
        note(out, &format!("Sub-agent: loop {child}"))?;
    }
    for part in &result.content {
        match part {
            Content::Text { text } if super::diff::is_diff(text) => fenced(out, "diff", text)?,
            other => other_part(out, other)?,
        }
    }
    Ok(())
}

fn other_part(out: &mut impl Write, part: &Content) -> io::Result<()> {
    match part {
        Content::Text { text } => fenced(out, "", text),
        Content::Image(image) => picture(out, image),
        Content::Thinking(thinking) if thinking.text.trim().is_empty() => Ok(()),
        Content::Thinking(thinking) => {
            note(out, "Thinking")?;
            fenced(out, "", &thinking.text)
        }
        Content::ToolCall(call) => tool(out, call, None),
    }
}

fn picture(out: &mut impl Write, image: &Image) -> io::Result<()> {
    match image.media_type.strip_prefix("image/").filter(|kind| kind.bytes().all(|b| b.is_ascii_alphanumeric())) {
        Some(kind) => writeln!(out, "![picture](data:image/{kind};base64,{})\n", image.base64()),
        None => note(out, &format!("Picture: {}, {} bytes", image.media_type, image.data.len())),
    }
}

fn extension(out: &mut impl Write, message: &ExtensionMessage) -> io::Result<()> {
    let summary = message.data.get("summary").and_then(Value::as_str);
    match summary.filter(|_| message.kind == COMPACTION_MESSAGE) {
        Some(summary) => {
            note(out, "Compaction: from here on, the model sees this summary of what came before")?;
            fenced(out, "", summary)
        }
        None => {
            writeln!(out, "**Extension** {}\n", code(&message.kind))?;
            fenced(out, "json", &format!("{:#}", message.data))
        }
    }
}

/// Code that ends where it should.
fn fenced(out: &mut impl Write, language: &str, text: &str) -> io::Result<()> {
    let text = printable(text);
    let fence = "`".repeat(longest_run(&text, '`').max(2) + 1);
    writeln!(out, "{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// Code in a line.
fn code(text: &str) -> String {
    let text = printable(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return "—".to_owned();
    }
    match longest_run(&text, '`') {
        0 => format!("`{text}`"),
        run => format!("{0} {text} {0}", "`".repeat(run + 1)),
    }
}

/// Text in a line, in which nothing means anything.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for word in printable(text).split_whitespace() {
        if !plain.is_empty() {
            plain.push(' ');
        }
        for c in word.chars() {
            if "\\`*_[]<>#!|~&".contains(c) {
                plain.push('\\');
            }
            plain.push(c);
        }
    }
    plain
}

fn longest_run(text: &str, of: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == of { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Markdown that stays within itself; code when that cannot be had.
fn prose(markdown: &str) -> String {
    let text = printable(markdown.trim_end()).into_owned();
    defused(text).unwrap_or_else(|| {
        let mut block = Vec::new();
        // Writing to a vector does not fail.
        let _ = fenced(&mut block, "", markdown);
        String::from_utf8_lossy(&block).trim_end().to_owned()
    })
}

fn defused(mut text: String) -> Option<String> {
    if text.len() > MAX_MARKDOWN {
        return None;
    }
    for _ in 0..ROUNDS {
        let found = Found::in_text(&text);
        if found.edits.is_empty() {
            text.push_str(&found.closing);
            return Some(text);
        }
        for (at, instead) in found.edits.into_iter().rev() {
            text.replace_range(at..at + 1, instead);
        }
    }
    None
}

/// What in a text would reach beyond it.
#[derive(Default)]
struct Found {
    /// What to put in the place of the character at this byte, in order.
    edits: Vec<(usize, &'static str)>,
    /// What ends the last code block, when nothing in the text does.
    closing: String,
}

impl Found {
    fn in_text(text: &str) -> Self {
        let (mut found, mut depth) = (Self::default(), 0_usize);
        for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
            match event {
                Event::Html(_) | Event::InlineHtml(_) => found.html(text, range),
                Event::Start(Tag::Image { .. }) => found.edits.push((range.start, "\\!")),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) if depth == 0 => found.code_block(text, range),
                _ => {}
            }
            match event {
                Event::Start(_) => depth += 1,
                Event::End(_) => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        found.edits.sort_unstable();
        found.edits.dedup_by_key(|(at, _)| *at);
        found
    }

    fn html(&mut self, text: &str, range: Range<usize>) {
        let tags = text[range.clone()].match_indices('<').map(|(at, _)| (range.start + at, "&lt;"));
        self.edits.extend(tags);
    }

    /// A fence that nothing closes takes everything after it for code.
    fn code_block(&mut self, text: &str, range: Range<usize>) {
        let block = text[range].trim_end();
        let mut lines = block.lines();
        let opening = lines.next().unwrap_or_default().trim_start();
        let Some(mark) = opening.chars().next() else { return };
        let fence: String = opening.chars().take_while(|c| *c == mark).collect();
        let is_closing = |line: &str| {
            let (indent, run) = (line.len() - line.trim_start().len(), line.trim());
            indent < 4 && run.len() >= fence.len() && run.chars().all(|c| c == mark)
        };
        self.closing = if lines.next_back().is_some_and(is_closing) { String::new() } else { format!("\n{fence}") };
    }
}
