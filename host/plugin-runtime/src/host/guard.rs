//! A second process that kills the programs of this one when it is killed itself.
//!
//! The host kills the process group of each program that it runs. Killed with SIGKILL, it cannot. The guard is a child
//! process that knows these groups: it reads them from a pipe, the end of which means that the host is gone. It covers
//! every process that stays in the group of its program, however often it forks. A process that leaves the group on
//! purpose, such as a daemon, is not covered. One guard serves all runtimes of the process.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

static GUARD: OnceLock<Guard> = OnceLock::new();

struct Guard {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Started with the first program; none if it could not be.
    process: OnceLock<Option<(Mutex<ChildStdin>, Child)>>,
}

/// Sets the command that guards the programs of plugins, which must call [`guard_for_parent`]. Without one, they outlive
/// a host that is killed. Only the first call has an effect.
pub fn guard_programs(program: PathBuf, arguments: Vec<OsString>) {
    let _ = GUARD.set(Guard { program, arguments, process: OnceLock::new() });
}

/// Performs the work of the process that [`guard_programs`] names. Returns when the parent is gone and its programs are
/// killed.
pub fn guard_for_parent() {
    let mut groups = BTreeSet::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        match (line.get(..1), line.get(1..).and_then(|number| number.parse::<i32>().ok())) {
            (Some("+"), Some(group)) => drop(groups.insert(group)),
            (Some("-"), Some(group)) => drop(groups.remove(&group)),
            _ => {}
        }
    }
    groups.into_iter().for_each(kill);
}

/// Starts the guard unless it runs already. Called before the first program starts.
pub(super) fn start() {
    if let Some(guard) = GUARD.get() {
        guard.process.get_or_init(|| guard.spawn());
    }
}

/// Tells the guard of a process group that it has to kill.
pub(super) fn watch(group: u32) {
    tell('+', group);
}

/// Tells the guard that a process group is gone.
pub(super) fn forget(group: u32) {
    tell('-', group);
}

fn tell(sign: char, group: u32) {
    if let Some(Some((pipe, _))) = GUARD.get().and_then(|guard| guard.process.get()) {
        let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
        // In one write, which a pipe takes as a whole. A guard that is gone guards nothing.
        let _ = pipe.write_all(format!("{sign}{group}\n").as_bytes());
    }
}

impl Guard {
    fn spawn(&self) -> Option<(Mutex<ChildStdin>, Child)> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A Ctrl-C on the terminal is not for the guard.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command
            .spawn()
            .inspect_err(|error| tracing::warn!(%error, "programs will outlive this process if it is killed"))
            .ok()?;
        Some((Mutex::new(child.stdin.take()?), child))
    }
}

/// Kills a process group. Refuses those of the system and of this process.
#[cfg(unix)]
pub(super) fn kill(group: i32) {
    if let Some(group) = rustix::process::Pid::from_raw(group).filter(|_| group > 1) {
        // It may be gone already, as intended.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// Other systems have no process groups.
#[cfg(not(unix))]
pub(super) fn kill(_group: i32) {}
