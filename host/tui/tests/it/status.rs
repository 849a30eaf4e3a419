//! The status line, and the output around the screen.

use crate::ui::{Ui, agent_start, assistant, done, end_of};
use pinion_protocol::{Content, EventKind, Message, Thinking, TurnTrigger};
use pinion_tui::{Activity, App, Facts, Input, StatusSegment, Theme, UiSettings};
use ratatui_core::style::Color;
use serde_json::json;

/// Shows facts on the status line in colours.
fn with_facts(change: impl FnOnce(Facts) -> Facts) -> Ui {
    let mut ui = Ui::new(80, 24);
    let facts = change(ui.app.facts().clone());
    ui.app = App::new(UiSettings { theme: Theme::colours(), ..UiSettings::default() });
    ui.input(Input::Facts(facts));
    ui
}

#[test]
fn gauge_is_green_then_yellow_then_red() {
    for (share, colour) in
        [(59, Color::Green), (60, Color::Yellow), (85, Color::Yellow), (86, Color::Red), (120, Color::Red)]
    {
        let mut ui = with_facts(|facts| Facts { context: share * 2_000, ..facts });
        let (buffer, _) = ui.buffer();
        let row: String = (0..80).map(|x| buffer[(x, 23)].symbol()).collect();
        let at = row.find(&format!("{share} % of 200 k")).unwrap_or_else(|| panic!("{row}"));
        let x = u16::try_from(row[..at].chars().count()).unwrap();
        assert_eq!(buffer[(x, 23)].fg, colour, "{share} %");
    }
}

#[test]
fn gauge_shows_the_assumed_window_of_an_unknown_model() {
    let unknown = |assumed_window| move |facts| Facts { context: 12_800, window: None, assumed_window, ..facts };
    assert!(with_facts(unknown(Some(128_000))).screen().contains("· 10 % of 128 k? ·"));
    assert!(with_facts(unknown(None)).screen().contains("· 12 k in context ·"));
}

#[test]
fn narrow_status_line_keeps_what_matters_in_its_order() {
    let mut ui = with_facts(|facts| Facts { network: Some("network on".into()), ..facts });
    let last = |ui: &mut Ui| ui.screen().lines().next_back().unwrap().to_owned();
    let wide =
        "anthropic/claude · asks · 36 % of 200 k · 120 k tokens · 80 % cached · $0.42 · network on · main · ~/project";
    ui.size = (120, 24);
    assert_eq!(last(&mut ui), wide);
    ui.size = (60, 24);
    assert_eq!(last(&mut ui), "anthropic/claude · asks · 36 % of 200 k · $0.42 · network on");
    ui.size = (10, 24);
    assert_eq!(last(&mut ui), "anthropic…");
}

#[test]
fn bar_of_the_context_has_a_mark_where_the_conversation_is_summarized() {
    let bar = |context, compacts_at| {
        let mut ui = Ui::new(80, 24);
        ui.app = App::new(UiSettings { status: vec![StatusSegment::ContextBar], ..UiSettings::default() });
        let facts = ui.app.facts().clone();
        ui.input(Input::Facts(Facts { context, window: Some(200_000), compacts_at, ..facts }));
        ui.screen().lines().next_back().unwrap().to_owned()
    };
    assert_eq!(bar(0, None), "░░░░░░░░░░");
    assert_eq!(bar(72_000, Some(160_000)), "████░░░┆░░");
    assert_eq!(bar(170_000, Some(160_000)), "█████████░");
    assert_eq!(bar(900_000, Some(200_000)), "██████████");
    // Without a known window there is no bar.
    let mut ui = with_facts(|facts| Facts { window: None, assumed_window: None, ..facts });
    ui.size = (200, 24);
    assert!(!ui.screen().contains('░'));
}

#[test]
fn speed_of_the_last_message_is_shown() {
    let mut ui = Ui::new(80, 24);
    ui.app = App::new(UiSettings { status: vec![StatusSegment::Speed], ..UiSettings::default() });
    ui.start("go");
    ui.text("four");
    ui.wait(1_000);
    ui.text(&"four".repeat(99));
    ui.wait(1_000);
    ui.reply(vec![Content::text("four".repeat(100))]);
    assert!(ui.screen().ends_with("\n50 tokens/s"), "{}", ui.screen());
    // The time of tools does not count, and a short message does not tell.
    ui.event(EventKind::TurnStart { turn: 2, trigger: TurnTrigger::Continuation });
    ui.text("short");
    ui.reply(vec![Content::text("short")]);
    ui.end(done());
    assert!(ui.screen().ends_with("\n50 tokens/s"), "{}", ui.screen());
}

#[test]
fn retry_never_waits_for_zero_seconds() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ui.event(EventKind::Retry { attempt: 1, max_attempts: 3, delay_ms: 1_200, cause: "busy".into() });
    assert!(ui.screen().contains("retrying in 2 s"), "{}", ui.screen());
    ui.wait(1_100);
    assert!(ui.screen().contains("retrying in 1 s"), "{}", ui.screen());
    ui.wait(200);
    assert!(ui.screen().contains(" retrying · "), "{}", ui.screen());
}

#[test]
fn activity_is_known_outside_of_the_screen() {
    let mut ui = Ui::new(80, 24);
    assert_eq!(ui.app.activity(), (Activity::Idle, "~/project"));
    ui.start("go");
    assert_eq!(ui.app.activity().0, Activity::Working);
    ui.ask("bash", json!({ "command": "ls" }));
    assert_eq!(ui.app.activity().0, Activity::Asking);
    ui.input(Input::Withdrawn(7));
    ui.end(done());
    assert_eq!(ui.app.activity().0, Activity::Idle);
}

#[test]
fn long_work_ends_with_what_it_took() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ui.wait(12_000);
    let usage = pinion_protocol::Usage { input: 4_000, output: 200, ..Default::default() };
    let (end, messages) = (done(), Vec::new());
    ui.event(EventKind::AgentEnd { end, messages, usage, cost: None, turns: 3 });
    ui.input(Input::Finished);
    assert!(ui.screen().contains("\n· 3 turns · 4.2 k tokens · 12 s\n"), "{}", ui.screen());
    ui.start("again");
    ui.end(done());
    assert!(!ui.screen().contains("1 turn"), "{}", ui.screen());
}

#[test]
fn thinking_and_results_are_always_shown_if_the_user_wants_it() {
    let mut ui = Ui::new(80, 24);
    ui.app = App::new(UiSettings { has_thinking: true, is_unfolded: true, ..UiSettings::default() });
    ui.start("go");
    let text = "First.\n\nThen.".to_owned();
    ui.reply(vec![Content::Thinking(Thinking { text, signature: None, redacted: false })]);
    ui.call("1", "read", json!({ "path": "a" }));
    ui.result("1", "read", false, "line one\nline two");
    let screen = ui.screen();
    assert!(screen.contains("∴ First.\n\n  Then.") && screen.contains("\n    line two\n"), "{screen}");
    ui.ctrl('t');
    ui.ctrl('o');
    let screen = ui.screen();
    assert!(!screen.contains("  Then.") && !screen.contains("line two"), "{screen}");
}

#[test]
fn thinking_shows_no_marks_of_emphasis() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    let text = "I should **look** at it first.\n\n*Then* more.".to_owned();
    ui.reply(vec![Content::Thinking(Thinking { text, signature: None, redacted: false })]);
    assert!(ui.screen().contains("∴ thought: I should look at it first.\n"), "{}", ui.screen());
    ui.ctrl('t');
    assert!(ui.screen().contains("∴ I should look at it first.\n\n  Then more."), "{}", ui.screen());
}

#[test]
fn marks_do_not_move_with_reduced_motion() {
    let marks = |has_reduced_motion| {
        let mut ui = Ui::new(80, 24);
        ui.app = App::new(UiSettings { has_reduced_motion, ..UiSettings::default() });
        ui.start("go");
        ui.call("1", "bash", json!({ "command": "make" }));
        [0, 1_000, 250, 1_750].map(|time| {
            ui.wait(time);
            let is_mark = |c: &char| ('\u{2800}'..='\u{28ff}').contains(c);
            ui.screen().chars().filter(is_mark).collect::<String>()
        })
    };
    assert_eq!(marks(true), ["⠋⠋"; 4]);
    assert_eq!(marks(false), ["⠋⠋", "⠋⠋", "⠹⠹", "⠋⠋"]);
}

#[test]
fn page_that_is_higher_than_the_screen_begins_at_its_top() {
    let mut ui = Ui::new(60, 16);
    ui.start("go");
    ui.reply(vec![Content::text("hay\n\n".repeat(30))]);
    ui.end(done());
    ui.screen();
    ui.input(Input::Page((0..40).map(|n| format!("- row {n}\n")).collect()));
    let screen = ui.screen();
    assert!(screen.starts_with("  • row 0\n") && screen.contains("scrolled up"), "{screen}");
    ui.press(crossterm::event::KeyCode::End, crossterm::event::KeyModifiers::CONTROL);
    assert!(ui.screen().contains("• row 39"), "{}", ui.screen());
    ui.input(Input::Page("short".into()));
    assert!(ui.screen().contains("  short\n"), "{}", ui.screen());
    // The next message is seen.
    ui.send("next");
    ui.event(agent_start("agent"));
    ui.event(end_of(Message::user("next")));
    ui.event(end_of(assistant(vec![Content::text("the end")])));
    assert!(ui.screen().contains("the end"), "{}", ui.screen());
}

#[test]
fn code_block_is_copied_without_its_marks() {
    let mut ui = Ui::new(80, 24);
    let copied = |requests: Vec<pinion_tui::UiRequest>| {
        requests.into_iter().find_map(|request| match request {
            pinion_tui::UiRequest::Copy(text) => Some(text),
            _ => None,
        })
    };
    let x = crossterm::event::KeyCode::Char('x');
    assert_eq!(copied(ui.press(x, crossterm::event::KeyModifiers::ALT)), None);
    ui.start("go");
    ui.reply(vec![Content::text("One:\n\n```sh\nls -l\n```\n\nTwo:\n\n```rust\nfn f() {\n    g();\n}\n```\n")]);
    ui.end(done());
    ui.start("more");
    ui.reply(vec![Content::text("No code.")]);
    ui.end(done());
    let last = Some("fn f() {\n    g();\n}\n".to_owned());
    assert_eq!(copied(ui.press(x, crossterm::event::KeyModifiers::ALT)), last);
    assert_eq!(copied(ui.send("/copy code")), last);
    assert_eq!(copied(ui.send("/copy code 2")), Some("ls -l\n".to_owned()));
    assert_eq!(copied(ui.send("/copy code 3")), None);
    assert!(ui.screen().contains("no such code block"), "{}", ui.screen());
}

#[test]
fn colours_of_programs_are_shown_and_their_other_sequences_are_text() {
    let mut ui = Ui::new(80, 24);
    ui.app = App::new(UiSettings { theme: Theme::colours(), ..UiSettings::default() });
    ui.start("go");
    ui.call("1", "bash", json!({ "command": "test" }));
    ui.result("1", "bash", true, "\x1b[31mFAILED\x1b[0m one \x1b[2J\n");
    let (buffer, _) = ui.buffer();
    let text = pinion_tui::text_of(&buffer);
    let at = text.lines().position(|row| row == "    FAILED one ␛[2J").unwrap_or_else(|| panic!("{text}"));
    let y = u16::try_from(at).unwrap();
    assert_eq!((buffer[(4, y)].fg, buffer[(11, y)].fg), (Color::Red, Color::Reset));
}

#[test]
fn age_of_the_cache_is_shown_by_the_minute() {
    let mut ui = Ui::new(80, 24);
    ui.app = App::new(UiSettings {
        theme: Theme::colours(),
        status: vec![StatusSegment::CacheAge],
        ..UiSettings::default()
    });
    let last = |ui: &mut Ui| ui.screen().split('\n').next_back().unwrap_or_default().to_owned();
    assert_eq!(last(&mut ui), "");
    ui.start("go");
    let Message::Assistant(mut reply) = assistant(vec![Content::text("done")]) else { unreachable!() };
    reply.usage.cache_read = 1_000;
    ui.event(end_of(Message::Assistant(reply)));
    ui.end(done());
    assert_eq!(last(&mut ui), "cached just now");
    ui.wait(70_000);
    assert_eq!(last(&mut ui), "cached 1 min ago");
    assert_eq!(ui.app.deadline(ui.now).map(|at| (at - ui.now).as_secs()), Some(50));
    let colour = |ui: &mut Ui| ui.buffer().0[(0, 23)].fg;
    assert_ne!(colour(&mut ui), Color::Yellow);
    ui.wait(4 * 60_000);
    assert_eq!((last(&mut ui).as_str(), colour(&mut ui)), ("cached 5 min ago", Color::Yellow));
    ui.wait(60 * 60_000);
    assert_eq!((last(&mut ui).as_str(), ui.app.deadline(ui.now)), ("cached over 1 h ago", None));
    // Another model has a separate cache.
    ui.input(Input::Facts(Facts { model: "other/model".into(), ..Facts::default() }));
    assert_eq!(last(&mut ui), "");
}

#[test]
fn row_of_the_work_counts_turns_where_there_is_room() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    let row = |ui: &mut Ui| {
        let screen = ui.screen();
        screen.lines().find(|row| row.contains(" s ·")).unwrap_or_else(|| panic!("{screen}")).to_owned()
    };
    assert!(row(&mut ui).ends_with(" waiting for the model · 0 s · turn 1 · esc interrupts"));
    ui.event(EventKind::TurnStart { turn: 12, trigger: TurnTrigger::Continuation });
    ui.text(&"four".repeat(30));
    assert!(row(&mut ui).ends_with(" writing · 0 s · turn 12 · ↓ 30 tokens · esc interrupts"));
    // The key is the last to go.
    ui.size = (40, 10);
    assert!(row(&mut ui).ends_with(" writing · 0 s · esc interrupts"), "{}", row(&mut ui));
    ui.size = (36, 10);
    assert!(row(&mut ui).ends_with(" writing · 0 s · esc interrupts"));
}
