//! Agents that the tools of a loop start, each for a part of the task.
//!
//! A sub-agent is a loop with a conversation of its own: of its parent's it sees nothing but the prompt. It is what its
//! parent is, cut down: the same model unless the user set up another one, the same hooks and approval, the same tools or
//! some of them, with no more authority than the tool that started it; turns of its own, and tokens and money
//! from the same budget. Its events go to its parent's watchers, its sessions are linked both ways, and what it used counts as
//! used by its parent. It is cancelled with the call that started it, and no run ends before its sub-agents have.
//!
//! Whatever becomes of it, the parent's model is told in words: see [`Report::for_model`].

use crate::parallel::{BranchStrategy, run_parallel, strategy};
use futures_util::future::BoxFuture;
use pinion_agent::Context;
use pinion_agent::Events;
use pinion_agent::Selection;
use pinion_agent::run;
use pinion_agent::{ChildKind, LoopConfig};
use pinion_agent::{Children, Parent, Spawner};
use pinion_protocol::authority::Authority;
use pinion_protocol::choice::ChoiceName;
use pinion_protocol::content::ToolCall;
use pinion_protocol::delegation::{
    AgentKind, Assignment, Attempts, Ceiling, Delegate, FoundModel, MAX_AGENT_DEPTH, MAX_ATTEMPTS, Report,
    SubAgentError, SubAgentPolicy, SubAgents,
};
use pinion_protocol::identity::TurnTrigger;
use pinion_protocol::message::Message;
use pinion_protocol::outcome::{Outcome, RunEnd};
use pinion_protocol::store::{ChildCall, ChildSession, NoStore};
use pinion_protocol::tool::ANSWER_TOOL;
use pinion_protocol::usage::Spend;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What a sub-agent is told about itself, after its parent's system prompt.
const BRIEF: &str = "\
# Your part

You are a sub-agent: you work on one task for another agent, by yourself. Nobody answers questions, so decide, and say what \
you assumed. Your last message is all that the other agent gets to see: say in it what you found or did, where, and what \
is left.";

/// A call that starts sub-agents of the loop that made it.
struct Call {
    family: Arc<Family>,
    id: String,
    tool: String,
    token: CancellationToken,
    begun: Mutex<Begun>,
}

#[derive(Default)]
struct Begun {
    count: u32,
    last_loop: Option<Arc<str>>,
}

/// Returns a spawner of sub-agents as a policy allows them.
pub fn sub_agents(policy: SubAgentPolicy) -> Arc<dyn Spawner> {
    Arc::new(Families(policy))
}

/// Opens a family for each run.
struct Families(SubAgentPolicy);

impl Spawner for Families {
    fn open(&self, parent: Parent<'_>) -> Option<Arc<dyn Children>> {
        let Parent { context, config, budget, events, token } = parent;
        let max_depth = self.0.max_depth.min(MAX_AGENT_DEPTH);
        let policy = SubAgentPolicy { max_depth, ..self.0.clone() };
        let mut config = config.clone();
        config.budget = Some(budget.clone());
        (max_depth > 0).then(|| {
            Arc::new(Family {
                policy,
                config,
                events: events.clone(),
                system_prompt: context.system_prompt.clone(),
                loop_id: context.loop_id.clone(),
                token: token.child_token(),
                children: TaskTracker::new(),
                account: Mutex::default(),
            }) as Arc<dyn Children>
        })
    }
}

/// A run, as the parent of others.
struct Family {
    policy: SubAgentPolicy,
    config: LoopConfig,
    events: Events,
    system_prompt: Arc<str>,
    loop_id: Arc<str>,
    token: CancellationToken,
    children: TaskTracker,
    account: Mutex<Account>,
}

#[derive(Default)]
struct Account {
    spend: Spend,
    /// Children without a session of their own.
    begun: u32,
}

impl Children for Family {
    fn for_call(self: Arc<Self>, call: &ToolCall, token: &CancellationToken) -> SubAgents {
        let (id, tool, token) = (call.id.clone(), call.name.clone(), token.clone());
        SubAgents::new(Call { family: self, id, tool, token, begun: Mutex::default() })
    }

    fn take_spent(&self) -> Spend {
        std::mem::take(&mut self.account().spend)
    }

    /// Ends the children whose call did not wait for them.
    fn close(&self) -> BoxFuture<'_, ()> {
        self.token.cancel();
        self.children.close();
        Box::pin(async { self.children.wait().await })
    }
}

impl Family {
    fn spend(&self, outcome: &Outcome) {
        self.account().spend.add(Spend { usage: outcome.usage, cost: outcome.cost });
    }

    /// Locks the account. A thread that panics leaves nothing half-done in it.
    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Delegate for Call {
    fn run(&self, assignment: Assignment, ceiling: Ceiling) -> BoxFuture<'_, Result<Report, SubAgentError>> {
        Box::pin(self.delegate(assignment, ceiling))
    }

    fn policy(&self) -> &SubAgentPolicy {
        &self.family.policy
    }

    fn last_loop(&self) -> Option<Arc<str>> {
        self.begun().last_loop.clone()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.family.config.ports.approval.sleep(time))
    }
}

impl Call {
    async fn delegate(&self, assignment: Assignment, ceiling: Ceiling) -> Result<Report, SubAgentError> {
        let prompt = match assignment.prompt.trim() {
            "" => return Err(SubAgentError::NoPrompt),
            prompt => Message::user(prompt),
        };
        let kind = self.kind(assignment.kind.as_deref())?;
        let plan = self.plan(&assignment, &kind, ceiling).await?;
        self.count()?;
        let (outcome, loop_id) = self.start(prompt, &kind, plan).await.ok_or(SubAgentError::Cancelled)?;
        self.begun().last_loop = Some(loop_id.clone());
        match outcome.end {
            RunEnd::Aborted => Err(SubAgentError::Cancelled),
            _ => Ok(Report::of(outcome, loop_id)),
        }
    }

    fn kind(&self, name: Option<&str>) -> Result<AgentKind, SubAgentError> {
        let Some(name) = name else { return Ok(AgentKind::default()) };
        let known = || self.policy().kinds.iter().map(|kind| kind.name.clone()).collect();
        let found = self.policy().kinds.iter().find(|kind| kind.name == name).cloned();
        found.ok_or_else(|| SubAgentError::UnknownKind { name: name.to_owned(), known: known() })
    }

    /// How each attempt works, and which one counts.
    async fn plan(&self, assignment: &Assignment, kind: &AgentKind, ceiling: Ceiling) -> Result<Plan, SubAgentError> {
        let config = self.config(assignment, kind, ceiling)?;
        let usual =
            Attempts { count: u32::try_from(kind.models.len()).unwrap_or(u32::MAX).max(1), choice: ChoiceName::Judge };
        let Attempts { count, choice } = assignment.attempts.or(kind.attempts).unwrap_or(usual);
        if count == 0 || count > MAX_ATTEMPTS {
            return Err(SubAgentError::Attempts { count });
        }
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
        Ok(Plan { attempts, strategy: strategy(choice, judge) })
    }

    /// The parent's config, cut down.
    fn config(&self, assignment: &Assignment, kind: &AgentKind, ceiling: Ceiling) -> Result<LoopConfig, SubAgentError> {
        let Family { config: parent, policy, .. } = &*self.family;
        let max_depth = policy.max_depth - 1;
        let most_turns = kind.max_turns.unwrap_or(policy.max_turns);
        let authority = Authority { delegates: max_depth > 0, ..ceiling.authority };
        let tools = self.tools(assignment, kind, Ceiling { authority, ..ceiling })?;
        let mut config = parent.child(ChildKind::Task);
        config.ports.tools = Arc::new(tools);
        config.policy.limits.max_turns = Some(assignment.max_turns.unwrap_or(most_turns).min(most_turns).max(1));
        config.policy.limits.max_time = assignment.max_time;
        config.ports.spawner = Some(sub_agents(SubAgentPolicy { max_depth, ..policy.clone() }));
        Ok(config)
    }

    fn tools(&self, assignment: &Assignment, kind: &AgentKind, ceiling: Ceiling) -> Result<Selection, SubAgentError> {
        let set = |names: &Option<Vec<String>>| names.clone().map(HashSet::<String>::from_iter);
        let (asked, set_up) = (set(&assignment.tools), set(&kind.tools));
        let Ceiling { authority, may_use } = ceiling;
        // An answer of the parent is the parent's to give.
        let likes = move |name: &str| {
            name != ANSWER_TOOL && may_use(name) && set_up.as_ref().is_none_or(|names| names.contains(name))
        };
        let most = Selection::new(self.family.config.ports.tools.clone(), authority).of(likes);
        let Some(names) = asked else { return Ok(most) };
        let known: Vec<String> = most.names();
        if let Some(name) = names.iter().find(|name| !known.contains(name)) {
            return Err(SubAgentError::UnknownTool { name: name.clone(), known });
        }
        Ok(Selection::new(Arc::new(most), authority).of(move |name| names.contains(name)))
    }

    async fn with_model(&self, config: LoopConfig, name: &str) -> Result<LoopConfig, SubAgentError> {
        let mut config = config.with_model(self.model(name).await?);
        // A key of the parent's requests is for the parent's provider.
        config.policy.options.api_key = None;
        Ok(config)
    }

    async fn model(&self, name: &str) -> Result<FoundModel, SubAgentError> {
        let failed = |message| SubAgentError::Model { name: name.to_owned(), message };
        let source = self.family.policy.models.as_ref();
        let source = source.ok_or_else(|| failed("there is no list of models".to_owned()))?;
        tokio::select! {
            found = source.model(name) => found.map_err(failed),
            () = self.token.cancelled() => Err(SubAgentError::Cancelled),
        }
    }

    fn count(&self) -> Result<(), SubAgentError> {
        let limit = self.family.policy.max_per_call;
        let mut begun = self.begun();
        if begun.count >= limit {
            return Err(SubAgentError::TooMany { limit });
        }
        begun.count += 1;
        Ok(())
    }

    /// A conversation of its own, kept in a session of its own.
    fn begin(&self, kind: &AgentKind, plan: &mut Plan) -> Context {
        let session = self.session();
        for config in &mut plan.attempts {
            config.policy.options.session_id = Some(session.id.to_string());
            config.ports.store = session.store.clone();
        }
        let instructions = kind.instructions.as_deref().map(|text| format!("\n\n{text}")).unwrap_or_default();
        let prompt = format!("{}\n\n{BRIEF}{instructions}", self.family.system_prompt);
        let name = if kind.name.is_empty() { "sub-agent" } else { &kind.name };
        let parent = self.family.loop_id.clone();
        let context = Context {
            agent_id: name.into(),
            first_trigger: TurnTrigger::SubAgent,
            ..Context::new(prompt, session.id.clone())
        };
        match &plan.attempts[..] {
            [config] => {
                let context = Context { parent_loop_id: Some(parent), ..context };
                self.begun().last_loop = Some(config.next_loop_id(&context));
                context
            }
            // The attempts take their ids when they begin; this is the loop that they come from.
            _ => Context { loop_id: parent, ..context },
        }
    }

    fn session(&self) -> ChildSession {
        let Self { id: call_id, tool, .. } = self;
        let call = ChildCall { call_id, tool, loop_id: &self.family.loop_id };
        self.family.config.ports.store.child(call).unwrap_or_else(|| {
            let mut account = self.family.account();
            account.begun += 1;
            // Ids of sessions hold no dot.
            let id = format!("{}-{}", self.family.loop_id.replace('.', "-"), account.begun);
            ChildSession { id: id.into(), store: Arc::new(NoStore) }
        })
    }

    /// Runs it as a task of its own, so that it ends as every run does, also when nobody waits for it any more.
    async fn start(&self, prompt: Message, kind: &AgentKind, mut plan: Plan) -> Option<(Outcome, Arc<str>)> {
        let mut context = self.begin(kind, &mut plan);
        let token = self.token.child_token();
        let _cancelled_with_us = token.clone().drop_guard();
        let (sender, receiver) = oneshot::channel();
        let family = self.family.clone();
        family.children.clone().spawn(async move {
            let outcome = {
                let running = plan.carry_out(&mut context, prompt, &family.events, &token);
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
            // Nobody listens when the call is over.
            let _ = sender.send((outcome, context.loop_id));
        });
        receiver.await.ok()
    }

    fn begun(&self) -> MutexGuard<'_, Begun> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a task is worked on.
struct Plan {
    /// At least one.
    attempts: Vec<LoopConfig>,
    strategy: Box<dyn BranchStrategy>,
}

impl Plan {
    async fn carry_out(
        &self,
        context: &mut Context,
        prompt: Message,
        events: &Events,
        token: &CancellationToken,
    ) -> Outcome {
        match &self.attempts[..] {
            [config] => run(context, vec![prompt], config, events, token).await,
            attempts => run_parallel(context, vec![prompt], attempts, &*self.strategy, events, token).await.outcome,
        }
    }
}
