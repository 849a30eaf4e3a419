//! Drafts, forks and sessions that continue.

use crate::terminal::full_screen::{SIZE, conversation, main_screen, process, running};
use pinion_tests::{Pinion, Terminal, say, wait_until};

#[test]
fn message_and_queue_of_a_killed_conversation_return() {
    let pinion = Pinion::default();
    let mut killed = running(&pinion);
    killed.lines(&["queued words\r", "!later\r", "half a thought"]);
    killed.wait_for("half a thought");
    let drafts = || {
        let files = std::fs::read_dir(pinion.home().join("drafts")).into_iter().flatten().filter_map(Result::ok);
        files.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default()).collect::<String>()
    };
    wait_until("the draft is kept", || drafts().contains("queued words") && drafts().contains("half a thought"));
    // Another conversation neither gets it nor removes it.
    let other = conversation(&pinion, &[say("of another")], "");
    other.wait_for("of another");
    assert!(!other.exit().1.contains("half a thought"));
    rustix::process::kill_process(process(&killed), rustix::process::Signal::KILL).unwrap();
    assert_eq!(killed.end().0, None);
    let script = pinion.script(&[]);
    let mut terminal = Terminal::start(&pinion.default_command(["--replay", script.to_str().unwrap()]), SIZE, "");
    ["not run: !later", "queued words", "half a thought"].iter().for_each(|words| drop(terminal.wait_for(words)));
    terminal.keys("\x03");
    terminal.wait_for("cleared");
    assert_eq!(terminal.exit().0, Some(0));
    assert_eq!(drafts(), "");
}

#[test]
fn fork_is_listed_below_its_origin_and_renamed_without_the_mark() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("finished")]);
    let replay = ["--replay", script.to_str().unwrap()];
    assert_eq!(pinion.run(["-p", replay[0], replay[1], "the origin"]).code, Some(0));
    let id = pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
    assert_eq!(pinion.run(["session", "fork", &id]).code, Some(0));
    let mut terminal = Terminal::start(&pinion.default_command(replay), SIZE, "");
    terminal.wait_for("lists commands");
    terminal.keys("\x1bs");
    terminal.wait_for("└ the origin");
    terminal.wait_for("fork · ");
    terminal.keys("\x1b[B\x12");
    terminal.wait_for("enter renames");
    terminal.keys(", again\r");
    let listed = || pinion.run(["session", "list"]).stdout;
    wait_until("the fork has another name", || listed().contains("the origin, again"));
    terminal.keys("\x03");
    assert!(terminal.exit().0 == Some(0) && !listed().contains('└'), "{}", listed());
}

#[test]
fn messages_of_a_resumed_session_are_redacted() {
    const SECRET: &str = "Yt6Re1Wq0Po9Iu8Lk7Jh";
    let pinion = Pinion::default();
    let script = pinion.script(&[say(&format!("the key is {SECRET}, over"))]);
    let replay = ["--replay", script.to_str().unwrap()];
    // To this process it is not a secret.
    assert!(pinion.run(["-p", replay[0], replay[1], "go"]).stdout.contains(SECRET));
    let mut command = pinion.command(["--ui", "full", "-c", replay[0], replay[1]]);
    command.env("OPENAI_API_KEY", SECRET);
    let terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("the key is");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && !seen.contains(SECRET) && seen.contains("over"), "{seen}");
}

#[test]
fn resume_without_an_id_lists_the_sessions() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("an answer")]);
    let replay = ["--replay", script.to_str().unwrap()];
    for prompt in ["the first talk", "the second talk"] {
        assert_eq!(pinion.run(["-p", replay[0], replay[1], prompt]).code, Some(0));
    }
    let mut terminal = Terminal::start(&pinion.default_command(["-r", "--ui", "full", replay[0], replay[1]]), SIZE, "");
    terminal.wait_for_then("the second talk", "the first talk");
    terminal.keys("first");
    terminal.wait_for("sessions 1 of 2");
    terminal.keys("\r");
    terminal.wait_for("resumed session");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && main_screen(&seen).contains("the first talk"), "{seen}");
    // In lines, it is the last one.
    let terminal = Terminal::start(&pinion.default_command(["-r", "--ui", "line", replay[0], replay[1]]), SIZE, "");
    terminal.wait_for("the second talk");
    assert_eq!(terminal.exit().0, Some(0));
    assert_eq!(pinion.run(["session", "list"]).stdout.lines().count(), 2);
}
