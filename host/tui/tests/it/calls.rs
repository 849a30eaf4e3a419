//! The rows of calls and of sub-agents' calls.

use crate::ui::{Ui, agent_start};
use pinion_protocol::EventKind;
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
