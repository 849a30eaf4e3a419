//! Tool calls: which tools there are, whether a call fits its schema and may run, and how the calls of a message run.

pub(crate) mod approval;
mod asking;
pub(crate) mod dispatch;
pub(crate) mod repetition;
mod result;
pub(crate) mod schema;
