//! The configuration of runs: ports, policy and inbox.

pub use pinion_interaction::queue::{MessageQueue, QueueMode};

use crate::context::Context;
use crate::extension::hooks::Hooks;
use crate::extension::spawn::{Completer, Spawner};
use pinion_interaction::approval::Approval;
use pinion_interaction::channel::EventWatchers;
use pinion_protocol::approval::{ApprovalMode, DenyAll};
use pinion_protocol::authority::Authority;
use pinion_protocol::compaction::CompactionStrategy;
use pinion_protocol::compaction::policy::CompactionPolicy;
use pinion_protocol::delegation::{FoundModel, ModelSource, WorkDirectory};
use pinion_protocol::event::EventKind;
use pinion_protocol::filter::InputFilter;
use pinion_protocol::guard::caught;
use pinion_protocol::hook::PluginHooks;
use pinion_protocol::limits::{Budget, RunLimits};
use pinion_protocol::live_state::LiveState;
use pinion_protocol::message::Message;
use pinion_protocol::output_bounds::OutputBounds;
use pinion_protocol::provider::Model;
use pinion_protocol::provider::{Provider, RequestOptions, ThinkingLevel, ToolChoice};
use pinion_protocol::retry::{Backoff, RetryPolicy};
use pinion_protocol::store::{NoStore, SessionStore};
use pinion_protocol::tokens::{ByteCounter, TokenCounter};
use pinion_protocol::tool::ToolExecutor;
use pinion_redact::Secrets;
use pinion_schema::Schemas;
use std::sync::{Arc, MutexGuard};

/// Configuration of runs. Shared by all runs of an agent; cheap to clone.
#[derive(Clone)]
pub struct LoopConfig {
    /// Implementations that the loop calls.
    pub ports: Ports,
    /// Settings of the application.
    pub policy: RunPolicy,
    /// Messages that come in while a run is under way.
    pub inbox: Inbox,
    /// Tokens and money, shared with the runs that count against the same limits; each run makes a separate budget when
    /// `None`.
    pub budget: Option<Arc<Budget>>,
    /// Compiled schemas of tools.
    pub schemas: Arc<Schemas>,
    /// Nesting of the runs: 0 for the agent, 1 for its sub-agents, and so on.
    pub depth: u32,
    /// Name of the sub-agent, for questions about its calls; `None` for the agent.
    pub agent: Option<Arc<str>>,
    /// Directory that the runs work in.
    pub directory: WorkDirectory,
}

/// The implementations that the loop calls.
#[derive(Clone)]
pub struct Ports {
    /// The source of replies.
    pub provider: Arc<dyn Provider>,
    /// The executor of tool calls.
    pub tools: Arc<dyn ToolExecutor>,
    /// The store that keeps the session.
    pub store: Arc<dyn SessionStore>,
    /// The approval mode, and who decides about calls that need approval.
    pub approval: Approval,
    /// Decides when a failed request is made again.
    pub retry: Arc<dyn RetryPolicy>,
    /// Estimates tokens.
    pub counter: Arc<dyn TokenCounter>,
    /// Decides how to replace a long history; the built-in way when `None`.
    pub compaction: Option<Arc<dyn CompactionStrategy>>,
    /// The model that writes summaries; the model of the conversation when `None`, or when this one fails.
    pub summarizer: Option<FoundModel>,
    /// The application's own code, called as the loop works.
    pub hooks: Vec<Arc<dyn Hooks>>,
    /// The hooks of plugins, which can only restrict.
    pub plugin_hooks: Option<Arc<dyn PluginHooks>>,
    /// Filters of the user's messages, before they are sent.
    pub filters: Vec<Arc<dyn InputFilter>>,
    /// Asks models for tools; `None` where tools may not ask.
    pub completer: Option<Arc<dyn Completer>>,
    /// Resolves the models that tools name; `None` leaves them the model of the run.
    pub models: Option<Arc<dyn ModelSource>>,
    /// Lets tools start other runs; `None` where they may not.
    pub spawner: Option<Arc<dyn Spawner>>,
    /// Secrets that no message may hold.
    pub secrets: Secrets,
}

/// The choices that an application makes for its runs.
#[derive(Clone)]
pub struct RunPolicy {
    /// The model.
    pub model: Model,
    /// Options of requests.
    pub options: RequestOptions,
    /// Constraint on the model's use of tools.
    pub tool_choice: ToolChoice,
    /// Concurrency of the calls of one message.
    pub strategy: Strategy,
    /// Bounds on the part of a tool's output that the model gets.
    pub output: OutputBounds,
    /// Limits of one run.
    pub limits: RunLimits,
    /// Maximum number of identical calls with the same result, in a row or in turns with up to three others; at least 1.
    pub max_repeats: u32,
    /// Automatic compaction.
    pub compaction: CompactionPolicy,
    /// The most that the tools of a parallel branch may do, as all branches work in the same directory.
    pub branch_authority: Authority,
    /// The middle of the ids of runs; provider, model and thinking when `None`.
    pub config_id: Option<String>,
}

/// Messages that come in while a run is under way.
#[derive(Clone, Default)]
pub struct Inbox {
    /// Messages that come before the next request. Urgent ones interrupt the tools of a turn.
    pub steering: Arc<MessageQueue>,
    /// Messages that come when the agent would stop.
    pub follow_up: Arc<MessageQueue>,
}

impl Inbox {
    /// Removes and returns the next messages, those that steer first; `None` if the queues are empty. The run ends
    /// then, and its state says so before another message can come.
    pub(crate) fn next(&self, run: Option<MutexGuard<'_, LiveState>>) -> Option<Vec<Message>> {
        let queue = if self.steering.is_empty() { &self.follow_up } else { &self.steering };
        Some(queue.take_messages()).filter(|messages| !messages.is_empty()).or_else(|| {
            run?.close();
            None
        })
    }
}

/// The relation of a run to the run that starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildKind {
    /// Works on a separate task, with a separate conversation.
    Task,
    /// Continues the parent's conversation alongside other branches.
    Branch,
}

/// Concurrency of the calls of one assistant message. A sequential tool always runs alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    /// All calls run concurrently.
    #[default]
    Parallel,
    /// Calls run one after the other.
    Sequential,
    /// Calls run in batches of this size.
    Batched(usize),
}

impl LoopConfig {
    /// Default authority of branches: reading and delegation.
    pub const BRANCH_AUTHORITY: Authority = Authority { delegates: true, ..Authority::READ_ONLY };

    /// Creates a config with defaults. Calls that need approval are denied and nothing is stored, until the fields are
    /// changed.
    pub fn new(provider: Arc<dyn Provider>, model: Model, tools: Arc<dyn ToolExecutor>) -> Self {
        let reason = "nobody is available to approve it".to_owned();
        let ports = Ports {
            provider,
            tools,
            store: Arc::new(NoStore),
            approval: Approval::new(ApprovalMode::default(), Arc::new(DenyAll { reason })),
            retry: Arc::new(Backoff::default()),
            counter: Arc::new(ByteCounter::DEFAULT),
            compaction: None,
            summarizer: None,
            hooks: Vec::new(),
            plugin_hooks: None,
            filters: Vec::new(),
            completer: None,
            models: None,
            spawner: None,
            secrets: Secrets::default(),
        };
        let policy = RunPolicy {
            model,
            options: RequestOptions::default(),
            tool_choice: ToolChoice::Auto,
            strategy: Strategy::default(),
            output: OutputBounds::default(),
            limits: RunLimits::default(),
            max_repeats: 3,
            compaction: CompactionPolicy::default(),
            branch_authority: Self::BRANCH_AUTHORITY,
            config_id: None,
        };
        Self {
            ports,
            policy,
            inbox: Inbox::default(),
            budget: None,
            schemas: Arc::default(),
            depth: 0,
            agent: None,
            directory: WorkDirectory::Parent,
        }
    }

    /// Returns the config with another model and its provider.
    #[must_use]
    pub fn with_model(mut self, found: FoundModel) -> Self {
        (self.ports.provider, self.policy.model) = (found.provider, found.model);
        self
    }

    /// Returns the config that a child inherits: the one place that decides which settings it does not inherit.
    ///
    /// No child shares the inbox: messages of the user are for the run that the user sees. A task is given by another run,
    /// not by the user, so that the user's filters and the demand for a tool are not its own either, and it starts
    /// no children unless its parent says so.
    #[must_use]
    pub fn child(&self, kind: ChildKind) -> Self {
        let Self { ports, policy, inbox: _, budget, schemas, depth, agent, directory } = self.clone();
        let inbox = Inbox::default();
        match kind {
            ChildKind::Branch => Self { ports, policy, inbox, budget, schemas, depth, agent, directory },
            ChildKind::Task => {
                let ports = Ports { filters: Vec::new(), spawner: None, ..ports };
                let policy = RunPolicy { tool_choice: ToolChoice::Auto, ..policy };
                Self { ports, policy, inbox, budget, schemas, depth: depth + 1, agent, directory }
            }
        }
    }

    /// Reports an event of a run to the session's store, then to the watchers.
    pub async fn report(&self, events: &EventWatchers, run_id: &Arc<str>, kind: EventKind) {
        self.observe(run_id, &kind);
        events.emit(run_id, kind).await;
    }

    /// Passes an event to the store and the hooks of plugins. A panic there must not keep the watchers from the event.
    fn observe(&self, run_id: &Arc<str>, kind: &EventKind) {
        if let Err(error) = caught(|| self.ports.store.observe(run_id, kind)) {
            tracing::error!(%error, "the session's store did not observe an event");
        }
        if let Some(hooks) = self.ports.plugin_hooks.as_deref()
            && let Err(error) = caught(|| pinion_redact::report_to_hooks(hooks, run_id, kind, &self.ports.secrets))
        {
            tracing::error!(%error, "the hooks of plugins did not observe an event");
        }
    }

    /// Reports an event that watchers may miss when they are behind.
    pub(crate) fn offer(&self, events: &EventWatchers, run_id: &Arc<str>, kind: &EventKind) {
        self.observe(run_id, kind);
        events.offer(run_id, kind);
    }

    /// Returns the id that the next run of a conversation gets.
    pub fn next_run_id(&self, context: &Context) -> Arc<str> {
        let id = self.id();
        format!("{}.{id}.{}", context.session_id, context.runs.next(&id)).into()
    }

    /// Gives a conversation the id of its next run, and counts it.
    pub(crate) fn begin_run(&self, context: &mut Context) {
        context.run_id = self.next_run_id(context);
        context.runs.count(&self.id());
    }

    /// Returns the middle part of run ids.
    pub fn id(&self) -> String {
        let id = || {
            let thinking = match self.policy.options.thinking {
                ThinkingLevel::Off => "",
                _ => ".thinking",
            };
            format!("{}.{}{thinking}", self.ports.provider.name(), self.policy.model.name)
        };
        self.policy.config_id.clone().unwrap_or_else(id)
    }
}
