//! Retries of failed requests to models.

use pinion_protocol::provider::ProviderError;
use std::time::Duration;

/// Decides whether and when to retry a failed request. Applies to requests to models, never to tools.
pub trait RetryPolicy: Send + Sync {
    /// Returns the delay before retry number `attempt`, counted from 1; `None` gives up.
    fn delay(&self, error: &ProviderError, attempt: u32) -> Option<Duration>;

    /// Returns the maximum number of retries, for people.
    fn max_attempts(&self) -> u32;
}

/// Exponential backoff with jitter, for rate limits, overload and network errors only. A delay requested by the vendor
/// takes precedence, up to [`Backoff::max_server_delay`].
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// Maximum number of retries.
    pub max_attempts: u32,
    /// Delay before the first retry.
    pub initial: Duration,
    /// Factor between consecutive delays.
    pub factor: f64,
    /// Maximum delay.
    pub max: Duration,
    /// Maximum delay requested by a vendor; longer requests are not retried.
    pub max_server_delay: Duration,
    /// Range of the random factor applied to each delay.
    pub jitter: (f64, f64),
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            initial: Duration::from_secs(1),
            factor: 2.0,
            max: Duration::from_secs(30),
            max_server_delay: Duration::from_secs(300),
            jitter: (0.8, 1.2),
        }
    }
}

impl RetryPolicy for Backoff {
    fn delay(&self, error: &ProviderError, attempt: u32) -> Option<Duration> {
        if !error.is_retryable() || attempt > self.max_attempts {
            return None;
        }
        match error.retry_after() {
            Some(wanted) => Some(wanted).filter(|wanted| *wanted <= self.max_server_delay),
            None => Some(self.own_delay(attempt)),
        }
    }

    fn max_attempts(&self) -> u32 {
        self.max_attempts
    }
}

impl Backoff {
    fn own_delay(&self, attempt: u32) -> Duration {
        let power = self.factor.powi(i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX));
        let seconds = (self.initial.as_secs_f64() * power).min(self.max.as_secs_f64());
        let (low, high) = self.jitter;
        Duration::try_from_secs_f64(seconds * (low + (high - low) * fastrand::f64())).unwrap_or(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> ProviderError {
        ProviderError::Network { message: "gone".into() }
    }

    fn limited(retry_after: Option<Duration>) -> ProviderError {
        ProviderError::RateLimited { message: "slow down".into(), retry_after }
    }

    #[test]
    fn delays_grow_within_the_jitter_up_to_the_cap() {
        let policy = Backoff { max_attempts: 20, ..Backoff::default() };
        for attempt in 1..=20 {
            let nominal = (1 << (attempt - 1).min(10)).min(30) as f64;
            for _ in 0..500 {
                let delay = policy.delay(&network(), attempt).unwrap().as_secs_f64();
                assert!((nominal * 0.8..=nominal * 1.2).contains(&delay), "{attempt}: {delay}");
            }
        }
    }

    #[test]
    fn only_retryable_errors_are_retried_up_to_the_limit() {
        let policy = Backoff::default();
        assert!(policy.delay(&network(), 3).is_some() && policy.delay(&network(), 4).is_none());
        for error in [
            ProviderError::Auth { message: String::new() },
            ProviderError::Api { status: Some(400), message: String::new() },
            ProviderError::ContextOverflow { message: String::new() },
            ProviderError::Malformed { message: String::new() },
            ProviderError::Cancelled,
        ] {
            assert_eq!(policy.delay(&error, 1), None, "{error}");
        }
    }

    #[test]
    fn vendor_delay_applies_unless_too_long() {
        let policy = Backoff::default();
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(policy.delay(&limited(seconds(7)), 1), seconds(7));
        assert_eq!(policy.delay(&limited(seconds(3600)), 1), None);
    }
}
