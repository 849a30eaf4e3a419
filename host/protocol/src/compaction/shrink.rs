//! The arithmetic of compaction: which parts to cut and keep, so that the result fits.
//!
//! Pure functions of messages and a budget. Their result fits any budget of at least [`MIN_TOKENS`] tokens, and never
//! parts a call from its result: the kept part begins with a message that is not a result.

use super::kept_words::{PIN_FRAME, is_pin, without_kept_words};
use super::{CompactionRecord, Cut, SUMMARY_FRAME, is_summary};
use crate::compaction::policy::CompactionPolicy;
use crate::content::text_of;
use crate::message::Message;
use crate::output_bounds::cut_middle;
use crate::tokens::json_bytes;
use crate::tokens::{ContextTracker, messages_tokens};
use jiff::Timestamp;
use std::fmt::Write as _;
use std::sync::Arc;

/// The smallest budget, in tokens. Less would not even hold the words that go before a summary.
pub const MIN_TOKENS: u64 = 64;
/// The smallest budget, in tokens, that makes a summary by the model worth its request.
pub const MIN_SUMMARY_TOKENS: u64 = 512;
/// Bytes of a user's message in a listing. Longer ones are cut in the middle.
const USER_BYTES: usize = 2_000;
/// Bytes of any other line of a listing.
const LINE_BYTES: usize = 160;
/// Precedes the request that the model works on, at the end of a summary.
pub(super) const TASK: &str = "\n\n[The request that you are working on, in the user's words:]\n\n";

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
    /// Bound on the tool results among those at the start.
    pub first_cut: Option<Cut>,
}

impl Retained {
    /// Keeps at most so many messages at both ends, and fewer where a call would lose its result.
    pub fn from_messages(messages: &[Arc<Message>], first: usize, recent: usize) -> Self {
        let is_boundary = |at: &usize| !matches!(messages.get(*at).map(|m| &**m), Some(Message::ToolResult(_)));
        let start = messages.len() - recent.min(messages.len());
        let start = (start..=messages.len()).find(is_boundary).unwrap_or(messages.len());
        // An earlier summary is not the beginning of the conversation.
        let own = messages.iter().take(first.min(start)).take_while(|message| !is_summary(message)).count();
        let first = (0..=own).rev().find(is_boundary).unwrap_or(0);
        Self { first, count: messages.len() - start, cut: None, first_cut: None }
    }

    /// Keeps at most so many messages at both ends, and at the start the results of the calls in them as well,
    /// shortened like any old call's results.
    pub fn with_results(messages: &[Arc<Message>], first: usize, recent: usize, policy: &CompactionPolicy) -> Self {
        let is_result = |message: &&Arc<Message>| matches!(***message, Message::ToolResult(_));
        let results = messages.iter().skip(first.max(1)).take_while(is_result).count();
        let kept = Self::from_messages(messages, if first == 0 { 0 } else { first + results }, recent);
        let has_results = messages[..kept.first].iter().any(|message| is_result(&message));
        Self { first_cut: has_results.then(|| policy.cut(0)), ..kept }
    }

    /// Returns the messages at the start, as they are kept.
    pub fn head(&self, messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
        self.record(String::new(), 0).apply(&messages[..self.first], Timestamp::UNIX_EPOCH)
    }

    /// Returns the record of a compaction that keeps so many messages at the end.
    pub fn record(&self, summary: String, kept: usize) -> CompactionRecord {
        CompactionRecord { summary, first: self.first, kept, cut: self.cut, first_cut: self.first_cut }
    }

    /// Returns the messages in between.
    pub fn dropped<'a>(&self, messages: &'a [Arc<Message>]) -> &'a [Arc<Message>] {
        &messages[self.first..messages.len() - self.count]
    }

    /// Returns the record of a compaction that only shortens tool results; `None` if it would change nothing.
    pub fn only_cut(&self, messages: &[Arc<Message>]) -> Option<CompactionRecord> {
        self.cut.or(self.first_cut)?;
        Some(self.record(String::new(), messages.len() - self.first))
    }
}

/// Cuts the results of old tool calls; returns `None` if that is not enough.
pub fn cut_results(
    messages: &[Arc<Message>],
    budget: &TokenBudget<'_>,
    policy: &CompactionPolicy,
) -> Option<CompactionRecord> {
    let cut = Some(policy.cut(policy.keep_recent));
    let record = CompactionRecord { kept: messages.len(), cut, ..CompactionRecord::default() };
    budget.holds(&record.apply(messages, Timestamp::UNIX_EPOCH)).then_some(record)
}

/// Returns the messages to keep: of the last `keep_recent` as many as take half of the room, with their results cut where
/// that saves more of them; of the first `keep_first` as many as take a quarter, with the results of their calls.
pub fn kept(messages: &[Arc<Message>], budget: &TokenBudget<'_>, policy: &CompactionPolicy) -> Retained {
    let (tail, cut) = recent(messages, budget, policy);
    let heads = (0..=policy.keep_first.min(messages.len())).rev();
    let mut heads = heads.map(|first| Retained { cut, ..Retained::with_results(messages, first, tail, policy) });
    let fits = |kept: &Retained| {
        let least = kept.record("…".to_owned(), tail);
        budget.count(&kept.head(messages)) <= budget.tokens() / 4
            && budget.holds(&least.apply(messages, Timestamp::UNIX_EPOCH))
    };
    heads.find(fits).unwrap_or(Retained { first: 0, count: tail, cut, first_cut: None })
}

/// Returns the messages to keep when the user asks for a compaction: this many at the end, and of the first `keep_first` as
/// many as take at most `bytes` of JSON and leave something to replace. The first one stays in any case.
pub fn kept_on_request(messages: &[Arc<Message>], recent: usize, bytes: u64, policy: &CompactionPolicy) -> Retained {
    let of = |first| Retained::with_results(messages, first, recent, policy);
    let is_small = |kept: &Retained| kept.head(messages).iter().map(json_bytes).sum::<u64>() <= bytes;
    let mut heads = (2..=policy.keep_first).rev().map(of);
    let kept = heads.find(|kept| !kept.dropped(messages).is_empty() && is_small(kept));
    kept.unwrap_or_else(|| of(policy.keep_first.min(1)))
}

/// Returns the number of messages at the end that are kept, and how their results are cut.
fn recent(messages: &[Arc<Message>], budget: &TokenBudget<'_>, policy: &CompactionPolicy) -> (usize, Option<Cut>) {
    let half = budget.tokens() / 2;
    let cut = policy.cut(0);
    for count in (1..=messages.len().min(policy.keep_recent)).rev() {
        let tail = &messages[messages.len() - count..];
        if matches!(*tail[0], Message::ToolResult(_)) {
            continue;
        }
        for cut in [None, Some(cut)] {
            let record = CompactionRecord { kept: count, cut, ..CompactionRecord::default() };
            if budget.count(&record.apply(tail, Timestamp::UNIX_EPOCH)) <= half {
                return (count, cut);
            }
        }
    }
    (0, None)
}

/// Returns the history that the model is asked to summarize, which fits the budget where possible: unchanged, or with
/// shorter tool results, or without its middle, which a list of statements and actions replaces.
pub fn for_summary(
    messages: &[Arc<Message>],
    budget: &TokenBudget<'_>,
    policy: &CompactionPolicy,
) -> Vec<Arc<Message>> {
    if budget.holds(messages) {
        return messages.to_vec();
    }
    let most = policy.cut(0);
    for bytes in [most.bytes, most.bytes / 4, most.bytes / 16] {
        let cut = Some(Cut { bytes, ..most });
        let shorter = CompactionRecord { kept: messages.len(), cut, ..CompactionRecord::default() }
            .apply(messages, Timestamp::UNIX_EPOCH);
        if budget.holds(&shorter) {
            return shorter;
        }
    }
    let policy = CompactionPolicy { keep_recent: messages.len(), ..policy.clone() };
    let kept = kept(messages, budget, &policy);
    fit(messages, listing(kept.dropped(messages)), kept, budget).apply(messages, Timestamp::UNIX_EPOCH)
}

/// Puts a summary between the kept parts, and cuts it until everything fits.
pub fn fit(messages: &[Arc<Message>], summary: String, kept: Retained, budget: &TokenBudget<'_>) -> CompactionRecord {
    let mut record = kept.record(summary, kept.count);
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
/// contain it. A summary may lose the request, and its frame says that it asks for nothing.
pub fn with_task(summary: String, messages: &[Arc<Message>], kept: Retained, budget: &TokenBudget<'_>) -> String {
    let is_request =
        |message: &Arc<Message>| matches!(**message, Message::User(_)) && !is_summary(message) && !is_pin(message);
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
    if text.starts_with(PIN_FRAME) {
        return None;
    }
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
                // An earlier summary is kept as it is.
                let text = text.strip_prefix(SUMMARY_FRAME).unwrap_or(&text);
                let text = without_kept_words(text.split(TASK).next().unwrap_or(text));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::ByteCounter;

    #[test]
    fn summary_is_cut_only_where_it_does_not_fit() {
        let tracker = ContextTracker::new(Arc::new(ByteCounter::new(4).unwrap()));
        let messages: Vec<Arc<Message>> = ["task", "old", "last"].map(|text| Arc::new(Message::user(text))).into();
        let summary = "It read a file. ".repeat(1_000);
        let fitted = |tokens: u64| {
            let budget = TokenBudget { tokens, tracker: &tracker };
            fit(&messages, summary.clone(), Retained::from_messages(&messages, 1, 1), &budget).summary
        };
        assert_eq!(fitted(1_000_000), summary);
        let cut = fitted(2_000);
        assert!(cut.len() > 1_000 && cut.len() < 8_000, "{}", cut.len());
    }
}
