//! A user's command that prints a key.

use super::error::{KeyCommandError, KeyError};
use secrecy::{ExposeSecret as _, SecretString};
use std::fmt;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

/// The limit on the size of a key: 64 KiB.
const MAX_OUTPUT: u64 = 64 << 10;

/// A command that prints a key to its standard output, such as `gcloud auth print-access-token`, `op read op://…`, or
/// `aws configure export-credentials --format process`.
///
/// The shell runs it (`sh -c`, `cmd /C`) without input, or a [`KeyCommandLauncher`] starts it. After [`Self::timeout`], or when
/// the caller drops the future, the command and its children are killed. The key is cached for [`Self::keep`], or until the vendor rejects it;
/// concurrent requests share one run. Standard error is discarded, because such programs may print keys there too.
#[derive(Debug)]
pub struct KeyCommand {
    line: String,
    timeout: Duration,
    keep: Duration,
    launcher: Arc<dyn KeyCommandLauncher>,
    cached: Mutex<Option<(SecretString, Instant)>>,
    is_refused: AtomicBool,
}

impl KeyCommand {
    /// Sets the command line. It may run for 30 s, and its key is cached for 5 minutes.
    pub fn new(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            timeout: Duration::from_secs(30),
            keep: Duration::from_secs(300),
            launcher: Arc::new(ShellLauncher),
            cached: Mutex::new(None),
            is_refused: AtomicBool::new(false),
        }
    }

    /// Sets the launcher that starts it, instead of the plain shell.
    #[must_use]
    pub fn launched_by(self, launcher: Arc<dyn KeyCommandLauncher>) -> Self {
        Self { launcher, ..self }
    }

    /// Sets the time limit.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets how long the key is cached. Zero runs the command before every request.
    #[must_use]
    pub fn keep(self, keep: Duration) -> Self {
        Self { keep, ..self }
    }

    /// Returns the cached key, or runs the command for a new one.
    ///
    /// # Errors
    /// The command cannot be run, fails, takes too long, or prints no key.
    pub async fn value(&self) -> Result<SecretString, KeyCommandError> {
        let mut cached = self.cached.lock().await;
        if self.is_refused.swap(false, Ordering::Relaxed) {
            *cached = None;
        }
        if let Some((key, _)) = cached.as_ref().filter(|(_, until)| *until > Instant::now()) {
            return Ok(key.clone());
        }
        let output = self.run().await.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => KeyCommandError::TimedOut(self.timeout),
            _ => KeyCommandError::Run(error),
        })?;
        let remedy = || self.launcher.remedy().map(str::to_owned);
        match output {
            CommandOutput { status, .. } if !status.success() => {
                Err(KeyCommandError::Status { status, remedy: remedy() })
            }
            CommandOutput { text: None, .. } => Err(KeyCommandError::NoKey { remedy: remedy() }),
            CommandOutput { text: Some(key), .. } => {
                *cached = Some((key.clone(), Instant::now() + self.keep));
                Ok(key)
            }
        }
    }

    async fn run(&self) -> io::Result<CommandOutput> {
        let (launcher, line) = (self.launcher.clone(), self.line.clone());
        let launched = tokio::task::spawn_blocking(move || launcher.launch(&line)).await;
        let LaunchedKeyCommand { command, ended: _ended } = launched.map_err(io::Error::other)??;
        run(Command::from(command), None, self.timeout).await
    }

    /// Returns the key of a provider.
    pub(super) async fn key(&self, provider: &'static str) -> Result<SecretString, KeyError> {
        self.value().await.map_err(|source| KeyError::Command { provider, source })
    }

    /// Discards the cached key.
    pub(super) fn forget(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }
}

/// A means to start key commands, such as a sandbox.
pub trait KeyCommandLauncher: Send + Sync + fmt::Debug {
    /// Returns the program that runs a command line. May take some milliseconds of blocking work.
    ///
    /// # Errors
    /// The command must not run; the message says why and how to change that.
    fn launch(&self, line: &str) -> io::Result<LaunchedKeyCommand>;

    /// Returns the remedy if a command fails because of this launcher.
    fn remedy(&self) -> Option<&str> {
        None
    }
}

/// A key command that is ready to start. Its streams and its process group are set by the caller.
pub struct LaunchedKeyCommand {
    /// The program.
    pub command: std::process::Command,
    /// Dropped when the program has ended or was killed.
    pub ended: Box<dyn Send>,
}

impl fmt::Debug for LaunchedKeyCommand {
    /// Nothing: a command line may contain a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchedKeyCommand").finish_non_exhaustive()
    }
}

/// The plain shell.
#[derive(Debug)]
pub struct ShellLauncher;

impl KeyCommandLauncher for ShellLauncher {
    fn launch(&self, line: &str) -> io::Result<LaunchedKeyCommand> {
        let (program, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
        let mut command = std::process::Command::new(program);
        command.arg(flag).arg(line);
        Ok(LaunchedKeyCommand { command, ended: Box::new(()) })
    }
}

/// The result of a program.
pub(super) struct CommandOutput {
    pub(super) status: ExitStatus,
    /// Standard output without surrounding whitespace; `None` when it is empty, too long, or not text.
    pub(super) text: Option<SecretString>,
}

/// Runs a program, with `input` as its standard input, and captures its output. It is killed after `limit`, and when
/// the future is dropped. It runs outside of the project, whose files decide which programs helpers such as `git
/// credential` and version managers run.
pub(super) async fn run(
    mut command: Command,
    input: Option<&SecretString>,
    limit: Duration,
) -> io::Result<CommandOutput> {
    #[cfg(unix)]
    command.current_dir("/");
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn()?;
    let mut group = CommandProcessGroup::from_id(child.id());
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let finished = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A program that ends without reading says why with its status.
            let _ = stdin.write_all(input.expose_secret().as_bytes()).await;
        }
        let mut text = Zeroizing::new(Vec::new());
        if let Some(stdout) = stdout {
            stdout.take(MAX_OUTPUT + 1).read_to_end(&mut text).await?;
        }
        Ok(CommandOutput { status: child.wait().await?, text: key_in(&text) })
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

/// Kills a program and its children on drop, unless spared.
struct CommandProcessGroup {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

#[cfg(unix)]
impl CommandProcessGroup {
    fn from_id(id: Option<u32>) -> Self {
        let leader = id.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        Self { leader }
    }

    fn spare(&mut self) {
        self.leader = None;
    }
}

#[cfg(unix)]
impl Drop for CommandProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            // This fails when the group is already gone, as intended.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

/// Other platforms have no process groups; the handle kills the program itself.
#[cfg(not(unix))]
impl CommandProcessGroup {
    fn from_id(_: Option<u32>) -> Self {
        Self {}
    }

    fn spare(&mut self) {}
}
