//! What a call can do to the world: what is approved, and what is cut down on the way from one to another.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a call can do to the world.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Authority {
    /// Read files.
    pub reads: bool,
    /// Create, change or remove files.
    pub writes: bool,
    /// Run programs.
    pub executes: bool,
    /// Talk to the network.
    pub network: bool,
    /// Lose data that cannot be brought back.
    pub destructive: bool,
    /// Start sub-agents. What they do is asked about call by call, as what the agent itself does.
    #[serde(default)]
    pub delegates: bool,
}

impl Authority {
    /// Only to read files.
    pub const READ_ONLY: Self =
        Self { reads: true, writes: false, executes: false, network: false, destructive: false, delegates: false };

    /// Everything.
    pub const ALL: Self =
        Self { reads: true, writes: true, executes: true, network: true, destructive: true, delegates: true };

    /// What both allow.
    #[must_use]
    pub fn cut_to(self, most: Self) -> Self {
        Self {
            reads: self.reads && most.reads,
            writes: self.writes && most.writes,
            executes: self.executes && most.executes,
            network: self.network && most.network,
            destructive: self.destructive && most.destructive,
            delegates: self.delegates && most.delegates,
        }
    }

    /// Can it do nothing that the other one cannot? How bad its changes may be does not count, only which there are.
    pub fn is_within(self, most: Self) -> bool {
        self.cut_to(Self { destructive: true, ..most }) == self
    }

    /// Nothing outside the call can come to harm, and nothing can leave the machine.
    pub fn is_harmless(self) -> bool {
        !(self.writes || self.executes || self.network)
    }

    /// In words: `reads files`, `writes files`, `runs programs`, `uses the network`, `starts agents`.
    pub fn words(self) -> Vec<&'static str> {
        [
            (self.reads && !self.writes, "reads files"),
            (self.writes, "writes files"),
            (self.executes, "runs programs"),
            (self.network, "uses the network"),
            (self.delegates, "starts agents"),
        ]
        .into_iter()
        .filter_map(|(has, word)| has.then_some(word))
        .collect()
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({})", self.words().join(", "))
    }
}
