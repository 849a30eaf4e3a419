//! Events of runs for the hooks of plugins.

use super::Secrets;
use pinion_protocol::event::{Event, EventKind};
use pinion_protocol::hook::{HookPoint, PluginHooks};
use std::sync::Arc;

/// Passes an event without secrets to the hooks of plugins, if one of them observes the session.
pub fn report_to_hooks(hooks: &dyn PluginHooks, run_id: &Arc<str>, kind: &EventKind, secrets: &Secrets) {
    if hooks.wants(HookPoint::SessionEvents)
        && let Some(event) = session_event(run_id, kind, secrets)
    {
        hooks.observe(event);
    }
}

/// Returns an event as hooks get it, without secrets: a line of `--output-format stream-json`. `None` for events that are
/// neither the start nor the end of a run, turn, message or tool call.
fn session_event(run_id: &Arc<str>, kind: &EventKind, secrets: &Secrets) -> Option<String> {
    let is_end_of_run = match kind {
        EventKind::AgentEnd { .. } => true,
        EventKind::AgentStart { .. }
        | EventKind::TurnStart { .. }
        | EventKind::TurnEnd { .. }
        | EventKind::MessageStart { .. }
        | EventKind::MessageEnd { .. }
        | EventKind::ToolExecutionStart { .. }
        | EventKind::ToolExecutionEnd { .. } => false,
        _ => return None,
    };
    let mut event = serde_json::to_value(Event { run_id: run_id.clone(), kind: kind.clone() }).ok()?;
    if let (true, Some(fields)) = (is_end_of_run, event.as_object_mut()) {
        // They came one by one.
        fields.remove("messages");
    }
    Some(secrets.clean_json(event).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_protocol::event::Role;

    #[test]
    fn deltas_are_no_session_events() {
        let id: Arc<str> = "l".into();
        let event = |kind| session_event(&id, &kind, &Secrets::default());
        let started = event(EventKind::MessageStart { role: Role::User }).unwrap();
        assert_eq!(started, r#"{"run_id":"l","type":"message_start","role":"user"}"#);
        assert_eq!(event(EventKind::Progress { call_id: "c".into(), text: "t".into() }), None);
    }
}
