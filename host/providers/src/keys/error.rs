//! Errors of key sources, which never contain a key.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// A source of keys failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A file could not be read.
    #[error("could not read `{}`", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Other users have access to the file.
    #[error("`{}` is accessible to other users (mode {mode:04o})", path.display())]
    Mode {
        /// The path.
        path: PathBuf,
        /// The file's permissions.
        mode: u32,
    },
    /// The file does not have the form that [`AuthFile`](super::AuthFile) describes.
    #[error("invalid key file `{}`, line {line}", path.display())]
    Malformed {
        /// The path.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
    },
    /// The operating system's keyring could not be queried.
    #[error("could not query the keyring")]
    Keyring {
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The user's command produced no key.
    #[error("the key command for `{provider}` failed")]
    Command {
        /// The provider.
        provider: &'static str,
        /// The cause.
        #[source]
        source: KeyCommandError,
    },
}

impl KeyError {
    /// The remedy, where one is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Mode { path, .. } => Some(format!("run `chmod 600 {}`", path.display())),
            Self::Command { source, .. } => source.hint().map(str::to_owned),
            Self::Keyring { source } => exhausted(source).map(str::to_owned),
            _ => None,
        }
    }
}

/// Returns the remedy for a limit of the process that kept a program from starting.
fn exhausted(error: &io::Error) -> Option<&'static str> {
    /// `EMFILE` and `ENFILE` of all Unix systems.
    const FILES: [i32; 2] = [23, 24];
    match error.raw_os_error() {
        Some(code) if FILES.contains(&code) => Some("raise the limit on open files (`ulimit -n`)"),
        _ if error.kind() == io::ErrorKind::WouldBlock => {
            Some("raise the limit on processes (`ulimit -u`, or `pids.max` of the container)")
        }
        _ => None,
    }
}

/// The reason why a key command produced no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyCommandError {
    /// The command could not be started, or its output not be read.
    #[error("could not run it")]
    Run(#[source] io::Error),
    /// The command was killed after this time.
    #[error("it took longer than {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The command reported a failure.
    #[error("{status}")]
    Status {
        /// The status.
        status: ExitStatus,
        /// The remedy if its launcher is the cause.
        remedy: Option<String>,
    },
    /// The command printed nothing, too much, or something other than text.
    #[error("it printed no key")]
    NoKey {
        /// The remedy if its launcher is the cause.
        remedy: Option<String>,
    },
}

impl KeyCommandError {
    /// The remedy, where one is known.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Status { remedy, .. } | Self::NoKey { remedy } => remedy.as_deref(),
            Self::Run(_) | Self::TimedOut(_) => None,
        }
    }
}
