//! A UI whose clock, terminal and agent are the test, and the comparison of its screens with reviewed ones.

use crossterm::event::{Event as TerminalEvent, KeyCode, KeyEvent, KeyModifiers};
use pinion_protocol::{
    AssistantMessage, Content, ContentDelta, Display, Event, EventKind, Ledger, Message, RunEnd, StopReason, ToolCall,
    ToolResultMessage, TurnTrigger, Usage,
};
use pinion_tui::{
    App, ApprovalQuestion, Buffer, Facts, Highlighter, Input, Rect, SlashCommand, UiCommand, UiRequest, UiSettings,
    text_of,
};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Ui {
    pub(crate) app: App,
    pub(crate) now: Duration,
    pub(crate) size: (u16, u16),
    highlighter: Highlighter,
    /// The commands that tests complete.
    commands: Vec<SlashCommand>,
    /// Commands that the UI carries out, which are known while a message is sent.
    other_commands: Vec<SlashCommand>,
}

impl Ui {
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        Self::with(UiSettings::default(), columns, rows)
    }

    /// Creates a UI in the inline form.
    pub(crate) fn inline(columns: u16, rows: u16) -> Self {
        Self::with(UiSettings { is_inline: true, ..UiSettings::default() }, columns, rows)
    }

    fn with(settings: UiSettings, columns: u16, rows: u16) -> Self {
        let mut ui = Self {
            app: App::new(settings),
            now: Duration::ZERO,
            size: (columns, rows),
            highlighter: Highlighter::default(),
            commands: Vec::new(),
            other_commands: Vec::new(),
        };
        let command = |name: &str, hint: &str, description: &str| SlashCommand {
            name: name.into(),
            hint: hint.into(),
            description: description.into(),
            ..SlashCommand::default()
        };
        let at_once = |name: &str, action| SlashCommand { action: Some(action), ..command(name, "", "") };
        let bare = |name: &str, action| SlashCommand { bare_action: Some(action), ..command(name, "", "") };
        ui.commands = vec![
            command("compact", "[INSTRUCTIONS]", "Summarize the conversation to free context"),
            command("cost", "", "Show what the session cost"),
            SlashCommand { action: Some(UiCommand::Mode), ..command("mode", "[MODE]", "Show or change the mode") },
            SlashCommand {
                bare_action: Some(UiCommand::ChooseModel),
                ..command("model", "[MODEL]", "Show or change the model")
            },
        ];
        ui.other_commands = vec![
            at_once("btw", UiCommand::Aside),
            at_once("copy", UiCommand::Copy),
            at_once("edit-plan", UiCommand::EditPlan),
            at_once("editor", UiCommand::Edit),
            at_once("execute", UiCommand::Execute),
            bare("exit", UiCommand::Quit),
            at_once("keys", UiCommand::Keys),
            at_once("plan", UiCommand::Plan),
            bare("quit", UiCommand::Quit),
            bare("resume", UiCommand::ChooseSession),
            at_once("settings", UiCommand::Settings),
            at_once("theme", UiCommand::Theme),
        ];
        ui.input(Input::Commands(ui.commands.clone()));
        ui.approval("asks");
        ui
    }

    /// Tells the UI about the conversation, with this mode.
    pub(crate) fn approval(&mut self, mode: &str) {
        self.input(Input::Facts(Facts {
            model: "anthropic/claude".into(),
            approval: mode.into(),
            thinking: None,
            context: 72_000,
            window: Some(200_000),
            assumed_window: None,
            compacts_at: Some(183_616),
            tokens: 120_500,
            cost: Some(0.42),
            network: None,
            branch: Some("main".into()),
            directory: "~/project".into(),
            input: 100_000,
            cached: 80_000,
            session: "1a2b3c4d".into(),
        }));
    }

    pub(crate) fn input(&mut self, input: Input) -> Vec<UiRequest> {
        self.app.handle(input, self.now)
    }

    pub(crate) fn event(&mut self, kind: EventKind) -> Vec<UiRequest> {
        self.event_of("run", kind)
    }

    pub(crate) fn event_of(&mut self, run: &str, kind: EventKind) -> Vec<UiRequest> {
        self.input(Input::Event(Event { run_id: run.into(), kind }))
    }

    pub(crate) fn wait(&mut self, milliseconds: u64) -> Vec<UiRequest> {
        self.now += Duration::from_millis(milliseconds);
        self.input(Input::Tick)
    }

    pub(crate) fn press(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Vec<UiRequest> {
        self.input(Input::Terminal(TerminalEvent::Key(KeyEvent::new(code, modifiers))))
    }

    pub(crate) fn key(&mut self, code: KeyCode) -> Vec<UiRequest> {
        self.press(code, KeyModifiers::NONE)
    }

    pub(crate) fn ctrl(&mut self, c: char) -> Vec<UiRequest> {
        self.press(KeyCode::Char(c), KeyModifiers::CONTROL)
    }

    pub(crate) fn types(&mut self, text: &str) -> Vec<UiRequest> {
        text.chars().flat_map(|c| self.key(KeyCode::Char(c))).collect()
    }

    pub(crate) fn paste(&mut self, text: &str) -> Vec<UiRequest> {
        self.input(Input::Terminal(TerminalEvent::Paste(text.to_owned())))
    }

    /// Types a message and sends it.
    pub(crate) fn send(&mut self, text: &str) -> Vec<UiRequest> {
        self.types(text);
        self.know_commands();
        let requests = self.key(KeyCode::Enter);
        self.input(Input::Commands(self.commands.clone()));
        requests
    }

    /// Tells the UI about all commands.
    pub(crate) fn know_commands(&mut self) {
        let all = self.commands.iter().chain(&self.other_commands).cloned().collect();
        self.input(Input::Commands(all));
    }

    /// Types a message and sends it after the end of the work. Returns the requests besides those that keep it.
    pub(crate) fn later(&mut self, text: &str) -> Vec<UiRequest> {
        self.types(text);
        let requests = self.key(KeyCode::Tab);
        requests.into_iter().filter(|request| !matches!(request, UiRequest::Remember(_))).collect()
    }

    /// Draws a frame with all code highlighted.
    pub(crate) fn buffer(&mut self) -> (Buffer, Option<(u16, u16)>) {
        let mut buffer = Buffer::empty(Rect::new(0, 0, self.size.0, self.size.1));
        let mut cursor = self.app.draw(&mut buffer, self.now);
        while self.highlight() {
            cursor = self.app.draw(&mut buffer, self.now);
        }
        (buffer, cursor)
    }

    /// Highlights code that the last frame lacked. Returns whether there was any.
    pub(crate) fn highlight(&mut self) -> bool {
        let lit = self.app.unlit().map(|job| self.highlighter.run(job));
        lit.map(|lit| self.input(Input::Highlighted(lit))).is_some()
    }

    /// Returns the screen as text.
    pub(crate) fn screen(&mut self) -> String {
        text_of(&self.buffer().0)
    }

    /// Starts a run for a message of the user.
    pub(crate) fn start(&mut self, text: &str) {
        self.send(text);
        self.event(agent_start("agent"));
        self.event(EventKind::TurnStart { turn: 1, trigger: TurnTrigger::User });
        self.event(end_of(Message::user(text)));
    }

    pub(crate) fn text(&mut self, piece: &str) {
        self.event(EventKind::MessageUpdate { index: 0, delta: ContentDelta::Text { delta: piece.into() } });
    }

    /// Ends the reply of the model.
    pub(crate) fn reply(&mut self, content: Vec<Content>) {
        self.event(end_of(assistant(content)));
    }

    /// Runs a call that the model asked for.
    pub(crate) fn call(&mut self, id: &str, tool: &str, arguments: Value) {
        self.reply(vec![Content::ToolCall(ToolCall::new(id, tool, arguments.clone()))]);
        self.event(EventKind::ToolExecutionStart { call_id: id.into(), tool: tool.into(), arguments });
    }

    pub(crate) fn result(&mut self, id: &str, tool: &str, is_error: bool, text: &str) {
        let content = vec![Content::text(text)];
        self.event(EventKind::ToolExecutionEnd {
            call_id: id.into(),
            tool: tool.into(),
            is_error,
            content: content.clone(),
            details: None,
            display: Display::Plain,
            ledger: None,
            child_run_id: None,
        });
        self.event(end_of(tool_result(id, tool, text)));
    }

    /// Runs a command of the user.
    pub(crate) fn own(&mut self, id: &str, command: &str, output: &str) {
        let arguments = json!({ "command": command });
        self.input(Input::OwnCall(ToolCall::new(id, "!", arguments.clone())));
        let (call_id, tool) = (id.to_owned(), "bash".to_owned());
        let start = EventKind::ToolExecutionStart { call_id: call_id.clone(), tool: tool.clone(), arguments };
        self.input(Input::OwnEvent(start));
        self.input(Input::OwnEvent(EventKind::ToolExecutionEnd {
            call_id,
            tool,
            is_error: false,
            content: vec![Content::text(output)],
            details: None,
            display: Display::Plain,
            ledger: None,
            child_run_id: None,
        }));
    }

    pub(crate) fn end(&mut self, end: RunEnd) -> Vec<UiRequest> {
        self.event(EventKind::AgentEnd { end, messages: Vec::new(), usage: Usage::default(), cost: None, turns: 1 });
        self.input(Input::Finished)
    }

    pub(crate) fn ask(&mut self, tool: &str, arguments: Value) -> Vec<UiRequest> {
        let question = self.question(tool, arguments);
        self.input(Input::Question(question))
    }

    pub(crate) fn question(&self, tool: &str, arguments: Value) -> ApprovalQuestion {
        ApprovalQuestion {
            id: 7,
            tool: tool.into(),
            plugin: "shell".into(),
            digest: "0123456789abcdef".into(),
            label: "Run a command".into(),
            can: "writes files, runs programs".into(),
            notes: Vec::new(),
            arguments,
            change: None,
            reason: None,
            rule: None,
            reach: None,
        }
    }
}

/// Ends a call whose plugin was granted this.
pub(crate) fn ended(call_id: &str, text: &str, display: Display, granted: Vec<String>) -> EventKind {
    EventKind::ToolExecutionEnd {
        call_id: call_id.into(),
        tool: "read".into(),
        is_error: false,
        content: vec![Content::text(text)],
        details: None,
        display,
        ledger: Some(Ledger { plugin: text.chars().take(20).collect(), granted, ..Ledger::default() }),
        child_run_id: None,
    }
}

pub(crate) fn done() -> RunEnd {
    RunEnd::Done { stop_reason: StopReason::Stop }
}

pub(crate) fn agent_start(agent: &str) -> EventKind {
    agent_below(agent, None)
}

/// Starts a run that another one started.
pub(crate) fn agent_below(agent: &str, parent: Option<&str>) -> EventKind {
    EventKind::AgentStart {
        agent_id: agent.into(),
        session_id: "session".into(),
        parent_run_id: parent.map(Arc::from),
        call_id: None,
        continuation: None,
        trigger: TurnTrigger::User,
        provider: "anthropic".into(),
        model: "claude".into(),
        directory: Default::default(),
    }
}

/// Returns the event of a message of an earlier run.
pub(crate) fn of_past(message: Message) -> Event {
    Event { run_id: "earlier".into(), kind: end_of(message) }
}

pub(crate) fn end_of(message: Message) -> EventKind {
    EventKind::MessageEnd { message: Arc::new(message) }
}

pub(crate) fn assistant(content: Vec<Content>) -> Message {
    let Message::User(user) = Message::user("") else { unreachable!() };
    Message::Assistant(AssistantMessage {
        content,
        stop_reason: StopReason::Stop,
        provider: "anthropic".into(),
        model: "claude".into(),
        requested_model: None,
        usage: Usage::default(),
        cost: None,
        error: None,
        timestamp: user.timestamp,
    })
}

pub(crate) fn tool_result(id: &str, tool: &str, text: &str) -> Message {
    let Message::User(user) = Message::user("") else { unreachable!() };
    Message::ToolResult(ToolResultMessage {
        call_id: id.into(),
        tool_name: tool.into(),
        content: vec![Content::text(text)],
        details: None,
        is_error: false,
        child_run_id: None,
        timestamp: user.timestamp,
    })
}

/// Compares a screen with the one in `screens/NAME.txt`. `PINION_UPDATE_SCREENS=1` writes it instead.
pub(crate) fn assert_screen(name: &str, screen: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/screens").join(format!("{name}.txt"));
    if std::env::var_os("PINION_UPDATE_SCREENS").is_some() {
        std::fs::write(&path, format!("{screen}\n")).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        expected.trim_end_matches('\n'),
        screen.trim_end_matches('\n'),
        "the screen `{name}` changed:\n{screen}"
    );
}

#[test]
fn screens_in_the_documents_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/user/conversation.md")).unwrap();
    for (name, from) in [("finished", ""), ("approval", "⠼ waiting")] {
        let screen = std::fs::read_to_string(root.join(format!("tests/it/screens/{name}-80x24.txt"))).unwrap();
        let shown = &screen[screen.find(from).unwrap()..];
        assert!(page.contains(shown.trim_end()), "`docs/user/conversation.md` shows another screen `{name}`");
    }
}
