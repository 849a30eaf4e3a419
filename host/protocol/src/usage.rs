//! Token counts, prices and costs.

use serde::{Deserialize, Serialize};

/// Tokens of one or more requests.
///
/// `input` counts only tokens that were neither read from nor written to the vendor's cache, so the four counts never
/// overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that bypassed the cache.
    pub input: u64,
    /// Output tokens, including thinking.
    pub output: u64,
    /// Input tokens read from the cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Input tokens written to the cache.
    #[serde(default)]
    pub cache_write: u64,
}

impl Usage {
    /// Returns the sum of all four counts.
    pub fn total(&self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write]
            .iter()
            .fold(0, |sum, n| u64::saturating_add(sum, *n))
    }

    /// Returns all input tokens, cached or not, which is the size of the context.
    pub fn context(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Returns the input tokens that count towards a limit: all but those read from the cache, which would count the same
    /// conversation once per request.
    pub fn limited_input(&self) -> u64 {
        self.input.saturating_add(self.cache_write)
    }

    /// Returns the sum of both, category by category.
    #[must_use]
    pub fn combine(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }

    /// Returns the fraction of the input that was read from the cache, 0 to 1; 0 when there was no input.
    pub fn cache_hit_rate(&self) -> f64 {
        match self.context() {
            0 => 0.0,
            context => self.cache_read as f64 / context as f64,
        }
    }
}

/// The cost of requests in US dollars, by category.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Input tokens that bypassed the cache.
    pub input: f64,
    /// Output tokens, including thinking.
    pub output: f64,
    /// Input tokens read from the cache.
    pub cache_read: f64,
    /// Input tokens written to the cache.
    pub cache_write: f64,
}

impl Cost {
    /// Returns the sum of the categories.
    pub fn total(&self) -> f64 {
        self.input + self.output + self.cache_read + self.cache_write
    }

    /// Returns the sum of both, category by category.
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

/// Tokens and cost of requests to models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spend {
    /// Tokens of the requests.
    pub usage: Usage,
    /// Cost of the requests; `None` when no price is known.
    pub cost: Option<Cost>,
}

impl Spend {
    /// Adds the spend of other requests. An unknown cost adds nothing.
    pub fn add(&mut self, other: Self) {
        self.usage = self.usage.combine(&other.usage);
        if let Some(cost) = other.cost {
            self.cost = Some(self.cost.unwrap_or_default().combine(&cost));
        }
    }

    /// Returns the tokens that count towards a limit: all but those read from the vendor's cache.
    pub fn limited_tokens(&self) -> u64 {
        self.usage.total() - self.usage.cache_read
    }

    /// Returns the cost in US dollars; 0 when no price is known.
    pub fn dollars(&self) -> f64 {
        self.cost.map_or(0.0, |cost| cost.total())
    }
}

/// The requests of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of requests to models.
    pub requests: u64,
    /// Tokens and cost of these requests.
    #[serde(flatten)]
    pub spend: Spend,
}

impl Totals {
    /// Adds other requests.
    pub fn add(&mut self, requests: u64, spend: Spend) {
        self.requests += requests;
        self.spend.add(spend);
    }
}

/// Computes the cost of requests to a model.
pub trait PriceList: std::fmt::Debug + Send + Sync {
    /// Returns the cost of one request; `None` when it is unknown. `model` is the model that the reply names, which
    /// differs from the requested one after a fallback.
    fn cost(&self, model: &str, usage: &Usage) -> Option<Cost>;
}

impl PriceList for Prices {
    fn cost(&self, _: &str, usage: &Usage) -> Option<Cost> {
        Some(Prices::cost(self, usage))
    }
}

/// Flat prices of a model's tokens, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Input tokens that bypassed the cache.
    pub input: f64,
    /// Output tokens, including thinking.
    pub output: f64,
    /// Input tokens read from the cache.
    #[serde(default)]
    pub cache_read: f64,
    /// Input tokens written to the cache.
    #[serde(default)]
    pub cache_write: f64,
}

impl Prices {
    /// Returns the cost of `usage`.
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
    fn cache_hit_rate_is_relative_to_all_input() {
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

    #[test]
    fn each_category_of_tokens_has_its_own_price() {
        let prices = Prices { input: 3.0, output: 15.0, cache_read: 0.5, cache_write: 4.0 };
        let usage = Usage { input: 1_000_000, output: 2_000_000, cache_read: 3_000_000, cache_write: 4_000_000 };
        let cost = prices.cost(&usage);
        assert_eq!((cost.input, cost.output, cost.cache_read, cost.cache_write), (3.0, 30.0, 1.5, 16.0));
        assert!((cost.total() - 50.5).abs() < 1e-9);
    }
}
