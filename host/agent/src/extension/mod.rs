//! Code that the loop calls: hooks of the application and of plugins, and the spawner of other runs.

pub mod hooks;
pub(crate) mod plugin_hooks;
pub mod spawn;
