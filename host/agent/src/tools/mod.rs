//! Tool calls: which tools there are, whether a call fits its schema and may run, and how the calls of a message run.

pub(crate) mod approval;
pub(crate) mod dispatch;
mod question_time;
mod result;
pub(crate) mod schema;
pub(crate) mod services;
