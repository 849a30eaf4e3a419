//! The reader of the terminal.

use super::bursts::Bursts;
use super::decoder::TerminalDecoder;
use super::size;
use crate::theme::Background;
use crossterm::event::Event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush};
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bytes of one read.
const READ: usize = 4096;
/// Number of reads before events are passed although more has arrived.
const READS: usize = 256;

/// Bytes that were typed before the terminal was raw, and that have not been read.
static COOKED: AtomicUsize = AtomicUsize::new(0);

/// Notes that the terminal has become raw: it has turned the Enter keys among the bytes that wait into line feeds.
pub(super) fn became_raw() {
    let waiting = terminal().and_then(|terminal| Ok(rustix::io::ioctl_fionread(terminal)?));
    COOKED.store(waiting.ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0), Ordering::Release);
}

/// The reader of the terminal.
///
/// It compares the size itself, because a terminal that is slow reports it late, and Zellij reports the focus at every new size.
#[derive(Debug)]
pub struct Inputs {
    /// The size that the UI knows.
    size: (u16, u16),
    decoder: TerminalDecoder,
    bursts: Option<Bursts>,
    /// Events that are complete.
    ready: Vec<Event>,
    /// The system says that the terminal has a new size. It may have changed twice, and be the same.
    is_resized: bool,
    began: Instant,
}

impl Inputs {
    /// Creates the reader for a UI that draws on this many columns and rows.
    pub fn new(size: (u16, u16)) -> Self {
        let bursts = Some(Bursts::default());
        let (decoder, began) = (TerminalDecoder::new(), Instant::now());
        Self { size, decoder, bursts, ready: Vec::new(), is_resized: false, began }
    }

    /// Passes keys that arrive together as keys, also if they look like a paste.
    #[must_use]
    pub fn without_bursts(self) -> Self {
        Self { bursts: None, ..self }
    }

    /// Waits until the terminal sends something other than a report that is not read, or has another size. Returns everything
    /// that has arrived; nothing if that is [`Self::background`] only.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn read(&mut self) -> io::Result<Vec<Event>> {
        self.until(None)
    }

    /// Waits like [`Self::read`], and at most for a time.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn read_within(&mut self, time: Duration) -> io::Result<Vec<Event>> {
        self.until(Some(self.began.elapsed() + time))
    }

    /// Returns the events that the terminal has sent, without waiting for more.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn arrived(&mut self) -> io::Result<Vec<Event>> {
        self.until(Some(Duration::ZERO))
    }

    /// Discards the typed keys that have not been passed.
    pub fn discard(&mut self) {
        // A lost terminal has nothing to discard.
        let _ = terminal().map(|terminal| tcflush(terminal, QueueSelector::IFlush));
        COOKED.store(0, Ordering::Release);
        *self = match self.bursts.is_some() {
            true => Self::new(self.size),
            false => Self::new(self.size).without_bursts(),
        };
    }

    /// Returns the background that the terminal has reported since the last call.
    pub fn background(&mut self) -> Option<Background> {
        self.decoder.take_background()
    }

    fn until(&mut self, end: Option<Duration>) -> io::Result<Vec<Event>> {
        loop {
            // Data that has arrived comes first, however much time has passed.
            self.wait(Some(Duration::ZERO))?;
            let size = size()?;
            self.add_size(size);
            let is_over = end.is_some_and(|end| self.began.elapsed() >= end);
            if !self.ready.is_empty() || self.decoder.has_background() || is_over {
                return Ok(std::mem::take(&mut self.ready));
            }
            self.wait(end)?;
        }
    }

    /// Waits for bytes, a new size, the due time of waiting keys, or the end. Reads the data that has arrived.
    fn wait(&mut self, end: Option<Duration>) -> io::Result<()> {
        let due = [end, self.decoder.deadline(), self.bursts.as_ref().and_then(Bursts::deadline)];
        let pause = due.into_iter().flatten().min().map(|due| due.saturating_sub(self.began.elapsed()));
        let mut pause = pause;
        for _ in 0..READS {
            let (is_readable, is_resized) = arrivals(pause)?;
            if is_resized {
                self.is_resized = true;
                let _ = rustix::io::read(resizes()?, &mut [0; 64]);
            }
            if !is_readable {
                self.expire();
                break;
            }
            self.take_bytes()?;
            pause = Some(Duration::ZERO);
        }
        Ok(())
    }

    fn take_bytes(&mut self) -> io::Result<()> {
        let mut buffer = [0; READ];
        let read = match rustix::io::read(terminal()?, &mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let cooked = COOKED.load(Ordering::Acquire).min(read);
        COOKED.fetch_sub(cooked, Ordering::AcqRel);
        buffer[..cooked].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\r');
        let now = self.began.elapsed();
        self.decoder.feed(&buffer[..read], now);
        self.pass(now);
        Ok(())
    }

    fn expire(&mut self) {
        let now = self.began.elapsed();
        self.decoder.expire(now);
        self.pass(now);
        if let Some(bursts) = &mut self.bursts {
            bursts.expire(now, &mut self.ready);
        }
    }

    fn pass(&mut self, now: Duration) {
        let events = self.decoder.take_events();
        match &mut self.bursts {
            Some(bursts) => bursts.take_events(events, now, &mut self.ready),
            None => self.ready.extend(events),
        }
    }

    /// Adds the size of the terminal if it may be a new one.
    fn add_size(&mut self, size: (u16, u16)) {
        if std::mem::take(&mut self.is_resized) || self.size != size {
            self.size = size;
            self.ready.push(Event::Resize(size.0, size.1));
        }
    }
}

/// Waits for bytes of the terminal or a signal about its size. Returns which of them there are.
fn arrivals(pause: Option<Duration>) -> io::Result<(bool, bool)> {
    let pause = pause.map(|pause| Timespec {
        tv_sec: pause.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: pause.subsec_nanos().into(),
    });
    let (terminal, resizes) = (terminal()?, resizes()?);
    let mut found = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(&resizes, PollFlags::IN)];
    match poll(&mut found, pause.as_ref()) {
        Ok(_) => Ok((!found[0].revents().is_empty(), !found[1].revents().is_empty())),
        Err(Errno::INTR) => Ok((false, false)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the terminal: stdin, or the one that controls the process.
fn terminal() -> io::Result<BorrowedFd<'static>> {
    static STDIN: OnceLock<io::Stdin> = OnceLock::new();
    static OTHER: OnceLock<File> = OnceLock::new();
    let stdin = STDIN.get_or_init(io::stdin);
    if stdin.is_terminal() {
        return Ok(stdin.as_fd());
    }
    if OTHER.get().is_none() {
        let _ = OTHER.set(File::open("/dev/tty")?);
    }
    OTHER.get().map(File::as_fd).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns a stream that receives a byte when the terminal has a new size.
fn resizes() -> io::Result<BorrowedFd<'static>> {
    static RESIZES: OnceLock<UnixStream> = OnceLock::new();
    if RESIZES.get().is_none() {
        let (from, to) = UnixStream::pair()?;
        from.set_nonblocking(true)?;
        if RESIZES.set(from).is_ok() {
            signal_hook::low_level::pipe::register(signal_hook::consts::SIGWINCH, to)?;
        }
    }
    RESIZES.get().map(|stream| stream.as_fd()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_that_may_be_new_is_added() {
        let mut inputs = Inputs::new((80, 24));
        let mut added = |size| {
            inputs.add_size(size);
            std::mem::take(&mut inputs.ready)
        };
        assert_eq!(added((80, 24)), []);
        assert_eq!(added((50, 24)), [Event::Resize(50, 24)]);
        assert_eq!(added((50, 24)), []);
        // The terminal may have wrapped its rows twice.
        inputs.is_resized = true;
        inputs.add_size((50, 24));
        assert_eq!(inputs.ready, [Event::Resize(50, 24)]);
    }
}
