//! The arithmetic of compaction: what is cut, what is kept, and that it fits.
//!
//! Pure functions of messages and a budget. What they make of any history fits any budget of at least [`MIN_TOKENS`] tokens,
//! and never parts a call from its result: what is kept begins with a message that is no result.

use super::{Cut, FRAME, Record};
use crate::bound::cut_middle;
use crate::compaction::policy::CompactionPolicy;
use crate::content::Content;
use crate::message::Message;
use crate::tokens::{ContextTracker, messages_tokens};
use jiff::Timestamp;
use std::fmt::Write as _;
use std::sync::Arc;

/// The smallest budget, in tokens. Less would not even hold the words that go before a summary.
pub const MIN_TOKENS: u64 = 64;
/// Bytes of a user's message in a listing. Longer ones are cut in the middle.
const USER_BYTES: usize = 2_000;
/// Bytes of any other line of a listing.
const LINE_BYTES: usize = 160;

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
    /// Number of messages at the end.
    pub count: usize,
    /// Bound on their tool results.
    pub cut: Option<Cut>,
}

/// Cuts the results of old tool calls; returns `None` if that is not enough.
pub fn cut_results(messages: &[Arc<Message>], budget: &TokenBudget<'_>, policy: &CompactionPolicy) -> Option<Record> {
    let cut = Cut { bytes: policy.result_bytes, spared: policy.keep_recent };
    let record = Record { summary: String::new(), kept: messages.len(), cut: Some(cut) };
    budget.holds(&record.apply(messages, Timestamp::UNIX_EPOCH)).then_some(record)
}

/// Returns the messages at the end to keep: as many of the last `keep_recent` as take half of the room; with their results
/// cut where that saves more of them.
pub fn kept(messages: &[Arc<Message>], budget: &TokenBudget<'_>, policy: &CompactionPolicy) -> Retained {
    let half = TokenBudget { tokens: budget.tokens() / 2, tracker: budget.tracker };
    let recent = messages.len().min(policy.keep_recent);
    let cut = Cut { bytes: policy.result_bytes, spared: 0 };
    for count in (1..=recent).rev() {
        let tail = &messages[messages.len() - count..];
        if matches!(*tail[0], Message::ToolResult(_)) {
            continue;
        }
        for cut in [None, Some(cut)] {
            let record = Record { summary: String::new(), kept: count, cut };
            if half.count(&record.apply(tail, Timestamp::UNIX_EPOCH)) <= half.tokens {
                return Retained { count, cut };
            }
        }
    }
    Retained { count: 0, cut: None }
}

/// Puts a summary before what is kept, and cuts it until both fit.
pub fn fit(messages: &[Arc<Message>], summary: String, kept: Retained, budget: &TokenBudget<'_>) -> Record {
    let mut record = Record { summary, kept: kept.count, cut: kept.cut };
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

/// Lists messages and calls, one line each, in place of a summary by the model.
pub fn listing(messages: &[Arc<Message>]) -> String {
    let mut listing = String::new();
    for message in messages {
        match &**message {
            Message::User(message) => {
                let text = texts(&message.content);
                // An earlier summary goes on as it is.
                let text = text.strip_prefix(FRAME).unwrap_or(&text);
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
                line(&mut listing, "That failed: ", &texts(&message.content), LINE_BYTES);
            }
            Message::ToolResult(_) | Message::Extension(_) => {}
        }
    }
    listing
}

fn texts(content: &[Content]) -> String {
    content.iter().filter_map(Content::as_text).collect()
}

fn line(listing: &mut String, who: &str, text: &str, bytes: usize) {
    // Writing to a string does not fail.
    let _ = writeln!(listing, "{who}{}", cut_middle(text.trim().to_owned(), bytes));
}
