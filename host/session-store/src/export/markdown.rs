//! A session as Markdown.
//!
//! Text from outside is in code, in quotes, or, when a model wrote it, Markdown that ends with its message: see
//! `defuse.rs`.

use super::defuse::{code, fenced, plain, prose, quoted};
use super::escape::number;
use super::outline::OutlineCall;
use super::walk::Renderer;
use super::{About, BranchTitle, Document, FactPiece, Totals, seconds};
use crate::id::EntryId;
use crate::record::{CallLedger, Record};
use jiff::Timestamp;
use pinion_protocol::diff::is_diff;
use pinion_protocol::{AssistantMessage, ExtensionMessage, Image, ToolResultMessage, UserMessage};
use std::borrow::Cow;
use std::io::{self, Write};

/// Writes the document.
pub(super) struct Markdown<'w, W> {
    out: &'w mut W,
}

impl<'w, W: Write> Markdown<'w, W> {
    pub(super) fn new(out: &'w mut W) -> Self {
        Self { out }
    }

    fn remark(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "*{}*\n", plain(text))
    }
}

impl<W: Write> Document for Markdown<'_, W> {
    fn begin(&mut self, about: &About) -> io::Result<()> {
        writeln!(self.out, "# {}\n", plain(&about.title))?;
        for (name, pieces) in &about.facts {
            writeln!(self.out, "- {name}: {}", pieces.iter().map(render_piece).collect::<String>())?;
        }
        for reason in &about.skipped {
            writeln!(self.out, "- Skipped: {}", code(reason))?;
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

    fn fork(&mut self, branches: &[&BranchTitle]) -> io::Result<()> {
        branches.iter().try_for_each(|branch| writeln!(self.out, "{} *leaves here*\n", link(branch)))
    }

    fn end(&mut self, totals: &Totals) -> io::Result<()> {
        write!(self.out, "---\n\n{}", totals.counts().join(", "))?;
        let Totals { usage, cost, .. } = totals;
        if usage.total() > 0 {
            write!(self.out, ", {} tokens in, {} out", number(usage.context()), number(usage.output))?;
        }
        if let Some(cost) = cost {
            write!(self.out, ", ${:.4}", cost.total())?;
        }
        writeln!(self.out)
    }
}

impl<W: Write> Renderer for Markdown<'_, W> {
    fn begin_prompt(&mut self, entry: EntryId, prompt: &UserMessage) -> io::Result<()> {
        writeln!(self.out, "### User, {} (entry {entry})\n", seconds(prompt.timestamp))
    }

    /// Quotes the text, so that it cannot look like the model's.
    fn prompt_text(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}\n", quoted(&without_tabs(text)))
    }

    fn begin_reply(&mut self, entry: EntryId, reply: &AssistantMessage) -> io::Result<()> {
        let model = code(&format!("{}/{}", reply.provider, reply.model));
        writeln!(self.out, "### Assistant, {model}, {} (entry {entry})\n", seconds(reply.timestamp))
    }

    /// Joins the texts: a second text would continue a block that the first leaves open, such as a list.
    fn reply_text(&mut self, texts: &[&str]) -> io::Result<()> {
        writeln!(self.out, "{}\n", prose(&texts.join("\n\n")))
    }

    fn ending(&mut self, how: &str, error: Option<&str>) -> io::Result<()> {
        match error {
            Some(error) => self.remark(&format!("{how}: {error}")),
            None => self.remark(how),
        }
    }

    fn begin_call(&mut self, call: &OutlineCall<'_>) -> io::Result<()> {
        writeln!(self.out, "**Call of** {}\n", code(&call.call.name))?;
        match &call.call.partial {
            Some(partial) => fenced(self.out, "", partial),
            None => fenced(self.out, "json", &format!("{:#}", call.call.arguments)),
        }
    }

    fn begin_lone_result(&mut self, entry: EntryId, result: &ToolResultMessage) -> io::Result<()> {
        writeln!(self.out, "### Result, {} (entry {entry})\n", seconds(result.timestamp))
    }

    fn begin_result(&mut self, result: &ToolResultMessage) -> io::Result<()> {
        let what = if result.is_error { "Error" } else { "Result" };
        writeln!(self.out, "**{what} of** {}\n", code(&result.tool_name))?;
        match &result.child_run_id {
            Some(child) => self.remark(&format!("Sub-agent: run {child}")),
            None => Ok(()),
        }
    }

    fn result_text(&mut self, text: &str) -> io::Result<()> {
        fenced(self.out, if is_diff(text) { "diff" } else { "" }, text)
    }

    fn ledger(&mut self, _: EntryId, ledger: &CallLedger) -> io::Result<()> {
        self.remark(&ledger.ledger.to_string())
    }

    fn thinking(&mut self, text: &str) -> io::Result<()> {
        self.remark("Thinking")?;
        fenced(self.out, "", text)
    }

    fn image(&mut self, image: &Image) -> io::Result<()> {
        let kind = image.media_type.strip_prefix("image/");
        match kind.filter(|kind| kind.bytes().all(|b| b.is_ascii_alphanumeric())) {
            Some(kind) => writeln!(self.out, "![picture](data:image/{kind};base64,{})\n", image.base64()),
            None => self.remark(&format!("Picture: {}, {} bytes", image.media_type, image.data.len())),
        }
    }

    fn compaction(&mut self, _: EntryId, summary: &str) -> io::Result<()> {
        self.remark("Compaction: from here on, the model sees this summary of the earlier conversation")?;
        fenced(self.out, "", summary)
    }

    fn extension(&mut self, _: EntryId, message: &ExtensionMessage) -> io::Result<()> {
        writeln!(self.out, "**Extension** {}\n", code(&message.kind))?;
        fenced(self.out, "json", &format!("{:#}", message.data))
    }

    fn record(&mut self, _: EntryId, _: Timestamp, record: &Record) -> io::Result<()> {
        self.remark(&record.describe())
    }

    fn note(&mut self, _: Option<EntryId>, text: &str) -> io::Result<()> {
        self.remark(text)
    }
}

fn render_piece(piece: &FactPiece) -> String {
    match piece {
        FactPiece::Code(text) => code(text),
        FactPiece::Text(text) => (*text).to_owned(),
        FactPiece::Time(time) => time.to_string(),
    }
}

fn link(branch: &BranchTitle) -> String {
    format!("[Branch {0}](#branch-{0}): {1}", branch.number, plain(&branch.title))
}

/// Replaces tabs by spaces: after a quote mark, a tab has another width.
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
