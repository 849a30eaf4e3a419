//! All names, for tests.

pub(crate) use pinion_agent::approval::Approval;
pub(crate) use pinion_agent::channel::*;
pub(crate) use pinion_agent::compaction::*;
pub(crate) use pinion_agent::config::*;
pub(crate) use pinion_agent::hooks::*;
pub(crate) use pinion_agent::spawn::*;
pub(crate) use pinion_agent::{Agent, AgentError, Context};
pub(crate) use pinion_protocol::*;
