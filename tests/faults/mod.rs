//! Faults of the environment: full disks, signals, kills, files that disappear, streams that are closed or never end.
//!
//! By default each test takes a sample. `PINION_LONG=1` tries every byte and every moment.

mod disk;
mod environment;
mod input;
mod killed_runs;
mod kills;
mod signals;

#[cfg(target_os = "linux")]
pub(crate) use self::environment::{by_nobody, can_be_nobody};

use pinion_tests::{Ended, Pinion, call, say};
use serde_json::Value;
use std::process::Command;

/// Returns every number below `end`, or a sample of about `count` of them that includes both ends.
fn sample(end: usize, count: usize) -> Vec<usize> {
    let is_long = std::env::var_os("PINION_LONG").is_some();
    let step = if is_long { 1 } else { (end / count).max(1) };
    (0..end).step_by(step).chain(end.checked_sub(1)).collect()
}

/// Returns the command that runs scripted replies with more options.
fn scripted(pinion: &Pinion, replies: &[Value], more: &[&str]) -> Command {
    let script = pinion.script(replies);
    let base = ["-p", "--replay", script.to_str().unwrap()];
    pinion.command(base.iter().chain(more).chain(&["go"]))
}

fn run(mut command: Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns a command that first runs `wrapper`, which has to end by executing the rest of its arguments.
fn wrapped(wrapper: &[&str], command: &Command) -> Command {
    let mut wrapped = Command::new(wrapper[0]);
    wrapped.args(&wrapper[1..]).arg(command.get_program()).args(command.get_args()).env_clear();
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    wrapped.current_dir(command.get_current_dir().unwrap()).stdin(std::process::Stdio::null());
    wrapped
}

/// Asserts an orderly failure: the exit status, one error with these parts, and no panic.
fn assert_failed(ended: &Ended, code: i32, parts: &[&str]) {
    crate::product::command::assert_error(ended, code, parts);
    assert!(!ended.stderr.contains("internal error"), "{ended:?}");
}
