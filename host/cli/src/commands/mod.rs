//! The subcommands of `pinion`: one file or directory each.

pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod model;
pub(crate) mod plugin;
pub(crate) mod session;
pub(crate) mod trust;
