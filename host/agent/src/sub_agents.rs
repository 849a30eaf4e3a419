//! Agents that the tools of a loop start, each for a part of the task.
//!
//! A sub-agent is a loop with a conversation of its own: of its parent's it sees nothing but the prompt. It is what its
//! parent is, cut down: the same model unless the user set up another one, the same hooks and approval, the same tools or
//! some of them, with no more authority than the tool that started it; turns of its own, and of the other limits what the
//! parent has left. Its events go to its parent's watchers, its sessions are linked both ways, and what it used counts as
//! used by its parent. It is cancelled with the call that started it, and no run ends before its sub-agents have.
//!
//! Whatever becomes of it, the parent's model is told in words: see [`Report::for_model`].

use crate::channel::Events;
use crate::config::{Context, LoopConfig, Model};
use crate::content::ToolCall;
use crate::identity::TurnTrigger;
use crate::limits::RunLimits;
use crate::message::{Message, StopReason};
use crate::outcome::{Limit, Outcome, RunEnd};
use crate::parallel::{BranchStrategy, ChoiceName, run_parallel};
use crate::provider::{Provider, ToolChoice};
use crate::queue::{MessageQueue, QueueMode};
use crate::run::run;
use crate::selection::Selection;
use crate::store::{ChildCall, ChildSession, NoStore};
use crate::structured::ANSWER_TOOL;
use crate::tool::Authority;
use crate::usage::{Cost, Usage};
use futures_util::future::BoxFuture;
use std::collections::HashSet;
use std::fmt;
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

/// How deep sub-agents may be nested, whatever a policy says.
pub const MAX_AGENT_DEPTH: u32 = 3;

/// Attempts at one task.
pub const MAX_ATTEMPTS: u32 = 8;

/// What agents the tools of a loop may start.
#[derive(Clone)]
pub struct SubAgentPolicy {
    /// How deep they may be nested, up to [`MAX_AGENT_DEPTH`]; 0 for none at all.
    pub max_depth: u32,
    /// Turns of one that is given no other number.
    pub max_turns: u32,
    /// How many one call may start.
    pub max_per_call: u32,
    /// Those that the user has set up.
    pub kinds: Vec<AgentKind>,
    /// Finds the models that kinds name; without it, none can have another one than its parent.
    pub models: Option<Arc<dyn ModelSource>>,
}

impl Default for SubAgentPolicy {
    fn default() -> Self {
        Self { max_depth: 1, max_turns: 10, max_per_call: 16, kinds: Vec::new(), models: None }
    }
}

impl fmt::Debug for SubAgentPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SubAgentPolicy");
        debug.field("max_depth", &self.max_depth).field("max_turns", &self.max_turns).field("kinds", &self.kinds);
        debug.finish_non_exhaustive()
    }
}

/// Finds a model by the name that users give it.
pub trait ModelSource: Send + Sync {
    /// The model, and who is to be asked for it. The error is for people.
    fn model<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<FoundModel, String>>;
}

/// A model, and who is to be asked for it.
#[derive(Clone)]
pub struct FoundModel {
    /// Who is asked.
    pub provider: Arc<dyn Provider>,
    /// What for.
    pub model: Model,
}

/// A sub-agent that the user has set up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentKind {
    /// Its name.
    pub name: String,
    /// What it is for: for the model that may start it.
    pub description: String,
    /// What it is told besides its parent's system prompt.
    pub instructions: Option<String>,
    /// Its tools; all that its parent has when none are named.
    pub tools: Option<Vec<String>>,
    /// Its model, as users name it; its parent's when there is none. With several, each of them makes an attempt.
    pub models: Vec<String>,
    /// Its turns.
    pub max_turns: Option<u32>,
    /// Attempts that it makes when the assignment says nothing of them.
    pub attempts: Option<Attempts>,
    /// The model that judges them, as users name it; that of the first attempt when none is.
    pub judge: Option<String>,
}

/// The same task, worked on side by side; one report counts. Attempts get no tool that changes, runs or sends anything,
/// as they work in the same folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    /// 1 to [`MAX_ATTEMPTS`].
    pub count: u32,
    /// Which report counts.
    pub choice: ChoiceName,
}

/// What a sub-agent is to do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assignment {
    /// All that it is told of the task.
    pub prompt: String,
    /// One that the user has set up.
    pub kind: Option<String>,
    /// Its tools, of those that it could have at most; all of these when none are named.
    pub tools: Option<Vec<String>>,
    /// Its turns; no more than the user has set up.
    pub max_turns: Option<u32>,
    /// How long it may take; as long as the call when nothing is said.
    pub max_time: Option<Duration>,
    /// How often it is tried side by side; once when nothing is said.
    pub attempts: Option<Attempts>,
}

/// What became of a sub-agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The last thing that it said; empty when it said nothing.
    pub text: String,
    /// How it ended.
    pub end: RunEnd,
    /// Its loop.
    pub loop_id: Arc<str>,
    /// Its turns.
    pub turns: u32,
    /// Tokens of all its requests.
    pub usage: Usage,
    /// What they cost; none when that is not known.
    pub cost: Option<Cost>,
}

/// A sub-agent was not started, or was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubAgentError {
    /// There is no task.
    #[error("the prompt is empty: say what the sub-agent is to do, and all that it has to know")]
    NoPrompt,
    /// The user has set up no such sub-agent.
    #[error("there is no agent `{name}`; {}", listed("there are", known))]
    UnknownKind {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It would get a tool that there is not, or that this call may not pass on.
    #[error("a sub-agent cannot get the tool `{name}` here; {}", listed("it can get", known))]
    UnknownTool {
        /// What was asked for.
        name: String,
        /// Those that it could get.
        known: Vec<String>,
    },
    /// It would be tried too often, or never.
    #[error("a task is tried 1 to {MAX_ATTEMPTS} times, and not {count} times")]
    Attempts {
        /// How often it would be.
        count: u32,
    },
    /// This call has started as many as it may.
    #[error("this call has started {limit} sub-agents, which is as many as it may")]
    TooMany {
        /// How many.
        limit: u32,
    },
    /// Its model cannot be asked.
    #[error("the model `{name}` of the sub-agent cannot be used: {message}")]
    Model {
        /// Which one.
        name: String,
        /// Why.
        message: String,
    },
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
}

fn listed(what: &str, names: &[String]) -> String {
    if names.is_empty() { format!("{what} none") } else { format!("{what} `{}`", names.join("`, `")) }
}

/// The way from a tool call to sub-agents of the loop that made it. Cheap to clone.
#[derive(Clone)]
pub struct SubAgents {
    family: Arc<Family>,
    call: Arc<Call>,
}

/// The call that starts them.
struct Call {
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

/// A loop, as the parent of others.
pub(crate) struct Family {
    config: LoopConfig,
    events: Events,
    system_prompt: Arc<str>,
    loop_id: Arc<str>,
    token: CancellationToken,
    children: TaskTracker,
    account: Mutex<FamilyAccount>,
}

struct FamilyAccount {
    /// What a sub-agent that begins now may use.
    left: RunLimits,
    usage: Usage,
    cost: Option<Cost>,
    begun: u32,
}

impl Family {
    /// None when the loop may not start any.
    pub(crate) fn of(
        context: &Context,
        config: &LoopConfig,
        events: &Events,
        token: &CancellationToken,
    ) -> Option<Arc<Self>> {
        let account = FamilyAccount { left: RunLimits::default(), usage: Usage::default(), cost: None, begun: 0 };
        let max_depth = config.sub_agents.max_depth.min(MAX_AGENT_DEPTH);
        let sub_agents = SubAgentPolicy { max_depth, ..config.sub_agents.clone() };
        (max_depth > 0).then(|| {
            Arc::new(Self {
                config: LoopConfig { sub_agents, ..config.clone() },
                events: events.clone(),
                system_prompt: context.system_prompt.clone(),
                loop_id: context.loop_id.clone(),
                token: token.child_token(),
                children: TaskTracker::new(),
                account: Mutex::new(account),
            })
        })
    }

    /// What sub-agents that begin from now on may use.
    pub(crate) fn leave(&self, left: RunLimits) {
        self.account().left = left;
    }

    /// What sub-agents have used since this was asked last.
    pub(crate) fn take_spent(&self) -> (Usage, Option<Cost>) {
        let mut account = self.account();
        (std::mem::take(&mut account.usage), account.cost.take())
    }

    /// Ends what is left of them: those whose call did not wait for them.
    pub(crate) async fn close(&self) {
        self.token.cancel();
        self.children.close();
        self.children.wait().await;
    }

    fn spend(&self, outcome: &Outcome) {
        let mut account = self.account();
        account.usage = account.usage.combine(&outcome.usage);
        if let Some(cost) = outcome.cost {
            account.cost = Some(account.cost.unwrap_or_default().combine(&cost));
        }
    }

    /// Nothing is left half-done in the account when a thread panics.
    fn account(&self) -> MutexGuard<'_, FamilyAccount> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubAgents {
    pub(crate) fn of(family: &Arc<Family>, call: &ToolCall, token: &CancellationToken) -> Self {
        let call = Call { id: call.id.clone(), tool: call.name.clone(), token: token.clone(), begun: Mutex::default() };
        Self { family: family.clone(), call: Arc::new(call) }
    }

    /// The loop of the last one that was started.
    pub(crate) fn last_loop(&self) -> Option<Arc<str>> {
        self.begun().last_loop.clone()
    }

    /// How deep the sub-agents may be nested that are started by this: at least 1.
    pub fn depth_left(&self) -> u32 {
        self.family.config.sub_agents.max_depth
    }

    /// Those that the user has set up.
    pub fn kinds(&self) -> &[AgentKind] {
        &self.family.config.sub_agents.kinds
    }

    /// Lets a sub-agent work on a task, and waits for it. It gets no tool that can do more than `at_most`, and of these
    /// only those that `may_use` likes.
    ///
    /// Dropping the future cancels it; the loop of its parent ends after it all the same.
    ///
    /// # Errors
    /// It was not started, or was cancelled: see [`SubAgentError`]. However else it ends is a report.
    pub async fn run(
        &self,
        assignment: Assignment,
        at_most: Authority,
        may_use: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<Report, SubAgentError> {
        let prompt = match assignment.prompt.trim() {
            "" => return Err(SubAgentError::NoPrompt),
            prompt => Message::user(prompt),
        };
        let kind = self.kind(assignment.kind.as_deref())?;
        let plan = self.plan(&assignment, &kind, at_most, may_use).await?;
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
        let known = || self.kinds().iter().map(|kind| kind.name.clone()).collect();
        let found = self.kinds().iter().find(|kind| kind.name == name).cloned();
        found.ok_or_else(|| SubAgentError::UnknownKind { name: name.to_owned(), known: known() })
    }

    /// How each attempt works, and which one counts.
    async fn plan(
        &self,
        assignment: &Assignment,
        kind: &AgentKind,
        at_most: Authority,
        may_use: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<Plan, SubAgentError> {
        let config = self.config(assignment, kind, at_most, may_use)?;
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
        Ok(Plan { attempts, strategy: choice.strategy(judge) })
    }

    /// The parent's config, cut down.
    fn config(
        &self,
        assignment: &Assignment,
        kind: &AgentKind,
        at_most: Authority,
        may_use: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<LoopConfig, SubAgentError> {
        let parent = &self.family.config;
        let policy = &parent.sub_agents;
        let max_depth = policy.max_depth - 1;
        let most_turns = kind.max_turns.unwrap_or(policy.max_turns);
        let at_most = Authority { delegates: max_depth > 0, ..at_most };
        let tools = self.tools(assignment, kind, at_most, may_use)?;
        Ok(LoopConfig {
            tools: Arc::new(tools),
            limits: RunLimits {
                max_turns: Some(assignment.max_turns.unwrap_or(most_turns).min(most_turns).max(1)),
                max_time: assignment.max_time,
                ..self.family.account().left.clone()
            },
            steering: Arc::new(MessageQueue::new(QueueMode::OneAtATime)),
            follow_up: Arc::new(MessageQueue::new(QueueMode::OneAtATime)),
            filters: Vec::new(),
            tool_choice: ToolChoice::Auto,
            sub_agents: SubAgentPolicy { max_depth, ..policy.clone() },
            ..parent.clone()
        })
    }

    fn tools(
        &self,
        assignment: &Assignment,
        kind: &AgentKind,
        at_most: Authority,
        may_use: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<Selection, SubAgentError> {
        let set = |names: &Option<Vec<String>>| names.clone().map(HashSet::<String>::from_iter);
        let (asked, set_up) = (set(&assignment.tools), set(&kind.tools));
        let most = {
            let tools = Selection::new(self.family.config.tools.clone(), at_most);
            // An answer of the parent is the parent's to give.
            tools.of(move |name| {
                name != ANSWER_TOOL && may_use(name) && set_up.as_ref().is_none_or(|names| names.contains(name))
            })
        };
        let Some(names) = asked else { return Ok(most) };
        let known: Vec<String> = most.names();
        if let Some(name) = names.iter().find(|name| !known.contains(name)) {
            return Err(SubAgentError::UnknownTool { name: name.clone(), known });
        }
        Ok(Selection::new(Arc::new(most), at_most).of(move |name| names.contains(name)))
    }

    async fn with_model(&self, config: LoopConfig, name: &str) -> Result<LoopConfig, SubAgentError> {
        let FoundModel { provider, model } = self.model(name).await?;
        Ok(LoopConfig { provider, model, ..config })
    }

    async fn model(&self, name: &str) -> Result<FoundModel, SubAgentError> {
        let failed = |message| SubAgentError::Model { name: name.to_owned(), message };
        let source = self.family.config.sub_agents.models.as_ref();
        let source = source.ok_or_else(|| failed("there is no list of models".to_owned()))?;
        tokio::select! {
            found = source.model(name) => found.map_err(failed),
            () = self.call.token.cancelled() => Err(SubAgentError::Cancelled),
        }
    }

    fn count(&self) -> Result<(), SubAgentError> {
        let limit = self.family.config.sub_agents.max_per_call;
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
            config.options.session_id = Some(session.id.to_string());
            config.store = session.store.clone();
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
                let loop_id = config.loop_id(&session.id, 1);
                self.begun().last_loop = Some(loop_id.clone());
                Context { loop_id, loops: 1, parent_loop_id: Some(parent), ..context }
            }
            // The attempts take their ids when they begin; this is the loop that they come from.
            _ => Context { loop_id: parent, ..context },
        }
    }

    fn session(&self) -> ChildSession {
        let Call { id: call_id, tool, .. } = &*self.call;
        let call = ChildCall { call_id, tool, loop_id: &self.family.loop_id };
        self.family.config.store.child(call).unwrap_or_else(|| {
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
        let token = self.call.token.child_token();
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
        self.call.begun.lock().unwrap_or_else(PoisonError::into_inner)
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

impl fmt::Debug for SubAgents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubAgents").field("loop_id", &self.family.loop_id).field("call_id", &self.call.id).finish()
    }
}

impl Report {
    pub(crate) fn of(outcome: Outcome, loop_id: Arc<str>) -> Self {
        let said = outcome.messages.iter().rev().filter_map(|message| match &**message {
            Message::Assistant(message) => Some(message.text()),
            _ => None,
        });
        let text = said.into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default();
        let Outcome { end, usage, cost, turns, .. } = outcome;
        Self { text, end, loop_id, turns, usage, cost }
    }

    /// Why it is not what it could have been; none when it ended of its own accord.
    pub fn shortfall(&self) -> Option<String> {
        Some(match &self.end {
            RunEnd::Done { stop_reason: StopReason::Length } => {
                "its last message was cut off by the output limit".into()
            }
            RunEnd::Done { .. } => return None,
            RunEnd::Limit { limit: Limit::Turns(n) } => format!("it was stopped after {n} turns, which was its limit"),
            RunEnd::Limit { limit: Limit::Time(n) } => format!("it was stopped after {n} seconds, which was its limit"),
            RunEnd::Limit { limit: Limit::Tokens(_) | Limit::Cost(_) } => {
                "it was stopped because the tokens or the money for this run are used up".into()
            }
            RunEnd::Error { message } => format!("it failed: {message}"),
            RunEnd::Aborted => "it was aborted".into(),
            RunEnd::Rejected { reason } => format!("it was refused: {reason}"),
        })
    }

    /// What the parent's model is told.
    pub fn for_model(&self) -> String {
        let text = if self.text.is_empty() { "(the sub-agent said nothing)" } else { &self.text };
        match self.shortfall() {
            None => text.to_owned(),
            Some(shortfall) => format!("{text}\n\n[The sub-agent did not come to its end: {shortfall}.]"),
        }
    }
}
