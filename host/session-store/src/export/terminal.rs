//! A session as text for a terminal.
//!
//! The outline matches Markdown: a heading for each message and tool call. Records are left out. Nothing in the text
//! can act on the terminal.

use super::outline::{Outline, OutlineCall};
use super::walk::{Renderer, walk};
use super::{FactPiece, RenderError, facts, seconds};
use crate::error::{SessionError, SessionErrorKind};
use crate::id::EntryId;
use crate::record::{CallLedger, Record};
use crate::transcript::{Branch, Transcript};
use jiff::Timestamp;
use pinion_protocol::text::count;
use pinion_protocol::text::printable;
use pinion_protocol::{AssistantMessage, ExtensionMessage, Image, ToolResultMessage, UserMessage};
use std::io::{self, Write};

/// The most that is shown of a call's arguments, a result, a summary and the model's thinking: lines, and characters.
const LINES: usize = 20;
const CHARS: usize = 4_000;

/// Writes the current branch of a session to `out`, then the ends of the other branches.
///
/// Prompts and replies are shown in full; arguments, results, summaries and thinking up to 20 lines or 4,000 characters
/// each, followed by the size of the rest. Each call comes with its result and its ledger. Entries that cannot be read
/// are named in their places.
///
/// # Errors
/// The session cannot be read, or `out` cannot be written; that is [`RenderError::Output`], so that a caller can tell a
/// closed pipe from a broken disk.
pub fn render(transcript: &mut Transcript, out: &mut impl Write) -> Result<(), RenderError> {
    let mut terminal = Terminal { out };
    terminal.head(transcript)?;
    for bad in transcript.bad_lines().first() {
        terminal.remark(&format!("Skipped: {bad}"))?;
    }
    terminal.branch(transcript.branch())?;
    for branch in transcript.branches().iter().filter(|branch| !branch.is_current) {
        let (leaf, entries) = (branch.leaf, branch.entries);
        writeln!(terminal.out, "> another branch ends at entry {leaf}, own entries: {entries}")?;
    }
    Ok(())
}

/// Writes the branch that ends at the entry `leaf` to `out`, as [`render`] does.
///
/// # Errors
/// As [`render`]; or there is no such entry.
pub fn render_branch(transcript: &mut Transcript, leaf: EntryId, out: &mut impl Write) -> Result<(), RenderError> {
    let unknown = SessionError::new(transcript.path(), SessionErrorKind::UnknownEntry { entry: leaf });
    let mut terminal = Terminal { out };
    terminal.head(transcript)?;
    let branch = transcript.branch_to(leaf).ok_or(unknown)?;
    terminal.branch(branch)
}

/// Writes the text.
struct Terminal<'w, W> {
    out: &'w mut W,
}

impl<W: Write> Terminal<'_, W> {
    fn head(&mut self, transcript: &Transcript) -> io::Result<()> {
        for (at, (name, pieces)) in facts(transcript).iter().enumerate() {
            let value: String = pieces.iter().map(render_piece).collect();
            match at {
                0 => writeln!(self.out, "# {name} {value}\n")?,
                _ => writeln!(self.out, "{name}: {value}")?,
            }
        }
        writeln!(self.out)
    }

    fn branch(&mut self, branch: Branch<'_>) -> Result<(), RenderError> {
        for item in Outline::new(branch) {
            walk(&item?, self)?;
        }
        Ok(())
    }

    fn remark(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "> {}\n", printable(text))
    }

    /// Writes a bounded text, indented, so that nothing in it ends the block.
    fn block(&mut self, text: &str) -> io::Result<()> {
        self.prefixed("    ", text)
    }

    fn prefixed(&mut self, prefix: &str, text: &str) -> io::Result<()> {
        let text = text.trim_end();
        let shown = beginning(text);
        for line in printable(shown).lines() {
            writeln!(self.out, "{}", format!("{prefix}{line}").trim_end())?;
        }
        if shown.len() < text.len() {
            let rest = &text[shown.len()..];
            writeln!(self.out, "{prefix}… {}, {} bytes", count(rest.lines().count() as u64, "more line"), rest.len())?;
        }
        writeln!(self.out)
    }
}

impl<W: Write> Renderer for Terminal<'_, W> {
    fn begin_prompt(&mut self, _: EntryId, prompt: &UserMessage) -> io::Result<()> {
        writeln!(self.out, "## User, {}\n", seconds(prompt.timestamp))
    }

    fn prompt_text(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}\n", printable(text.trim_end()))
    }

    fn begin_reply(&mut self, _: EntryId, reply: &AssistantMessage) -> io::Result<()> {
        let model = format!("{}/{}", reply.provider, reply.model);
        writeln!(self.out, "## Assistant, {}, {}\n", printable(&model), seconds(reply.timestamp))
    }

    fn reply_text(&mut self, texts: &[&str]) -> io::Result<()> {
        texts.iter().try_for_each(|text| writeln!(self.out, "{}\n", printable(text.trim_end())))
    }

    fn ending(&mut self, how: &str, error: Option<&str>) -> io::Result<()> {
        match error {
            Some(error) => self.remark(&format!("{how}: {error}")),
            None => self.remark(how),
        }
    }

    fn begin_call(&mut self, call: &OutlineCall<'_>) -> io::Result<()> {
        writeln!(self.out, "### Call of `{}`\n", printable(&call.call.name))?;
        match &call.call.partial {
            Some(partial) => self.block(partial),
            None => self.block(&format!("{:#}", call.call.arguments)),
        }
    }

    fn begin_lone_result(&mut self, _: EntryId, _: &ToolResultMessage) -> io::Result<()> {
        Ok(())
    }

    fn begin_result(&mut self, result: &ToolResultMessage) -> io::Result<()> {
        let what = if result.is_error { "Error" } else { "Result" };
        writeln!(self.out, "### {what} of `{}`\n", printable(&result.tool_name))
    }

    fn result_text(&mut self, text: &str) -> io::Result<()> {
        self.block(text)
    }

    fn ledger(&mut self, _: EntryId, ledger: &CallLedger) -> io::Result<()> {
        self.remark(&ledger.ledger.to_string())
    }

    fn thinking(&mut self, text: &str) -> io::Result<()> {
        self.prefixed("> ", text)
    }

    fn image(&mut self, image: &Image) -> io::Result<()> {
        writeln!(self.out, "[image, {}, {} bytes]\n", printable(&image.media_type), image.data.len())
    }

    fn compaction(&mut self, _: EntryId, summary: &str) -> io::Result<()> {
        self.remark("Compaction: from here on, the model sees this summary of the earlier conversation")?;
        self.block(summary)
    }

    fn extension(&mut self, _: EntryId, message: &ExtensionMessage) -> io::Result<()> {
        writeln!(self.out, "## Extension `{}`, {}\n", printable(&message.kind), seconds(message.timestamp))?;
        self.block(&format!("{:#}", message.data))
    }

    fn record(&mut self, _: EntryId, _: Timestamp, _: &Record) -> io::Result<()> {
        Ok(())
    }

    fn note(&mut self, _: Option<EntryId>, text: &str) -> io::Result<()> {
        self.remark(text)
    }
}

fn render_piece(piece: &FactPiece) -> String {
    match piece {
        FactPiece::Code(text) => printable(text).into_owned(),
        FactPiece::Text(text) => (*text).to_owned(),
        FactPiece::Time(time) => time.to_string(),
    }
}

/// Cuts a text to the part that is shown, at the end of a line if that leaves anything.
fn beginning(text: &str) -> &str {
    let end_of_lines = text.match_indices('\n').nth(LINES - 1).map_or(text.len(), |(at, _)| at + 1);
    let end_of_chars = text.char_indices().nth(CHARS).map_or(text.len(), |(at, _)| at);
    &text[..end_of_lines.min(end_of_chars)]
}

#[cfg(test)]
#[path = "terminal_tests.rs"]
mod tests;
