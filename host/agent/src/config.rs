//! What a loop is told, and what it carries from run to run.

use crate::approval::Approval;
use crate::bound::OutputBounds;
use crate::compaction::CompactionPolicy;
use crate::limits::RunLimits;
use crate::message::Message;
use crate::provider::{Provider, RequestOptions};
use crate::queue::MessageQueue;
use crate::retry::RetryPolicy;
use crate::schema::Schemas;
use crate::store::SessionStore;
use crate::tokens::TokenCounter;
use crate::tool::ToolExecutor;
use crate::usage::PriceList;
use std::sync::Arc;

/// How a loop works. Shared by all runs of an agent; cheap to clone.
#[derive(Clone)]
pub struct LoopConfig {
    /// Where replies come from.
    pub provider: Arc<dyn Provider>,
    /// Which model is asked.
    pub model: Model,
    /// How it is asked.
    pub options: RequestOptions,
    /// Who runs tools.
    pub tools: Arc<dyn ToolExecutor>,
    /// Which of them run beside each other.
    pub strategy: Strategy,
    /// Which of them the user is asked about.
    pub approval: Approval,
    /// How much of their results the model gets.
    pub output: OutputBounds,
    /// Who keeps the session.
    pub store: Arc<dyn SessionStore>,
    /// How much a run may use.
    pub limits: RunLimits,
    /// When a failed request is made again.
    pub retry: Arc<dyn RetryPolicy>,
    /// Messages that interrupt the tools of a turn, and come before the next request.
    pub steering: Arc<MessageQueue>,
    /// Messages that come when the agent would stop.
    pub follow_up: Arc<MessageQueue>,
    /// When the conversation is compacted by itself.
    pub compaction: CompactionPolicy,
    /// Who estimates tokens.
    pub counter: Arc<dyn TokenCounter>,
    /// Compiled schemas of tools.
    pub schemas: Arc<Schemas>,
}

/// A model.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// Its name, as the provider knows it.
    pub name: String,
    /// What its tokens cost, where that is known.
    pub prices: Option<Arc<dyn PriceList>>,
    /// How many tokens it can look at, where that is known.
    pub context_window: Option<u64>,
}

/// Which calls of one assistant message run at the same time. A tool that demands to be alone is alone in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    /// All of them.
    #[default]
    Parallel,
    /// One after the other.
    Sequential,
    /// So many, then the next ones.
    Batched(usize),
}

/// A conversation, and whose it is.
#[derive(Debug, Clone)]
pub struct Context {
    /// The system prompt, without the guidelines of tools.
    pub system_prompt: Arc<str>,
    /// The history. Every tool call in it is followed by its result.
    pub messages: Vec<Arc<Message>>,
    /// The session.
    pub session_id: Arc<str>,
    /// The loop that runs, or ran last.
    pub loop_id: Arc<str>,
}
