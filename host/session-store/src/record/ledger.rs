//! The account of a tool call.

use super::RecordType;
use pinion_protocol::{EventKind, Ledger};
use serde::{Deserialize, Serialize};

/// The ledger of a tool call: the resources that it used. The entry comes before the result of the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLedger {
    /// The run that made the call.
    pub loop_id: String,
    /// The id of the call.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The resources that the call used.
    pub ledger: Ledger,
}

impl CallLedger {
    /// Describes the ledger on one line: plugin, time and fuel always, the rest where it is not zero.
    pub(crate) fn account(&self) -> String {
        let Ledger { plugin, generation, fuel, time_us, memory, host_calls, .. } = &self.ledger;
        let mut parts = vec![
            format!("{plugin} #{generation}"),
            format!("{:.2} ms", *time_us as f64 / 1e3),
            format!("{} fuel", short(*fuel)),
            format!("{} memory", bytes(*memory)),
            count(*host_calls, "host call"),
        ];
        let Ledger { files, bytes_read, bytes_written, processes, agents, output, .. } = &self.ledger;
        let further = [
            (*files, count(*files, "file")),
            (*bytes_read, format!("{} read", bytes(*bytes_read))),
            (*bytes_written, format!("{} written", bytes(*bytes_written))),
            (*processes, count(*processes, "program")),
            (*agents, count(*agents, "sub-agent")),
            (*output, format!("{} out", bytes(*output))),
        ];
        parts.extend(further.into_iter().filter(|(amount, _)| *amount > 0).map(|(_, text)| text));
        parts.join(" · ")
    }
}

impl RecordType for CallLedger {
    fn from_event(loop_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::ToolExecutionEnd { call_id, tool, ledger: Some(ledger), .. } = event else { return None };
        Some(Self { loop_id: loop_id.to_owned(), call_id: call_id.clone(), tool: tool.clone(), ledger: ledger.clone() })
    }

    fn describe(&self) -> String {
        format!("Call {} of {} used {}", self.call_id, self.tool, self.account())
    }
}

fn count(amount: u64, what: &str) -> String {
    format!("{amount} {what}{}", if amount == 1 { "" } else { "s" })
}

fn short(amount: u64) -> String {
    match amount {
        0..1_000 => amount.to_string(),
        1_000..1_000_000 => format!("{:.1} k", amount as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", amount as f64 / 1e6),
        _ => format!("{:.1} G", amount as f64 / 1e9),
    }
}

fn bytes(amount: u64) -> String {
    match amount {
        0..1_024 => format!("{amount} B"),
        1_024..1_048_576 => format!("{:.1} KiB", amount as f64 / 1_024.0),
        _ => format!("{:.1} MiB", amount as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_names_plugin_time_and_fuel_and_skips_zeros() {
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
        let record = CallLedger { loop_id: "s.c.1".into(), call_id: "c1".into(), tool: "read".into(), ledger };
        let expected = "fs #2 · 1.20 ms · 61.3 k fuel · 1.1 MiB memory · 1 host call · 2 files · 512 B read";
        assert_eq!(record.account(), expected);
        assert_eq!(record.describe(), format!("Call c1 of read used {expected}"));
    }
}
