//! Tests of the editor.

use super::*;
use crate::rows::width;
use proptest::prelude::*;

fn composer(text: &str, columns: usize) -> Composer {
    let mut composer = Composer::default();
    composer.insert(text);
    composer.draw(columns, 10, Style::new(), None);
    composer
}

fn to_end(composer: &mut Composer) {
    composer.set_cursor(composer.text().len());
}

fn drawn(composer: &mut Composer, columns: usize) -> (Vec<String>, (usize, usize)) {
    let drawn = composer.draw(columns, 10, Style::new(), None);
    (drawn.rows.iter().map(Row::plain).collect(), drawn.cursor)
}

#[test]
fn rows_wrap_at_blanks_and_the_cursor_follows() {
    let mut composer = composer("one two three", 9);
    assert_eq!(drawn(&mut composer, 9), (vec!["one two ".into(), "three".into()], (1, 5)));
    composer.move_up();
    assert_eq!(drawn(&mut composer, 9).1, (0, 5));
    composer.down();
    assert_eq!(drawn(&mut composer, 9).1, (1, 5));
}

#[test]
fn column_is_kept_over_shorter_rows() {
    let mut composer = composer("abcdef\nx\nabcdef", 40);
    composer.move_up();
    composer.move_up();
    assert_eq!(drawn(&mut composer, 40).1, (0, 6));
}

#[test]
fn pasted_block_is_one_sign_that_opens() {
    let mut composer = Composer::default();
    composer.insert("see ");
    composer.paste("1\r\n2\n3\n4\n5\n6\n");
    assert_eq!(drawn(&mut composer, 40).0, ["see [pasted 6 lines]"]);
    assert_eq!(composer.message(), "see 1\n2\n3\n4\n5\n6\n");
    assert_eq!(composer.open_block(), Ok(()));
    assert_eq!(composer.text(), "see 1\n2\n3\n4\n5\n6\n");
    composer.undo();
    composer.delete(Motion::Left);
    assert_eq!(composer.text(), "see ");
}

#[test]
fn megabyte_is_pasted_as_a_block() {
    let mut composer = Composer::default();
    composer.paste(&"0123456789abcdef\n".repeat(65_536));
    assert_eq!(composer.text().chars().count(), 1);
    assert_eq!(composer.open_block(), Err(Unopened { bytes: 17 * 65_536 }));
    assert_eq!(composer.take_message().len(), 17 * 65_536);
}

#[test]
fn history_keeps_what_was_being_written() {
    let mut composer = Composer::default();
    composer.set_history(vec!["first".into(), "second".into()]);
    composer.insert("draft");
    composer.draw(40, 5, Style::new(), None);
    assert!(composer.move_up() && composer.text() == "second");
    assert!(composer.move_up() && composer.text() == "first" && !composer.move_up());
    assert!(composer.down() && composer.down() && composer.text() == "draft");
}

#[test]
fn block_that_was_cut_is_pasted_again_in_later_messages() {
    let block = |name: &str| format!("{name}\n").repeat(12);
    let mut composer = Composer::default();
    composer.paste(&block("A"));
    composer.kill(Motion::LineStart);
    composer.paste(&block("B"));
    assert_eq!(composer.take_message(), block("B"));
    composer.paste(&block("C"));
    composer.yank();
    assert_eq!(composer.take_message(), block("C") + &block("A"));
    // A cleared block comes back as it was, and not as thousands of rows.
    composer.paste(&block("D"));
    composer.discard();
    composer.yank();
    assert_eq!(composer.text().chars().count(), 1);
    assert_eq!(composer.message(), block("D"));
    let kept: Vec<&str> = composer.buffer.kills().collect();
    assert_eq!(kept.len(), 2);
}

#[test]
fn draft_with_a_block_survives_a_look_at_the_history() {
    let mut composer = Composer::default();
    composer.set_history(vec!["earlier".into()]);
    composer.paste(&"line\n".repeat(12));
    composer.draw(40, 5, Style::new(), None);
    assert!(composer.move_up() && composer.text() == "earlier" && composer.down());
    assert_eq!((composer.text().chars().count(), composer.message().len()), (1, 60));
}

proptest! {
    #[test]
    fn yank_inserts_what_was_cut_whatever_happened_meanwhile(steps in prop::collection::vec((0_u8..6, 0_usize..3), 0..30)) {
        let mut composer = Composer::default();
        let mut cut: Option<String> = None;
        for (step, size) in steps {
            let text = ["word ".to_owned(), "line\n".repeat(8 + size), "x".repeat(MAX_OPEN + 1 + size)][size].clone();
            match step {
                0 => drop(composer.paste(&text)),
                1 => drop(composer.take_message()),
                2 if !composer.is_empty() => {
                    cut = Some(composer.message());
                    composer.discard();
                }
                3 => {
                    to_end(&mut composer);
                    let (text, message) = (composer.text().to_owned(), composer.message());
                    composer.kill(Motion::Left);
                    let left = composer.message();
                    // Two kills in a row are one text.
                    to_end(&mut composer);
                    cut = if text.is_empty() { cut } else { Some(message[left.len()..].to_owned()) };
                }
                4 => {
                    to_end(&mut composer);
                    let before = composer.message();
                    composer.yank();
                    prop_assert_eq!(composer.message(), before + cut.as_deref().unwrap_or_default());
                }
                _ => {
                    composer.keep(&text);
                    cut = Some(text);
                }
            }
            prop_assert!(composer.text().len() < 4 * MAX_OPEN);
        }
    }

    #[test]
    fn cursor_is_always_on_the_screen(
        text in "([a-c \t\n]|\\PC|[世👩\u{200d}\x1b]){0,60}", columns in 1_usize..30, height in 1_usize..6,
        keys in prop::collection::vec(0_u8..8, 0..20),
    ) {
        let mut composer = Composer::default();
        composer.paste(&text);
        for key in keys {
            match key {
                0 => drop(composer.move_up()),
                1 => drop(composer.down()),
                2 => composer.move_cursor(Motion::Left),
                3 => composer.move_cursor(Motion::WordLeft),
                4 => composer.insert("x"),
                5 => composer.undo(),
                6 => drop(composer.open_block()),
                _ => composer.move_cursor(Motion::LineStart),
            }
            let drawn = composer.draw(columns, height, Style::new(), None);
            prop_assert!(drawn.rows.len() <= height && drawn.cursor.0 < drawn.rows.len());
            prop_assert!(drawn.cursor.1 < columns.max(1));
            prop_assert!(drawn.rows.iter().all(|row| width(&row.plain()) < columns.max(6)), "{:?}", drawn.rows);
        }
    }
}
