//! Every key of the key map, and the commands of vi, on a real terminal.

use crate::terminal::full_screen::{LEAVE, bash, process};
use pinion_tests::{Pinion, Terminal, call, say};
use pinion_tui::KeyMap;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

const COLUMNS: u16 = 100;
const ROWS: u16 = 30;
/// The key of actions that have no key by default.
const SPARE: &str = "f12";

/// The state of the conversation when a key is pressed.
enum State {
    /// The agent has answered.
    Idle,
    /// A program runs.
    Working,
}

/// Keys, and the screen that they make.
struct Step {
    keys: &'static str,
    is_done: Box<dyn Fn(&Screen) -> bool>,
}

/// Decides from the screens before and after a key whether its effect has appeared.
type Effect = Box<dyn Fn(&Screen, &Screen) -> bool>;

/// A key with its visible effect.
struct Case {
    state: State,
    /// The steps before the key.
    steps: Vec<Step>,
    has_effect: Effect,
}

/// The screen, and the bytes since the key.
struct Screen {
    terminal: vt100::Parser,
    bytes: String,
}

impl Screen {
    fn new(seen: &str, since: usize) -> Self {
        let mut terminal = vt100::Parser::new(ROWS.try_into().unwrap(), COLUMNS.try_into().unwrap(), 0);
        terminal.process(seen.as_bytes());
        Self { terminal, bytes: seen.get(since..).unwrap_or_default().to_owned() }
    }

    fn has(&self, text: &str) -> bool {
        self.terminal.screen().contents().contains(text)
    }

    fn cursor(&self) -> (u16, u16) {
        self.terminal.screen().cursor_position()
    }

    /// Returns the first number of the answer on the screen.
    fn first(&self) -> usize {
        let contents = self.terminal.screen().contents();
        let mut rows = contents.lines().filter_map(|row| row.trim().strip_prefix("• row ")?.parse().ok());
        rows.next().unwrap_or(usize::MAX)
    }

    /// Returns whether the block with this text is selected.
    fn selects(&self, text: &str) -> bool {
        let screen = self.terminal.screen();
        let selected = (0..ROWS).find(|row| screen.cell(*row, 0).is_some_and(vt100::Cell::inverse));
        selected.is_some_and(|row| screen.rows(0, COLUMNS).nth(row.into()).is_some_and(|row| row.contains(text)))
    }

    /// Returns the text in the editor, without blanks at the ends of rows.
    fn editor(&self) -> String {
        let contents = self.terminal.screen().contents();
        let (above, _status) = contents.rsplit_once('\n').unwrap_or_default();
        let rows = above.rsplit_once("─\n").map_or("", |(_, rows)| rows).split('\n');
        let text = |row: &str| row.chars().skip(2).collect::<String>().trim_end().to_owned();
        rows.map(text).collect::<Vec<_>>().join("\n")
    }

    /// Returns whether the editor has this text, with the cursor in this column of it.
    fn edits(&self, text: &str, column: u16) -> bool {
        self.editor() == text && self.cursor().1 == column + 2
    }
}

/// Presses keys until the editor has a text, with the cursor in a column.
fn typed(keys: &'static str, text: &'static str, column: u16) -> Step {
    Step { keys, is_done: Box::new(move |screen| screen.edits(text, column)) }
}

/// Presses keys until a text appears.
fn until(keys: &'static str, text: &'static str) -> Step {
    Step { keys, is_done: Box::new(move |screen| screen.has(text)) }
}

/// Selects the block above, which has this text.
fn selecting(text: &'static str) -> Step {
    Step { keys: "\x1b[1;2A", is_done: Box::new(move |screen| screen.selects(text)) }
}

/// Writes `one two`, with the cursor at its end or at its beginning.
fn type_words(is_at_end: bool) -> Vec<Step> {
    let mut steps = vec![typed("one two", "one two", 7)];
    steps.extend((!is_at_end).then(|| typed(HOME, "one two", 0)));
    steps
}

/// Returns a case that adds a text to the screen.
fn shows(state: State, steps: Vec<Step>, text: &'static str) -> Case {
    case(state, steps, move |was, is| is.has(text) && !was.has(text))
}

/// Returns a case that adds a text to the editor.
fn edits(steps: Vec<Step>, text: &'static str) -> Case {
    case(State::Idle, steps, move |was, is| is.editor() == text && was.editor() != text)
}

/// Returns a case that moves the cursor by rows to a column.
fn moves(steps: Vec<Step>, rows: i32, column: u16) -> Case {
    case(State::Idle, steps, move |was, is| {
        let by = i32::from(is.cursor().0) - i32::from(was.cursor().0);
        is.cursor() != was.cursor() && (by, is.cursor().1) == (rows, column + 2)
    })
}

fn case(state: State, steps: Vec<Step>, has_effect: impl Fn(&Screen, &Screen) -> bool + 'static) -> Case {
    Case { state, steps, has_effect: Box::new(has_effect) }
}

const HOME: &str = "\x1b[H";
const TOP: &str = "\x1b[1;5H";
const PAGE_UP: &str = "\x1b[5~";
/// A line of the beginning of the conversation.
const GREETING: &str = "/ lists commands";
/// A remark above the editor.
const SCROLLED: &str = "scrolled up";

/// Returns the case of an action.
fn case_of(action: &str) -> Case {
    use State::{Idle, Working};
    let begins = |screen: &Screen| screen.terminal.screen().contents().starts_with("› go");
    match action {
        "send" => shows(Idle, vec![typed("more", "more", 4)], "the second answer"),
        "send-later" => shows(Working, vec![typed("later", "later", 5)], "◷ later"),
        "newline" => case(Idle, vec![typed("ab", "ab", 2)], |_, is| is.edits("ab\n", 0)),
        "interrupt" => shows(Working, vec![], "interrupted"),
        "cancel" => shows(Idle, vec![typed("text", "text", 4)], "cleared"),
        "quit" | "exit" => case(Idle, vec![], |_, is| is.bytes.contains(LEAVE) && is.bytes.contains("pinion -r")),
        "complete" => edits(vec![until("/them", "Change the colours")], "/theme [name]"),
        "edit" => edits(vec![typed("text", "text", 4)], "text of the editor"),
        "agents" => shows(Idle, vec![], "x ends it"),
        "mode" => shows(Idle, vec![], "· ask ·"),
        "plan" => shows(Idle, vec![], "· plan mode ·"),
        "history" => shows(Idle, vec![until("more\r", "the second answer")], "history 1 of 1"),
        "palette" => shows(Idle, vec![], "commands "),
        "thinking-level" => shows(Idle, vec![], "from the next message on"),
        "models" => shows(Idle, vec![], "models "),
        "sessions" => shows(Idle, vec![], "sessions 1 of 1"),
        "queue" => shows(Working, vec![until("later\t", "◷ later")], "queue 1 of 1"),
        "unfold" => shows(Idle, vec![until(TOP, GREETING)], "line 2"),
        "toggle" => shows(Idle, vec![], "-old text"),
        "thinking" => shows(Idle, vec![until(TOP, GREETING)], "thought 7"),
        "ledgers" => shows(Idle, vec![until(TOP, GREETING)], "fuel"),
        "sides" => shows(Idle, vec![until("\x1bOQ", "-old text")], "│ +new text"),
        "select-up" => case(Idle, vec![], |_, is| is.selects("edit file")),
        "select-down" => {
            case(Idle, vec![selecting("edit file"), selecting("read file")], |_, is| is.selects("edit file"))
        }
        "page-up" => case(Idle, vec![], |was, is| is.first() + 10 < was.first() && is.has(SCROLLED)),
        "page-down" => case(Idle, vec![until(PAGE_UP, SCROLLED), until(PAGE_UP, "• row 9")], |was, is| {
            is.first() > was.first() + 10
        }),
        "scroll-up" => case(Idle, vec![until(PAGE_UP, SCROLLED)], |was, is| is.first() + 1 == was.first()),
        "scroll-down" => case(Idle, vec![until(PAGE_UP, SCROLLED)], |was, is| is.first() == was.first() + 1),
        "top" => shows(Idle, vec![], GREETING),
        "bottom" => shows(Idle, vec![until(TOP, GREETING)], "• row 79"),
        "prompt-up" => case(Idle, vec![], move |was, is| begins(is) && !begins(was)),
        "prompt-down" => case(Idle, vec![until(TOP, GREETING)], move |was, is| begins(is) && !begins(was)),
        "search" => shows(Idle, vec![], "\nsearch:"),
        "copy" => case(Idle, vec![], |_, is| is.has("of the last answer") && is.bytes.contains("\x1b]52;c;")),
        "copy-code" => case(Idle, vec![], |_, is| is.has("of the last code block") && is.bytes.contains("\x1b]52;c;")),
        "mouse" => {
            case(Idle, vec![], |_, is| is.has("the mouse is the terminal's") && is.bytes.contains("\x1b[?1002l"))
        }
        "redraw" => case(Idle, vec![], |_, is| is.bytes.contains("row 75") && is.bytes.contains("row 79")),
        "suspend" => case(Idle, vec![], |_, is| is.bytes.contains(LEAVE)),
        "help" => shows(Idle, vec![], "Begin a new line"),
        "undo" => edits(vec![typed("ab cd", "ab cd", 5)], "ab"),
        "redo" => edits(vec![typed("ab cd", "ab cd", 5), typed("\x1f", "ab", 3)], "ab cd"),
        "paste-picture" => shows(Idle, vec![], "no picture in the clipboard"),
        "yank" => edits(vec![typed("one\x15two", "two", 3)], "twoone"),
        "yank-earlier" => edits(vec![typed("one\x15two\x15", "", 0), typed("\x19", "two", 3)], "one"),
        "kill-line" => edits(type_words(false), ""),
        "kill-before" => edits(type_words(true), ""),
        "kill-word" => edits(type_words(true), "one"),
        "kill-word-after" => edits(type_words(false), " two"),
        "backspace" => edits(type_words(true), "one tw"),
        "delete" => edits(type_words(false), "ne two"),
        "left" => moves(type_words(true), 0, 6),
        "right" => moves(type_words(false), 0, 1),
        "word-left" => moves(type_words(true), 0, 4),
        "word-right" => moves(type_words(false), 0, 3),
        "line-start" => moves(type_words(true), 0, 0),
        "line-end" => moves(type_words(false), 0, 7),
        "up" => moves(vec![typed("one\ntwo", "one\ntwo", 3)], -1, 3),
        "down" => moves(vec![typed("one\ntwo", "one\ntwo", 3), typed("\x1b[A\x1b[H", "one\ntwo", 0)], 1, 0),
        other => panic!("no case presses the key of `{other}`"),
    }
}

/// Returns the bytes that a terminal sends for a key.
fn bytes_of(key: &str) -> String {
    let (modifiers, name) = match key.rsplit_once('+').filter(|(_, name)| !name.is_empty()) {
        Some((modifiers, name)) => (modifiers, name),
        None => ("", key),
    };
    let has = |modifier| modifiers.split('+').any(|other| other == modifier);
    let number = 1 + u8::from(has("shift")) + 2 * u8::from(has("alt")) + 4 * u8::from(has("ctrl"));
    let with = |code: u32| format!("\x1b[{code};{number}u");
    let sequence = |plain: &str, end: char| match number {
        1 => format!("\x1b[{}{end}", plain.trim_end_matches('1')),
        _ => format!("\x1b[{plain};{number}{end}"),
    };
    match (modifiers, name) {
        ("", "enter") => "\r".into(),
        ("alt", "enter") => "\x1b\r".into(),
        (_, "enter") => with(13),
        ("shift", "tab") => "\x1b[Z".into(),
        (_, "tab") => "\t".into(),
        (_, "esc") => "\x1b".into(),
        ("", "backspace") => "\x7f".into(),
        ("alt", "backspace") => "\x1b\x7f".into(),
        (_, "backspace") => with(127),
        (_, "up") => sequence("1", 'A'),
        (_, "down") => sequence("1", 'B'),
        (_, "right") => sequence("1", 'C'),
        (_, "left") => sequence("1", 'D'),
        (_, "end") => sequence("1", 'F'),
        (_, "home") => sequence("1", 'H'),
        (_, "delete") => sequence("3", '~'),
        (_, "pageup") => sequence("5", '~'),
        (_, "pagedown") => sequence("6", '~'),
        (_, "f1") => "\x1bOP".into(),
        (_, "f2") => "\x1bOQ".into(),
        (_, SPARE) => "\x1b[24~".into(),
        ("alt", letter) => format!("\x1b{letter}"),
        ("ctrl", "7") => "\x1f".into(),
        ("ctrl", letter) if letter.bytes().all(|letter| letter.is_ascii_lowercase()) => {
            char::from(letter.as_bytes()[0] - b'a' + 1).into()
        }
        ("ctrl", sign) => with(sign.chars().next().unwrap().into()),
        _ => panic!("no bytes for the key `{key}`"),
    }
}

/// Starts the conversation of a state, and waits until it is on the screen.
fn conversation(pinion: &Pinion, state: &State) -> Terminal {
    let rows: String = (0..80).map(|number| format!("- row {number}\n")).collect();
    let thoughts: String = (0..8).map(|number| format!("thought {number}\n\n")).collect();
    let edit = json!({ "path": "file", "edits": [{ "old_text": "old text", "new_text": "new text" }] });
    pinion.write("file", "old text\n");
    let replies: Vec<Value> = match state {
        State::Idle => vec![
            json!({ "thinking": thoughts, "calls": [
                { "tool": "bash", "arguments": { "command": "seq -f 'line %g' 1 60" } },
            ] }),
            call("read", json!({ "path": "file" })),
            call("edit", edit),
            say(&format!("```sh\necho code\n```\n\n{rows}")),
            say("the second answer"),
        ],
        State::Working => vec![bash("sleep 600"), say("unused")],
    };
    let script = pinion.script(&replies);
    let editor = pinion.write("../editor", "#!/bin/sh\necho 'text of the editor' > \"$1\"\n");
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = pinion.default_command(["--approve", "all", "--replay", script.to_str().unwrap(), "go"]);
    command.env("EDITOR", editor);
    let terminal = Terminal::start(&command, (COLUMNS, ROWS), "");
    let is_shown = |seen: &str| {
        let screen = Screen::new(seen, 0);
        match state {
            State::Idle => screen.has("• row 79") && !screen.has("· esc interrupts"),
            State::Working => screen.has("running bash"),
        }
    };
    terminal.wait_until("the conversation", is_shown);
    terminal
}

/// Presses a key of an action where it has an effect, and waits for that.
fn press(action: &str, key: &str) {
    let case = case_of(action);
    let pinion = Pinion::default();
    pinion.config(&format!("[keys]\nplan = [\"{SPARE}\"]\n"));
    let mut terminal = conversation(&pinion, &case.state);
    let mut seen = terminal.wait_until("the conversation", |_| true);
    for Step { keys, is_done } in &case.steps {
        terminal.keys(keys);
        seen =
            terminal.wait_until(&format!("the screen of {keys:?} ({action})"), |seen| is_done(&Screen::new(seen, 0)));
    }
    let was = Screen::new(&seen, 0);
    let what = format!("the effect of {key} ({action})");
    terminal.keys(&bytes_of(key));
    terminal.wait_until(&what, |now| (case.has_effect)(&was, &Screen::new(now, seen.len())));
    if action == "suspend" {
        let _ = rustix::process::kill_process(process(&terminal), Signal::CONT);
    }
}

#[test]
fn every_key_of_every_action_has_its_effect() {
    let mut keys = KeyMap::default();
    keys.set("plan", [SPARE]).unwrap();
    let all: Vec<(&str, String)> =
        keys.actions().flat_map(|(name, _, keys)| keys.into_iter().map(move |key| (name, key))).collect();
    let without: Vec<_> = keys.actions().filter(|(.., keys)| keys.is_empty()).collect();
    assert!(without.is_empty(), "give these actions a key: {without:?}");
    let parts = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for part in all.chunks(all.len().div_ceil(parts)) {
            scope.spawn(move || part.iter().for_each(|(action, key)| press(action, key)));
        }
    });
}

#[test]
fn commands_of_vi_edit_the_message() {
    let pinion = Pinion::default();
    pinion.config("[tui]\nvi = true\n");
    let mut terminal = conversation(&pinion, &State::Idle);
    let wait = |terminal: &Terminal, what: &str, is_there: &dyn Fn(&Screen) -> bool| {
        terminal.wait_until(what, |seen| is_there(&Screen::new(seen, 0)));
    };
    for (commands, expected) in [
        ("0x", "ne two \"a b\""),
        ("02dw", "\"a b\""),
        ("0wcwX", "one X \"a b\""),
        ("ci\"X", "one two \"X\""),
        ("0dtw", "wo \"a b\""),
        ("0r!l~", "!Ne two \"a b\""),
        ("0x..", " two \"a b\""),
        ("0dwu", "one two \"a b\""),
        ("0dwuU", "two \"a b\""),
        ("0yiwP", "oneone two \"a b\""),
        ("yyp", "one two \"a b\"\none two \"a b\""),
        ("yypkJ", "one two \"a b\" one two \"a b\""),
        ("0wD", "one"),
        ("0vwd", "wo \"a b\""),
        ("VcX", "X"),
        ("IX", "Xone two \"a b\""),
        ("AX", "one two \"a b\"X"),
        ("oX", "one two \"a b\"\nX"),
        ("OX", "X\none two \"a b\""),
    ] {
        terminal.keys("one two \"a b\"");
        wait(&terminal, "the text", &|screen| screen.editor() == "one two \"a b\"");
        // The next key would make this one Alt.
        terminal.keys("\x1b");
        wait(&terminal, "the normal mode", &|screen| screen.has("\nnormal"));
        terminal.keys(commands);
        wait(&terminal, &format!("{expected} after {commands}"), &|screen| screen.editor() == expected);
        terminal.keys("\x03");
        wait(&terminal, "the empty editor", &|screen| screen.editor().is_empty());
        // Types in the mode of insertion, too.
        terminal.keys("i\x15");
        wait(&terminal, "the mode of insertion", &|screen| screen.editor().is_empty() && !screen.has("\nnormal"));
    }
    assert_eq!(terminal.exit().0, Some(0));
}
