//! Tokens and money.

use serde::{Deserialize, Serialize};

/// Tokens of one request, or of many.
///
/// `input` counts only tokens that were neither read from nor written to the vendor's cache, so the four counts add up
/// and never overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Fresh input.
    pub input: u64,
    /// Output, thinking included.
    pub output: u64,
    /// Input that came from the cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Input that was written to the cache.
    #[serde(default)]
    pub cache_write: u64,
}

impl Usage {
    /// All tokens.
    pub fn total(&self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write]
            .iter()
            .fold(0, |sum, n| u64::saturating_add(sum, *n))
    }

    /// All input, cached or not: what the context window holds.
    pub fn context(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// The sum of both.
    #[must_use]
    pub fn combine(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }

    /// The share of the input that came from the cache, 0 to 1; 0 when there was no input.
    pub fn cache_hit_rate(&self) -> f64 {
        match self.context() {
            0 => 0.0,
            context => self.cache_read as f64 / context as f64,
        }
    }
}

/// US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Fresh input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input from the cache.
    pub cache_read: f64,
    /// Input to the cache.
    pub cache_write: f64,
}

impl Cost {
    /// The sum of the categories.
    pub fn total(&self) -> f64 {
        self.input + self.output + self.cache_read + self.cache_write
    }

    /// The sum of both.
    #[must_use]
    pub fn combine(&self, other: &Self) -> Self {
        Self {
            input: self.input + other.input,
            output: self.output + other.output,
            cache_read: self.cache_read + other.cache_read,
            cache_write: self.cache_write + other.cache_write,
        }
    }
}

/// The tokens and the money that requests to models took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spend {
    /// Tokens of the requests.
    pub usage: Usage,
    /// Their cost; none when no price was known.
    pub cost: Option<Cost>,
}

impl Spend {
    /// Adds what other requests took. A cost that is not known adds nothing.
    pub fn add(&mut self, other: Self) {
        self.usage = self.usage.combine(&other.usage);
        if let Some(cost) = other.cost {
            self.cost = Some(self.cost.unwrap_or_default().combine(&cost));
        }
    }

    /// Returns the tokens that count against a limit: all but those that came from the vendor's cache.
    pub fn limited_tokens(&self) -> u64 {
        self.usage.total() - self.usage.cache_read
    }

    /// Returns the cost in US dollars; 0 when no price was known.
    pub fn dollars(&self) -> f64 {
        self.cost.map_or(0.0, |cost| cost.total())
    }
}

/// Knows what a model's tokens cost.
pub trait PriceList: std::fmt::Debug + Send + Sync {
    /// What one request costs; none when that is not known. `model` is the one that answered, as the reply names it,
    /// which is another one than was asked when a fallback took over.
    fn cost(&self, model: &str, usage: &Usage) -> Option<Cost>;
}

impl PriceList for Prices {
    fn cost(&self, _: &str, usage: &Usage) -> Option<Cost> {
        Some(Prices::cost(self, usage))
    }
}

/// What a model's tokens cost, however many: US dollars a million.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Fresh input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input from the cache.
    #[serde(default)]
    pub cache_read: f64,
    /// Input to the cache.
    #[serde(default)]
    pub cache_write: f64,
}

impl Prices {
    /// What `usage` costs.
    pub fn cost(&self, usage: &Usage) -> Cost {
        let price = |tokens: u64, per_million: f64| tokens as f64 * per_million / 1e6;
        Cost {
            input: price(usage.input, self.input),
            output: price(usage.output, self.output),
            cache_read: price(usage.cache_read, self.cache_read),
            cache_write: price(usage.cache_write, self.cache_write),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_saturate() {
        let a = Usage { input: 1, output: 2, cache_read: 3, cache_write: 4 };
        assert_eq!(a.total(), 10);
        assert_eq!(a.combine(&a).total(), 20);
        let huge = Usage { input: u64::MAX, ..a };
        assert_eq!(huge.combine(&huge).input, u64::MAX);
        assert_eq!(huge.total(), u64::MAX);
    }

    #[test]
    fn the_cache_hit_rate_is_of_all_input() {
        let usage = Usage { input: 10, output: 99, cache_read: 70, cache_write: 20 };
        assert!((usage.cache_hit_rate() - 0.7).abs() < 1e-9);
        assert_eq!(Usage::default().cache_hit_rate(), 0.0);
    }

    #[test]
    fn prices_are_per_million() {
        let prices = Prices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };
        let usage = Usage { input: 1_000_000, output: 100_000, cache_read: 0, cache_write: 0 };
        assert!((prices.cost(&usage).total() - 4.5).abs() < 1e-9);
    }
}
