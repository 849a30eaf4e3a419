//! The origin of a key, for display.

use std::fmt;
use std::path::PathBuf;

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
