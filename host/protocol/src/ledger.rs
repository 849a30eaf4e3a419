//! The text of a ledger.

use crate::output::Ledger;
use std::fmt;

impl fmt::Display for Ledger {
    /// One line: plugin, time, fuel, memory and host calls always, the rest unless it is zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{}", self.plugin, self.generation)?;
        write!(f, " · {:.2} ms · {} fuel", self.time_us as f64 / 1e3, short(self.fuel))?;
        write!(f, " · {} memory · {}", bytes(self.memory), count(self.host_calls, "host call"))?;
        let further = [
            (self.files, count(self.files, "file")),
            (self.bytes_read, format!("{} read", bytes(self.bytes_read))),
            (self.bytes_written, format!("{} written", bytes(self.bytes_written))),
            (self.processes, count(self.processes, "program")),
            (self.agents, count(self.agents, "sub-agent")),
            (self.requests, self.traffic()),
        ];
        let counts = self.counts.iter().map(|(noun, amount)| (*amount, count(*amount, noun)));
        let output = (self.output, format!("{} out", bytes(self.output)));
        for (_, text) in further.into_iter().chain(counts).chain([output]).filter(|(amount, _)| *amount > 0) {
            write!(f, " · {text}")?;
        }
        Ok(())
    }
}

impl Ledger {
    /// Returns the plugin's grants in one line.
    pub fn grants(&self) -> String {
        if self.granted.is_empty() { "may use nothing".to_owned() } else { format!("may {}", self.granted.join("; ")) }
    }

    fn traffic(&self) -> String {
        let hosts: Vec<&str> = self.hosts.iter().map(String::as_str).collect();
        let (requests, hosts) = (count(self.requests, "request"), hosts.join(", "));
        format!("{requests} to {hosts} · {} sent · {} received", bytes(self.bytes_sent), bytes(self.bytes_received))
    }
}

fn count(amount: u64, noun: &str) -> String {
    format!("{amount} {noun}{}", if amount == 1 { "" } else { "s" })
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
    use std::collections::BTreeMap;

    #[test]
    fn display_names_plugin_time_and_fuel_and_skips_zeros() {
        let ledger = Ledger {
            plugin: "fs".into(),
            generation: 2,
            fuel: 61_300,
            time_us: 1_204,
            memory: 1_114_112,
            host_calls: 1,
            files: 2,
            bytes_read: 512,
            counts: BTreeMap::from([("echo".to_owned(), 3)]),
            ..Ledger::default()
        };
        let expected = "fs #2 · 1.20 ms · 61.3 k fuel · 1.1 MiB memory · 1 host call · 2 files · 512 B read · 3 echos";
        assert_eq!(ledger.to_string(), expected);
    }

    #[test]
    fn display_names_the_hosts_of_requests() {
        let hosts = ["a.example", "b.example"].map(str::to_owned).into();
        let ledger = Ledger { requests: 2, bytes_sent: 300, bytes_received: 2_048, hosts, ..Ledger::default() };
        let text = ledger.to_string();
        assert!(text.ends_with("2 requests to a.example, b.example · 300 B sent · 2.0 KiB received"), "{text}");
    }
}
