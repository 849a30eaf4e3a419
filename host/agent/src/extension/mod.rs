//! Code of the application that the loop calls: hooks, input filters, and the spawner of other runs.

pub(crate) mod filter;
pub(crate) mod hooks;
pub(crate) mod spawn;
