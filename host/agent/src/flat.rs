//! All names, for tests.

pub(crate) use crate::approval::Approval;
pub(crate) use crate::channel::*;
pub(crate) use crate::compaction::*;
pub(crate) use crate::config::*;
pub(crate) use crate::hooks::*;
pub(crate) use crate::schema::Schemas;
pub(crate) use crate::snapshot::*;
pub(crate) use crate::spawn::*;
pub(crate) use pinion_protocol::*;
