//! The expected cost of the next request.

use pinion_protocol::{PriceList, Usage};
use std::time::{Duration, SystemTime};

/// Time after which vendors drop a cached prompt that no request reads. Some keep it longer.
pub const CACHE_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// Factor between the cost of a turn and its forecast that is worth a notice.
const EXCESS: f64 = 3.0;
/// US dollars below which no turn is worth a notice.
const LEAST_DOLLARS: f64 = 0.01;
/// Tokens below which no turn is worth a notice, where no price is known.
const LEAST_TOKENS: f64 = 10_000.0;

/// The next request of a conversation, if nothing in it changes.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestForecast {
    /// Tokens that it sends, without the next prompt.
    pub input: u64,
    /// Tokens of these that the vendor's cache holds.
    pub cached: u64,
    /// Tokens of the reply: the mean of the replies so far.
    pub output: u64,
    /// Its cost in US dollars; `None` where no price is known.
    pub cost: Option<f64>,
    /// Its cost if the cache holds nothing.
    pub cost_without_cache: Option<f64>,
    /// The time at which the cache expires; `None` if it holds nothing.
    pub expires: Option<SystemTime>,
}

impl RequestForecast {
    /// Forecasts a request from the last one, which ended at `ended` and whose reply had `output` tokens on average.
    pub(crate) fn after(
        last: &Usage,
        output: u64,
        ended: SystemTime,
        model: &str,
        prices: Option<&dyn PriceList>,
    ) -> Self {
        let input = last.context().saturating_add(last.output);
        let cached = last.cache_read.saturating_add(last.cache_write);
        let rest = input.saturating_sub(cached);
        let cost = |usage: Usage| prices.and_then(|prices| prices.cost(model, &usage)).map(|cost| cost.total());
        let new = |tokens| match last.cache_write {
            0 => Usage { input: tokens, output, ..Usage::default() },
            _ => Usage { cache_write: tokens, output, ..Usage::default() },
        };
        Self {
            input,
            cached,
            output,
            cost: cost(Usage { cache_read: cached, ..new(rest) }),
            cost_without_cache: cost(new(input)),
            expires: (cached > 0).then(|| ended + CACHE_LIFETIME),
        }
    }

    /// Returns the tokens that count towards a limit: all but those read from the cache.
    pub fn limited_tokens(&self) -> u64 {
        self.input.saturating_sub(self.cached).saturating_add(self.output)
    }
}

/// Returns whether a turn cost so much more than its forecast that the user should know: in US dollars if both are
/// known, otherwise in tokens.
pub fn exceeds_forecast(dollars: Option<f64>, tokens: u64, forecast: (Option<f64>, u64)) -> bool {
    match (dollars, forecast.0) {
        (Some(spent), Some(expected)) => spent >= LEAST_DOLLARS && spent > expected * EXCESS,
        _ => tokens as f64 >= LEAST_TOKENS && tokens as f64 > forecast.1 as f64 * EXCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_protocol::Prices;

    #[test]
    fn forecast_is_cheap_until_the_cache_expires() {
        let prices = Prices { input: 10.0, output: 0.0, cache_read: 1.0, cache_write: 10.0 };
        let last = Usage { input: 0, output: 100, cache_read: 90_000, cache_write: 9_900 };
        let ended = SystemTime::UNIX_EPOCH;
        let forecast = RequestForecast::after(&last, 50, ended, "m", Some(&prices));
        assert_eq!((forecast.input, forecast.cached, forecast.limited_tokens()), (100_000, 99_900, 150));
        assert!((forecast.cost.unwrap() - 0.1009).abs() < 1e-9, "{forecast:?}");
        assert!((forecast.cost_without_cache.unwrap() - 1.0).abs() < 1e-9, "{forecast:?}");
        assert_eq!(forecast.expires, Some(ended + CACHE_LIFETIME));
        let uncached = RequestForecast::after(&Usage { input: 5, ..Usage::default() }, 0, ended, "m", None);
        assert_eq!((uncached.expires, uncached.cost), (None, None));
    }

    #[test]
    fn only_a_large_excess_is_worth_a_notice() {
        assert!(exceeds_forecast(Some(0.31), 0, (Some(0.1), 0)));
        assert!(!exceeds_forecast(Some(0.29), u64::MAX, (Some(0.1), 0)));
        assert!(!exceeds_forecast(Some(0.009), 0, (Some(0.000_1), 0)), "too little to matter");
        assert!(exceeds_forecast(None, 31_000, (None, 10_000)));
        assert!(!exceeds_forecast(None, 9_000, (None, 10)));
    }
}
