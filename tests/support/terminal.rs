//! A pseudo-terminal with a command behind it.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Pause between two lines that are typed one after another, longer than the time within which keys are a paste.
const PAUSE: Duration = Duration::from_millis(45);
/// Time limit for expected output, which appears at once unless the machine is overloaded.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The time until a key that may have been lost is pressed again.
const AGAIN: Duration = Duration::from_millis(250);

/// A pseudo-terminal and a command whose controlling terminal it is.
pub struct Terminal {
    child: Child,
    master: File,
    /// Held while the terminal shows nothing more.
    reading: Arc<Mutex<()>>,
    /// Milliseconds before each read.
    pace: Arc<AtomicU64>,
    seen: Arc<(Mutex<(String, bool)>, Condvar)>,
}

impl Terminal {
    /// Starts a command on a terminal of this size, with `typed` as type-ahead. Its `TERM` is `xterm` unless the command
    /// sets it.
    pub fn start(command: &Command, size: (u16, u16), typed: &str) -> Self {
        let (child, master) = start_on_terminal(command, size, typed);
        let seen = Arc::new((Mutex::new((String::new(), false)), Condvar::new()));
        let (reading, pace) = (Arc::new(Mutex::new(())), Arc::new(AtomicU64::new(0)));
        let (mut from, to, may_read, pause) =
            (master.try_clone().unwrap(), seen.clone(), reading.clone(), pace.clone());
        std::thread::spawn(move || {
            let (mut bytes, mut all) = ([0; 4096], Vec::new());
            loop {
                drop(may_read.lock().unwrap());
                std::thread::sleep(Duration::from_millis(pause.load(Ordering::Relaxed)));
                // Linux reports an error once all other ends are closed.
                let n = from.read(&mut bytes).unwrap_or(0);
                all.extend_from_slice(&bytes[..n]);
                *to.0.lock().unwrap() = (String::from_utf8_lossy(&all).into_owned(), n == 0);
                to.1.notify_all();
                if n == 0 {
                    return;
                }
            }
        });
        Self { child, master, reading, pace, seen }
    }

    /// Types keys.
    pub fn keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Types lines with a pause after each. Without one, they would be a paste.
    pub fn lines(&mut self, lines: &[&str]) {
        for line in lines {
            self.keys(line);
            std::thread::sleep(PAUSE);
        }
    }

    /// Changes the size and types keys at the same time: the command is stopped meanwhile.
    pub fn resize_and_type(&mut self, size: (u16, u16), keys: &str) {
        use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
        let process = Pid::from_child(&self.child);
        kill_process(process, Signal::STOP).unwrap();
        waitid(WaitId::Pid(process), WaitIdOptions::STOPPED).unwrap();
        rustix::termios::tcsetwinsize(&self.master, winsize(size)).unwrap();
        self.keys(keys);
        kill_process(process, Signal::CONT).unwrap();
    }

    /// Waits until `text` has appeared `times` times; returns all output.
    pub fn wait_for_nth(&self, text: &str, times: usize) -> String {
        self.wait_until(&format!("`{text}`, {times} times,"), |seen| seen.matches(text).count() >= times)
    }

    /// Waits until all output together is enough; returns it.
    pub fn wait_until(&self, what: &str, is_enough: impl Fn(&str) -> bool) -> String {
        let is_missing = |(seen, is_over): &mut (String, bool)| !is_enough(seen) && !*is_over;
        let state = self.seen.0.lock().unwrap();
        let (state, _) = self.seen.1.wait_timeout_while(state, TIMEOUT, is_missing).unwrap();
        assert!(is_enough(&state.0), "{what} did not appear in:\n{}", state.0);
        state.0.clone()
    }

    /// Waits until `text` has appeared; returns all output.
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_for_nth(text, 1)
    }

    /// Waits until one of `texts` has appeared.
    pub fn wait_for_any(&self, texts: &[&str]) {
        self.wait_until(&format!("any of {texts:?}"), |seen| texts.iter().any(|text| seen.contains(text)));
    }

    /// Waits until `text` has appeared, and `then` after it.
    pub fn wait_for_then(&self, text: &str, then: &str) {
        self.wait_until(&format!("`{text}` and then `{then}`"), |seen| {
            seen.split_once(text).is_some_and(|(_, rest)| rest.contains(then))
        });
    }

    /// Types Ctrl-D until the command has ended; returns its exit status and everything that has appeared. Between two
    /// lines of a conversation the terminal is not raw, and a key pressed then may be lost.
    pub fn exit(mut self) -> (Option<i32>, String) {
        for _ in 0..TIMEOUT.as_millis() / AGAIN.as_millis() {
            // Fails when the command has ended and closed its end.
            let _ = self.master.write_all(b"\x04");
            let state = self.seen.0.lock().unwrap();
            let (state, _) = self.seen.1.wait_timeout_while(state, AGAIN, |(_, is_over)| !*is_over).unwrap();
            if state.1 {
                break;
            }
        }
        self.end()
    }

    /// Shows from now on at most 4 KB in this many milliseconds.
    pub fn slow_down(&self, milliseconds: u64) {
        self.pace.store(milliseconds, Ordering::Relaxed);
    }

    /// Types keys while the command's output is not read, so that its writes block before long. Returns the time until
    /// the command has ended.
    pub fn time_to_end_while_stalled(&mut self, keys: &[&str]) -> Duration {
        let stalled = self.reading.clone();
        let _stalled = stalled.lock().unwrap();
        let started = std::time::Instant::now();
        keys.iter().for_each(|keys| self.keys(keys));
        crate::wait_until("the command has ended", || self.child.try_wait().unwrap().is_some());
        started.elapsed()
    }

    /// Returns the process of the command.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the terminal edits lines and echoes keys, as a shell needs it.
    pub fn is_restored(&self) -> bool {
        use rustix::termios::LocalModes;
        let modes = rustix::termios::tcgetattr(&self.master).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Waits until the command has ended; returns its exit status and all output.
    pub fn end(mut self) -> (Option<i32>, String) {
        let state = self.seen.0.lock().unwrap();
        let (state, _) = self.seen.1.wait_timeout_while(state, TIMEOUT, |(_, is_over)| !*is_over).unwrap();
        assert!(state.1, "the command did not end:\n{}", state.0);
        let seen = state.0.clone();
        drop(state);
        (self.child.wait().unwrap().code(), seen)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, or the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a command like [`Terminal::start`]. Returns its process, and the end of the terminal that shows its output and types keys.
pub fn start_on_terminal(command: &Command, size: (u16, u16), typed: &str) -> (Child, File) {
    let open = |path: &str| {
        let no_terminal = i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).unwrap();
        OpenOptions::new().read(true).write(true).custom_flags(no_terminal).open(path).unwrap()
    };
    let mut master = open("/dev/ptmx");
    let slave = open(&format!("/dev/pts/{}", unlock(&master)));
    rustix::termios::tcsetwinsize(&slave, winsize(size)).unwrap();
    master.write_all(typed.as_bytes()).unwrap();
    // `setsid` makes it the controlling terminal, so that Ctrl-C is a signal.
    let mut started = Command::new("setsid");
    started.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args()).env_clear();
    started.env("TERM", "xterm").envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    started.current_dir(command.get_current_dir().unwrap());
    let end = || Stdio::from(slave.try_clone().unwrap());
    let child = started.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    (child, master)
}

fn winsize((columns, rows): (u16, u16)) -> rustix::termios::Winsize {
    rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Unlocks the other end of a pseudo-terminal and returns its number.
#[allow(
    unsafe_code,
    reason = "rustix has no safe call for it without its feature `pty`, and recompiling it costs minutes"
)]
fn unlock(master: &File) -> u32 {
    use rustix::ioctl::{Getter, Setter, ioctl};
    const UNLOCK: rustix::ioctl::Opcode = 0x4004_5431;
    const NUMBER: rustix::ioctl::Opcode = 0x8004_5430;
    // SAFETY: TIOCSPTLCK reads an `int` and TIOCGPTN writes an `unsigned int`, as `ioctl_tty(2)` says.
    unsafe {
        ioctl(master, Setter::<UNLOCK, i32>::new(0)).unwrap();
        ioctl(master, Getter::<NUMBER, u32>::new()).unwrap()
    }
}
