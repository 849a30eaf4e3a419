//! Properties of a history.

use crate::content::ToolCall;
use crate::message::Message;
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
