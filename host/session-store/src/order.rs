//! The order of results.
//!
//! Results are written when their calls end, so that a kill loses none. They are read in the order of the calls, as the
//! model asked for them.

use crate::format::{Entry, Payload};
use crate::transcript::EntryError;
use pinion_protocol::{CallOrder, Message};
use std::collections::VecDeque;

/// Entries of a branch, the results in the order of the calls.
pub(crate) struct InCallOrder<I> {
    entries: I,
    calls: CallOrder,
    results: Vec<(usize, Entry)>,
    ready: VecDeque<Result<Entry, EntryError>>,
}

impl<I: Iterator<Item = Result<Entry, EntryError>>> InCallOrder<I> {
    pub(crate) fn new(entries: I) -> Self {
        Self { entries, calls: CallOrder::default(), results: Vec::new(), ready: VecDeque::new() }
    }

    fn take(&mut self, entry: Entry) {
        match &entry.payload {
            Payload::Message(Message::ToolResult(result)) => {
                let place = self.calls.place(&result.call_id);
                self.results.push((place, entry));
                if self.calls.is_answered() {
                    self.settle();
                }
                return;
            }
            Payload::Message(Message::Assistant(reply)) => {
                let calls = CallOrder::of(reply);
                self.settle();
                self.calls = calls;
            }
            Payload::Message(Message::User(_)) => self.settle(),
            _ => {}
        }
        self.ready.push_back(Ok(entry));
    }

    fn settle(&mut self) {
        self.results.sort_by_key(|(place, _)| *place);
        self.ready.extend(self.results.drain(..).map(|(_, entry)| Ok(entry)));
    }
}

impl<I: Iterator<Item = Result<Entry, EntryError>>> Iterator for InCallOrder<I> {
    type Item = Result<Entry, EntryError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(entry);
            }
            match self.entries.next() {
                Some(Ok(entry)) => self.take(entry),
                Some(Err(error)) => return Some(Err(error)),
                None if self.results.is_empty() => return None,
                None => self.settle(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::open_to_continue;
    use crate::session::Session;
    use crate::testing::{calls, result, user, workspace};
    use crate::transcript::Transcript;
    use pinion_protocol::SessionStore as _;
    use tempfile::TempDir;

    fn ids<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
        let words = messages.into_iter().map(|message| match message {
            Message::ToolResult(result) => format!("{}{}", if result.is_error { '!' } else { 'r' }, result.call_id),
            Message::Assistant(reply) => format!("a{}", reply.tool_calls().map(|c| c.id.as_str()).collect::<String>()),
            _ => "u".to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_kill_in_a_long_call_keeps_the_results_of_those_that_ended() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.jsonl");
        let session = Session::begin(&path, workspace());
        for message in [user("go"), calls(&["1", "2", "3"]), result("3"), result("2")] {
            session.append(&message).unwrap();
        }
        drop(session);
        let opened = open_to_continue(&path, workspace()).unwrap();
        assert_eq!(ids(opened.messages.iter().map(|m| &**m)), "u a123 !1 r2 r3");
        assert_eq!(opened.recovery.pairing.at_end, 1);
        opened.session.append(&user("on")).unwrap();
        drop(opened);
        let again = open_to_continue(&path, workspace()).unwrap();
        assert_eq!(ids(again.messages.iter().map(|m| &**m)), "u a123 !1 r2 r3 u");
        let mut transcript = Transcript::open(&path).unwrap();
        let shown: Vec<Message> = InCallOrder::new(transcript.branch())
            .filter_map(|entry| match entry.unwrap().payload {
                Payload::Message(message) => Some(message),
                _ => None,
            })
            .collect();
        assert_eq!(ids(&shown), "u a123 !1 r2 r3 u");
    }
}
