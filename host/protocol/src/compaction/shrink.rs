//! The arithmetic of compaction: what is cut, what is kept, and that it fits.
//!
//! Pure functions of messages and a budget. Their result fits any budget of at least [`MIN_TOKENS`] tokens,
//! and never parts a call from its result: what is kept begins with a message that is no result.

use super::{Cut, Record, SUMMARY_FRAME, is_summary};
use crate::bound::cut_middle;
use crate::compaction::policy::CompactionPolicy;
use crate::content::text_of;
use crate::message::Message;
use crate::tokens::{ContextTracker, messages_tokens};
use jiff::Timestamp;
use std::fmt::Write as _;
use std::sync::Arc;

/// The smallest budget, in tokens. Less would not even hold the words that go before a summary.
pub const MIN_TOKENS: u64 = 64;
/// The smallest budget for which a summary by the model is worth its request, in tokens.
pub const MIN_SUMMARY_TOKENS: u64 = 512;
/// Bytes of a user's message in a listing. Longer ones are cut in the middle.
const USER_BYTES: usize = 2_000;
/// Bytes of any other line of a listing.
const LINE_BYTES: usize = 160;
/// Precedes the request that the model works on, at the end of a summary.
const TASK: &str = "\n\n[The request that you are working on, in the user's words:]\n\n";

/// Token budget for messages.
pub struct TokenBudget<'a> {
    /// Tokens that the messages may take; fewer than [`MIN_TOKENS`] count as that.
    pub tokens: u64,
    /// Estimates the tokens.
    pub tracker: &'a ContextTracker,
}

impl TokenBudget<'_> {
    /// Returns the tokens that the messages may take, at least [`MIN_TOKENS`].
    pub fn tokens(&self) -> u64 {
        self.tokens.max(MIN_TOKENS)
    }

    /// Returns the corrected estimate of the tokens of messages.
    pub fn count(&self, messages: &[Arc<Message>]) -> u64 {
        self.tracker.calibrated(messages_tokens(messages, self.tracker.counter()))
    }

    /// Returns whether messages fit.
    pub fn holds(&self, messages: &[Arc<Message>]) -> bool {
        self.count(messages) <= self.tokens()
    }
}

/// The messages that remain of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retained {
    /// Number of messages at the start.
    pub first: usize,
    /// Number of messages at the end.
    pub count: usize,
    /// Bound on the tool results among those at the end.
    pub cut: Option<Cut>,
}

impl Retained {
    /// Keeps at most so many messages at both ends, and fewer where a call would lose its result.
    pub fn of(messages: &[Arc<Message>], first: usize, recent: usize) -> Self {
        let is_boundary = |at: &usize| !matches!(messages.get(*at).map(|m| &**m), Some(Message::ToolResult(_)));
        let start = messages.len() - recent.min(messages.len());
        let start = (start..=messages.len()).find(is_boundary).unwrap_or(messages.len());
        // An earlier summary is not the beginning of the conversation.
        let own = messages.iter().take(first.min(start)).take_while(|message| !is_summary(message)).count();
        let first = (0..=own).rev().find(is_boundary).unwrap_or(0);
        Self { first, count: messages.len() - start, cut: None }
    }

    /// Returns the messages in between.
    pub fn dropped<'a>(&self, messages: &'a [Arc<Message>]) -> &'a [Arc<Message>] {
        &messages[self.first..messages.len() - self.count]
    }

    /// Returns the record of a compaction that only shortens tool results; `None` if it would change nothing.
    pub fn only_cut(&self, messages: &[Arc<Message>]) -> Option<Record> {
        self.cut?;
        Some(Record { summary: String::new(), first: self.first, kept: messages.len() - self.first, cut: self.cut })
    }
}

/// Cuts the results of old tool calls; returns `None` if that is not enough.
pub fn cut_results(messages: &[Arc<Message>], budget: &TokenBudget<'_>, policy: &CompactionPolicy) -> Option<Record> {
    let cut = Cut { bytes: policy.result_bytes, spared: policy.keep_recent };
    let record = Record { summary: String::new(), first: 0, kept: messages.len(), cut: Some(cut) };
    budget.holds(&record.apply(messages, Timestamp::UNIX_EPOCH)).then_some(record)
}

/// Returns the messages to keep: of the last `keep_recent` as many as take half of the room, with their results cut where
/// that saves more of them; of the first `keep_first` as many as take a quarter.
pub fn kept(messages: &[Arc<Message>], budget: &TokenBudget<'_>, policy: &CompactionPolicy) -> Retained {
    let (tail, cut) = recent(messages, budget, policy);
    let heads = (0..=policy.keep_first.min(messages.len())).rev();
    let mut heads = heads.map(|first| Retained { cut, ..Retained::of(messages, first, tail) });
    let fits = |kept: &Retained| {
        let least = Record { summary: "…".to_owned(), first: kept.first, kept: tail, cut };
        budget.count(&messages[..kept.first]) <= budget.tokens() / 4
            && budget.holds(&least.apply(messages, Timestamp::UNIX_EPOCH))
    };
    heads.find(fits).unwrap_or(Retained { first: 0, count: tail, cut })
}

/// Returns the number of messages at the end that are kept, and how their results are cut.
fn recent(messages: &[Arc<Message>], budget: &TokenBudget<'_>, policy: &CompactionPolicy) -> (usize, Option<Cut>) {
    let half = budget.tokens() / 2;
    let cut = Cut { bytes: policy.result_bytes, spared: 0 };
    for count in (1..=messages.len().min(policy.keep_recent)).rev() {
        let tail = &messages[messages.len() - count..];
        if matches!(*tail[0], Message::ToolResult(_)) {
            continue;
        }
        for cut in [None, Some(cut)] {
            let record = Record { summary: String::new(), first: 0, kept: count, cut };
            if budget.count(&record.apply(tail, Timestamp::UNIX_EPOCH)) <= half {
                return (count, cut);
            }
        }
    }
    (0, None)
}

/// Puts a summary between what is kept, and cuts it until all of it fits.
pub fn fit(messages: &[Arc<Message>], summary: String, kept: Retained, budget: &TokenBudget<'_>) -> Record {
    let mut record = Record { summary, first: kept.first, kept: kept.count, cut: kept.cut };
    let mut bytes = record.summary.len();
    while !budget.holds(&record.apply(messages, Timestamp::UNIX_EPOCH)) && bytes > 0 {
        bytes = bytes * 3 / 4;
        let shorter = cut_middle(std::mem::take(&mut record.summary), bytes);
        // The mark of the cut has a length too, and below that nothing is left to say.
        record.summary =
            if shorter.len() > bytes.saturating_add(64) || bytes < 64 { "…".to_owned() } else { shorter };
        if record.summary == "…" {
            break;
        }
    }
    record
}

/// Adds the request that the model works on to the end of a summary, in the user's words, unless the kept messages
/// contain it. A summary may lose what it asks for, and its frame says that it asks for nothing.
pub fn with_task(summary: String, messages: &[Arc<Message>], kept: Retained, budget: &TokenBudget<'_>) -> String {
    let is_request = |message: &Arc<Message>| matches!(**message, Message::User(_)) && !is_summary(message);
    if messages[messages.len() - kept.count..].iter().any(is_request) {
        return summary;
    }
    let Some(task) = kept.dropped(messages).iter().rev().find_map(|message| task(message)) else { return summary };
    // A token is about four bytes, so that this is a quarter of the room.
    let bytes = usize::try_from(budget.tokens()).unwrap_or(usize::MAX);
    format!("{}{TASK}{}", summary.trim_end(), cut_middle(task, bytes))
}

/// Returns the request of a user's message, or the one that an earlier summary ends with.
fn task(message: &Message) -> Option<String> {
    let Message::User(message) = message else { return None };
    let text = text_of(&message.content);
    match text.strip_prefix(SUMMARY_FRAME) {
        Some(summary) => summary.split_once(TASK).map(|(_, task)| task.to_owned()),
        None => Some(text),
    }
}

/// Lists messages and calls, one line each, in place of a summary by the model.
pub fn listing(messages: &[Arc<Message>]) -> String {
    let mut listing = String::new();
    for message in messages {
        match &**message {
            Message::User(message) => {
                let text = text_of(&message.content);
                // An earlier summary goes on as it is.
                let text = text.strip_prefix(SUMMARY_FRAME).unwrap_or(&text);
                let text = text.split(TASK).next().unwrap_or(text);
                line(&mut listing, "The user: ", text, USER_BYTES);
            }
            Message::Assistant(message) => {
                let text = message.text();
                if !text.trim().is_empty() {
                    line(&mut listing, "The model: ", &text, LINE_BYTES);
                }
                for call in message.tool_calls() {
                    let arguments = call.partial.clone().unwrap_or_else(|| call.arguments.to_string());
                    line(&mut listing, "It called ", &format!("{} {arguments}", call.name), LINE_BYTES);
                }
            }
            Message::ToolResult(message) if message.is_error => {
                line(&mut listing, "That failed: ", &text_of(&message.content), LINE_BYTES);
            }
            Message::ToolResult(_) | Message::Extension(_) => {}
        }
    }
    listing
}

fn line(listing: &mut String, who: &str, text: &str, bytes: usize) {
    // Writing to a string does not fail.
    let _ = writeln!(listing, "{who}{}", cut_middle(text.trim().to_owned(), bytes));
}
