//! The place of secrets that Pinion stores: the operating system's keyring, or a private file if no keyring takes them.

use pinion_providers::{KeyError, PlatformKeyring};
use secrecy::SecretString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, path::Path};
use tokio::time::timeout;

/// A place of stored secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretLocation {
    /// The keyring of the system.
    Keyring,
    /// This private file.
    File(PathBuf),
}

impl fmt::Display for SecretLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyring => f.write_str("the keyring"),
            Self::File(path) => write!(f, "`{}`", path.display()),
        }
    }
}

/// The content of a private file for one account.
pub enum SecretFileEntry<'a> {
    /// The secret itself.
    Secret(&'a SecretString),
    /// The keyring has the secret.
    InKeyring,
}

/// The entry of one account in a private file.
pub trait FileEntry {
    /// The failure of a change.
    type Error;

    /// Returns the path of the file.
    fn path(&self) -> &Path;

    /// Replaces the entry.
    fn set(&self, entry: SecretFileEntry<'_>) -> Result<(), Self::Error>;
}

/// Stores the secret of an account in the keyring if it takes it within a time, and else in a file. Without a time, the
/// keyring is not asked. Returns the place, and the problem of a keyring that exists and does not work.
///
/// # Errors
/// The file cannot be changed.
pub async fn store<F: FileEntry>(
    account: &str,
    secret: &SecretString,
    file: &F,
    limit: Option<Duration>,
) -> Result<(SecretLocation, Option<KeyError>), F::Error> {
    let taken = match limit {
        Some(limit) => within(limit, PlatformKeyring.store(account, secret)).await,
        None => Ok(false),
    };
    if let Ok(true) = taken {
        // The secret would remain there unseen.
        file.set(SecretFileEntry::InKeyring)?;
        return Ok((SecretLocation::Keyring, None));
    }
    file.set(SecretFileEntry::Secret(secret))?;
    Ok((SecretLocation::File(file.path().to_owned()), taken.err()))
}

/// Gives a keyring limited time to answer.
///
/// # Errors
/// The keyring failed, or the time is over. Then its program is killed.
pub async fn within<T>(limit: Duration, answer: impl Future<Output = Result<T, KeyError>>) -> Result<T, KeyError> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", limit.as_secs()));
    timeout(limit, answer).await.unwrap_or_else(|_| Err(KeyError::Keyring { source: late() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[tokio::test]
    async fn keyring_that_does_not_answer_is_given_up() {
        let answer = within(Duration::ZERO, std::future::pending::<Result<(), KeyError>>()).await;
        assert_eq!(answer.unwrap_err().source().unwrap().to_string(), "no answer within 0 s");
    }
}
