//! Compaction: replaces a long conversation by a shorter one.
//!
//! Replaced messages stay in the session: a compaction is an extension message with the content that the model sees
//! instead. [`pinion_protocol::compaction::view`] returns the model's view of a history with compactions in it.
//!
//! By itself it happens before a request that would leave no room for the reply ([`CompactionPolicy::threshold`]), so
//! after tool results as well as after a reply, and once after the vendor rejected a request as too long. First, long
//! results of old tool calls are cut. If that does not halve the history, its old part is replaced by a summary that
//! the model writes, or, when it does not, by a list of messages and calls. The first two messages stay with the
//! results of their calls if there is room, and so does the user's last request, in their words. The result always fits
//! ([`pinion_protocol::compaction::shrink`] is the arithmetic). An application can replace these steps with a
//! [`CompactionStrategy`].

mod summary;
#[cfg(test)]
mod tests;

pub use pinion_protocol::compaction::kept_words::{PIN_FRAME, kept_words, without_kept_words};
pub use pinion_protocol::compaction::policy::CompactionPolicy;
pub use pinion_protocol::compaction::{COMPACTION_MESSAGE, CompactionRecord, SUMMARY_FRAME, is_summary, view};
pub use pinion_protocol::compaction::{CompactionStrategy, LongHistory, Replacement};

use crate::config::LoopConfig;
use crate::context::Context;
use jiff::Timestamp;
use pinion_interaction::channel::EventWatchers;
use pinion_protocol::compaction::kept_words::with_kept_words;
use pinion_protocol::compaction::shrink::{self, Retained, TokenBudget};
use pinion_protocol::event::{CompactionReason, EventKind};
use pinion_protocol::message::{ExtensionMessage, Message};
use pinion_protocol::store::StoreError;
use pinion_protocol::tokens::json_bytes;
use pinion_protocol::tokens::{ContextTracker, messages_tokens};
use pinion_protocol::usage::Spend;
use std::sync::Arc;
use summary::Summary;
use tokio_util::sync::CancellationToken;

/// Maximum bytes of JSON of the messages that a compaction on request keeps at either end. A round that is small enough
/// stays as it is, so that the model does not lose its thread.
const KEPT_ROUND_BYTES: u64 = 32 * 1024;

/// Result of a compaction.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Compaction {
    /// The reason for the compaction.
    pub reason: CompactionReason,
    /// Number of messages that were kept at the start.
    pub first: usize,
    /// Number of messages that the model no longer sees.
    pub dropped: usize,
    /// Summary that replaces them; empty when only tool results were shortened.
    pub summary: String,
    /// Estimated tokens of the conversation before.
    pub before: u64,
    /// Estimated tokens of the conversation now.
    pub after: u64,
    /// Tokens and cost of the request for the summary.
    pub spend: Spend,
}

/// The reason a conversation was not compacted; it remains unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// A run is under way.
    #[error("a run is under way")]
    AlreadyRunning,
    /// There is nothing to replace.
    #[error("nothing to compact yet")]
    Nothing,
    /// The model did not write a summary.
    #[error("the model wrote no summary: {message}")]
    NoSummary {
        /// The cause.
        message: String,
    },
    /// It was aborted.
    #[error("aborted")]
    Aborted,
    /// The session could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A conversation to compact, and the means for it.
pub(crate) struct Compactor<'a> {
    pub(crate) context: &'a mut Context,
    pub(crate) config: &'a LoopConfig,
    pub(crate) events: &'a EventWatchers,
    pub(crate) token: &'a CancellationToken,
}

/// Asks the model for a summary and puts it in the place of the conversation.
///
/// # Errors
/// The context is as it was then.
pub async fn compact(
    context: &mut Context,
    instructions: Option<&str>,
    config: &LoopConfig,
    events: &EventWatchers,
    token: &CancellationToken,
) -> Result<Compaction, CompactionError> {
    let messages = &context.messages;
    let kept = shrink::kept_on_request(messages, last_round(messages), KEPT_ROUND_BYTES, &config.policy.compaction);
    let replaced = kept.dropped(messages).len();
    if replaced == 0 {
        return Err(CompactionError::Nothing);
    }
    let compactor = Compactor { context, config, events, token };
    let Summary { text, spend } = compactor.summary(None, replaced, instructions).await;
    let text = with_kept_words(&text?, kept.dropped(&compactor.context.messages), false);
    compactor.settle(kept.record(text, kept.count), CompactionReason::Asked, None, spend).await
}

impl Compactor<'_> {
    /// Makes room for the next request.
    ///
    /// # Errors
    /// [`CompactionError::Nothing`] when less cannot be made of it.
    pub(crate) async fn make_room(
        self,
        reason: CompactionReason,
        tracker: &ContextTracker,
    ) -> Result<Compaction, CompactionError> {
        let policy = &self.config.policy.compaction;
        let tokens = self.room(reason, tracker).ok_or(CompactionError::Nothing)?;
        let (budget, messages) = (TokenBudget { tokens, tracker }, &self.context.messages);
        // The last message alone is the request to answer.
        if messages.len() < 2 || budget.holds(messages) {
            return Err(CompactionError::Nothing);
        }
        if let Some((record, spend)) = self.replaced(reason, &budget).await {
            return self.settle(record, reason, None, spend).await;
        }
        if let Some(record) = shrink::cut_results(messages, &budget, policy) {
            return self.settle(record, reason, None, Spend::default()).await;
        }
        let kept = shrink::kept(messages, &budget, policy);
        let dropped = kept.dropped(messages);
        if dropped.is_empty() {
            let record = kept.only_cut(messages).ok_or(CompactionError::Nothing)?;
            return self.settle(record, reason, None, Spend::default()).await;
        }
        let Summary { text, spend } = self.written(reason, dropped.len(), &budget).await;
        let (text, failure) = match text {
            Ok(text) => (with_kept_words(&text, dropped, false), None),
            Err(CompactionError::Nothing) => (with_kept_words(&shrink::listing(dropped), dropped, true), None),
            // Must not stop the run.
            Err(CompactionError::NoSummary { message }) => {
                (with_kept_words(&shrink::listing(dropped), dropped, true), Some(message))
            }
            Err(other) => return Err(other),
        };
        let text = shrink::with_task(text, messages, kept, &budget);
        let record = shrink::fit(messages, text, kept, &budget);
        self.settle(record, reason, failure, spend).await
    }

    /// Returns the tokens that the messages may take afterwards; `None` when no message is to blame.
    fn room(&self, reason: CompactionReason, tracker: &ContextTracker) -> Option<u64> {
        let policy = &self.config.policy.compaction;
        let now = tracker.calibrated(messages_tokens(&self.context.messages, tracker.counter()));
        // The part of every request that is not a message stays.
        let most = policy.room(self.config.policy.model.context_window, Some(tracker.fixed()));
        match reason {
            // The vendor counts more than we do, or has less room than we know of.
            CompactionReason::Overflow => Some(most.filter(|most| *most > 0).unwrap_or(now).min(now / 2)),
            CompactionReason::Asked | CompactionReason::Threshold => most.filter(|most| *most > 0),
        }
    }

    /// Returns the replacement by the application's strategy, if it has one that fits.
    async fn replaced(&self, reason: CompactionReason, budget: &TokenBudget<'_>) -> Option<(CompactionRecord, Spend)> {
        let strategy = self.config.ports.compaction.as_ref()?;
        let messages = &self.context.messages;
        let history = LongHistory::new(messages, budget.tokens(), reason, self.token);
        let Replacement { first, summary, recent, spend } = strategy.replace(history).await?;
        let record = shrink::fit(messages, summary, Retained::from_messages(messages, first, recent), budget);
        budget.holds(&record.apply(messages, Timestamp::UNIX_EPOCH)).then_some((record, spend))
    }

    /// Asks for a summary unless the policy or the room rules one out, which is [`CompactionError::Nothing`].
    async fn written(&self, reason: CompactionReason, replaced: usize, budget: &TokenBudget<'_>) -> Summary {
        if !self.config.policy.compaction.by_model || budget.tokens() < shrink::MIN_SUMMARY_TOKENS {
            return Summary { text: Err(CompactionError::Nothing), spend: Spend::default() };
        }
        // The vendor refused a request of this size, even if the stated window is larger.
        let refused = (reason == CompactionReason::Overflow).then(|| budget.count(&self.context.messages));
        self.summary(refused.map(|tokens| tokens / 4 * 3), replaced, None).await
    }

    /// Keeps the compaction in the session, then in the context, then reports it, with the reason the model wrote no summary.
    async fn settle(
        self,
        record: CompactionRecord,
        reason: CompactionReason,
        failure: Option<String>,
        spend: Spend,
    ) -> Result<Compaction, CompactionError> {
        let message = Message::Extension(ExtensionMessage {
            kind: COMPACTION_MESSAGE.to_owned(),
            data: serde_json::json!(record),
            timestamp: Timestamp::now(),
        });
        let timestamp = message.timestamp();
        self.config.ports.store.append(&Arc::new(message))?;
        let old = std::mem::take(&mut self.context.messages);
        self.context.messages = record.apply(&old, timestamp);
        let count = |messages| messages_tokens(messages, &*self.config.ports.counter);
        let kept = record.kept.min(old.len());
        let first = record.first.min(old.len() - kept);
        let compaction = Compaction {
            reason,
            first,
            dropped: old.len() - first - kept,
            summary: record.summary,
            before: count(&old),
            after: count(&self.context.messages),
            spend,
        };
        let event = EventKind::Compaction {
            reason,
            dropped: compaction.dropped,
            summary: compaction.summary.clone(),
            failure,
            before: compaction.before,
            after: compaction.after,
            spend,
        };
        self.config.report(self.events, &self.context.run_id, event).await;
        Ok(compaction)
    }
}

/// Returns the number of messages from the last user message on if that round is small; otherwise 0.
fn last_round(messages: &[Arc<Message>]) -> usize {
    let Some(at) = messages.iter().rposition(|message| matches!(**message, Message::User(_))) else { return 0 };
    let round = &messages[at..];
    let bytes: u64 = round.iter().map(json_bytes).sum();
    if bytes <= KEPT_ROUND_BYTES { round.len() } else { 0 }
}
