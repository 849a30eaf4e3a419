//! The operating system's keyring.

use super::command::{CommandOutput, run};
use super::error::KeyError;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret as _, SecretString};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};
use tokio::process::Command;

/// The program of libsecret.
const SECRET_TOOL: &str = "secret-tool";

/// The service name of stored keys.
const SERVICE: &str = "pinion";

/// The time limit. It is long because a keyring may ask the user to unlock it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum bytes that `secret-tool` reads of a secret.
const MAX_STORED: usize = 8 << 10;

/// A store of keys.
pub trait Keyring: Send + Sync + fmt::Debug {
    /// Returns the key stored for a provider; `None` when there is no key, or no keyring at all.
    fn get<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<Option<SecretString>, KeyError>>;
}

/// The platform's keyring, queried with the platform's own program: `secret-tool` (libsecret) on Linux, `security` on
/// macOS.
///
/// Keys are stored by [`PlatformKeyring::store`], and by hand with `secret-tool store --label pinion service pinion account
/// PROVIDER`, or `security add-generic-password -s pinion -a PROVIDER -w`. A missing program counts as a missing keyring.
///
/// The crate `keyring` 4 would add D-Bus and its session cryptography, about a hundred crates, for a value that these
/// programs print. An application that prefers it implements [`Keyring`] in ten lines.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlatformKeyring;

impl Keyring for PlatformKeyring {
    fn get<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<Option<SecretString>, KeyError>> {
        async move {
            let Some(command) = platform_command(GET, provider) else { return Ok(None) };
            let output = output(command, None).await?;
            Ok(output.and_then(|CommandOutput { status, text }| text.filter(|_| status.success())))
        }
        .boxed()
    }
}

impl PlatformKeyring {
    /// Stores the secret of an account, such as the key of a provider, in place of the one that is there. Returns false if
    /// there is no keyring for it: on macOS, whose program takes secrets only from its arguments, where every process of
    /// the user sees them, without `secret-tool`, and if it is longer than 8 KiB.
    ///
    /// # Errors
    /// The keyring could not be queried, as without a service behind `secret-tool`, or did not keep the secret.
    pub async fn store(&self, account: &str, secret: &SecretString) -> Result<bool, KeyError> {
        if !cfg!(target_os = "linux") || secret.expose_secret().len() > MAX_STORED {
            return Ok(false);
        }
        let Some(program) = found(SECRET_TOOL) else { return Ok(false) };
        let mut command = Command::new(program);
        command.args(["store", "--label", &format!("{SERVICE}: {account}"), "service", SERVICE, "account", account]);
        let Some(output) = output(command, Some(secret)).await? else { return Ok(false) };
        // A service may accept a secret and lose it.
        let is_kept = output.status.success()
            && self.get(account).await?.is_some_and(|stored| stored.expose_secret() == secret.expose_secret());
        if !is_kept {
            // The present entry is incomplete or out of date, and would be used.
            let _ = self.remove(account).await;
            return Err(KeyError::Keyring { source: io::Error::other("it did not keep what it was given") });
        }
        Ok(true)
    }

    /// Removes the secret of an account. Returns false if there was no secret.
    ///
    /// # Errors
    /// The keyring could not be queried, or did not remove the secret.
    pub async fn remove(&self, account: &str) -> Result<bool, KeyError> {
        if self.get(account).await?.is_none() {
            return Ok(false);
        }
        let removed = match platform_command(REMOVE, account) {
            Some(command) => output(command, None).await?.is_some_and(|output| output.status.success()),
            None => false,
        };
        match removed {
            true => Ok(true),
            false => Err(KeyError::Keyring { source: io::Error::other("it did not remove the key") }),
        }
    }
}

/// Runs a program of the keyring; `None` if it does not exist.
async fn output(command: Command, input: Option<&SecretString>) -> Result<Option<CommandOutput>, KeyError> {
    match run(command, input, TIMEOUT).await {
        Ok(output) => Ok(Some(output)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeyError::Keyring { source }),
    }
}

/// Use of the platform's program: its first argument on macOS, that on Linux, and a last one on macOS.
type KeyringArguments = (&'static str, &'static str, Option<&'static str>);

const GET: KeyringArguments = ("find-generic-password", "lookup", Some("-w"));
const REMOVE: KeyringArguments = ("delete-generic-password", "clear", None);

fn platform_command((on_macos, on_linux, last): KeyringArguments, account: &str) -> Option<Command> {
    let (program, arguments) = if cfg!(target_os = "macos") {
        ("/usr/bin/security", [on_macos, "-s", SERVICE, "-a", account].into_iter().chain(last).collect::<Vec<_>>())
    } else if cfg!(target_os = "linux") {
        (SECRET_TOOL, [on_linux, "service", SERVICE, "account", account].to_vec())
    } else {
        return None;
    };
    let mut command = Command::new(found(program)?);
    command.args(arguments);
    Some(command)
}

/// Returns the file of a program in the directories of `PATH`; `None` if there is no such file. The system reports a
/// directory that the user may not search as if the program could not be run.
fn found(program: &str) -> Option<PathBuf> {
    found_in(program, &std::env::var_os("PATH")?)
}

fn found_in(program: &str, path: &OsStr) -> Option<PathBuf> {
    let mut files = std::env::split_paths(path).map(|directory| directory.join(program));
    files.find(|file| file.is_absolute() && file.metadata().is_ok_and(|found| found.is_file()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    #[test]
    fn program_is_found_beyond_directories_that_cannot_be_searched() {
        let directory = tempfile::tempdir().unwrap();
        let [closed, open] = ["closed", "open"].map(|name| directory.path().join(name));
        fs::create_dir_all(&closed).unwrap();
        fs::create_dir_all(&open).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let path = std::env::join_paths([closed.as_path(), Path::new("."), open.as_path()]).unwrap();
        assert_eq!(found_in(SECRET_TOOL, &path), None);
        fs::write(open.join(SECRET_TOOL), "").unwrap();
        assert_eq!(found_in(SECRET_TOOL, &path), Some(open.join(SECRET_TOOL)));
    }

    #[test]
    fn exhausted_limit_of_the_process_has_a_hint() {
        for (code, limit) in [(libc_code::EAGAIN, "processes"), (libc_code::EMFILE, "open files")] {
            let error = KeyError::Keyring { source: io::Error::from_raw_os_error(code) };
            assert!(error.hint().is_some_and(|hint| hint.contains(limit)), "{code}");
        }
        assert_eq!(KeyError::Keyring { source: io::Error::other("x") }.hint(), None);
    }

    /// Codes of Linux and macOS.
    mod libc_code {
        pub(super) const EAGAIN: i32 = if cfg!(target_os = "macos") { 35 } else { 11 };
        pub(super) const EMFILE: i32 = 24;
    }
}
