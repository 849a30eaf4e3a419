//! The effects that a call may have. Approval is decided on them, and delegation reduces them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The set of effects that a call may have.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Authority {
    /// Reads files.
    pub reads: bool,
    /// Creates, changes or removes files.
    pub writes: bool,
    /// Runs programs.
    pub executes: bool,
    /// Uses the network.
    pub network: bool,
    /// Risks the irrecoverable loss of data.
    pub destructive: bool,
    /// Starts sub-agents. Each of their calls needs its own approval, like the agent's own calls.
    #[serde(default)]
    pub delegates: bool,
}

impl Authority {
    /// Reads files and does nothing else.
    pub const READ_ONLY: Self =
        Self { reads: true, writes: false, executes: false, network: false, destructive: false, delegates: false };

    /// Every effect.
    pub const ALL: Self =
        Self { reads: true, writes: true, executes: true, network: true, destructive: true, delegates: true };

    /// Returns the effects that both allow.
    #[must_use]
    pub fn cut_to(self, limit: Self) -> Self {
        Self {
            reads: self.reads && limit.reads,
            writes: self.writes && limit.writes,
            executes: self.executes && limit.executes,
            network: self.network && limit.network,
            destructive: self.destructive && limit.destructive,
            delegates: self.delegates && limit.delegates,
        }
    }

    /// Returns the effects that either allows.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            reads: self.reads || other.reads,
            writes: self.writes || other.writes,
            executes: self.executes || other.executes,
            network: self.network || other.network,
            destructive: self.destructive || other.destructive,
            delegates: self.delegates || other.delegates,
        }
    }

    /// Returns whether `limit` allows each of these effects. Ignores `destructive`, which grades the other effects.
    pub fn is_within(self, limit: Self) -> bool {
        self.cut_to(Self { destructive: true, ..limit }) == self
    }

    /// Returns whether a call can neither change anything outside itself nor send anything off the machine.
    pub fn is_harmless(self) -> bool {
        !(self.writes || self.executes || self.network)
    }

    /// Returns the effects in words: `reads files`, `writes files`, `runs programs`, `uses the network`, `asks models or
    /// starts agents`.
    pub fn effect_names(self) -> Vec<&'static str> {
        [
            (self.reads && !self.writes, "reads files"),
            (self.writes, "writes files"),
            (self.executes, "runs programs"),
            (self.network, "uses the network"),
            (self.delegates, "asks models or starts agents"),
        ]
        .into_iter()
        .filter_map(|(has, word)| has.then_some(word))
        .collect()
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({})", self.effect_names().join(", "))
    }
}
