//! Compactions of any history, by the path that a run takes.

use super::{Compaction, CompactionError, Compactor};
use crate::testing::{Reply, ScriptedModel, assert_paired, says};
use crate::{
    CompactionPolicy, CompactionStrategy, Context, EventWatchers, LongHistory, LoopConfig, NoTools, Replacement,
};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use pinion_protocol::compaction::shrink::{MIN_TOKENS, listing};
use pinion_protocol::compaction::{CompactionRecord, SUMMARY_FRAME};
use pinion_protocol::content::{Content, Image, Thinking, ToolCall};
use pinion_protocol::event::CompactionReason;
use pinion_protocol::message::{AssistantMessage, Message, StopReason, ToolResultMessage, UserMessage};
use pinion_protocol::provider::Model;
use pinion_protocol::provider::ProviderError;
use pinion_protocol::tokens::{ByteCounter, ContextTracker, TokenCounter, messages_tokens};
use pinion_protocol::usage::Usage;
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Counts letters, so that short texts count too.
struct Letters;

impl TokenCounter for Letters {
    fn count(&self, text: &str) -> u64 {
        text.chars().count() as u64
    }
}

/// An action of a user, or of a model with its tools.
#[derive(Debug, Clone)]
enum Step {
    User(String),
    Reply(String, Vec<(String, bool)>),
    Image(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let text = prop_oneof![4 => "[ -~äß→]{0,80}", 1 => "[a-z\n]{400,4000}"];
    let results = prop::collection::vec((text.clone(), any::<bool>()), 0..5);
    prop_oneof![
        2 => text.clone().prop_map(Step::User),
        6 => (text, results).prop_map(|(text, results)| Step::Reply(text, results)),
        1 => (0_usize..2_000_000).prop_map(Step::Image),
    ]
}

fn history(steps: Vec<Step>) -> Vec<Arc<Message>> {
    let mut messages = Vec::new();
    let timestamp = Timestamp::UNIX_EPOCH;
    for (n, step) in steps.into_iter().enumerate() {
        match step {
            Step::User(text) => messages.push(Message::user(text)),
            Step::Image(bytes) => {
                let image = Content::Image(Image { media_type: "image/png".into(), data: vec![0; bytes] });
                messages.push(Message::User(UserMessage { content: vec![image], label: None, timestamp }));
            }
            Step::Reply(text, results) => {
                let mut content = vec![
                    Content::Thinking(Thinking { text: text.clone(), ..Thinking::default() }),
                    Content::text(text),
                ];
                let call = |i: usize, text: &str| ToolCall::new(format!("{n}.{i}"), "read", json!({ "path": text }));
                content.extend(results.iter().enumerate().map(|(i, (text, _))| Content::ToolCall(call(i, text))));
                messages.push(Message::Assistant(AssistantMessage {
                    content,
                    stop_reason: StopReason::ToolUse,
                    provider: "p".into(),
                    model: "m".into(),
                    requested_model: None,
                    usage: Usage::default(),
                    cost: None,
                    error: None,
                    timestamp,
                }));
                messages.extend(results.into_iter().enumerate().map(|(i, (text, is_error))| {
                    Message::ToolResult(ToolResultMessage {
                        call_id: format!("{n}.{i}"),
                        tool_name: "read".into(),
                        content: vec![Content::text(text)],
                        details: None,
                        is_error,
                        child_run_id: None,
                        timestamp,
                    })
                }));
            }
        }
    }
    messages.into_iter().map(Arc::new).collect()
}

/// Compacts a history with a model of this window. The replies write the summaries.
struct Making {
    messages: Vec<Arc<Message>>,
    window: Option<u64>,
    policy: CompactionPolicy,
    counter: Arc<dyn TokenCounter>,
    replies: Vec<Reply>,
    strategy: Option<Arc<dyn CompactionStrategy>>,
}

/// A history after an attempt to compact it.
struct Made {
    messages: Vec<Arc<Message>>,
    result: Result<Compaction, CompactionError>,
    /// Estimated tokens of the messages of each request for a summary.
    requests: Vec<u64>,
    /// Estimated tokens of the system prompt and of the messages.
    tokens: u64,
}

impl Making {
    fn from_messages(messages: Vec<Arc<Message>>, window: u64, policy: CompactionPolicy) -> Self {
        let (counter, replies) = (Arc::new(ByteCounter::DEFAULT), Vec::new());
        Self { messages, window: Some(window), policy, counter, replies, strategy: None }
    }

    fn make(self, reason: CompactionReason) -> Made {
        let model = Arc::new(ScriptedModel::with(self.replies));
        let info = Model { context_window: self.window, ..Model::default() };
        let mut config = LoopConfig::new(model.clone(), info, Arc::new(NoTools));
        (config.policy.compaction, config.ports.compaction) = (self.policy, self.strategy);
        config.ports.counter = self.counter.clone();
        let mut context = Context { messages: self.messages, ..Context::new("system", "s") };
        let mut tracker = ContextTracker::new(self.counter.clone());
        tracker.restart(self.counter.count("system"), &context.messages);
        let (events, token) = (EventWatchers::default(), CancellationToken::new());
        let compactor = Compactor { context: &mut context, config: &config, events: &events, token: &token };
        // Nothing in it waits: the model answers at once.
        let result = compactor.make_room(reason, &tracker).now_or_never().unwrap();
        let tokens = messages_tokens(&context.messages, &*self.counter);
        let requests = model.requests.lock().unwrap();
        let requests = requests.iter().map(|request| messages_tokens(&request.messages, &*self.counter)).collect();
        Made { messages: context.messages, result, requests, tokens }
    }
}

/// A sample, or all when the tests are built with `PINION_LONG=1`.
const CASES: u32 = if option_env!("PINION_LONG").is_some() { 10_000 } else { 1_000 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn any_history_fits_any_budget_and_every_call_keeps_its_result(
        steps in prop::collection::vec(step(), 0..24),
        threshold in prop_oneof![0_u64..400, 0_u64..20_000],
        (keep_first, keep_recent) in (0_usize..4, 0_usize..12),
        (tool_output_max_lines, tool_output_max_bytes) in (0_usize..60, 0_usize..3_000),
        counts_letters in any::<bool>(),
        summary in prop_oneof![Just(None), "[ -~äß→]{1,80}".prop_map(Some), "[a-z\n]{4000,40000}".prop_map(Some)],
        reason in prop_oneof![Just(CompactionReason::Threshold), Just(CompactionReason::Overflow)],
    ) {
        let messages = history(steps);
        let counter: Arc<dyn TokenCounter> = if counts_letters { Arc::new(Letters) } else { Arc::new(ByteCounter::DEFAULT) };
        let policy = CompactionPolicy {
            reserve: 0, target: 1.0, keep_first, keep_recent, tool_output_max_lines, tool_output_max_bytes,
            ..CompactionPolicy::default()
        };
        let replies = match &summary {
            Some(text) => vec![says(text)],
            None => vec![Reply::Fails(vec![], ProviderError::Malformed { message: String::new() })],
        };
        let before = messages_tokens(&messages, &*counter);
        // Letters count four times as much, the frame's too.
        let least = if counts_letters { 5 * MIN_TOKENS } else { MIN_TOKENS };
        let threshold = threshold.max(least + counter.count("system"));
        let making = Making { messages: messages.clone(), window: Some(threshold), policy, counter, replies, strategy: None };
        let counter = making.counter.clone();
        let made = making.make(reason);
        let room = threshold - counter.count("system");
        let room_for_requests = room;
        let room = match reason {
            CompactionReason::Overflow => room.min(before / 2).max(least),
            _ => room,
        };
        assert_paired(&made.messages);
        let instruction = messages_tokens(&[Arc::new(Message::user(super::summary::INSTRUCTION))], &*counter);
        prop_assert!(made.requests.len() <= 1);
        for tokens in made.requests {
            prop_assert!(tokens <= room_for_requests.max(least + instruction), "{tokens} tokens in {room_for_requests}");
        }
        match made.result {
            Ok(compaction) => {
                prop_assert!(made.tokens <= room, "{} tokens in {room}", made.tokens);
                prop_assert!(made.tokens <= before || before <= least);
                prop_assert!(made.messages.len() <= messages.len() + 1);
                prop_assert_eq!(compaction.after, made.tokens);
            }
            Err(CompactionError::Nothing) => {
                prop_assert!(before <= room || messages.len() < 2);
                prop_assert_eq!(&made.messages, &messages);
            }
            Err(other) => prop_assert!(false, "{other:?}"),
        }
    }
}

fn policy() -> CompactionPolicy {
    CompactionPolicy {
        reserve: 0,
        target: 1.0,
        keep_recent: 2,
        tool_output_max_bytes: 100,
        by_model: false,
        ..CompactionPolicy::default()
    }
}

/// A task, and three calls whose results have 2,000 bytes, the second of them an error.
fn long_work() -> Vec<Arc<Message>> {
    let work = |n: usize| Step::Reply(format!("step {n}"), vec![("x".repeat(2_000), n == 1)]);
    history(vec![Step::User("the task".into()), work(0), work(1), work(2)])
}

/// Tokens of the system prompt of [`Making`].
const SYSTEM: u64 = 2;

/// Leaves out the arguments of calls, so that only results are long.
fn without_arguments(mut messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    for message in &mut messages {
        if let Message::Assistant(reply) = Arc::make_mut(message) {
            let calls = reply.content.iter_mut().filter_map(|part| match part {
                Content::ToolCall(call) => Some(call),
                _ => None,
            });
            calls.for_each(|call| call.arguments = json!({}));
        }
    }
    messages
}

fn says_now(text: &str) -> Message {
    let Message::Assistant(reply) = (*history(vec![Step::Reply(text.into(), vec![])])[0]).clone() else { panic!() };
    Message::Assistant(reply)
}

fn text(message: &Message) -> String {
    let content = match message {
        Message::User(message) => &message.content,
        Message::Assistant(message) => &message.content,
        Message::ToolResult(message) => &message.content,
        Message::Extension(_) => return String::new(),
    };
    content.iter().filter_map(Content::as_text).collect()
}

#[test]
fn history_that_fits_exactly_is_left_alone_and_one_token_less_is_not() {
    let messages = long_work();
    let tokens = messages_tokens(&messages, &ByteCounter::DEFAULT);
    let made = Making::from_messages(messages.clone(), SYSTEM + tokens, policy()).make(CompactionReason::Threshold);
    assert!(matches!(made.result, Err(CompactionError::Nothing)));
    assert_eq!(made.messages, messages);
    let made = Making::from_messages(messages, SYSTEM + tokens - 1, policy()).make(CompactionReason::Threshold);
    assert!(made.result.is_ok() && made.tokens < tokens);
}

#[test]
fn old_results_are_cut_while_that_is_enough_and_then_turns_are_dropped() {
    let messages = long_work();
    let made = Making::from_messages(messages.clone(), 2_200, policy()).make(CompactionReason::Threshold);
    let lengths: Vec<usize> = made.messages.iter().map(|message| text(message).len()).collect();
    assert_eq!(made.messages.len(), messages.len());
    assert!(lengths[2] < 200 && lengths[4] < 200 && lengths[6] == 2_000, "{lengths:?}");
    // Exactly the size of this is enough; with one token less, turns are dropped.
    let most = SYSTEM + made.tokens;
    assert_eq!(
        Making::from_messages(messages.clone(), most, policy()).make(CompactionReason::Threshold).messages,
        made.messages
    );
    let made = Making::from_messages(messages, most - 1, policy()).make(CompactionReason::Threshold);
    assert!(made.result.unwrap().dropped > 0);
}

#[test]
fn first_messages_stay_with_results_and_recent_ones_after_the_summary() {
    let made = Making::from_messages(without_arguments(long_work()), 600, policy()).make(CompactionReason::Threshold);
    let compaction = made.result.unwrap();
    assert_eq!((compaction.first, compaction.dropped, made.messages.len()), (3, 2, 6));
    assert_eq!((text(&made.messages[0]).as_str(), text(&made.messages[1]).as_str()), ("the task", "step 0"));
    assert!(text(&made.messages[2]).contains("1900 bytes were left out"), "results of the first calls are cut");
    let summary = text(&made.messages[3]);
    assert!(summary.starts_with(SUMMARY_FRAME));
    let lines: Vec<&str> = summary[SUMMARY_FRAME.len()..].lines().collect();
    assert_eq!(lines[0], "The model: step 1");
    assert!(lines.iter().any(|line| line.starts_with("That failed: xxx")));
    assert!(matches!(*made.messages[4], Message::Assistant(_)) && matches!(*made.messages[5], Message::ToolResult(_)));
    assert_paired(&made.messages);
}

#[test]
fn task_stays_alone_where_the_first_reply_has_too_many_results() {
    let results = (0..40).map(|_| ("x".repeat(2_000), false)).collect();
    let mut steps = vec![Step::User("the task".into()), Step::Reply("step".into(), results)];
    steps.extend((0..3).map(|n| Step::Reply(format!("then {n}"), vec![("x".repeat(2_000), false)])));
    let made = Making::from_messages(history(steps), 1_300, policy()).make(CompactionReason::Threshold);
    assert_eq!(made.result.unwrap().first, 1);
    assert_eq!(text(&made.messages[0]), "the task");
    assert!(text(&made.messages[1]).starts_with(SUMMARY_FRAME));
}

#[test]
fn old_results_are_cut_to_lines_before_they_are_cut_to_bytes() {
    let log: String = (0..200).map(|n| format!("{n} {}\n", "x".repeat(100))).collect();
    let work = |text: &String| Step::Reply("step".into(), vec![(text.clone(), false)]);
    let steps = vec![Step::User("the task".into()), work(&log), work(&"y".repeat(20_000))];
    let mut messages = without_arguments(history(steps));
    messages.extend((0..5).flat_map(|n| [Message::user(format!("{n}")), says_now("yes")]).map(Arc::new));
    let policy = CompactionPolicy { keep_recent: 10, reserve: 0, ..CompactionPolicy::default() };
    let made = Making::from_messages(messages, 10_010, policy).make(CompactionReason::Threshold);
    let cut = text(&made.messages[2]);
    assert_eq!((made.result.unwrap().dropped, cut.lines().count()), (0, 50));
    assert!(cut.contains("\n[... 151 lines truncated ...]\n") && cut.ends_with(&"x\n"), "{cut}");
    assert!(text(&made.messages[4]).contains("[… 11808 bytes were left out …]"));
}

#[test]
fn record_without_a_number_of_lines_cuts_only_bytes() {
    let record: CompactionRecord =
        serde_json::from_value(json!({"summary": "", "kept": 3, "cut": {"bytes": 900, "spared": 0}})).unwrap();
    let text_of_result = "x\n".repeat(400);
    let messages =
        history(vec![Step::User("go".into()), Step::Reply("ok".into(), vec![(text_of_result.clone(), false)])]);
    assert_eq!(text(&record.apply(&messages, Timestamp::UNIX_EPOCH)[2]), text_of_result);
}

#[test]
fn request_that_is_worked_on_survives_two_compactions_in_the_users_words() {
    let mut steps = vec![Step::User("first task".into()), Step::Reply("done".into(), vec![])];
    steps.push(Step::User("now: rename `a` to `b`".into()));
    steps.extend((0..6).map(|n| Step::Reply(format!("step {n}"), vec![("x".repeat(2_000), false)])));
    let mut messages = history(steps);
    for _ in 0..2 {
        let made = Making::from_messages(messages, 1_300, policy()).make(CompactionReason::Threshold);
        assert_eq!((text(&made.messages[0]).as_str(), text(&made.messages[1]).as_str()), ("first task", "done"));
        let summary = text(&made.messages[2]);
        assert!(summary.ends_with("in the user's words:]\n\nnow: rename `a` to `b`"), "{summary}");
        assert_eq!(summary.matches("in the user's words").count(), 1);
        messages = made.messages;
        messages.extend(long_work().split_off(1));
    }
}

#[test]
fn one_huge_result_among_few_messages_is_cut() {
    let work = Step::Reply("step".into(), vec![("x".repeat(40_000), false)]);
    let mut messages = history(vec![Step::User("the task".into()), work]);
    let call = Content::ToolCall(ToolCall::new("1.0", "read", json!({})));
    let Message::Assistant(reply) = Arc::make_mut(&mut messages[1]) else { panic!("no reply") };
    reply.content = vec![call];
    let policy = CompactionPolicy { keep_recent: 10, ..policy() };
    let made = Making::from_messages(messages, 1_000, policy).make(CompactionReason::Threshold);
    assert_eq!((made.result.unwrap().dropped, made.messages.len()), (0, 3));
    assert!(text(&made.messages[2]).len() < 200);
}

#[test]
fn nothing_is_compacted_when_the_system_prompt_alone_is_too_long() {
    let made = Making::from_messages(long_work(), SYSTEM, policy()).make(CompactionReason::Threshold);
    assert!(matches!(made.result, Err(CompactionError::Nothing)));
}

#[test]
fn prompt_alone_is_never_compacted() {
    let messages = history(vec![Step::User("x".repeat(40_000))]);
    let made = Making::from_messages(messages, 1_000, policy()).make(CompactionReason::Overflow);
    assert!(matches!(made.result, Err(CompactionError::Nothing)));
}

#[test]
fn request_for_a_summary_fits_the_window_after_a_batch_of_long_results() {
    let results = (0..5).map(|_| ("word ".repeat(10_000), false)).collect();
    let mut steps: Vec<Step> = (0..4).map(|n| Step::Reply(format!("step {n}"), vec![])).collect();
    steps.insert(0, Step::User("the task".into()));
    steps.push(Step::Reply("read five files".into(), results));
    let mut making =
        Making::from_messages(history(steps), 40_000, CompactionPolicy { target: 0.1, ..Default::default() });
    making.replies = vec![says("The files are long.")];
    let made = making.make(CompactionReason::Threshold);
    let compaction = made.result.unwrap();
    assert!(compaction.before > 40_000 && compaction.summary.starts_with("The files are long."), "{compaction:?}");
    assert!(made.requests.len() == 1 && made.requests[0] < 30_000, "{:?}", made.requests);
}

#[test]
fn summary_of_a_summary_has_one_frame() {
    let record = CompactionRecord { summary: "so far".into(), ..CompactionRecord::default() };
    let seen = record.apply(&[], Timestamp::UNIX_EPOCH);
    assert_eq!(listing(&seen), "The user: so far\n");
}

/// Keeps three messages at each end.
struct Ends;

impl CompactionStrategy for Ends {
    fn replace<'a>(&'a self, history: LongHistory<'a>) -> BoxFuture<'a, Option<Replacement>> {
        let summary = format!("{} messages in {} tokens", history.messages.len(), history.tokens);
        Box::pin(async { Some(Replacement { first: 3, summary, recent: 3, ..Replacement::default() }) })
    }
}

#[test]
fn strategy_of_an_application_replaces_the_history_at_boundaries_of_calls() {
    let mut making = Making::from_messages(long_work(), 2_300, policy());
    making.strategy = Some(Arc::new(Ends));
    let made = making.make(CompactionReason::Threshold);
    let compaction = made.result.unwrap();
    assert_paired(&made.messages);
    // The third message from the end is a result, whose call is not kept.
    assert_eq!((compaction.first, compaction.dropped, made.messages.len()), (3, 2, 6));
    assert_eq!(compaction.summary, "7 messages in 2298 tokens");
}

#[test]
fn strategy_that_keeps_too_much_gives_way_to_the_built_in_one() {
    let mut making = Making::from_messages(long_work(), 600, policy());
    making.strategy = Some(Arc::new(Ends));
    let made = making.make(CompactionReason::Threshold);
    assert!(made.result.is_ok() && made.tokens <= 600 - SYSTEM);
}

#[test]
fn earlier_summary_is_not_kept_as_the_first_message() {
    use pinion_protocol::compaction::shrink::Retained;
    let before: Vec<Arc<Message>> = ["go", "on", "and on"].map(|text| Arc::new(Message::user(text))).into();
    let record = CompactionRecord { summary: "what was said".into(), kept: 1, ..CompactionRecord::default() };
    let summarized = record.apply(&before, Timestamp::UNIX_EPOCH);
    assert_eq!(Retained::from_messages(&before, 1, 1).first, 1);
    assert_eq!(Retained::from_messages(&summarized, 1, 1).first, 0);
}
