//! A model that computes its replies.

use futures_util::StreamExt as _;
use pinion_agent::message::StopReason;
use pinion_agent::provider::{EventStream, PartKind, ProviderError, Request, StreamEvent};
use pinion_agent::{Provider, Usage};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// The model's reply: a text, a tool call, or silence until it is cancelled.
pub enum Say {
    /// A text.
    Text(String),
    /// A call of one tool.
    Call(&'static str, Value),
    /// Calls of several tools in one message.
    Calls(Vec<(&'static str, Value)>),
    /// Nothing, until the request is cancelled.
    Nothing,
}

/// A model that computes its reply from the request.
pub struct Thinker<F> {
    think: F,
    offered: Mutex<Vec<Vec<String>>>,
    calls: AtomicUsize,
}

impl<F: Fn(&Request) -> Say + Send + Sync> Thinker<F> {
    /// Creates a model that replies with the result of `think`.
    pub fn new(think: F) -> Arc<Self> {
        Arc::new(Self { think, offered: Mutex::default(), calls: AtomicUsize::new(0) })
    }

    /// Returns the tools offered in each request.
    pub fn offered(&self) -> Vec<Vec<String>> {
        self.offered.lock().unwrap().clone()
    }
}

impl<F: Fn(&Request) -> Say + Send + Sync> Provider for Thinker<F> {
    fn name(&self) -> &str {
        "thinker"
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        self.offered.lock().unwrap().push(request.tools.iter().map(|tool| tool.name.clone()).collect());
        let part = |index, part, delta: String| {
            [
                StreamEvent::PartStart { index, part },
                StreamEvent::Delta { index, delta },
                StreamEvent::PartEnd { index, signature: None },
            ]
        };
        let call = |(index, (name, arguments)): (usize, (&'static str, Value))| {
            let id = format!("call-{}", self.calls.fetch_add(1, Ordering::Relaxed));
            part(index, PartKind::ToolCall { id, name: name.into() }, arguments.to_string())
        };
        let calls = |calls: Vec<_>| calls.into_iter().enumerate().flat_map(call).collect::<Vec<_>>();
        let (parts, stop_reason) = match (self.think)(&request) {
            Say::Text(text) => (part(0, PartKind::Text, text).to_vec(), StopReason::Stop),
            Say::Call(name, arguments) => (calls(vec![(name, arguments)]), StopReason::ToolUse),
            Say::Calls(several) => (calls(several), StopReason::ToolUse),
            Say::Nothing => {
                let cancelled = async move {
                    token.cancelled().await;
                    Err(ProviderError::Cancelled)
                };
                return futures_util::stream::once(cancelled).boxed();
            }
        };
        let mut events = vec![StreamEvent::Start { model: None }];
        events.extend(parts);
        events.push(StreamEvent::Usage(Usage { input: 10, output: 5, ..Usage::default() }));
        events.push(StreamEvent::End { stop_reason });
        futures_util::stream::iter(events.into_iter().map(Ok)).boxed()
    }
}
