//! The tree as Markdown, for conversations in lines.

use crate::agents::rows::{clock, compact, cost};
use crate::agents::tree::AgentTree;
use pinion_protocol::text::one_line;
use std::time::Duration;

/// Characters of a task in the table.
const TASK: usize = 60;

impl AgentTree {
    /// Returns the tree as a Markdown table.
    pub fn page(&self) -> String {
        let cell = |text: &str, characters| one_line(text, characters).replace('|', "\\|");
        let row = |at: usize| {
            let node = self.node(at)?;
            let name = format!("{}{}", "– ".repeat(node.depth), node.name);
            let (turns, tokens) = (node.turns(), compact(node.spend().usage.total()));
            let (task, model, reason) = (cell(&node.task, TASK), cell(&node.model, TASK), cell(&node.activity(), TASK));
            let state = if reason.is_empty() {
                node.state.word().to_owned()
            } else {
                format!("{}: {reason}", node.state.word())
            };
            let (cost, time) = (cost(node), clock(node.time(Duration::ZERO)));
            Some(format!(
                "| {} | {state} | {task} | {model} | {turns} | {tokens} | {cost} | {time} |",
                cell(&name, TASK)
            ))
        };
        let rows: Vec<String> = self.order().into_iter().filter_map(row).collect();
        let head =
            "| agent | state | task | model | turns | tokens | cost | time |\n|---|---|---|---|---:|---:|---:|---:|";
        format!("{}\n\n{head}\n{}", self.summary(), rows.join("\n"))
    }
}
