//! Themes on a real terminal: colours that suit its background, which it tells among the keys.

use pinion_tests::{Pinion, Terminal, say};
use std::process::Command;

const SIZE: (u16, u16) = (80, 24);
/// The question for the background.
const QUESTION: &str = "\x1b]11;?\x07";
/// The answer of a terminal with a white background.
const WHITE: &str = "\x1b]11;rgb:ffff/ffff/ffff\x07";
const BLACK: &str = "\x1b]11;rgb:0000/0000/0000\x1b\\";
/// The colours of the user's mark on a dark and on a light background.
const DARK: &str = "38;2;125;207;255";
const LIGHT: &str = "38;2;0;98;122";

fn conversation(pinion: &Pinion) -> Command {
    let script = pinion.script(&[say("finished"), say("again")]);
    let mut command = pinion.command(["--ui", "full", "--replay", script.to_str().unwrap(), "go"]);
    command.env("TERM", "xterm-256color").env("COLORTERM", "truecolor");
    command
}

#[test]
fn colours_follow_the_answer_of_the_terminal_and_keys_around_it_are_kept() {
    let pinion = Pinion::default();
    let mut terminal = Terminal::start(&conversation(&pinion), SIZE, "");
    assert!(!terminal.wait_for("finished").contains(LIGHT));
    terminal.wait_for(QUESTION);
    terminal.keys(&format!("good {WHITE}morning\r"));
    terminal.wait_for(LIGHT);
    terminal.wait_for("again");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && seen.contains("good morning") && !seen.contains("rgb"), "{seen}");
}

#[test]
fn background_is_asked_for_again_when_the_user_returns() {
    let pinion = Pinion::default();
    let mut command = conversation(&pinion);
    command.env("COLORFGBG", "15;0");
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for(DARK);
    terminal.wait_for("finished");
    // A terminal that does not answer is asked once.
    terminal.keys(&format!("\x1b[I{BLACK}"));
    // A user who comes back at once has changed nothing.
    terminal.keys("\x1b[O\x1b[Iseen");
    terminal.wait_for("seen");
    terminal.keys("\x15\x1b[I");
    terminal.wait_for_nth(QUESTION, 2);
    terminal.keys(WHITE);
    terminal.wait_for(LIGHT);
    let (status, seen) = terminal.exit();
    assert_eq!((status, seen.matches(QUESTION).count()), (Some(0), 2), "{seen}");
}

#[test]
fn theme_that_is_chosen_stays_whatever_the_terminal_answers() {
    let pinion = Pinion::default();
    pinion.config("[tui]\ntheme = \"dark\"\n");
    let mut terminal = Terminal::start(&conversation(&pinion), SIZE, "");
    terminal.wait_for("finished");
    terminal.keys(&format!("{WHITE}\x1b[I/theme auto\r"));
    terminal.wait_for(LIGHT);
    terminal.wait_for(QUESTION);
    let (status, seen) = terminal.exit();
    let before = seen.split_once(QUESTION).unwrap().0;
    assert!(status == Some(0) && before.contains(DARK), "{seen}");
}

#[test]
fn terminals_without_palettes_are_not_asked() {
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "linux"), ("COLORTERM", "")] {
        let pinion = Pinion::default();
        let mut command = conversation(&pinion);
        command.env("TERM", "xterm").env(name, value);
        let terminal = Terminal::start(&command, SIZE, "");
        terminal.wait_for("finished");
        let (status, seen) = terminal.exit();
        assert!(status == Some(0) && !seen.contains(QUESTION) && !seen.contains("38;2"), "{name}: {seen}");
    }
}

#[test]
fn choice_of_a_theme_says_how_long_it_lasts() {
    let pinion = Pinion::default();
    let mut terminal = Terminal::start(&conversation(&pinion), (200, 24), "");
    terminal.wait_for("finished");
    terminal.keys("/theme light\r");
    terminal.wait_for("theme `light` in this conversation; `/keep theme` keeps it for all");
    terminal.keys("/theme auto\r");
    terminal.wait_for("theme `auto`, as in every conversation");
    assert_eq!(terminal.exit().0, Some(0));
}
