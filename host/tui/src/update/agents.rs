//! The tree of agents on the screen, and the conversation of one of them.
//!
//! While the user reads an agent's conversation, it takes the place of the transcript, so that all keys that scroll, fold,
//! search and copy act on it. The conversation's own transcript waits in the tree, and comes back before any input that
//! is not a key.

use crate::agents::{AgentNode, AgentTree, NodeKind};
use crate::commands::is_message;
use crate::composer::is_plain;
use crate::dialog::screen_view::{ScreenView, ViewFrame, ViewLayer, ViewOutcome, ViewRows};
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

/// The tree, and the place of the user in it.
#[derive(Debug, Default)]
pub(crate) struct AgentsView {
    pub(crate) tree: AgentTree,
    selected: usize,
    /// The node whose conversation is in the place of the transcript.
    reading: Option<usize>,
}

/// The tree on the screen.
#[derive(Debug, Default)]
struct TreePage {
    /// The node that another press of the key ends.
    ending: Option<usize>,
}

impl AgentsView {
    fn read_node(&self) -> Option<&AgentNode> {
        self.tree.node(self.reading?)
    }
}

impl ScreenView<App> for TreePage {
    fn layer(&self) -> ViewLayer {
        ViewLayer::Page
    }

    fn draw_rows(&mut self, frame: ViewFrame<'_>) -> ViewRows {
        let keys = KEYS.iter().find(|keys| keys.chars().count() <= frame.columns).or(KEYS.last());
        let keys = StyledPiece::line(keys.copied().unwrap_or_default(), frame.columns, frame.theme.dim);
        (vec![Row::from_pieces([keys])], None)
    }

    fn take_key(&mut self, key: KeyEvent, action: Option<Action>, _now: Duration) -> ViewOutcome<App> {
        let ending = self.ending.take();
        let select = |by: isize| ViewOutcome::effect(move |app: &mut App, _| app.select_agent(by));
        match (key.code, action) {
            (KeyCode::Esc | KeyCode::Char('q'), _) | (_, Some(Action::Agents)) => {
                ViewOutcome::effect(|app: &mut App, _| app.close_agents())
            }
            (KeyCode::Char('c'), _) if key.modifiers == KeyModifiers::CONTROL => {
                ViewOutcome::effect(|app: &mut App, _| app.close_agents())
            }
            (KeyCode::Up | KeyCode::Char('k'), _) => select(-1),
            (KeyCode::Down | KeyCode::Char('j'), _) => select(1),
            (KeyCode::PageUp, _) => select(-PAGE),
            (KeyCode::PageDown, _) => select(PAGE),
            (KeyCode::Home | KeyCode::Char('g'), _) => select(isize::MIN),
            (KeyCode::End | KeyCode::Char('G'), _) => select(isize::MAX),
            (KeyCode::Enter | KeyCode::Char('m'), _) => ViewOutcome::effect(App::read_agent),
            (KeyCode::Char('x'), _) => ViewOutcome::effect(move |app: &mut App, now| app.end_agent(ending, now)),
            _ if is_plain(key) => ViewOutcome::Taken,
            _ => ViewOutcome::Passed,
        }
    }

    /// Draws the tree. The node that asks is selected while its question waits.
    fn draw_page(&self, app: &App, columns: usize, height: usize, now: Duration) -> Option<Vec<Row>> {
        let asker = app.agents.tree.asker().filter(|_| app.views.has(ViewLayer::Question));
        let selected = asker.unwrap_or(app.agents.selected);
        Some(app.agents.tree.rows(columns, height, selected, now, &app.settings.theme))
    }

    fn page_rows(&self, app: &App, height: usize) -> Option<usize> {
        Some((app.agents.tree.nodes().len() + TREE_ROWS).min(height / 2))
    }
}

impl App {
    /// Returns whether the tree or an agent's conversation is on the screen.
    pub(crate) fn shows_agents(&self) -> bool {
        self.agents.reading.is_some() || self.views.get::<TreePage>().is_some()
    }

    /// Shows the tree, or hides it.
    pub(super) fn toggle_agents(&mut self) {
        if self.shows_agents() {
            return self.close_agents();
        }
        let waiting = self.agents.tree.asker();
        self.agents.selected = waiting.unwrap_or(self.agents.selected).min(self.agents.tree.nodes().len() - 1);
        self.views.open(TreePage::default());
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
        self.views.take_view::<TreePage>();
    }

    /// Returns from an agent's conversation to the tree. Returns whether there was one.
    pub(super) fn leave_agent(&mut self) -> bool {
        let Some(at) = self.agents.reading.take() else { return false };
        self.swap_transcript(at);
        self.views.open(TreePage::default());
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
                self.views.take_view::<TreePage>();
                self.agents.reading = Some(at);
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
                self.views.get_mut::<TreePage>().into_iter().for_each(|page| page.ending = Some(at));
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
}
