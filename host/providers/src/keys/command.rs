//! A command of the user's that prints a key.

use super::KeyError;
use secrecy::SecretString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

/// The longest output that is taken for a key: 64 KiB.
const MAX_OUTPUT: u64 = 64 << 10;

/// A command that prints a key on its standard output: `gcloud auth print-access-token`, `op read op://…`,
/// `aws configure export-credentials --format process`.
///
/// It is run by the shell (`sh -c`, `cmd /C`), without input, for at most [`Self::timeout`]; past that, and when its
/// caller is gone, it and what it started are killed. What it prints is kept for [`Self::keep`], or until the vendor refuses it.
/// Requests at the same time run it once. Its standard error is thrown away, because such programs print keys there too.
#[derive(Debug)]
pub struct KeyCommand {
    line: String,
    timeout: Duration,
    keep: Duration,
    kept: Mutex<Option<(SecretString, Instant)>>,
    is_refused: AtomicBool,
}

impl KeyCommand {
    /// A command line. It gets 30 s, and its key is kept for 5 minutes.
    pub fn new(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            timeout: Duration::from_secs(30),
            keep: Duration::from_secs(300),
            kept: Mutex::new(None),
            is_refused: AtomicBool::new(false),
        }
    }

    /// The same with another time limit.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The same with a key that is kept for another time. Zero runs the command before every request.
    #[must_use]
    pub fn keep(self, keep: Duration) -> Self {
        Self { keep, ..self }
    }

    /// The key: the one that is kept, or a new one.
    pub(super) async fn key(&self, provider: &'static str) -> Result<SecretString, KeyError> {
        let mut kept = self.kept.lock().await;
        if self.is_refused.swap(false, Ordering::Relaxed) {
            *kept = None;
        }
        if let Some((key, _)) = kept.as_ref().filter(|(_, until)| *until > Instant::now()) {
            return Ok(key.clone());
        }
        let failed = |reason: String| KeyError::Command { provider, reason };
        let output = run(shell(&self.line), self.timeout).await.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => failed(format!("took longer than {} s", self.timeout.as_secs())),
            _ => failed(format!("could not be run: {error}")),
        })?;
        match output {
            Output { status, .. } if !status.success() => Err(failed(format!("failed ({status})"))),
            Output { text: None, .. } => Err(failed("printed no key".to_owned())),
            Output { text: Some(key), .. } => {
                *kept = Some((key.clone(), Instant::now() + self.keep));
                Ok(key)
            }
        }
    }

    /// The next key is a new one.
    pub(super) fn forget(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }
}

/// What a program printed.
pub(super) struct Output {
    pub(super) status: ExitStatus,
    /// Without the space around it; none when it is empty, too long, or not text.
    pub(super) text: Option<SecretString>,
}

fn shell(line: &str) -> Command {
    let (program, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut command = Command::new(program);
    command.arg(flag).arg(line);
    command
}

/// Runs a program to its end and takes what it prints. Past `limit`, and when the future is dropped, it is killed.
pub(super) async fn run(mut command: Command, limit: Duration) -> io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn()?;
    let mut group = Group::of(child.id());
    let stdout = child.stdout.take();
    let finished = async {
        let mut text = Zeroizing::new(Vec::new());
        if let Some(stdout) = stdout {
            stdout.take(MAX_OUTPUT + 1).read_to_end(&mut text).await?;
        }
        Ok(Output { status: child.wait().await?, text: key_in(&text) })
    };
    let output = timeout(limit, finished).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    if output.is_ok() {
        group.spare();
    }
    output
}

fn key_in(output: &[u8]) -> Option<SecretString> {
    let text = std::str::from_utf8(output).ok().filter(|text| text.len() as u64 <= MAX_OUTPUT)?;
    Some(text.trim()).filter(|text| !text.is_empty()).map(SecretString::from)
}

/// Kills a program and what it started when it goes out of scope, unless it is spared.
struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

#[cfg(unix)]
impl Group {
    fn of(id: Option<u32>) -> Self {
        let leader = id.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        Self { leader }
    }

    fn spare(&mut self) {
        self.leader = None;
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            // It fails when nothing is left of the group, which is as it should be.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

/// Elsewhere there are no groups; the program itself is killed by its handle.
#[cfg(not(unix))]
impl Group {
    fn of(_: Option<u32>) -> Self {
        Self {}
    }

    fn spare(&mut self) {}
}
