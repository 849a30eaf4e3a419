//! A second process that kills the programs of this one when it is killed itself.
//!
//! The host kills the process group of each program that it runs. Killed with SIGKILL, it cannot. The guard is a child
//! process that knows these groups: it reads them from a socket, whose end means that the host is gone. Each program
//! writes its own group there before it begins, so that it never runs unknown to the guard. The guard covers every
//! process that stays in the group of its program, however often it forks. A process that leaves the group on purpose,
//! such as a daemon, is not covered. One guard serves all runtimes of the process.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

/// Time that killed programs get to end.
const ENDING: Duration = Duration::from_secs(2);

static GUARD: OnceLock<Guard> = OnceLock::new();

struct Guard {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Started with the first program; `None` if the start failed.
    process: OnceLock<Option<imp::GuardProcess>>,
}

/// Sets the command that guards the programs of plugins, which must call [`guard_for_parent`]. Without one, they outlive
/// a host that is killed. Only the first call has an effect.
pub fn guard_programs(program: PathBuf, arguments: Vec<OsString>) {
    let _ = GUARD.set(Guard { program, arguments, process: OnceLock::new() });
}

/// Performs the work of the process that [`guard_programs`] names. Returns when the parent is gone and its programs have
/// ended, or two seconds after they were killed.
pub fn guard_for_parent() {
    let groups = groups_left(io::stdin().lock(), imp::exists);
    // A confined program ends with the first child of its group, which the system kills in turn.
    let processes: Vec<i32> = groups.iter().flat_map(|group| imp::with_children(*group)).collect();
    groups.into_iter().for_each(kill);
    let killed = Instant::now();
    while killed.elapsed() < ENDING && processes.iter().any(|process| imp::runs(*process)) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads groups to their end, each a number of four bytes: positive when it begins, negative when it has ended, and 0 when a
/// program that wrote its group did not start.
fn groups_left(mut input: impl Read, exists: impl Fn(i32) -> bool) -> BTreeSet<i32> {
    let mut groups = BTreeSet::new();
    let mut number = [0; 4];
    while input.read_exact(&mut number).is_ok() {
        match i32::from_le_bytes(number) {
            0 => groups.retain(|group| exists(*group)),
            ended @ ..0 => drop(groups.remove(&ended.wrapping_neg())),
            group => drop(groups.insert(group)),
        }
    }
    groups
}

/// Starts a program that begins a process group, which the guard knows before the program runs.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let Some(process) = process() else { return command.spawn() };
    process.introduce(command);
    command.spawn().inspect_err(|_| process.send_number(0))
}

/// Tells the guard that a process group is gone.
pub(crate) fn forget(group: i32) {
    if let Some(process) = process() {
        process.send_number(group.wrapping_neg());
    }
}

/// Returns the guard, which runs from then on.
fn process() -> Option<&'static imp::GuardProcess> {
    let guard = GUARD.get()?;
    let started = guard.process.get_or_init(|| {
        imp::GuardProcess::start(&guard.program, &guard.arguments)
            .inspect_err(|error| tracing::warn!(%error, "programs will outlive this process if it is killed"))
            .ok()
    });
    started.as_ref()
}

/// Kills a process group. Refuses process groups of the system and of this process.
pub(crate) fn kill(group: i32) {
    if group > 1 {
        imp::kill(group);
    }
}

#[cfg(unix)]
mod imp {
    #![allow(unsafe_code, reason = "no safe interface does anything between the fork of a program and its start")]

    use rustix::net::{SendFlags, send};
    use rustix::process::{Pid, Signal, getpid, kill_process_group, test_kill_process_group};
    use std::ffi::OsString;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt as _;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::sync::Arc;

    /// A guard that is gone must not end who writes to it.
    #[cfg(not(target_vendor = "apple"))]
    const FLAGS: SendFlags = SendFlags::NOSIGNAL;
    /// The standard library sets this for every socket there.
    #[cfg(target_vendor = "apple")]
    const FLAGS: SendFlags = SendFlags::empty();

    /// The guard, as seen from its parent.
    pub(super) struct GuardProcess(Arc<UnixStream>);

    impl GuardProcess {
        pub(super) fn start(program: &Path, arguments: &[OsString]) -> io::Result<Self> {
            let (told, telling) = UnixStream::pair()?;
            let mut command = Command::new(program);
            command.args(arguments).env_clear().stdin(OwnedFd::from(told)).stdout(Stdio::null()).stderr(Stdio::null());
            // A Ctrl-C on the terminal is not for the guard.
            command.process_group(0).spawn()?;
            Ok(Self(Arc::new(telling)))
        }

        /// Makes a program write its group before it runs.
        pub(super) fn introduce(&self, command: &mut tokio::process::Command) {
            let socket = Arc::clone(&self.0);
            let introduce = move || {
                write_number(&socket, getpid().as_raw_nonzero().get());
                Ok(())
            };
            // SAFETY: the closure only makes two system calls, allocates nothing and takes no lock.
            unsafe { command.pre_exec(introduce) };
        }

        pub(super) fn send_number(&self, number: i32) {
            write_number(&self.0, number);
        }
    }

    /// Writes a number, whole or not at all.
    fn write_number(socket: &UnixStream, number: i32) {
        // A guard that is gone guards nothing.
        let _ = rustix::io::retry_on_intr(|| send(socket, &number.to_le_bytes(), FLAGS));
    }

    pub(super) fn kill(group: i32) {
        if let Some(group) = Pid::from_raw(group) {
            // It may be gone already, as intended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Returns the first process of a group, and its children where the system lists them.
    pub(super) fn with_children(group: i32) -> Vec<i32> {
        let children = std::fs::read_to_string(format!("/proc/{group}/task/{group}/children")).unwrap_or_default();
        children.split_whitespace().filter_map(|child| child.parse().ok()).chain([group]).collect()
    }

    /// Returns whether a process has not ended. A dead one may have to wait for its parent.
    pub(super) fn runs(process: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The name before the state may contain anything.
        stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']) && !rest.is_empty())
    }

    pub(super) fn exists(group: i32) -> bool {
        Pid::from_raw(group).is_some_and(|group| test_kill_process_group(group) != Err(rustix::io::Errno::SRCH))
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::io::Read as _;

        #[test]
        fn program_tells_its_group_before_it_runs() {
            let (mut told, telling) = UnixStream::pair().unwrap();
            let process = GuardProcess(Arc::new(telling));
            let mut command = tokio::process::Command::new("/no/such/program");
            command.process_group(0);
            process.introduce(&mut command);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { command.spawn() }).unwrap_err();
            let mut number = [0; 4];
            told.read_exact(&mut number).unwrap();
            assert!(!exists(i32::from_le_bytes(number)), "{number:?}");
        }

        #[cfg(target_os = "linux")]
        #[test]
        fn processes_run_until_they_are_dead() {
            let own = getpid().as_raw_nonzero().get();
            let mut child = Command::new("sleep").arg("100").spawn().unwrap();
            let process = i32::try_from(child.id()).unwrap();
            // The test may have been started by another thread than the first.
            assert!(with_children(own).contains(&own) && runs(own) && runs(process));
            child.kill().unwrap();
            while runs(process) {
                std::thread::yield_now();
            }
            child.wait().unwrap();
            assert!(!runs(process) && with_children(process) == [process]);
        }

        #[test]
        fn guard_that_is_gone_stops_no_program() {
            let process = GuardProcess(Arc::new(UnixStream::pair().unwrap().1));
            let mut command = tokio::process::Command::new("true");
            process.introduce(command.process_group(0));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let status = runtime.block_on(async { command.status().await.unwrap() });
            assert!(status.success(), "{status:?}");
            process.send_number(0);
        }
    }
}

/// Other systems have no process groups.
#[cfg(not(unix))]
mod imp {
    use std::ffi::OsString;
    use std::io;
    use std::path::Path;

    pub(super) struct GuardProcess;

    impl GuardProcess {
        pub(super) fn start(_program: &Path, _arguments: &[OsString]) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn introduce(&self, _command: &mut tokio::process::Command) {}

        pub(super) fn send_number(&self, _number: i32) {}
    }

    pub(super) fn kill(_group: i32) {}

    pub(super) fn with_children(_group: i32) -> Vec<i32> {
        Vec::new()
    }

    pub(super) fn runs(_process: i32) -> bool {
        false
    }

    pub(super) fn exists(_group: i32) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_left_are_those_that_began_and_did_not_end() {
        let input: Vec<u8> = [7, 8, 9, -8, 10, 0, 11].into_iter().flat_map(i32::to_le_bytes).collect();
        let cut = [&input[..], &[1, 2]].concat();
        assert_eq!(groups_left(&cut[..], |group| group != 10), BTreeSet::from([7, 9, 11]));
    }
}
