//! Branches of sessions and of agents, and the judge that chooses among them.

use super::*;

#[tokio::test]
async fn each_run_writes_to_its_own_session_branch() {
    let tree = Arc::new(Tree::default());
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let choice = BranchChoice {
        spend: Spend { usage: Usage { input: 3, ..Usage::default() }, cost: None },
        ..BranchChoice::for_candidate(1)
    };
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
async fn session_records_the_run_of_the_judge() {
    let tree = Arc::new(Tree::default());
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let judge = branch(vec![says_for("2", 5)]);
    let mut world = World::new();
    world.context.runs = [("scripted.m".to_owned(), 4), ("other".to_owned(), 2)].into_iter().collect();
    world.run("go", &kept_by(tree.clone(), &branches), &Judge { config: judge.config(), instructions: None }).await;
    assert_eq!(tree.lines().last().unwrap(), "end Some(1), 15 tokens, 1 turns, scripted.m 7");
    assert_eq!(tree.lines()[tree.lines().len() - 2], "choice: scripted.m 7", "before the judge starts");
    assert_eq!(world.context.runs.next("scripted.m"), 8);
}

#[tokio::test]
async fn judge_that_the_session_cannot_note_is_not_asked() {
    let tree = Arc::new(Tree { broken: Some("choice"), ..Tree::default() });
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let judge = branch(vec![says("2")]);
    let strategy = Judge { config: judge.config(), instructions: None };
    World::new().run("go", &kept_by(tree.clone(), &branches), &strategy).await;
    assert_eq!((judge.requests(), tree.lines().last().unwrap().as_str()), (0, "end Some(0), 0 tokens"));
}

#[tokio::test]
async fn session_records_that_no_branch_was_chosen() {
    let tree = Arc::new(Tree::default());
    let branches = [branch(vec![fails()]), branch(vec![fails()])];
    World::new().run("go", &kept_by(tree.clone(), &branches), &First).await;
    assert_eq!(tree.lines().last().unwrap(), "end None, 0 tokens");
}

#[tokio::test]
async fn unwritable_session_prevents_the_branches_and_is_reported() {
    let tree = Arc::new(Tree { broken: Some("begin"), ..Tree::default() });
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let mut world = World::new();
    let outcome = world.run("go", &kept_by(tree, &branches), &First).await;
    let message = "could not write the session: disk full";
    assert_eq!(outcome.outcome.end, RunEnd::failed(RunErrorKind::Store, message));
    assert!(outcome.outcomes.is_empty() && branches.iter().all(|branch| branch.requests() == 0));
    let events = world.events();
    assert!(matches!(&events[0].kind, EventKind::ParallelStart { run_ids, .. } if run_ids.is_empty()));
    assert!(
        matches!(&events[1].kind, EventKind::ParallelEnd { chosen: None, note: Some(note), .. } if note == message)
    );
    assert_eq!(events.len(), 2);
}

#[tokio::test]
async fn unstorable_choice_is_an_error_and_keeps_the_context() {
    let tree: Arc<dyn SessionStore> = Arc::new(Tree { broken: Some("end"), ..Tree::default() });
    let line: Arc<dyn SessionStore> = Arc::new(Line { room: Some(1), ..Line::default() });
    for store in [tree, line] {
        let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
        let mut world = World::after(&[Message::user("before"), assistant("said")]);
        let outcome = world.run("go", &kept_by(store, &branches), &First).await;
        let message = "could not write the session: disk full";
        assert_eq!(outcome.outcome.text(), "one", "the answer is paid for");
        assert_eq!((outcome.chosen, outcome.outcome.end), (None, RunEnd::failed(RunErrorKind::Store, message)));
        assert_eq!(outcome.outcome.spend.usage.total(), 30);
        assert_eq!(world.list_messages(), ["user: before", "assistant: said"]);
        assert_eq!(&*world.context.run_id, "s.c.4");
        assert_eq!(world.group_end(), (None, Some(message.into()), Usage::default()));
    }
}

#[tokio::test]
async fn unstorable_branch_is_not_a_candidate() {
    let tree = Arc::new(Tree { broken: Some("0 assistant"), ..Tree::default() });
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let outcome = World::new().run("go", &kept_by(tree, &branches), &First).await;
    assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(1), "two"));
    assert!(matches!(outcome.outcomes[0].end, RunEnd::Failed(_)));
}

#[tokio::test]
async fn session_without_branches_stores_only_the_chosen_run() {
    let line = Arc::new(Line::default());
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let strategy = Own { choice: BranchChoice::for_candidate(1), ..Own::default() };
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
async fn session_without_branches_stores_nothing_without_a_choice() {
    let line = Arc::new(Line::default());
    let branches = [branch(vec![fails()]), branch(vec![fails()])];
    World::new().run("go", &kept_by(line.clone(), &branches), &First).await;
    let expected = ["parallel_start of s.parallel.from-1", "parallel_end of s.parallel.from-1"];
    assert_eq!(*line.log.lock().unwrap(), expected);
}

#[tokio::test]
async fn spend_is_summed_over_branches_and_choice() {
    let mut world = World::new();
    let one = Some(Cost { input: 1.0, ..Cost::default() });
    let branches = [branch(vec![says_for("one", 5)]), branch(vec![calls(&[("look", json!({}))]), says_for("two", 7)])];
    let usage = Usage { input: 100, output: 20, ..Usage::default() };
    let strategy = Own {
        choice: BranchChoice { turns: 2, spend: Spend { usage, cost: one }, ..BranchChoice::default() },
        ..Own::default()
    };
    let mut configs = configs(&branches);
    let priced = Prices { input: 1e6, ..Prices::default() };
    configs[0].policy.model.prices = Some(Arc::new(priced));
    let outcome = world.run("go", &configs, &strategy).await.outcome;
    assert_eq!(outcome.spend.usage, Usage { input: 130, output: 37, ..Usage::default() });
    assert_eq!((outcome.turns, outcome.spend.cost.map(|cost| cost.total())), (5, Some(11.0)));
    assert_eq!(world.group_end().2, usage);
}

// Agents.

#[tokio::test]
async fn agent_continues_from_the_chosen_branch() {
    let mut harness = branch(vec![says("one"), says("two"), says("thanks to you")]);
    let strategy = Own { choice: BranchChoice::for_candidate(1), ..Own::default() };
    let branches = branches_of(&harness.config(), 2);
    let outcome = run_branches(&harness.agent, vec![Message::user("go")], branches, &strategy).await.unwrap();
    assert_eq!(outcome.outcome.text(), "two");
    harness.prompt("thanks").await;
    assert_eq!(harness.last_request(), ["user: go", "assistant: two", "user: thanks"]);
    let snapshot = harness.agent.snapshot().unwrap();
    assert_eq!((&*snapshot.run_id, snapshot.runs.total()), ("s.scripted.m.3", 3));
    assert_eq!((snapshot.totals.requests, snapshot.totals.spend.usage.total()), (3, 45));
    let kept: Vec<String> = harness.store.kept.lock().unwrap().iter().map(|message| letters(message)).collect();
    assert_eq!(kept, ["user: go", "assistant: two", "user: thanks", "assistant: thanks to you"]);
    let triggers = harness.events().into_iter().filter_map(|kind| match kind {
        EventKind::AgentStart { trigger, .. } => Some(trigger),
        _ => None,
    });
    assert_eq!(triggers.collect::<Vec<_>>(), [TurnTrigger::Branch, TurnTrigger::Branch, TurnTrigger::User]);
}

#[tokio::test]
async fn branches_without_prompts_resume_the_conversation() {
    let harness = branch(vec![fails(), says("one"), says("two")]);
    let branches = || branches_of(&harness.config(), 2);
    let message = |error: Result<ParallelOutcome, AgentError>| error.unwrap_err().to_string();
    let nothing = run_branches(&harness.agent, vec![], branches(), &First).await;
    assert_eq!(message(nothing), "nothing to continue: nothing was said yet");

    let said = vec![Arc::new(Message::user("go"))];
    harness.agent.reset(Context { messages: said, ..Context::new("", "s") }).await;
    let outcome = run_branches(&harness.agent, vec![], branches(), &First).await.unwrap();
    assert_eq!(outcome.chosen, Some(1), "the first one failed");
    assert_eq!(outcome.outcome.messages.iter().map(|m| letters(m)).collect::<Vec<_>>(), ["assistant: one"]);

    let nothing = run_branches(&harness.agent, vec![], branches(), &First).await;
    assert_eq!(message(nothing), "nothing to continue: the model has spoken last");
}

#[tokio::test(start_paused = true)]
async fn branches_are_one_run_that_can_be_aborted() {
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

/// Returns the text of the only message of the only request.
fn asked(harness: &Harness) -> String {
    let requests = harness.model.requests.lock().unwrap();
    let [request] = &requests[..] else { panic!("{} requests", requests.len()) };
    assert_eq!((request.messages.len(), request.tools.len()), (1, 0));
    letters(&request.messages[0])
}

#[tokio::test]
async fn judge_sees_the_request_and_final_answers() {
    let mut world = World::new();
    let worker =
        Setup::new(vec![calls(&[("look", json!({}))]), says("answer one")]).tool("look", Act::Answer("secret")).build();
    let branches = [worker, branch(vec![fails()]), branch(vec![says("answer three")])];
    let harness = Setup::new(vec![says("2")]).tool("look", Act::Answer("seen")).build();
    let outcome = world.run("which way?", &configs(&branches), &judge(&harness)).await;
    assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(2), "answer three"));
    let expected = "user: Several agents worked on the same request independently.\n\n\
        <request>\nwhich way?\n</request>\n\n\
        <answer number=\"1\">\nanswer one\n</answer>\n\n\
        <answer number=\"2\">\nanswer three\n</answer>\n\n\
        Which answer is the best? Reply with only its number, from 1 to 2.";
    assert_eq!(asked(&harness), expected);
    assert_eq!(world.list_messages(), ["user: which way?", "assistant: answer three"]);
    assert!(harness.store.kept.lock().unwrap().is_empty());
}

#[tokio::test]
async fn judge_sees_the_requests_of_single_branches() {
    let section = |own: [&'static str; 2], shared: &'static str| async move {
        let mut world = World::after(&[Message::user("Good morning."), assistant("Hello.")]);
        let harnesses = [branch(vec![says("one")]), branch(vec![says("two")])];
        let branches = [0, 1].map(|at| {
            let prompts =
                own[at..=at].iter().filter(|text| !text.is_empty()).map(|text| Message::user(*text)).collect();
            Branch { prompts, ..Branch::from(configs(&harnesses)[at].clone()) }
        });
        let harness = branch(vec![says("1")]);
        let shared = if shared.is_empty() { vec![] } else { vec![Message::user(shared)] };
        world.work(shared, &branches, &judge(&harness)).await;
        let asked = asked(&harness);
        let (_, rest) = asked.split_once("<request>\n").unwrap();
        rest.split_once("\n</request>").unwrap().0.to_owned()
    };
    assert_eq!(section(["Sort it.", "Sort it."], "").await, "Sort it.");
    assert_eq!(section(["Sort it.", "Count it."], "").await, "[For answer 1:] Sort it.\n\n[For answer 2:] Count it.");
    assert_eq!(section(["", "Be quick."], "Sort it.").await, "Sort it.\n\n[For answer 2:] Be quick.");
}

#[tokio::test]
async fn judge_runs_within_the_group_and_reports_its_usage() {
    let mut world = World::after(&[Message::user("before"), assistant("said")]);
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let harness = branch(vec![says_for("2", 7)]);
    let outcome = world.run("go", &configs(&branches), &judge(&harness)).await;
    assert_eq!((outcome.outcome.spend.usage.total(), outcome.outcome.turns), (47, 3));
    assert_eq!((world.context.runs.total(), &*world.context.run_id), (7, "s.scripted.m.6"));
    let mut events = world.events();
    let end = events.pop().unwrap();
    assert!(matches!(end.kind, EventKind::ParallelEnd { usage, note: None, .. } if usage.total() == 17));
    assert_eq!(&*events.last().unwrap().run_id, "s.scripted.m.7");
    assert!(matches!(events.last().unwrap().kind, EventKind::AgentEnd { .. }));
    let start = events.iter().find(|event| &*event.run_id == "s.scripted.m.7").unwrap();
    let EventKind::AgentStart { agent_id, session_id, continuation, trigger, .. } = &start.kind else { panic!() };
    assert_eq!((&**agent_id, &**session_id), ("judge", "s"));
    assert_eq!((continuation, *trigger), (&None, TurnTrigger::SubAgent));
}

#[tokio::test]
async fn judge_sees_the_prior_conversation_without_tools() {
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
        child_run_id: None,
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
async fn judge_of_resumed_branches_sees_the_last_user_message() {
    let mut world = World::after(&[Message::user("before"), assistant("said"), Message::user("and now?")]);
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let harness = branch(vec![says("1")]);
    world.work(vec![], &configs(&branches), &judge(&harness)).await;
    let text = asked(&harness);
    assert!(text.contains("<conversation>\nUser: before\n\nAssistant: said\n</conversation>"), "{text}");
    assert!(text.contains("<request>\nand now?\n</request>"), "{text}");
}

#[tokio::test]
async fn judge_follows_its_instructions() {
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let harness = branch(vec![says("1")]);
    let strategy = Judge { instructions: Some("The shorter the better.".into()), ..judge(&harness) };
    World::new().run("go", &configs(&branches), &strategy).await;
    assert_eq!(&*harness.model.requests.lock().unwrap()[0].system, "The shorter the better.");
}

#[tokio::test(start_paused = true)]
async fn undecided_judge_falls_back_to_the_first_with_a_reason() {
    let overflow = || Reply::Fails(vec![], ProviderError::ContextOverflow { message: "too long".into() });
    for (replies, why) in [
        (vec![says("all of them")], "its reply does not name an answer"),
        (vec![says("3")], "its reply does not name an answer"),
        (vec![calls(&[("look", json!({}))])], "it reached its limit of 1 turn"),
        (vec![fails()], "it failed: "),
        (vec![overflow(), says("2")], "it failed: context window of `m` exceeded: too long"),
    ] {
        let mut world = World::new();
        let long = "three".repeat(1_000);
        let branches = [branch(vec![fails()]), branch(vec![says("two")]), branch(vec![says(&long)])];
        let harness = branch(replies);
        let outcome = world.run("go", &configs(&branches), &judge(&harness)).await;
        assert_eq!((outcome.chosen, outcome.outcome.text().as_str()), (Some(1), "two"), "{why}");
        let note = world.group_end().1.unwrap();
        let expected = format!("the judge did not decide: {why}");
        assert!(note.starts_with(&expected) && note.ends_with("; chose the first candidate"), "{note}");
    }
}

#[tokio::test(start_paused = true)]
async fn aborted_judge_falls_back_to_the_first_candidate() {
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
    assert_eq!(note.as_deref(), Some("the judge did not decide: it was aborted; chose the first candidate"));
}

#[tokio::test]
async fn long_answers_are_shortened_only_for_the_judge() {
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
async fn answers_too_long_for_the_judge_are_reported() {
    let mut world = World::new();
    let branches = [branch(vec![says("one")]), branch(vec![says("two")])];
    let harness = branch(vec![says("2")]);
    let mut strategy = judge(&harness);
    strategy.config.policy.model.context_window = Some(100);
    let outcome = world.run("go", &configs(&branches), &strategy).await;
    assert_eq!((outcome.chosen, harness.requests()), (Some(0), 0));
    let note = world.group_end().1.unwrap();
    let expected = "the answers do not fit into the judge's context window, even when shortened";
    assert_eq!(note, format!("{expected}; chose the first candidate"));
}
