//! The outline of a branch: its entries as readers see them, each reply with the results of its calls.

use crate::error::SessionError;
use crate::format::{Payload, SessionEntry};
use crate::id::EntryId;
use crate::record::{CallLedger, Record};
use crate::transcript::{Branch, EntryError};
use jiff::Timestamp;
use pinion_protocol::{AssistantMessage, ExtensionMessage, Message, ToolCall, ToolResultMessage, UserMessage};
use std::collections::VecDeque;

/// An item of an outline.
pub(super) enum OutlineItem {
    Prompt {
        entry: EntryId,
        message: UserMessage,
    },
    Turn(OutlineTurn),
    /// A result whose call is missing.
    Result {
        entry: EntryId,
        message: ToolResultMessage,
    },
    Extension {
        entry: EntryId,
        message: ExtensionMessage,
    },
    Record {
        entry: EntryId,
        time: Timestamp,
        record: Record,
    },
    /// An entry that moves the conversation, or of an unknown type.
    Unseen {
        entry: EntryId,
        kind: Option<String>,
    },
    /// An entry that cannot be read.
    Skipped {
        reason: String,
    },
}

/// A reply with the results and ledgers of its calls.
pub(super) struct OutlineTurn {
    pub(super) entry: EntryId,
    pub(super) reply: AssistantMessage,
    pub(super) results: Vec<(EntryId, ToolResultMessage)>,
    pub(super) ledgers: Vec<(EntryId, CallLedger)>,
}

/// A tool call of a reply, with the entries that belong to it.
pub(super) struct OutlineCall<'a> {
    pub(super) call: &'a ToolCall,
    pub(super) result: Option<&'a (EntryId, ToolResultMessage)>,
    pub(super) ledger: Option<&'a (EntryId, CallLedger)>,
}

impl OutlineItem {
    /// Returns the entries that the item consists of.
    pub(super) fn entries(&self) -> impl Iterator<Item = EntryId> {
        let (first, results, ledgers): (Option<EntryId>, &[_], &[_]) = match self {
            Self::Turn(turn) => (Some(turn.entry), &turn.results, &turn.ledgers),
            Self::Prompt { entry, .. }
            | Self::Result { entry, .. }
            | Self::Extension { entry, .. }
            | Self::Record { entry, .. }
            | Self::Unseen { entry, .. } => (Some(*entry), &[], &[]),
            Self::Skipped { .. } => (None, &[], &[]),
        };
        let ledgers = ledgers.iter().map(|(entry, _)| *entry);
        first.into_iter().chain(results.iter().map(|(entry, _)| *entry)).chain(ledgers)
    }
}

impl OutlineTurn {
    /// Returns each call with its result and its ledger, in the order of the calls. Calls that share an id get theirs in
    /// the order of the file.
    pub(super) fn calls(&self) -> Vec<OutlineCall<'_>> {
        let mut results: Vec<_> = self.results.iter().map(Some).collect();
        let mut ledgers: Vec<_> = self.ledgers.iter().map(Some).collect();
        let calls = self.reply.tool_calls().map(|call| OutlineCall {
            call,
            result: take_entry(&mut results, |result| result.call_id == call.id),
            ledger: take_entry(&mut ledgers, |ledger| ledger.call_id == call.id),
        });
        calls.collect()
    }

    fn has_call(&self, call_id: &str) -> bool {
        self.reply.tool_calls().any(|call| call.id == call_id)
    }

    fn is_complete(&self) -> bool {
        self.results.len() >= self.reply.tool_calls().count()
    }
}

/// Takes the first entry that belongs to a call.
fn take_entry<'a, T>(
    entries: &mut [Option<&'a (EntryId, T)>],
    belongs: impl Fn(&T) -> bool,
) -> Option<&'a (EntryId, T)> {
    entries.iter_mut().find(|entry| entry.is_some_and(|(_, data)| belongs(data))).and_then(Option::take)
}

/// Turns the entries of a branch into items.
pub(super) struct Outline<'a> {
    branch: Branch<'a>,
    /// The reply that waits for results.
    turn: Option<OutlineTurn>,
    ready: VecDeque<OutlineItem>,
    is_over: bool,
}

impl<'a> Outline<'a> {
    pub(super) fn new(branch: Branch<'a>) -> Self {
        Self { branch, turn: None, ready: VecDeque::new(), is_over: false }
    }

    fn add(&mut self, entry: SessionEntry) {
        let SessionEntry { id, time, payload, .. } = entry;
        match payload {
            Payload::Message(message) => self.add_message(id, message),
            Payload::Record(Record::CallLedger(ledger)) => self.add_ledger(id, time, ledger),
            Payload::Record(record) => self.ready.push_back(OutlineItem::Record { entry: id, time, record }),
            Payload::Position { .. } => self.ready.push_back(OutlineItem::Unseen { entry: id, kind: None }),
            Payload::Unknown { kind } => self.ready.push_back(OutlineItem::Unseen { entry: id, kind: Some(kind) }),
        }
    }

    fn add_message(&mut self, entry: EntryId, message: Message) {
        match message {
            Message::ToolResult(message) => self.add_result(entry, message),
            Message::Extension(message) => self.ready.push_back(OutlineItem::Extension { entry, message }),
            Message::User(message) => {
                self.end_turn();
                self.ready.push_back(OutlineItem::Prompt { entry, message });
            }
            Message::Assistant(reply) => {
                self.end_turn();
                self.turn = Some(OutlineTurn { entry, reply, results: Vec::new(), ledgers: Vec::new() });
                self.end_complete_turn();
            }
        }
    }

    fn add_result(&mut self, entry: EntryId, message: ToolResultMessage) {
        match &mut self.turn {
            Some(turn) if turn.has_call(&message.call_id) => {
                turn.results.push((entry, message));
                self.end_complete_turn();
            }
            _ => self.ready.push_back(OutlineItem::Result { entry, message }),
        }
    }

    fn add_ledger(&mut self, entry: EntryId, time: Timestamp, ledger: CallLedger) {
        match &mut self.turn {
            Some(turn) if turn.has_call(&ledger.call_id) => turn.ledgers.push((entry, ledger)),
            _ => self.ready.push_back(OutlineItem::Record { entry, time, record: Record::CallLedger(ledger) }),
        }
    }

    fn end_complete_turn(&mut self) {
        if self.turn.as_ref().is_some_and(OutlineTurn::is_complete) {
            self.end_turn();
        }
    }

    /// Puts the turn before the items that arrived while it waited.
    fn end_turn(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.ready.push_front(OutlineItem::Turn(turn));
        }
    }

    fn advance(&mut self) -> Result<(), SessionError> {
        match self.branch.next() {
            Some(Ok(entry)) => self.add(entry),
            Some(Err(EntryError::Broken(bad))) => {
                self.ready.push_back(OutlineItem::Skipped { reason: bad.to_string() })
            }
            Some(Err(EntryError::Session(error))) => {
                self.is_over = true;
                return Err(error);
            }
            None => {
                self.end_turn();
                self.is_over = true;
            }
        }
        Ok(())
    }
}

/// The most items that wait for the results of a turn.
const MAX_WAITING: usize = 1_000;

impl Iterator for Outline<'_> {
    type Item = Result<OutlineItem, SessionError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.ready.len() >= MAX_WAITING {
                self.end_turn();
            }
            if self.turn.is_none()
                && let Some(item) = self.ready.pop_front()
            {
                return Some(Ok(item));
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.advance() {
                return Some(Err(error));
            }
        }
    }
}
