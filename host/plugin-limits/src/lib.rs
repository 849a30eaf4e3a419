//! Limits of plugins, and the faults of exceeding them.
//!
//! `limits.toml` has the limits of a call, of loading and of the engine ([`Limits`], [`EngineLimits`]). [`Limiter`] and
//! [`Deadline`] hold one call to its limits. Resources that all plugins need are shared out: memory, threads and places by
//! [`Share`], the right to run by [`Permits`], file descriptors by [`Descriptors`]. A call that breaks down ends with a
//! [`PluginFault`], which names the plugin, the limit and the line of the config that raises it. [`component_sizes`] bounds
//! a component before anything is compiled.
//!
//! Errors format their message with `{}`; `{:#}` adds the causes and a last line `hint: …` with the remedy.

mod backtrace;
pub mod component_sizes;
mod deadline;
mod descriptors;
mod fault;
mod limiter;
mod limits;
mod permits;
mod shares;
mod turns;

pub use deadline::{CallClock, Deadline, Stopped};
pub use descriptors::{DescriptorPermit, DescriptorShare, Descriptors, are_handles_used_up};
pub use fault::{
    Circumstances, Exceeded, FaultKind, GuestError, PluginFault, format_bytes, format_count, write_details,
};
pub use limiter::{Limiter, ReservedMemory};
pub use limits::{EngineLimits, HOOK_MS, Limits, LimitsFile, PartialLimits};
pub use permits::{Permits, Waits, cores};
pub use shares::{IdlePlace, MAX_PLUGINS, ResidentPermit, Share, ShareExceeded, SharedCounts, Spinning};
pub use turns::TurnPermit;
