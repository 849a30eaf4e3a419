//! The thread that reads the terminal.
//!
//! It delivers batches of everything that has arrived, and waits until the UI has handled one before it reads more, so that
//! nothing is read while another program has the terminal. While the UI is busy it reads on, because two Ctrl-C end the
//! program even then.

use crossterm::event::Event;
use pinion_console::process::signals;
use pinion_tui::terminal::Inputs;
use pinion_tui::{Background, KeyMap};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Time before a UI that has not handled its batch counts as busy.
pub(super) const BUSY: Duration = Duration::from_millis(100);
/// Time that the second Ctrl-C may wait for the UI. With [`BUSY`] and an exit that hangs, less than a second.
const PATIENCE: Duration = Duration::from_millis(250);
/// Maximum time between two Ctrl-C.
const TWICE: Duration = Duration::from_secs(3);
/// Events that are read while the UI is busy.
const MAX_WAITING: usize = 4096;

/// Events of the terminal. Nothing more is read until it is dropped, unless the UI is busy.
pub(super) struct Batch {
    pub(super) events: VecDeque<Event>,
    /// The background that the terminal has answered with.
    pub(super) background: Option<Background>,
    lent: Sender<()>,
}

impl Batch {
    /// Stops reading until the batch is dropped, however long that takes, because another program has the terminal.
    pub(super) fn lend(&self) {
        // The thread may have ended with the terminal.
        let _ = self.lent.send(());
    }
}

/// Returns a token that is cancelled when the terminal is lost, even while nothing reads it. A signal reports the loss
/// only if it is not ignored.
///
/// # Errors
/// The system refuses a thread.
pub(super) fn lost() -> io::Result<CancellationToken> {
    let lost = CancellationToken::new();
    #[cfg(unix)]
    {
        use rustix::event::{PollFd, PollFlags, poll};
        let told = lost.clone();
        let watch = move || {
            let terminal = io::stdin();
            // A hang-up is reported unasked.
            while poll(&mut [PollFd::new(&terminal, PollFlags::empty())], None) == Err(rustix::io::Errno::INTR) {}
            told.cancel();
        };
        std::thread::Builder::new().name("pinion-hangup".to_owned()).spawn(watch)?;
    }
    Ok(lost)
}

/// Something that a UI waits for while something works.
pub(super) enum AwaitedInput<S, T> {
    /// A step of the UI.
    Step(S),
    /// The end of the work.
    End(T),
}

/// Begins work, so that it can be interrupted from now on. Returns its result if it has ended at once.
pub(super) async fn begun<T>(work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match futures_util::poll!(work) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// Waits for a step of the UI, or for the end of the work. A step that can be made comes first, so that a key that was read
/// before the end, such as the one that interrupts, still counts for the work and for the work that would follow it.
pub(super) async fn keys_or_end<S, T>(
    step: impl Future<Output = S>,
    work: impl Future<Output = T>,
) -> AwaitedInput<S, T> {
    tokio::select! {
        biased;
        step = step => AwaitedInput::Step(step),
        end = work => AwaitedInput::End(end),
    }
}

/// Starts the thread, which ends with the program: nothing can wake a read of the terminal.
///
/// # Errors
/// The system refuses a thread.
pub(super) fn start(keys: KeyMap, inputs: Inputs, deliver: mpsc::Sender<Batch>) -> io::Result<()> {
    // The receiver learns from the end of the channel that the terminal is lost.
    let read = move || drop(Keyboard::new(keys, inputs).run(&deliver));
    std::thread::Builder::new().name("pinion-keys".to_owned()).spawn(read)?;
    Ok(())
}

struct Keyboard {
    keys: KeyMap,
    inputs: Inputs,
    /// Time of the last Ctrl-C without another key after it.
    first: Option<Instant>,
    /// Time of the second of two Ctrl-C, until the UI has handled it.
    second: Option<Instant>,
    background: Option<Background>,
}

impl Keyboard {
    fn new(keys: KeyMap, inputs: Inputs) -> Self {
        Self { keys, inputs, first: None, second: None, background: None }
    }

    fn run(mut self, deliver: &mpsc::Sender<Batch>) -> io::Result<()> {
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                self.second = None;
                self.read(&mut waiting)?;
            }
            let (lent, answers) = channel();
            let (events, background) = (std::mem::take(&mut waiting), self.background.take());
            if deliver.blocking_send(Batch { events, background, lent }).is_err() {
                return Ok(());
            }
            loop {
                match answers.recv_timeout(BUSY) {
                    Ok(()) => while answers.recv().is_ok() {},
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {
                        if waiting.len() < MAX_WAITING {
                            let arrived = self.inputs.arrived()?;
                            self.add(&mut waiting, arrived);
                        }
                        if self.second.is_some_and(|second| second.elapsed() >= PATIENCE) {
                            signals::end_interrupted();
                        }
                    }
                }
            }
        }
    }

    /// Waits until the terminal sends something.
    fn read(&mut self, waiting: &mut VecDeque<Event>) -> io::Result<()> {
        while waiting.is_empty() && self.background.is_none() {
            let read = self.inputs.read()?;
            self.add(waiting, read);
        }
        Ok(())
    }

    fn add(&mut self, waiting: &mut VecDeque<Event>, events: Vec<Event>) {
        self.background = self.inputs.background().or(self.background);
        for event in events {
            if let Event::Key(key) = event {
                let now = Instant::now();
                let first = self.first.take().filter(|first| now.duration_since(*first) <= TWICE);
                if self.keys.is_cancel(key) {
                    self.first = Some(now);
                    self.second = self.second.or(first.map(|_| now));
                }
            }
            waiting.push_back(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_begins_before_a_key_can_interrupt_it() {
        let (keys, mut read) = mpsc::channel(1);
        keys.send("esc").await.unwrap();
        let mut has_begun = false;
        {
            let mut work = std::pin::pin!(async {
                has_begun = true;
                std::future::pending::<()>().await;
            });
            assert!(begun(work.as_mut()).await.is_none());
            assert!(matches!(keys_or_end(read.recv(), &mut work).await, AwaitedInput::Step(Some("esc"))));
        }
        assert!(has_begun);
        assert_eq!(begun(std::pin::pin!(async { 1 })).await, Some(1));
    }

    /// A key that has been read is handled before the end of the work, however often both wait at the same time.
    #[tokio::test]
    async fn key_that_was_read_before_the_end_of_the_work_is_not_lost() {
        for _ in 0..100 {
            let (keys, mut read) = mpsc::channel(1);
            let (end, mut work) = tokio::sync::oneshot::channel();
            keys.send("esc").await.unwrap();
            end.send("done").unwrap();
            let first = keys_or_end(read.recv(), &mut work).await;
            assert!(matches!(first, AwaitedInput::Step(Some("esc"))));
            let second = keys_or_end(read.recv(), &mut work).await;
            assert!(matches!(second, AwaitedInput::End(Ok("done"))));
        }
    }
}
