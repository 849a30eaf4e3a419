//! The cost of a conversation by turn, tool, server or file, as Markdown and as JSON.

use clap::ValueEnum;
use pinion_agent::Event;
use pinion_agent::text::one_line;
use pinion_attribution::{OwnerGroup, OwnerSpend, TurnCost, spend_by, turn_costs};
use pinion_console::output::short;
use serde_json::{Value, json};
use std::time::Duration;

/// Characters of a prompt or an owner in a table.
const LABEL: usize = 36;
/// Rows of a table; the rest is added up.
const ROWS: usize = 30;

/// The parts that a cost is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CostGroup {
    /// Your turns
    Turn,
    /// Tools whose results are sent
    Tool,
    /// MCP servers of these tools
    Server,
    /// Files that calls named
    File,
}

impl CostGroup {
    /// Returns the group of owners; `None` for turns.
    fn owners(self) -> Option<OwnerGroup> {
        match self {
            Self::Turn => None,
            Self::Tool => Some(OwnerGroup::Tool),
            Self::Server => Some(OwnerGroup::Server),
            Self::File => Some(OwnerGroup::File),
        }
    }
}

/// Returns the cost of a conversation as a Markdown table.
pub fn cost_table(group: CostGroup, events: &[Event]) -> String {
    match group.owners() {
        None => turn_table(&turn_costs(events)),
        Some(group) => owner_table(&spend_by(group, events)),
    }
}

/// Returns the cost of a conversation as JSON: a list of turns or of owners.
pub fn cost_json(group: CostGroup, events: &[Event]) -> Value {
    match group.owners() {
        None => turn_costs(events).iter().map(turn_json).collect(),
        Some(group) => spend_by(group, events).iter().map(owner_json).collect(),
    }
}

fn turn_table(turns: &[TurnCost]) -> String {
    if turns.is_empty() {
        return "Nothing spent in this session yet.".to_owned();
    }
    let mut table =
        "| turn | requests | in | cached | out | cost | time |\n|---|---:|---:|---:|---:|---:|---:|\n".to_owned();
    let skipped = turns.len().saturating_sub(ROWS);
    if skipped > 0 {
        let sum = turns[..skipped].iter().fold(TurnCost::default(), add);
        table.push_str(&turn_row(&format!("turns 1 to {skipped}"), &sum));
    }
    for (at, turn) in turns.iter().enumerate().skip(skipped) {
        table.push_str(&turn_row(&format!("{} {}", at + 1, cell(&turn.prompt)), turn));
    }
    if turns.len() > 1 {
        table.push_str(&turn_row("**all turns**", &turns.iter().fold(TurnCost::default(), add)));
    }
    table
}

fn add(mut sum: TurnCost, turn: &TurnCost) -> TurnCost {
    sum.requests += turn.requests;
    sum.by_others += turn.by_others;
    sum.spend.add(turn.spend);
    sum.duration += turn.duration;
    sum
}

fn turn_row(label: &str, turn: &TurnCost) -> String {
    let usage = turn.spend.usage;
    let requests = match turn.by_others {
        0 => turn.requests.to_string(),
        others => format!("{} ({others} by sub-agents)", turn.requests),
    };
    let cost = turn.spend.cost.map_or_else(|| "unknown".to_owned(), |cost| dollars(cost.total()));
    let (input, cached) = (short(usage.context()), short(usage.cache_read));
    format!(
        "| {label} | {requests} | {input} | {cached} | {} | {cost} | {} |\n",
        short(usage.output),
        time(turn.duration)
    )
}

fn turn_json(turn: &TurnCost) -> Value {
    json!({
        "prompt": turn.prompt,
        "requests": turn.requests,
        "requests_of_sub_agents": turn.by_others,
        "usage": turn.spend.usage,
        "cost": turn.spend.cost.map(|cost| cost.total()),
        "duration_ms": u64::try_from(turn.duration.as_millis()).unwrap_or(u64::MAX),
    })
}

fn owner_table(owners: &[OwnerSpend]) -> String {
    if owners.is_empty() {
        return "Nothing spent in this session yet.".to_owned();
    }
    let has_cost = owners.iter().any(|owner| owner.cost > 0.0);
    let mut table =
        "| owner | number | sent in all requests | cached | out | cost |\n|---|---:|---:|---:|---:|---:|\n".to_owned();
    for owner in owners.iter().take(ROWS) {
        let number = if owner.items == 0 { String::new() } else { owner.items.to_string() };
        let cost = if has_cost { dollars(owner.cost) } else { "unknown".to_owned() };
        let (input, cached, output) = (short(owner.input), short(owner.cached), short(owner.output));
        table.push_str(&format!(
            "| {} | {number} | {input} | {cached} | {output} | {cost} |\n",
            cell(&owner.owner.replace('`', ""))
        ));
    }
    if owners.len() > ROWS {
        table.push_str(&format!("| {} more |  |  |  |  |  |\n", owners.len() - ROWS));
    }
    table
}

fn owner_json(owner: &OwnerSpend) -> Value {
    let OwnerSpend { owner, items, input, cached, output, cost } = owner;
    json!({ "owner": owner, "items": items, "input": input, "cached": cached, "output": output, "cost": cost })
}

/// Returns untrusted text as the content of a cell.
fn cell(text: &str) -> String {
    let escaped = |c: char| c.is_ascii_punctuation().then_some('\\').into_iter().chain([c]);
    one_line(text, LABEL).chars().flat_map(escaped).collect()
}

/// Formats US dollars, with more digits below one dollar because most turns cost less.
pub(super) fn dollars(amount: f64) -> String {
    if amount < 1.0 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// Formats a duration of work.
pub(super) fn time(duration: Duration) -> String {
    match duration.as_secs() {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        seconds @ 10..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_agent::Usage;
    use pinion_agent::usage::Spend;

    fn turn(prompt: &str, input: u64) -> TurnCost {
        let usage = Usage { input, output: 5, ..Usage::default() };
        let spend = Spend { usage, cost: None };
        TurnCost { prompt: prompt.to_owned(), requests: 2, by_others: 0, spend, duration: Duration::from_secs(3) }
    }

    #[test]
    fn turns_are_listed_with_their_sum() {
        let table = turn_table(&[turn("fix | the bug", 1_000), turn("go on", 2_000)]);
        assert!(table.contains("| 1 fix \\| the bug | 2 | 1.0 k | 0 | 5 | unknown | 3.0 s |"), "{table}");
        assert!(table.ends_with("| **all turns** | 4 | 3.0 k | 0 | 10 | unknown | 6.0 s |\n"), "{table}");
        assert!(turn_table(&[]).starts_with("Nothing"));
    }

    #[test]
    fn old_turns_of_a_long_session_are_added_up() {
        let turns = vec![turn("again", 100); ROWS + 7];
        let table = turn_table(&turns);
        assert!(table.contains("| turns 1 to 7 | 14 |") && table.contains("| 37 again |"), "{table}");
    }
}
