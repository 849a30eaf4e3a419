//! The grants of a command that prints a key or a secret: `key-command-grants` of `[providers.NAME]`, and
//! `command-grants` of `[secrets.NAME]`.

use crate::config::absolute_path::AbsolutePath;
use serde::Deserialize;

/// Grants of one command. The usual tools work with the defaults of absent keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CommandGrants {
    /// Runs it in the sandbox; on by default.
    pub sandbox: Option<bool>,
    /// The network of the machine; on by default.
    pub network: Option<bool>,
    /// Credentials and sockets that it may use; by default all credentials, and the sockets of GnuPG.
    pub readable: Option<Vec<AbsolutePath>>,
    /// Directories that it may write to besides `/tmp`; by default the directories of the usual tools.
    pub writable: Option<Vec<AbsolutePath>>,
}
