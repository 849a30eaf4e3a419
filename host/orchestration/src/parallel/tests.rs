//! Branches against scripted models, one for each.

use crate::testing::{Act, Harness, Reply, Setup, assert_paired, calls, letters, says, text_events};
use crate::*;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A conversation that branches begin from.
struct World {
    context: Context,
    events: Events,
    seen: EventReceiver,
    token: CancellationToken,
}

impl World {
    fn new() -> Self {
        let events = Events::default();
        let seen = events.subscribe(10_000);
        let context = Context::new("You are a test.", "s");
        Self { context, events, seen, token: CancellationToken::new() }
    }

    /// Something was said before.
    fn after(said: &[Message]) -> Self {
        let mut world = Self::new();
        world.context.messages = said.iter().cloned().map(Arc::new).collect();
        (world.context.loops, world.context.loop_id) = (4, "s.c.4".into());
        world
    }

    async fn run(&mut self, prompt: &str, branches: &[LoopConfig], strategy: &dyn BranchStrategy) -> ParallelOutcome {
        self.work(vec![Message::user(prompt)], branches, strategy).await
    }

    async fn work(
        &mut self,
        prompts: Vec<Message>,
        branches: &[LoopConfig],
        strategy: &dyn BranchStrategy,
    ) -> ParallelOutcome {
        let working = run_parallel(&mut self.context, prompts, branches, strategy, &self.events, &self.token);
        timeout(Duration::from_secs(3600), working).await.unwrap()
    }

    fn said(&self) -> Vec<String> {
        self.context.messages.iter().map(|message| letters(message)).collect()
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.seen.try_recv()).collect()
    }

    /// What the last event of the group says.
    fn group_end(&mut self) -> (Option<String>, Option<String>, Usage) {
        match self.events().pop().unwrap().kind {
            EventKind::ParallelEnd { chosen, note, usage, .. } => (chosen.map(|id| id.to_string()), note, usage),
            other => panic!("{other:?}"),
        }
    }
}

/// What a branch is made of: its model, its tools, its store.
fn branch(replies: Vec<Reply>) -> Harness {
    Setup::new(replies).build()
}

fn configs(branches: &[Harness]) -> Vec<LoopConfig> {
    branches.iter().map(Harness::config).collect()
}

fn says_for(text: &str, output: u64) -> Reply {
    let events = text_events(text, StopReason::Stop).into_iter();
    let usage = StreamEvent::Usage(Usage { input: 10, output, ..Usage::default() });
    Reply::Events(
        events.map(|event| if matches!(event, StreamEvent::Usage(_)) { usage.clone() } else { event }).collect(),
    )
}

fn fails() -> Reply {
    Reply::Fails(vec![], ProviderError::Auth { message: "no key".into() })
}

fn assistant(text: &str) -> Message {
    Message::Assistant(AssistantMessage {
        content: vec![Content::text(text)],
        stop_reason: StopReason::Stop,
        provider: "scripted".into(),
        model: "m".into(),
        usage: Usage::default(),
        cost: None,
        error: None,
        timestamp: jiff::Timestamp::UNIX_EPOCH,
    })
}

/// Chooses what it is told to, and remembers what there was.
#[derive(Default)]
struct Own {
    choice: Choice,
    offered: Mutex<Vec<Vec<usize>>>,
}

impl BranchStrategy for Own {
    fn choose<'a>(&'a self, candidates: Candidates<'a>) -> BoxFuture<'a, Choice> {
        let numbers = candidates.candidates.iter().map(|candidate| candidate.number).collect();
        self.offered.lock().unwrap().push(numbers);
        Box::pin(async { self.choice.clone() })
    }
}

/// A session with branches, which writes down what it is told.
#[derive(Default)]
struct Tree {
    log: Arc<Mutex<Vec<String>>>,
    /// Lines that begin so cannot be written.
    broken: Option<&'static str>,
}

struct Side {
    tree: Arc<Tree>,
    number: usize,
}

impl Tree {
    fn write(&self, line: String) -> Result<(), StoreError> {
        if self.broken.is_some_and(|broken| line.starts_with(broken)) {
            return Err(StoreError { message: "disk full".into(), source: None });
        }
        self.log.lock().unwrap().push(line);
        Ok(())
    }

    fn lines(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

impl SessionStore for Tree {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        self.write(format!("main {}", letters(message)))
    }

    fn begin_group(
        self: Arc<Self>,
        group_id: &str,
        loop_ids: &[String],
    ) -> Result<Option<Box<dyn SessionGroup>>, StoreError> {
        self.write(format!("begin {group_id}: {}", loop_ids.join(" ")))?;
        Ok(Some(Box::new(Group(self))))
    }
}

struct Group(Arc<Tree>);

impl SessionGroup for Group {
    fn branch(&self, number: usize) -> Arc<dyn SessionStore> {
        Arc::new(Side { tree: self.0.clone(), number })
    }

    fn end(&self, chosen: Option<usize>, usage: Usage) -> Result<(), StoreError> {
        self.0.write(format!("end {chosen:?}, {} tokens", usage.total()))
    }
}

impl SessionStore for Side {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        self.tree.write(format!("{} {}", self.number, letters(message)))
    }
}

/// A session without branches, which writes down what it is told.
#[derive(Default)]
struct Line {
    log: Mutex<Vec<String>>,
    /// So many messages are kept, and no more.
    room: Option<usize>,
}

impl SessionStore for Line {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        let mut log = self.log.lock().unwrap();
        let kept = log.iter().filter(|line| line.contains(": ")).count();
        if self.room.is_some_and(|room| kept >= room) {
            return Err(StoreError { message: "disk full".into(), source: None });
        }
        log.push(letters(message));
        Ok(())
    }

    fn observe(&self, loop_id: &Arc<str>, event: &EventKind) {
        let name = serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned();
        if !name.starts_with("message") && !name.starts_with("turn") {
            self.log.lock().unwrap().push(format!("{name} of {loop_id}"));
        }
    }
}

fn kept_by(store: Arc<dyn SessionStore>, branches: &[Harness]) -> Vec<LoopConfig> {
    let config = |branch: &Harness| {
        let mut config = branch.config();
        config.ports.store = store.clone();
        config
    };
    branches.iter().map(config).collect()
}

#[tokio::test]
async fn every_loop_begins_and_ends_once_within_its_group() {
    let mut world = World::new();
    let branches = [branch(vec![says("one")]), branch(vec![fails()]), branch(vec![says("three")])];
    world.run("go", &configs(&branches), &First).await;
    let events = world.events();
    let ids = ["s.scripted.m.1", "s.scripted.m.2", "s.scripted.m.3"];
    let group_id: Arc<str> = "s.parallel.from-1".into();
    let loop_ids = ids.map(Arc::from).to_vec();
    let start = EventKind::ParallelStart { group_id: group_id.clone(), loop_ids };
    let end = EventKind::ParallelEnd {
        group_id: group_id.clone(),
        chosen: Some(ids[0].into()),
        note: None,
        usage: Usage::default(),
    };
    assert_eq!(events.first(), Some(&Event { loop_id: group_id.clone(), kind: start }));
    assert_eq!(events.last(), Some(&Event { loop_id: group_id, kind: end }));
    for id in ids {
        let of_loop: Vec<&EventKind> = events.iter().filter(|e| &*e.loop_id == id).map(|e| &e.kind).collect();
        assert!(matches!(of_loop.first(), Some(EventKind::AgentStart { .. })));
        assert!(matches!(of_loop.last(), Some(EventKind::AgentEnd { .. })));
        let ends =
            of_loop.iter().filter(|kind| matches!(kind, EventKind::AgentStart { .. } | EventKind::AgentEnd { .. }));
        assert_eq!(ends.count(), 2);
    }
    for event in events {
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }
}

#[tokio::test(start_paused = true)]
async fn branches_work_at_the_same_time() {
    let gates = [Arc::new(Notify::new()), Arc::new(Notify::new())];
    let waiting = |gate: &Arc<Notify>| {
        Setup::new(vec![calls(&[("wait", json!({}))]), says("let go")]).tool("wait", Act::Wait(gate.clone())).build()
    };
    let branches = [waiting(&gates[0]), waiting(&gates[1])];
    let [first, second] = [branches[0].tools.clone(), branches[1].tools.clone()];
    let mut world = World::new();
    let configs = configs(&branches);
    let opening = async {
        first.reached("+call-0").await;
        second.reached("+call-0").await;
        gates[1].notify_one();
        second.reached("-call-0").await;
        gates[0].notify_one();
    };
    let (outcome, ()) = tokio::join!(world.run("go", &configs, &First), opening);
    assert_eq!(outcome.chosen, Some(0));
    assert!(outcome.outcomes.iter().all(|outcome| outcome.text() == "let go"));
}

#[tokio::test]
async fn branches_begin_from_the_same_context_and_know_nothing_of_each_other() {
    let mut world = World::after(&[Message::user("before"), assistant("said")]);
    let two_turns = || vec![calls(&[("look", json!({}))]), says("done")];
    let branches = [0, 1].map(|_| Setup::new(two_turns()).tool("look", Act::Answer("seen")).build());
    world.run("go", &configs(&branches), &First).await;
    for branch in &branches {
        let expected = ["user: before", "assistant: said", "user: go", "assistant calls call-0", "result call-0: seen"];
        assert_eq!(branch.last_request(), expected);
    }
    assert_eq!(world.said().len(), 6);
    assert_paired(&world.context.messages);
}

#[tokio::test]
async fn loops_are_numbered_on_and_begin_as_branches_of_the_loop_before() {
    let mut world = World::after(&[Message::user("before"), assistant("said")]);
    let harness = branch(vec![says("one"), says("two")]);
    world.run("go", &branches_of(&harness.config(), 2), &Own { choice: Choice::of(1), ..Own::default() }).await;
    assert_eq!((world.context.loops, &*world.context.loop_id), (6, "s.scripted.m.6"));
    let mut tags = Vec::new();
    for Event { loop_id, kind } in world.events() {
        if let EventKind::AgentStart { parent_loop_id, continuation, trigger, .. } = kind {
            assert_eq!((parent_loop_id.as_deref(), trigger), (Some("s.c.4"), TurnTrigger::Branch));
            let Some(Continuation::Branch { tag }) = continuation else { panic!("{continuation:?}") };
            tags.push((loop_id.to_string(), tag));
        } else if let EventKind::TurnStart { turn: 1, trigger } = kind {
            assert_eq!(trigger, TurnTrigger::Branch);
        }
    }
    let tags: Vec<(&str, &str)> = tags.iter().map(|(id, tag)| (id.as_str(), tag.as_str())).collect();
    assert_eq!(tags, [("s.scripted.m.5", "s.parallel.from-5/5"), ("s.scripted.m.6", "s.parallel.from-5/6")]);
}

#[tokio::test]
async fn the_chosen_branch_is_gone_on_with_and_its_outcome_is_the_outcome() {
    let mut world = World::new();
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let strategy = Own { choice: Choice::of(1), ..Own::default() };
    let outcome = world.run("go", &configs(&branches), &strategy).await;
    assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(1), "two"));
    assert_eq!(outcome.outcomes.iter().map(Outcome::text).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(world.said(), ["user: go", "assistant: two"]);
    assert_eq!(outcome.outcome.messages, world.context.messages);
    assert_eq!(world.group_end(), (Some("s.scripted.m.2".into()), None, Usage::default()));
}

#[tokio::test]
async fn tokens_decide_and_of_equals_the_first_wins() {
    for (strategy, outputs, expected) in [
        (&FewestTokens as &dyn BranchStrategy, [7, 5, 5], 1),
        (&FewestTokens, [5, 5, 5], 0),
        (&MostTokens, [5, 7, 7], 1),
        (&MostTokens, [5, 5, 5], 0),
        (&First, [7, 5, 9], 0),
    ] {
        let mut world = World::new();
        let branches = outputs.map(|output| branch(vec![says_for("done", output)]));
        let outcome = world.run("go", &configs(&branches), strategy).await;
        assert_eq!(outcome.chosen, Some(expected), "{outputs:?}");
    }
}

#[tokio::test]
async fn a_branch_that_failed_or_met_a_limit_is_no_candidate() {
    let mut world = World::new();
    let one_turn = RunLimits { max_turns: Some(1), ..RunLimits::default() };
    let mut limited = branch(vec![calls(&[("look", json!({}))])]).config();
    limited.policy.limits = one_turn;
    let others = [branch(vec![fails()]), branch(vec![says("three")]), branch(vec![says("four")])];
    let strategy = Own { choice: Choice::of(1), ..Own::default() };
    let configs: Vec<LoopConfig> = [limited].into_iter().chain(configs(&others)).collect();
    let outcome = world.run("go", &configs, &strategy).await;
    assert_eq!(*strategy.offered.lock().unwrap(), [[2, 3]]);
    assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(3), "four"));
    assert_eq!(world.said(), ["user: go", "assistant: four"]);
}

#[tokio::test]
async fn a_single_candidate_is_chosen_without_asking() {
    let mut world = World::new();
    let branches = [branch(vec![fails()]), branch(vec![says("two")])];
    let strategy = Own::default();
    let outcome = world.run("go", &configs(&branches), &strategy).await;
    assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(1), "two"));
    assert!(strategy.offered.lock().unwrap().is_empty());
    assert_eq!(world.group_end().1, None);
}

#[tokio::test]
async fn when_all_failed_the_end_is_that_of_the_first_and_the_conversation_stands_where_it_stood() {
    let mut world = World::after(&[Message::user("before"), assistant("said")]);
    let branches = [branch(vec![fails()]), branch(vec![fails()])];
    let outcome = world.run("go", &configs(&branches), &First).await;
    assert_eq!((outcome.chosen, &outcome.outcome.end), (None, &outcome.outcomes[0].end));
    assert!(matches!(&outcome.outcome.end, RunEnd::Error { message } if message.contains("no key")));
    assert!(outcome.outcome.messages.is_empty());
    assert_eq!(world.said(), ["user: before", "assistant: said"]);
    assert_eq!((world.context.loops, &*world.context.loop_id), (6, "s.c.4"));
    assert_eq!(world.group_end(), (None, Some("no branch came to its end".into()), Usage::default()));
}

#[tokio::test(start_paused = true)]
async fn an_abort_in_the_middle_ends_all_branches() {
    let hanging = || vec![calls(&[("wait", json!({}))]), says("too late")];
    let branches = [0, 1].map(|_| Setup::new(hanging()).tool("wait", Act::UntilCancelled).build());
    let tools = branches.each_ref().map(|branch| branch.tools.clone());
    let mut world = World::new();
    let (token, configs) = (world.token.clone(), configs(&branches));
    let aborting = async {
        tools[0].reached("+call-0").await;
        tools[1].reached("+call-0").await;
        token.cancel();
    };
    let strategy = Own::default();
    let (outcome, ()) = tokio::join!(world.run("go", &configs, &strategy), aborting);
    assert_eq!((outcome.chosen, outcome.outcome.end), (None, RunEnd::Aborted));
    assert!(outcome.outcomes.iter().all(|outcome| outcome.end == RunEnd::Aborted));
    outcome.outcomes.iter().for_each(|outcome| assert_paired(&outcome.messages));
    assert!(world.context.messages.is_empty() && strategy.offered.lock().unwrap().is_empty());
    let ends = world.events().iter().filter(|event| matches!(event.kind, EventKind::AgentEnd { .. })).count();
    assert_eq!(ends, 2);
}

#[tokio::test]
async fn a_choice_that_there_is_not_is_the_first_one_and_it_is_told() {
    let mut world = World::new();
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let strategy = Own { choice: Choice::of(2), ..Own::default() };
    let outcome = world.run("go", &configs(&branches), &strategy).await;
    assert_eq!(outcome.chosen, Some(0));
    assert_eq!(world.group_end().1.as_deref(), Some("there is no candidate 2, so the first one is chosen"));
}

#[tokio::test]
async fn without_a_branch_nothing_is_begun() {
    let mut world = World::new();
    let outcome = world.run("go", &[], &First).await;
    assert_eq!(outcome.outcome.end, RunEnd::Error { message: "there is no branch to run".into() });
    assert!(world.events().is_empty() && world.context.loops == 0);
}

#[tokio::test]
async fn queues_are_not_those_of_the_branches() {
    let mut world = World::new();
    let harness = branch(vec![says("one"), says("two")]);
    let config = harness.config();
    config.inbox.steering.push(Message::user("steer"));
    config.inbox.follow_up.push(Message::user("follow"));
    world.run("go", &branches_of(&config, 2), &First).await;
    assert_eq!(world.said(), ["user: go", "assistant: one"]);
    assert_eq!((config.inbox.steering.len(), config.inbox.follow_up.len()), (1, 1));
}

#[tokio::test]
async fn tools_of_a_branch_only_read_and_delegate_unless_its_config_says_otherwise() {
    let setup = |replies| {
        Setup::new(replies)
            .tool("look", Act::Answer("seen"))
            .tool_with("write", Act::Answer("written"), |tool| tool.authority.writes = true)
            .tool_with("task", Act::Answer("delegated"), |tool| tool.authority.delegates = true)
            .build()
    };
    let writing = || vec![calls(&[("write", json!({}))]), says("done")];
    let (cut, free) = (setup(writing()), setup(writing()));
    let mut allowed = free.config();
    allowed.policy.branch_authority = Authority::ALL;
    World::new().run("go", &[cut.config(), allowed], &First).await;
    let offered = |harness: &Harness| {
        let requests = harness.model.requests.lock().unwrap();
        requests[0].tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (offered(&cut), offered(&free)),
        (vec!["look".into(), "task".into()], vec!["look".to_owned(), "write".into(), "task".into()])
    );
    assert!(cut.tools.log.lock().unwrap().is_empty());
    assert_eq!(*free.tools.log.lock().unwrap(), ["+call-0", "-call-0"]);
}

#[tokio::test]
async fn each_branch_has_its_own_place_in_a_session_with_branches() {
    let tree = Arc::new(Tree::default());
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let choice = Choice { usage: Usage { input: 3, ..Usage::default() }, ..Choice::of(1) };
    let strategy = Own { choice, ..Own::default() };
    World::new().run("go", &kept_by(tree.clone(), &branches), &strategy).await;
    let lines = tree.lines();
    let of = |number: &str| lines.iter().filter(|line| line.starts_with(number)).cloned().collect::<Vec<_>>();
    assert_eq!(lines.first().unwrap(), "begin s.parallel.from-1: s.scripted.m.1 s.scripted.m.2");
    assert_eq!(lines.last().unwrap(), "end Some(1), 3 tokens");
    assert_eq!(
        (of("0"), of("1")),
        (
            vec!["0 user: go".into(), "0 assistant: one".into()],
            vec!["1 user: go".to_owned(), "1 assistant: two".into()]
        )
    );
    assert_eq!(lines.len(), 6);
}

#[tokio::test]
async fn a_session_hears_that_none_was_chosen() {
    let tree = Arc::new(Tree::default());
    let branches = [branch(vec![fails()]), branch(vec![fails()])];
    World::new().run("go", &kept_by(tree.clone(), &branches), &First).await;
    assert_eq!(tree.lines().last().unwrap(), "end None, 0 tokens");
}

#[tokio::test]
async fn branches_whose_session_cannot_be_begun_are_not_and_it_is_told() {
    let tree = Arc::new(Tree { broken: Some("begin"), ..Tree::default() });
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let mut world = World::new();
    let outcome = world.run("go", &kept_by(tree, &branches), &First).await;
    let message = "could not write the session: disk full";
    assert_eq!(outcome.outcome.end, RunEnd::Error { message: message.into() });
    assert!(outcome.outcomes.is_empty() && branches.iter().all(|branch| branch.requests() == 0));
    let events = world.events();
    assert!(matches!(&events[0].kind, EventKind::ParallelStart { loop_ids, .. } if loop_ids.is_empty()));
    assert!(
        matches!(&events[1].kind, EventKind::ParallelEnd { chosen: None, note: Some(note), .. } if note == message)
    );
    assert_eq!(events.len(), 2);
}

#[tokio::test]
async fn a_choice_that_cannot_be_kept_is_an_error_and_the_context_is_as_it_was() {
    let tree: Arc<dyn SessionStore> = Arc::new(Tree { broken: Some("end"), ..Tree::default() });
    let line: Arc<dyn SessionStore> = Arc::new(Line { room: Some(1), ..Line::default() });
    for store in [tree, line] {
        let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
        let mut world = World::after(&[Message::user("before"), assistant("said")]);
        let outcome = world.run("go", &kept_by(store, &branches), &First).await;
        let message = "could not write the session: disk full";
        assert_eq!((outcome.chosen, outcome.outcome.end), (None, RunEnd::Error { message: message.into() }));
        assert!(outcome.outcome.messages.is_empty() && outcome.outcome.usage.total() == 30);
        assert_eq!(world.said(), ["user: before", "assistant: said"]);
        assert_eq!(&*world.context.loop_id, "s.c.4");
        assert_eq!(world.group_end(), (None, Some(message.into()), Usage::default()));
    }
}

#[tokio::test]
async fn a_branch_that_cannot_be_kept_is_no_candidate() {
    let tree = Arc::new(Tree { broken: Some("0 assistant"), ..Tree::default() });
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let outcome = World::new().run("go", &kept_by(tree, &branches), &First).await;
    assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(1), "two"));
    assert!(matches!(outcome.outcomes[0].end, RunEnd::Error { .. }));
}

#[tokio::test]
async fn of_a_session_without_branches_only_the_chosen_one_is_kept_in_order() {
    let line = Arc::new(Line::default());
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let strategy = Own { choice: Choice::of(1), ..Own::default() };
    World::new().run("go", &kept_by(line.clone(), &branches), &strategy).await;
    let expected = [
        "parallel_start of s.parallel.from-1",
        "agent_start of s.scripted.m.2",
        "user: go",
        "assistant: two",
        "agent_end of s.scripted.m.2",
        "parallel_end of s.parallel.from-1",
    ];
    assert_eq!(*line.log.lock().unwrap(), expected);
}

#[tokio::test]
async fn of_a_session_without_branches_nothing_is_kept_when_none_is_chosen() {
    let line = Arc::new(Line::default());
    let branches = [branch(vec![fails()]), branch(vec![fails()])];
    World::new().run("go", &kept_by(line.clone(), &branches), &First).await;
    let expected = ["parallel_start of s.parallel.from-1", "parallel_end of s.parallel.from-1"];
    assert_eq!(*line.log.lock().unwrap(), expected);
}

#[tokio::test]
async fn what_was_used_adds_up_over_branches_and_the_choice() {
    let mut world = World::new();
    let one = Some(Cost { input: 1.0, ..Cost::default() });
    let branches = [branch(vec![says_for("one", 5)]), branch(vec![calls(&[("look", json!({}))]), says_for("two", 7)])];
    let usage = Usage { input: 100, output: 20, ..Usage::default() };
    let strategy = Own { choice: Choice { turns: 2, usage, cost: one, ..Choice::default() }, ..Own::default() };
    let mut configs = configs(&branches);
    let priced = Prices { input: 1e6, ..Prices::default() };
    configs[0].policy.model.prices = Some(Arc::new(priced));
    let outcome = world.run("go", &configs, &strategy).await.outcome;
    assert_eq!(outcome.usage, Usage { input: 130, output: 37, ..Usage::default() });
    assert_eq!((outcome.turns, outcome.cost.map(|cost| cost.total())), (5, Some(11.0)));
    assert_eq!(world.group_end().2, usage);
}

// Agents.

#[tokio::test]
async fn an_agent_goes_on_from_the_chosen_branch() {
    let mut harness = branch(vec![says("one"), says("two"), says("thanks to you")]);
    let strategy = Own { choice: Choice::of(1), ..Own::default() };
    let branches = branches_of(&harness.config(), 2);
    let outcome = run_branches(&harness.agent, vec![Message::user("go")], branches, &strategy).await.unwrap();
    assert_eq!(outcome.outcome.text(), "two");
    harness.prompt("thanks").await;
    assert_eq!(harness.last_request(), ["user: go", "assistant: two", "user: thanks"]);
    let snapshot = harness.agent.snapshot().unwrap();
    assert_eq!((&*snapshot.loop_id, snapshot.loops), ("s.scripted.m.3", 3));
    assert_eq!((snapshot.totals.requests, snapshot.totals.usage.total()), (3, 45));
    let kept: Vec<String> = harness.store.kept.lock().unwrap().iter().map(|message| letters(message)).collect();
    assert_eq!(kept, ["user: go", "assistant: two", "user: thanks", "assistant: thanks to you"]);
    let triggers = harness.events().into_iter().filter_map(|kind| match kind {
        EventKind::AgentStart { trigger, .. } => Some(trigger),
        _ => None,
    });
    assert_eq!(triggers.collect::<Vec<_>>(), [TurnTrigger::Branch, TurnTrigger::Branch, TurnTrigger::User]);
}

#[tokio::test]
async fn without_prompts_branches_go_on_from_what_there_is() {
    let harness = branch(vec![fails(), says("one"), says("two")]);
    let branches = || branches_of(&harness.config(), 2);
    let told = |error: Result<ParallelOutcome, AgentError>| error.unwrap_err().to_string();
    let nothing = run_branches(&harness.agent, vec![], branches(), &First).await;
    assert_eq!(told(nothing), "there is nothing to continue: nothing was said yet");

    let said = vec![Arc::new(Message::user("go"))];
    harness.agent.reset("s".into(), said, 0).unwrap();
    let outcome = run_branches(&harness.agent, vec![], branches(), &First).await.unwrap();
    assert_eq!(outcome.chosen, Some(1), "the first one failed");
    assert_eq!(outcome.outcome.messages.iter().map(|m| letters(m)).collect::<Vec<_>>(), ["assistant: one"]);

    let nothing = run_branches(&harness.agent, vec![], branches(), &First).await;
    assert_eq!(told(nothing), "there is nothing to continue: the model has spoken last");
}

#[tokio::test(start_paused = true)]
async fn branches_are_one_run_which_can_be_aborted() {
    let hanging = vec![calls(&[("wait", json!({}))]), calls(&[("wait", json!({}))])];
    let harness = Setup::new(hanging).tool("wait", Act::UntilCancelled).build();
    let branches = branches_of(&harness.config(), 2);
    let second = async {
        harness.tools.reached("+call-0").await;
        let refused = run_branches(&harness.agent, vec![Message::user("me too")], vec![], &First).await;
        harness.agent.abort();
        refused
    };
    let prompts = vec![Message::user("go")];
    let (outcome, refused) = tokio::join!(run_branches(&harness.agent, prompts, branches, &First), second);
    assert_eq!(outcome.unwrap().outcome.end, RunEnd::Aborted);
    assert_eq!(refused.unwrap_err(), AgentError::AlreadyRunning);
}

#[test]
fn branches_can_be_run_on_any_thread() {
    fn is_send(_: impl Send) {}
    let mut world = World::new();
    is_send(run_parallel(&mut world.context, vec![], &[], &First, &world.events, &world.token));
}

#[test]
fn strategies_have_names_in_configs() {
    let names = [ChoiceName::First, ChoiceName::FewestTokens, ChoiceName::MostTokens, ChoiceName::Judge];
    let written = serde_json::to_value(names).unwrap();
    assert_eq!(written, json!(["first", "fewest-tokens", "most-tokens", "judge"]));
    assert_eq!(serde_json::from_value::<Vec<ChoiceName>>(written).unwrap(), names);
}

// The judge.

fn judge(harness: &Harness) -> Judge {
    Judge { config: harness.config(), instructions: None }
}

/// Text of the only message of the only request.
fn asked(harness: &Harness) -> String {
    let requests = harness.model.requests.lock().unwrap();
    let [request] = &requests[..] else { panic!("{} requests", requests.len()) };
    assert_eq!((request.messages.len(), request.tools.len()), (1, 0));
    letters(&request.messages[0])
}

#[tokio::test]
async fn a_judge_sees_the_request_and_the_final_answers_and_chooses() {
    let mut world = World::new();
    let worker =
        Setup::new(vec![calls(&[("look", json!({}))]), says("answer one")]).tool("look", Act::Answer("secret")).build();
    let branches = [worker, branch(vec![fails()]), branch(vec![says("answer three")])];
    let harness = Setup::new(vec![says("2")]).tool("look", Act::Answer("seen")).build();
    let outcome = world.run("which way?", &configs(&branches), &judge(&harness)).await;
    assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(2), "answer three"));
    let expected = "user: Several agents worked on the same request, each by itself.\n\n\
        <request>\nwhich way?\n</request>\n\n\
        <answer number=\"1\">\nanswer one\n</answer>\n\n\
        <answer number=\"2\">\nanswer three\n</answer>\n\n\
        Which answer is the best? Reply with its number, from 1 to 2, and nothing else.";
    assert_eq!(asked(&harness), expected);
    assert_eq!(world.said(), ["user: which way?", "assistant: answer three"]);
    assert!(harness.store.kept.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_judge_is_a_loop_of_its_own_within_the_group_and_what_it_takes_is_told() {
    let mut world = World::after(&[Message::user("before"), assistant("said")]);
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let harness = branch(vec![says_for("2", 7)]);
    let outcome = world.run("go", &configs(&branches), &judge(&harness)).await;
    assert_eq!((outcome.outcome.usage.total(), outcome.outcome.turns), (47, 3));
    assert_eq!((world.context.loops, &*world.context.loop_id), (7, "s.scripted.m.6"));
    let mut events = world.events();
    let end = events.pop().unwrap();
    assert!(matches!(end.kind, EventKind::ParallelEnd { usage, note: None, .. } if usage.total() == 17));
    assert_eq!(&*events.last().unwrap().loop_id, "s.scripted.m.7");
    assert!(matches!(events.last().unwrap().kind, EventKind::AgentEnd { .. }));
    let start = events.iter().find(|event| &*event.loop_id == "s.scripted.m.7").unwrap();
    let EventKind::AgentStart { agent_id, session_id, continuation, trigger, .. } = &start.kind else { panic!() };
    assert_eq!((&**agent_id, &**session_id), ("judge", "s"));
    assert_eq!((continuation, *trigger), (&None, TurnTrigger::SubAgent));
}

#[tokio::test]
async fn a_judge_sees_what_users_and_models_said_before_and_nothing_of_tools() {
    let mut call = assistant("I look");
    if let Message::Assistant(reply) = &mut call {
        reply.content.push(Content::ToolCall(ToolCall::new("c", "look", json!({ "text": "secret" }))));
    }
    let result = Message::ToolResult(ToolResultMessage {
        call_id: "c".into(),
        tool_name: "look".into(),
        content: vec![Content::text("secret")],
        details: None,
        is_error: false,
        child_loop_id: None,
        timestamp: jiff::Timestamp::UNIX_EPOCH,
    });
    let before = [Message::user("before"), call, result, assistant("said")];
    let mut world = World::after(&before);
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let harness = branch(vec![says("1")]);
    world.run("go", &configs(&branches), &judge(&harness)).await;
    let text = asked(&harness);
    let conversation = "<conversation>\nUser: before\n\nAssistant: I look\n\nAssistant: said\n</conversation>";
    assert!(text.contains(conversation) && !text.contains("secret"), "{text}");
    assert!(text.contains("<request>\ngo\n</request>"));
}

#[tokio::test]
async fn when_branches_go_on_without_prompts_a_judge_sees_the_last_thing_that_the_user_said() {
    let mut world = World::after(&[Message::user("before"), assistant("said"), Message::user("and now?")]);
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let harness = branch(vec![says("1")]);
    world.work(vec![], &configs(&branches), &judge(&harness)).await;
    let text = asked(&harness);
    assert!(text.contains("<conversation>\nUser: before\n\nAssistant: said\n</conversation>"), "{text}");
    assert!(text.contains("<request>\nand now?\n</request>"), "{text}");
}

#[tokio::test]
async fn a_judge_goes_by_its_instructions() {
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let harness = branch(vec![says("1")]);
    let strategy = Judge { instructions: Some("The shorter the better.".into()), ..judge(&harness) };
    World::new().run("go", &configs(&branches), &strategy).await;
    assert_eq!(&*harness.model.requests.lock().unwrap()[0].system, "The shorter the better.");
}

#[tokio::test(start_paused = true)]
async fn when_a_judge_does_not_decide_the_first_candidate_is_chosen_and_it_is_told_why() {
    let overflow = || Reply::Fails(vec![], ProviderError::ContextOverflow { message: "too long".into() });
    for (replies, why) in [
        (vec![says("all of them")], "its reply names none of the answers"),
        (vec![says("3")], "its reply names none of the answers"),
        (vec![calls(&[("look", json!({}))])], "it was stopped after 1 turns, which was its limit"),
        (vec![fails()], "it failed: "),
        (vec![overflow(), says("2")], "the question was too long for its model"),
    ] {
        let mut world = World::new();
        let long = "three".repeat(1_000);
        let branches = [branch(vec![fails()]), branch(vec![says("two")]), branch(vec![says(&long)])];
        let harness = branch(replies);
        let outcome = world.run("go", &configs(&branches), &judge(&harness)).await;
        assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(1), "two"), "{why}");
        let note = world.group_end().1.unwrap();
        let expected = format!("the judge did not decide: {why}");
        assert!(note.starts_with(&expected) && note.ends_with("; the first candidate is chosen"), "{note}");
    }
}

#[tokio::test(start_paused = true)]
async fn when_a_judge_is_aborted_the_first_candidate_is_chosen() {
    let mut world = World::new();
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let harness = branch(vec![Reply::Hangs(vec![])]);
    let (token, model) = (world.token.clone(), harness.model.clone());
    let mut watching = world.events.subscribe(10_000);
    let aborting = async {
        while model.requests.lock().unwrap().is_empty() {
            watching.recv().await;
        }
        token.cancel();
        drop(watching);
    };
    let (configs, judge) = (configs(&branches), judge(&harness));
    let (outcome, ()) = tokio::join!(world.run("go", &configs, &judge), aborting);
    assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(0), "one"));
    let note = world.group_end().1;
    assert_eq!(note.as_deref(), Some("the judge did not decide: it was aborted; the first candidate is chosen"));
}

#[tokio::test]
async fn answers_that_are_too_long_for_a_judge_are_shortened_for_it_alone() {
    let long = format!("begin\n\n{}\n\nend", "x".repeat(10_000));
    let mut world = World::new();
    let branches = [branch(vec![says(&long)]), branch(vec![says("two")])];
    let mut harness = branch(vec![says("1")]);
    let mut strategy = judge(&harness);
    strategy.config.policy.model.context_window = Some(1_000);
    let outcome = world.run("go", &configs(&branches), &strategy).await;
    assert_eq!(outcome.outcome.text(), long);
    assert!(asked(&harness).contains("\nbegin\n\n[…]\n\nend\n"));
    assert!(harness.events().is_empty());
}

#[tokio::test]
async fn answers_that_fit_no_judge_are_not_judged_and_it_is_told() {
    let mut world = World::new();
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let harness = branch(vec![says("2")]);
    let mut strategy = judge(&harness);
    strategy.config.policy.model.context_window = Some(100);
    let outcome = world.run("go", &configs(&branches), &strategy).await;
    assert_eq!((outcome.chosen, harness.requests()), (Some(0), 0));
    let note = world.group_end().1.unwrap();
    let expected = "the answers do not fit the judge's context window, however short they are made";
    assert_eq!(note, format!("{expected}; the first candidate is chosen"));
}
