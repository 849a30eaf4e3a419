//! A session as one page for a browser.
//!
//! All text of the session goes through [`EscapedText`] or [`prose`]. The policy of the page also forbids scripts and every
//! resource from elsewhere.

use super::escape::{EscapedText, diff_html, number};
use super::outline::OutlineCall;
use super::prose::prose;
use super::walk::Renderer;
use super::{About, BranchTitle, Document, FactPiece, Totals};
use crate::id::EntryId;
use crate::record::{CallLedger, Record};
use jiff::Timestamp;
use pinion_protocol::diff::{counts, is_diff};
use pinion_protocol::{AssistantMessage, Content, ExtensionMessage, Image, ToolCall, ToolResultMessage, UserMessage};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write};

const STYLE: &str = include_str!("page.css");
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// The types of pictures that browsers show and that can contain nothing but a picture.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The most of an argument on one line: characters in a summary, bytes below it.
const BRIEF: usize = 120;
/// The arguments that describe a call best, in this order.
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
        let title = EscapedText(&about.title);
        writeln!(self.out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
        writeln!(self.out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
        writeln!(self.out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
        writeln!(self.out, "<meta name=\"referrer\" content=\"no-referrer\">")?;
        writeln!(self.out, "<meta name=\"color-scheme\" content=\"light dark\">")?;
        writeln!(self.out, "<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>")?;
        writeln!(self.out, "<header>\n<h1>{title}</h1>\n<dl>")?;
        for (name, pieces) in &about.facts {
            writeln!(self.out, "<dt>{name}</dt><dd>{}</dd>", pieces.iter().map(render_piece).collect::<String>())?;
        }
        writeln!(self.out, "</dl>\n</header>")?;
        for reason in &about.skipped {
            writeln!(self.out, "<p class=\"note\">Skipped: {}</p>", EscapedText(reason))?;
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
        // The title of the page comes from the first branch.
        match number {
            1 => writeln!(self.out, "</h2>")?,
            _ => writeln!(self.out, " <span class=\"dim\">{}</span></h2>", EscapedText(title))?,
        }
        match info.from {
            Some(from) => writeln!(self.out, "<p class=\"note\">Leaves at <a href=\"#e-{from}\">entry {from}</a>.</p>"),
            None => writeln!(self.out),
        }
    }

    fn fork(&mut self, branches: &[&BranchTitle]) -> io::Result<()> {
        for branch in branches {
            let (number, title) = (branch.number, EscapedText(&branch.title));
            let link = format!("<a href=\"#branch-{number}\">Branch {number}</a>");
            writeln!(self.out, "<p class=\"fork\">{link} leaves here: {title}</p>")?;
        }
        Ok(())
    }

    fn end(&mut self, totals: &Totals) -> io::Result<()> {
        self.end_branch()?;
        write!(self.out, "<footer>{}", totals.counts().join(" · "))?;
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

impl<W: Write> Renderer for Html<'_, W> {
    fn begin_prompt(&mut self, entry: EntryId, prompt: &UserMessage) -> io::Result<()> {
        writeln!(self.out, "<article class=\"user\" id=\"e-{entry}\">")?;
        meta(self.out, "User", entry, prompt.timestamp, "")
    }

    fn prompt_text(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "<div class=\"said\">{}</div>", EscapedText(text.trim_end()))
    }

    fn begin_reply(&mut self, entry: EntryId, reply: &AssistantMessage) -> io::Result<()> {
        writeln!(self.out, "<article class=\"assistant\" id=\"e-{entry}\">")?;
        meta(self.out, "Assistant", entry, reply.timestamp, &spent(reply))
    }

    fn reply_text(&mut self, texts: &[&str]) -> io::Result<()> {
        texts.iter().try_for_each(|text| writeln!(self.out, "<div class=\"prose\">\n{}</div>", prose(text)))
    }

    fn ending(&mut self, how: &str, error: Option<&str>) -> io::Result<()> {
        match error {
            Some(error) => writeln!(self.out, "<p class=\"failure\">{how}: {}</p>", EscapedText(error)),
            None => writeln!(self.out, "<p class=\"failure\">{how}</p>"),
        }
    }

    fn begin_call(&mut self, call: &OutlineCall<'_>) -> io::Result<()> {
        let class = match call.result {
            Some((_, result)) if has_failed(result) => "tool failed",
            Some(_) => "tool",
            None => "tool unanswered",
        };
        let (name, brief) = (EscapedText(&call.call.name), brief(call.call));
        write!(self.out, "<details class=\"{class}\"><summary><b>{name}</b> <code>{}</code>", EscapedText(&brief))?;
        writeln!(self.out, " <span class=\"dim\">{}</span></summary>", EscapedText(&outcome(call)))?;
        arguments(self.out, call.call)?;
        call.result.map_or(Ok(()), |(entry, _)| write!(self.out, "<a id=\"e-{entry}\"></a>"))
    }

    fn end_call(&mut self) -> io::Result<()> {
        writeln!(self.out, "</details>")
    }

    fn begin_lone_result(&mut self, entry: EntryId, result: &ToolResultMessage) -> io::Result<()> {
        writeln!(self.out, "<article class=\"assistant\" id=\"e-{entry}\">")?;
        meta(self.out, "Result", entry, result.timestamp, &result.tool_name)
    }

    fn begin_result(&mut self, result: &ToolResultMessage) -> io::Result<()> {
        if let Some(child) = &result.child_run_id {
            writeln!(self.out, "<p class=\"note\">Sub-agent: run <code>{}</code></p>", EscapedText(child))?;
        }
        writeln!(self.out, "<div class=\"key\">{}</div>", if result.is_error { "error" } else { "result" })
    }

    fn result_text(&mut self, text: &str) -> io::Result<()> {
        match is_diff(text) {
            true => writeln!(self.out, "{}", diff_html(text)),
            false => writeln!(self.out, "<pre>{}</pre>", EscapedText(text.trim_end())),
        }
    }

    fn ledger(&mut self, entry: EntryId, ledger: &CallLedger) -> io::Result<()> {
        writeln!(self.out, "<p class=\"note\" id=\"e-{entry}\">{}</p>", EscapedText(&ledger.ledger.to_string()))
    }

    fn thinking(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "<details class=\"thinking\"><summary>Thinking</summary>\n{}</details>", prose(text))
    }

    fn image(&mut self, image: &Image) -> io::Result<()> {
        match PICTURES.iter().find(|known| **known == image.media_type) {
            Some(kind) => writeln!(self.out, "<img alt=\"picture\" src=\"data:{kind};base64,{}\">", image.base64()),
            None => {
                let (kind, length) = (EscapedText(&image.media_type), number(image.data.len() as u64));
                writeln!(self.out, "<p class=\"note\">Picture: {kind}, {length} bytes</p>")
            }
        }
    }

    fn end_message(&mut self) -> io::Result<()> {
        writeln!(self.out, "</article>")
    }

    fn compaction(&mut self, entry: EntryId, summary: &str) -> io::Result<()> {
        let title = "Compaction: from here on, the model sees a summary of the earlier conversation";
        let summary = prose(summary);
        writeln!(
            self.out,
            "<details class=\"compaction\" id=\"e-{entry}\"><summary>{title}</summary>\n{summary}</details>"
        )
    }

    fn extension(&mut self, entry: EntryId, message: &ExtensionMessage) -> io::Result<()> {
        let (kind, data) = (EscapedText(&message.kind), format!("{:#}", message.data));
        writeln!(self.out, "<details class=\"thinking\" id=\"e-{entry}\"><summary>{kind}</summary>")?;
        writeln!(self.out, "<pre>{}</pre></details>", EscapedText(&data))
    }

    fn record(&mut self, entry: EntryId, time: Timestamp, record: &Record) -> io::Result<()> {
        let text = record.describe();
        writeln!(self.out, "<p class=\"record\" id=\"e-{entry}\">{} {}</p>", clock(time), EscapedText(&text))
    }

    fn note(&mut self, entry: Option<EntryId>, text: &str) -> io::Result<()> {
        match entry {
            Some(entry) => writeln!(self.out, "<p class=\"note\" id=\"e-{entry}\">{}</p>", EscapedText(text)),
            None => writeln!(self.out, "<p class=\"note\">{}</p>", EscapedText(text)),
        }
    }

    fn anchor(&mut self, entry: EntryId) -> io::Result<()> {
        writeln!(self.out, "<a id=\"e-{entry}\"></a>")
    }
}

fn render_piece(piece: &FactPiece) -> String {
    match piece {
        FactPiece::Code(text) => format!("<code>{}</code>", EscapedText(text)),
        FactPiece::Text(text) => EscapedText(text).to_string(),
        FactPiece::Time(time) => {
            format!("<time datetime=\"{time}\">{}</time>", time.strftime("%Y-%m-%d %H:%M UTC"))
        }
    }
}

fn contents(out: &mut impl Write, branches: &[BranchTitle]) -> io::Result<()> {
    writeln!(out, "<nav>\n<h2>Branches</h2>\n<ol>")?;
    for BranchTitle { number, info, title } in branches {
        let current = if info.is_current { " <span class=\"badge\">current</span>" } else { "" };
        writeln!(out, "<li><a href=\"#branch-{number}\">{}</a>{current}</li>", EscapedText(title))?;
    }
    writeln!(out, "</ol>\n</nav>")
}

/// Describes the model of a reply, its tokens and its cost.
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

fn meta(out: &mut impl Write, who: &str, entry: EntryId, time: Timestamp, more: &str) -> io::Result<()> {
    write!(out, "<div class=\"meta\"><b>{who}</b> <span>{}</span> <span>{}</span> ", clock(time), EscapedText(more))?;
    writeln!(out, "<a href=\"#e-{entry}\">#{entry}</a></div>")
}

/// Returns the argument that describes a call best, on one line.
fn brief(call: &ToolCall) -> String {
    let text = match (&call.partial, &call.arguments) {
        (Some(partial), _) => partial.clone(),
        (None, Value::Object(fields)) => {
            let telling = TELLING.iter().find_map(|name| fields.get(*name)?.as_str());
            telling.or_else(|| fields.values().find_map(Value::as_str)).unwrap_or_default().to_owned()
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

/// Returns whether a call failed: with an error, or because the program that it ran did, as `bash` says in its details.
fn has_failed(result: &ToolResultMessage) -> bool {
    let success = result.details.as_ref().and_then(|details| details.get("success"));
    result.is_error || success.and_then(serde_json::Value::as_bool) == Some(false)
}

/// Sums up the result of a call in a few words.
fn outcome(call: &OutlineCall<'_>) -> String {
    let Some((_, result)) = call.result else { return "no result".to_owned() };
    let texts = || result.content.iter().filter_map(Content::as_text);
    match texts().find(|text| is_diff(text)).map(counts) {
        _ if has_failed(result) => "failed".to_owned(),
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
        return writeln!(out, "<pre class=\"argument\">{}</pre>", EscapedText(&text));
    };
    for (name, value) in fields {
        let text = value.as_str().map_or_else(|| format!("{value:#}"), str::to_owned);
        write!(out, "<div class=\"key\">{}", EscapedText(name))?;
        match text.len() <= BRIEF && !text.contains('\n') {
            true => writeln!(out, " <code>{}</code></div>", EscapedText(&text))?,
            false => writeln!(out, "</div><pre class=\"argument\">{}</pre>", EscapedText(&text))?,
        }
    }
    Ok(())
}

fn clock(time: Timestamp) -> String {
    format!("<time datetime=\"{time}\" title=\"{time}\">{}</time>", time.strftime("%H:%M:%S"))
}
