//! Anthropic's mark of a cache breakpoint, which routers adopted.

use pinion_protocol::CachePolicy;
use serde::Serialize;

/// A cache breakpoint on a block.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct CacheControl {
    r#type: &'static str,
}

/// A breakpoint with the vendor's default lifetime.
pub(crate) const EPHEMERAL: CacheControl = CacheControl { r#type: "ephemeral" };

/// The cache breakpoints to set, of the four that the vendor allows.
#[derive(Clone, Copy)]
pub(crate) struct CacheBreakpoints {
    pub(crate) system: bool,
    pub(crate) tools: bool,
    pub(crate) messages: bool,
}

impl CacheBreakpoints {
    pub(crate) const NONE: Self = Self { system: false, tools: false, messages: false };

    pub(crate) fn for_policy(policy: CachePolicy) -> Self {
        match policy {
            CachePolicy::Auto => Self { system: true, tools: true, messages: true },
            CachePolicy::Off => Self::NONE,
            CachePolicy::Manual { system, tools, messages } => Self { system, tools, messages },
        }
    }
}
