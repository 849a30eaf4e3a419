//! The call of a plugin's hook.

use super::{RecordType, cut};
use pinion_protocol::{EventKind, HookAnswer, HookCall};
use serde::{Deserialize, Serialize};

/// The call of a hook: its answer, and the resources that it used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalledHook {
    /// The run that called it.
    pub run_id: String,
    /// The id of the tool call, for hooks before and after one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The call; its text is cut to [`Record::MAX_TEXT`](super::Record::MAX_TEXT).
    #[serde(flatten)]
    pub hook: HookCall,
}

impl RecordType for CalledHook {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::Hook { call_id, hook } = event else { return None };
        let hook = HookCall { text: cut(&hook.text), ..hook.clone() };
        Some(Self { run_id: run_id.to_owned(), call_id: call_id.clone(), hook })
    }

    fn into_event(self) -> Option<EventKind> {
        Some(EventKind::Hook { call_id: self.call_id, hook: self.hook })
    }

    fn describe(&self) -> String {
        let HookCall { point, plugin, answer, text, ledger } = &self.hook;
        let answer = match answer {
            HookAnswer::Proceeded => "changed nothing",
            HookAnswer::Denied => "denied the call",
            HookAnswer::Asked => "asked the user to decide",
            HookAnswer::Rewrote => "rewrote the arguments",
            HookAnswer::Revised => "revised the result",
            HookAnswer::Warned => "warned",
            HookAnswer::Rejected => "rejected the prompt",
            HookAnswer::Added => "added text",
            HookAnswer::Continued => "made the run continue",
            HookAnswer::Failed => "failed",
            _ => "answered",
        };
        let text = if text.is_empty() { String::new() } else { format!(": {text}") };
        let used = ledger.as_ref().map(|ledger| format!(" ({ledger})")).unwrap_or_default();
        format!("The hook {point} of {plugin} {answer}{text}{used}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_protocol::HookPoint;

    #[test]
    fn description_names_plugin_point_and_answer() {
        let hook = HookCall {
            point: HookPoint::BeforeToolCall,
            plugin: "careful".into(),
            answer: HookAnswer::Denied,
            text: "no pushes".into(),
            ledger: None,
        };
        let event = EventKind::Hook { call_id: Some("c1".into()), hook };
        let record = CalledHook::from_event("l", &event).unwrap();
        assert_eq!(record.describe(), "The hook before-tool-call of careful denied the call: no pushes");
        let read: CalledHook = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record);
    }
}
