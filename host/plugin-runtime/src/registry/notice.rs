//! Notices about plugins, for the application.

use crate::load_error::LoadError;
use pinion_protocol::HookPoint;

/// A plugin was loaded, refused, restricted or removed.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The name of the plugin, or of its file while the plugin's name is unknown.
    pub plugin: String,
    /// The source: `built-in`, or the path of the file.
    pub source: String,
    /// The change.
    pub event: NoticeEvent,
}

/// A change of a plugin.
#[derive(Debug, Clone)]
pub enum NoticeEvent {
    /// Its code is being compiled, which takes more than a moment and happens once. Calls of other plugins do not wait.
    Compiling,
    /// This generation answers from now on.
    Loaded {
        /// The number of the generation, counted from 1.
        generation: u32,
        /// The version in its manifest.
        version: String,
    },
    /// It was not loaded. An earlier generation, if there is one, keeps answering.
    Refused(LoadError),
    /// Some of its grants are not in effect. The text gives the reason, with a hint.
    HeldBack(String),
    /// Tools or commands of its load were left out, because other plugins have their names. The text names both.
    LeftOut(String),
    /// A list of tools and commands that it offers while it runs was refused or cut. The text says why, with a hint where
    /// there is one.
    Offer(String),
    /// A hook failed outside a run. Reported once for each plugin.
    HookFailed {
        /// The point.
        point: HookPoint,
        /// The error.
        problem: String,
    },
    /// Its file is gone, and so is the plugin.
    Removed,
}
