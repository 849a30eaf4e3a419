//! The tree of agents, and the conversation of one of them.

use crate::ui::assert_screen;
use crate::ui::{Ui, agent_below, assistant, done, end_of, tool_result};
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_protocol::{
    Authority, Content, ContentDelta, Cost, Display, Event, EventKind, Message, RunEnd, RunErrorKind, Thinking,
    ToolCall, TurnTrigger, Usage, WorkDirectory,
};
use pinion_tui::{AgentTree, Input, UiRequest};
use serde_json::json;

/// The tasks of ten agents, with tokens in thousands and cost in cents.
const TASKS: [(&str, u64, f64); 10] = [
    ("audit the parser for panics", 12, 4.1),
    ("list all callers of `open`", 8, 2.2),
    ("measure the start of the command", 21, 9.0),
    ("check the licences of dependencies", 3, 1.3),
    ("find dead code in the exporter", 5, 1.5),
    ("compare the two caches", 17, 6.7),
    ("delete the stale fixtures", 9, 3.1),
    ("summarize the changelog", 4, 1.1),
    ("read the logs of the last build", 2, 0.4),
    ("count the open files of the server", 1, 0.2),
];

fn run_of(number: usize) -> String {
    format!("agent-{number}")
}

fn usage(thousands: u64) -> Usage {
    Usage { input: thousands * 1_000 - 100, output: 100, ..Usage::default() }
}

fn cost(cents: f64) -> Option<Cost> {
    Some(Cost { input: cents / 100.0, ..Cost::default() })
}

/// Starts an agent that works on the task with this number, counted from 1, and runs a call.
fn start(ui: &mut Ui, number: usize, parent: &str) {
    let (run, (task, thousands, cents)) = (run_of(number), TASKS[number - 1]);
    ui.event_of(&run, agent_below("auditor", Some(parent)));
    ui.event_of(&run, EventKind::TurnStart { turn: 1, trigger: TurnTrigger::SubAgent });
    ui.event_of(&run, end_of(Message::user(task)));
    let arguments = json!({ "command": format!("rg -n step{number} src") });
    let Message::Assistant(mut reply) = assistant(vec![
        Content::Thinking(Thinking { text: format!("Think about step {number}."), ..Thinking::default() }),
        Content::text(format!("I start with step {number}.")),
        Content::ToolCall(ToolCall::new("x", "bash", arguments.clone())),
    ]) else {
        unreachable!()
    };
    (reply.usage, reply.cost) = (usage(thousands), cost(cents));
    ui.event_of(&run, end_of(Message::Assistant(reply)));
    // The seventh asks for its call.
    if number != 7 {
        ui.event_of(&run, EventKind::ToolExecutionStart { call_id: "x".into(), tool: "bash".into(), arguments });
    }
}

fn end(ui: &mut Ui, number: usize, end: RunEnd) {
    let (_, thousands, cents) = TASKS[number - 1];
    let (usage, cost) = (usage(thousands), cost(cents));
    ui.event_of(&run_of(number), EventKind::AgentEnd { end, messages: Vec::new(), usage, cost, turns: 1 });
}

fn result(ui: &mut Ui, number: usize, text: &str) {
    let run = run_of(number);
    ui.event_of(
        &run,
        EventKind::ToolExecutionEnd {
            call_id: "x".into(),
            tool: "bash".into(),
            is_error: false,
            content: vec![Content::text(text)],
            details: None,
            display: Display::Plain,
            ledger: None,
            child_run_id: None,
        },
    );
    ui.event_of(&run, end_of(tool_result("x", "bash", text)));
}

/// Ten agents at work, of which the third has started the fourth. One asks, two are done, one has failed.
fn ten_agents(ui: &mut Ui) {
    ui.start("audit everything");
    for number in 1..=10 {
        start(ui, number, if number == 4 { "agent-3" } else { "run" });
        ui.wait(1_000);
    }
    let asked = EventKind::ApprovalRequested { call_id: "x".into(), tool: "bash".into(), authority: Authority::ALL };
    ui.event_of(&run_of(7), asked);
    for (number, how) in [(8, done()), (9, RunEnd::failed(RunErrorKind::Other, "overloaded: HTTP 529")), (10, done())] {
        end(ui, number, how);
    }
    ui.wait(5_000);
}

fn question(ui: &mut Ui) {
    ui.ask("bash", json!({ "command": "rg -n step7 src" }));
    ui.screen();
    ui.wait(400);
}

fn open(ui: &mut Ui) {
    ui.press(KeyCode::Char('a'), KeyModifiers::ALT);
}

/// Opens the tree and selects the agent with this number.
fn select(ui: &mut Ui, number: usize) {
    open(ui);
    ui.types("g");
    ui.types(&"j".repeat(number));
}

#[test]
fn screen_alone_tells_what_ten_agents_do_and_cost() {
    for (columns, rows) in [(80, 24), (120, 40), (40, 10)] {
        let mut ui = Ui::new(columns, rows);
        ten_agents(&mut ui);
        open(&mut ui);
        let screen = ui.screen();
        assert_screen(&format!("ten-agents-{columns}x{rows}"), &screen);
        if rows == 10 {
            continue;
        }
        let states = ["works", "works", "works", "works", "works", "works", "waits", "done", "failed", "done"];
        for (at, ((task, _, cents), state)) in TASKS.into_iter().zip(states).enumerate() {
            let name = format!("auditor {} ", at + 1);
            let row = screen.lines().find(|row| row.contains(&name)).unwrap_or_else(|| panic!("{name}: {screen}"));
            let price = format!("${:.3}", cents / 100.0);
            for told in [state, &task[..12], &price] {
                assert!(row.contains(told), "{told}: {row}");
            }
        }
        assert!(screen.contains("asks: bash rg -n step7 src"), "{screen}");
    }
}

#[test]
fn low_screen_shows_every_agent_by_scrolling() {
    let mut ui = Ui::new(40, 10);
    ten_agents(&mut ui);
    open(&mut ui);
    let mut seen = String::new();
    ui.types("g");
    for _ in 0..12 {
        seen.push_str(&ui.screen());
        ui.types("j");
    }
    for ((_, _, cents), number) in TASKS.into_iter().zip(1..) {
        let is_named =
            |row: &&str| row.contains("└ aud") && row.split_whitespace().any(|word| word == number.to_string());
        let row = seen.lines().find(is_named).unwrap_or_else(|| panic!("{number}: {seen}"));
        assert!(row.contains(&format!("${:.3}", cents / 100.0)), "{row}");
    }
}

#[test]
fn tree_says_which_agent_works_in_a_copy() {
    for (columns, rows) in [(120, 40), (80, 24)] {
        let mut ui = Ui::new(columns, rows);
        ui.start("write it");
        let mut start = agent_below("writer", None);
        if let EventKind::AgentStart { directory, .. } = &mut start {
            *directory = WorkDirectory::Copy;
        }
        ui.event_of("copy", start);
        ui.event_of("copy", end_of(Message::user("change a.txt")));
        open(&mut ui);
        let screen = ui.screen();
        assert!(screen.contains("in a copy: change"), "{screen}");
        assert_eq!(screen.matches("in a copy").count(), 1, "{screen}");
    }
}

#[test]
fn question_names_the_agent_that_asks() {
    for (columns, rows) in [(80, 24), (40, 10)] {
        let mut ui = Ui::new(columns, rows);
        ten_agents(&mut ui);
        question(&mut ui);
        let screen = ui.screen();
        assert_screen(&format!("agent-asks-{columns}x{rows}"), &screen);
        assert!(screen.contains("auditor 7 asks │ delete"), "{screen}");
    }
}

#[test]
fn tree_above_a_question_shows_who_waits() {
    let mut ui = Ui::new(80, 24);
    ten_agents(&mut ui);
    question(&mut ui);
    assert!(!ui.screen().contains("10 agents"));
    open(&mut ui);
    let screen = ui.screen();
    assert_screen("agent-tree-asks-80x24", &screen);
    let row = screen.lines().find(|row| row.contains("auditor 7 ")).unwrap();
    assert!(row.starts_with("› ") && row.contains("waits"), "{screen}");
    assert!(screen.contains("auditor 7 asks") && screen.contains("[y] yes"), "{screen}");
    let answered = [ui.key(KeyCode::Char('y')), ui.wait(400)].concat();
    assert!(answered.iter().any(|request| matches!(request, UiRequest::Answer(7, _))), "{answered:?}");
}

#[test]
fn question_of_the_conversation_alone_names_no_agent() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    let asked = EventKind::ApprovalRequested { call_id: "x".into(), tool: "bash".into(), authority: Authority::ALL };
    ui.event(asked);
    question(&mut ui);
    assert!(!ui.screen().contains(" asks"), "{}", ui.screen());
}

#[test]
fn conversation_of_an_agent_is_read_live_and_afterwards() {
    let mut ui = Ui::new(80, 24);
    ten_agents(&mut ui);
    select(&mut ui, 2);
    ui.key(KeyCode::Enter);
    ui.ctrl('t');
    let screen = ui.screen();
    for part in
        ["list all callers", "Think about step 2.", "I start with step 2.", "bash rg -n step2 src", "auditor 2 works"]
    {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    result(&mut ui, 2, "src/lib.rs:7: open()");
    ui.event_of(
        "agent-2",
        EventKind::MessageUpdate { index: 0, delta: ContentDelta::Text { delta: "One caller.".into() } },
    );
    ui.ctrl('o');
    let screen = ui.screen();
    assert!(screen.contains("src/lib.rs:7: open()") && screen.contains("One caller."), "{screen}");
    ui.event_of("agent-2", end_of(assistant(vec![Content::text("One caller.")])));
    end(&mut ui, 2, done());
    let screen = ui.screen();
    assert_screen("agent-conversation-80x24", &screen);
    assert!(screen.contains("auditor 2 done") && screen.contains("One caller."), "{screen}");
    // Events of others, and notes, are not a part of it.
    ui.input(Input::Note(pinion_tui::Tone::Plain, "a note of the host".into()));
    assert!(!ui.screen().contains("a note of the host"));
    ui.key(KeyCode::Esc);
    assert!(ui.screen().contains("10 agents"), "{}", ui.screen());
    ui.key(KeyCode::Esc);
    let screen = ui.screen();
    assert!(screen.contains("a note of the host") && screen.contains("auditor “compare the two caches”"), "{screen}");
}

#[test]
fn conversation_of_an_agent_shows_the_agents_below_it() {
    let mut ui = Ui::new(80, 24);
    ten_agents(&mut ui);
    select(&mut ui, 3);
    ui.key(KeyCode::Enter);
    let screen = ui.screen();
    assert!(screen.contains("auditor 3 works") && screen.contains("check the licences"), "{screen}");
}

#[test]
fn message_in_an_agents_conversation_goes_to_that_agent() {
    let mut ui = Ui::new(80, 24);
    ten_agents(&mut ui);
    select(&mut ui, 1);
    ui.types("m");
    let requests = ui.send("skip the tests");
    let steered = UiRequest::SteerAgent { run_id: "agent-1".into(), text: "skip the tests".into() };
    assert!(requests.contains(&steered), "{requests:?}");
    assert!(!requests.iter().any(|request| matches!(request, UiRequest::Steer(_) | UiRequest::Submit(_))));
    ui.event_of("agent-1", end_of(Message::user("skip the tests")));
    assert!(ui.screen().contains("› skip the tests"), "{}", ui.screen());
    end(&mut ui, 1, done());
    let requests = ui.send("one more");
    assert!(requests.is_empty() && ui.screen().contains("one more"), "the text stays: {requests:?}");
    ui.key(KeyCode::Esc);
    ui.key(KeyCode::Esc);
    let requests = ui.key(KeyCode::Enter);
    assert!(requests.contains(&UiRequest::Steer("one more".into())), "{requests:?}");
}

#[test]
fn agent_is_ended_alone_by_the_second_press() {
    let mut ui = Ui::new(80, 24);
    ten_agents(&mut ui);
    select(&mut ui, 2);
    assert_eq!(ui.types("x"), []);
    assert!(ui.screen().contains("x again ends auditor 2"), "{}", ui.screen());
    assert_eq!(ui.types("x"), [UiRequest::EndAgent("agent-2".into())]);
    // Another key between the two takes the first one back.
    ui.types("xj");
    assert_eq!(ui.types("kx"), []);
    end(&mut ui, 2, RunEnd::Aborted);
    ui.types("xx");
    assert!(ui.screen().contains("auditor 2 has ended"), "{}", ui.screen());
}

#[test]
fn resumed_conversation_has_its_tree_and_conversations() {
    let mut past = Vec::new();
    let mut add = |run: &str, kind| past.push(Event { run_id: run.into(), kind });
    add("run", agent_below("agent", None));
    add("run", end_of(Message::user("audit everything")));
    add("child", agent_below("auditor", Some("run")));
    add("child", end_of(Message::user("audit the parser")));
    let Message::Assistant(mut reply) = assistant(vec![Content::text("No panics.")]) else { unreachable!() };
    (reply.usage, reply.cost) = (usage(3), cost(1.0));
    add("child", end_of(Message::Assistant(reply)));
    let ended = |usage, cost| EventKind::AgentEnd { end: done(), messages: Vec::new(), usage, cost, turns: 1 };
    add("child", ended(usage(3), cost(1.0)));
    add("run", ended(usage(5), cost(2.0)));
    let page = AgentTree::of_past(&past).page();
    assert!(
        page.contains("| – auditor 1 | done | audit the parser | anthropic/claude | 1 | 3.0k | $0.010 |"),
        "{page}"
    );
    let mut ui = Ui::new(80, 24);
    ui.input(Input::Session(past));
    open(&mut ui);
    let screen = ui.screen();
    assert_screen("agents-resumed-80x24", &screen);
    ui.types("j");
    ui.key(KeyCode::Enter);
    assert!(ui.screen().contains("No panics."), "{}", ui.screen());
    ui.input(Input::Session(Vec::new()));
    assert!(!ui.screen().contains("No panics."), "{}", ui.screen());
}

#[test]
fn inline_form_shows_agents_on_a_separate_screen() {
    let mut ui = Ui::inline(80, 24);
    ten_agents(&mut ui);
    assert!(!ui.app.is_viewing());
    open(&mut ui);
    assert!(ui.app.is_viewing() && ui.screen().contains("10 agents"));
    ui.types("gj");
    ui.key(KeyCode::Enter);
    ui.press(KeyCode::End, KeyModifiers::CONTROL);
    assert!(ui.app.is_viewing() && ui.screen().contains("auditor 1 works"), "{}", ui.screen());
    ui.key(KeyCode::Esc);
    ui.key(KeyCode::Esc);
    assert!(!ui.app.is_viewing());
    let printed = ui.app.printed(80, 1_000, ui.now);
    assert!(printed.iter().any(|row| row.plain().contains("audit everything")));
}
