//! Questions about hosts that programs were refused.
//!
//! A program that was refused a host has failed before the refusal is known. So the model makes the same call again,
//! and the question about this call names the hosts: a yes allows them for the session, before the call runs. The user
//! is asked about each host once. Without a user, a hint in the result has to do.

use crate::approve::audit::Audit;
use crate::process::network::ProgramNetwork;
use futures_util::future::BoxFuture;
use pinion_agent::Content;
use pinion_agent::content::ToolCall;
use pinion_agent::hooks::{HookVerdict, Hooks};
use pinion_agent::message::ToolResultMessage;
use pinion_egress::HostRule;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Calls that are remembered.
const MAX_CALLS: usize = 16;

/// Asks the user about hosts that programs of a call were refused, before the same call runs again.
pub(crate) struct NetQuestion {
    network: Arc<ProgramNetwork>,
    audit: Arc<Audit>,
    state: Mutex<NetQuestionState>,
}

#[derive(Default)]
struct NetQuestionState {
    /// Calls with the hosts that they missed, the oldest first.
    missed: VecDeque<(ToolCall, Vec<HostRule>)>,
    /// Hosts that a question was about.
    asked: Vec<HostRule>,
}

impl NetQuestion {
    pub(crate) fn new(network: Arc<ProgramNetwork>, audit: Arc<Audit>) -> Self {
        Self { network, audit, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, NetQuestionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the question before a call, if programs of the same call were refused hosts that the user was not asked
    /// about.
    fn question(&self, call: &ToolCall) -> Option<String> {
        let mut state = self.state();
        let hosts = state.hosts_of(call)?;
        let new: Vec<HostRule> = hosts.iter().filter(|host| !state.asked.contains(host)).cloned().collect();
        if new.is_empty() {
            return None;
        }
        state.asked.extend(new);
        Some(question(&hosts))
    }

    /// Allows the hosts that a call missed, if the user was asked about these.
    fn allow(&self, call: &ToolCall, reason: &str) {
        let Some(hosts) = self.state().hosts_of(call).filter(|hosts| question(hosts) == reason) else { return };
        for host in hosts {
            let text = format!("allow {host}");
            match self.network.allow(host) {
                Ok(()) => self.audit.changed("the network of programs", &text),
                Err(problem) => tracing::warn!(problem, "a host was not allowed"),
            }
        }
    }

    /// Remembers the hosts that programs of a call were refused. Returns a hint for the model.
    fn remember(&self, call: &ToolCall) -> Option<String> {
        let hosts = self.network.take_refused();
        let mut state = self.state();
        if hosts.iter().all(|host| state.asked.contains(host)) {
            return None;
        }
        state.missed.retain(|(missed, _)| !is_same(missed, call));
        if state.missed.len() == MAX_CALLS {
            state.missed.pop_front();
        }
        state.missed.push_back((call.clone(), hosts));
        Some("hint: make the same call again if it needs the host, and the user is asked to allow it".to_owned())
    }
}

impl NetQuestionState {
    fn hosts_of(&self, call: &ToolCall) -> Option<Vec<HostRule>> {
        self.missed.iter().find(|(missed, _)| is_same(missed, call)).map(|(_, hosts)| hosts.clone())
    }
}

fn is_same(one: &ToolCall, other: &ToolCall) -> bool {
    (&one.name, &one.arguments) == (&other.name, &other.arguments)
}

fn question(hosts: &[HostRule]) -> String {
    let named: Vec<String> = hosts.iter().map(|host| format!("`{host}`")).collect();
    format!("programs of this call could not reach {}: yes allows it for the session", named.join(", "))
}

impl Hooks for NetQuestion {
    fn before_tool<'a>(&'a self, call: &'a ToolCall, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        Box::pin(async move { self.question(call).map_or(HookVerdict::Pass, HookVerdict::Ask) })
    }

    fn after_question<'a>(
        &'a self,
        call: &'a ToolCall,
        reason: &'a str,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.allow(call, reason) })
    }

    fn transform_result<'a>(
        &'a self,
        call: &'a ToolCall,
        result: &'a ToolResultMessage,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<ToolResultMessage>> {
        Box::pin(async move {
            let hint = self.remember(call)?;
            let mut result = result.clone();
            result.content.push(Content::text(hint));
            Some(result)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::network::tests::network;
    use pinion_agent::serde_json::json;

    fn call(command: &str) -> ToolCall {
        ToolCall::new("1", "bash", json!({ "command": command }))
    }

    fn questions() -> (tempfile::TempDir, NetQuestion) {
        let directory = tempfile::tempdir().unwrap();
        let audit = Audit::new(directory.path().join("audit.jsonl"), Default::default());
        (directory, NetQuestion::new(Arc::new(network("")), Arc::new(audit)))
    }

    #[test]
    fn same_call_is_asked_about_and_a_yes_allows_the_host() {
        let (directory, questions) = questions();
        let fetch = call("curl crates.io");
        assert_eq!(questions.question(&fetch), None);
        questions.network.was_missed("crates.io");
        questions.network.was_missed("not a host");
        assert!(questions.remember(&fetch).is_some() && questions.remember(&fetch).is_none());
        assert_eq!(questions.question(&call("curl docs.rs")), None);
        let reason = questions.question(&fetch).unwrap();
        assert!(reason.contains("`crates.io`"), "{reason}");
        questions.allow(&fetch, "another reason");
        assert!(questions.network.rules().is_empty());
        questions.allow(&fetch, &reason);
        assert_eq!(questions.network.rules(), ["crates.io".parse().unwrap()]);
        let log = std::fs::read_to_string(directory.path().join("audit.jsonl")).unwrap();
        assert!(log.contains("allow crates.io"), "{log}");
    }

    #[test]
    fn user_is_asked_about_each_host_once() {
        let (_directory, questions) = questions();
        let fetch = call("curl crates.io");
        questions.network.was_missed("crates.io");
        questions.remember(&fetch);
        assert!(questions.question(&fetch).is_some() && questions.question(&fetch).is_none());
        questions.network.was_missed("crates.io");
        assert_eq!(questions.remember(&fetch), None);
        assert_eq!(questions.question(&fetch), None);
        for number in 0..100 {
            questions.network.was_missed(&format!("h{number}.example"));
            questions.remember(&call(&number.to_string()));
        }
        assert_eq!(questions.state().missed.len(), MAX_CALLS);
    }
}
