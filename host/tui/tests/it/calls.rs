//! The rows of calls and of sub-agents' calls.

use crate::ui::{Ui, agent_start};
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_protocol::{Content, Display, EventKind, Ledger};
use serde_json::json;

/// Returns the row of the screen with this text.
fn row(ui: &mut Ui, text: &str) -> String {
    let screen = ui.screen();
    let found = screen.lines().find(|line| line.contains(text));
    found.unwrap_or_else(|| panic!("no {text:?} in {screen}")).trim().to_owned()
}

#[test]
fn deep_path_keeps_the_name_of_its_file() {
    let deep = "/home/me/work/company/packages/app/src/components/forms/Button/Button.tsx";
    let wide = "/家/我/工作/公司/软件包/应用/源代码/组件/表单/按钮/其他/更多/按钮说明.tsx";
    for (columns, path, shown) in [
        (80, deep, "✓ read /home/me/work/company/packages/a…ponents/forms/Button/Button.tsx  2 lines"),
        (40, deep, "✓ read /home/me/wor…/Button.tsx  2 lines"),
        (80, wide, "✓ read /家/我/工作/公司/软件包/应用/源…单/按钮/其他/更多/按钮说明.tsx  2 lines"),
        (40, wide, "✓ read /家/我/工…/按钮说明.tsx  2 lines"),
    ] {
        let mut ui = Ui::new(columns, 24);
        ui.start("go");
        ui.call("1", "read", json!({ "path": path }));
        ui.result("1", "read", false, "a\nb");
        assert_eq!(row(&mut ui, "✓ read"), shown);
    }
}

#[test]
fn deep_path_leaves_room_for_what_follows() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    let path = "/home/me/work/company/packages/app/src/components/forms/Button/Button.tsx";
    ui.call("1", "read", json!({ "path": path, "offset": 100, "limit": 50 }));
    ui.event_of("a", agent_start("reader"));
    let arguments = json!({ "path": path });
    ui.event_of("a", EventKind::ToolExecutionStart { call_id: "x".into(), tool: "read".into(), arguments });
    let expected = "⠋ read /home/me/work/company/…orms/Button/Button.tsx · offset: 100 · limit: 50";
    assert_eq!(row(&mut ui, "⠋ read"), expected);
    assert_eq!(
        row(&mut ui, "◇ reader"),
        "◇ reader · read /home/me/work/company/packages/…onents/forms/Button/Button.tsx"
    );
    ui.ctrl('o');
    assert_eq!(row(&mut ui, "├ ○"), "├ ○ read /home/me/work/company/packages/ap…omponents/forms/Button/Button.tsx");
}

/// Runs a call of a sub-agent.
fn agent_call(ui: &mut Ui, id: &str, command: &str, is_error: bool, text: &str) {
    let (call_id, tool) = (id.to_owned(), "bash".to_owned());
    let arguments = json!({ "command": command });
    ui.event_of("a", EventKind::ToolExecutionStart { call_id: call_id.clone(), tool: tool.clone(), arguments });
    let ledger = Ledger { plugin: "shell".into(), granted: vec!["run programs".into()], ..Ledger::default() };
    ui.event_of(
        "a",
        EventKind::ToolExecutionEnd {
            call_id,
            tool,
            is_error,
            content: vec![Content::text(text)],
            details: None,
            display: Display::Plain,
            ledger: Some(ledger),
            child_run_id: None,
        },
    );
}

#[test]
fn sub_agents_calls_show_their_failures_and_what_they_used() {
    let mut ui = Ui::new(80, 30);
    ui.start("go");
    ui.event_of("a", agent_start("builder"));
    let text: String = (0..20).map(|n| format!("\x1b[31merror {n}\n")).collect();
    agent_call(&mut ui, "1", "make", true, &text);
    agent_call(&mut ui, "2", "ls", false, "the result");
    let shown = |ui: &mut Ui| {
        let screen = ui.screen();
        let of_agent = screen.lines().skip_while(|line| !line.contains('◇')).take_while(|line| !line.is_empty());
        of_agent.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(shown(&mut ui), ["  ◇ builder · bash ls"]);
    ui.ctrl('o');
    let line = |n: usize| format!("  │   error {n}");
    let failure = (0..2).map(line).chain(["  │   … 14 more lines".to_owned()]).chain((16..20).map(line));
    let failure: Vec<String> = ["  ◇ builder · bash ls", "  │ anthropic/claude", "  ├ ✗ bash make"]
        .map(str::to_owned)
        .into_iter()
        .chain(failure)
        .collect();
    assert_eq!(shown(&mut ui), [failure.clone(), vec!["  ├ ✓ bash ls".to_owned()]].concat());
    ui.press(KeyCode::Char('l'), KeyModifiers::ALT);
    let used = ["  │   shell #0 · 0.00 ms · 0 fuel · 0 B memory · 0 host calls", "  │   may run programs"];
    let used = used.map(str::to_owned).to_vec();
    assert_eq!(shown(&mut ui), [failure, used.clone(), vec!["  ├ ✓ bash ls".to_owned()], used].concat());
}

/// Runs a program that ends with this exit code. Returns the rows of its call.
fn program(columns: u16, code: i32, output: &str) -> Vec<String> {
    let mut ui = Ui::new(columns, 40);
    ui.start("go");
    ui.call("1", "bash", json!({ "command": "make" }));
    ui.event(EventKind::ToolExecutionEnd {
        call_id: "1".into(),
        tool: "bash".into(),
        is_error: false,
        content: vec![Content::text(output)],
        details: Some(json!({ "exit_code": code, "signal": null, "success": code == 0 })),
        display: Display::Plain,
        ledger: None,
        child_run_id: None,
    });
    let screen = ui.screen();
    let rows = screen.lines().skip_while(|line| !line.contains("bash make")).take_while(|line| !line.is_empty());
    rows.map(|row| row.trim_end().to_owned()).collect()
}

#[test]
fn failed_program_shows_its_end_its_status_and_hints() {
    let tests: String = (1..=200).map(|n| format!("test t{n} ... ok\n")).collect();
    let output = format!("{tests}t201 FAILED: left 1 right 2\n[exit code 101]\nhint: run it again");
    let expected = [
        "✗ bash make  exit 101, 202 lines",
        "    test t1 ... ok",
        "    test t2 ... ok",
        "    … 196 more lines",
        "    test t199 ... ok",
        "    test t200 ... ok",
        "    t201 FAILED: left 1 right 2",
        "    hint: run it again",
    ];
    assert_eq!(program(80, 101, &output), expected);
    // A hint in the middle and one that is longer than a row are shown whole.
    let output =
        format!("a\nb\n{}hint: `/net allow crates.io` lets programs reach it\n{}", "c\n".repeat(9), "d\n".repeat(9));
    let shown = program(40, 1, &output);
    let expected = ["    … 14 more lines", "    hint: `/net allow crates.io` lets", "    programs reach it"];
    assert_eq!(shown[3..6], expected, "{shown:#?}");
    // Of a long line, a few rows are shown.
    let shown = program(40, 1, &"word ".repeat(1_000));
    assert_eq!(shown.len(), 4, "{shown:#?}");
    assert!(shown[3].ends_with('…'), "{shown:#?}");
    assert_eq!(program(80, 3, "[exit code 3]"), ["✗ bash make  exit 3"]);
}

#[test]
fn successful_program_shows_its_line_or_its_last_lines() {
    assert_eq!(program(80, 0, "\x1b[32mhi\x1b[0m\n"), ["✓ bash make  → hi"]);
    assert_eq!(program(80, 0, "one\ntwo\n"), ["✓ bash make  2 lines", "    one", "    two"]);
    let output: String = (1..=90).map(|n| format!("line {n}\n")).collect();
    assert_eq!(program(80, 0, &output), ["✓ bash make  90 lines", "    line 88", "    line 89", "    line 90"]);
    let shown = program(40, 0, &"word ".repeat(100));
    assert!(shown.len() == 1 && shown[0].ends_with('…'), "{shown:?}");
}
