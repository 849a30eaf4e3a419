//! The UI in tmux: new sizes, every key, large pastes, suspension and the loss of the terminal.

use pinion_tests::{Pinion, Tmux, say, wait_until};
use serde_json::{Value, json};
use std::process::Command;

pub(crate) const SIZE: (u16, u16) = (80, 24);
/// Words of the status line.
pub(crate) const STATUS: &str = "replay/script";
pub(crate) const WORDS: &str = "some words that take more than one row on most terminals, or two";

pub(crate) fn conversation(pinion: &Pinion, form: &str, replies: &[Value], prompt: &[&str]) -> Command {
    let script = pinion.script(replies);
    let options = ["--ui", form, "--approve", "ask", "--replay", script.to_str().unwrap()];
    pinion.default_command(options.iter().chain(prompt))
}

/// Waits until a rule is as wide as the terminal and the status line is there.
fn wait_for_width(tmux: &Tmux, columns: u16) {
    let is_rule = |row: &String| row.chars().count() == usize::from(columns) && row.chars().all(|c| c == '─');
    tmux.wait_for(&format!("the UI has {columns} columns"), |rows| {
        rows.iter().any(is_rule) && rows.iter().any(|row| row.starts_with(STATUS))
    });
}

pub(crate) fn change_sizes(tmux: &Tmux) {
    for (columns, rows) in [(50, 24), (110, 30), (33, 20), (80, 12), (60, 40), (80, 24)] {
        tmux.resize((columns, rows));
        wait_for_width(tmux, columns);
    }
    // Faster than frames are drawn.
    for columns in (40..80).rev().chain(40..=90) {
        tmux.resize((columns, 24));
    }
    wait_for_width(tmux, 90);
}

pub(crate) fn paragraphs() -> Value {
    say(&(0..12).map(|n| format!("Paragraph {n}: {WORDS}, end of {n}.\n\n")).collect::<String>())
}

#[test]
fn new_sizes_leave_every_row_of_the_inline_form_once() {
    let pinion = Pinion::default();
    let command = conversation(&pinion, "inline", &[paragraphs(), say("the last answer")], &["go"]);
    let Some(tmux) = Tmux::start(&command, SIZE) else { return };
    tmux.wait_for_text("end of 11.");
    change_sizes(&tmux);
    tmux.types("next\r");
    tmux.wait_for_text("the last answer");
    let text = tmux.scrollback().join("\n");
    for n in 0..12 {
        assert_eq!(text.matches(&format!("Paragraph {n}: ")).count(), 1, "{n}: {text}");
        assert_eq!(text.matches(&format!("end of {n}.")).count(), 1, "{n}: {text}");
    }
    let order = ["› go", "end of 11.", "› next", "the last answer", STATUS].map(|words| text.rfind(words));
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?} in {text}");
}

#[test]
fn new_sizes_of_the_full_screen_wrap_everything_again() {
    let pinion = Pinion::default();
    let Some(tmux) = Tmux::start(&conversation(&pinion, "full", &[paragraphs()], &["go"]), SIZE) else { return };
    tmux.wait_for_text("end of 11.");
    change_sizes(&tmux);
    let rows = tmux.screen();
    // Three rows less are enough for two paragraphs in 90 columns, and the screen shows the end.
    assert!(rows.iter().any(|row| row == &format!("  Paragraph 11: {WORDS}, end of")), "{rows:?}");
    assert_eq!(rows.iter().filter(|row| row.starts_with(STATUS)).count(), 1, "{rows:?}");
    tmux.press("C-d");
    tmux.wait_for_text("Resume with");
    // tmux keeps rows of an alternate screen that gets lower.
    let text = tmux.scrollback().join("\n").rsplit_once("› go").unwrap().1.to_owned();
    assert!((0..12).all(|n| text.matches(&format!("Paragraph {n}: ")).count() == 1), "{text}");
}

/// Keys of the editor with the message that they make of `one two three`, where `X` is typed after them.
const EDITING: &[(&str, &str)] = &[
    ("C-a X", "Xone two three"),
    ("Home X", "Xone two three"),
    ("C-a C-e X", "one two threeX"),
    ("C-a End X", "one two threeX"),
    ("Left X", "one two threXe"),
    ("C-b X", "one two threXe"),
    ("C-a Right X", "oXne two three"),
    ("C-a C-f X", "oXne two three"),
    ("M-b X", "one two Xthree"),
    ("C-Left X", "one two Xthree"),
    ("M-Left X", "one two Xthree"),
    ("C-a M-f X", "oneX two three"),
    ("C-a C-Right X", "oneX two three"),
    ("C-a M-Right X", "oneX two three"),
    ("BSpace X", "one two threX"),
    ("C-h X", "one two threX"),
    ("C-a DC X", "Xne two three"),
    ("C-w X", "one two X"),
    ("M-BSpace X", "one two X"),
    ("M-b C-k X", "one two X"),
    ("M-b C-u X", "Xthree"),
    ("C-a M-d X", "X two three"),
    ("C-w C-a C-y X", "threeXone two"),
    ("C-w X C-w C-y M-y X", "one two threeX"),
    ("C-w C-_ X", "one two threeX"),
    ("C-w C-/ X", "one two threeX"),
    ("C-w C-_ M-_ X", "one two X"),
    ("C-w C-_ M-/ X", "one two X"),
];

/// Keys that open or scroll something, with the text that the screen shows then, and the keys that close it again.
const OPENING: &[(&str, &str, &str)] = &[
    ("C-p", "Show everything that runs", "Escape"),
    ("C-r", "❯ second prompt", "Escape"),
    ("M-m", "❯ ", "Escape"),
    ("M-s", "❯ go", "Escape"),
    ("C-s", "search:", "Escape"),
    ("C-Home", "scrolled up", "C-End"),
    ("PPage", "scrolled up", "NPage NPage NPage"),
    ("C-Up", "scrolled up", "C-Down"),
    ("M-Up", "scrolled up", "M-Down"),
    ("S-Up Enter", "    2", "Enter Escape"),
    ("S-Up S-Up S-Down Enter", "    2", "Enter Escape"),
    ("F2", "    2", "F2 Escape"),
    ("C-o", "    2", "C-o"),
    ("M-t", "thinking: ", "Left"),
    ("M-q", "nothing waits", "Left"),
    ("M-w", "the mouse is the terminal's", "M-w Left"),
    ("M-c", "copied 13 characters", "Left"),
    ("M-x", "no such code block", "Left"),
    ("M-l", " fuel · ", "M-l"),
    ("BTab", "smart ·", "BTab BTab BTab"),
];

/// Edits a message with each of the keys.
pub(crate) fn edit_with_every_key(tmux: &Tmux) {
    let editor = |rows: &[String]| rows.iter().rev().find(|row| row.starts_with('›')).cloned();
    for (keys, message) in EDITING {
        tmux.types("one two three");
        tmux.press(keys);
        let expected = format!("› {message}");
        tmux.wait_for(&format!("the message after {keys} is `{message}`"), |rows| {
            editor(rows).is_some_and(|row| row.replace("  ", " ") == expected)
        });
        tmux.press("C-c");
        tmux.wait_for("the editor is empty", |rows| editor(rows).is_some_and(|row| row == "›"));
    }
}

#[test]
fn every_key_of_the_editor_arrives() {
    let pinion = Pinion::default();
    let Some(tmux) = Tmux::start(&conversation(&pinion, "full", &[say("finished")], &["go"]), SIZE) else { return };
    tmux.wait_for_text("finished");
    edit_with_every_key(&tmux);
}

#[test]
fn every_key_that_opens_or_scrolls_arrives() {
    let pinion = Pinion::default();
    let call = json!({ "calls": [{ "tool": "bash", "arguments": { "command": "seq 9" } }] });
    let replies = [paragraphs(), call, say("second answer")];
    let Some(tmux) = Tmux::start(&conversation(&pinion, "full", &replies, &["go"]), SIZE) else { return };
    tmux.wait_for_text("end of 11.");
    tmux.types("second prompt\r");
    tmux.wait_for_text("[y] yes");
    tmux.types("y");
    tmux.wait_for_text("second answer");
    for (keys, shown, closing) in OPENING {
        let lacks = |rows: &[String]| !rows.iter().any(|row| row.contains(shown));
        tmux.wait_for(&format!("`{shown}` is not there before {keys}"), lacks);
        tmux.press(keys);
        tmux.wait_for_text(shown);
        tmux.press(closing);
        tmux.wait_for(&format!("`{shown}` is not there after {closing}"), lacks);
        // A key that comes sooner behind ESC is one with Alt.
        tmux.wait_for("nothing is selected", |rows| !rows.iter().any(|row| row.contains("a block is selected")));
    }
    tmux.press("F1");
    tmux.wait_for_text("Begin a new line");
}

#[test]
fn new_lines_are_typed_in_three_ways() {
    let pinion = Pinion::default();
    let Some(tmux) = Tmux::start(&conversation(&pinion, "full", &[say("finished")], &["go"]), SIZE) else { return };
    tmux.wait_for_text("finished");
    tmux.types("one");
    tmux.press("M-Enter");
    tmux.types("two");
    tmux.press("C-j");
    tmux.types("three\\");
    // Keys that arrive together are a paste.
    tmux.wait_for("the backslash is there", |rows| rows.iter().any(|row| row == "  three\\"));
    tmux.press("Enter");
    tmux.wait_for("the backslash is gone", |rows| rows.iter().any(|row| row == "  three"));
    tmux.types("four");
    tmux.wait_for("the message has four lines", |rows| {
        let at = rows.iter().position(|row| row == "› one");
        at.is_some_and(|at| rows[at + 1..].starts_with(&["  two", "  three", "  four"].map(String::from)))
    });
}

#[test]
fn suspended_program_returns_the_terminal_and_takes_it_again() {
    for form in ["full", "inline"] {
        let pinion = Pinion::default();
        let command = conversation(&pinion, form, &[say("first answer"), say("second answer")], &["go"]);
        let mut shell = Command::new("bash");
        shell.args(["--norc", "-i"]).current_dir(pinion.workspace()).env("PS1", "shell: ");
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let Some(tmux) = Tmux::start(&shell, SIZE) else { return };
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        tmux.types(&format!("{}\r", line.join(" ")));
        tmux.wait_for_text("first answer");
        tmux.wait_for_text(STATUS);
        tmux.press("C-z");
        tmux.wait_for("the shell is there and the UI is not", |rows| {
            rows.iter().any(|row| row == "shell:") && !rows.iter().any(|row| row.starts_with(STATUS))
        });
        tmux.types("echo $((40 + 2))\r");
        tmux.wait_for("the terminal edits lines", |rows| rows.iter().any(|row| row == "42"));
        tmux.types("fg\r");
        tmux.wait_for_text(STATUS);
        tmux.types("next\r");
        tmux.wait_for_text("second answer");
        tmux.press("C-d");
        tmux.wait_for_text("Resume with");
    }
}

#[test]
fn paste_of_a_megabyte_is_a_chip_and_reaches_the_model() {
    let pinion = Pinion::default();
    let text: String = (0..20_000).map(|n| format!("line {n} of a paste that is quite long, really\n")).collect();
    assert!(text.len() > 900_000);
    let file = pinion.write("../paste.txt", &text);
    let Some(tmux) =
        Tmux::start(&conversation(&pinion, "full", &[say("finished"), say("read it"), say("read it")], &["go"]), SIZE)
    else {
        return;
    };
    tmux.wait_for_text("finished");
    tmux.types("look: ");
    tmux.paste(&file);
    tmux.wait_for_text("20000 lines");
    tmux.types(" what is it?\r");
    tmux.wait_for_text("read it");
    tmux.press("C-d");
    let id = || pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
    wait_until("the session has both messages", || {
        let session = pinion.run(["session", "show", &id()]).stdout;
        session.contains("line 0 of a paste") && session.contains("line 19999 of a paste")
    });
}

#[test]
fn lost_terminal_ends_the_program_and_keeps_the_session() {
    // As `nohup` does, or a shell with `trap '' HUP`.
    for (form, ignores_hangup) in [("full", false), ("full", true), ("inline", false)] {
        let pinion = Pinion::default();
        let replies =
            [say("first answer"), json!({ "calls": [{ "tool": "bash", "arguments": { "command": "true" } }] })];
        let command = conversation(&pinion, form, &replies, &["go"]);
        let mut ignoring = Command::new("env");
        ignoring.arg("--ignore-signal=HUP").arg(command.get_program()).args(command.get_args());
        ignoring.current_dir(pinion.workspace()).env_clear();
        ignoring.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let Some(tmux) = Tmux::start(if ignores_hangup { &ignoring } else { &command }, SIZE) else { return };
        tmux.wait_for_text("first answer");
        tmux.types("run it\r");
        tmux.wait_for_text("[y] yes");
        let is_running = || {
            let script = pinion.workspace().join("../script.jsonl");
            let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
            let commands = processes.map(|entry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default());
            // The server of tmux has the same words.
            commands
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .any(|command| command.contains(script.to_str().unwrap()) && !command.contains("new-session"))
        };
        assert!(is_running());
        tmux.lose();
        wait_until("the program has ended", || !is_running());
        let id = pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
        let session = pinion.run(["session", "show", &id]).stdout;
        assert!(session.contains("first answer") && session.contains("run it"), "{form}: {session}");
    }
}
