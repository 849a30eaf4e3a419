//! The operating system's keyring.

use super::command::{Output, run};
use super::error::KeyError;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use std::fmt;
use std::time::Duration;
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
/// Store a key with `secret-tool store --label pinion service pinion account PROVIDER`, or `security
/// add-generic-password -s pinion -a PROVIDER -w`. A missing program counts as a missing keyring.
///
/// The crate `keyring` 4 would add D-Bus and its session cryptography, about a hundred crates, for a value that these
/// programs print. An application that prefers it implements [`Keyring`] in ten lines.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlatformKeyring;

impl Keyring for PlatformKeyring {
    fn get<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<Option<SecretString>, KeyError>> {
        async move {
            let Some(command) = platform_command(provider) else { return Ok(None) };
            match run(command, TIMEOUT).await {
                Ok(Output { status, text }) => Ok(text.filter(|_| status.success())),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(source) => Err(KeyError::Keyring { source }),
            }
        }
        .boxed()
    }
}

fn platform_command(provider: &str) -> Option<Command> {
    let (program, arguments) = if cfg!(target_os = "macos") {
        ("/usr/bin/security", ["find-generic-password", "-s", SERVICE, "-a", provider, "-w"].to_vec())
    } else if cfg!(target_os = "linux") {
        ("secret-tool", ["lookup", "service", SERVICE, "account", provider].to_vec())
    } else {
        return None;
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}
