//! The form that a conversation has.

use crate::terminal::full_screen::{ENTER, LINES, SIZE};
use pinion_tests::{Pinion, Terminal, say};
use std::process::Command;

#[test]
fn conversation_is_on_the_full_screen_by_default() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("finished")]);
    let command = pinion.default_command(["--replay", script.to_str().unwrap(), "go"]);
    let terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("finished");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && seen.contains(ENTER) && !seen.contains(LINES), "{seen}");
}

#[test]
fn option_wins_over_environment_and_environment_over_config() {
    let forms = [
        (None, None, None, "full"),
        (None, None, Some("line"), "line"),
        (None, Some(""), Some("line"), "line"),
        (None, Some("full"), Some("line"), "full"),
        (None, Some("line"), Some("full"), "line"),
        (Some("full"), Some("line"), Some("line"), "full"),
        (Some("line"), Some("full"), None, "line"),
    ];
    for (option, environment, config, expected) in forms {
        let pinion = Pinion::default();
        pinion.config(&config.map(|form| format!("ui = \"{form}\"\n")).unwrap_or_default());
        let script = pinion.script(&[say("finished")]);
        let options: Vec<&str> = option.into_iter().flat_map(|form| ["--ui", form]).collect();
        let mut command = pinion.default_command(options.iter().chain(&["--replay", script.to_str().unwrap(), "go"]));
        command.envs(environment.map(|form| ("PINION_UI", form)));
        let terminal = Terminal::start(&command, SIZE, "");
        terminal.wait_for("finished");
        let (status, seen) = terminal.exit();
        let form = if seen.contains(ENTER) { "full" } else { "line" };
        assert_eq!((status, form, seen.contains(LINES)), (Some(0), expected, expected == "line"), "{seen}");
    }
}

#[test]
fn dumb_terminal_gets_lines_whatever_is_wanted() {
    for (term, size) in [("TERM=dumb", SIZE), ("TERM=", SIZE), ("--unset=TERM", SIZE), ("TERM=xterm", (0, 0))] {
        let pinion = Pinion::default();
        let script = pinion.script(&[say("finished")]);
        let wanted = pinion.default_command(["--ui", "full", "--replay", script.to_str().unwrap(), "go"]);
        let mut command = Command::new("env");
        command.arg(term).arg(wanted.get_program()).args(wanted.get_args()).current_dir(pinion.workspace());
        command.envs(wanted.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let terminal = Terminal::start(&command, size, "");
        terminal.wait_for("finished");
        let (status, seen) = terminal.exit();
        assert!(status == Some(0) && seen.contains(LINES) && !seen.contains(ENTER), "{term}: {seen}");
    }
}

#[test]
fn form_that_does_not_exist_is_refused_with_the_names() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("finished")]);
    let arguments = ["--replay", script.to_str().unwrap(), "go"];
    let mut command = pinion.default_command(arguments);
    command.env("PINION_UI", "fancy");
    let (status, seen) = Terminal::start(&command, SIZE, "").end();
    assert_eq!(status, Some(2), "{seen}");
    assert!(seen.contains("PINION_UI: `fancy`") && seen.contains("`full`, `inline`, `line`"), "{seen}");
    // Only conversations have a form.
    assert!(command.arg("-p").output().unwrap().status.success());
}
