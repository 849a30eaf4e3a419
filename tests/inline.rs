//! The inline form on real terminals: the conversation is in the terminal's own scrollback, also after changes of its size.

use pinion_tests::{Pinion, Terminal, say, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::Command;

const SIZE: (u16, u16) = (80, 24);
const ALTERNATE: &str = "\x1b[?1049h";
const LEFT_ALTERNATE: &str = "\x1b[?1049l";
/// The end of what restores the terminal.
const LEFT: &str = "\x1b[?2004l";
/// Words of the status line.
const STATUS: &str = "replay/script";

fn inline(pinion: &Pinion, replies: &[Value], options: &[&str]) -> Command {
    let script = pinion.script(replies);
    pinion.default_command(["--inline", "--replay", script.to_str().unwrap()].iter().chain(options))
}

#[test]
fn form_is_chosen_by_option_environment_or_config() {
    let forms: [(&[&str], &str, &str); 4] = [
        (&["--inline"], "full", "full"),
        (&["--ui", "inline"], "line", "line"),
        (&[], "inline", "full"),
        (&[], "", "inline"),
    ];
    for (options, environment, config) in forms {
        let pinion = Pinion::default();
        pinion.config(&format!("ui = \"{config}\"\n"));
        let script = pinion.script(&[say("finished")]);
        let arguments = ["--replay", script.to_str().unwrap(), "go"];
        let mut command = pinion.default_command(options.iter().chain(&arguments));
        command.env("PINION_UI", environment);
        let terminal = Terminal::start(&command, SIZE, "");
        terminal.wait_for("finished");
        let (status, seen) = terminal.exit();
        assert!(status == Some(0) && seen.contains(LEFT) && !seen.contains(ALTERNATE), "{options:?}: {seen}");
    }
}

#[test]
fn call_is_allowed_by_a_key_and_everything_stays_in_the_scrollback() {
    let pinion = Pinion::default();
    let call = json!({ "calls": [{ "tool": "bash", "arguments": { "command": "echo made > made" } }] });
    let command = inline(&pinion, &[say("first answer"), call, say("second answer")], &["--approve", "ask"]);
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for(STATUS);
    terminal.keys("the question\r");
    terminal.wait_for("first answer");
    terminal.keys("another\r");
    terminal.wait_for("[y] yes");
    terminal.keys("y");
    terminal.wait_for("second answer");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && pinion.workspace().join("made").exists(), "{seen}");
    let shown = on_terminal(&seen);
    let order = ["› the question", "first answer", "› another", "✓ bash echo made", "second answer", "Resume with"];
    let places: Vec<_> = order.iter().map(|words| shown.find(words)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {shown}");
    assert!(order.iter().all(|words| shown.matches(words).count() == 1), "{shown}");
    // Neither the editor nor the status line is left.
    assert!(!shown.contains(STATUS) && !shown.contains("─") && !shown.contains("[y] yes"), "{shown}");
}

/// Returns what a terminal shows, with its scrollback.
fn on_terminal(bytes: &str) -> String {
    let mut terminal = vt100::Parser::new(1_000.try_into().unwrap(), SIZE.0.try_into().unwrap(), 0);
    terminal.process(bytes.as_bytes());
    terminal.screen().contents()
}

#[test]
fn key_that_scrolls_shows_the_conversation_on_a_screen_of_its_own() {
    let pinion = Pinion::default();
    let answer = (0..40).map(|n| format!("paragraph {n}\n\n")).collect::<String>();
    let mut terminal = Terminal::start(&inline(&pinion, &[say(&answer)], &["go"]), SIZE, "");
    terminal.wait_for("paragraph 39");
    terminal.keys("\x1b[5~");
    terminal.wait_for_then(ALTERNATE, "esc returns");
    terminal.keys("\x1b");
    terminal.wait_for(LEFT_ALTERNATE);
    let (status, seen) = terminal.exit();
    assert_eq!(status, Some(0), "{seen}");
    let (before, after) = (seen.split_once(ALTERNATE).unwrap().0, seen.split_once(LEFT_ALTERNATE).unwrap().1);
    let main = on_terminal(&format!("{before}{after}"));
    assert!((0..40).all(|n| main.lines().filter(|row| row.trim() == format!("paragraph {n}")).count() == 1), "{main}");
}

#[test]
fn terminal_is_restored_below_the_conversation_after_a_signal() {
    let pinion = Pinion::default();
    let terminal = Terminal::start(&inline(&pinion, &[say("finished")], &["go"]), SIZE, "");
    terminal.wait_for_then("finished", "in context");
    kill_process(Pid::from_raw(terminal.pid().cast_signed()).unwrap(), Signal::TERM).unwrap();
    terminal.wait_for(LEFT);
    assert!(terminal.is_restored());
    let (status, seen) = terminal.end();
    assert!(status == Some(143) && !seen.contains(LEFT_ALTERNATE), "{seen}");
    // What the shell prints next does not overwrite the status line.
    let shown = on_terminal(&format!("{seen}$ next"));
    let rows: Vec<&str> = shown.lines().filter(|row| !row.is_empty()).collect();
    assert!(rows[rows.len() - 2].contains(STATUS) && rows[rows.len() - 1] == "$ next", "{shown}");
}

#[test]
fn text_of_models_cannot_leave_its_rows() {
    let pinion = Pinion::default();
    let hostile = "a\x1b]52;c;cHduZWQ=\x07b\x1b[2Jc\u{9b}31m\u{202e}\x1b[?1049h\x1b[5A\r\nend";
    let terminal = Terminal::start(&inline(&pinion, &[say(hostile)], &["go"]), SIZE, "");
    terminal.wait_for("end");
    let (_, seen) = terminal.exit();
    let is_own = !seen.contains("\x1b]52") && !seen.contains(ALTERNATE) && !seen.contains("\x1b[2J");
    assert!(is_own && !seen.contains(['\u{9b}', '\u{202e}', '\x07']), "{seen:?}");
    assert!(seen.contains("a␛]52;c;cHduZWQ=␇b␛[2Jc"), "{seen:?}");
}

/// A conversation in tmux, which wraps its rows anew when its width changes.
struct Tmux {
    directory: tempfile::TempDir,
}

impl Tmux {
    /// Starts a command; `None` without tmux.
    fn start(command: &Command, (columns, rows): (u16, u16)) -> Option<Self> {
        let tmux = Self { directory: tempfile::tempdir().unwrap() };
        let is_there = Command::new("tmux").arg("-V").output().is_ok();
        assert!(is_there || std::env::var_os("PINION_TMUX_REQUIRED").is_none(), "tmux is missing");
        if !is_there {
            return None;
        }
        let variables = command.get_envs().filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)));
        let variables = variables.map(|(name, value)| format!("{name}={value}"));
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let mut started = tmux.tmux();
        started.args(["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, "-c"]);
        started.arg(command.get_current_dir().unwrap()).args(["env", "-u", "XTERM_VERSION"]).args(variables);
        assert!(started.arg(command.get_program()).args(command.get_args()).status().unwrap().success());
        Some(tmux)
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.directory.path().join("socket")).env_remove("TMUX").env("LC_ALL", "C.UTF-8");
        command.arg("-u");
        command
    }

    fn resize(&self, (columns, rows): (u16, u16)) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        assert!(self.tmux().args(["resize-window", "-x", &columns, "-y", &rows]).status().unwrap().success());
    }

    fn keys(&self, keys: &str) {
        assert!(self.tmux().args(["send-keys", "-l", keys]).status().unwrap().success());
    }

    /// Returns the rows of the screen, or with the scrollback, in which wrapped rows are joined.
    fn shown(&self, has_scrollback: bool) -> Vec<String> {
        let options: &[&str] = if has_scrollback { &["-J", "-S", "-"] } else { &[] };
        let output = self.tmux().args(["capture-pane", "-p"]).args(options).output().unwrap().stdout;
        String::from_utf8(output).unwrap().lines().map(|row| row.trim_end().to_owned()).collect()
    }

    /// Waits until the rule below the editor is as wide as the terminal.
    fn wait_for_width(&self, columns: u16) {
        let is_rule = |row: &String| row.chars().count() == usize::from(columns) && row.chars().all(|c| c == '─');
        wait_until("the live region has the new width", || self.shown(false).iter().any(is_rule));
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // The test may have failed before the server ran.
        let _ = self.tmux().arg("kill-server").output();
    }
}

#[test]
fn new_sizes_leave_every_row_once_in_a_terminal_that_wraps_again() {
    let pinion = Pinion::default();
    let words = "some words that take more than one row on most terminals, or two";
    let answer = (0..12).map(|n| format!("Paragraph {n}: {words}, end of {n}.\n\n")).collect::<String>();
    let Some(tmux) = Tmux::start(&inline(&pinion, &[say(&answer), say("the last answer")], &["go"]), SIZE) else {
        return;
    };
    wait_until("the answer is there", || tmux.shown(false).iter().any(|row| row.contains("end of 11.")));
    for (columns, rows) in [(50, 24), (110, 30), (33, 20), (80, 12), (60, 40), (80, 24)] {
        tmux.resize((columns, rows));
        tmux.wait_for_width(columns);
    }
    // Faster than frames are drawn.
    for columns in (40..80).rev().chain(40..=90) {
        tmux.resize((columns, 24));
    }
    tmux.wait_for_width(90);
    tmux.keys("next\r");
    wait_until("the last answer is there", || tmux.shown(false).iter().any(|row| row.contains("the last answer")));
    let text = tmux.shown(true).join("\n");
    for n in 0..12 {
        assert_eq!(text.matches(&format!("Paragraph {n}: ")).count(), 1, "{n}: {text}");
        assert_eq!(text.matches(&format!("end of {n}.")).count(), 1, "{n}: {text}");
    }
    let order: Vec<_> =
        ["› go", "end of 11.", "› next", "the last answer", STATUS].map(|words| text.rfind(words)).into();
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?} in {text}");
}
