//! Branches with scripted models.

mod sessions;

use crate::testing::{Act, Harness, Reply, Setup, assert_paired, calls, letters, says, text_events};
use crate::*;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A conversation that branches start from.
struct World {
    context: Context,
    events: EventWatchers,
    seen: EventReceiver,
    token: CancellationToken,
}

impl World {
    fn new() -> Self {
        let events = EventWatchers::default();
        let seen = events.subscribe(10_000);
        let context = Context::new("You are a test.", "s");
        Self { context, events, seen, token: CancellationToken::new() }
    }

    /// Creates a conversation with earlier messages.
    fn after(said: &[Message]) -> Self {
        let mut world = Self::new();
        world.context.messages = said.iter().cloned().map(Arc::new).collect();
        world.context.runs = [("scripted.m".to_owned(), 4)].into_iter().collect();
        world.context.run_id = "s.c.4".into();
        world
    }

    async fn run(
        &mut self,
        prompt: &str,
        branches: &[impl Clone + Into<Branch>],
        strategy: &dyn BranchStrategy,
    ) -> ParallelOutcome {
        self.work(vec![Message::user(prompt)], branches, strategy).await
    }

    async fn work(
        &mut self,
        prompts: Vec<Message>,
        branches: &[impl Clone + Into<Branch>],
        strategy: &dyn BranchStrategy,
    ) -> ParallelOutcome {
        let branches: Vec<Branch> = branches.iter().cloned().map(Into::into).collect();
        let working = run_parallel(&mut self.context, prompts, &branches, strategy, &self.events, &self.token);
        timeout(Duration::from_secs(3600), working).await.unwrap()
    }

    fn list_messages(&self) -> Vec<String> {
        self.context.messages.iter().map(|message| letters(message)).collect()
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.seen.try_recv()).collect()
    }

    /// Returns the choice, the note and the usage of the last group event.
    fn group_end(&mut self) -> (Option<String>, Option<String>, Usage) {
        match self.events().pop().unwrap().kind {
            EventKind::ParallelEnd { chosen, note, usage, .. } => (chosen.map(|id| id.to_string()), note, usage),
            other => panic!("{other:?}"),
        }
    }
}

/// Creates the model, tools and store of a branch.
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
        requested_model: None,
        usage: Usage::default(),
        cost: None,
        error: None,
        timestamp: jiff::Timestamp::UNIX_EPOCH,
    })
}

/// Makes a fixed choice, and records the candidates.
#[derive(Default)]
struct Own {
    choice: BranchChoice,
    offered: Mutex<Vec<Vec<usize>>>,
}

impl BranchStrategy for Own {
    fn choose<'a>(&'a self, candidates: Candidates<'a>) -> BoxFuture<'a, BranchChoice> {
        let numbers = candidates.candidates.iter().map(|candidate| candidate.number).collect();
        self.offered.lock().unwrap().push(numbers);
        Box::pin(async { self.choice.clone() })
    }
}

/// A session with branches that records all calls.
#[derive(Default)]
struct Tree {
    log: Arc<Mutex<Vec<String>>>,
    /// Writing a line with this prefix fails.
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
        run_ids: &[String],
    ) -> Result<Option<Box<dyn SessionGroup>>, StoreError> {
        self.write(format!("begin {group_id}: {}", run_ids.join(" ")))?;
        Ok(Some(Box::new(Group(self))))
    }
}

struct Group(Arc<Tree>);

impl SessionGroup for Group {
    fn branch(&self, number: usize) -> Arc<dyn SessionStore> {
        Arc::new(Side { tree: self.0.clone(), number })
    }

    fn begin_choice(&self, runs: RunNumbers) -> Result<(), StoreError> {
        let runs: Vec<String> = runs.into_iter().map(|(config, number)| format!("{config} {number}")).collect();
        self.0.write(format!("choice: {}", runs.join(", ")))
    }

    fn end(&self, chosen: Option<usize>, choice: ChoiceAccount) -> Result<(), StoreError> {
        let ChoiceAccount { runs, turns, spend } = choice;
        let runs: Vec<String> = runs.into_iter().map(|(config, number)| format!(", {config} {number}")).collect();
        let turns = if turns == 0 { String::new() } else { format!(", {turns} turns") };
        self.0.write(format!("end {chosen:?}, {} tokens{turns}{}", spend.usage.total(), runs.concat()))
    }
}

impl SessionStore for Side {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        self.tree.write(format!("{} {}", self.number, letters(message)))
    }
}

/// A session without branches that records all calls.
#[derive(Default)]
struct Line {
    log: Mutex<Vec<String>>,
    /// Number of messages that can be stored.
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

    fn observe(&self, run_id: &Arc<str>, event: &EventKind) {
        let name = serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned();
        if !name.starts_with("message") && !name.starts_with("turn") {
            self.log.lock().unwrap().push(format!("{name} of {run_id}"));
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
async fn every_run_starts_and_ends_once_within_its_group() {
    let mut world = World::new();
    let branches = [branch(vec![says("one")]), branch(vec![fails()]), branch(vec![says("three")])];
    world.run("go", &configs(&branches), &First).await;
    let events = world.events();
    let ids = ["s.scripted.m.1", "s.scripted.m.2", "s.scripted.m.3"];
    let group_id: Arc<str> = "s.parallel.from-1".into();
    let run_ids = ids.map(Arc::from).to_vec();
    let start = EventKind::ParallelStart { group_id: group_id.clone(), run_ids };
    let end = EventKind::ParallelEnd {
        group_id: group_id.clone(),
        chosen: Some(ids[0].into()),
        note: None,
        usage: Usage::default(),
    };
    assert_eq!(events.first(), Some(&Event { run_id: group_id.clone(), kind: start }));
    assert_eq!(events.last(), Some(&Event { run_id: group_id, kind: end }));
    for id in ids {
        let of_run: Vec<&EventKind> = events.iter().filter(|e| &*e.run_id == id).map(|e| &e.kind).collect();
        assert!(matches!(of_run.first(), Some(EventKind::AgentStart { .. })));
        assert!(matches!(of_run.last(), Some(EventKind::AgentEnd { .. })));
        let ends =
            of_run.iter().filter(|kind| matches!(kind, EventKind::AgentStart { .. } | EventKind::AgentEnd { .. }));
        assert_eq!(ends.count(), 2);
    }
    for event in events {
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }
}

#[tokio::test(start_paused = true)]
async fn branches_run_concurrently() {
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
async fn branches_start_from_the_same_context_in_isolation() {
    let mut world = World::after(&[Message::user("before"), assistant("said")]);
    let two_turns = || vec![calls(&[("look", json!({}))]), says("done")];
    let branches = [0, 1].map(|_| Setup::new(two_turns()).tool("look", Act::Answer("seen")).build());
    world.run("go", &configs(&branches), &First).await;
    for branch in &branches {
        let expected = ["user: before", "assistant: said", "user: go", "assistant calls call-0", "result call-0: seen"];
        assert_eq!(branch.last_request(), expected);
    }
    assert_eq!(world.list_messages().len(), 6);
    assert_paired(&world.context.messages);
}

#[tokio::test]
async fn branch_runs_are_numbered_and_linked_to_their_parent() {
    let mut world = World::after(&[Message::user("before"), assistant("said")]);
    let harness = branch(vec![says("one"), says("two")]);
    world
        .run(
            "go",
            &branches_of(&harness.config(), 2),
            &Own { choice: BranchChoice::for_candidate(1), ..Own::default() },
        )
        .await;
    assert_eq!((world.context.runs.total(), &*world.context.run_id), (6, "s.scripted.m.6"));
    let mut tags = Vec::new();
    for Event { run_id, kind } in world.events() {
        if let EventKind::AgentStart { parent_run_id, continuation, trigger, .. } = kind {
            assert_eq!((parent_run_id.as_deref(), trigger), (Some("s.c.4"), TurnTrigger::Branch));
            let Some(Continuation::Branch { tag }) = continuation else { panic!("{continuation:?}") };
            tags.push((run_id.to_string(), tag));
        } else if let EventKind::TurnStart { turn: 1, trigger } = kind {
            assert_eq!(trigger, TurnTrigger::Branch);
        }
    }
    let tags: Vec<(&str, &str)> = tags.iter().map(|(id, tag)| (id.as_str(), tag.as_str())).collect();
    assert_eq!(tags, [("s.scripted.m.5", "s.parallel.from-5/5"), ("s.scripted.m.6", "s.parallel.from-5/6")]);
}

#[tokio::test]
async fn conversation_continues_from_the_chosen_branch() {
    let mut world = World::new();
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let strategy = Own { choice: BranchChoice::for_candidate(1), ..Own::default() };
    let outcome = world.run("go", &configs(&branches), &strategy).await;
    assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(1), "two"));
    assert_eq!(outcome.outcomes.iter().map(Outcome::text).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(world.list_messages(), ["user: go", "assistant: two"]);
    assert_eq!(outcome.outcome.messages, world.context.messages);
    assert_eq!(world.group_end(), (Some("s.scripted.m.2".into()), None, Usage::default()));
}

#[tokio::test]
async fn token_strategies_prefer_the_first_of_equals() {
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
async fn failed_or_limited_branch_is_not_a_candidate() {
    let mut world = World::new();
    let one_turn = RunLimits { max_turns: Some(1), ..RunLimits::default() };
    let mut limited = branch(vec![calls(&[("look", json!({}))])]).config();
    limited.policy.limits = one_turn;
    let others = [branch(vec![fails()]), branch(vec![says("three")]), branch(vec![says("four")])];
    let strategy = Own { choice: BranchChoice::for_candidate(1), ..Own::default() };
    let configs: Vec<LoopConfig> = [limited].into_iter().chain(configs(&others)).collect();
    let outcome = world.run("go", &configs, &strategy).await;
    assert_eq!(*strategy.offered.lock().unwrap(), [[2, 3]]);
    assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(3), "four"));
    assert_eq!(world.list_messages(), ["user: go", "assistant: four"]);
}

#[tokio::test]
async fn single_candidate_is_chosen_without_the_strategy() {
    let mut world = World::new();
    let branches = [branch(vec![fails()]), branch(vec![says("two")])];
    let strategy = Own::default();
    let outcome = world.run("go", &configs(&branches), &strategy).await;
    assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(1), "two"));
    assert!(strategy.offered.lock().unwrap().is_empty());
    assert_eq!(world.group_end().1, None);
}

#[tokio::test]
async fn all_branches_failing_leaves_the_conversation_unchanged() {
    let mut world = World::after(&[Message::user("before"), assistant("said")]);
    let branches = [branch(vec![fails()]), branch(vec![fails()])];
    let outcome = world.run("go", &configs(&branches), &First).await;
    assert_eq!((outcome.chosen, &outcome.outcome.end), (None, &outcome.outcomes[0].end));
    assert!(matches!(&outcome.outcome.end, RunEnd::Failed(error) if error.message.contains("no key")));
    assert!(outcome.outcome.messages.is_empty());
    assert_eq!(world.list_messages(), ["user: before", "assistant: said"]);
    assert_eq!((world.context.runs.total(), &*world.context.run_id), (6, "s.c.4"));
    assert_eq!(world.group_end(), (None, Some("no branch succeeded".into()), Usage::default()));
}

#[tokio::test(start_paused = true)]
async fn abort_ends_all_branches() {
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
async fn invalid_choice_falls_back_to_the_first_with_a_note() {
    let mut world = World::new();
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let strategy = Own { choice: BranchChoice::for_candidate(2), ..Own::default() };
    let outcome = world.run("go", &configs(&branches), &strategy).await;
    assert_eq!(outcome.chosen, Some(0));
    assert_eq!(
        world.group_end().1.as_deref(),
        Some("the strategy chose candidate 2, which does not exist; chose the first candidate")
    );
}

#[tokio::test]
async fn nothing_starts_without_branches() {
    let mut world = World::new();
    let outcome = world.run("go", &[] as &[Branch], &First).await;
    assert_eq!(outcome.outcome.end, RunEnd::failed(RunErrorKind::Other, "no branches to run"));
    assert!(world.events().is_empty() && world.context.runs.total() == 0);
}

#[tokio::test]
async fn branches_do_not_drain_the_queues() {
    let mut world = World::new();
    let harness = branch(vec![says("one"), says("two")]);
    let config = harness.config();
    config.inbox.steering.push(Message::user("steer"));
    config.inbox.follow_up.push(Message::user("follow"));
    world.run("go", &branches_of(&config, 2), &First).await;
    assert_eq!(world.list_messages(), ["user: go", "assistant: one"]);
    assert_eq!((config.inbox.steering.len(), config.inbox.follow_up.len()), (1, 1));
}

#[tokio::test]
async fn branch_tools_are_read_only_unless_configured() {
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
async fn branch_has_its_own_system_prompt_and_messages() {
    let mut world = World::new();
    let harnesses = [branch(vec![says("one")]), branch(vec![says("two")])];
    let [first, second] = [0, 1].map(|at| Branch::from(configs(&harnesses)[at].clone()));
    let second = Branch {
        system_prompt: Some("You are daring.".into()),
        prompts: vec![Message::user("Think of another way.")],
        ..second
    };
    world.run("go", &[first, second], &Own { choice: BranchChoice::for_candidate(1), ..Own::default() }).await;
    let systems = harnesses.each_ref().map(|harness| harness.model.requests.lock().unwrap()[0].system.to_string());
    assert_eq!(systems, ["You are a test.", "You are daring."]);
    assert_eq!(harnesses[0].last_request(), ["user: go"]);
    assert_eq!(harnesses[1].last_request(), ["user: go", "user: Think of another way."]);
    assert_eq!(world.list_messages(), ["user: go", "user: Think of another way.", "assistant: two"]);
    assert_eq!(&*world.context.system_prompt, "You are a test.");
}
