//! Code of the application that the loop calls: hooks and the spawner of other runs.

pub(crate) mod hooks;
pub(crate) mod spawn;
