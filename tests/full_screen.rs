//! The full-screen UI on a real terminal: approvals, interrupts, commands, and the terminal afterwards.

use crate::faults::{by_nobody, can_be_nobody};
use pinion_tests::{Pinion, Terminal, guest, say, wait_until};
use rustix::process::Pid;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SIZE: (u16, u16) = (80, 24);
/// The keys of a question, which are named once they count.
const KEYS: &str = "[y] yes";
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
/// Words of the greeting in a conversation by lines.
const LINES: &str = "/help lists commands";

fn bash(command: &str) -> Value {
    json!({ "calls": [{ "tool": "bash", "arguments": { "command": command } }] })
}

/// Starts a conversation in the full-screen UI with this model, and with `typed` as type-ahead.
fn conversation(pinion: &Pinion, replies: &[Value], typed: &str) -> Terminal {
    let script = pinion.script(replies);
    let command = pinion.command(["--ui", "full", "--approve", "ask", "--replay", script.to_str().unwrap(), "go"]);
    Terminal::start(&command, SIZE, typed)
}

/// Starts a conversation in which the user has allowed a program that runs for minutes.
fn running(pinion: &Pinion) -> Terminal {
    let mut terminal = conversation(pinion, &[bash("sleep 600")], "");
    terminal.wait_for(KEYS);
    terminal.keys("y");
    terminal.wait_for("running bash");
    terminal
}

/// Returns what is on the main screen after the UI has left.
fn main_screen(seen: &str) -> &str {
    seen.rsplit_once(LEAVE).expect("the UI did not leave").1
}

fn process(terminal: &Terminal) -> Pid {
    Pid::from_raw(terminal.pid().cast_signed()).unwrap()
}

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

#[test]
fn type_ahead_and_paste_do_not_answer() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[bash("touch pwned"), say("finished")], "y\ry\ra\r");
    terminal.wait_for(KEYS);
    terminal.keys("yes\ry\r");
    terminal.wait_for("several keys at once");
    terminal.wait_for_nth(KEYS, 2);
    terminal.keys("n");
    terminal.wait_for("finished");
    // Keys that were read before the question are in the editor; those after it are gone.
    terminal.keys("\x03");
    terminal.wait_for_any(&["cleared", "ctrl+c again to exit"]);
    let (status, seen) = terminal.exit();
    assert_eq!(status, Some(0), "{seen}");
    assert!(!pinion.workspace().join("pwned").exists());
}

#[test]
fn one_key_pressed_after_the_question_answers() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[bash("touch wanted"), say("finished")], "");
    terminal.wait_for(KEYS);
    terminal.keys("y");
    terminal.wait_for("finished");
    let (_, seen) = terminal.exit();
    assert!(pinion.workspace().join("wanted").exists());
    let left = main_screen(&seen);
    assert!(left.contains("touch wanted") && left.contains("finished") && left.contains("Resume with"), "{left}");
}

#[test]
fn message_and_queue_of_a_killed_conversation_return() {
    let pinion = Pinion::default();
    let mut killed = running(&pinion);
    killed.keys("queued words\r!later\rhalf a thought");
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
fn escape_interrupts_a_running_program() {
    let pinion = Pinion::default();
    let mut terminal = running(&pinion);
    terminal.keys("\x1b");
    terminal.wait_for("interrupted");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn commands_of_plugins_work() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("finished")], "");
    terminal.wait_for("finished");
    terminal.keys("/help\r");
    terminal.wait_for("/compact [focus]");
    assert_eq!(terminal.exit().0, Some(0));
}

/// Starts a conversation with the plugin `talker`, whose tool follows these steps. Its grants were bound by an earlier run.
fn talking(pinion: &Pinion, steps: &Value) -> Terminal {
    pinion.config("[plugins.talker.grants]\nui = true\n");
    let plugin = guest("talker");
    let with = |mode: &[&str], script: &Path| {
        let arguments = ["--plugin", plugin.to_str().unwrap(), "--replay", script.to_str().unwrap(), "go"];
        pinion.command(mode.iter().chain(&arguments))
    };
    assert!(with(&["-p"], &pinion.script(&[say("bound")])).output().unwrap().status.success());
    let call = json!({ "calls": [{ "tool": "talk", "arguments": { "steps": steps } }] });
    Terminal::start(&with(&["--ui", "full"], &pinion.script(&[call, say("finished")])), SIZE, "")
}

/// Returns the last session as text.
fn last_session(pinion: &Pinion) -> String {
    let id = pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
    pinion.run(["session", "show", &id]).stdout
}

#[test]
fn dialog_of_a_plugin_is_answered_by_one_key() {
    let pinion = Pinion::default();
    let mut terminal = talking(&pinion, &json!([{ "confirm": "shall I go on?" }]));
    terminal.wait_for("the plugin talker asks you");
    terminal.wait_for(KEYS);
    terminal.keys("y");
    terminal.wait_for("finished");
    let (status, seen) = terminal.exit();
    assert_eq!(status, Some(0), "{seen}");
    let session = last_session(&pinion);
    assert!(session.contains("Ok(true)"), "{session}");
}

#[test]
fn dialog_of_a_plugin_is_closed_by_escape() {
    let pinion = Pinion::default();
    let mut terminal = talking(&pinion, &json!([{ "confirm": "shall I go on?" }]));
    terminal.wait_for(KEYS);
    terminal.keys("\x1b");
    terminal.wait_for("finished");
    assert_eq!(terminal.exit().0, Some(0));
    let session = last_session(&pinion);
    assert!(session.contains("Dismissed"), "{session}");
}

#[test]
fn terminal_is_restored_after_a_signal() {
    let pinion = Pinion::default();
    let terminal = conversation(&pinion, &[say("finished")], "");
    terminal.wait_for("finished");
    rustix::process::kill_process(process(&terminal), rustix::process::Signal::TERM).unwrap();
    terminal.wait_for(LEAVE);
    assert!(terminal.is_restored());
    assert_eq!(terminal.end().0, Some(143));
}

#[test]
fn escape_sequences_of_models_and_programs_stay_text() {
    let pinion = Pinion::default();
    let hostile = "a\x1b]52;c;cHduZWQ=\x07b\x1b[2Jc\u{9b}31m\u{202e}";
    let terminal = conversation(&pinion, &[say(hostile)], "");
    terminal.wait_for("cHduZWQ=");
    let (_, seen) = terminal.exit();
    assert!(!seen.contains("\x1b]52") && !seen.contains(['\u{9b}', '\u{202e}', '\x07']), "{seen:?}");
    assert!(seen.contains("a␛]52;c;cHduZWQ=␇b␛[2Jc"), "{seen:?}");
}

#[test]
fn command_of_the_user_runs_and_reaches_the_model_with_the_next_message() {
    let pinion = Pinion::default();
    std::fs::write(pinion.workspace().join("found-by-ls"), "").unwrap();
    let mut terminal = conversation(&pinion, &[say("finished"), say("understood")], "");
    terminal.wait_for("finished");
    terminal.keys("!ls\r");
    terminal.wait_for("found-by-ls");
    terminal.keys("!!echo private-$((1 + 1))\r");
    terminal.wait_for("private-2");
    terminal.keys("what is there?\r");
    terminal.wait_for("understood");
    assert_eq!(terminal.exit().0, Some(0));
    let id = pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
    let session = pinion.run(["session", "show", &id]).stdout;
    assert!(session.contains("I ran this command") && session.contains("found-by-ls"), "{session}");
    assert!(!session.contains("private-2"), "{session}");
}

#[test]
fn plan_is_made_and_executed_in_the_conversation() {
    let answer = |arguments: Value| json!({ "calls": [{ "tool": "final_answer", "arguments": arguments }] });
    let step =
        |title: &str| json!({ "title": title, "description": "As said.", "files": [], "acceptance": ["It works."] });
    let plan = json!({ "title": "Fix it", "summary": "Short.", "steps": [step("Look"), step("Change")] });
    let report = |text: &str| answer(json!({ "done": true, "report": text }));
    let pinion = Pinion::default();
    let replies = [say("finished"), answer(plan), report("looked"), report("changed")];
    let mut terminal = conversation(&pinion, &replies, "");
    terminal.wait_for("finished");
    // Of a hint, only what differs from the one before is drawn.
    for mode in ["smart", "edits", "plan mode"] {
        terminal.keys("\x1b[Z");
        terminal.wait_for(mode);
    }
    terminal.keys("fix it\r");
    // Keys count once the list says how many choices there are.
    terminal.wait_for_then("execute the plan", "4 of 4");
    terminal.keys("\r");
    terminal.wait_for("all steps of");
    let plan = std::fs::read_to_string(pinion.workspace().join(".pinion/plans/fix-it.md")).unwrap();
    assert_eq!(plan.matches("Status: done").count(), 2, "{plan}");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && main_screen(&seen).contains("step 2 of 2: Change: done"), "{seen}");
    assert!(pinion.run(["session", "list"]).stdout.contains("plan: Fix it"));
}

#[test]
fn context_and_copies_are_shown() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("finished")], "");
    terminal.wait_for("finished");
    terminal.keys("/context\r");
    terminal.wait_for("your messages");
    terminal.keys("/copy\r");
    // The base64 form of the answer.
    terminal.wait_for("\x1b]52;c;ZmluaXNoZWQ=\x07");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn side_question_is_answered_while_the_agent_works_and_leaves_no_trace() {
    let pinion = Pinion::default();
    pinion.config("approve = \"all\"\n");
    let calls = json!({ "calls": [{ "tool": "bash", "arguments": { "command": "touch used" } }] });
    let replies = [
        bash("until [ -e go ]; do sleep 0.05; done"),
        json!({ "text": "because it is green", "usage": { "input": 4_000, "output": 321 } }),
        calls,
        say("finished"),
        say("later"),
    ];
    let script = pinion.script(&replies);
    let command = pinion.default_command(["--replay", script.to_str().unwrap(), "go"]);
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("running bash");
    terminal.keys("/btw why is it so?\r");
    terminal.wait_for("because it is green");
    // A model that calls a tool all the same gets none.
    terminal.keys("/btw use a tool\r");
    terminal.wait_for("no answer without tools");
    pinion.write("go", "");
    terminal.wait_for("finished");
    // What it cost counts.
    terminal.wait_for("4.3 k tokens");
    terminal.keys("and now?\r");
    terminal.wait_for("later");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && main_screen(&seen).contains("because it is green"), "{seen}");
    let session = last_session(&pinion);
    assert!(session.contains("finished") && session.contains("later"), "{session}");
    assert!(
        !session.contains("green") && !session.contains("why is it") && !session.contains("touch used"),
        "{session}"
    );
    assert!(!pinion.workspace().join("used").exists());
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
fn mouse_is_reported_only_if_the_user_wants_it_and_until_the_end() {
    const ON: &str = "\x1b[?1000h\x1b[?1006h";
    let pinion = Pinion::default();
    let script = pinion.script(&[say("done")]);
    let command = pinion.default_command(["--replay", script.to_str().unwrap(), "--no-session", "go"]);
    let terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("done");
    assert!(!terminal.exit().1.contains("[?1000h"));
    pinion.config("[tui]\nmouse = true\n");
    let terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("done");
    let (status, seen) = terminal.exit();
    assert_eq!(status, Some(0));
    assert!(seen.contains(ON) && seen.rfind("\x1b[?1000l") > seen.rfind(ON), "{seen}");
}

#[test]
fn messages_of_a_resumed_session_are_redacted() {
    const SECRET: &str = "Yt6Re1Wq0Po9Iu8Lk7Jh";
    let pinion = Pinion::default();
    let script = pinion.script(&[say(&format!("the key is {SECRET}, over"))]);
    let replay = ["--replay", script.to_str().unwrap()];
    // To this process it is no secret.
    assert!(pinion.run(["-p", replay[0], replay[1], "go"]).stdout.contains(SECRET));
    let mut command = pinion.command(["--ui", "full", "-c", replay[0], replay[1]]);
    command.env("OPENAI_API_KEY", SECRET);
    let terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("the key is");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && !seen.contains(SECRET) && seen.contains("over"), "{seen}");
}

#[test]
fn run_continues_while_the_external_editor_is_open() {
    let pinion = Pinion::default();
    pinion.config("approve = \"all\"\n");
    // The second call begins after the first has ended, which waits for the editor; the editor waits for the second.
    let editor =
        "#!/bin/sh\ntouch editing\nuntil [ -e second ]; do sleep 0.05; done\necho 'from the editor' > \"$1\"\n";
    let editor = pinion.write("../editor", editor);
    std::fs::set_permissions(&editor, Permissions::from_mode(0o755)).unwrap();
    let replies =
        [bash("touch first; until [ -e editing ]; do sleep 0.05; done"), bash("touch second"), say("finished")];
    let script = pinion.script(&replies);
    let mut command = pinion.command(["--ui", "full", "--replay", script.to_str().unwrap(), "go"]);
    command.env("EDITOR", editor);
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("running bash");
    // The keys after the one that starts the editor are for the UI.
    terminal.keys("\x07, and more");
    terminal.wait_for_then("from the editor", ", and more");
    terminal.wait_for("finished");
    terminal.keys("\x03");
    terminal.wait_for("cleared");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn two_ctrl_c_end_the_program_while_the_ui_is_busy() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say(&"many words ".repeat(20_000)), say("unused")]);
    let command = pinion.command(["--ui", "full", "--replay", script.to_str().unwrap(), "go"]);
    // One frame exceeds the buffer of the terminal.
    let mut terminal = Terminal::start(&command, (500, 200), "");
    terminal.wait_for("of 128 k?");
    let took = terminal.time_to_end_while_stalled(&["\x0c", "\x03", "\x03"]);
    // A second, and more on a machine that does something else.
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn two_ctrl_c_quit_during_a_run() {
    let pinion = Pinion::default();
    let mut terminal = running(&pinion);
    terminal.keys("\x03\x03");
    let (status, seen) = terminal.end();
    assert!(matches!(status, Some(0 | 130)) && seen.contains(LEAVE), "{status:?}: {seen}");
}

#[test]
fn escape_cancels_a_command_of_a_plugin() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("finished")]);
    let loiter = guest("loiter");
    let arguments = ["--ui", "full", "--plugin", loiter.to_str().unwrap(), "--replay", script.to_str().unwrap(), "go"];
    let mut terminal = Terminal::start(&pinion.command(arguments), SIZE, "");
    terminal.wait_for("finished");
    terminal.keys("/linger\r");
    terminal.wait_for("running /linger");
    terminal.keys("\x1b");
    terminal.wait_for("cancelled");
    assert_eq!(terminal.exit().0, Some(0));
}

/// Only root can limit the threads of a process that runs as someone else.
#[test]
fn terminal_is_restored_after_a_panic() {
    let pinion = Pinion::default();
    let has_threads = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    if !can_be_nobody(&pinion) || !has_threads {
        return;
    }
    std::fs::set_permissions(pinion.home(), Permissions::from_mode(0o777)).unwrap();
    // Directories enough to list them with several threads.
    for number in 0..64 {
        pinion.write(&format!("{number}/file"), "");
    }
    let script = pinion.script(&[say("finished")]);
    let command = by_nobody(&pinion, &pinion.command(["--ui", "full", "--replay", script.to_str().unwrap(), "go"]));
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("finished");
    let mut limit = Command::new("prlimit");
    limit.args(["--pid", &terminal.pid().to_string(), "--nproc=1:1"]).current_dir(pinion.workspace());
    limit.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    assert!(by_nobody(&pinion, &limit).status().unwrap().success());
    terminal.keys("@");
    terminal.wait_for("could not start a thread");
    assert!(terminal.is_restored());
    let (status, seen) = terminal.end();
    assert_eq!(status, Some(1), "{seen}");
    assert!(main_screen(&seen).contains("could not start a thread"), "{seen}");
}
