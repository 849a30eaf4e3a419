//! What a loop is told.

use crate::approval::Approval;
use crate::channel::Events;
use crate::compaction::policy::CompactionPolicy;
use crate::filter::InputFilter;
use crate::hooks::Hooks;
use crate::limits::{Budget, RunLimits};
use crate::queue::{MessageQueue, QueueMode};
use crate::retry::{Backoff, RetryPolicy};
use crate::schema::Schemas;
use crate::spawn::Spawner;
use crate::tokens::{ByteCounter, TokenCounter};
use pinion_protocol::approval::{ApprovalMode, DenyAll};
use pinion_protocol::authority::Authority;
use pinion_protocol::bound::OutputBounds;
use pinion_protocol::event::EventKind;
use pinion_protocol::model::Model;
use pinion_protocol::provider::{Provider, RequestOptions, ThinkingLevel, ToolChoice};
use pinion_protocol::secrets::Secrets;
use pinion_protocol::store::{NoStore, SessionStore};
use pinion_protocol::tool::ToolExecutor;
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
    /// Shared with loops whose tokens and money count against the same limits; one of its own for each run when none.
    pub budget: Option<Arc<Budget>>,
    /// When a failed request is made again.
    pub retry: Arc<dyn RetryPolicy>,
    /// Messages that interrupt the tools of a turn, and come before the next request.
    pub steering: Arc<MessageQueue>,
    /// Messages that come when the agent would stop.
    pub follow_up: Arc<MessageQueue>,
    /// The application's own code, called as the loop works.
    pub hooks: Vec<Arc<dyn Hooks>>,
    /// Who looks at what the user says, before it is sent.
    pub filters: Vec<Arc<dyn InputFilter>>,
    /// May, or must, the model call tools?
    pub tool_choice: ToolChoice,
    /// How often the same call may be made in a row with the same result.
    pub max_repeats: u32,
    /// The middle of the ids of loops; from provider, model and thinking when none.
    pub config_id: Option<String>,
    /// When the conversation is compacted by itself.
    pub compaction: CompactionPolicy,
    /// Who estimates tokens.
    pub counter: Arc<dyn TokenCounter>,
    /// Lets tools start other runs; none where they may not.
    pub spawner: Option<Arc<dyn Spawner>>,
    /// What the tools of a branch may do at most, while it runs beside others in the same folder.
    pub branch_authority: Authority,
    /// Compiled schemas of tools.
    pub schemas: Arc<Schemas>,
    /// Secrets that no message may hold.
    pub secrets: Secrets,
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

impl LoopConfig {
    /// What branches may do where nobody says otherwise: look, and let others look.
    pub const BRANCH_AUTHORITY: Authority = Authority { delegates: true, ..Authority::READ_ONLY };

    /// The defaults of everything but what has none. Calls that have to be approved are denied, and nothing is kept:
    /// change the fields that should be otherwise.
    pub fn new(provider: Arc<dyn Provider>, model: Model, tools: Arc<dyn ToolExecutor>) -> Self {
        let reason = "nobody is there to approve it".to_owned();
        Self {
            provider,
            model,
            options: RequestOptions::default(),
            tools,
            strategy: Strategy::default(),
            approval: Approval::new(ApprovalMode::default(), Arc::new(DenyAll { reason })),
            output: OutputBounds::default(),
            store: Arc::new(NoStore),
            limits: RunLimits::default(),
            budget: None,
            retry: Arc::new(Backoff::default()),
            steering: Arc::new(MessageQueue::new(QueueMode::OneAtATime)),
            follow_up: Arc::new(MessageQueue::new(QueueMode::OneAtATime)),
            hooks: Vec::new(),
            filters: Vec::new(),
            tool_choice: ToolChoice::Auto,
            max_repeats: 3,
            config_id: None,
            compaction: CompactionPolicy::default(),
            counter: Arc::new(ByteCounter),
            spawner: None,
            branch_authority: Self::BRANCH_AUTHORITY,
            schemas: Arc::default(),
            secrets: Secrets::default(),
        }
    }

    /// Reports an event of a run to the session's store, then to the watchers.
    pub async fn report(&self, events: &Events, loop_id: &Arc<str>, kind: EventKind) {
        self.store.observe(loop_id, &kind);
        events.emit(loop_id, kind).await;
    }

    /// The id of the loop of this number in a session.
    pub fn loop_id(&self, session_id: &str, number: u32) -> Arc<str> {
        format!("{session_id}.{}.{number}", self.id()).into()
    }

    /// The middle of the ids of loops.
    pub(crate) fn id(&self) -> String {
        let id = || {
            let thinking = match self.options.thinking {
                ThinkingLevel::Off => "",
                _ => ".thinking",
            };
            format!("{}.{}{thinking}", self.provider.name(), self.model.name)
        };
        self.config_id.clone().unwrap_or_else(id)
    }
}
