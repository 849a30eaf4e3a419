//! Hooks that write down when they are called, and answer or panic as a test says.

use crate::*;
use futures_util::future::BoxFuture;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Writes down every hook that is called, between the events.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) lines: Mutex<Vec<String>>,
    pub(super) deny_turn: Option<u32>,
    pub(super) deny_tool: Option<&'static str>,
    pub(super) stop_after_turn: bool,
    /// The hook that panics.
    pub(super) panics_in: Option<&'static str>,
}

impl Notes {
    fn note(&self, line: impl Into<String>) {
        let line = line.into();
        assert_ne!(self.panics_in, Some(line.as_str()), "the hook is broken");
        self.lines.lock().unwrap().push(line);
    }
}

impl Hooks for Notes {
    fn before_run<'a>(&'a self, _: &'a Context, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        self.note("before_run");
        Box::pin(async { HookVerdict::Pass })
    }

    fn before_turn<'a>(&'a self, _: &'a Context, turn: u32, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        Box::pin(async move {
            self.note("before_turn");
            if self.deny_turn == Some(turn) { HookVerdict::Deny("not this turn".into()) } else { HookVerdict::Pass }
        })
    }

    fn transform_context<'a>(
        &'a self,
        messages: Vec<Arc<Message>>,
        _: bool,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Vec<Arc<Message>>> {
        Box::pin(async {
            self.note("transform_context");
            messages
        })
    }

    fn convert_to_llm(&self, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        self.note("convert_to_llm");
        messages
    }

    fn api_key<'a>(&'a self, _: &'a CancellationToken) -> BoxFuture<'a, Option<secrecy::SecretString>> {
        self.note("api_key");
        Box::pin(async { Some("of-the-moment".into()) })
    }

    fn before_tool<'a>(&'a self, call: &'a ToolCall, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        Box::pin(async {
            self.note("before_tool");
            if self.deny_tool == Some(&call.name) {
                HookVerdict::Deny("not this tool".into())
            } else {
                HookVerdict::Pass
            }
        })
    }

    fn before_update(&self, _: &str, partial: &[Content]) -> bool {
        self.note("before_update");
        partial[0].as_text() != Some("secret")
    }

    fn after_update(&self, _: &str) {
        self.note("after_update");
    }

    fn transform_result<'a>(
        &'a self,
        _: &'a ToolCall,
        _: &'a ToolResultMessage,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<ToolResultMessage>> {
        self.note("transform_result");
        Box::pin(async { None })
    }

    fn after_tool<'a>(
        &'a self,
        _: &'a ToolCall,
        _: &'a ToolResultMessage,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async { self.note("after_tool") })
    }

    fn after_turn<'a>(&'a self, _: &'a Context, _: &'a Usage, _: &'a CancellationToken) -> BoxFuture<'a, Flow> {
        self.note("after_turn");
        let flow = if self.stop_after_turn { Flow::Stop } else { Flow::Continue };
        Box::pin(async move { flow })
    }

    fn on_error<'a>(&'a self, _: &'a RunError, _: &'a CancellationToken) -> BoxFuture<'a, ()> {
        self.note("on_error");
        Box::pin(async {})
    }

    fn after_run<'a>(&'a self, _: &'a Outcome, _: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(async { self.note("after_run") })
    }
}

impl SessionStore for Notes {
    fn append(&self, _: &Arc<Message>) -> Result<(), StoreError> {
        Ok(())
    }

    fn observe(&self, _: &Arc<str>, event: &EventKind) {
        let name = serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned();
        if !name.starts_with("message") {
            self.note(format!("[{name}]"));
        }
    }
}
