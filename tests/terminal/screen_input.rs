//! Input in the full-screen UI: commands that take effect in the middle of a run, lists of sessions, and the external
//! editor.

use pinion_tests::{Pinion, Terminal, say, wait_until};
use serde_json::{Value, json};
use std::process::Command;

const SIZE: (u16, u16) = (80, 24);

fn bash(command: &str) -> Value {
    json!({ "calls": [{ "tool": "bash", "arguments": { "command": command } }] })
}

/// A call that works until there is a file `go`.
fn waiting() -> Value {
    bash("until [ -e go ]; do sleep 0.05; done")
}

/// Returns the command of a conversation that begins with a prompt.
fn conversation(pinion: &Pinion, mode: &str, replies: &[Value]) -> Command {
    let script = pinion.script(replies);
    pinion.default_command(["--approve", mode, "--replay", script.to_str().unwrap(), "go"])
}

fn last_session(pinion: &Pinion) -> String {
    let id = pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
    pinion.run(["session", "show", &id]).stdout
}

#[test]
fn plan_mode_binds_the_run_in_progress() {
    let pinion = Pinion::default();
    let replies = [waiting(), bash("touch planned"), say("finished"), bash("touch later"), say("again")];
    let mut terminal = Terminal::start(&conversation(&pinion, "all", &replies), SIZE, "");
    terminal.wait_for("running bash");
    terminal.keys("/plan\r");
    terminal.wait_for("plan mode: from its next call on, the agent only reads");
    pinion.write("go", "");
    terminal.wait_for("finished");
    assert!(!pinion.workspace().join("planned").exists());
    // The mode of before is back, and applies once plan mode is off. The row may already begin with "plan mode".
    terminal.keys("/plan\r");
    terminal.wait_for(" is off");
    terminal.keys("and now\r");
    terminal.wait_for("again");
    assert!(pinion.workspace().join("later").exists());
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn message_that_steers_takes_its_pictures_along() {
    let pinion = Pinion::default();
    let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0, 0, 0, 2, 0, 0, 0, 3]].concat();
    pinion.write("shot.png", png);
    let mut terminal = Terminal::start(&conversation(&pinion, "all", &[waiting(), say("finished")]), SIZE, "");
    terminal.wait_for("running bash");
    terminal.keys("see @\"shot.png\" now\r");
    terminal.wait_for("esc interrupts bash and sends");
    terminal.keys("\x1b");
    terminal.wait_for("finished");
    assert_eq!(terminal.exit().0, Some(0));
    let session = last_session(&pinion);
    assert!(session.contains("see @\"shot.png\" now") && session.contains("image/png"), "{session}");
}

#[test]
fn own_command_changes_the_mode_while_the_agent_works() {
    let pinion = Pinion::default();
    let replies = [waiting(), bash("touch asked"), say("finished")];
    let mut terminal = Terminal::start(&conversation(&pinion, "all", &replies), SIZE, "");
    terminal.wait_for("running bash");
    terminal.keys("/mode ask\r");
    terminal.wait_for("→ ask");
    pinion.write("go", "");
    terminal.wait_for("[y] yes");
    terminal.keys("n");
    terminal.wait_for("finished");
    assert!(!pinion.workspace().join("asked").exists());
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn arguments_of_own_commands_are_completed() {
    let pinion = Pinion::default();
    pinion.write(".pinion/plans/greeting.md", "# Greeting\n");
    let script = pinion.script(&[]);
    let command = pinion.default_command(["--replay", script.to_str().unwrap()]);
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("lists commands");
    for (typed, offered) in [
        ("/mode ed", "edits files of the project and asks before programs"),
        ("/net al", "programs reach chosen hosts"),
        ("/execute gre", ".pinion/plans/greeting.md"),
        ("/mcp re", "reads the files of servers again"),
    ] {
        terminal.keys(typed);
        terminal.wait_for(offered);
        terminal.keys("\x15");
    }
    terminal.keys("/thinking high\r");
    terminal.wait_for("→ high");
    terminal.wait_for("thinking high");
    terminal.keys("\x1bt");
    terminal.wait_for("thinking: xhigh, from the next message on");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn session_that_is_deleted_in_the_list_leaves_nothing_behind() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("finished")]);
    let replay = ["--replay", script.to_str().unwrap()];
    assert_eq!(pinion.run(["-p", replay[0], replay[1], "to be deleted"]).code, Some(0));
    assert_eq!(pinion.run(["-p", replay[0], replay[1], "to be kept"]).code, Some(0));
    let session = std::fs::read_dir(pinion.home().join("sessions")).unwrap().next().unwrap().unwrap().path();
    let of = |words: &str| {
        let files = std::fs::read_dir(&session).unwrap().map(|file| file.unwrap().path());
        let found =
            files.filter(|file| file.is_file()).find(|file| std::fs::read_to_string(file).unwrap().contains(words));
        let name = found.unwrap().file_stem().unwrap().to_str().unwrap().to_owned();
        name.rsplit_once('_').unwrap().1.to_owned()
    };
    let output = |id: &str| pinion.home().join("cache/output").join(id);
    let (deleted, kept) = (output(&of("to be deleted")), output(&of("to be kept")));
    for directory in [&deleted, &kept] {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("1.txt"), "long output").unwrap();
    }
    let mut terminal = Terminal::start(&pinion.default_command(replay), SIZE, "");
    terminal.wait_for("lists commands");
    terminal.keys("\x1bs");
    terminal.wait_for("sessions 2 of 2");
    terminal.keys("deleted\x18");
    terminal.wait_for("ctrl+x again deletes");
    terminal.keys("\x18");
    wait_until("the output is gone", || !deleted.exists());
    assert!(kept.exists());
    terminal.wait_for("0 of 1");
    terminal.keys("\x03");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn session_of_another_directory_is_continued_in_a_copy() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("words from elsewhere")]);
    let replay = ["--replay", script.to_str().unwrap()];
    let other = pinion.workspace().join("../other place");
    std::fs::create_dir(&other).unwrap();
    assert_eq!(pinion.run(["-C", other.to_str().unwrap(), "-p", replay[0], replay[1], "begun there"]).code, Some(0));
    let mut terminal = Terminal::start(&pinion.default_command(replay), SIZE, "");
    terminal.wait_for("lists commands");
    // There is no session here, so the sessions of all directories are listed.
    terminal.keys("\x1bs");
    terminal.wait_for("sessions of all directories 1 of 1");
    terminal.keys("\x1bc");
    terminal.wait_for("copied `cd '");
    terminal.keys("\r");
    terminal.wait_for("words from elsewhere");
    terminal.wait_for("this is a copy, because the session belongs to");
    assert_eq!(terminal.exit().0, Some(0));
    let listed = |directory: &str| pinion.run(["-C", directory, "session", "list"]).stdout.lines().count();
    assert_eq!((listed("."), listed(other.to_str().unwrap())), (1, 1));
}
