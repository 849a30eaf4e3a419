//! The operating system's keyring.

use super::command::{Output, run};
use super::error::KeyError;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret as _, SecretString};
use std::time::Duration;
use std::{fmt, io};
use tokio::process::Command;

/// The service name of stored keys.
const SERVICE: &str = "pinion";

/// The time limit. It is long because a keyring may ask the user to unlock it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A store of keys.
pub trait Keyring: Send + Sync + fmt::Debug {
    /// Returns the key stored for a provider; `None` when there is none, or no keyring at all.
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
            Ok(output.and_then(|Output { status, text }| text.filter(|_| status.success())))
        }
        .boxed()
    }
}

impl PlatformKeyring {
    /// Stores the key of a provider in place of the one that is there. Returns false if there is no keyring that takes it:
    /// on macOS, whose program takes keys only from its arguments, where every process of the user sees them, and without
    /// `secret-tool`, or without a service behind it.
    ///
    /// # Errors
    /// The keyring could not be queried.
    pub async fn store(&self, provider: &str, key: &SecretString) -> Result<bool, KeyError> {
        if !cfg!(target_os = "linux") {
            return Ok(false);
        }
        let mut command = Command::new("secret-tool");
        command.args(["store", "--label", &format!("{SERVICE}: {provider}"), "service", SERVICE, "account", provider]);
        let is_stored = output(command, Some(key)).await?.is_some_and(|output| output.status.success());
        // A service may accept a key and lose it.
        Ok(is_stored && self.get(provider).await?.is_some_and(|stored| stored.expose_secret() == key.expose_secret()))
    }

    /// Removes the key of a provider. Returns false if there was none.
    ///
    /// # Errors
    /// The keyring could not be queried, or did not remove the key.
    pub async fn remove(&self, provider: &str) -> Result<bool, KeyError> {
        if self.get(provider).await?.is_none() {
            return Ok(false);
        }
        let removed = match platform_command(REMOVE, provider) {
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
async fn output(command: Command, input: Option<&SecretString>) -> Result<Option<Output>, KeyError> {
    match run(command, input, TIMEOUT).await {
        Ok(output) => Ok(Some(output)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeyError::Keyring { source }),
    }
}

/// Use of the platform's program: its first argument on macOS, that on Linux, and a last one on macOS.
type Action = (&'static str, &'static str, Option<&'static str>);

const GET: Action = ("find-generic-password", "lookup", Some("-w"));
const REMOVE: Action = ("delete-generic-password", "clear", None);

fn platform_command((on_macos, on_linux, last): Action, provider: &str) -> Option<Command> {
    let (program, arguments) = if cfg!(target_os = "macos") {
        ("/usr/bin/security", [on_macos, "-s", SERVICE, "-a", provider].into_iter().chain(last).collect::<Vec<_>>())
    } else if cfg!(target_os = "linux") {
        ("secret-tool", [on_linux, "service", SERVICE, "account", provider].to_vec())
    } else {
        return None;
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}
