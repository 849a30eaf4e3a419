//! Programs that run to their end.
//!
//! Output is kept in bounded memory: the start and the end of each stream, and all of it in a file once it is too much.

use crate::command::{CapturedOutput, ProgramCommand, ProgramError, ProgramExit, ProgramOutput, ProgramSetup};
use crate::confinement::{After, AfterProgram, Confinement, PlainProgram, exists};
use crate::process_guard;
use crate::spill::{Spill, WriteBudget};
use pinion_protocol::{Content, ToolProgress};
use pinion_redact::{ByteRedactor, Secrets};
use std::collections::VecDeque;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Maximum of `max-output`.
const MAX_KEPT_BYTES: u32 = 1024 * 1024;
/// Time to wait for the end of the output after the program has ended: a process that left the group may hold it open.
const DRAIN: Duration = Duration::from_millis(250);
/// Least time between two updates of the output that is shown while the program runs.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum bytes shown, from the end of the output.
const PROGRESS_BYTES: usize = 2048;

/// One program's run.
pub struct ProgramRun {
    /// Its surroundings.
    pub setup: ProgramSetup,
    /// Bytes to keep of each output stream, half from its start and half from its end. At most 1 MiB.
    pub max_output: u32,
    /// The limit of the file with its output.
    pub budget: WriteBudget,
    /// The time when it is killed.
    pub deadline: Instant,
    /// Kills it when it is cancelled.
    pub token: CancellationToken,
    /// Gets the output while it runs.
    pub progress: Arc<dyn ToolProgress>,
}

/// The reason a program ended.
#[derive(Clone, Copy)]
enum Cause {
    Itself,
    TimedOut,
    Cancelled,
}

impl ProgramRun {
    /// Runs a program to its end, and kills everything that is left of its group.
    ///
    /// # Errors
    /// It did not start, or was killed.
    pub async fn execute(self, command: ProgramCommand) -> Result<ProgramOutput, ProgramError> {
        let started = Instant::now();
        let stdin = if command.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
        let are_merged = command.arguments.iter().any(|argument| merges_streams(argument));
        let Started { mut child, after, group } = spawn(&command, &self.setup, stdin)?;
        let spill = Spill::new(&self.setup.scratch, self.budget.clone());
        let mut streams = Streams::new(spill, self.max_output.min(MAX_KEPT_BYTES), &self.setup.redacted);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (cause, status) = {
            let feeding = feed(stdin, command.stdin);
            let reading = streams.read(stdout, stderr, &*self.progress);
            tokio::pin!(feeding, reading);
            let (mut fed, mut read, mut status, mut cause) = (false, false, None, Cause::Itself);
            let mut deadline = self.deadline;
            // Until it is gone and its streams have ended. Once it is gone, or killed, that takes a moment at most.
            while !read || status.is_none() {
                let end = tokio::select! {
                    biased;
                    () = self.token.cancelled(), if deadline == self.deadline => Cause::Cancelled,
                    () = &mut reading, if !read => { read = true; continue }
                    () = &mut feeding, if !fed => { fed = true; continue }
                    ended = child.wait(), if status.is_none() => { status = Some(ended); cause }
                    () = sleep_until(deadline) => {
                        if deadline != self.deadline { break }
                        Cause::TimedOut
                    }
                };
                // Its children may hold its streams open forever; when it goes, they go.
                group.kill();
                cause = end;
                deadline = Instant::now() + DRAIN;
            }
            (cause, status)
        };
        let status = status.transpose().map_err(|error| ProgramError::Io(error.to_string()))?;
        let succeeded = status.is_some_and(|status| status.success());
        for line in after.finish(succeeded, &streams.errors(are_merged)) {
            streams.add_stderr(format!("{line}\n").as_bytes());
        }
        let output = streams.into_output(status, started.elapsed());
        match cause {
            Cause::Itself => Ok(output),
            Cause::TimedOut => Err(ProgramError::TimedOut(output)),
            Cause::Cancelled => Err(ProgramError::Cancelled(output)),
        }
    }
}

/// A program that was started. On drop, its group is killed before the work after it is done.
pub(crate) struct Started {
    pub(crate) group: ProcessGroup,
    pub(crate) child: Child,
    pub(crate) after: After,
}

/// Starts a program in a separate process group.
pub(crate) fn spawn(command: &ProgramCommand, setup: &ProgramSetup, stdin: Stdio) -> Result<Started, ProgramError> {
    let workspace = &setup.workspace;
    let directory = match &command.working_directory {
        // Through links, like the decision on the call: `link/..` is not the directory of `link`.
        Some(directory) => {
            let directory = workspace.join(directory);
            directory.canonicalize().unwrap_or(directory)
        }
        None => workspace.to_owned(),
    };
    if !directory.is_dir() {
        return Err(ProgramError::NotFound(format!("no such working directory: `{}`", directory.display())));
    }
    let place = ("PWD".to_owned(), directory.to_string_lossy().into_owned());
    let environment: Vec<_> = setup.environment.iter().cloned().chain([place]).collect();
    let plain = PlainProgram {
        program: &command.program,
        arguments: &command.arguments,
        directory: &directory,
        environment: &environment,
        scratch: &setup.scratch,
    };
    let (builder, ended) = builder(&plain, setup.confinement.as_deref())?;
    let mut builder = tokio::process::Command::from(builder);
    builder.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    #[cfg(unix)]
    builder.process_group(0);
    let after = After::new(ended);
    let child = process_guard::spawn(&mut builder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => not_found(&plain),
        _ => ProgramError::Io(format!("`{}` did not start: {error}", command.program)),
    })?;
    Ok(Started { group: ProcessGroup::from_child(&child), child, after })
}

/// Returns the command for a program, and the work after it if it is confined.
fn builder(
    plain: &PlainProgram<'_>,
    confinement: Option<&dyn Confinement>,
) -> Result<(std::process::Command, Option<AfterProgram>), ProgramError> {
    let Some(confinement) = confinement else {
        let mut builder = std::process::Command::new(plain.program);
        builder.args(plain.arguments).current_dir(plain.directory).env_clear();
        builder.envs(plain.environment.iter().map(|(name, value)| (name, value)));
        return Ok((builder, None));
    };
    if !exists(plain) {
        return Err(not_found(plain));
    }
    let confined = confinement.confine(plain).map_err(ProgramError::Refused)?;
    Ok((confined.command, Some(confined.ended)))
}

fn not_found(plain: &PlainProgram<'_>) -> ProgramError {
    ProgramError::NotFound(format!("no such program: `{}`", plain.program))
}

/// Writes the program's input. A program that does not read it is not an error.
async fn feed(stdin: Option<ChildStdin>, input: Vec<u8>) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(&input).await;
    }
}

/// A process group, killed at the latest when this is dropped, and only once: its number may soon be another's.
pub(crate) struct ProcessGroup(AtomicI32);

impl ProcessGroup {
    pub(crate) fn from_child(child: &Child) -> Self {
        Self(AtomicI32::new(child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or(0)))
    }

    pub(crate) fn kill(&self) {
        let group = self.0.swap(0, Ordering::AcqRel);
        if group != 0 {
            process_guard::kill(group);
            process_guard::forget(group);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The process group of a program of the application. It is killed when this is dropped, and also when this process is
/// killed, if [`guard_programs`](crate::guard_programs) was called.
pub struct ProgramGroup(ProcessGroup);

impl ProgramGroup {
    /// Starts a program, which must be set to begin a process group.
    ///
    /// # Errors
    /// The system refuses.
    pub fn spawn(command: &mut tokio::process::Command) -> io::Result<(Child, Self)> {
        let child = process_guard::spawn(command)?;
        let group = ProcessGroup::from_child(&child);
        Ok((child, Self(group)))
    }

    /// Kills every process of the group.
    pub fn kill(&self) {
        self.0.kill();
    }
}

/// Returns whether the text of a shell command sends errors to its output.
fn merges_streams(command: &str) -> bool {
    ["2>&1", "&>", "|&"].iter().any(|sign| command.contains(sign))
}

/// Both output streams of a program.
struct Streams {
    stdout: RetainedOutput,
    stderr: RetainedOutput,
    spill: Spill,
    /// Redactors of both; `None` when the program knows no secret.
    redactors: Option<[ByteRedactor; 2]>,
}

impl Streams {
    fn new(spill: Spill, max_output: u32, redacted: &Secrets) -> Self {
        let kept = || RetainedOutput::new(usize::try_from(max_output / 2).unwrap_or(0));
        let redactors = || [redacted.byte_redactor(), redacted.byte_redactor()];
        let redactors = (!redacted.is_empty()).then(redactors);
        Self { stdout: kept(), stderr: kept(), spill, redactors }
    }

    /// Reads both to their ends. New output is shown within [`PROGRESS_INTERVAL`], also if nothing follows it.
    async fn read(
        &mut self,
        mut stdout: Option<impl AsyncRead + Unpin>,
        mut stderr: Option<impl AsyncRead + Unpin>,
        progress: &dyn ToolProgress,
    ) {
        let (mut from_stdout, mut from_stderr) = (vec![0; 32 * 1024], vec![0; 32 * 1024]);
        let (mut due, mut is_new) = (Instant::now(), false);
        while stdout.is_some() || stderr.is_some() {
            tokio::select! {
                read = read_some(&mut stdout, &mut from_stdout) => {
                    self.take_stdout(&from_stdout[..read]);
                    is_new |= read > 0;
                }
                read = read_some(&mut stderr, &mut from_stderr) => {
                    self.take_stderr(&from_stderr[..read]);
                    is_new |= read > 0;
                }
                () = sleep_until(due), if is_new => {
                    (due, is_new) = (Instant::now() + PROGRESS_INTERVAL, false);
                    progress.update(vec![Content::text(self.latest())]);
                }
            }
        }
    }

    fn take_stdout(&mut self, bytes: &[u8]) {
        let redacted = self.redactors.as_mut().map(|[redactor, _]| redactor.push(bytes));
        self.add_stdout(redacted.as_deref().unwrap_or(bytes));
    }

    fn take_stderr(&mut self, bytes: &[u8]) {
        let redacted = self.redactors.as_mut().map(|[_, redactor]| redactor.push(bytes));
        self.add_stderr(redacted.as_deref().unwrap_or(bytes));
    }

    fn add_stdout(&mut self, bytes: &[u8]) {
        self.stdout.push_bytes(bytes);
        self.spill.push_output(bytes, self.stdout.overflows() || self.stderr.overflows());
    }

    fn add_stderr(&mut self, bytes: &[u8]) {
        self.stderr.push_bytes(bytes);
        self.spill.push_output(bytes, self.stdout.overflows() || self.stderr.overflows());
    }

    /// The end of the program's output, for people.
    fn latest(&self) -> String {
        let bytes = if self.stdout.total > 0 { self.stdout.end() } else { self.stderr.end() };
        let text = String::from_utf8_lossy(&bytes);
        let skipped = text.len() - clip_start(&text, PROGRESS_BYTES).len();
        text[skipped..].to_owned()
    }

    /// Returns the end of the error stream, behind the end of the output if that has the errors.
    fn errors(&self, are_merged: bool) -> String {
        let merged = if are_merged { self.stdout.end() } else { Vec::new() };
        String::from_utf8_lossy(&[merged, self.stderr.end()].concat()).into_owned()
    }

    fn into_output(mut self, status: Option<ExitStatus>, elapsed: Duration) -> ProgramOutput {
        if let Some([mut stdout, mut stderr]) = self.redactors.take() {
            self.add_stdout(&stdout.finish());
            self.add_stderr(&stderr.finish());
        }
        let truncated = self.stdout.overflows() || self.stderr.overflows();
        ProgramOutput {
            exit: status.map(ProgramExit::from).unwrap_or_default(),
            stdout: self.stdout.into_captured(),
            stderr: self.stderr.into_captured(),
            spilled_to: self.spill.finish().filter(|_| truncated),
            duration: elapsed,
        }
    }
}

impl From<ExitStatus> for ProgramExit {
    fn from(status: ExitStatus) -> Self {
        #[cfg(unix)]
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        #[cfg(not(unix))]
        let signal = None;
        Self { code: status.code(), signal }
    }
}

/// Some bytes of a stream that is still open; closes it at its end. Never ends on a closed one.
async fn read_some(stream: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    let Some(open) = stream else { return std::future::pending().await };
    // An error of a pipe is its end: nothing else comes from it.
    let read = open.read(buffer).await.unwrap_or(0);
    if read == 0 {
        *stream = None;
    }
    read
}

/// The last `limit` bytes of a text, from where a character begins.
fn clip_start(text: &str, limit: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(limit))..]
}

/// The start and the end of a stream.
struct RetainedOutput {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl RetainedOutput {
    fn new(half: usize) -> Self {
        Self { half, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// Returns whether something between start and end was left out.
    fn overflows(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    fn end(&self) -> Vec<u8> {
        if self.tail.is_empty() { self.head.clone() } else { self.tail.iter().copied().collect() }
    }

    fn into_captured(mut self) -> CapturedOutput {
        if !self.overflows() {
            self.head.extend(self.tail.drain(..));
        }
        CapturedOutput { head: self.head, tail: self.tail.into(), total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_fits_is_kept_whole() {
        let mut kept = RetainedOutput::new(4);
        kept.push_bytes(b"abc");
        kept.push_bytes(b"defg");
        assert!(!kept.overflows());
        let captured = kept.into_captured();
        assert_eq!((captured.head.as_slice(), captured.tail.len(), captured.total), (&b"abcdefg"[..], 0, 7));
    }

    #[test]
    fn of_too_much_the_start_and_the_end_are_kept() {
        let mut kept = RetainedOutput::new(3);
        for byte in b"abcdefghij" {
            kept.push_bytes(&[*byte]);
        }
        let captured = kept.into_captured();
        assert_eq!((captured.head, captured.tail, captured.total), (b"abc".to_vec(), b"hij".to_vec(), 10));
    }

    #[test]
    fn one_large_write_is_as_many_small_ones() {
        let (mut one, mut many) = (RetainedOutput::new(5), RetainedOutput::new(5));
        let bytes: Vec<u8> = (0..200).collect();
        one.push_bytes(&bytes);
        bytes.chunks(7).for_each(|chunk| many.push_bytes(chunk));
        let (one, many) = (one.into_captured(), many.into_captured());
        assert_eq!((one.head, one.tail, one.total), (many.head, many.tail, many.total));
    }

    #[derive(Default)]
    struct Shown(std::sync::Mutex<Vec<String>>);

    impl ToolProgress for Shown {
        fn report(&self, _: String) {}

        fn update(&self, partial: Vec<Content>) {
            self.0.lock().unwrap().extend(partial.iter().filter_map(Content::as_text).map(str::to_owned));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn output_before_a_silence_is_shown_at_once() {
        let shown = Shown::default();
        let spill = Spill::new(Path::new("unused"), Arc::new(|bytes| bytes));
        let mut streams = Streams::new(spill, 1024, &Secrets::default());
        let (mut program, stdout) = tokio::io::duplex(64);
        let reading = streams.read(Some(stdout), None::<tokio::io::Empty>, &shown);
        let writing = async {
            for line in ["one\n", "two\n"] {
                program.write_all(line.as_bytes()).await.unwrap();
                tokio::time::sleep(PROGRESS_INTERVAL * 2).await;
            }
            let silent = shown.0.lock().unwrap().clone();
            for line in ["3", "4", "5"] {
                program.write_all(line.as_bytes()).await.unwrap();
                tokio::time::sleep(PROGRESS_INTERVAL / 4).await;
            }
            drop(program);
            silent
        };
        let ((), silent) = tokio::join!(reading, writing);
        assert_eq!(silent, ["one\n", "one\ntwo\n"]);
        // A burst is one update.
        assert_eq!(shown.0.lock().unwrap()[2..], ["one\ntwo\n3"]);
    }

    #[test]
    fn clips_begin_where_characters_do() {
        assert_eq!(clip_start("éa", 2), "a");
    }
}
