//! The tree, fed by the events of runs.

use crate::agents::node::{AgentNode, NodeKind, NodeState, first_line};
use crate::agents::rows::{clock, compact, cost};
use crate::theme::Theme;
use crate::transcript::Transcript;
use pinion_protocol::text::one_line;
use pinion_protocol::{Continuation, Event, EventKind, Spend, StepStatus, Usage};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Nodes that keep their conversation; older ones are shown without it.
const KEPT_TRANSCRIPTS: usize = 100;
/// Nodes of one tree. Later runs are counted for the conversation only.
const MAX_NODES: usize = 2_000;
/// Bytes of results that the conversation of one node keeps.
const NODE_RESULTS: usize = 2 << 20;

/// Everything that runs or has run in a conversation.
#[derive(Debug)]
pub struct AgentTree {
    /// The conversation first, then the others in the order of their starts.
    nodes: Vec<AgentNode>,
    /// The nodes of runs, without the foreground run's.
    by_run: HashMap<Arc<str>, usize>,
    /// The foreground run.
    main: Option<Arc<str>>,
    /// The step of a plan that the foreground run works on.
    step: Option<usize>,
    /// The first branch of the foreground run, if that is a group.
    first_branch: usize,
    /// Numbers of nodes of each name.
    numbers: HashMap<String, usize>,
    keeps_transcripts: bool,
}

impl Default for AgentTree {
    /// Creates the tree of an empty conversation.
    fn default() -> Self {
        Self {
            nodes: vec![AgentNode::new(NodeKind::Conversation, "".into(), "conversation")],
            by_run: HashMap::new(),
            main: None,
            step: None,
            first_branch: 0,
            numbers: HashMap::new(),
            keeps_transcripts: true,
        }
    }
}

impl AgentTree {
    /// Creates the tree of a past conversation, without the transcripts of its agents.
    pub fn of_past(events: &[Event]) -> Self {
        let mut tree = Self { keeps_transcripts: false, ..Self::default() };
        tree.history(events);
        tree
    }

    /// Replaces the tree by a past conversation's.
    pub(crate) fn replace(&mut self, events: &[Event]) {
        *self = Self::default();
        self.history(events);
    }

    fn history(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.event(event, None));
        // A run without an end was killed.
        for node in self.nodes.iter_mut().filter(|node| node.state.is_active()) {
            let is_root = node.kind == NodeKind::Conversation;
            node.close(if is_root { NodeState::Ready } else { NodeState::Stopped }, "aborted".to_owned(), None);
        }
        (self.main, self.step) = (None, None);
        self.by_run.clear();
    }

    pub(crate) fn nodes(&self) -> &[AgentNode] {
        &self.nodes
    }

    pub(crate) fn node(&self, at: usize) -> Option<&AgentNode> {
        self.nodes.get(at)
    }

    pub(crate) fn node_mut(&mut self, at: usize) -> Option<&mut AgentNode> {
        self.nodes.get_mut(at)
    }

    /// Returns the number of sub-agents and branches that have not ended.
    pub(crate) fn at_work(&self) -> usize {
        let is_other = |node: &&AgentNode| matches!(node.kind, NodeKind::SubAgent | NodeKind::Branch);
        self.nodes.iter().filter(is_other).filter(|node| node.state.is_active()).count()
    }

    /// Returns the node whose call waits for an answer.
    pub(crate) fn asker(&self) -> Option<usize> {
        self.nodes.iter().rposition(|node| node.state == NodeState::Waits && node.kind != NodeKind::Step)
    }

    /// Returns the nodes from the top down, each below its parent.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut children = vec![Vec::new(); self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            node.parent.and_then(|parent| children.get_mut(parent)).into_iter().for_each(|of| of.push(at));
        }
        let (mut order, mut left) = (Vec::new(), vec![0]);
        while let Some(at) = left.pop() {
            order.push(at);
            left.extend(children[at].iter().rev());
        }
        order
    }

    /// Applies an event. `now` is missing for events of the past.
    pub(crate) fn event(&mut self, event: &Event, now: Option<Duration>) {
        match &event.kind {
            EventKind::PlanStep { step, steps, title, status } => {
                return self.plan_step(*step, *steps, title, *status, now);
            }
            EventKind::PlanMade { .. } | EventKind::Compaction { .. } if !self.by_run.contains_key(&event.run_id) => {
                return;
            }
            EventKind::AgentStart { .. } | EventKind::ParallelStart { .. } if self.main.is_none() => {
                self.main = Some(event.run_id.clone());
            }
            _ => {}
        }
        match self.main.as_ref().is_none_or(|main| *main == event.run_id) {
            true => self.main_event(event, now),
            false => self.other_event(event, now),
        }
    }

    fn main_event(&mut self, event: &Event, now: Option<Duration>) {
        for at in std::iter::once(0).chain(self.step) {
            self.nodes[at].event(&event.run_id, &event.kind, now);
        }
        match &event.kind {
            EventKind::ParallelStart { run_ids, .. } => {
                self.nodes[0].begin(&event.run_id, now);
                self.first_branch = self.nodes.len();
                self.branches(run_ids, 0);
            }
            EventKind::ParallelEnd { usage, .. } => {
                self.end_group(0, *usage, now);
                self.main = None;
            }
            EventKind::AgentEnd { .. } => self.main = None,
            _ => {}
        }
        if self.main.is_none() {
            // Nothing that a run started outlives it.
            for node in
                self.nodes.iter_mut().skip(1).filter(|node| node.kind != NodeKind::Step && node.state.is_active())
            {
                node.close(NodeState::Stopped, "aborted".to_owned(), now);
            }
        }
    }

    fn other_event(&mut self, event: &Event, now: Option<Duration>) {
        let found = self.by_run.get(&event.run_id).copied();
        let Some(at) = found.or_else(|| self.add_run(event)) else { return };
        if let (Some(_), EventKind::AgentStart { parent_run_id, .. }) = (found, &event.kind) {
            self.settle_group(at, parent_run_id.as_ref());
        }
        self.nodes[at].event(&event.run_id, &event.kind, now);
        match &event.kind {
            EventKind::ParallelStart { run_ids, .. } => self.branches(run_ids, at),
            EventKind::ParallelEnd { usage, .. } => self.end_group(at, *usage, now),
            _ => {}
        }
        // A node's conversation shows the runs that work for it, like the conversation on the screen.
        let mut above = Some(at);
        while let Some(node) = above.and_then(|at| self.nodes.get_mut(at)) {
            if let Some(transcript) = &mut node.transcript {
                transcript.event(event, now.unwrap_or_default());
            }
            above = node.parent;
        }
    }

    /// Adds a run that another one started.
    fn add_run(&mut self, event: &Event) -> Option<usize> {
        let (kind, name, parent) = match &event.kind {
            EventKind::AgentStart { agent_id, parent_run_id, continuation, .. } => {
                let is_branch = matches!(continuation, Some(Continuation::Branch { .. }));
                let kind = if is_branch { NodeKind::Branch } else { NodeKind::SubAgent };
                (kind, agent_id.to_string(), parent_run_id.as_ref())
            }
            EventKind::ParallelStart { .. } => (NodeKind::Group, "attempts".to_owned(), None),
            // A run that a hook denied has no start.
            EventKind::InputRejected { .. } => (NodeKind::SubAgent, "sub-agent".to_owned(), None),
            _ => return None,
        };
        let parent = parent.and_then(|run| self.by_run.get(run).copied()).or(self.step).unwrap_or(0);
        let at = self.add(kind, event.run_id.clone(), &name, parent)?;
        self.by_run.insert(event.run_id.clone(), at);
        Some(at)
    }

    /// Adds the branches of a group, which have not started.
    fn branches(&mut self, run_ids: &[Arc<str>], parent: usize) {
        for run_id in run_ids {
            let Some(at) = self.add(NodeKind::Branch, run_id.clone(), "branch", parent) else { return };
            self.nodes[at].task = self.nodes[parent].task.clone();
            self.by_run.insert(run_id.clone(), at);
        }
    }

    /// Ends a group with the spend of its branches and of the choice.
    fn end_group(&mut self, group: usize, choice: Usage, now: Option<Duration>) {
        let first = if group == 0 { self.first_branch } else { group };
        let (mut turns, mut spend) = (0, Spend { usage: choice, cost: None });
        for node in self.nodes.iter().skip(first).filter(|node| node.parent == Some(group)) {
            turns += node.turns();
            spend.add(node.spend());
        }
        self.nodes[group].end_group(turns, spend, now);
    }

    /// Moves a group of attempts below the run that started it, which only its branches name.
    fn settle_group(&mut self, branch: usize, parent: Option<&Arc<str>>) {
        let group = self.nodes[branch].parent.filter(|at| self.nodes[*at].kind == NodeKind::Group);
        let parent = parent.and_then(|run| self.by_run.get(run).copied());
        let (Some(group), Some(parent)) = (group, parent) else { return };
        if parent < group && self.nodes[group].parent != Some(parent) {
            self.nodes[group].parent = Some(parent);
            for at in group..self.nodes.len() {
                self.nodes[at].depth = self.nodes[at].parent.map_or(0, |parent| self.nodes[parent].depth + 1);
            }
        }
    }

    fn add(&mut self, kind: NodeKind, run_id: Arc<str>, name: &str, parent: usize) -> Option<usize> {
        let at = self.nodes.len();
        if at >= MAX_NODES {
            return None;
        }
        let number = self.numbers.entry(name.to_owned()).or_default();
        *number += 1;
        let mut node = AgentNode::new(kind, run_id, format!("{name} {number}"));
        (node.parent, node.depth) = (Some(parent), self.nodes[parent].depth + 1);
        if self.keeps_transcripts && !matches!(kind, NodeKind::Group | NodeKind::Step) {
            node.transcript = Some(Box::new(Transcript::within(Theme::plain(), NODE_RESULTS)));
        }
        self.nodes.push(node);
        if let Some(old) = at.checked_sub(KEPT_TRANSCRIPTS).and_then(|at| self.nodes.get_mut(at)) {
            old.transcript = None;
        }
        Some(at)
    }

    fn plan_step(&mut self, step: usize, steps: usize, title: &str, status: StepStatus, now: Option<Duration>) {
        let name = format!("step {step}/{steps}");
        let open = self.step.filter(|at| self.nodes[*at].name == name);
        match (status, open) {
            (StepStatus::Running, None) => {
                let run_id = self.nodes[0].run_id.clone();
                self.step = self.add(NodeKind::Step, run_id, "step", 0);
                if let Some(node) = self.step.and_then(|at| self.nodes.get_mut(at)) {
                    (node.name, node.task) = (name, first_line(title));
                }
            }
            (status, Some(at)) => {
                let (state, reason) = match status {
                    StepStatus::Done => (NodeState::Done, String::new()),
                    StepStatus::Failed => (NodeState::Failed, self.nodes[at].reason.clone()),
                    _ => (NodeState::Stopped, "interrupted".to_owned()),
                };
                self.nodes[at].close(state, reason, now);
                self.step = None;
            }
            (_, None) => {}
        }
    }
}

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
