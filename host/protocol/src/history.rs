//! Properties of a history, and the part of it that a request repeats.

use crate::content::ToolCall;
use crate::message::{Message, ToolResultMessage};
use crate::tool::ToolError;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// Returns the calls of the last reply that have no result.
pub fn open_calls(messages: &[Arc<Message>]) -> Vec<ToolCall> {
    let mut answered = HashSet::new();
    for message in messages.iter().rev() {
        match &**message {
            Message::ToolResult(result) => drop(answered.insert(&result.call_id)),
            Message::Assistant(reply) => {
                return reply.tool_calls().filter(|call| !answered.contains(&call.id)).cloned().collect();
            }
            Message::User(_) | Message::Extension(_) => {}
        }
    }
    Vec::new()
}

/// Returns a result for each call of the last reply that lacks one, which tells the model that the call was cancelled.
/// A vendor refuses a history with calls that were not answered.
pub fn cancelled_results(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let why = ToolError::Cancelled { tool: String::new() }.for_model();
    let result = |call: &ToolCall| Arc::new(Message::ToolResult(ToolResultMessage::error(call, &why)));
    open_calls(messages).iter().map(result).collect()
}

/// Checks that the model has something to answer: a message, a tool result, or a request whose reply failed.
///
/// # Errors
/// The history is empty, or the model has spoken last; returns the reason.
pub fn check_unanswered(messages: &[Arc<Message>]) -> Result<(), &'static str> {
    let mut seen = messages.iter().rev().filter(|message| !matches!(***message, Message::Extension(_)));
    match seen.next().map(|message| &**message) {
        None => Err("nothing was said yet"),
        Some(Message::Assistant(reply)) if !reply.has_failed() => Err("the model has spoken last"),
        Some(_) => Ok(()),
    }
}

/// Leaves out failed replies that the model repeats: those without an answer.
pub fn without_repeated(messages: &[Arc<Message>]) -> Cow<'_, [Arc<Message>]> {
    let has_failed = |message: &Message| matches!(message, Message::Assistant(reply) if reply.has_failed());
    if !messages.iter().any(|message| has_failed(message)) {
        return Cow::Borrowed(messages);
    }
    let mut kept = Vec::with_capacity(messages.len());
    let mut is_answered = false;
    for message in messages.iter().rev() {
        if is_answered || !has_failed(message) {
            kept.push(message.clone());
        }
        match &**message {
            Message::Extension(_) => {}
            other => is_answered = matches!(other, Message::User(_) | Message::ToolResult(_)),
        }
    }
    kept.reverse();
    Cow::Owned(kept)
}
