//! The agent loop against a simulated adversary: a model and tools that fail, hang or are slow, a user who steers,
//! follows up and aborts at any moment, and slow watchers. Time is paused, so every schedule is realistic and
//! reproducible from its seed.

use crate::testing::{Store, assert_paired, call_events, text_events};
use crate::*;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use proptest::prelude::{Just, ProptestConfig, prop, prop_oneof, proptest};
use proptest::strategy::Strategy as _;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Reaction of the model to a request, with a delay in milliseconds.
#[derive(Debug, Clone)]
enum Says {
    Text,
    Calls(Vec<u8>),
    /// Calls that are truncated by the output limit.
    CutOff,
    RateLimited,
    Refused,
    Overflow,
    BreaksOff,
    Hangs,
}

/// Behavior of a tool.
#[derive(Debug, Clone, Copy)]
enum Does {
    Answers,
    Fails,
    /// Ends only when cancelled.
    Hangs,
    /// Ends on its own and ignores cancellation.
    Deaf,
    /// Starts this many concurrent sub-agents.
    Delegates(u32),
    /// Starts a sub-agent without waiting for it.
    Forgets,
}

/// Action of the user.
#[derive(Debug, Clone, Copy)]
enum Act {
    Steer,
    FollowUp,
    Abort,
}

#[derive(Debug, Clone)]
struct Schedule {
    replies: Vec<(u64, Says)>,
    tools: Vec<(u64, Does)>,
    /// Milliseconds since the previous action.
    user: Vec<(u64, Act)>,
    /// Capacity of a watcher's channel, and its time per event in milliseconds.
    watchers: Vec<(usize, u64)>,
    strategy: Strategy,
    time_limit: Option<u64>,
}

fn schedule() -> impl proptest::strategy::Strategy<Value = Schedule> {
    let says = prop_oneof![
        2 => Just(Says::Text),
        5 => prop::collection::vec(0_u8..4, 1..5).prop_map(Says::Calls),
        1 => Just(Says::CutOff),
        1 => Just(Says::RateLimited),
        1 => Just(Says::Refused),
        1 => Just(Says::Overflow),
        1 => Just(Says::BreaksOff),
        1 => Just(Says::Hangs),
    ];
    let does = prop_oneof![
        4 => Just(Does::Answers),
        1 => Just(Does::Fails),
        1 => Just(Does::Hangs),
        1 => Just(Does::Deaf),
        2 => (1_u32..4).prop_map(Does::Delegates),
        1 => Just(Does::Forgets),
    ];
    let act = prop_oneof![3 => Just(Act::Steer), 2 => Just(Act::FollowUp), 1 => Just(Act::Abort)];
    let strategy =
        prop_oneof![Just(Strategy::Parallel), Just(Strategy::Sequential), (1_usize..4).prop_map(Strategy::Batched),];
    (
        prop::collection::vec((0_u64..50, says), 0..8),
        prop::collection::vec((0_u64..50, does), 4),
        prop::collection::vec((0_u64..60, act), 0..6),
        prop::collection::vec((1_usize..4, 0_u64..20), 0..3),
        strategy,
        prop::option::weighted(0.2, 1_u64..3),
    )
        .prop_map(|(replies, tools, user, watchers, strategy, time_limit)| Schedule {
            replies,
            tools,
            user,
            watchers,
            strategy,
            time_limit,
        })
}

struct Model {
    replies: Mutex<std::vec::IntoIter<(u64, Says)>>,
    requests: Mutex<Vec<Vec<Arc<Message>>>>,
    asked: Mutex<u32>,
}

impl Provider for Model {
    fn name(&self) -> &str {
        "adversary"
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        self.requests.lock().unwrap().push(request.messages);
        let (delay, says) = self.replies.lock().unwrap().next().unwrap_or((0, Says::Text));
        let number = {
            let mut asked = self.asked.lock().unwrap();
            *asked += 1;
            *asked
        };
        let calls = |names: &[u8], stop| {
            let arguments = json!({ "text": number.to_string() });
            let names: Vec<String> = names.iter().map(|n| format!("tool{n}")).collect();
            let calls: Vec<_> = names.iter().map(|name| (name.as_str(), arguments.clone())).collect();
            unique(call_events(&calls, stop), number)
        };
        let message = || "adverse".to_owned();
        let (events, error) = match says {
            Says::Text => (text_events("text", StopReason::Stop), None),
            Says::Calls(names) => (calls(&names, StopReason::ToolUse), None),
            Says::CutOff => (calls(&[0, 1], StopReason::Length), None),
            Says::RateLimited => (vec![], Some(ProviderError::RateLimited { message: message(), retry_after: None })),
            Says::Refused => (vec![], Some(ProviderError::Api { status: Some(400), message: message() })),
            Says::Overflow => (vec![], Some(ProviderError::ContextOverflow { message: message() })),
            Says::BreaksOff => (calls(&[0], StopReason::ToolUse)[..3].to_vec(), None),
            Says::Hangs => {
                let hang = async move {
                    token.cancelled().await;
                    Err(ProviderError::Cancelled)
                };
                return stream::once(hang).boxed();
            }
        };
        let slowly = stream::iter(events.into_iter().map(Ok)).then(move |event| async move {
            sleep(Duration::from_millis(delay / 4)).await;
            event
        });
        slowly.chain(stream::iter(error.map(Err))).boxed()
    }
}

/// Makes the call ids of a reply unique.
fn unique(events: Vec<StreamEvent>, number: u32) -> Vec<StreamEvent> {
    let rename = |event| match event {
        StreamEvent::PartStart { index, part: PartKind::ToolCall { id, name } } => {
            StreamEvent::PartStart { index, part: PartKind::ToolCall { id: format!("{number}.{id}"), name } }
        }
        other => other,
    };
    events.into_iter().map(rename).collect()
}

struct Tools(Vec<(u64, Does)>);

impl ToolExecutor for Tools {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        let definition = |n: usize| ToolDefinition {
            name: format!("tool{n}"),
            label: String::new(),
            description: String::new(),
            input_schema: json!({ "type": "object" }),
            guidelines: vec![],
            authority: Authority::READ_ONLY,
            execution: if n == 3 { Execution::Sequential } else { Execution::Parallel },
            source: Default::default(),
        };
        (0..self.0.len()).map(|n| Arc::new(definition(n))).collect()
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        let n: usize = call.name().trim_start_matches("tool").parse().unwrap();
        let (delay, does) = self.0[n];
        Box::pin(async move {
            progress.update(vec![Content::text("begun")]);
            let tool = call.tool.name.clone();
            let work = sleep(Duration::from_millis(delay));
            let cancelled = || Err(ToolError::Cancelled { tool: call.tool.name.clone() });
            let delegate = |count| async move {
                let attempts = Some(ParallelAttempts { count, choice: ChoiceName::FewestTokens });
                let assignment = Assignment { prompt: "go".into(), attempts, ..Assignment::default() };
                match call.agents {
                    Some(agents) => agents.run(assignment, Authority::ALL, |_| true).await.map(|report| report.text),
                    None => Ok("too deep".to_owned()),
                }
            };
            match does {
                Does::Delegates(count) => match delegate(count).await {
                    Ok(text) => Ok(ToolOutput::text(text)),
                    Err(SubAgentError::Cancelled) => Err(ToolError::Cancelled { tool }),
                    Err(error) => Err(ToolError::Failed { tool, message: error.to_string(), retryable: false }),
                },
                Does::Forgets => {
                    // The sub-agent may get any distance until then.
                    let _ = tokio::time::timeout(Duration::from_millis(delay), delegate(1)).await;
                    Ok(ToolOutput::text("forgotten"))
                }
                Does::Deaf => {
                    work.await;
                    Ok(ToolOutput::text("heard nothing"))
                }
                Does::Hangs => {
                    call.token.cancelled().await;
                    cancelled()
                }
                Does::Answers | Does::Fails => tokio::select! {
                    () = work => match does {
                        Does::Fails => Err(ToolError::Failed { tool, message: "no".into(), retryable: false }),
                        _ => Ok(ToolOutput::text("yes")),
                    },
                    () = call.token.cancelled() => cancelled(),
                },
            }
            .into()
        })
    }
}

/// Events that a watcher saw.
#[derive(Default)]
struct Seen {
    /// Number of starts of each run.
    starts: BTreeMap<Arc<str>, usize>,
    /// Number of ends of each run.
    ends: BTreeMap<Arc<str>, usize>,
    /// Messages of the agent itself.
    messages: Vec<Arc<Message>>,
}

/// Returns whether a run belongs to the agent itself. Sessions of sub-agents have other names.
fn is_own(run_id: &str) -> bool {
    run_id.starts_with("s.")
}

async fn watch(mut events: EventReceiver, delay: u64) -> Seen {
    let mut seen = Seen::default();
    while let Some(event) = events.recv().await {
        match event.kind {
            EventKind::AgentStart { .. } => *seen.starts.entry(event.run_id).or_default() += 1,
            EventKind::AgentEnd { .. } => *seen.ends.entry(event.run_id).or_default() += 1,
            EventKind::MessageEnd { message } if is_own(&event.run_id) => seen.messages.push(message),
            _ => {}
        }
        sleep(Duration::from_millis(delay)).await;
    }
    seen
}

fn check(schedule: Schedule) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(play(schedule));
    assert_eq!(runtime.metrics().num_alive_tasks(), 0, "a task is left running");
}

async fn play(schedule: Schedule) {
    let model = Arc::new(Model {
        replies: Mutex::new(schedule.replies.into_iter()),
        requests: Mutex::default(),
        asked: Mutex::default(),
    });
    let info = crate::Model { name: "m".into(), ..crate::Model::default() };
    let store = Arc::new(Store::default());
    let mut config = LoopConfig::new(model.clone(), info, Arc::new(Tools(schedule.tools)));
    config.policy.strategy = schedule.strategy;
    // The time limit ends a hanging model if the user does not.
    config.policy.limits.max_time = Some(Duration::from_secs(schedule.time_limit.unwrap_or(600)));
    config.policy.compaction.by_model = false;
    config.ports.spawner = Some(sub_agents(SubAgentPolicy { max_depth: 2, ..SubAgentPolicy::default() }));
    config.ports.store = store.clone();
    let agent = Arc::new(Agent::new(config, Context::new("", "s")));
    let watchers: Vec<_> =
        schedule.watchers.iter().map(|(room, delay)| tokio::spawn(watch(agent.subscribe(*room), *delay))).collect();
    let user = {
        let agent = agent.clone();
        let acts = schedule.user;
        async move {
            for (delay, act) in acts {
                sleep(Duration::from_millis(delay)).await;
                match act {
                    Act::Steer => agent.steer(Message::user("steer")),
                    Act::FollowUp => agent.follow_up(Message::user("follow")),
                    Act::Abort => agent.abort(),
                }
            }
        }
    };
    let (first, ()) = tokio::join!(agent.run(vec![Message::user("go")]), user);
    // The conversation can continue after every schedule.
    let second = agent.run(vec![Message::user("and on")]).await.unwrap();
    drop(agent);
    for outcome in [first.unwrap(), second] {
        assert_paired(&outcome.messages);
    }
    let is_told = |message: &Message| !matches!(message, Message::Extension(e) if e.kind == COMPACTION_MESSAGE);
    let said = std::mem::take(&mut *store.kept.lock().unwrap());
    let mut said: Vec<Arc<Message>> = said.into_iter().filter(|message| is_told(message)).collect();
    sort_results(&mut said);
    assert_paired(&said);
    for request in model.requests.lock().unwrap().iter() {
        assert_paired(request);
    }
    for watcher in watchers {
        let seen = watcher.await.unwrap();
        assert_eq!(seen.starts.keys().filter(|run_id| is_own(run_id)).count(), 2);
        assert!(seen.starts.values().all(|times| *times == 1), "{:?}", seen.starts);
        assert_eq!(seen.starts, seen.ends, "every run ends once, also those of sub-agents");
        let seen: Vec<_> = seen.messages.iter().map(Arc::as_ptr).collect();
        assert_eq!(seen, said.iter().map(Arc::as_ptr).collect::<Vec<_>>(), "a message was lost, or out of order");
    }
}

/// A sample, or all when the tests are built with `PINION_LONG=1`.
const CASES: u32 = if option_env!("PINION_LONG").is_some() { 10_000 } else { 2_000 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn runs_end_once_and_calls_are_paired_under_any_schedule(schedule in schedule()) {
        check(schedule);
    }
}
