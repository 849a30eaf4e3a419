//! Sub-agents: agents that the tools of a run start for parts of the task.
//!
//! A sub-agent is a run with a separate conversation, which starts with the prompt alone or with a copy of its parent's
//! conversation ([`crate::agent_start`]). It inherits a restricted config: the model of its parent unless the user configured another one; the same hooks and
//! approval; the same tools or a subset, with no more authority than the tool that started it; a separate turn limit,
//! and the token and cost budget of its parent. Its events go to the watchers of its parent, their sessions are linked
//! both ways, and its spend counts as its parent's. It is cancelled with the call that started it, and no run ends
//! before its sub-agents have ended.
//!
//! The parent's model always gets a report in words, for any result: see [`SubAgentReport::for_model`].

use crate::agent_budget::{EndedAgent, reported, within_budget};
use crate::agent_directories::{AgentDirectories, brief, open_directory};
use crate::agent_start::{SharedOffer, before_call, task_with_brief};
use crate::background::{BackgroundAgents, MAX_IN_BACKGROUND, report_message};
use crate::launch_plan::{LaunchPlan, select_tools};
use crate::parallel::strategy;
use crate::running_agents::RunningAgents;
use futures_util::future::BoxFuture;
use pinion_agent::Context;
use pinion_agent::LoopConfig;
use pinion_agent::channel::EventWatchers;
use pinion_agent::config::ChildKind;
use pinion_agent::spawn::{Parent, RunChildren, Spawner};
use pinion_protocol::authority::Authority;
use pinion_protocol::content::ToolCall;
use pinion_protocol::delegation::ChoiceName;
use pinion_protocol::delegation::{
    AgentKind, AgentStart, Assignment, Ceiling, Delegate, FoundModel, MAX_AGENT_DEPTH, MAX_ATTEMPTS, ParallelAttempts,
    SubAgentError, SubAgentPolicy, SubAgentReport, SubAgents,
};
use pinion_protocol::identity::TurnTrigger;
use pinion_protocol::message::Message;
use pinion_protocol::outcome::{Outcome, RunEnd};
use pinion_protocol::store::{ChildCall, ChildSession, NoStore};
use pinion_protocol::usage::Spend;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Instructions for a sub-agent, appended to the system prompt of its parent.
pub(crate) const BRIEF: &str = "\
# Your role

You are a sub-agent: you work on one task for another agent, on your own. Nobody can answer questions, so make decisions and \
state your assumptions. The other agent sees only your last message: state in it what you found or did, where, and what \
remains to be done.";

/// A tool call, as the starter of sub-agents of its run.
struct SpawningCall {
    family: Arc<Family>,
    id: String,
    tool: String,
    /// The parent's conversation before the reply that makes the call.
    history: Vec<Arc<Message>>,
    token: CancellationToken,
    started: Mutex<Started>,
}

#[derive(Default)]
struct Started {
    count: u32,
    last_run: Option<Arc<str>>,
}

/// Returns a spawner of sub-agents within `policy`.
pub fn sub_agents(policy: SubAgentPolicy) -> Arc<dyn Spawner> {
    sub_agents_in(policy, RunningAgents::default(), None)
}

/// Returns a spawner of sub-agents within `policy`, which are in `running` while they run. Attempts at one task are not: they
/// end together. Without `directories`, kinds that ask for a separate directory are refused.
pub fn sub_agents_in(
    policy: SubAgentPolicy,
    running: RunningAgents,
    directories: Option<Arc<dyn AgentDirectories>>,
) -> Arc<dyn Spawner> {
    Arc::new(Families { policy, running, directories })
}

/// Opens a [`Family`] for each run.
struct Families {
    policy: SubAgentPolicy,
    running: RunningAgents,
    directories: Option<Arc<dyn AgentDirectories>>,
}

impl Spawner for Families {
    fn open(&self, parent: Parent<'_>) -> Option<Arc<dyn RunChildren>> {
        let Parent { context, config, budget, events, token } = parent;
        let max_depth = self.policy.max_depth.min(MAX_AGENT_DEPTH);
        let policy = SubAgentPolicy { max_depth, ..self.policy.clone() };
        let mut config = config.clone();
        config.budget = Some(budget.clone());
        (max_depth > 0).then(|| {
            Arc::new(Family {
                policy,
                running: self.running.clone(),
                directories: self.directories.clone(),
                config,
                events: events.clone(),
                system_prompt: context.system_prompt.clone(),
                run_id: context.run_id.clone(),
                token: token.child_token(),
                children: TaskTracker::new(),
                account: Mutex::default(),
                background: Arc::default(),
            }) as Arc<dyn RunChildren>
        })
    }
}

/// A run, as the parent of sub-agents.
struct Family {
    policy: SubAgentPolicy,
    running: RunningAgents,
    directories: Option<Arc<dyn AgentDirectories>>,
    config: LoopConfig,
    events: EventWatchers,
    system_prompt: Arc<str>,
    run_id: Arc<str>,
    token: CancellationToken,
    children: TaskTracker,
    account: Mutex<SubAgentAccount>,
    background: Arc<BackgroundAgents>,
}

#[derive(Default)]
struct SubAgentAccount {
    spend: Spend,
    /// Number of children without a session.
    unstored: u32,
}

impl RunChildren for Family {
    fn for_call(self: Arc<Self>, call: &ToolCall, history: &[Arc<Message>], token: &CancellationToken) -> SubAgents {
        let (id, tool, token) = (call.id.clone(), call.name.clone(), token.clone());
        let history = before_call(history, &id).to_vec();
        SubAgents::new(SpawningCall { family: self, id, tool, history, token, started: Mutex::default() })
    }

    fn take_spent(&self) -> Spend {
        std::mem::take(&mut self.account().spend)
    }

    fn in_background(&self) -> usize {
        self.background.count()
    }

    fn take_reports(&self) -> Vec<Message> {
        self.background.take_reports()
    }

    fn reported(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.background.reported())
    }

    /// Cancels the children whose call did not wait for them, and waits for their end.
    fn close(&self) -> BoxFuture<'_, ()> {
        self.token.cancel();
        self.children.close();
        Box::pin(async { self.children.wait().await })
    }
}

impl Family {
    fn spend(&self, outcome: &Outcome) {
        self.account().spend.add(outcome.spend);
    }

    /// Locks the account. A panic leaves it consistent, so poisoning is ignored.
    fn account(&self) -> MutexGuard<'_, SubAgentAccount> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Delegate for SpawningCall {
    fn run(&self, assignment: Assignment, ceiling: Ceiling) -> BoxFuture<'_, Result<SubAgentReport, SubAgentError>> {
        Box::pin(self.delegate(assignment, ceiling))
    }

    fn policy(&self) -> &SubAgentPolicy {
        &self.family.policy
    }

    fn last_run(&self) -> Option<Arc<str>> {
        self.started().last_run.clone()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.family.config.ports.approval.sleep(time))
    }
}

impl SpawningCall {
    async fn delegate(&self, assignment: Assignment, ceiling: Ceiling) -> Result<SubAgentReport, SubAgentError> {
        if assignment.prompt.trim().is_empty() {
            return Err(SubAgentError::NoPrompt);
        }
        let kind = self.kind(&assignment)?;
        let plan = self.plan(&assignment, &kind, ceiling).await?;
        if assignment.background {
            return self.start_in_background(&assignment, &kind, plan);
        }
        self.count()?;
        let budget = plan.attempts[0].budget.clone();
        let ended = self.start(&assignment, &kind, plan).await.ok_or(SubAgentError::Cancelled)?;
        self.started().last_run = Some(ended.run_id.clone());
        let is_cancelled = self.token.is_cancelled() || self.family.token.is_cancelled();
        match ended.outcome.end {
            // Otherwise the user has ended it alone, and the parent gets a report.
            RunEnd::Aborted if is_cancelled => Err(SubAgentError::Cancelled),
            _ => Ok(reported(ended, budget.as_deref())),
        }
    }

    /// Returns the kind that an assignment names, with the assignment's model.
    fn kind(&self, assignment: &Assignment) -> Result<AgentKind, SubAgentError> {
        let SubAgentPolicy { kinds, model_names, .. } = self.policy();
        let mut kind = match &assignment.kind {
            None => AgentKind::default(),
            Some(name) => {
                let known = || kinds.iter().map(|kind| kind.name.clone()).collect();
                let found = kinds.iter().find(|kind| kind.name == *name).cloned();
                found.ok_or_else(|| SubAgentError::UnknownKind { name: name.clone(), known: known() })?
            }
        };
        if let Some(name) = &assignment.model {
            if !model_names.contains(name) && !kind.models.contains(name) {
                let known = model_names.iter().chain(&kind.models).cloned().collect();
                return Err(SubAgentError::ModelNotListed { name: name.clone(), known });
            }
            kind.models = vec![name.clone()];
        }
        Ok(kind)
    }

    /// Returns the configs of the attempts and the strategy that chooses one.
    async fn plan(
        &self,
        assignment: &Assignment,
        kind: &AgentKind,
        ceiling: Ceiling,
    ) -> Result<LaunchPlan, SubAgentError> {
        let usual = ParallelAttempts {
            count: u32::try_from(kind.models.len()).unwrap_or(u32::MAX).max(1),
            choice: ChoiceName::Judge,
        };
        let ParallelAttempts { count, choice } = assignment.attempts.or(kind.attempts).unwrap_or(usual);
        if count == 0 || count > MAX_ATTEMPTS {
            return Err(SubAgentError::Attempts { count });
        }
        let Family { config: parent, directories, .. } = &*self.family;
        let directory = open_directory(directories.as_ref(), assignment, kind, count, parent).await?;
        let parent = directory.as_ref().map_or_else(|| parent.clone(), |directory| directory.config(parent));
        let mut config = self.config(assignment, kind, ceiling, &parent)?;
        let directories = directories.clone().filter(|_| directory.is_none());
        config.ports.spawner = Some(self.spawner(directories));
        let mut attempts = Vec::new();
        for number in 0..count as usize {
            attempts.push(match kind.models.get(number % kind.models.len().max(1)) {
                Some(name) => self.with_model(config.clone(), name).await?,
                None => config.clone(),
            });
        }
        let judge = match &kind.judge {
            Some(name) => self.with_model(config, name).await?,
            None => attempts[0].clone(),
        };
        Ok(LaunchPlan { attempts, strategy: strategy(choice, judge), directory })
    }

    /// Returns the spawner of a sub-agent's own children.
    fn spawner(&self, directories: Option<Arc<dyn AgentDirectories>>) -> Arc<dyn Spawner> {
        let Family { policy, running, .. } = &*self.family;
        let policy = SubAgentPolicy { max_depth: policy.max_depth - 1, ..policy.clone() };
        sub_agents_in(policy, running.clone(), directories)
    }

    /// Returns the config `parent`, restricted for a sub-agent without children.
    fn config(
        &self,
        assignment: &Assignment,
        kind: &AgentKind,
        ceiling: Ceiling,
        parent: &LoopConfig,
    ) -> Result<LoopConfig, SubAgentError> {
        let policy = &self.family.policy;
        let max_depth = policy.max_depth - 1;
        let turn_limit = kind.max_turns.unwrap_or(policy.max_turns);
        let authority = Authority { delegates: max_depth > 0, ..ceiling.authority };
        let available = parent.ports.tools.clone();
        let tools = Arc::new(select_tools(available, assignment, kind, Ceiling { authority, ..ceiling })?);
        let mut config = parent.child(ChildKind::Task);
        config.ports.tools = match assignment.start {
            AgentStart::Conversation => SharedOffer::of_parent(tools, &parent.ports.tools),
            AgentStart::Empty => tools,
        };
        config.policy.limits.max_turns = Some(assignment.max_turns.unwrap_or(turn_limit).min(turn_limit).max(1));
        (config.policy.limits.max_time, config.policy.limits.ends_between_turns) = (assignment.max_time, false);
        if let Some(level) = kind.thinking {
            config.policy.options.thinking = level;
            // A budget for all levels would override the level; budgets by level apply.
            config.policy.options.thinking_budget = None;
        }
        config.budget = within_budget(config.budget, assignment, kind, policy);
        Ok(config)
    }

    async fn with_model(&self, config: LoopConfig, name: &str) -> Result<LoopConfig, SubAgentError> {
        let mut config = config.with_model(self.model(name).await?);
        // The key of the parent's requests belongs to the parent's provider.
        config.policy.options.api_key = None;
        Ok(config)
    }

    async fn model(&self, name: &str) -> Result<FoundModel, SubAgentError> {
        let failed = |message| SubAgentError::Model { name: name.to_owned(), message };
        let source = self.family.policy.models.as_ref();
        let source = source.ok_or_else(|| failed("no models are configured".to_owned()))?;
        tokio::select! {
            found = source.model(name) => found.map_err(failed),
            () = self.token.cancelled() => Err(SubAgentError::Cancelled),
        }
    }

    fn count(&self) -> Result<(), SubAgentError> {
        let limit = self.family.policy.max_per_call;
        let mut started = self.started();
        if started.count >= limit {
            return Err(SubAgentError::TooMany { limit });
        }
        started.count += 1;
        Ok(())
    }

    /// Creates the sub-agent's own conversation and session. Also returns its prompt.
    fn begin(&self, assignment: &Assignment, kind: &AgentKind, plan: &mut LaunchPlan) -> (Context, Message) {
        let name = agent_name(kind);
        let session = self.session(name);
        for config in &mut plan.attempts {
            if assignment.start == AgentStart::Conversation {
                config.policy.options.cache_session = config.policy.options.cache_key().map(str::to_owned);
            }
            config.policy.options.session_id = Some(session.id.to_string());
            config.agent = Some(name.into());
            config.ports.store = session.store.clone();
        }
        let instructions = kind.instructions.as_deref().map(|text| format!("\n\n{text}")).unwrap_or_default();
        let directory = plan.directory.as_ref();
        let inherited = directory.map_or(&*self.family.system_prompt, |directory| &*directory.system_prompt);
        let own = kind.system_prompt.as_deref().unwrap_or(inherited);
        let task = assignment.prompt.trim();
        let (system_prompt, messages, prompt) = match assignment.start {
            AgentStart::Empty => {
                let brief = brief(directory);
                (format!("{own}\n\n{brief}{instructions}"), Vec::new(), Message::user(task))
            }
            AgentStart::Conversation => {
                let prompt = Message::user(task_with_brief(task, &instructions));
                (own.to_owned(), self.history.clone(), prompt)
            }
        };
        let parent = self.family.run_id.clone();
        let context = Context {
            messages,
            agent_id: name.into(),
            first_trigger: TurnTrigger::SubAgent,
            call_id: Some(self.id.as_str().into()),
            ..Context::new(system_prompt, session.id.clone())
        };
        let context = match &plan.attempts[..] {
            [config] => {
                let context = Context { parent_run_id: Some(parent), ..context };
                self.started().last_run = Some(config.next_run_id(&context));
                context
            }
            // Attempts get their ids when they start; this is the run that they come from.
            _ => Context { run_id: parent, ..context },
        };
        (context, prompt)
    }

    fn session(&self, agent_id: &str) -> ChildSession {
        let Self { id: call_id, tool, .. } = self;
        let call = ChildCall { call_id, tool, agent_id, run_id: &self.family.run_id };
        self.family.config.ports.store.child(call).unwrap_or_else(|| {
            let mut account = self.family.account();
            account.unstored += 1;
            // Session ids contain no dots.
            let id = format!("{}-{}", self.family.run_id.replace('.', "-"), account.unstored);
            ChildSession { id: id.into(), store: Arc::new(NoStore) }
        })
    }

    /// Runs the sub-agent and waits for its end; `None` if its task was lost.
    async fn start(&self, assignment: &Assignment, kind: &AgentKind, plan: LaunchPlan) -> Option<EndedAgent> {
        let token = self.token.child_token();
        let _cancelled_with_us = token.clone().drop_guard();
        let (sender, receiver) = oneshot::channel();
        // The receiver is gone if the call has ended.
        self.launch(assignment, kind, plan, token, |ended| drop(sender.send(ended)));
        receiver.await.ok()
    }

    /// Starts the sub-agent and returns. It works until it ends, or its parent's run does.
    fn start_in_background(
        &self,
        assignment: &Assignment,
        kind: &AgentKind,
        plan: LaunchPlan,
    ) -> Result<SubAgentReport, SubAgentError> {
        if plan.attempts.len() > 1 {
            return Err(SubAgentError::BackgroundAttempts);
        }
        let full = SubAgentError::BackgroundFull { limit: MAX_IN_BACKGROUND };
        let entry = self.family.background.begin().ok_or(full)?;
        self.count()?;
        let (name, config) = (agent_name(kind).to_owned(), &plan.attempts[0]);
        let (bounds, budget) = (config.policy.output, config.budget.clone());
        self.launch(assignment, kind, plan, self.family.token.child_token(), move |ended| {
            entry.report(report_message(&name, &reported(ended, budget.as_deref()), &bounds));
        });
        Ok(SubAgentReport::of_start(self.last_run().unwrap_or_default()))
    }

    /// Runs the sub-agent as a separate task, so that the run ends properly even if its caller is gone.
    fn launch(
        &self,
        assignment: &Assignment,
        kind: &AgentKind,
        mut plan: LaunchPlan,
        token: CancellationToken,
        done: impl FnOnce(EndedAgent) + Send + 'static,
    ) {
        let (mut context, prompt) = self.begin(assignment, kind, &mut plan);
        let family = self.family.clone();
        let entry = match &plan.attempts[..] {
            [config] => self.last_run().map(|run| family.running.enter(run, config.inbox.clone(), token.clone())),
            _ => None,
        };
        family.children.clone().spawn(async move {
            let _entry = entry;
            let outcome = {
                let running = plan.execute(&mut context, prompt, &family.events, &token);
                tokio::pin!(running);
                tokio::select! {
                    biased;
                    outcome = &mut running => outcome,
                    () = family.token.cancelled() => {
                        token.cancel();
                        running.await
                    }
                }
            };
            family.spend(&outcome);
            let run_id = context.run_id;
            let note = match plan.directory.take() {
                Some(directory) => Some(directory.work.close(run_id.clone()).await),
                None => None,
            };
            done(EndedAgent { outcome, run_id, note });
        });
    }

    fn started(&self) -> MutexGuard<'_, Started> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the name of a sub-agent: its kind's, if it has one.
fn agent_name(kind: &AgentKind) -> &str {
    if kind.name.is_empty() { "sub-agent" } else { &kind.name }
}
