//! A model that calls the guest `echo` a fixed number of times and checks its requests, for many concurrent agents and
//! for long runs.

use futures_util::StreamExt as _;
use pinion_agent::limits::RunLimits;
use pinion_agent::message::{StopReason, ToolResultMessage};
use pinion_agent::provider::{EventStream, PartKind, Request, StreamEvent, ToolChoice};
use pinion_agent::tokens::{ByteCounter, TokenCounter as _, messages_tokens};
use pinion_agent::{Agent, Content, Context, LoopConfig, Message, Model, Provider, ToolExecutor, Usage};
use serde_json::json;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Calls `echo` for a fixed number of turns and then ends.
///
/// Panics if a request is wrong: a call without its result, results out of order, or results of other calls.
pub struct EchoModel {
    name: String,
    turns: usize,
    calls: usize,
    turn: AtomicUsize,
    summaries: AtomicUsize,
    most_tokens: AtomicU64,
    sizes: Mutex<Vec<(u64, usize)>>,
}

impl EchoModel {
    /// Creates the model of the agent `name`, with `calls` calls in each of `turns` turns.
    pub fn new(name: impl Into<String>, turns: usize, calls: usize) -> Arc<Self> {
        let (turn, summaries, most_tokens, sizes) = Default::default();
        Arc::new(Self { name: name.into(), turns, calls, turn, summaries, most_tokens, sizes })
    }

    /// Returns a model description whose window, if any, triggers compaction when nearly full.
    pub fn with_window(window: Option<u64>) -> Model {
        Model { name: "echo".into(), context_window: window, ..Model::default() }
    }

    /// Creates an agent without limits that uses this model.
    pub fn agent(self: &Arc<Self>, tools: Arc<dyn ToolExecutor>, change: impl FnOnce(&mut LoopConfig)) -> Agent {
        let mut config = LoopConfig::new(self.clone(), Self::with_window(None), tools);
        config.policy.limits = RunLimits::NONE;
        change(&mut config);
        Agent::new(config, Context::new("You are a test.", self.name.as_str()))
    }

    /// Returns the largest request in tokens, as the loop counts them.
    pub fn most_tokens(&self) -> u64 {
        self.most_tokens.load(Ordering::Relaxed)
    }

    /// Returns the size of each request in order, in tokens and in messages.
    pub fn sizes(&self) -> Vec<(u64, usize)> {
        self.sizes.lock().unwrap().clone()
    }

    /// Returns the number of summaries requested.
    pub fn summaries(&self) -> usize {
        self.summaries.load(Ordering::Relaxed)
    }

    /// Returns the message that this call of this turn sends and receives; some are long.
    pub fn message(&self, turn: usize, call: usize) -> String {
        let length = if turn % 10 == 9 { 2_500 } else { 300 };
        format!("{} {turn}.{call} {}", self.name, "x".repeat(length))
    }

    /// Panics unless these are the complete results of a turn, in the order of its calls.
    pub fn assert_results(&self, turn: usize, results: &[&ToolResultMessage]) {
        self.assert_calls(turn, results);
        results.iter().enumerate().for_each(|(call, result)| assert_eq!(text(result), self.message(turn, call)));
    }

    /// Like [`Self::assert_results`], for results that a compaction may have shortened.
    fn assert_calls(&self, turn: usize, results: &[&ToolResultMessage]) {
        assert_eq!(results.len(), self.calls, "turn {turn} of {}", self.name);
        for (call, result) in results.iter().enumerate() {
            assert_eq!(result.call_id, id(turn, call));
            assert!(!result.is_error, "{}: {:?}", result.call_id, result.content);
            assert!(text(result).starts_with(&format!("{} {turn}.{call} ", self.name)), "{:?}", result.content);
        }
    }

    fn call_events(&self, turn: usize) -> Vec<StreamEvent> {
        let calls = (0..self.calls).flat_map(|index| {
            let arguments = json!({ "message": self.message(turn, index) });
            [
                StreamEvent::PartStart { index, part: PartKind::ToolCall { id: id(turn, index), name: "echo".into() } },
                StreamEvent::Delta { index, delta: arguments.to_string() },
                StreamEvent::PartEnd { index, signature: None },
            ]
        });
        calls.collect()
    }

    /// Returns the model's reply to a request.
    fn reply(&self, request: &Request) -> (Vec<StreamEvent>, StopReason) {
        if request.tool_choice == ToolChoice::None {
            self.summaries.fetch_add(1, Ordering::Relaxed);
            return (
                text_events(format!("{} has come to turn {}.", self.name, self.turn.load(Ordering::Relaxed))),
                StopReason::Stop,
            );
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        if turn > 0 {
            self.assert_calls(turn - 1, &last_results(&request.messages));
        }
        match turn < self.turns {
            true => (self.call_events(turn), StopReason::ToolUse),
            false => (text_events("done".into()), StopReason::Stop),
        }
    }
}

impl Provider for EchoModel {
    fn name(&self) -> &str {
        "test"
    }

    fn stream(&self, request: Request, _: CancellationToken) -> EventStream {
        assert_paired(&request.messages);
        let tokens =
            messages_tokens(&request.messages, &ByteCounter::DEFAULT) + ByteCounter::DEFAULT.count(&request.system);
        self.most_tokens.fetch_max(tokens, Ordering::Relaxed);
        self.sizes.lock().unwrap().push((tokens, request.messages.len()));
        let (parts, stop_reason) = self.reply(&request);
        let usage = StreamEvent::Usage(Usage { input: tokens, ..Usage::default() });
        let events = [StreamEvent::Start { model: None }].into_iter().chain(parts);
        let events = events.chain([usage, StreamEvent::End { stop_reason }]).map(Ok);
        futures_util::stream::iter(events.collect::<Vec<_>>()).boxed()
    }
}

fn id(turn: usize, call: usize) -> String {
    format!("call-{turn}-{call}")
}

fn text_events(delta: String) -> Vec<StreamEvent> {
    vec![
        StreamEvent::PartStart { index: 0, part: PartKind::Text },
        StreamEvent::Delta { index: 0, delta },
        StreamEvent::PartEnd { index: 0, signature: None },
    ]
}

fn text(result: &ToolResultMessage) -> String {
    result.content.iter().filter_map(Content::as_text).collect()
}

/// Returns the results of the last calls of a conversation, in order.
fn last_results(messages: &[Arc<Message>]) -> Vec<&ToolResultMessage> {
    let before_prompt = messages.iter().rev().skip_while(|message| matches!(***message, Message::User(_)));
    let mut results: Vec<_> = before_prompt.map_while(|message| as_result(message)).collect();
    results.reverse();
    results
}

/// Returns the message as a tool result, if it is one.
pub fn as_result(message: &Message) -> Option<&ToolResultMessage> {
    match message {
        Message::ToolResult(result) => Some(result),
        _ => None,
    }
}

/// Panics unless each call is directly followed by its result, in the order of the calls.
pub fn assert_paired(messages: &[Arc<Message>]) {
    let mut open = Vec::new().into_iter();
    for message in messages {
        match &**message {
            Message::ToolResult(result) => assert_eq!(open.next().as_ref(), Some(&result.call_id)),
            Message::Extension(_) => {}
            Message::User(_) => assert_eq!(open.len(), 0, "calls without results"),
            Message::Assistant(reply) => {
                assert_eq!(open.len(), 0, "calls without results");
                open = reply.tool_calls().map(|call| call.id.clone()).collect::<Vec<_>>().into_iter();
            }
        }
    }
    assert_eq!(open.len(), 0, "calls without results");
}
