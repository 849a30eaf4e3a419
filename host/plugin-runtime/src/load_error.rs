//! Failures to load a component.

use crate::manifest::ManifestError;
use pinion_plugin_engine::{CompileError, ReadError};
use pinion_plugin_limits::{FaultKind, PluginFault, ShareExceeded, format_bytes, format_count, write_details};
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

/// A component was not loaded. A generation that was loaded before stays.
///
/// `{}` formats the message; `{:#}` adds the causes and a line with [`LoadError::hint`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    Read(ReadError),
    /// The bytes are not a plugin for this host.
    Manifest(ManifestError),
    /// The component cannot be compiled or linked.
    Link {
        /// The step that failed.
        message: String,
        /// The error of the engine or of the system; `None` when `message` says everything.
        source: Option<Arc<dyn Error + Send + Sync>>,
    },
    /// The plugin broke down or failed its self-test while it listed its tools and commands.
    Fault(PluginFault),
    /// Loading exceeded a limit. Neither the manifest nor the config raises it.
    Limit(String),
    /// Compiling exceeded a limit of the engine.
    Compile {
        /// The limit.
        message: String,
        /// Its key in `[engine.limits]`.
        key: &'static str,
    },
    /// The plugin offers something invalid.
    Offer(String),
    /// The name belongs to a built-in plugin.
    Reserved {
        /// The name in the manifest.
        name: String,
        /// The built-in plugin.
        built_in: String,
    },
    /// The user disabled the plugin of this name.
    Disabled(String),
    /// A reload brought another name.
    Renamed {
        /// The name of the loaded generation.
        from: String,
        /// The name in the new manifest.
        to: String,
    },
    /// The policy refused the component.
    Policy(String),
    /// Another plugin already has the name.
    Collision {
        /// The name.
        name: String,
    },
    /// The name looks like another plugin's name.
    LookAlike {
        /// The name.
        name: String,
        /// The other plugin.
        other: String,
    },
}

impl LoadError {
    /// A step of compiling or linking failed because of `source`.
    pub(crate) fn link(message: &str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Link { message: message.to_owned(), source: Some(Arc::from(source.into())) }
    }

    /// Converts the fault of a plugin that was asked for its offer. The limits of loading apply, which cannot be
    /// raised.
    pub(crate) fn from_fault(fault: PluginFault) -> Self {
        let limit = match &fault.kind {
            FaultKind::Fuel { limit } => format!("more than {} fuel", format_count(*limit)),
            FaultKind::Deadline { limit_ms } => format!("more than {limit_ms} ms"),
            FaultKind::Memory { limit, .. } => format!("more than {} of memory", format_bytes(*limit)),
            FaultKind::Table { limit, .. } => format!("more than {limit} table elements"),
            FaultKind::Output { limit, .. } | FaultKind::HostCallBytes { limit } => {
                format!("more than {} of output", format_bytes(*limit))
            }
            FaultKind::HostCalls { limit } => format!("more than {limit} calls of the host"),
            FaultKind::Handles { limit } => format!("more than {limit} open handles"),
            _ => return Self::Fault(fault),
        };
        Self::Limit(format!("plugin `{}` needs {limit} to list what it offers", fault.plugin))
    }

    /// The change that makes the component load, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Fault(fault) => fault.hint(),
            Self::Limit(_) => Some(
                "the limits of loading are fixed: do less in `init`, `self-test` and the lists of tools and commands"
                    .to_owned(),
            ),
            Self::Compile { key, .. } => Some(format!("raise `{key}` in [engine.limits] of the config")),
            Self::Reserved { .. } => Some("give the plugin another name in its manifest".to_owned()),
            Self::Disabled(name) => Some(format!("remove `enabled = false` from [plugins.{name}]")),
            Self::Renamed { .. } => Some("restart pinion to load it under its new name".to_owned()),
            Self::Collision { .. } | Self::LookAlike { .. } => Some("load only one of the two plugins".to_owned()),
            Self::Read(_) | Self::Manifest(_) | Self::Link { .. } | Self::Offer(_) | Self::Policy(_) => None,
        }
    }

    fn write_message(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Manifest(error) => error.fmt(f),
            Self::Fault(fault) => write!(f, "{fault}"),
            Self::Link { message, .. }
            | Self::Limit(message)
            | Self::Compile { message, .. }
            | Self::Offer(message)
            | Self::Policy(message) => f.write_str(message),
            Self::Reserved { name, built_in } => {
                write!(f, "the name `{name}` is reserved for the built-in plugin `{built_in}`")
            }
            Self::Disabled(name) => write!(f, "plugin `{name}` is disabled in the config"),
            Self::Renamed { from, to } => write!(f, "the file now holds plugin `{to}` instead of `{from}`"),
            Self::Collision { name } => write!(f, "a plugin `{name}` is already there"),
            Self::LookAlike { name, other } => write!(f, "the name `{name}` looks like that of plugin `{other}`"),
        }
    }
}

impl Display for LoadError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.write_message(f)?;
        write_details(f, self.source(), self.hint().as_ref().map(|hint| hint as &dyn Display))
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Link { source: Some(source), .. } => Some(&**source),
            _ => None,
        }
    }
}

impl From<ReadError> for LoadError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<ManifestError> for LoadError {
    fn from(error: ManifestError) -> Self {
        Self::Manifest(error)
    }
}

impl From<ShareExceeded> for LoadError {
    fn from(exceeded: ShareExceeded) -> Self {
        Self::Limit(exceeded.to_string())
    }
}

impl From<CompileError> for LoadError {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Process { message, source } => Self::link(message, source),
            CompileError::Limit { message, key } => Self::Compile { message, key },
            CompileError::Invalid(message) => Self::Link { message, source: None },
        }
    }
}
