//! One walk through a conversation for all renderers: it decides which parts a reader sees, and their order.

use super::outline::{OutlineCall, OutlineItem, OutlineTurn};
use crate::id::EntryId;
use crate::record::{CallLedger, Record, RunEnded};
use jiff::Timestamp;
use pinion_protocol::{
    AssistantMessage, COMPACTION_MESSAGE, Content, ExtensionMessage, Image, RunEnd, StopReason, ToolResultMessage,
    UserMessage,
};
use serde_json::Value;
use std::io;

/// A format of a displayed conversation. The renderer decides how each part looks, and makes text from outside
/// harmless; [`walk`] calls its methods in the order of reading.
pub(super) trait Renderer {
    /// Starts a prompt. Its parts follow, then [`Renderer::end_message`].
    fn begin_prompt(&mut self, entry: EntryId, prompt: &UserMessage) -> io::Result<()>;

    /// Renders a text of the user.
    fn prompt_text(&mut self, text: &str) -> io::Result<()>;

    /// Starts a reply of the model. Its parts follow, then [`Renderer::end_message`].
    fn begin_reply(&mut self, entry: EntryId, reply: &AssistantMessage) -> io::Result<()>;

    /// Renders texts of the model with nothing between them. No text is blank.
    fn reply_text(&mut self, texts: &[&str]) -> io::Result<()>;

    /// Reports how a reply ended, other than by the model's will.
    fn ending(&mut self, how: &str, error: Option<&str>) -> io::Result<()>;

    /// Starts a tool call. Its result follows where there is one, then [`Renderer::end_call`].
    fn begin_call(&mut self, call: &OutlineCall<'_>) -> io::Result<()>;

    /// Ends a tool call.
    fn end_call(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Starts a result whose call is missing. Its parts follow, then [`Renderer::end_message`].
    fn begin_lone_result(&mut self, entry: EntryId, result: &ToolResultMessage) -> io::Result<()>;

    /// Starts the parts of a result.
    fn begin_result(&mut self, result: &ToolResultMessage) -> io::Result<()>;

    /// Renders a text of a result.
    fn result_text(&mut self, text: &str) -> io::Result<()>;

    /// Renders the ledger of the call whose result came before.
    fn ledger(&mut self, entry: EntryId, ledger: &CallLedger) -> io::Result<()>;

    /// Renders the model's thinking, which is not blank.
    fn thinking(&mut self, text: &str) -> io::Result<()>;

    /// Renders an image.
    fn image(&mut self, image: &Image) -> io::Result<()>;

    /// Ends a prompt, a reply or a lone result.
    fn end_message(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Renders the summary that replaced the conversation so far.
    fn compaction(&mut self, entry: EntryId, summary: &str) -> io::Result<()>;

    /// Renders any other message of an application.
    fn extension(&mut self, entry: EntryId, message: &ExtensionMessage) -> io::Result<()>;

    /// Renders a record.
    fn record(&mut self, entry: EntryId, time: Timestamp, record: &Record) -> io::Result<()>;

    /// Renders a remark on an entry, or on one without a name.
    fn note(&mut self, entry: Option<EntryId>, text: &str) -> io::Result<()>;

    /// Marks the place of an entry that has nothing to show.
    fn anchor(&mut self, entry: EntryId) -> io::Result<()> {
        let _ = entry;
        Ok(())
    }
}

/// Renders an item of an outline.
pub(super) fn walk(item: &OutlineItem, out: &mut impl Renderer) -> io::Result<()> {
    match item {
        OutlineItem::Prompt { entry, message } => prompt(*entry, message, out),
        OutlineItem::Turn(turn) => reply(turn, out),
        OutlineItem::Result { entry, message } => {
            out.begin_lone_result(*entry, message)?;
            result(message, out)?;
            out.end_message()
        }
        OutlineItem::Extension { entry, message } => match summary(message) {
            Some(summary) => out.compaction(*entry, summary),
            None => out.extension(*entry, message),
        },
        // Readers see where a run begins and that it ends.
        OutlineItem::Record { entry, record: Record::RunStarted(_), .. } => out.anchor(*entry),
        OutlineItem::Record { entry, record: Record::RunEnded(RunEnded { end: RunEnd::Done { .. }, .. }), .. } => {
            out.anchor(*entry)
        }
        OutlineItem::Record { entry, time, record } => out.record(*entry, *time, record),
        OutlineItem::Unseen { entry, kind: None } => out.anchor(*entry),
        OutlineItem::Unseen { entry, kind: Some(kind) } => {
            out.note(Some(*entry), &format!("Written by a newer version: {kind}"))
        }
        OutlineItem::Skipped { reason } => out.note(None, &format!("Skipped: {reason}")),
    }
}

fn prompt(entry: EntryId, message: &UserMessage, out: &mut impl Renderer) -> io::Result<()> {
    out.begin_prompt(entry, message)?;
    for part in &message.content {
        match part {
            Content::Text { text } if text.trim().is_empty() => {}
            Content::Text { text } => out.prompt_text(text)?,
            other => other_part(other, out)?,
        }
    }
    out.end_message()
}

fn reply(turn: &OutlineTurn, out: &mut impl Renderer) -> io::Result<()> {
    out.begin_reply(turn.entry, &turn.reply)?;
    let (mut calls, mut texts) = (turn.calls().into_iter(), Vec::new());
    for part in &turn.reply.content {
        match part {
            Content::Text { text } if text.trim().is_empty() => {}
            Content::Text { text } => texts.push(text.as_str()),
            Content::ToolCall(_) => {
                end_texts(&mut texts, out)?;
                calls.next().map_or(Ok(()), |next| call(&next, out))?;
            }
            other => {
                end_texts(&mut texts, out)?;
                other_part(other, out)?;
            }
        }
    }
    end_texts(&mut texts, out)?;
    ending(&turn.reply, out)?;
    out.end_message()
}

fn end_texts(texts: &mut Vec<&str>, out: &mut impl Renderer) -> io::Result<()> {
    if texts.is_empty() {
        return Ok(());
    }
    out.reply_text(&std::mem::take(texts))
}

fn ending(reply: &AssistantMessage, out: &mut impl Renderer) -> io::Result<()> {
    let how = match reply.stop_reason {
        StopReason::Stop | StopReason::ToolUse => return Ok(()),
        StopReason::Length => "Cut off at the output limit",
        StopReason::Error => "Failed",
        StopReason::Aborted => "Aborted",
    };
    out.ending(how, reply.error.as_deref())
}

fn call(call: &OutlineCall<'_>, out: &mut impl Renderer) -> io::Result<()> {
    out.begin_call(call)?;
    if let Some((_, message)) = call.result {
        result(message, out)?;
    }
    if let Some((entry, ledger)) = call.ledger {
        out.ledger(*entry, ledger)?;
    }
    out.end_call()
}

fn result(message: &ToolResultMessage, out: &mut impl Renderer) -> io::Result<()> {
    out.begin_result(message)?;
    for part in &message.content {
        match part {
            Content::Text { text } => out.result_text(text)?,
            other => other_part(other, out)?,
        }
    }
    Ok(())
}

fn other_part(part: &Content, out: &mut impl Renderer) -> io::Result<()> {
    match part {
        Content::Text { text } => out.result_text(text),
        Content::Image(image) => out.image(image),
        Content::Thinking(thinking) if thinking.text.trim().is_empty() => Ok(()),
        Content::Thinking(thinking) => out.thinking(&thinking.text),
        Content::ToolCall(call) => self::call(&OutlineCall { call, result: None, ledger: None }, out),
    }
}

fn summary(message: &ExtensionMessage) -> Option<&str> {
    let summary = message.data.get("summary").and_then(Value::as_str);
    summary.filter(|_| message.kind == COMPACTION_MESSAGE)
}
