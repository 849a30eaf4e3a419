//! The sources of API keys.
//!
//! [`KeySources`] searches four places in this order: the environment, the operating system's keyring, `auth.toml`, and a
//! user's command. The binary decides how to look up a variable, where the file is, and which command to run. A key in
//! the request itself ([`RequestOptions::api_key`]) takes precedence over all of them.
//!
//! Keys are [`SecretString`]s as soon as they are read: no debug output shows them, and their memory is cleared. No
//! error repeats a key, or the content of a file or the output of a command that should have been one.
//!
//! [`RequestOptions::api_key`]: pinion_protocol::RequestOptions::api_key

use crate::vendors::ProviderInfo;
pub use auth_file::AuthFile;
pub use command::{KeyCommand, KeyCommandLauncher, LaunchedKeyCommand, ShellLauncher};
use environment::Environment;
pub use error::{KeyCommandError, KeyError};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
pub use keyring::{Keyring, PlatformKeyring};
use secrecy::SecretString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

mod auth_file;
mod command;
mod environment;
mod error;
mod keyring;

/// A key and its source, which messages about a rejected key name.
#[derive(Debug, Clone)]
pub struct FoundKey {
    /// The key.
    pub secret: SecretString,
    /// The source of the key.
    pub origin: KeyOrigin,
}

/// A source of keys, queried before every request.
pub trait KeySource: Send + Sync + fmt::Debug {
    /// Returns the key for the next request; `None` when this source has no key. May read files and wait for programs,
    /// in bounded time; dropping the future stops both.
    fn key(&self) -> BoxFuture<'_, Result<Option<FoundKey>, KeyError>>;

    /// Called when the vendor rejects the last key, which must not be returned from a cache again.
    fn invalidate(&self) {}
}

/// The sources of one provider's key.
#[derive(Debug)]
pub struct KeySources {
    provider: &'static str,
    environment: Environment,
    keyring: Option<Arc<dyn Keyring>>,
    auth_file: Option<AuthFile>,
    command: Option<KeyCommand>,
}

impl KeySources {
    /// Creates a set of sources that is still empty.
    pub fn new(info: &'static ProviderInfo) -> Self {
        Self { provider: info.name, environment: Environment::new(info), keyring: None, auth_file: None, command: None }
    }

    /// Reads the provider's environment variables through `variable`, now; an empty value counts as unset.
    #[must_use]
    pub fn environment(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        self.environment.look_up(&|name| variable(name).filter(|value| !value.trim().is_empty()));
        self
    }

    /// Adds the file that Google's tools maintain (`~/.config/gcloud/application_default_credentials.json`), for
    /// `vertex`.
    #[must_use]
    pub fn google_default_credentials(mut self, path: PathBuf) -> Self {
        self.environment.google_default(path);
        self
    }

    /// The operating system's keyring.
    #[must_use]
    pub fn keyring(mut self, keyring: Arc<dyn Keyring>) -> Self {
        self.keyring = Some(keyring);
        self
    }

    /// Adds the user's key file, which need not exist.
    #[must_use]
    pub fn auth_file(mut self, path: PathBuf) -> Self {
        self.auth_file = Some(AuthFile::new(path));
        self
    }

    /// Adds a user's command that prints the key.
    #[must_use]
    pub fn command(mut self, command: KeyCommand) -> Self {
        self.command = Some(command);
        self
    }

    /// Returns the source of the next key; `None` when no source has one. Reads the file and queries the keyring, but
    /// does not run the user's command.
    ///
    /// # Errors
    /// A source could not be queried.
    pub async fn origin(&self) -> Result<Option<KeyOrigin>, KeyError> {
        Ok(self.find().await?.map(|key| key.origin).or(self.command.as_ref().map(|_| KeyOrigin::Command)))
    }

    /// Searches every source except the user's command.
    async fn find(&self) -> Result<Option<FoundKey>, KeyError> {
        if let Some((origin, secret)) = self.environment.key()? {
            return Ok(Some(FoundKey { secret, origin }));
        }
        if let Some(keyring) = &self.keyring
            && let Some(secret) = keyring.get(self.provider).await?
        {
            return Ok(Some(FoundKey { secret, origin: KeyOrigin::Keyring }));
        }
        let Some(file) = &self.auth_file else { return Ok(None) };
        let origin = KeyOrigin::AuthFile(file.path().to_owned());
        Ok(file.key(self.provider)?.map(|secret| FoundKey { secret, origin }))
    }
}

impl KeySource for KeySources {
    fn key(&self) -> BoxFuture<'_, Result<Option<FoundKey>, KeyError>> {
        async {
            match (self.find().await?, &self.command) {
                (Some(key), _) => Ok(Some(key)),
                (None, Some(command)) => {
                    let secret = command.key(self.provider).await?;
                    Ok(Some(FoundKey { secret, origin: KeyOrigin::Command }))
                }
                (None, None) => Ok(None),
            }
        }
        .boxed()
    }

    fn invalidate(&self) {
        if let Some(command) = &self.command {
            command.forget();
        }
    }
}

/// The source of a key, without the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyOrigin {
    /// The environment variable of this name.
    Environment(&'static str),
    /// A file that an environment variable names, or that the vendor's own tool maintains.
    File(PathBuf),
    /// The operating system's keyring.
    Keyring,
    /// `auth.toml`.
    AuthFile(PathBuf),
    /// The user's command, which was not run.
    Command,
}

impl fmt::Display for KeyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(name) => f.write_str(name),
            Self::File(path) | Self::AuthFile(path) => write!(f, "{}", path.display()),
            Self::Keyring => f.write_str("keyring"),
            Self::Command => f.write_str("key command"),
        }
    }
}
