//! The account of a tool call.

use super::RecordType;
use pinion_protocol::{Display, EventKind, Ledger};
use serde::{Deserialize, Serialize};

/// The ledger of a tool call: the resources that it used, and how to display its result. The entry is next to the
/// result's entry, before or after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLedger {
    /// The run that made the call.
    pub run_id: String,
    /// The id of the call.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The resources that the call used.
    pub ledger: Ledger,
    /// Format that a UI uses to display the result.
    #[serde(default, skip_serializing_if = "is_plain")]
    pub display: Display,
}

fn is_plain(display: &Display) -> bool {
    *display == Display::Plain
}

impl RecordType for CallLedger {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::ToolExecutionEnd { call_id, tool, ledger: Some(ledger), display, .. } = event else {
            return None;
        };
        Some(Self {
            run_id: run_id.to_owned(),
            call_id: call_id.clone(),
            tool: tool.clone(),
            ledger: ledger.clone(),
            display: display.clone(),
        })
    }

    fn describe(&self) -> String {
        format!("Call {} of {} used {}", self.call_id, self.tool, self.ledger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_names_the_call_and_its_ledger() {
        let ledger = Ledger {
            plugin: "fs".into(),
            generation: 2,
            fuel: 61_300,
            time_us: 1_204,
            memory: 1_114_112,
            host_calls: 1,
            files: 2,
            bytes_read: 512,
            ..Ledger::default()
        };
        let record = CallLedger {
            run_id: "s.c.1".into(),
            call_id: "c1".into(),
            tool: "read".into(),
            ledger,
            display: Display::Plain,
        };
        let expected = "fs #2 · 1.20 ms · 61.3 k fuel · 1.1 MiB memory · 1 host call · 2 files · 512 B read";
        assert_eq!(record.describe(), format!("Call c1 of read used {expected}"));
    }
}
