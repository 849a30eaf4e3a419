//! The tree of agents on the screen, and the conversation of one of them.
//!
//! While the user reads an agent's conversation, it takes the place of the transcript, so that all keys that scroll, fold,
//! search and copy act on it. The conversation's own transcript waits in the tree, and comes back before any input that
//! is not a key.

use crate::agents::{AgentNode, AgentTree, NodeKind};
use crate::commands::is_message;
use crate::composer::is_plain;
use crate::input::{Input, UiRequest};
use crate::keys::Action;
use crate::rows::{Row, StyledPiece};
use crate::transcript::Transcript;
use crate::update::App;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// Nodes that a key for a page moves by.
const PAGE: isize = 8;
/// Rows of the tree besides its nodes: counts, head, the question and details.
const TREE_ROWS: usize = 5;
/// The keys of the tree, where there is more room and less.
const KEYS: [&str; 2] =
    ["↑↓ select · enter reads · m writes to it · x ends it · esc closes", "enter reads · x ends · esc"];

/// The tree, and the part of it on the screen.
#[derive(Debug, Default)]
pub(crate) struct AgentsView {
    pub(crate) tree: AgentTree,
    is_listing: bool,
    selected: usize,
    /// The node whose conversation is in the place of the transcript.
    reading: Option<usize>,
    /// The node that another press of the key ends.
    ending: Option<usize>,
}

impl AgentsView {
    /// Returns whether the tree is on the screen.
    pub(crate) fn is_listing(&self) -> bool {
        self.is_listing
    }

    /// Returns whether the tree or an agent's conversation is on the screen.
    pub(crate) fn is_shown(&self) -> bool {
        self.is_listing || self.reading.is_some()
    }

    fn read_node(&self) -> Option<&AgentNode> {
        self.tree.node(self.reading?)
    }
}

impl App {
    /// Shows the tree, or hides it.
    pub(super) fn toggle_agents(&mut self) {
        if self.agents.is_shown() {
            return self.close_agents();
        }
        let waiting = self.agents.tree.asker();
        self.agents.selected = waiting.unwrap_or(self.agents.selected).min(self.agents.tree.nodes().len() - 1);
        self.agents.is_listing = true;
        self.popup = None;
    }

    /// Shows or hides the tree above a question. Returns whether the action does that.
    pub(super) fn toggles_agents(&mut self, action: Option<Action>) -> bool {
        let is_toggle = action == Some(Action::Agents);
        if is_toggle {
            self.toggle_agents();
        }
        is_toggle
    }

    /// Returns to the conversation.
    pub(crate) fn close_agents(&mut self) {
        self.leave_agent();
        (self.agents.is_listing, self.agents.ending) = (false, None);
    }

    /// Returns from an agent's conversation to the tree. Returns whether there was one.
    pub(super) fn leave_agent(&mut self) -> bool {
        let Some(at) = self.agents.reading.take() else { return false };
        self.swap_transcript(at);
        self.agents.is_listing = true;
        true
    }

    /// Puts the transcript of the conversation back for an input that is not about the shown one. Returns the node that was
    /// shown, for [`Self::show_agent_again`].
    pub(super) fn put_agent_back(&mut self, input: &Input) -> Option<usize> {
        let is_for_shown = matches!(input, Input::Terminal(_) | Input::Highlighted(_) | Input::Theme(_) | Input::Tick);
        let at = self.agents.reading.filter(|_| !is_for_shown)?;
        self.swap_transcript(at);
        Some(at)
    }

    pub(super) fn show_agent_again(&mut self, shown: Option<usize>) {
        let Some(at) = shown.filter(|at| self.agents.reading == Some(*at)) else { return };
        if !self.swap_transcript(at) {
            self.agents.reading = None;
        }
    }

    /// Exchanges the transcript with a node's, which gets the same look. Returns whether the node has one.
    fn swap_transcript(&mut self, at: usize) -> bool {
        let node = self.agents.tree.node_mut(at).and_then(|node| node.transcript.as_deref_mut());
        node.map(|other: &mut Transcript| self.transcript.exchange(other)).is_some()
    }

    /// Handles a key while the tree is on the screen. Returns `false` for a key that is not about the tree.
    pub(super) fn agents_key(&mut self, key: KeyEvent, action: Option<Action>, now: Duration) -> bool {
        if !self.agents.is_listing {
            return false;
        }
        let ending = self.agents.ending.take();
        match (key.code, action) {
            (KeyCode::Esc | KeyCode::Char('q'), _) | (_, Some(Action::Agents)) => self.close_agents(),
            (KeyCode::Char('c'), _) if key.modifiers == KeyModifiers::CONTROL => self.close_agents(),
            (KeyCode::Up | KeyCode::Char('k'), _) => self.select_agent(-1),
            (KeyCode::Down | KeyCode::Char('j'), _) => self.select_agent(1),
            (KeyCode::PageUp, _) => self.select_agent(-PAGE),
            (KeyCode::PageDown, _) => self.select_agent(PAGE),
            (KeyCode::Home | KeyCode::Char('g'), _) => self.select_agent(isize::MIN),
            (KeyCode::End | KeyCode::Char('G'), _) => self.select_agent(isize::MAX),
            (KeyCode::Enter | KeyCode::Char('m'), _) => self.read_agent(now),
            (KeyCode::Char('x'), _) => self.end_agent(ending, now),
            _ => return is_plain(key),
        }
        true
    }

    fn select_agent(&mut self, by: isize) {
        let order = self.agents.tree.order();
        let at = order.iter().position(|at| *at == self.agents.selected).unwrap_or_default();
        let to = at.saturating_add_signed(by).min(order.len().saturating_sub(1));
        self.agents.selected = order.get(to).copied().unwrap_or_default();
    }

    /// Shows the conversation of the selected node.
    fn read_agent(&mut self, now: Duration) {
        let at = self.agents.selected;
        match self.agents.tree.node(at).map(|node| (node.kind, node.transcript.is_some())) {
            Some((NodeKind::Conversation, _)) => self.close_agents(),
            Some((_, true)) => {
                (self.agents.is_listing, self.agents.reading) = (false, Some(at));
                self.swap_transcript(at);
                self.transcript.follow();
            }
            Some((NodeKind::Group | NodeKind::Step, _)) => self.hint("select an agent below it", now),
            _ => self.hint("only its session keeps this conversation: `/resume` lists it", now),
        }
    }

    /// Ends the selected node at the second press of the key.
    fn end_agent(&mut self, ending: Option<usize>, now: Duration) {
        let at = self.agents.selected;
        let Some(node) = self.agents.tree.node(at) else { return };
        let (kind, run_id, name) = (node.kind, node.run_id.to_string(), node.name.clone());
        match kind {
            _ if !node.state.is_active() => self.hint(format!("{name} has ended"), now),
            NodeKind::Conversation | NodeKind::SubAgent if ending != Some(at) => {
                self.agents.ending = Some(at);
                self.hint(format!("x again ends {name}"), now);
            }
            NodeKind::Conversation => self.requests.push(UiRequest::Interrupt),
            NodeKind::SubAgent => self.requests.push(UiRequest::EndAgent(run_id)),
            NodeKind::Branch | NodeKind::Group | NodeKind::Step => {
                self.hint("it ends with the run that started it", now);
            }
        }
    }

    /// Sends the message in the editor to the agent whose conversation is shown. Returns `false` if the text is not for one.
    pub(super) fn send_to_agent(&mut self, now: Duration) -> bool {
        let Some(node) = self.agents.read_node() else { return false };
        if !is_message(self.composer.text()) {
            self.close_agents();
            return false;
        }
        let (kind, is_active, run_id) = (node.kind, node.state.is_active(), node.run_id.to_string());
        let refused = match kind {
            _ if !is_active => Some("it has ended; esc returns"),
            NodeKind::SubAgent => None,
            _ => Some("it takes no messages; esc returns"),
        };
        if let Some(refused) = refused {
            self.hint(refused, now);
            return true;
        }
        let text = self.composer.take_message();
        self.transcript.follow();
        self.requests.push(UiRequest::Remember(text.clone()));
        self.requests.push(UiRequest::SteerAgent { run_id, text });
        self.hint("sent; it reads the message after the call in progress", now);
        true
    }

    /// Draws the tree into `height` rows. The node that asks is selected while its question waits.
    pub(crate) fn agent_rows(&self, columns: usize, height: usize, now: Duration) -> Vec<Row> {
        let asker = self.agents.tree.asker().filter(|_| self.approval.is_some());
        let selected = asker.unwrap_or(self.agents.selected);
        self.agents.tree.rows(columns, height, selected, now, &self.settings.theme)
    }

    /// Returns the row of keys below the tree.
    pub(crate) fn agent_keys(&self, columns: usize) -> Row {
        let keys = KEYS.iter().find(|keys| keys.chars().count() <= columns).or(KEYS.last());
        Row::from_pieces([StyledPiece::line(keys.copied().unwrap_or_default(), columns, self.settings.theme.dim)])
    }

    /// Returns the row that names the agent whose conversation is shown.
    pub(crate) fn read_agent_row(&self, columns: usize) -> Option<Row> {
        let node = self.agents.read_node()?;
        let writes = match (node.kind, node.state.is_active()) {
            (NodeKind::SubAgent, true) => "; esc returns, enter writes to it",
            _ => "; esc returns",
        };
        let text = format!("{} {}{writes} · {}", node.name, node.state.word(), node.task);
        Some(Row::from_pieces([StyledPiece::line(&text, columns, self.settings.theme.warning)]))
    }

    /// Returns the row that names the agent that asks, unless only the conversation works.
    pub(crate) fn asker_row(&self, columns: usize) -> Option<Row> {
        let node = self.agents.tree.asker().and_then(|at| self.agents.tree.node(at))?;
        if node.kind == NodeKind::Conversation && self.agents.tree.at_work() == 0 {
            return None;
        }
        let theme = &self.settings.theme;
        let name = StyledPiece::line(&node.name, columns.saturating_sub(7), theme.strong);
        let mut row =
            Row::from_pieces([StyledPiece::new("  ", theme.text), name, StyledPiece::new(" asks", theme.warning)]);
        if node.kind != NodeKind::Conversation {
            // A model wrote the task, like everything behind a bar.
            row.push(StyledPiece::new(" │ ", theme.dim));
            row.push(StyledPiece::line(&node.task, columns.saturating_sub(row.width()), theme.dim));
        }
        Some(row)
    }

    /// Returns the rows that a question leaves for the tree above it, if that is on the screen.
    pub(crate) fn rows_above_question(&self, height: usize) -> Option<usize> {
        self.agents.is_listing.then(|| (self.agents.tree.nodes().len() + TREE_ROWS).min(height / 2))
    }
}
