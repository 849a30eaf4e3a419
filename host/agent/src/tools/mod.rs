//! Tool calls: which tools there are, whether a call fits its schema and may run, and how the calls of a message run.

pub(crate) mod dispatch;
mod result;
pub(crate) mod services;
