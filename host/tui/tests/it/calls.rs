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
            child_loop_id: None,
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
    let failure = (0..6).map(|n| format!("  │   error {n}")).chain(["  │   … 14 more".to_owned()]);
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
