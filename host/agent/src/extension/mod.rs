//! Code of the application that the loop calls: hooks and the spawner of other runs.

pub mod hooks;
pub mod spawn;
