//! Restores the order of tool results.
//!
//! The session store gets results as their calls end, so that a kill loses no result. The model gets them in the order
//! of its calls, and so does every reader of a session.

use crate::message::{AssistantMessage, Message};
use std::sync::Arc;

/// Matches results, in any order, to the calls of a reply.
#[derive(Debug, Default)]
pub struct CallOrder {
    /// Ids of the calls; `None` once a call has its result.
    ids: Vec<Option<String>>,
}

impl CallOrder {
    /// Collects the calls of a reply.
    pub fn from_reply(reply: &AssistantMessage) -> Self {
        Self { ids: reply.tool_calls().map(|call| Some(call.id.clone())).collect() }
    }

    /// Returns the position of the first unanswered call with this id and marks it as answered; `usize::MAX` without
    /// one.
    pub fn claim_position(&mut self, call_id: &str) -> usize {
        match self.ids.iter().position(|id| id.as_deref() == Some(call_id)) {
            Some(place) => {
                self.ids[place] = None;
                place
            }
            None => usize::MAX,
        }
    }

    /// Returns whether each call has its result.
    pub fn is_answered(&self) -> bool {
        self.ids.iter().all(Option::is_none)
    }
}

/// Sorts the results that follow each reply into the order of its calls. All other messages keep their positions.
pub fn sort_results(messages: &mut [Arc<Message>]) {
    let (mut calls, mut results) = (CallOrder::default(), Vec::new());
    for at in 0..messages.len() {
        match &*messages[at] {
            Message::ToolResult(result) => {
                results.push((calls.claim_position(&result.call_id), at, messages[at].clone()))
            }
            Message::Extension(_) => {}
            Message::User(_) => settle(messages, &mut results),
            Message::Assistant(reply) => {
                calls = CallOrder::from_reply(reply);
                settle(messages, &mut results);
            }
        }
    }
    settle(messages, &mut results);
}

/// Writes the collected results back to their positions, sorted by call.
fn settle(messages: &mut [Arc<Message>], results: &mut Vec<(usize, usize, Arc<Message>)>) {
    let places: Vec<usize> = results.iter().map(|(_, at, _)| *at).collect();
    results.sort_by_key(|(call, ..)| *call);
    for (place, (_, _, message)) in places.into_iter().zip(results.drain(..)) {
        messages[place] = message;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Content, ToolCall};
    use crate::message::{StopReason, ToolResultMessage};
    use crate::usage::Usage;
    use jiff::Timestamp;
    use serde_json::json;

    fn calls(ids: &[&str]) -> Arc<Message> {
        let call = |id: &&str| Content::ToolCall(ToolCall::new(*id, "t", json!({})));
        Arc::new(Message::Assistant(AssistantMessage {
            content: ids.iter().map(call).collect(),
            stop_reason: StopReason::ToolUse,
            provider: String::new(),
            model: String::new(),
            requested_model: None,
            usage: Usage::default(),
            cost: None,
            error: None,
            timestamp: Timestamp::UNIX_EPOCH,
        }))
    }

    fn result(id: &str) -> Arc<Message> {
        Arc::new(Message::ToolResult(ToolResultMessage {
            call_id: id.into(),
            tool_name: "t".into(),
            content: Vec::new(),
            details: None,
            is_error: false,
            child_run_id: None,
            timestamp: Timestamp::UNIX_EPOCH,
        }))
    }

    fn sorted(mut messages: Vec<Arc<Message>>) -> String {
        sort_results(&mut messages);
        let ids = messages.iter().map(|message| match &**message {
            Message::Assistant(reply) => {
                let calls: Vec<&str> = reply.tool_calls().map(|call| call.id.as_str()).collect();
                format!("calls {}", calls.join(" "))
            }
            Message::ToolResult(result) => result.call_id.clone(),
            Message::User(_) | Message::Extension(_) => String::new(),
        });
        ids.collect::<Vec<_>>().join("|")
    }

    #[test]
    fn results_are_sorted_into_call_order() {
        let several = vec![calls(&["1", "2", "3"]), result("3"), result("1"), result("2"), calls(&["1"]), result("1")];
        assert_eq!(sorted(several), "calls 1 2 3|1|2|3|calls 1|1");
        let same = vec![calls(&["1", "2", "1"]), result("1"), result("1"), result("2")];
        assert_eq!(sorted(same), "calls 1 2 1|1|2|1");
        let stray = vec![result("9"), calls(&["1", "2"]), result("2"), result("9"), result("1")];
        assert_eq!(sorted(stray), "9|calls 1 2|1|2|9");
    }
}
