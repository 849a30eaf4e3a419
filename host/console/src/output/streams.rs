//! The streams stdout and stderr, and the only code that writes to them.

use crate::output::terminal::{Style, is_linear};
use crate::process::signals;
use pinion_agent::secrets::Secrets;
use pinion_agent::text::printable;
use pinion_app::failure::{Failure, MORE_THREADS, Result};
use pinion_app::output::{Text, text};
use serde::Serialize;
use std::borrow::Cow;
use std::future::Future;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing_subscriber::fmt::MakeWriter;

/// A destination of text.
pub trait Sink {
    /// Writes and flushes.
    fn text(&mut self, text: &Text) -> io::Result<()>;
}

/// Standard output.
#[derive(Debug, Clone, Copy)]
pub struct Stdout;

/// Standard error.
#[derive(Debug, Clone, Copy)]
pub struct StandardError;

impl Sink for Stdout {
    fn text(&mut self, text: &Text) -> io::Result<()> {
        write_text(Stream::Stdout, text)
    }
}

impl Sink for StandardError {
    fn text(&mut self, text: &Text) -> io::Result<()> {
        write_text(Stream::Stderr, text)
    }
}

#[derive(Debug, Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn write(self, text: &Text) -> io::Result<()> {
        let text = clean(text.as_str());
        match self {
            Self::Stdout => write(io::stdout().lock(), text.as_bytes()),
            Self::Stderr => write(io::stderr().lock(), text.as_bytes()),
        }
    }
}

/// The secrets to redact in all output.
static SECRETS: OnceLock<Secrets> = OnceLock::new();

/// Redacts secrets in everything that is written from now on.
pub fn keep_out(secrets: Secrets) {
    // Set once, at the start of the program.
    let _ = SECRETS.set(secrets);
}

fn clean(text: &str) -> Cow<'_, str> {
    SECRETS.get().map_or(Cow::Borrowed(text), |secrets| secrets.clean(text))
}

/// Texts that wait while a question occupies the terminal; `None` while it does not.
static WAITING: Mutex<Option<Vec<(Stream, Text)>>> = Mutex::new(None);
/// Maximum number of waiting texts; further ones are dropped.
const MAX_WAITING: usize = 10_000;

fn write_text(stream: Stream, text: &Text) -> io::Result<()> {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *waiting {
        Some(waiting) if waiting.len() < MAX_WAITING => waiting.push((stream, text.clone())),
        Some(_) => {}
        None => stream.write(text)?,
    }
    Ok(())
}

/// Exclusive use of the terminal by a question. Dropping it writes the texts that waited meanwhile.
#[derive(Debug)]
pub struct Attention(());

impl Attention {
    /// Holds back all other output until the result is dropped.
    pub fn take_terminal() -> Self {
        WAITING.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
        Self(())
    }

    /// Writes to the terminal, which is in raw mode.
    pub(crate) fn write(&mut self, text: &Text) -> io::Result<()> {
        Stream::Stdout.write(&Text::neutral(text.as_str().replace('\n', "\r\n")))
    }

    /// Clears this many rows above the cursor. Linear output keeps them.
    pub(crate) fn clear_above(&mut self, rows: usize) -> io::Result<()> {
        if is_linear() {
            return Ok(());
        }
        Stream::Stdout.write(&Text::neutral(format!("\x1b[{}A\r\x1b[J", rows.max(1))))
    }
}

impl Attention {
    /// Writes bytes of the full-screen UI, which consist of the UI's sequences and of text that it has neutralized.
    pub fn frame(&mut self, bytes: &[u8]) -> io::Result<()> {
        write(io::stdout().lock(), bytes)
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        // The next write reports a closed stream.
        waiting.take().into_iter().flatten().for_each(|(stream, text)| drop(stream.write(&text)));
    }
}

/// Keeps the text, for tests of code that writes.
impl Sink for &mut Vec<u8> {
    fn text(&mut self, text: &Text) -> io::Result<()> {
        write(&mut **self, text.as_str().as_bytes())
    }
}

fn write(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// Writes to stdout. A reader that closed the pipe, such as `head`, is not an error.
pub fn print(text: &Text) -> Result<()> {
    written(Stdout.text(text))
}

/// Turns the outcome of a write to stdout into the outcome of a command. A reader that closed the pipe, such as `head`,
/// has seen enough, so the command ends as if all was written.
pub fn written(outcome: io::Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(stdout_failure(error)),
        _ => Ok(()),
    }
}

/// Writes a line to stdout. A lost terminal is noticed elsewhere.
pub fn print_line(line: &Text) {
    let _ = Stdout.text(&text!("{}\n", line));
}

/// Writes a line to stderr. Ignores that it may be closed.
pub fn note(line: &Text) {
    let _ = StandardError.text(&text!("{}\n", line));
}

/// Returns a stream to stderr for a program that the user named. Its output is as it is, like the output of a program in a
/// shell.
pub fn errors_of_program() -> Stdio {
    io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from)
}

/// Returns the failure of a command that could not write to stdout.
pub fn stdout_failure(error: io::Error) -> Failure {
    Failure::failed("could not write to stdout").because(error)
}

/// Writes an answer to stdout, with a newline at its end: raw to a pipe or file, neutralized on a terminal.
pub fn answer(text: &str) -> io::Result<()> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let mut out = io::stdout().lock();
    out.write_all(passed(&clean(text)).as_bytes())?;
    write(out, end.as_bytes())
}

/// Writes a piece of an answer to stdout, in the way of [`answer`].
pub fn write_piece(text: &str) -> io::Result<()> {
    write(io::stdout().lock(), passed(&clean(text)).as_bytes())
}

/// Neutralizes text for stdout if that is a terminal.
fn passed(text: &str) -> Cow<'_, str> {
    if io::stdout().is_terminal() { printable(text) } else { Cow::Borrowed(text) }
}

/// Writes a value to stdout as one line of JSON: raw to a pipe or file, neutralized on a terminal.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    if io::stdout().is_terminal() {
        let json = serde_json::to_string(value)?;
        return answer(&json);
    }
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    write(out, b"\n")
}

/// True once stdout has the result of a run or command.
static HAS_RESULT: AtomicBool = AtomicBool::new(false);

/// Writes the result of a run or command, the last line of JSON output.
pub fn result(fields: &impl Serialize) -> io::Result<()> {
    HAS_RESULT.store(true, Ordering::Release);
    json(fields)
}

/// Writes the result of a command that failed before it had another one. Ignores that stdout may be closed or full,
/// because the failure is on stderr as well.
pub fn result_if_none(fields: &impl Serialize) {
    if !HAS_RESULT.load(Ordering::Acquire) {
        let _ = result(fields);
    }
}

/// Returns a writer to stdout for documents that are generated while they are written: raw to a pipe or file,
/// neutralized on a terminal.
pub fn document() -> CleanWriter<io::BufWriter<Document>> {
    let document = Document { is_terminal: io::stdout().is_terminal(), rest: Vec::new() };
    CleanWriter::new(io::BufWriter::new(document), SECRETS.get().cloned().unwrap_or_default())
}

/// Returns a writer to stdout for patches: the bytes as they are to a pipe or file, because git compares them with the
/// files, and like [`document`] on a terminal.
pub fn patch_writer() -> Box<dyn Write> {
    if io::stdout().is_terminal() { Box::new(document()) } else { Box::new(io::stdout().lock()) }
}

/// Writer behind [`document`].
#[derive(Debug)]
pub struct Document {
    is_terminal: bool,
    /// The beginning of a line, which may end within a character.
    rest: Vec<u8>,
}

impl Write for Document {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return io::stdout().lock().write(bytes);
        }
        self.rest.extend_from_slice(bytes);
        if let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') {
            let lines: Vec<u8> = self.rest.drain(..=end).collect();
            io::stdout().lock().write_all(printable(&String::from_utf8_lossy(&lines)).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.rest);
        write(io::stdout().lock(), printable(&String::from_utf8_lossy(&rest)).as_bytes())
    }
}

/// Writes the log to stderr. Each write is one entry, whose further lines are indented.
#[derive(Debug, Clone, Copy)]
pub struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let entry = String::from_utf8_lossy(bytes);
        StandardError.text(&text!("{}\n", Text::block(entry.trim_end())))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

/// Writes help, versions and usage errors in the words of the command line's parser. They repeat arguments, so only the
/// parser's own colours pass, and only in help.
pub fn usage(error: &clap::Error) -> io::Result<()> {
    let rendered = error.render();
    if error.use_stderr() {
        return StandardError.text(&Text::complete(&rendered.to_string()));
    }
    let has_colours = Style::of_stdout() == Style::Colour;
    match has_colours {
        true => Stdout.text(&Text::neutral(keeping_colours(&rendered.ansi().to_string()))),
        false => Stdout.text(&Text::complete(&rendered.to_string())),
    }
}

/// Neutralizes everything except colour sequences.
fn keeping_colours(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for (number, part) in text.split("\x1b[").enumerate() {
        let codes = part.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(part.len());
        let is_colour = number > 0 && part[codes..].starts_with('m');
        match is_colour {
            true => {
                kept.push_str("\x1b[");
                kept.push_str(&part[..=codes]);
                kept.push_str(&printable(&part[codes + 1..]));
            }
            false => kept.push_str(&printable(part)),
        }
    }
    kept
}

/// Reports panics in the words of this program, after restoring the terminal.
pub fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        restore_terminal();
        if is_out_of_threads(panic.payload()) {
            // Several threads may fail at once.
            static IS_REPORTED: AtomicBool = AtomicBool::new(false);
            if IS_REPORTED.swap(true, Ordering::Relaxed) {
                return;
            }
            let _ = Stream::Stderr
                .write(&text!("error: could not start a thread: the system refuses more\nhint: {}\n", MORE_THREADS));
            // The runtime's threads would wait for the missing one.
            std::process::exit(1);
        }
        // Does not call `note`, whose lock the panicking thread may hold.
        let _ = Stream::Stderr.write(&text!("internal error: {}\n", Text::block(panic)));
    }));
}

/// Returns whether tokio, rayon or the standard library panicked because the system refused another thread.
fn is_out_of_threads(payload: &dyn std::any::Any) -> bool {
    let text = payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied());
    // rayon gives the last one to all threads but the first that wants its pool.
    let refused = ["Resource temporarily unavailable", "WouldBlock", "GlobalPoolAlreadyInitialized"];
    text.is_some_and(|text| text.contains("thread") && refused.iter().any(|refused| text.contains(refused)))
}

/// Leaves raw mode.
fn restore_terminal() {
    if let Some(sequences) = signals::undoing_shown() {
        let _ = io::stdout().write_all(sequences.as_bytes()).and_then(|()| io::stdout().flush());
        HAS_LEFT.store(true, Ordering::Release);
    }
    let _ = crossterm::terminal::disable_raw_mode();
}

/// Set when a panic has restored the terminal behind the back of the full-screen UI.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// Returns whether a panic has restored the terminal since the last call.
pub fn has_left() -> bool {
    HAS_LEFT.swap(false, Ordering::AcqRel)
}

// A writer that redacts secrets.
/// Writes text line by line with its secrets redacted.
pub struct CleanWriter<W: Write> {
    out: W,
    secrets: Secrets,
    line: Vec<u8>,
}

impl<W: Write> CleanWriter<W> {
    /// Writes to `out`, with these secrets redacted.
    pub fn new(out: W, secrets: Secrets) -> Self {
        Self { out, secrets, line: Vec::new() }
    }

    fn write_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        match self.secrets.are_in(&line) {
            true => self.out.write_all(self.secrets.clean(&String::from_utf8_lossy(&line)).as_bytes()),
            false => self.out.write_all(&line),
        }
    }
}

impl<W: Write> Write for CleanWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.write_line()?;
            }
        }
        Ok(bytes.len())
    }

    /// Writes the rest of the line, holding nothing back.
    fn flush(&mut self) -> io::Result<()> {
        self.write_line()?;
        self.out.flush()
    }
}

// Work that writes while a run continues.
/// Runs work that writes to stdout or stderr, on a separate thread.
///
/// A write waits for its reader. On a worker it would hold up the task that this work woke last, which other workers do
/// not take over: a run that was aborted would never end.
pub fn showing<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let handle = Handle::current();
    spawn_blocking(move || handle.block_on(work))
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::SecretString;

    #[test]
    fn refused_threads_are_recognized() {
        let panic = |text: &str| is_out_of_threads(&text.to_owned());
        assert!(panic("OS can't spawn worker thread: Resource temporarily unavailable (os error 11)"));
        assert!(panic("The global thread pool … ThreadPoolBuildError { kind: GlobalPoolAlreadyInitialized }"));
        assert!(panic("failed to spawn thread: Os { code: 11, kind: WouldBlock, message: \"…\" }"));
        assert!(!panic("index out of bounds") && !is_out_of_threads(&1));
    }

    #[test]
    fn only_colours_pass_in_help() {
        assert_eq!(keeping_colours("\x1b[1mx\x1b[0m \x1b[2J\x1b]52;a\x07"), "\x1b[1mx\x1b[0m 2J␛]52;a␇");
    }

    #[test]
    fn writer_cleans_whole_lines() {
        let secrets = Secrets::default();
        secrets.add(&SecretString::from("Zq7Xw3Vb9Nm2"));
        let mut out = Vec::new();
        let mut writer = CleanWriter::new(&mut out, secrets);
        for piece in ["a Zq7X", "w3Vb9Nm2 b\nZq7Xw", "3Vb9Nm2"] {
            writer.write_all(piece.as_bytes()).unwrap();
        }
        writer.flush().unwrap();
        assert!(String::from_utf8_lossy(&out).starts_with("a [redacted] b\n[redacted]"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_that_blocks_holds_up_no_task() {
        let (done, blocked) = std::sync::mpsc::channel();
        let work = showing(async move {
            tokio::spawn(async move { done.send(()) });
            blocked.recv()
        });
        assert_eq!(work.await.unwrap(), Ok(()));
    }
}
