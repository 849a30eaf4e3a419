//! Highlighted code.

use crate::ui::{Ui, done, ended};
use pinion_protocol::{Content, Display};
use pinion_tui::{Buffer, Input, Theme, UiSettings};
use ratatui_core::style::Color;
use serde_json::json;

/// Returns the colour of the first cell of a text on the screen.
fn colour_of(buffer: &Buffer, text: &str) -> Color {
    let area = buffer.area();
    for y in area.y..area.bottom() {
        let row: String = (area.x..area.right()).map(|x| buffer[(x, y)].symbol()).collect();
        if let Some(at) = row.find(text) {
            let x = u16::try_from(row[..at].chars().count()).unwrap();
            return buffer[(x, y)].fg;
        }
    }
    panic!("`{text}` is not on the screen")
}

fn coloured() -> Ui {
    let mut ui = Ui::new(80, 24);
    ui.app = pinion_tui::App::new(UiSettings { theme: Theme::colours(), ..UiSettings::default() });
    ui
}

#[test]
fn code_is_highlighted_as_it_grows() {
    let mut ui = coloured();
    ui.start("write it");
    ui.text("```rust\nfn one() {}\nlet");
    let (buffer, _) = ui.buffer();
    let keyword = colour_of(&buffer, "fn one");
    assert_ne!(keyword, colour_of(&buffer, "one()"));
    ui.text(" two = \"text\";\n```\n");
    let (buffer, _) = ui.buffer();
    assert_eq!(colour_of(&buffer, "let two"), keyword);
    assert_eq!(colour_of(&buffer, "\"text\""), Color::Green);
}

#[test]
fn frame_does_not_wait_for_the_parts_of_code() {
    let mut ui = coloured();
    ui.start("write it");
    ui.reply(vec![Content::text("```python\nx = 1\n```\n\n```rust\nlet x = 1;\n```\n")]);
    ui.end(done());
    let mut buffer = Buffer::empty(pinion_tui::Rect::new(0, 0, 80, 24));
    ui.app.draw(&mut buffer, ui.now);
    assert_eq!(colour_of(&buffer, "let x"), colour_of(&buffer, "x = 1"));
    assert!(ui.app.unlit().is_some() && ui.app.unlit().is_none());
}

#[test]
fn long_block_is_labelled_once_and_highlighted_throughout() {
    let mut ui = coloured();
    ui.size = (80, 200);
    ui.start("write it");
    ui.text(&format!("```rust\n{}```\n", "let x = 1;\n".repeat(150)));
    let (buffer, _) = ui.buffer();
    let text = pinion_tui::text_of(&buffer);
    assert_eq!((text.matches("rust").count(), text.matches("let x = 1;").count()), (1, 150));
    let keywords = (0..200).filter(|y| buffer[(4, *y)].symbol() == "l" && buffer[(4, *y)].fg == Color::Magenta);
    assert_eq!(keywords.count(), 150);
}

#[test]
fn colours_are_gone_without_them() {
    let mut ui = Ui::new(80, 24);
    ui.input(Input::Page("```rust\nlet x = \"text\";\n```".into()));
    let (buffer, _) = ui.buffer();
    assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}

#[test]
fn file_that_was_read_is_highlighted_beside_its_numbers() {
    let mut ui = coloured();
    ui.start("read it");
    ui.call("1", "read", json!({ "path": "main.rs" }));
    ui.event(ended(
        "1",
        "main.rs: lines 1-2 of 2\n     1\tfn main() {}\n     2\t// end\n",
        Display::Code("rs".into()),
        Vec::new(),
    ));
    ui.ctrl('o');
    let read = ui.buffer().0;
    let mut ui = coloured();
    ui.start("write it");
    ui.reply(vec![Content::text("```rs\nfn main() {}\n// end\n```")]);
    let written = ui.buffer().0;
    for text in ["fn", "main() {}", "// end"] {
        assert_eq!(colour_of(&read, text), colour_of(&written, text), "{text}");
    }
    assert_ne!(colour_of(&read, "fn"), colour_of(&read, "// end"));
    let remark = ["main.rs: lines", "1-2", "of 2"].map(|text| colour_of(&read, text));
    assert!(remark.iter().all(|colour| *colour == remark[0]), "{remark:?}");
}
