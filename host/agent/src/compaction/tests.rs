//! Compactions of any history.

use crate::testing::assert_paired;
use jiff::Timestamp;
use pinion_protocol::compaction::policy::CompactionPolicy;
use pinion_protocol::compaction::shrink::{MIN_TOKENS, TokenBudget, cut_results, fit, kept, listing};
use pinion_protocol::compaction::{FRAME, Record};
use pinion_protocol::content::{Content, Image, Thinking, ToolCall};
use pinion_protocol::message::{AssistantMessage, Message, StopReason, ToolResultMessage, UserMessage};
use pinion_protocol::tokens::{ByteCounter, ContextTracker, TokenCounter};
use pinion_protocol::usage::Usage;
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;

/// Counts letters, so that short texts count too.
struct Letters;

impl TokenCounter for Letters {
    fn count(&self, text: &str) -> u64 {
        text.chars().count() as u64
    }
}

fn tracker(counter: impl TokenCounter + 'static) -> ContextTracker {
    ContextTracker::new(Arc::new(counter))
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
                messages.push(Message::User(UserMessage { content: vec![image], timestamp }));
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
                        child_loop_id: None,
                        timestamp,
                    })
                }));
            }
        }
    }
    messages.into_iter().map(Arc::new).collect()
}

/// Returns the history after a compaction without a model.
fn shrunk(messages: &[Arc<Message>], budget: &TokenBudget<'_>, policy: &CompactionPolicy) -> Vec<Arc<Message>> {
    let record = cut_results(messages, budget, policy).unwrap_or_else(|| {
        let kept = kept(messages, budget, policy);
        fit(messages, listing(&messages[..messages.len() - kept.count]), kept, budget)
    });
    record.apply(messages, Timestamp::UNIX_EPOCH)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn any_history_fits_any_budget_and_every_call_keeps_its_result(
        steps in prop::collection::vec(step(), 0..24),
        tokens in prop_oneof![0_u64..400, 0_u64..20_000],
        keep_recent in 0_usize..12,
        result_bytes in 0_usize..3_000,
        counts_letters in any::<bool>(),
    ) {
        let messages = history(steps);
        let tracker = if counts_letters { tracker(Letters) } else { tracker(ByteCounter) };
        // Letters count four times as much, the frame's too.
        let tokens = if counts_letters { tokens.max(4 * MIN_TOKENS) } else { tokens };
        let budget = TokenBudget { tokens, tracker: &tracker };
        let policy = CompactionPolicy { keep_recent, result_bytes, ..CompactionPolicy::default() };
        let seen = shrunk(&messages, &budget, &policy);
        prop_assert!(budget.holds(&seen), "{} tokens in {}", budget.count(&seen), budget.tokens());
        prop_assert!(seen.len() <= messages.len() + 1);
        assert_paired(&seen);
    }
}

fn texts(content: &[Content]) -> String {
    content.iter().filter_map(Content::as_text).collect()
}

fn policy() -> CompactionPolicy {
    CompactionPolicy { keep_recent: 2, result_bytes: 100, ..CompactionPolicy::default() }
}

fn long_work() -> Vec<Arc<Message>> {
    let work = |n: usize| Step::Reply(format!("step {n}"), vec![("x".repeat(2_000), n == 1)]);
    history(vec![Step::User("the task".into()), work(0), work(1), work(2)])
}

#[test]
fn first_old_results_are_cut_and_recent_ones_are_not() {
    let (messages, tracker) = (long_work(), tracker(ByteCounter));
    let budget = TokenBudget { tokens: 2_200, tracker: &tracker };
    let seen = shrunk(&messages, &budget, &policy());
    let lengths: Vec<usize> = seen
        .iter()
        .map(|message| match &**message {
            Message::ToolResult(result) => texts(&result.content).len(),
            _ => 0,
        })
        .collect();
    assert_eq!(seen.len(), messages.len());
    assert!(lengths[2] < 200 && lengths[4] < 200 && lengths[6] == 2_000, "{lengths:?}");
}

#[test]
fn then_old_turns_become_lines_that_begin_with_the_task() {
    let (messages, tracker) = (long_work(), tracker(ByteCounter));
    let budget = TokenBudget { tokens: 1_300, tracker: &tracker };
    let seen = shrunk(&messages, &budget, &policy());
    assert_eq!(seen.len(), 3);
    let Message::User(summary) = &*seen[0] else { panic!("no summary") };
    let summary = texts(&summary.content);
    assert!(summary.starts_with(FRAME));
    let lines: Vec<&str> = summary[FRAME.len()..].lines().collect();
    assert_eq!(lines[..2], ["The user: the task", "The model: step 0"]);
    assert!(lines.iter().any(|line| line.starts_with("That failed: xxx")));
    assert!(matches!(*seen[1], Message::Assistant(_)) && matches!(*seen[2], Message::ToolResult(_)));
}

#[test]
fn a_summary_of_a_summary_has_one_frame() {
    let record = Record { summary: "so far".into(), kept: 0, cut: None };
    let seen = record.apply(&[], Timestamp::UNIX_EPOCH);
    assert_eq!(listing(&seen), "The user: so far\n");
}
