//! Where keys come from.
//!
//! [`Keys`] looks in four places, in this order: the environment, the operating system's keyring, `auth.toml`, and a
//! command of the user's. None of them is found here: the binary passes in how to look up a variable, where the file is,
//! and what to run. A key that a request brings itself ([`RequestOptions::api_key`]) counts more than all of them.
//!
//! Keys are [`SecretString`]s from the moment they are read: no debug print shows them, and memory that held one is
//! cleared. No error repeats one, nor what a file or a command that should have held one did hold.
//!
//! [`RequestOptions::api_key`]: pinion_protocol::RequestOptions::api_key

mod auth_file;
mod command;
mod environment;
mod keyring;

pub use auth_file::AuthFile;
pub use command::KeyCommand;
pub use keyring::{Keyring, PlatformKeyring};

use crate::vendors::ProviderInfo;
use environment::Environment;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A place that keys come from. Asked before every request.
pub trait KeySource: Send + Sync + fmt::Debug {
    /// The key for the next request; none when this place has none. May read files and wait for programs, in bounded
    /// time; dropping the future ends both.
    fn key(&self) -> BoxFuture<'_, Result<Option<SecretString>, KeyError>>;

    /// The vendor refused the last key: one that was kept is not to be given again.
    fn refused(&self) {}
}

/// A key could not be had from a place that should have it.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file could not be read.
    #[error("could not read `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Others may read the file.
    #[error("`{}` may be read by others (mode {mode:04o}); `chmod 600` it", path.display())]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file is not TOML of the form that [`AuthFile`] describes.
    #[error("`{}` does not hold keys as it should, in line {line}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The operating system's keyring did not answer.
    #[error("could not ask the keyring: {reason}")]
    Keyring {
        /// Why.
        reason: String,
    },
    /// The user's command gave no key.
    #[error("the key command for `{provider}` {reason}")]
    Command {
        /// The provider.
        provider: &'static str,
        /// What happened to it.
        reason: String,
    },
}

/// Where a key would come from. Says nothing of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyOrigin {
    /// The environment variable of this name.
    Environment(&'static str),
    /// A file that an environment variable names, or a vendor's own tool keeps.
    File(PathBuf),
    /// The operating system's keyring.
    Keyring,
    /// `auth.toml`.
    AuthFile(PathBuf),
    /// A command of the user's, which was not run.
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

/// The places for the keys of one provider.
#[derive(Debug)]
pub struct Keys {
    provider: &'static str,
    environment: Environment,
    keyring: Option<Arc<dyn Keyring>>,
    auth_file: Option<AuthFile>,
    command: Option<KeyCommand>,
}

impl Keys {
    /// No places yet.
    pub fn new(info: &'static ProviderInfo) -> Self {
        Self { provider: info.name, environment: Environment::new(info), keyring: None, auth_file: None, command: None }
    }

    /// Looks up the provider's variables by `variable`, at once. An empty one is none.
    #[must_use]
    pub fn environment(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        self.environment.look_up(&|name| variable(name).filter(|value| !value.trim().is_empty()));
        self
    }

    /// The file that Google's own tools keep (`~/.config/gcloud/application_default_credentials.json`), for `vertex`.
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

    /// The user's file of keys. It need not exist.
    #[must_use]
    pub fn auth_file(mut self, path: PathBuf) -> Self {
        self.auth_file = Some(AuthFile::new(path));
        self
    }

    /// A command of the user's that prints the key.
    #[must_use]
    pub fn command(mut self, command: KeyCommand) -> Self {
        self.command = Some(command);
        self
    }

    /// Where the next key would come from; none when no place has one. Reads the file and asks the keyring, but runs no
    /// command of the user's.
    ///
    /// # Errors
    /// A place that may have one could not be asked.
    pub async fn origin(&self) -> Result<Option<KeyOrigin>, KeyError> {
        Ok(self.find().await?.map(|(origin, _)| origin).or(self.command.as_ref().map(|_| KeyOrigin::Command)))
    }

    /// What is found without running the user's command.
    async fn find(&self) -> Result<Option<(KeyOrigin, SecretString)>, KeyError> {
        if let Some(found) = self.environment.key()? {
            return Ok(Some(found));
        }
        if let Some(keyring) = &self.keyring
            && let Some(key) = keyring.get(self.provider).await?
        {
            return Ok(Some((KeyOrigin::Keyring, key)));
        }
        let Some(file) = &self.auth_file else { return Ok(None) };
        Ok(file.key(self.provider)?.map(|key| (KeyOrigin::AuthFile(file.path().to_owned()), key)))
    }
}

impl KeySource for Keys {
    fn key(&self) -> BoxFuture<'_, Result<Option<SecretString>, KeyError>> {
        async {
            match (self.find().await?, &self.command) {
                (Some((_, key)), _) => Ok(Some(key)),
                (None, Some(command)) => command.key(self.provider).await.map(Some),
                (None, None) => Ok(None),
            }
        }
        .boxed()
    }

    fn refused(&self) {
        if let Some(command) = &self.command {
            command.forget();
        }
    }
}
