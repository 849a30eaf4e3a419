//! The line about a turn of the user: requests, tokens, cost and time.

use pinion_agent::snapshot::Totals;
use pinion_agent::{Agent, Outcome};
use pinion_app::model::attribution::conversation_id;
use pinion_app::workspace_base::Base;
use pinion_attribution::{LedgerMark, RequestCounts, RequestLedger};
use pinion_console::output::{count, short};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Measures a turn of the user.
pub(crate) struct TurnMeter {
    ledger: Arc<RequestLedger>,
    session: String,
    mark: LedgerMark,
    started: Instant,
}

impl TurnMeter {
    /// Begins to measure.
    pub(crate) fn begin(base: &Base, agent: &Agent) -> Self {
        let (ledger, session) = (base.requests.clone(), conversation_id(agent));
        let mark = ledger.mark(&session);
        Self { ledger, session, mark, started: Instant::now() }
    }

    /// Ends the turn. Returns the line about it, unless the vendor reported no tokens, and a warning if the turn cost much
    /// more than its forecast.
    pub(crate) fn end(self, outcome: &Outcome) -> (Option<String>, Option<String>) {
        let counts = self.ledger.end_turn(&self.session, &self.mark);
        let spend = outcome.spend;
        let line = turn_line(counts, &Totals { requests: counts.all, spend }, self.started.elapsed());
        let warning = self.mark.is_exceeded(&spend).then(|| {
            let (expected, dollars) = (self.mark.forecast.unwrap_or_default(), spend.cost.map(|cost| cost.total()));
            let amount = |dollars: Option<f64>, tokens: u64| match dollars {
                Some(amount) => super::tables::dollars(amount),
                None => format!("{} tokens", short(tokens)),
            };
            format!(
                "this turn took {}, more than three times its forecast of {}: `/cost why` names the reasons",
                amount(dollars, spend.limited_tokens()),
                amount(expected.0.filter(|_| dollars.is_some()), expected.1)
            )
        });
        (line, warning)
    }
}

/// Describes a turn in one line; `None` if the vendor reported no tokens.
fn turn_line(counts: RequestCounts, totals: &Totals, elapsed: Duration) -> Option<String> {
    let usage = totals.spend.usage;
    if usage.total() == 0 {
        return None;
    }
    let mut requests = count(totals.requests, "request");
    if counts.by_others > 0 {
        requests.push_str(&format!(" ({} by sub-agents)", counts.by_others));
    }
    let mut input = format!("{} in", short(usage.context()));
    if usage.cache_read > 0 {
        input.push_str(&format!(" ({} cached)", short(usage.cache_read)));
    }
    let output = format!("{} out", short(usage.output));
    let cost = totals.spend.cost.map(|cost| super::tables::dollars(cost.total()));
    let parts = [Some(requests), Some(input), Some(output), cost, Some(super::tables::time(elapsed))];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join(" · "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_agent::Usage;
    use pinion_agent::usage::{Cost, Spend};

    #[test]
    fn line_names_only_known_facts() {
        let usage = Usage { input: 1_000, output: 50, cache_read: 9_000, cache_write: 500 };
        let cost = Some(Cost { input: 0.0123, ..Cost::default() });
        let totals = Totals { requests: 3, spend: Spend { usage, cost } };
        let counts = RequestCounts { all: 3, by_others: 1 };
        let line = turn_line(counts, &totals, Duration::from_secs(75)).unwrap();
        assert_eq!(line, "3 requests (1 by sub-agents) · 10.5 k in (9.0 k cached) · 50 out · $0.0123 · 1 min 15 s");
        let usage = Usage { input: 7, output: 1, ..Usage::default() };
        let totals = Totals { requests: 1, spend: Spend { usage, cost: None } };
        let counts = RequestCounts { all: 1, by_others: 0 };
        assert_eq!(
            turn_line(counts, &totals, Duration::from_millis(1_240)).unwrap(),
            "1 request · 7 in · 1 out · 1.2 s"
        );
        assert_eq!(turn_line(counts, &Totals::default(), Duration::ZERO), None);
    }
}
