//! A session as text, for a person at a terminal.
//!
//! Markdown in outline: a heading for each message and tool call. Written entry by entry, so that a large session needs
//! no more memory than a small one. Nothing in it can act on the terminal.

use crate::error::SessionError;
use crate::format::{Entry, Payload};
use crate::header::Header;
use crate::id::EntryId;
use crate::order::InCallOrder;
use crate::printable::printable;
use crate::transcript::{Branch, EntryError, Transcript};
use pinion_protocol::{AssistantMessage, Content, Message, StopReason, ToolCall, ToolResultMessage};
use serde_json::Value;
use std::io::{self, Write};

/// How much is shown of a tool call's arguments, a tool's result and the model's thinking: lines, and characters.
const LINES: usize = 20;
const CHARS: usize = 4_000;

/// Writes the branch on which the conversation stands to `out`, and then where other branches end.
///
/// What the user and the model said is shown in full; arguments, results and thinking up to 20 lines or 4,000
/// characters each, and then how much is left out. Broken entries are named in their places.
///
/// # Errors
/// The session cannot be read, or `out` not be written; that is [`RenderError::Output`], so that a closed pipe can be
/// told from a broken disk.
pub fn render(transcript: &mut Transcript, out: &mut impl Write) -> Result<(), RenderError> {
    if let Some(header) = transcript.header() {
        head(header, out)?;
    }
    for bad in transcript.bad_lines().first() {
        writeln!(out, "> left out: {}\n", printable(&bad.to_string()))?;
    }
    entries(transcript.branch(), out)?;
    for branch in transcript.branches().iter().filter(|branch| !branch.is_current) {
        writeln!(out, "> another branch ends at entry {}, with entries of its own: {}", branch.leaf, branch.entries)?;
    }
    Ok(())
}

/// Writes the branch that ends at the entry `leaf` to `out`, as [`render`] does.
///
/// # Errors
/// As [`render`]; or there is no such entry.
pub fn render_branch(transcript: &mut Transcript, leaf: EntryId, out: &mut impl Write) -> Result<(), RenderError> {
    let header = transcript.header().cloned();
    let path = transcript.path().to_owned();
    let branch = transcript.branch_to(leaf).ok_or(SessionError::UnknownEntry { path, entry: leaf })?;
    if let Some(header) = header {
        head(&header, out)?;
    }
    entries(branch, out)
}

fn entries(branch: Branch<'_>, out: &mut impl Write) -> Result<(), RenderError> {
    for entry in InCallOrder::new(branch) {
        match entry {
            Ok(Entry { payload, .. }) => payload_text(&payload, out)?,
            Err(EntryError::Broken(bad)) => writeln!(out, "> left out: {}\n", printable(&bad.to_string()))?,
            Err(EntryError::Session(error)) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A session could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// It cannot be read.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// It was read, and the text could not be written.
    #[error("could not write the output")]
    Output(#[from] io::Error),
}

fn head(header: &Header, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "# Session {}\n", printable(&header.id))?;
    writeln!(out, "Workspace: {}", printable(&header.workspace.to_string_lossy()))?;
    writeln!(out, "Begun: {}", header.created)?;
    if let Some(from) = &header.forked_from {
        writeln!(out, "Forked from: {}, entry {}", printable(&from.session), from.entry)?;
    }
    if let Some(by) = &header.spawned_by {
        writeln!(out, "Sub-agent of: {}, call {}", printable(&by.session), printable(&by.call_id))?;
    }
    writeln!(out)
}

fn payload_text(payload: &Payload, out: &mut impl Write) -> io::Result<()> {
    match payload {
        Payload::Message(message) => message_text(message, out),
        Payload::Position { .. } | Payload::Record(_) => Ok(()),
        Payload::Unknown { kind } => writeln!(out, "> of a newer version: {}\n", printable(kind)),
    }
}

fn message_text(message: &Message, out: &mut impl Write) -> io::Result<()> {
    match message {
        Message::User(m) => {
            writeln!(out, "## User, {}\n", m.timestamp)?;
            parts(&m.content, out)
        }
        Message::Assistant(m) => assistant(m, out),
        Message::ToolResult(m) => tool_result(m, out),
        Message::Extension(m) => {
            writeln!(out, "## Extension `{}`, {}\n", printable(&m.kind), m.timestamp)?;
            block(&pretty(&m.data), out)
        }
    }
}

fn assistant(message: &AssistantMessage, out: &mut impl Write) -> io::Result<()> {
    let model = format!("{}/{}", message.provider, message.model);
    writeln!(out, "## Assistant, {}, {}\n", printable(&model), message.timestamp)?;
    parts(&message.content, out)?;
    let ending = match message.stop_reason {
        StopReason::Stop | StopReason::ToolUse => return Ok(()),
        StopReason::Length => "cut off at the output limit",
        StopReason::Error => "failed",
        StopReason::Aborted => "aborted",
    };
    match &message.error {
        Some(error) => writeln!(out, "> {ending}: {}\n", printable(error)),
        None => writeln!(out, "> {ending}\n"),
    }
}

fn tool_result(message: &ToolResultMessage, out: &mut impl Write) -> io::Result<()> {
    let outcome = if message.is_error { "Error" } else { "Result" };
    writeln!(out, "### {outcome} of `{}`\n", printable(&message.tool_name))?;
    for part in &message.content {
        match part.as_text() {
            Some(text) => block(text, out)?,
            None => parts(std::slice::from_ref(part), out)?,
        }
    }
    Ok(())
}

fn parts(content: &[Content], out: &mut impl Write) -> io::Result<()> {
    for part in content {
        match part {
            Content::Text { text } if text.trim().is_empty() => {}
            Content::Text { text } => writeln!(out, "{}\n", printable(text.trim_end()))?,
            Content::Image(image) => {
                writeln!(out, "[image, {}, {} bytes]\n", printable(&image.media_type), image.data.len())?;
            }
            Content::Thinking(thinking) if thinking.text.is_empty() => {}
            Content::Thinking(thinking) => quote(&thinking.text, out)?,
            Content::ToolCall(call) => tool_call(call, out)?,
        }
    }
    Ok(())
}

fn tool_call(call: &ToolCall, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "### Call of `{}`\n", printable(&call.name))?;
    match &call.partial {
        Some(partial) => block(partial, out),
        None => block(&pretty(&call.arguments), out),
    }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

/// Bounded text, indented, so that nothing in it ends the block.
fn block(text: &str, out: &mut impl Write) -> io::Result<()> {
    prefixed("    ", text, out)
}

fn quote(text: &str, out: &mut impl Write) -> io::Result<()> {
    prefixed("> ", text, out)
}

fn prefixed(prefix: &str, text: &str, out: &mut impl Write) -> io::Result<()> {
    let text = text.trim_end();
    let shown = beginning(text);
    for line in printable(shown).lines() {
        writeln!(out, "{}", format!("{prefix}{line}").trim_end())?;
    }
    if shown.len() < text.len() {
        let left_out = &text[shown.len()..];
        writeln!(out, "{prefix}… {} more lines, {} bytes", left_out.lines().count(), left_out.len())?;
    }
    writeln!(out)
}

/// As much of a text as is shown, ending with a whole line where that leaves anything.
fn beginning(text: &str) -> &str {
    let end_of_lines = text.match_indices('\n').nth(LINES - 1).map_or(text.len(), |(at, _)| at + 1);
    let end_of_chars = text.char_indices().nth(CHARS).map_or(text.len(), |(at, _)| at);
    &text[..end_of_lines.min(end_of_chars)]
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
