//! The port to applications that choose the replacement of a long history themselves.

use crate::event::CompactionReason;
use crate::message::Message;
use crate::usage::Spend;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Chooses the replacement of a long history.
pub trait CompactionStrategy: Send + Sync {
    /// Returns the replacement for the older part of a history; `None` for the built-in way. Must return promptly once
    /// `history.token` is cancelled.
    ///
    /// The loop keeps fewer messages where a call would lose its result, and shortens the summary until the history
    /// fits. If the kept messages alone do not fit, it compacts in the built-in way.
    fn replace<'a>(&'a self, history: LongHistory<'a>) -> BoxFuture<'a, Option<Replacement>>;
}

/// A history to be compacted.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct LongHistory<'a> {
    /// The messages that the model sees now.
    pub messages: &'a [Arc<Message>],
    /// Maximum tokens of the messages afterwards, by the estimate of the loop.
    pub tokens: u64,
    /// The reason for the compaction.
    pub reason: CompactionReason,
    /// Cancelled when the run is aborted.
    pub token: &'a CancellationToken,
}

/// The messages that remain of a history, and a summary of the others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replacement {
    /// Number of messages to keep at the start.
    pub first: usize,
    /// Summary of the messages in between.
    pub summary: String,
    /// Number of messages to keep at the end.
    pub recent: usize,
    /// Tokens and cost of the work on it, which count toward the run.
    pub spend: Spend,
}

impl<'a> LongHistory<'a> {
    /// Describes a history to a strategy.
    pub fn new(
        messages: &'a [Arc<Message>],
        tokens: u64,
        reason: CompactionReason,
        token: &'a CancellationToken,
    ) -> Self {
        Self { messages, tokens, reason, token }
    }
}
