//! A session as one page for a browser.
//!
//! Everything that comes from the session goes through [`Text`] or [`prose`]. The page also forbids itself whatever it
//! does not need: scripts, and anything from elsewhere.

use super::diff;
use super::escape::{Text, number};
use super::outline::{Item, Turn};
use super::prose::prose;
use super::{About, BranchTitle, Document, Totals};
use crate::header::Header;
use crate::id::EntryId;
use crate::record::Record;
use jiff::Timestamp;
use pinion_protocol::{
    AssistantMessage, COMPACTION_MESSAGE, Content, ExtensionMessage, Image, StopReason, Thinking, ToolCall,
    ToolResultMessage, UserMessage,
};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write};

const STYLE: &str = include_str!("page.css");
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// Pictures that a browser shows and that hold nothing but a picture.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// How much of an argument is shown on a line: characters in a summary, bytes below it.
const BRIEF: usize = 120;
/// Arguments that tell best what a call is about.
const TELLING: [&str; 10] =
    ["command", "pattern", "query", "url", "prompt", "task", "path", "file", "file_path", "description"];

/// Writes the page.
pub(super) struct Html<'w, W> {
    out: &'w mut W,
    is_in_branch: bool,
}

impl<'w, W: Write> Html<'w, W> {
    pub(super) fn new(out: &'w mut W) -> Self {
        Self { out, is_in_branch: false }
    }

    fn end_branch(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_in_branch) {
            writeln!(self.out, "</section>")?;
        }
        Ok(())
    }
}

impl<W: Write> Document for Html<'_, W> {
    fn begin(&mut self, about: &About) -> io::Result<()> {
        let title = Text(&about.title);
        writeln!(self.out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
        writeln!(self.out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
        writeln!(self.out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
        writeln!(self.out, "<meta name=\"referrer\" content=\"no-referrer\">")?;
        writeln!(self.out, "<meta name=\"color-scheme\" content=\"light dark\">")?;
        writeln!(self.out, "<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>")?;
        writeln!(self.out, "<header>\n<h1>{title}</h1>\n<dl>")?;
        facts(self.out, about)?;
        writeln!(self.out, "</dl>\n</header>")?;
        for reason in &about.left_out {
            writeln!(self.out, "<p class=\"note\">Left out: {}</p>", Text(reason))?;
        }
        if about.branches.len() > 1 { contents(self.out, &about.branches) } else { Ok(()) }
    }

    fn begin_branch(&mut self, branch: &BranchTitle) -> io::Result<()> {
        self.end_branch()?;
        self.is_in_branch = true;
        let BranchTitle { number, info, title } = branch;
        writeln!(self.out, "<section class=\"branch\" id=\"branch-{number}\">")?;
        write!(self.out, "<h2>Branch {number}")?;
        if info.is_current {
            write!(self.out, " <span class=\"badge\">current</span>")?;
        }
        // The page is named after the first one.
        match number {
            1 => writeln!(self.out, "</h2>")?,
            _ => writeln!(self.out, " <span class=\"dim\">{}</span></h2>", Text(title))?,
        }
        match info.from {
            Some(from) => writeln!(self.out, "<p class=\"note\">Leaves at <a href=\"#e-{from}\">entry {from}</a>.</p>"),
            None => writeln!(self.out),
        }
    }

    fn item(&mut self, item: &Item) -> io::Result<()> {
        match item {
            Item::Prompt { entry, message } => prompt(self.out, *entry, message),
            Item::Turn(turn) => reply(self.out, turn),
            Item::Result { entry, message } => lone_result(self.out, *entry, message),
            Item::Extension { entry, message } => extension(self.out, *entry, message),
            Item::Record { entry, time, record } => self::record(self.out, *entry, *time, record),
            Item::Unseen { entry, kind: None } => writeln!(self.out, "<a id=\"e-{entry}\"></a>"),
            Item::Unseen { entry, kind: Some(kind) } => {
                writeln!(self.out, "<p class=\"note\" id=\"e-{entry}\">Of a newer version: {}</p>", Text(kind))
            }
            Item::LeftOut { reason } => writeln!(self.out, "<p class=\"note\">Left out: {}</p>", Text(reason)),
        }
    }

    fn fork(&mut self, branches: &[&BranchTitle]) -> io::Result<()> {
        for branch in branches {
            let (number, title) = (branch.number, Text(&branch.title));
            let link = format!("<a href=\"#branch-{number}\">Branch {number}</a>");
            writeln!(self.out, "<p class=\"fork\">{link} leaves here: {title}</p>")?;
        }
        Ok(())
    }

    fn end(&mut self, totals: &Totals) -> io::Result<()> {
        self.end_branch()?;
        let (prompts, replies, calls) = (number(totals.prompts), number(totals.replies), number(totals.calls));
        write!(self.out, "<footer>{prompts} prompts · {replies} replies · {calls} tool calls")?;
        let usage = totals.usage;
        if usage.total() > 0 {
            let input = number(usage.context());
            write!(self.out, " · {input} tokens in, {} out", number(usage.output))?;
        }
        if let Some(cost) = totals.cost {
            write!(self.out, " · ${:.4}", cost.total())?;
        }
        writeln!(self.out, "</footer>\n</main>\n</body>\n</html>")
    }
}

fn facts(out: &mut impl Write, about: &About) -> io::Result<()> {
    writeln!(out, "<dt>Session</dt><dd><code>{}</code></dd>", Text(&about.id))?;
    let Some(Header { workspace, created, agent_id, forked_from, spawned_by, .. }) = &about.header else {
        return Ok(());
    };
    writeln!(out, "<dt>Workspace</dt><dd><code>{}</code></dd>", Text(&workspace.to_string_lossy()))?;
    writeln!(out, "<dt>Begun</dt><dd>{}</dd>", day_and_time(*created))?;
    if let Some(agent_id) = agent_id {
        writeln!(out, "<dt>Agent</dt><dd><code>{}</code></dd>", Text(agent_id))?;
    }
    if let Some(from) = forked_from {
        let session = Text(&from.session);
        writeln!(out, "<dt>Forked from</dt><dd><code>{session}</code>, entry {}</dd>", from.entry)?;
    }
    if let Some(by) = spawned_by {
        let (session, tool, call) = (Text(&by.session), Text(&by.tool), Text(&by.call_id));
        writeln!(out, "<dt>Sub-agent of</dt><dd><code>{session}</code>, call <code>{call}</code> of {tool}</dd>")?;
    }
    Ok(())
}

fn contents(out: &mut impl Write, branches: &[BranchTitle]) -> io::Result<()> {
    writeln!(out, "<nav>\n<h2>Branches</h2>\n<ol>")?;
    for BranchTitle { number, info, title } in branches {
        let current = if info.is_current { " <span class=\"badge\">current</span>" } else { "" };
        writeln!(out, "<li><a href=\"#branch-{number}\">{}</a>{current}</li>", Text(title))?;
    }
    writeln!(out, "</ol>\n</nav>")
}

fn prompt(out: &mut impl Write, entry: EntryId, message: &UserMessage) -> io::Result<()> {
    writeln!(out, "<article class=\"user\" id=\"e-{entry}\">")?;
    meta(out, "User", entry, message.timestamp, "")?;
    for part in &message.content {
        match part {
            Content::Text { text } if text.trim().is_empty() => {}
            Content::Text { text } => writeln!(out, "<div class=\"said\">{}</div>", Text(text.trim_end()))?,
            other => other_part(out, other)?,
        }
    }
    writeln!(out, "</article>")
}

fn reply(out: &mut impl Write, turn: &Turn) -> io::Result<()> {
    let Turn { entry, reply, .. } = turn;
    writeln!(out, "<article class=\"assistant\" id=\"e-{entry}\">")?;
    meta(out, "Assistant", *entry, reply.timestamp, &spent(reply))?;
    let mut calls = turn.calls().into_iter();
    for part in &reply.content {
        match part {
            Content::Text { text } if text.trim().is_empty() => {}
            Content::Text { text } => writeln!(out, "<div class=\"prose\">\n{}</div>", prose(text))?,
            Content::ToolCall(_) => {
                if let Some((call, result)) = calls.next() {
                    tool(out, call, result)?;
                }
            }
            other => other_part(out, other)?,
        }
    }
    ending(out, reply)?;
    writeln!(out, "</article>")
}

/// Who asked whom for how much.
fn spent(reply: &AssistantMessage) -> String {
    let mut text = format!("{}/{}", reply.provider, reply.model);
    if reply.usage.total() > 0 {
        let usage = &reply.usage;
        // Writing to a string does not fail.
        let _ = write!(text, " · {} in, {} out", number(usage.context()), number(usage.output));
    }
    if let Some(cost) = reply.cost {
        let _ = write!(text, " · ${:.4}", cost.total());
    }
    text
}

fn ending(out: &mut impl Write, reply: &AssistantMessage) -> io::Result<()> {
    let how = match reply.stop_reason {
        StopReason::Stop | StopReason::ToolUse => return Ok(()),
        StopReason::Length => "Cut off at the output limit",
        StopReason::Error => "Failed",
        StopReason::Aborted => "Aborted",
    };
    match &reply.error {
        Some(error) => writeln!(out, "<p class=\"failure\">{how}: {}</p>", Text(error)),
        None => writeln!(out, "<p class=\"failure\">{how}</p>"),
    }
}

fn meta(out: &mut impl Write, who: &str, entry: EntryId, time: Timestamp, more: &str) -> io::Result<()> {
    write!(out, "<div class=\"meta\"><b>{who}</b> <span>{}</span> <span>{}</span> ", clock(time), Text(more))?;
    writeln!(out, "<a href=\"#e-{entry}\">#{entry}</a></div>")
}

fn other_part(out: &mut impl Write, part: &Content) -> io::Result<()> {
    match part {
        Content::Image(image) => picture(out, image),
        Content::Thinking(thinking) => self::thinking(out, thinking),
        Content::Text { text } => writeln!(out, "<pre>{}</pre>", Text(text)),
        Content::ToolCall(call) => tool(out, call, None),
    }
}

fn picture(out: &mut impl Write, image: &Image) -> io::Result<()> {
    match PICTURES.iter().find(|known| **known == image.media_type) {
        Some(kind) => writeln!(out, "<img alt=\"picture\" src=\"data:{kind};base64,{}\">", image.base64()),
        None => {
            let (kind, length) = (Text(&image.media_type), number(image.data.len() as u64));
            writeln!(out, "<p class=\"note\">Picture: {kind}, {length} bytes</p>")
        }
    }
}

fn thinking(out: &mut impl Write, thinking: &Thinking) -> io::Result<()> {
    if thinking.text.trim().is_empty() {
        return Ok(());
    }
    writeln!(out, "<details class=\"thinking\"><summary>Thinking</summary>\n{}</details>", prose(&thinking.text))
}

fn tool(out: &mut impl Write, call: &ToolCall, result: Option<&(EntryId, ToolResultMessage)>) -> io::Result<()> {
    let class = match result {
        Some((_, result)) if result.is_error => "tool failed",
        Some(_) => "tool",
        None => "tool unanswered",
    };
    let (name, brief) = (Text(&call.name), brief(call));
    write!(out, "<details class=\"{class}\"><summary><b>{name}</b> <code>{}</code>", Text(&brief))?;
    writeln!(out, " <span class=\"dim\">{}</span></summary>", Text(&came_of(result)))?;
    arguments(out, call)?;
    if let Some((entry, result)) = result {
        write!(out, "<a id=\"e-{entry}\"></a>")?;
        result_parts(out, result)?;
    }
    writeln!(out, "</details>")
}

/// The argument that tells best what a call is about, on one line.
fn brief(call: &ToolCall) -> String {
    let text = match (&call.partial, &call.arguments) {
        (Some(partial), _) => partial.clone(),
        (None, Value::Object(fields)) => {
            let told = TELLING.iter().find_map(|name| fields.get(*name)?.as_str());
            let told = told.or_else(|| fields.values().find_map(Value::as_str));
            told.map_or_else(String::new, str::to_owned)
        }
        (None, other) => other.to_string(),
    };
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = words.char_indices().nth(BRIEF) {
        words.truncate(at);
        words.push('…');
    }
    words
}

/// The result in a few words.
fn came_of(result: Option<&(EntryId, ToolResultMessage)>) -> String {
    let Some((_, result)) = result else { return "no result".to_owned() };
    let texts = || result.content.iter().filter_map(Content::as_text);
    match texts().find(|text| diff::is_diff(text)).map(diff::counts) {
        _ if result.is_error => "failed".to_owned(),
        Some((added, removed)) => format!("+{added} −{removed}"),
        None => match texts().map(|text| text.lines().count()).sum() {
            0 => String::new(),
            1 => "1 line".to_owned(),
            lines => format!("{} lines", number(lines as u64)),
        },
    }
}

fn arguments(out: &mut impl Write, call: &ToolCall) -> io::Result<()> {
    let Value::Object(fields) = &call.arguments else {
        let text = call.partial.clone().unwrap_or_else(|| call.arguments.to_string());
        return writeln!(out, "<pre class=\"argument\">{}</pre>", Text(&text));
    };
    for (name, value) in fields {
        let text = value.as_str().map_or_else(|| format!("{value:#}"), str::to_owned);
        write!(out, "<div class=\"key\">{}", Text(name))?;
        match text.len() <= BRIEF && !text.contains('\n') {
            true => writeln!(out, " <code>{}</code></div>", Text(&text))?,
            false => writeln!(out, "</div><pre class=\"argument\">{}</pre>", Text(&text))?,
        }
    }
    Ok(())
}

fn result_parts(out: &mut impl Write, result: &ToolResultMessage) -> io::Result<()> {
    if let Some(child) = &result.child_loop_id {
        writeln!(out, "<p class=\"note\">Sub-agent: loop <code>{}</code></p>", Text(child))?;
    }
    writeln!(out, "<div class=\"key\">{}</div>", if result.is_error { "error" } else { "result" })?;
    for part in &result.content {
        match part {
            Content::Text { text } if diff::is_diff(text) => writeln!(out, "{}", diff::html(text))?,
            Content::Text { text } => writeln!(out, "<pre>{}</pre>", Text(text.trim_end()))?,
            other => other_part(out, other)?,
        }
    }
    Ok(())
}

fn lone_result(out: &mut impl Write, entry: EntryId, message: &ToolResultMessage) -> io::Result<()> {
    writeln!(out, "<article class=\"assistant\" id=\"e-{entry}\">")?;
    meta(out, "Result", entry, message.timestamp, &message.tool_name)?;
    result_parts(out, message)?;
    writeln!(out, "</article>")
}

fn extension(out: &mut impl Write, entry: EntryId, message: &ExtensionMessage) -> io::Result<()> {
    let summary = message.data.get("summary").and_then(Value::as_str);
    match summary.filter(|_| message.kind == COMPACTION_MESSAGE) {
        Some(summary) => writeln!(
            out,
            "<details class=\"compaction\" id=\"e-{entry}\"><summary>Compaction: from here on, the model sees a summary \
            of what came before</summary>\n{}</details>",
            prose(summary)
        ),
        None => writeln!(
            out,
            "<details class=\"thinking\" id=\"e-{entry}\"><summary>{}</summary>\n<pre>{}</pre></details>",
            Text(&message.kind),
            Text(&format!("{:#}", message.data))
        ),
    }
}

fn record(out: &mut impl Write, entry: EntryId, time: Timestamp, record: &Record) -> io::Result<()> {
    let text = record.describe();
    writeln!(out, "<p class=\"record\" id=\"e-{entry}\">{} {}</p>", clock(time), Text(&text))
}

fn day_and_time(time: Timestamp) -> String {
    format!("<time datetime=\"{time}\">{}</time>", time.strftime("%Y-%m-%d %H:%M UTC"))
}

fn clock(time: Timestamp) -> String {
    format!("<time datetime=\"{time}\" title=\"{time}\">{}</time>", time.strftime("%H:%M:%S"))
}
