//! Programs that a plugin talks to while they run.
//!
//! Nothing of such a program outlives its call: when the call ends, its process group is killed, and the guest's resource
//! refers to a [`ChildProgram`] that has ended.
//!
//! Whenever the guest waits for a program, the host collects its output, at most [`MAX_UNREAD`] bytes of each stream, so
//! that a program that writes before it reads does not block a guest that writes before it reads. Beyond that, the program
//! waits. While the guest does something else, the program waits once its pipe is full.

use crate::command::{
    OutputSource, ProgramCommand, ProgramError, ProgramExit, ProgramOutput, ProgramRead, ProgramSetup,
};
use crate::confinement::After;
use crate::run::{ProcessGroup, Started, spawn};
use pinion_redact::{ByteRedactor, Secrets};
use std::collections::VecDeque;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Bytes of an output stream that were not read. The contract names this number.
const MAX_UNREAD: usize = 256 * 1024;
/// Bytes that one read returns at most. The contract names this number.
const MAX_READ: u32 = 1024 * 1024;
/// Bytes that one write takes at most.
const MAX_WRITE: usize = 64 * 1024;
/// The pause of a program before bytes are released that could be the beginning of a secret.
const IDLE: Duration = Duration::from_millis(100);

/// A program that its plugin talks to.
pub struct ChildProgram(Option<RunningChild>);

/// A program that runs, or has ended during the call that started it.
struct RunningChild {
    child: tokio::process::Child,
    group: Arc<ProcessGroup>,
    stdin: Stdin,
    stdout: Pipe<ChildStdout>,
    stderr: Pipe<ChildStderr>,
    exit: Option<ExitStatus>,
    _timer: Option<Timer>,
    /// Done on drop, when the group was killed.
    _after: After,
}

impl ChildProgram {
    /// Starts a program, which is killed when `timeout` is over.
    ///
    /// # Errors
    /// It did not start.
    pub fn start(
        command: ProgramCommand,
        setup: &ProgramSetup,
        timeout: Option<Duration>,
    ) -> Result<Self, ProgramError> {
        let Started { group, mut child, after } = spawn(&command, setup, Stdio::piped())?;
        let redacted = &setup.redacted;
        let group = Arc::new(group);
        Ok(Self(Some(RunningChild {
            stdin: Stdin { pipe: child.stdin.take(), first: command.stdin.into(), closes: false },
            stdout: Pipe::new(child.stdout.take(), redacted),
            stderr: Pipe::new(child.stderr.take(), redacted),
            exit: None,
            _timer: timeout.map(|time| Timer::start(group.clone(), time)),
            child,
            group,
            _after: after,
        })))
    }

    /// Returns whether the program was not yet seen to end.
    pub fn is_running(&self) -> bool {
        self.0.as_ref().is_some_and(|running| running.exit.is_none())
    }

    /// Kills the process group. Every later use is an error.
    pub fn end_with_call(&mut self) {
        self.0 = None;
    }

    /// Writes to the program's standard input. Returns the number of bytes, which is 0 when the time is over.
    ///
    /// # Errors
    /// The program has closed its input or ended with its call, or the call was cancelled.
    pub async fn write(&mut self, data: &[u8], wait: &ChildWait) -> Result<u32, ProgramError> {
        let RunningChild { stdin, stdout, stderr, .. } = self.running()?;
        let data = &data[..data.len().min(MAX_WRITE)];
        if data.is_empty() {
            return Ok(0);
        }
        let writing = stdin.write(data);
        tokio::pin!(writing);
        loop {
            tokio::select! {
                biased;
                () = wait.token.cancelled() => return Err(cancelled()),
                written = &mut writing => {
                    return written.map_err(|error| ProgramError::Io(format!("could not write to the program: {error}")));
                }
                () = stdout.fill() => {}
                () = stderr.fill() => {}
                () = sleep_until(wait.until) => return Ok(0),
            }
        }
    }

    /// Closes the program's standard input, once it has the input that the program reads first.
    pub fn close_stdin(&mut self) {
        if let Some(running) = &mut self.0 {
            running.stdin.close();
        }
    }

    /// Reads at most `limit` bytes of an output stream, 1 to 1 MiB.
    ///
    /// # Errors
    /// The program ended with its call, or the call was cancelled.
    pub async fn read(
        &mut self,
        source: OutputSource,
        limit: u32,
        wait: &ChildWait,
    ) -> Result<ProgramRead, ProgramError> {
        let RunningChild { stdin, stdout, stderr, .. } = self.running()?;
        let limit = usize::try_from(limit.clamp(1, MAX_READ)).unwrap_or(usize::MAX);
        loop {
            let read = match source {
                OutputSource::Stdout => stdout.take_output(limit),
                OutputSource::Stderr => stderr.take_output(limit),
            };
            if let Some(read) = read {
                return Ok(read);
            }
            tokio::select! {
                biased;
                () = wait.token.cancelled() => return Err(cancelled()),
                () = stdout.fill() => {}
                () = stderr.fill() => {}
                () = stdin.feed() => {}
                () = sleep_until(wait.until) => return Ok(ProgramRead::TimedOut),
            }
        }
    }

    /// Waits for the end of the program. `None` when the time is over.
    ///
    /// # Errors
    /// The program ended with its call, or the call was cancelled.
    pub async fn wait(&mut self, wait: &ChildWait) -> Result<Option<ProgramExit>, ProgramError> {
        let RunningChild { child, group, stdin, stdout, stderr, exit, .. } = self.running()?;
        while exit.is_none() {
            tokio::select! {
                biased;
                () = wait.token.cancelled() => return Err(cancelled()),
                ended = child.wait() => {
                    // Its number is free from now on, unless it left processes in its group.
                    group.kill();
                    *exit = Some(ended.map_err(|error| ProgramError::Io(error.to_string()))?);
                }
                () = stdout.fill() => {}
                () = stderr.fill() => {}
                () = stdin.feed() => {}
                () = sleep_until(wait.until) => return Ok(None),
            }
        }
        Ok(exit.map(ProgramExit::from))
    }

    /// Kills the process group.
    pub fn kill(&mut self) {
        if let Some(running) = &self.0 {
            running.group.kill();
        }
    }

    fn running(&mut self) -> Result<&mut RunningChild, ProgramError> {
        let ended = || ProgramError::Io("the program ended with the call that started it".to_owned());
        self.0.as_mut().ok_or_else(ended)
    }
}

impl Drop for RunningChild {
    fn drop(&mut self) {
        self.group.kill();
    }
}

/// The end of a wait: its time, or the cancellation of the call.
pub struct ChildWait {
    /// The end of its time.
    pub until: Instant,
    /// Cancelled with the call.
    pub token: CancellationToken,
}

/// Kills a program at its timeout, also while the guest does not wait for it.
struct Timer(JoinHandle<()>);

impl Timer {
    fn start(group: Arc<ProcessGroup>, time: Duration) -> Self {
        let at = Instant::now() + time;
        Self(tokio::spawn(async move {
            sleep_until(at).await;
            group.kill();
        }))
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The standard input of a program.
struct Stdin {
    /// `None` once it is closed.
    pipe: Option<ChildStdin>,
    /// Bytes that the program reads before those that are written later.
    first: VecDeque<u8>,
    /// It is closed once `first` was written.
    closes: bool,
}

impl Stdin {
    async fn write(&mut self, data: &[u8]) -> io::Result<u32> {
        while !self.first.is_empty() {
            self.feed_some().await?;
        }
        let pipe = self.pipe.as_mut().filter(|_| !self.closes);
        let pipe = pipe.ok_or_else(|| io::Error::new(io::ErrorKind::BrokenPipe, "its standard input is closed"))?;
        let written = pipe.write(data).await?;
        Ok(u32::try_from(written).unwrap_or(u32::MAX))
    }

    fn close(&mut self) {
        self.closes = true;
        if self.first.is_empty() {
            self.pipe = None;
        }
    }

    /// Writes some of the input that the program reads first. Never ends when no input is left.
    async fn feed(&mut self) {
        if self.first.is_empty() {
            return std::future::pending().await;
        }
        if self.feed_some().await.is_err() {
            // A program that does not read it is not an error.
            self.first.clear();
        }
    }

    async fn feed_some(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let written = pipe.write(self.first.as_slices().0).await?;
        self.first.drain(..written);
        if self.closes && self.first.is_empty() {
            self.pipe = None;
        }
        Ok(())
    }
}

/// An output stream, with the data that was collected and not read.
struct Pipe<R> {
    /// `None` once the program has closed it.
    stream: Option<R>,
    unread: VecDeque<u8>,
    chunk: Box<[u8]>,
    /// `None` when the program knows no secret.
    redactor: Option<ByteRedactor>,
    /// When bytes that the redactor holds back are released, if the program writes no more: it may wait for an answer.
    release_at: Option<Instant>,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    fn new(stream: Option<R>, redacted: &Secrets) -> Self {
        let redactor = (!redacted.is_empty()).then(|| redacted.line_redactor());
        Self { stream, unread: VecDeque::new(), chunk: vec![0; 32 * 1024].into(), redactor, release_at: None }
    }

    /// Takes the collected data, or the end of the stream. `None` when neither is there.
    fn take_output(&mut self, limit: usize) -> Option<ProgramRead> {
        if self.unread.is_empty() {
            return self.stream.is_none().then_some(ProgramRead::End);
        }
        let taken = self.unread.drain(..limit.min(self.unread.len())).collect();
        Some(ProgramRead::Data(taken))
    }

    /// Collects some output, or notes the end. The sizes and times of its pieces do not depend on secrets: lines at
    /// once, and the rest when the program pauses. Never ends when the stream is closed or enough was collected.
    async fn fill(&mut self) {
        let room = MAX_UNREAD.saturating_sub(self.unread.len()).min(self.chunk.len());
        let Some(stream) = self.stream.as_mut().filter(|_| room > 0) else { return std::future::pending().await };
        let reading = stream.read(&mut self.chunk[..room]);
        let read = match self.release_at {
            Some(at) => tokio::time::timeout_at(at, reading).await,
            None => Ok(reading.await),
        };
        match (read, &mut self.redactor) {
            (Ok(Ok(read @ 1..)), Some(redactor)) => {
                self.unread.extend(redactor.push(&self.chunk[..read]));
                self.release_at = redactor.is_holding().then(|| Instant::now() + IDLE);
            }
            (Ok(Ok(read @ 1..)), None) => self.unread.extend(&self.chunk[..read]),
            // An error of a pipe is its end: nothing else comes from it.
            (read, redactor) => {
                if read.is_ok() {
                    self.stream = None;
                }
                self.release_at = None;
                self.unread.extend(redactor.iter_mut().flat_map(ByteRedactor::finish));
            }
        }
    }
}

/// The error of a call that was cancelled. The guest has read the output so far.
fn cancelled() -> ProgramError {
    ProgramError::Cancelled(ProgramOutput::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn pipe_collects_up_to_its_limit_and_then_lets_the_program_wait() {
        let endless = tokio::io::repeat(b'x');
        let mut pipe = Pipe::new(Some(endless), &Secrets::default());
        while pipe.fill().now_or_never().is_some() {}
        assert_eq!(pipe.unread.len(), MAX_UNREAD);
        assert!(matches!(pipe.take_output(10), Some(ProgramRead::Data(data)) if data == b"xxxxxxxxxx"));
        assert!(pipe.fill().now_or_never().is_some());
        assert!(pipe.fill().now_or_never().is_none());
    }

    #[tokio::test]
    async fn secret_in_the_output_is_redacted_across_reads() {
        let secrets = Secrets::default();
        secrets.add(&"hunter2-hunter2-hunter2".to_owned().into());
        let output = b"token hunter2-hunter2-hunter2 end".chunks(5).map(std::io::Cursor::new);
        let stream = output
            .fold(Box::new(tokio::io::empty()) as Box<dyn AsyncRead + Unpin>, |all, part| Box::new(all.chain(part)));
        let mut pipe = Pipe::new(Some(stream), &secrets);
        while pipe.stream.is_some() {
            pipe.fill().await;
        }
        let text = String::from_utf8(pipe.unread.into_iter().collect()).unwrap();
        assert!(text.starts_with("token ") && text.ends_with(" end") && !text.contains("hunter2-h"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn question_without_a_line_break_arrives_after_a_pause() {
        let secrets = Secrets::default();
        secrets.add(&"hunter2-hunter2-hunter2".to_owned().into());
        for said in ["password? ", "hunter2-hunt", "x hunter2-hunter2-hunter2"] {
            let (mut program, stream) = tokio::io::duplex(1024);
            let mut pipe = Pipe::new(Some(stream), &secrets);
            let started = Instant::now();
            tokio::io::AsyncWriteExt::write_all(&mut program, format!("a line\n{said}").as_bytes()).await.unwrap();
            pipe.fill().await;
            assert!(matches!(pipe.take_output(99), Some(ProgramRead::Data(data)) if data == b"a line\n"));
            // A caller that waits a little at a time gets it, too.
            while pipe.take_output(0).is_none() {
                let _ = tokio::time::timeout(IDLE / 10, pipe.fill()).await;
            }
            assert_eq!(started.elapsed(), IDLE);
            let said = said.replace("hunter2-hunter2-hunter2", "[redacted]");
            assert!(matches!(pipe.take_output(99), Some(ProgramRead::Data(data)) if data == said.as_bytes()));
        }
    }

    #[tokio::test]
    async fn end_of_a_pipe_follows_what_was_collected() {
        let mut pipe = Pipe::new(Some(&b"ab"[..]), &Secrets::default());
        pipe.fill().await;
        pipe.fill().await;
        assert!(matches!(pipe.take_output(1), Some(ProgramRead::Data(data)) if data == b"a"));
        assert!(matches!(pipe.take_output(9), Some(ProgramRead::Data(data)) if data == b"b"));
        assert!(
            matches!(pipe.take_output(9), Some(ProgramRead::End))
                && matches!(pipe.take_output(9), Some(ProgramRead::End))
        );
        assert!(pipe.fill().now_or_never().is_none());
    }
}
