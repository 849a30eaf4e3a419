//! Ctrl-C and the other signals that ask the program to stop.
//!
//! [`install`] runs first and starts a thread that receives signals even if every worker of tokio is blocked. Outside
//! of a `SignalScope`, a signal ends the program at once and restores its terminal. Within one, the first signal interrupts
//! the work of the scope and the second ends the program. Signals that were ignored when the program started, for
//! example by `nohup`, stay ignored (on Linux, where `/proc` reports them).

use pinion_agent::Agent;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Runs work of an agent. The first signal aborts it, the second ends the program.
///
/// Returns whether a signal arrived.
pub async fn interruptible<T>(agent: &Arc<Agent>, work: impl Future<Output = T>) -> (T, bool) {
    interruptible_runs(agent, |_| work).await
}

/// Runs work that consists of several runs. A signal aborts only the current one, so the work has to check the flag
/// before it begins the next.
pub async fn interruptible_runs<T, F: Future<Output = T>>(
    agent: &Arc<Agent>,
    work: impl FnOnce(Arc<AtomicBool>) -> F,
) -> (T, bool) {
    let came = Arc::new(AtomicBool::new(false));
    let agent = agent.clone();
    // Before the work begins, because it may do much before it first waits.
    let _scope = SignalScope::begin(came.clone(), move || agent.abort());
    let done = work(came.clone()).await;
    (done, came.load(Ordering::Acquire))
}

/// Runs work that `interrupt` ends. The first signal calls it, the second ends the program.
///
/// Returns whether a signal arrived.
pub async fn interruptible_by<T>(
    interrupt: impl FnOnce() + Send + 'static,
    work: impl Future<Output = T>,
) -> (T, bool) {
    let came = Arc::new(AtomicBool::new(false));
    let _scope = SignalScope::begin(came.clone(), interrupt);
    let done = work.await;
    (done, came.load(Ordering::Acquire))
}

/// Interrupts the work at hand, as the first signal does. Does not count as a signal.
pub fn interrupt() {
    let call = match current().as_mut() {
        Some(Current { came, at_signal: AtSignal::Interrupt(interrupt) }) => {
            came.store(true, Ordering::Release);
            interrupt.take()
        }
        _ => None,
    };
    if let Some(call) = call {
        call();
    }
}

/// Ends the program at once, as the second of two SIGINT does.
pub fn end_interrupted() -> ! {
    end(128 + INTERRUPT)
}

/// Ends the program after this time with the status of the last signal, or of SIGINT without one, unless the result is
/// dropped before.
pub fn end_after(patience: Duration) -> Ending {
    let ending = Ending { patience, at: Arc::new(Mutex::new(Some(Instant::now() + patience))) };
    let at = ending.at.clone();
    let next = move || *at.lock().unwrap_or_else(PoisonError::into_inner);
    let wait = move || {
        while let Some(end_at) = next() {
            match end_at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
                Some(left) => thread::sleep(left),
                None => end(128 + last().unwrap_or(INTERRUPT)),
            }
        }
    };
    // Without a thread, signals still end the program.
    drop(thread::Builder::new().name("pinion-quit".to_owned()).spawn(wait));
    ending
}

/// Ends the program after this time if a signal has asked for that, even if it waits for something.
pub fn end_if_asked(patience: Duration) {
    if last().is_some() {
        std::mem::forget(end_after(patience));
    }
}

/// The announced end of the program, see [`end_after`].
pub struct Ending {
    patience: Duration,
    at: Arc<Mutex<Option<Instant>>>,
}

impl Ending {
    /// Allows the whole time again, because the limited work makes progress.
    pub fn renew(&self) {
        self.set(Some(Instant::now() + self.patience));
    }

    fn set(&self, at: Option<Instant>) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.set(None);
    }
}

/// Restores the terminal after another program had it.
pub fn restore_terminal() {
    terminal::restore();
}

/// Returns the number of the last signal that asked the program to stop.
pub fn last() -> Option<u8> {
    Some(LAST.load(Ordering::Acquire)).filter(|number| *number != 0)
}

/// Returns whether a signal arrived that asks for the end of the program: any signal but Ctrl-C, which in a
/// conversation only ends the work at hand.
pub fn is_final() -> bool {
    FINAL.load(Ordering::Acquire)
}

/// Handles signals between lines of the user until the result is dropped, whenever this is the only open scope.
///
/// While an editor reads a line, Ctrl-C is a key. Between two lines it is a signal: the first one calls `remark`, and a
/// second one without a [`SignalWait::forget`] in between ends the program with success. Other signals end it at once.
pub fn waiting(remark: fn()) -> SignalWait {
    let came = Arc::new(AtomicBool::new(false));
    let scope = SignalScope::open(Current { came: came.clone(), at_signal: AtSignal::Remark(remark) });
    SignalWait { came, _scope: scope }
}

/// Scope of [`waiting`].
pub struct SignalWait {
    came: Arc<AtomicBool>,
    _scope: SignalScope,
}

impl SignalWait {
    /// Counts a Ctrl-C that arrived as a key. Returns whether it is the second one.
    pub fn key(&self) -> bool {
        self.came.swap(true, Ordering::AcqRel)
    }

    /// Forgets the first Ctrl-C after other input.
    pub fn forget(&self) {
        self.came.store(false, Ordering::Release);
    }
}

/// The state of the terminal under a UI, which has to be undone before the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalState {
    /// No UI is shown.
    Nothing,
    /// The full screen.
    Screen,
    /// The inline form, with this many rows below the cursor.
    Inline {
        /// Rows below the cursor.
        rows_below: usize,
    },
    /// The view of the whole conversation in the inline form.
    View {
        /// Rows below the cursor.
        rows_below: usize,
    },
}

/// The [`TerminalState`] as a number, because another thread may hold any lock when the program ends: the kind in the lowest two
/// bits, the rows above them.
static SHOWN: AtomicUsize = AtomicUsize::new(0);

/// Notes the form that a UI shows.
pub fn set_shown(shown: TerminalState) {
    let number = match shown {
        TerminalState::Nothing => 0,
        TerminalState::Screen => 1,
        TerminalState::Inline { rows_below } => 2 | rows_below << 2,
        TerminalState::View { rows_below } => 3 | rows_below << 2,
    };
    SHOWN.store(number, Ordering::Release);
}

/// Title and progress around the UI, which have to be undone too, as two bits.
static SURROUNDINGS: AtomicU8 = AtomicU8::new(0);

/// Notes whether the terminal shows a title and progress of a UI.
pub fn set_surroundings((has_title, has_progress): (bool, bool)) {
    SURROUNDINGS.store(u8::from(has_title) | u8::from(has_progress) << 1, Ordering::Release);
}

/// Returns the sequences that undo the state of the terminal, if a UI shows anything.
pub(crate) fn undoing_shown() -> Option<String> {
    let number = SHOWN.load(Ordering::Acquire);
    let shown = match number & 3 {
        0 => return None,
        1 => pinion_tui::terminal::LEAVE.to_owned(),
        kind => pinion_tui::terminal::left_inline(kind == 3, number >> 2),
    };
    let around = SURROUNDINGS.load(Ordering::Acquire);
    Some(pinion_tui::undoing((around & 1 == 1, around & 2 == 2)) + &shown)
}

/// Suspends the program until the user's shell continues it.
pub fn suspend() {
    #[cfg(unix)]
    // A process can always signal itself. The signal goes to this thread: one for the process may reach another thread, so
    // that this one takes the terminal back before the process stops.
    let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGTSTP);
}

/// Number of SIGINT on all systems.
const INTERRUPT: u8 = 2;

/// The work that a signal interrupts.
static CURRENT: Mutex<Option<Current>> = Mutex::new(None);
static LAST: AtomicU8 = AtomicU8::new(0);
static FINAL: AtomicBool = AtomicBool::new(false);

struct Current {
    came: Arc<AtomicBool>,
    at_signal: AtSignal,
}

enum AtSignal {
    /// Called once; the next signal ends the program.
    Interrupt(Option<Box<dyn FnOnce() + Send>>),
    /// Called at the first of two SIGINT.
    Remark(fn()),
}

/// Sets the effect of signals until it is dropped, then restores the previous one.
struct SignalScope(Option<Current>);

impl SignalScope {
    fn begin(came: Arc<AtomicBool>, interrupt: impl FnOnce() + Send + 'static) -> Self {
        Self::open(Current { came, at_signal: AtSignal::Interrupt(Some(Box::new(interrupt))) })
    }

    fn open(new: Current) -> Self {
        Self(current().replace(new))
    }
}

impl Drop for SignalScope {
    fn drop(&mut self) {
        *current() = self.0.take();
    }
}

fn current() -> std::sync::MutexGuard<'static, Option<Current>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to receive signals. Must be called once, before anything that may take time.
///
/// # Errors
/// The thread cannot be started; signals then have their default effect.
pub fn install() -> std::io::Result<()> {
    terminal::remember();
    let listening = imp::Listening::new()?;
    thread::Builder::new().name("pinion-signals".to_owned()).spawn(move || listening.run(heard))?;
    Ok(())
}

/// Handles a signal, on the thread that receives them.
fn heard(number: u8) {
    if !FINAL.load(Ordering::Acquire) {
        LAST.store(number, Ordering::Release);
    }
    FINAL.fetch_or(number != INTERRUPT, Ordering::AcqRel);
    let what = current().as_mut().map_or(Err(128 + number), |current| current.heard(number));
    match what {
        // On a separate thread, so that the next signal is handled even if this call blocks.
        Ok(call) => drop(thread::Builder::new().name("pinion-interrupt".to_owned()).spawn(call)),
        Err(status) => end(status),
    }
}

impl Current {
    /// Returns the function to call, or the status to end the program with.
    fn heard(&mut self, number: u8) -> Result<Box<dyn FnOnce() + Send>, u8> {
        match &mut self.at_signal {
            AtSignal::Interrupt(interrupt) => {
                self.came.store(true, Ordering::Release);
                interrupt.take().ok_or(128 + number)
            }
            AtSignal::Remark(_) if number != INTERRUPT => Err(128 + number),
            AtSignal::Remark(_) if self.came.swap(true, Ordering::AcqRel) => Err(0),
            AtSignal::Remark(remark) => Ok(Box::new(*remark)),
        }
    }
}

/// Work before a signal ends the program.
static AT_END: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

/// Sets the function to call before a signal ends the program at once.
pub fn at_end(call: impl Fn() + Send + Sync + 'static) {
    // Set once, when the command line is known.
    let _ = AT_END.set(Box::new(call));
}

/// Time for the function that is called at the end. It may write to a pipe without a reader.
const AT_END_TIME: Duration = Duration::from_millis(200);

/// Calls the function that was set for the end, and waits for it a moment.
fn call_at_end() {
    let Some(call) = AT_END.get() else { return };
    let (done, is_done) = std::sync::mpsc::channel();
    let call = move || {
        call();
        // Fails if the wait is over.
        let _ = done.send(());
    };
    if thread::Builder::new().name("pinion-at-end".to_owned()).spawn(call).is_ok() {
        let _ = is_done.recv_timeout(AT_END_TIME);
    }
}

/// Ends the program, even while its threads work.
fn end(status: u8) -> ! {
    // Exit handlers and the last write to a terminal may wait for a thread that never ends.
    drop(thread::Builder::new().name("pinion-end".to_owned()).spawn(imp::kill_soon));
    call_at_end();
    terminal::restore();
    std::process::exit(i32::from(status))
}

#[cfg(unix)]
mod imp {
    use rustix::process::{Signal, getpid, kill_process};
    use std::time::Duration;
    use tokio::signal::unix::{SignalKind, signal};

    /// Time allowed for an orderly exit.
    const ORDERLY: Duration = Duration::from_millis(500);

    pub(super) struct Listening {
        runtime: tokio::runtime::Runtime,
        signals: Vec<(u8, tokio::signal::unix::Signal)>,
    }

    impl Listening {
        pub(super) fn new() -> std::io::Result<Self> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
            let ignored = ignored();
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let mut signals = Vec::new();
            {
                let _inside = runtime.enter();
                // A file that exceeds the limit of the process (`ulimit -f`) becomes an error of the write. The signal is
                // not ignored, because programs would inherit that.
                drop(signal(SignalKind::from_raw(libc::SIGXFSZ))?);
            }
            for kind in kinds.into_iter().filter(|kind| ignored & (1 << (kind.as_raw_value() - 1)) == 0) {
                let _inside = runtime.enter();
                signals.push((u8::try_from(kind.as_raw_value()).unwrap_or(0), signal(kind)?));
            }
            Ok(Self { runtime, signals })
        }

        pub(super) fn run(mut self, heard: impl Fn(u8)) {
            self.runtime.block_on(async {
                while !self.signals.is_empty() {
                    let any = self.signals.iter_mut().map(|(number, signal)| {
                        let number = *number;
                        Box::pin(async move { signal.recv().await.map(|()| number) })
                    });
                    match futures_util::future::select_all(any).await.0 {
                        Some(number) => heard(number),
                        None => return,
                    }
                }
            });
        }
    }

    /// Returns the mask of ignored signals in the kernel's form.
    fn ignored() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    }

    pub(super) fn kill_soon() {
        std::thread::sleep(ORDERLY);
        // A process can always signal itself.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

/// Handles Ctrl-C only.
#[cfg(not(unix))]
mod imp {
    pub(super) struct Listening(tokio::runtime::Runtime);

    impl Listening {
        pub(super) fn new() -> std::io::Result<Self> {
            tokio::runtime::Builder::new_current_thread().enable_io().build().map(Self)
        }

        pub(super) fn run(self, heard: impl Fn(u8)) {
            while self.0.block_on(tokio::signal::ctrl_c()).is_ok() {
                heard(2);
            }
        }
    }

    pub(super) fn kill_soon() {}
}

/// The initial state of the terminal, which line editors and questions put into raw mode.
#[cfg(unix)]
mod terminal {
    use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
    use std::io::{IsTerminal as _, stdin, stdout};
    use std::sync::OnceLock;

    static FOUND: OnceLock<Option<Termios>> = OnceLock::new();

    pub(super) fn remember() {
        let found = stdin().is_terminal().then(|| tcgetattr(stdin()).ok()).flatten();
        let _ = FOUND.set(found);
    }

    pub(super) fn restore() {
        let Some(Some(found)) = FOUND.get() else { return };
        // A lost terminal needs nothing.
        let _ = tcsetattr(stdin(), OptionalActions::Now, found);
        if let Some(sequences) = super::undoing_shown() {
            let _ = rustix::io::write(stdout(), sequences.as_bytes());
        }
        if stdout().is_terminal() {
            // Turns bracketed paste off and the cursor on. Unbuffered, because another thread may hold the lock of
            // stdout forever.
            let _ = rustix::io::write(stdout(), b"\x1b[?2004l\x1b[?25h\n");
        }
    }
}

#[cfg(not(unix))]
mod terminal {
    pub(super) fn remember() {}
    pub(super) fn restore() {}
}
