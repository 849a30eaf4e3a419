//! Namespaces of a program's own: users, mounts, processes, IPC, and the network unless the policy allows it.
//!
//! The helper stays outside, names the users of the new namespaces and waits. Its copy is the first process inside,
//! which builds the [tree](super::mounts), gives up its rights, starts the program and adopts the processes that the
//! program leaves behind. When it ends, the kernel kills everything else in the namespace; it ends with the program,
//! and when the helper is killed. It also [watches](super::watch) the tree; to cover something again it would need its
//! rights, so the helper does that.

use crate::error::SandboxError;
use crate::linux::cgroup::ControlGroup;
use crate::linux::watch::{CoverState, Watch, replaced};
use crate::linux::{mounts, passing, removed, restrict, sys};
use crate::policy::{CheckReport, HelperOutcome, HelperRequest, Network};
use crate::tunnel::PROXY_PORT;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl::{set_dumpable, set_pdeathsig};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getegid, geteuid, getpid, pipe2, setsid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Added to the number of a signal for the exit status, as shells do.
const SIGNALLED: i32 = 128;
const REMEDY: &str = "allow user namespaces (`sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu, \
                      `--security-opt seccomp=unconfined` for Docker), or set `mode = \"best-effort\"` in `[sandbox]`";

/// A message of the first process inside to the helper, in a line.
#[derive(Debug, Serialize, Deserialize)]
enum InitMessage {
    /// Hidden paths have to be covered again.
    Cover(#[serde(with = "crate::encoding::paths")] Vec<PathBuf>),
    /// The last message.
    Ended(InitExit),
}

/// The end of the first process.
#[derive(Debug, Serialize, Deserialize)]
enum InitExit {
    Failed(String),
    Checked(CheckReport),
    Exited(i32),
    Signalled(i32),
}

/// The namespaces of the first process, which the helper can enter.
struct Inside {
    users: File,
    mounts: File,
}

/// Runs the program in new namespaces and returns its exit status; without one, only checks.
pub(super) fn enter(
    request: &HelperRequest,
    program: Option<Command>,
    group: Result<ControlGroup, String>,
) -> Result<HelperOutcome, SandboxError> {
    let sockets = match mounts::sockets() {
        Ok(sockets) => sockets,
        Err(error) => {
            removed(group);
            return Err(error);
        }
    };
    let failed = |error: io::Error| SandboxError::step("connect to the first process", error);
    let (messages, mut report) = pipe().map_err(failed)?;
    let (begin, mut began) = pipe().map_err(failed)?;
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    if request.policy.network != Network::On {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    let missing =
        |error: io::Error| SandboxError::Layer { layer: "a user namespace", reason: error.to_string(), remedy: REMEDY };
    let Some(inside) = sys::fork_into(flags | CloneFlags::CLONE_NEWUSER).map_err(missing)? else {
        drop((messages, began));
        // The program must not outlive the helper.
        let outcome = set_pdeathsig(Signal::SIGKILL)
            .map_err(|error| SandboxError::step("end with the helper", error.desc()))
            .and_then(|()| wait_for_helper(begin))
            .and_then(|()| {
                let _ = group.as_ref().map(ControlGroup::enter);
                run_inside(request, program, &sockets, &mut report)
            });
        send(&mut report, &InitMessage::Ended(outcome.unwrap_or_else(|error| InitExit::Failed(error.to_string()))));
        return Ok(HelperOutcome::Ended(ExitCode::SUCCESS));
    };
    drop((report, begin));
    if let Err(error) = name_users(inside) {
        // The copy ends, because nothing tells it to begin.
        drop(began);
        let _ = waitpid(Pid::from_raw(inside), None);
        removed(group);
        return Err(missing(error));
    }
    // Before the first process is closed to others.
    let namespaces = Inside::open(inside);
    // Stays open for as long as the helper lives.
    began.write_all(b"!").map_err(failed)?;
    let ended = listen(messages, namespaces.ok().as_ref(), inside);
    // It is gone, or about to be.
    let _ = waitpid(Pid::from_raw(inside), None);
    let ran_out_of_memory = group.as_ref().is_ok_and(ControlGroup::ran_out_of_memory);
    let no_group = removed(group);
    match ended? {
        Some(InitExit::Exited(code)) => Ok(HelperOutcome::Ended(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))),
        Some(InitExit::Signalled(signal)) => Ok(HelperOutcome::Ended(die_by(signal))),
        Some(InitExit::Failed(error)) => Err(SandboxError::Inside(error)),
        Some(InitExit::Checked(report)) => Ok(HelperOutcome::Checked(CheckReport { no_group, ..report })),
        // The kernel kills the first process with the others of its group.
        None if ran_out_of_memory => {
            Err(SandboxError::OutOfMemory { bytes: request.policy.limits.memory_bytes.unwrap_or_default() })
        }
        None => Err(SandboxError::step("run the program", "its first process was killed")),
    }
}

/// Waits for the end of the first process, and covers the paths that it asks for in the meantime. Returns `None` if it
/// was killed.
fn listen(messages: File, namespaces: Option<&Inside>, inside: i32) -> Result<Option<InitExit>, SandboxError> {
    for line in BufReader::new(messages).lines() {
        match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
            Some(InitMessage::Ended(ended)) => return Ok(Some(ended)),
            Some(InitMessage::Cover(paths)) => {
                if let Err(error) = namespaces.ok_or(Errno::EPERM).and_then(|inside| inside.cover(&paths)) {
                    let _ = kill(Pid::from_raw(inside), Signal::SIGKILL);
                    let path = paths.first().map(|path| path.display().to_string()).unwrap_or_default();
                    return Err(SandboxError::step(format!("cover `{path}` again"), error.desc()));
                }
            }
            None => return Ok(None),
        }
    }
    Ok(None)
}

impl Inside {
    fn open(process: i32) -> io::Result<Self> {
        let open = |name: &str| File::open(format!("/proc/{process}/ns/{name}"));
        Ok(Self { users: open("user")?, mounts: open("mnt")? })
    }

    /// Covers hidden paths in the tree of the program. A separate process, which the program does not see, enters it.
    fn cover(&self, paths: &[PathBuf]) -> Result<(), Errno> {
        let failed = |error: io::Error| Errno::from_raw(error.raw_os_error().unwrap_or_default());
        let Some(process) = sys::fork_into(CloneFlags::empty()).map_err(failed)? else {
            let entered = setns(&self.users, CloneFlags::CLONE_NEWUSER)
                .and_then(|()| setns(&self.mounts, CloneFlags::CLONE_NEWNS));
            let covered = entered.is_ok() && paths.iter().all(|path| mounts::hide(path).is_ok());
            std::process::exit(i32::from(!covered));
        };
        match waitpid(Pid::from_raw(process), None)? {
            WaitStatus::Exited(_, 0) => Ok(()),
            _ => Err(Errno::EPERM),
        }
    }
}

fn pipe() -> io::Result<(File, File)> {
    let (read, write) = pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    Ok((read.into(), write.into()))
}

/// Returns once the helper has named the users, if it still lived after this process asked to end with it.
fn wait_for_helper(mut begin: File) -> Result<(), SandboxError> {
    let failed = |error: io::Error| SandboxError::step("begin", error);
    begin.read_exact(&mut [0]).map_err(failed)?;
    let mut helper = [PollFd::new(begin.as_fd(), PollFlags::empty())];
    match poll(&mut helper, PollTimeout::ZERO) {
        Ok(0) => Ok(()),
        Ok(_) => Err(failed(io::Error::other("the helper was killed"))),
        Err(error) => Err(failed(error.into())),
    }
}

fn send(report: &mut File, message: &InitMessage) {
    let mut text = serde_json::to_vec(message).unwrap_or_default();
    text.push(b'\n');
    // A helper that is gone reads nothing.
    let _ = report.write_all(&text);
}

/// Ends this process like the program ended.
fn die_by(signal: i32) -> ExitCode {
    if let Ok(signal) = Signal::try_from(signal) {
        // Twice, because the handler of the standard library for some signals returns the first time.
        for _ in 0..2 {
            let _ = kill(getpid(), signal);
        }
    }
    ExitCode::from(u8::try_from(SIGNALLED + signal).unwrap_or(u8::MAX))
}

/// Gives the users and groups in the namespace of a process the numbers that they have here.
///
/// For root, all of them, so that it can use the files of others, as it is used to; only itself if the system refuses that.
fn name_users(process: i32) -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let write = |file: &str, text: &str| fs::write(format!("/proc/{process}/{file}"), text);
    let identity = |file: &str| fs::read_to_string(format!("/proc/self/{file}")).map(|map| identity(&map));
    if user == 0 {
        let (users, groups) = (identity("uid_map")?, identity("gid_map")?);
        if write("uid_map", &users).and_then(|()| write("gid_map", &groups)).is_ok() {
            return Ok(());
        }
    }
    write("setgroups", "deny")?;
    write("uid_map", &format!("{user} {user} 1"))?;
    write("gid_map", &format!("{group} {group} 1"))
}

/// Returns the map of every number that is valid here to itself.
fn identity(map: &str) -> String {
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_ascii_whitespace();
        let (first, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some(format!("{first} {first} {count}\n"))
    });
    ranges.collect()
}

/// Performs the work of the first process.
fn run_inside(
    request: &HelperRequest,
    program: Option<Command>,
    sockets: &BTreeSet<PathBuf>,
    report: &mut File,
) -> Result<InitExit, SandboxError> {
    // Without a terminal, nothing can be pushed into it.
    setsid().map_err(|error| SandboxError::step("leave the terminal", error.desc()))?;
    let covers = mounts::build(&request.policy, sockets)?;
    let watch = Watch::begin(covers)?;
    if request.policy.network != Network::On {
        loopback().map_err(|error| SandboxError::step("start the loopback device", error))?;
        if let Some(socket) = request.proxy {
            hand_over_listener(socket).map_err(|error| SandboxError::step("connect to the proxy", error))?;
        }
    }
    let directory = &request.directory;
    std::env::set_current_dir(directory)
        .map_err(|error| SandboxError::step(format!("enter `{}`", directory.display()), error))?;
    let checked = restrict(request)?;
    let Some(mut program) = program else {
        return Ok(InitExit::Checked(checked));
    };
    // Programs have no business in this process, although it can do no more than they can.
    set_dumpable(false).map_err(|error| SandboxError::step("close the first process to others", error.desc()))?;
    let child = program.spawn().map_err(|error| super::not_started(&program, &error))?;
    let program = Pid::from_raw(i32::try_from(child.id()).unwrap_or(-1));
    wait_for(program, watch, report).map_err(|error| SandboxError::step("wait for the program", error.desc()))
}

/// Waits for a program, and for every process that lost its parent in the meantime, and watches the covers.
fn wait_for(program: Pid, mut watch: Watch, report: &mut File) -> Result<InitExit, Errno> {
    // The program has started already, so that this is not its mask.
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    loop {
        // Also those that ended before.
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(process, code)) if process == program => return Ok(InitExit::Exited(code)),
                Ok(WaitStatus::Signaled(process, signal, _)) if process == program => {
                    return Ok(InitExit::Signalled(signal as i32));
                }
                Ok(WaitStatus::StillAlive) => break,
                Err(Errno::ECHILD) => return Ok(InitExit::Failed("the program is gone".to_owned())),
                Ok(_) | Err(_) => {}
            }
        }
        let wait = PollTimeout::try_from(watch.wait()).unwrap_or(PollTimeout::ZERO);
        let mut ready = [PollFd::new(signals.as_fd(), PollFlags::POLLIN), watch.descriptor()];
        let is_time = match poll(&mut ready, wait) {
            Ok(number) => number == 0,
            Err(Errno::EINTR) => false,
            Err(error) => return Err(error),
        };
        let is_changed = ready[1].any().unwrap_or(true);
        while signals.read_signal()?.is_some() {}
        // Signals alone must not put off the next look.
        if !is_changed && !is_time && !watch.wait().is_zero() {
            continue;
        }
        match watch.check_covers() {
            Ok(CoverState::Whole) => {}
            Ok(CoverState::Renew(paths)) => send(report, &InitMessage::Cover(paths)),
            Ok(CoverState::Lost(path)) => {
                // All but this one.
                let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
                return Ok(InitExit::Failed(replaced(&path).to_string()));
            }
            Err(error) => return Ok(InitExit::Failed(SandboxError::step("watch the mounts", error).to_string())),
        }
    }
}

/// Creates the socket that the program uses as the proxy's address, and leaves it to the parent.
fn hand_over_listener(socket: i32) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))?;
    passing::send(&passing::inherited(socket), listener.as_fd())
}

/// Starts the loopback device of a new network namespace, which has number 1.
fn loopback() -> io::Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 5;
    const UP: u32 = 1;
    const ERROR: u16 = 2;
    let mut message = Vec::with_capacity(32);
    // A header: length, type, flags, number and sender; then family, type, index, flags and the mask of these.
    message.extend(32_u32.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([0; 4]);
    message.extend(1_i32.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    let mut socket = sys::routing_socket()?;
    socket.write_all(&message)?;
    let mut answer = [0; 1024];
    let length = socket.read(&mut answer)?;
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    let code = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    match (length >= 20 && kind == ERROR, code) {
        (true, 0) => Ok(()),
        (true, code) => Err(io::Error::from_raw_os_error(-code)),
        (false, _) => Err(io::Error::other("unexpected answer")),
    }
}
