//! The operating system's keyring.

use super::KeyError;
use super::command::{Output, run};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use std::fmt;
use std::time::Duration;
use tokio::process::Command;

/// The name under which keys are kept.
const SERVICE: &str = "pinion";

/// A keyring may ask its user to unlock it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A keyring.
pub trait Keyring: Send + Sync + fmt::Debug {
    /// The key that is kept for a provider; none when there is none, and when there is no keyring at all.
    fn get<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<Option<SecretString>, KeyError>>;
}

/// The platform's keyring, by the platform's own program: `secret-tool` (libsecret) on Linux, `security` on macOS.
///
/// Put a key there with `secret-tool store --label pinion service pinion account PROVIDER`, or
/// `security add-generic-password -s pinion -a PROVIDER -w`. Where the program is missing there is no keyring.
///
/// Why no crate: the kept one (`keyring` 4) brings in D-Bus in Rust and the cryptography of its sessions, about a hundred
/// crates for one value that these programs print; an application that wants it implements [`Keyring`] in ten lines.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlatformKeyring;

impl Keyring for PlatformKeyring {
    fn get<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<Option<SecretString>, KeyError>> {
        async move {
            let Some(command) = platform_command(provider) else { return Ok(None) };
            match run(command, PATIENCE).await {
                Ok(Output { status, text }) => Ok(text.filter(|_| status.success())),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(KeyError::Keyring { reason: error.to_string() }),
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
