//! The entries of a branch, put together as people read them: a reply with the results of its calls.

use crate::error::SessionError;
use crate::format::{Entry, Payload};
use crate::id::EntryId;
use crate::record::Record;
use crate::transcript::{Branch, EntryError};
use jiff::Timestamp;
use pinion_protocol::{AssistantMessage, ExtensionMessage, Message, ToolCall, ToolResultMessage, UserMessage};
use std::collections::VecDeque;

/// Something to show.
pub(super) enum Item {
    Prompt {
        entry: EntryId,
        message: UserMessage,
    },
    Turn(Turn),
    /// The result of a call that is not there.
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
    /// An entry that moves the conversation, or that this program does not know.
    Unseen {
        entry: EntryId,
        kind: Option<String>,
    },
    /// An entry that cannot be read.
    LeftOut {
        reason: String,
    },
}

/// A reply, and the results of its calls.
pub(super) struct Turn {
    pub(super) entry: EntryId,
    pub(super) reply: AssistantMessage,
    pub(super) results: Vec<(EntryId, ToolResultMessage)>,
}

impl Item {
    /// The entries of which it is made.
    pub(super) fn entries(&self) -> impl Iterator<Item = EntryId> {
        let (first, results): (Option<EntryId>, &[_]) = match self {
            Self::Turn(turn) => (Some(turn.entry), &turn.results),
            Self::Prompt { entry, .. }
            | Self::Result { entry, .. }
            | Self::Extension { entry, .. }
            | Self::Record { entry, .. }
            | Self::Unseen { entry, .. } => (Some(*entry), &[]),
            Self::LeftOut { .. } => (None, &[]),
        };
        first.into_iter().chain(results.iter().map(|(entry, _)| *entry))
    }
}

impl Turn {
    /// Each call with its result, in the order of the calls. Calls of the same id get their results in order.
    pub(super) fn calls(&self) -> Vec<(&ToolCall, Option<&(EntryId, ToolResultMessage)>)> {
        let mut results: Vec<_> = self.results.iter().map(Some).collect();
        let mut result_of = |call: &ToolCall| {
            results.iter_mut().find(|r| r.is_some_and(|(_, result)| result.call_id == call.id)).and_then(Option::take)
        };
        self.reply.tool_calls().map(|call| (call, result_of(call))).collect()
    }

    fn is_complete(&self) -> bool {
        self.results.len() >= self.reply.tool_calls().count()
    }
}

/// Puts the entries of a branch together.
pub(super) struct Outline<'a> {
    branch: Branch<'a>,
    /// A reply that waits for results.
    turn: Option<Turn>,
    ready: VecDeque<Item>,
    is_over: bool,
}

impl<'a> Outline<'a> {
    pub(super) fn new(branch: Branch<'a>) -> Self {
        Self { branch, turn: None, ready: VecDeque::new(), is_over: false }
    }

    fn take(&mut self, entry: Entry) {
        let Entry { id, time, payload, .. } = entry;
        match payload {
            Payload::Message(message) => self.take_message(id, message),
            Payload::Record(record) => self.ready.push_back(Item::Record { entry: id, time, record }),
            Payload::Position { .. } => self.ready.push_back(Item::Unseen { entry: id, kind: None }),
            Payload::Unknown { kind } => self.ready.push_back(Item::Unseen { entry: id, kind: Some(kind) }),
        }
    }

    fn take_message(&mut self, entry: EntryId, message: Message) {
        match message {
            Message::ToolResult(message) => self.take_result(entry, message),
            Message::Extension(message) => self.ready.push_back(Item::Extension { entry, message }),
            Message::User(message) => {
                self.end_turn();
                self.ready.push_back(Item::Prompt { entry, message });
            }
            Message::Assistant(reply) => {
                self.end_turn();
                self.turn = Some(Turn { entry, reply, results: Vec::new() });
                self.end_complete_turn();
            }
        }
    }

    fn take_result(&mut self, entry: EntryId, message: ToolResultMessage) {
        match &mut self.turn {
            Some(turn) if turn.reply.tool_calls().any(|call| call.id == message.call_id) => {
                turn.results.push((entry, message));
                self.end_complete_turn();
            }
            _ => self.ready.push_back(Item::Result { entry, message }),
        }
    }

    fn end_complete_turn(&mut self) {
        if self.turn.as_ref().is_some_and(Turn::is_complete) {
            self.end_turn();
        }
    }

    /// A turn comes before what came while it waited.
    fn end_turn(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.ready.push_front(Item::Turn(turn));
        }
    }

    fn advance(&mut self) -> Result<(), SessionError> {
        match self.branch.next() {
            Some(Ok(entry)) => self.take(entry),
            Some(Err(EntryError::Broken(bad))) => self.ready.push_back(Item::LeftOut { reason: bad.to_string() }),
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

/// While a turn waits for results, so does what comes after it: at most this much.
const MOST_WAITING: usize = 1_000;

impl Iterator for Outline<'_> {
    type Item = Result<Item, SessionError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.ready.len() >= MOST_WAITING {
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
