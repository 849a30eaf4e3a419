//! Repairs the pairing of tool calls and results: providers refuse a call without a result, and a result without a
//! call.
//!
//! The loop keeps them paired. A kill while tools run, or a broken line of the file, leaves one without the other.

use jiff::Timestamp;
use pinion_protocol::{Content, Message, ToolCall, ToolResultMessage};
use std::collections::VecDeque;
use std::sync::Arc;

/// The result of a call that a kill interrupted, for the model.
const INTERRUPTED: &str = "interrupted: the program ended before this tool call finished, and its effects are unknown";

/// The result of a call whose own result is on the branch that was left, for the model.
pub(crate) const LEFT_BEHIND: &str =
    "skipped: the conversation returned to a point before the result of this tool call";

/// The repairs of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pairing {
    /// The number of results added at the end: the last messages of the list.
    pub at_end: usize,
    /// The number of results added before other messages.
    pub inside: usize,
    /// The number of results removed because no call before them asks for them.
    pub removed: usize,
}

/// Pairs tool calls with results. Adds an error result, written at `time`, for each call without one before the next
/// message of the user or the model, and removes results without a call. Other messages keep their places.
pub fn repair_pairing(messages: &mut Vec<Arc<Message>>, time: Timestamp) -> Pairing {
    repair_pairing_with(messages, time, INTERRUPTED)
}

/// Pairs tool calls with results, with another text for the results at the end.
pub(crate) fn repair_pairing_with(messages: &mut Vec<Arc<Message>>, time: Timestamp, at_end: &str) -> Pairing {
    let mut pairing = Pairing::default();
    let mut open = VecDeque::new();
    let mut paired = Vec::with_capacity(messages.len());
    for message in messages.drain(..) {
        match &*message {
            Message::Extension(_) => {}
            Message::ToolResult(result) => match open.iter().position(|call: &ToolCall| call.id == result.call_id) {
                Some(at) => drop(open.remove(at)),
                None => {
                    pairing.removed += 1;
                    continue;
                }
            },
            Message::User(_) => pairing.inside += close(&mut open, &mut paired, time, INTERRUPTED),
            Message::Assistant(reply) => {
                pairing.inside += close(&mut open, &mut paired, time, INTERRUPTED);
                open.extend(reply.tool_calls().cloned());
            }
        }
        paired.push(message);
    }
    pairing.at_end = close(&mut open, &mut paired, time, at_end);
    *messages = paired;
    pairing
}

/// Adds a result for each open call, and returns their number.
fn close(open: &mut VecDeque<ToolCall>, messages: &mut Vec<Arc<Message>>, time: Timestamp, why: &str) -> usize {
    let count = open.len();
    messages.extend(open.drain(..).map(|call| Arc::new(without_result(call, time, why))));
    count
}

fn without_result(call: ToolCall, timestamp: Timestamp, why: &str) -> Message {
    Message::ToolResult(ToolResultMessage {
        call_id: call.id,
        tool_name: call.name,
        content: vec![Content::text(why)],
        details: None,
        is_error: true,
        child_run_id: None,
        timestamp,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{calls, result, user};
    use proptest::prelude::*;

    /// Messages in short: `u`ser, `a`ssistant with its calls, `r`esult, `!` for an error.
    fn written(messages: &[Arc<Message>]) -> String {
        let words = messages.iter().map(|message| match &**message {
            Message::User(_) => "u".to_owned(),
            Message::Assistant(reply) => format!("a{}", reply.tool_calls().map(|c| c.id.as_str()).collect::<String>()),
            Message::ToolResult(r) => format!("{}{}", if r.is_error { '!' } else { 'r' }, r.call_id),
            Message::Extension(_) => "x".to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn repaired(mut messages: Vec<Arc<Message>>) -> (String, Pairing) {
        let pairing = repair_pairing(&mut messages, Timestamp::UNIX_EPOCH);
        (written(&messages), pairing)
    }

    #[test]
    fn calls_without_a_result_at_the_end_get_one() {
        let (after, pairing) = repaired(vec![user("go"), calls(&["1", "2", "3"]), result("2")]);
        assert_eq!(after, "u a123 r2 !1 !3");
        assert_eq!(pairing, Pairing { at_end: 2, ..Pairing::default() });
    }

    #[test]
    fn missing_result_is_added_before_the_next_message() {
        let (after, pairing) = repaired(vec![calls(&["1"]), user("steer"), calls(&["2"]), result("2")]);
        assert_eq!(after, "a1 !1 u a2 r2");
        assert_eq!(pairing, Pairing { inside: 1, ..Pairing::default() });
    }

    #[test]
    fn result_without_a_call_is_removed() {
        let (after, pairing) = repaired(vec![user("go"), result("1"), calls(&["1"]), result("1"), result("1")]);
        assert_eq!(after, "u a1 r1");
        assert_eq!(pairing, Pairing { removed: 2, ..Pairing::default() });
    }

    #[test]
    fn calls_with_the_same_id_get_one_result_each() {
        let (after, _) = repaired(vec![calls(&["1", "1"]), result("1"), calls(&["1"])]);
        assert_eq!(after, "a11 r1 !1 a1 !1");
    }

    /// Returns whether a provider accepts the messages: every call is followed by its result, and there are no further
    /// results.
    fn is_paired(messages: &[Arc<Message>]) -> bool {
        let mut open: Vec<String> = Vec::new();
        for message in messages {
            match &**message {
                Message::Extension(_) => {}
                Message::ToolResult(result) => match open.iter().position(|id| *id == result.call_id) {
                    Some(at) => drop(open.remove(at)),
                    None => return false,
                },
                Message::User(_) if !open.is_empty() => return false,
                Message::User(_) => {}
                Message::Assistant(_) if !open.is_empty() => return false,
                Message::Assistant(reply) => open.extend(reply.tool_calls().map(|call| call.id.clone())),
            }
        }
        open.is_empty()
    }

    fn any_messages() -> impl Strategy<Value = Vec<Arc<Message>>> {
        let id = prop::sample::select(vec!["1", "2", "3"]);
        let message = prop_oneof![
            Just(user("hello")),
            prop::collection::vec(id.clone(), 0..4).prop_map(|ids| calls(&ids)),
            id.prop_map(result),
        ];
        prop::collection::vec(message, 0..12)
    }

    proptest! {
        #[test]
        fn repair_pairs_any_history_and_is_idempotent(mut messages in any_messages()) {
            repair_pairing(&mut messages, Timestamp::UNIX_EPOCH);
            prop_assert!(is_paired(&messages), "{}", written(&messages));
            let before = messages.clone();
            prop_assert_eq!(repair_pairing(&mut messages, Timestamp::UNIX_EPOCH), Pairing::default());
            prop_assert_eq!(messages, before);
        }
    }
}
