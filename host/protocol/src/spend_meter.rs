//! Sums of spend with their own limits, which outlast single runs or belong to parts of one.

use crate::outcome::Limit;
use crate::usage::Spend;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Adds up spend and knows the limit of the sum. Everything that counts against the limit shares it.
pub trait SpendMeter: fmt::Debug + Send + Sync {
    /// Adds the spend of a request.
    fn add(&self, spend: Spend);

    /// Returns the limit if it is reached.
    fn reached(&self) -> Option<MeterLimit>;
}

/// A limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterLimit {
    /// The limit.
    pub limit: Limit,
    /// The user's setting, such as `agents.max-cost`.
    pub setting: String,
}

impl fmt::Display for MeterLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (`{}`)", self.limit, self.setting)
    }
}

/// A sum in memory.
#[derive(Debug)]
pub struct CappedSpend {
    limit: MeterLimit,
    spent: Mutex<Spend>,
}

impl CappedSpend {
    /// Creates an empty sum. Limits of turns and time are never reached.
    pub fn new(limit: Limit, setting: impl Into<String>) -> Self {
        Self { limit: MeterLimit { limit, setting: setting.into() }, spent: Mutex::default() }
    }

    /// Locks the sum. A panic leaves it consistent, so poisoning is ignored.
    fn spent(&self) -> MutexGuard<'_, Spend> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpendMeter for CappedSpend {
    fn add(&self, spend: Spend) {
        self.spent().add(spend);
    }

    fn reached(&self) -> Option<MeterLimit> {
        let spent = *self.spent();
        let is_reached = match self.limit.limit {
            Limit::Tokens(max) => spent.limited_tokens() >= max,
            Limit::InputTokens(max) => spent.usage.limited_input() >= max,
            Limit::OutputTokens(max) => spent.usage.output >= max,
            Limit::Cost(max) => spent.dollars() >= max,
            Limit::Turns(_) | Limit::Time(_) => false,
        };
        is_reached.then(|| self.limit.clone())
    }
}
